"""The decisions of a project together: how many false locks they give by chance, and how strictly the next is judged.

A sweep in which nothing is better locks something in 5 % of cases, so twenty such sweeps lock one thing on average.
The counts come in as data; the store keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from scalable.verdicts.rule import ALPHA
from scalable.wording import plural


class Control(Enum):
    """The decisions that share a chance of 5 % of a false LOCK."""

    SWEEP = "sweep"  # each has its own 5 %, however many there are
    PROGRAMME = "programme"  # all decisions in one store share 5 %, so each further one is judged more strictly


def level_of(number: int, control: Control) -> float:
    """Return the p (after Holm) below which a variant of a project's first, second, … decision is proven better.

    Programme-wide control spends ALPHA / (n (n + 1)) on decision n. The levels of n decisions add up to
    ALPHA (1 - 1 / (n + 1)), so all of them together lock something by chance with a probability below ALPHA, whatever
    they have in common.

    >>> [round(level_of(number, Control.PROGRAMME), 4) for number in (1, 2, 3)]
    [0.025, 0.0083, 0.0042]
    """
    if number < 1:
        raise ValueError(f"decisions are counted from 1, not from {number}")
    return ALPHA / (number * (number + 1)) if control is Control.PROGRAMME else ALPHA


@dataclass(frozen=True, slots=True)
class Tally:
    """The decisions of a project and where one of them stands among them."""

    sweeps: int = 0
    """Sweeps decided; the same sweep on other rows counts again, another look at the same rows does not."""
    variants: int = 0
    """Variants tried in them."""
    expected_false_locks: float = 0.0
    """Sweeps that would lock something by chance if no variant of any was better."""
    number: int | None = None
    """The place of this decision, counted from 1; None if it is not in the ledger."""
    looks: int = 0
    """How often this decision was made on the same rows."""
    level: float = ALPHA
    """The p below which its variants are proven better."""
    control: Control = Control.SWEEP
    problem: str = ""
    """Why the ledger could not be read or written; empty if it could."""

    def to_dict(self) -> dict[str, Any]:
        """Return it for machines; looks are left out, so that deciding again on the same rows prints the same."""
        counts = {"sweeps": self.sweeps, "variants": self.variants, "expected_false_locks": self.expected_false_locks}
        this = {"decision": self.number, "level": self.level, "control": self.control.value}
        return {**counts, **this, "problem": self.problem or None}

    def __str__(self) -> str:
        """One sentence for people; empty if there is nothing to tell."""
        if self.problem:
            return f"this decision is not in the ledger, which could not be written: {self.problem}"
        if not self.sweeps:
            return ""
        tried = f"({plural(self.variants, 'variant')} tried)"
        if self.number is None:
            return f"{plural(self.sweeps, 'sweep')} decided on this project so far {tried}: {self.by_chance}"
        place = f"{self.number} of {self.sweeps}" if self.number < self.sweeps else f"{self.number}"
        again = f", seen {self.looks} times" if self.looks > 1 else ""
        return f"this was decision {place} on this project {tried}{again}: {self.by_chance}"

    @property
    def by_chance(self) -> str:
        """What chance alone would do."""
        controlled = self.control is Control.PROGRAMME
        level = f"judged at {self.level:.2g} instead of {ALPHA:g}, " if controlled and self.number is not None else ""
        if controlled and self.expected_false_locks < ALPHA:  # more if some were judged before control was switched on
            return f"{level}all decisions together lock something by chance in at most {100 * ALPHA:g} % of projects"
        such = "such sweep" if self.sweeps == 1 else "such sweeps"
        return f"{level}by chance, {self.expected_false_locks:.3g} of {self.sweeps:,} {such} would lock something"


def tally(decisions: Iterable[tuple[int, float]]) -> Tally:
    """Return the sum of decisions, each given by its number of variants and the level it was judged at.

    >>> tally([(2, 0.05), (3, 0.05)]).expected_false_locks
    0.1
    """
    listed = list(decisions)
    expected = round(sum(level for _, level in listed), 12)  # 0.15, not 0.15000000000000002
    return Tally(len(listed), sum(variants for variants, _ in listed), expected)
