"""Studies around a search: baselines, gains by cause, sensitivity, trade-offs."""
