"""Sweeps: stages and their keys, rows and units of work, completeness, statistics and verdicts."""
