"""What a world must offer the engine. The simulator implements these on a virtual clock, a driver on real machines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from scalable.engine.events import Event, Instruction

RowT_contra = TypeVar("RowT_contra", contravariant=True)


class Clock(Protocol):
    """Time as the engine is told it."""

    def now(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...


class Cluster(Protocol):
    """Carries instructions out. What comes of them returns as events."""

    def apply(self, instruction: Instruction) -> None: ...


class Journal(Protocol):
    """Is shown every event with the instructions it led to, in order."""

    def __call__(self, now: float, event: Event, instructions: list[Instruction]) -> None: ...


class RowStore(Protocol[RowT_contra]):
    """Where results live. A row exists when the store has it."""

    def put(self, rows: Iterable[RowT_contra]) -> object:
        """Insert or overwrite; doing it twice is the same as once. The answer says what became of the rows."""
        ...

    def keys(self) -> set[str]: ...
