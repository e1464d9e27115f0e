"""GEMMs under model ``paper``: tiles that divide the problem, the least energy-delay product."""
