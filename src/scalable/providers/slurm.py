"""The documented import path of the Slurm provider; it lives in ``scalable.cluster.slurm``."""

from scalable.cluster.slurm.provider import SlurmCluster, SlurmProvider

__all__ = ["SlurmCluster", "SlurmProvider"]
