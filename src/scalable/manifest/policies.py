"""The rules a manifest may set; the defaults are what the requirements ask for."""

from __future__ import annotations

from typing import Literal

from scalable.manifest.fields import Count, CountOrNone, Flag, Positive, Section, Wait
from scalable.quantities import Duration, Share


class Margins(Section):
    ram: Share = Share(0.40)
    cpu: Share = Share(0.15)
    spread: Flag = True
    """Raise requests so that the scheduler places no more workers on a node than its CPUs can serve."""


class Retry(Section):
    times: CountOrNone = 1
    delay: Duration = Duration(60)
    cap: Duration = Duration(300)


class Stuck(Section):
    after: Wait = Duration(300)
    walltime: Wait | None = None
    """A run that never reports progress is stopped after this; not at all when not given."""


class Scaling(Section):
    cooldown: Duration = Duration(120)
    """No pool grows and shrinks within this time."""
    idle: Duration = Duration(0)
    """How long a worker without work is kept; its node is kept longer, by the pool's idle."""


class Preflight(Section):
    memory: Share = Share(0.70)
    """Largest part of a node's memory that an estimated peak may take."""
    safety: Positive = 1.5
    """What an estimate without history is multiplied by."""


class Concurrency(Section):
    normal: Count = 2
    """How many sweeps may run at once."""


class Acceptance(Section):
    """What a sizing must reach to be accepted."""

    factor: Wait = Duration(9000)
    scale_up: Wait = Duration(300)
    scale_down: Wait = Duration(900)
    sessions: Count = 10


class Policies(Section):
    margins: Margins = Margins()
    retry: Retry = Retry()
    stuck: Stuck = Stuck()
    scaling: Scaling = Scaling()
    preflight: Preflight = Preflight()
    concurrency: Concurrency = Concurrency()
    acceptance: Acceptance = Acceptance()
    fork: Literal["deny", "warn", "allow"] = "deny"
