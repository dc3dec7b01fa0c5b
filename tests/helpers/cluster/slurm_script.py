"""What is written for Slurm and what is understood of its answers, without a Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scalable.cluster.base import WorkerTemplate
from scalable.cluster.slurm.script import SlurmSite, Step, job_script
from scalable.worker.options import WorkerOptions

OPTIONS = WorkerOptions("tls://10.0.0.1:8786", "demeter-0", {"demeter": 1.0}, handout="/run/handout")


def script(site: SlurmSite | None = None, log: str = "/logs/demeter-0.log", **template: Any) -> str:
    """Return the script of a job of one worker."""
    step = Step(WorkerTemplate("demeter", **template), OPTIONS, Path(log))
    return job_script(site or SlurmSite(), [step], "demeter-1234", Path(log), "demeter-0")
