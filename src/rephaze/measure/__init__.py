"""One core that measures a chip: models, chip and cluster to times, plans and objectives."""
