"""Real systems to test against, started by the tests themselves: a private Slurm, a PostgreSQL, an Apptainer."""
