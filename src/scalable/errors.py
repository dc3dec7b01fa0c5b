"""The errors a caller may meet. All share one base; each message says what is wrong and what to do instead."""

from __future__ import annotations


class ScalableError(Exception):
    """Base of every error raised on purpose by this package."""


class QuantityError(ScalableError, ValueError):
    """A size, amount or time that cannot be read, or two that cannot be combined.

    ``at`` leads from the value that was checked to the part of it that is wrong; ``code`` names the finding that is
    made of it; ``others`` were found with it.
    """

    def __init__(self, message: str, remedy: str = "", at: tuple[str | int, ...] = (), code: str = "bad-value") -> None:
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.message = message
        self.remedy = remedy
        self.at = at
        self.code = code
        self.others: list[QuantityError] = []

    @classmethod
    def raise_all(cls, errors: list[QuantityError]) -> None:
        """Raise the first of several, if there is any, with the others attached."""
        if errors:
            errors[0].others = errors[1:]
            raise errors[0]


class PlanningError(ScalableError, ValueError):
    """A plan that cannot be made from what the manifest says; ``path`` is the key to change, where one is known."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class UsageError(ScalableError):
    """A command called in a way that cannot work (exit status 2)."""


class MissingExtraError(ScalableError, ImportError):
    """A package that is not installed; the message names the extra that brings it."""


class UnknownNameError(PlanningError, UsageError):
    """A sweep, objective or policy that does not exist; the message lists those that do."""


class UnknownTagError(UsageError, ValueError):
    """A tag that no worker has or can have; the message lists those there are."""
