"""The faults by name: each finds its victim, says what it will do, and is a context whose end undoes it.

Finding and doing are apart, so that a person can be asked in between.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from scalable.chaos import damage
from scalable.chaos.victims import ChaosError, Processes, choose
from scalable.observe import RunFolder
from scalable.quantities import Memory

HOW = ("sever", "freeze")


@dataclass(frozen=True, slots=True)
class Wish:
    """The wishes of a caller about a fault; nothing means at random, or the usual."""

    worker: str | None = None
    how: str = "sever"
    leave: Memory | None = None
    store: str | None = None
    folder: Path | None = None
    sure: bool = False
    """No bound to what is filled."""


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    what: str
    """What it does, e.g. ``kill runner of demeter-0 (process 4711)``."""
    lasts: bool
    """Whether it holds until it is undone; others are done at once."""
    make: Callable[[], AbstractContextManager[object]]


@dataclass(slots=True)
class Scene:
    """A live run, and the chance that picks victims."""

    run: RunFolder
    chance: random.Random = field(default_factory=random.Random)
    living: Processes = field(init=False)

    def __post_init__(self) -> None:
        self.living = Processes(self.run)

    def prepare(self, name: str, wish: Wish | None = None) -> Fault:
        """Find the victim; nothing happens yet."""
        if name not in FAULTS:
            raise ChaosError(f"there is no fault {name!r}; there are {', '.join(FAULTS)}")
        return FAULTS[name](self, wish or Wish())


def kill_worker(scene: Scene, wish: Wish) -> Fault:
    victim = choose(scene.living.workers(), scene.chance, wish.worker)
    return Fault("kill-worker", f"kill {victim}", False, lambda: at_once(lambda: damage.kill(victim)))


def lose_node(scene: Scene, wish: Wish) -> Fault:
    victim = choose(scene.living.workers(), scene.chance, wish.worker)
    what = f"kill {victim} with everything it started"
    return Fault("lose-node", what, False, lambda: at_once(lambda: damage.lose(victim)))


def kill_runner(scene: Scene, wish: Wish) -> Fault:
    victim = choose(scene.living.runners(), scene.chance, wish.worker)
    return Fault("kill-runner", f"kill {victim}", False, lambda: at_once(lambda: damage.kill(victim)))


def stop_runner(scene: Scene, wish: Wish) -> Fault:
    victim = choose(scene.living.runners(), scene.chance, wish.worker)
    return Fault("stop-runner", f"stop {victim}", True, lambda: damage.stopped(victim))


def fill_memory(scene: Scene, wish: Wish) -> Fault:
    victim = choose(scene.living.runners(), scene.chance, wish.worker)
    leave = wish.leave or damage.LITTLE
    what = f"leave {victim} only {leave} more memory"
    return Fault("fill-memory", what, True, lambda: damage.starved(victim, leave))


def block_store(scene: Scene, wish: Wish) -> Fault:
    path = damage.store_of(scene.run, wish.store)
    return Fault("block-store", f"hold the write lock of {path}", True, lambda: damage.blocked(path))


def cut_network(scene: Scene, wish: Wish) -> Fault:
    victim = choose(scene.living.workers(), scene.chance, wish.worker)
    if wish.how == "freeze":
        return Fault("cut-network", f"freeze {victim}, its runners go on", True, lambda: damage.stopped(victim))
    if wish.how != "sever":
        raise ChaosError(f"a network cannot be cut by {wish.how!r}; write one of {', '.join(HOW)}")
    what = f"break the connection of {victim} to its scheduler"
    return Fault("cut-network", what, False, lambda: at_once(lambda: damage.sever(victim, scene.run)))


def fill_disk(scene: Scene, wish: Wish) -> Fault:
    scene.living.driver()
    folder, leave = wish.folder or scene.run.path, wish.leave or Memory.parse("64MiB")
    most = None if wish.sure else damage.LARGEST_BALLOON
    what = f"fill the disk of {folder} until {leave} are free"
    return Fault("fill-disk", what, True, lambda: damage.filled(folder, leave, most=most))


@contextmanager
def at_once(do: Callable[[], object]) -> Iterator[None]:
    do()
    yield


FAULTS: dict[str, Callable[[Scene, Wish], Fault]] = {
    "kill-worker": kill_worker,
    "kill-runner": kill_runner,
    "stop-runner": stop_runner,
    "lose-node": lose_node,
    "fill-memory": fill_memory,
    "block-store": block_store,
    "cut-network": cut_network,
    "fill-disk": fill_disk,
}
