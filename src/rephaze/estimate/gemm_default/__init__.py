"""GEMMs under model ``default``: tiles of any size, the fastest mapping."""
