"""The worker's side: one Dask worker of one kind, measured, and checked to have the right code."""
