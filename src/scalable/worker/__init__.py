"""What runs on a worker's machine: one Dask worker of one kind, measured, and checked to have the right code."""
