"""Many faults over a while: which, when and for how long are drawn from a seed before the first one is made.

Victims are drawn from the same seed, among those alive at that moment; with the same run the same storm comes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

from scalable.chaos.faults import FAULTS, Scene, Wish
from scalable.chaos.victims import ChaosError, NoVictimError
from scalable.observe import RunFolder
from scalable.observe.liveness import is_running

USUAL: Mapping[str, float] = {"kill-runner": 12, "stop-runner": 3, "kill-worker": 2, "block-store": 2, "cut-network": 1}
"""How often each fault comes. Disks and memory are filled only where that is asked for."""
LASTING_S = (0.2, 2.0)  # how long a fault that lasts is held
PATIENCE_S = 5.0  # for a victim: after a kill there is none until the next process has started
LOOK_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class Planned:
    at: float
    """Seconds after the storm began."""
    name: str
    seconds: float
    """For how long, if it is a fault that lasts."""


@dataclass(frozen=True, slots=True)
class Made:
    """A fault as it happened."""

    at: float
    name: str
    seconds: float | None
    what: str
    made: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def plan(seed: int, faults: int, over: float, kinds: Mapping[str, float] = USUAL) -> list[Planned]:
    if unknown := set(kinds) - set(FAULTS):
        raise ChaosError(f"there is no fault {sorted(unknown)[0]!r}; there are {', '.join(FAULTS)}")
    chance = random.Random(seed)
    times = sorted(chance.uniform(0, over) for _ in range(faults))
    names = chance.choices(list(kinds), list(kinds.values()), k=faults)
    return [Planned(at, name, chance.uniform(*LASTING_S)) for at, name in zip(times, names, strict=True)]


def storm(
    run: RunFolder,
    *,
    seed: int = 0,
    faults: int = 20,
    over: float = 60.0,
    kinds: Mapping[str, float] = USUAL,
    wish: Wish | None = None,
    patience_s: float = PATIENCE_S,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Made]:
    """Make the faults, each told as it was made; ends early with the run. What lasts is undone at the latest then."""
    scene = Scene(run, random.Random(seed))
    began = time.monotonic()
    with Undoing() as lasting:
        for planned in plan(seed, faults, over, kinds):
            while time.monotonic() < began + planned.at and not stop():
                lasting.look()
                time.sleep(LOOK_EVERY_S)
            if stop() or not is_running(run):
                return
            yield made(scene, planned, wish or Wish(), lasting, began, patience_s)


def made(scene: Scene, planned: Planned, wish: Wish, lasting: Undoing, began: float, patience_s: float) -> Made:
    """Make one fault, or say why there was none."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fault = scene.prepare(planned.name, wish)
            seconds = planned.seconds if fault.lasts else None
            lasting.enter(fault.make(), seconds or 0.0)
            return Made(time.monotonic() - began, planned.name, seconds, fault.what, True)
        except ChaosError as error:
            if not isinstance(error, NoVictimError) or time.monotonic() > deadline:
                return Made(time.monotonic() - began, planned.name, None, f"not made: {error}", False)
        lasting.look()
        time.sleep(LOOK_EVERY_S)


class Undoing:
    """Holds contexts until their time is over; all of them end with it."""

    def __init__(self) -> None:
        self.held: list[tuple[float, ExitStack]] = []

    def __enter__(self) -> Undoing:
        return self

    def __exit__(self, *error: object) -> None:
        self.look(float("inf"))

    def enter(self, context: Any, seconds: float) -> None:
        stack = ExitStack()
        stack.enter_context(context)
        self.held.append((time.monotonic() + seconds, stack))

    def look(self, now: float | None = None) -> None:
        moment = time.monotonic() if now is None else now
        due, self.held = [h for h in self.held if h[0] <= moment], [h for h in self.held if h[0] > moment]
        with ExitStack() as ends:
            for _, stack in due:
                ends.enter_context(stack)
