"""A small workload that has nothing to do with trading: how well smoothing recovers a wave from noise."""

from __future__ import annotations

from collections.abc import Mapping
from math import sin
from random import Random
from typing import Any

from scalable.workloads import Better, Count, Factor, General, Metric, Section, Workload, WorkloadPlugin, stage


@stage(reads=("length", "noise", "seed"))
def wave(*, length: int, noise: float, seed: int) -> list[tuple[float, float]]:
    random = Random(seed)
    return [(sin(at / 5), sin(at / 5) + random.gauss(0, noise)) for at in range(length)]


@stage(reads=("window",), keep=False)
def error(wave: list[tuple[float, float]], *, window: int) -> dict[str, float]:
    seen = [value for _, value in wave]
    near = [seen[max(0, at - window) : at + 1] for at in range(len(seen))]
    smooth = [sum(values) / len(values) for values in near]
    missed = [abs(true - guess) for (true, _), guess in zip(wave, smooth, strict=True)]
    return {"mae": sum(missed) / len(missed), "worst": max(missed)}


WORKLOAD = Workload((wave, error), defaults={"length": 40, "noise": 0.1})


class WaveForm(Section):
    """``smoothing: [0, 3], seeds: 4``"""

    smoothing: list[Count] | None = None
    seeds: Count = 2

    def general(self, keys: Mapping[str, Any]) -> General:
        if self.smoothing is None:
            return General(keys)
        made = {"workload": "waves", **keys, "compare": {"window": list(self.smoothing)}, "over": {"seed": self.seeds}}
        return General(made, origins={"compare.window": "smoothing", "over.seed": "seeds"})


PLUGIN = WorkloadPlugin(
    name="waves",
    run="tests.helpers.sweeps.waves:WORKLOAD",
    short_form=WaveForm,
    factors={"window": Factor("window", (0, 2, 4))},
    metrics=(
        Metric("mae", Better.LOWER, "how far off it is on average", True),
        Metric("worst", Better.LOWER, "at most"),
    ),
    guards={"worst": 0.2},
)
