"""What a world must offer the engine. The simulator implements these on a virtual clock, a driver on real machines."""

from __future__ import annotations

from typing import Any, Protocol

from scalable.engine.events import Event, Instruction


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


class RowStore(Protocol):
    """Where results live. A row exists when the store has it."""

    def put(self, key: str, row: dict[str, Any]) -> None:
        """Insert or overwrite; doing it twice is the same as once."""
        ...

    def keys(self) -> set[str]: ...
