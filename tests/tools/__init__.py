"""Real systems to test against, started by the tests themselves: a private Slurm, an Apptainer, an image for it."""
