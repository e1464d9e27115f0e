"""Who bounds and solves: this process, processes of this machine, a Dask cluster."""
