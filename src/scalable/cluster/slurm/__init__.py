"""Workers as batch jobs of a Slurm cluster, one job per worker."""
