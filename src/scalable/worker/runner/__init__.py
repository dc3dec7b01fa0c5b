"""Runs execute here: a process of their own beside the Dask worker, watched, limited and ended from outside."""
