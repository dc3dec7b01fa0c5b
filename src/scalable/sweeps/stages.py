"""Stages: functions that say what they read, so that a key covers all that decides their result.

A stage's positional parameters are the results of the stages of these names; its keyword-only parameters are the
configuration it reads. It gets nothing else. It stays an ordinary function that can be called by itself.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

from scalable.errors import ScalableError
from scalable.worker.runner.scratch import scratch as scratch  # stages use it

P = ParamSpec("P")
R = TypeVar("R")

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


NOT_IMPORTED = ("__main__", "builtins")
"""Modules of functions that nobody else can import: those of a script or a notebook, and of code without a module."""


class StageError(ScalableError):
    """A stage, or a workload made of stages, that cannot work as it is written."""


class Stage(Generic[P, R]):
    """A function with what it reads. Made by ``@stage``; calling it calls the function."""

    def __init__(
        self,
        function: Callable[P, R],
        reads: tuple[str, ...],
        uses: tuple[str, ...],
        keep: bool,
        unless: Mapping[str, object],
        only_if: Mapping[str, tuple[str, object]],
        inputs: Callable[..., str] | None,
        over: tuple[str, str] | None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name: str = function.__name__
        self.reads = reads
        """Names of the configuration it gets."""
        self.uses = uses
        """Libraries whose version changes its result."""
        self.keep = keep
        """Its result is kept as an artefact; not worth it where computing is as fast as reading."""
        self.unless = dict(unless)
        """Where the configuration has one of these values the stage is left out and its first input passes through."""
        self.only_if = dict(only_if)
        """Inputs it gets (else nothing) only where a value of the configuration is the given one."""
        self.inputs = inputs
        """Tells what lies outside and is read, such as files; called where keys are made, with what ``reads`` names."""
        self.over = over
        """``("asset", "universe")``: each of its inputs is a mapping with a result for every asset of the universe."""
        self.needs = check(self)
        """Names of the stages whose results it gets, in order."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def left_out(self, configuration: Mapping[str, Any]) -> bool:
        return any(same(configuration[name], value) for name, value in self.unless.items())

    def needed(self, configuration: Mapping[str, Any]) -> dict[str, bool]:
        """Its inputs, and whether it gets each of them."""
        asked = {need: self.only_if.get(need) for need in self.needs}
        return {need: rule is None or same(configuration[rule[0]], rule[1]) for need, rule in asked.items()}

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self.function.__module__ in NOT_IMPORTED:
            return (stage_of, (self.function, self.facts))
        return (import_attribute, (self.function.__module__, self.function.__qualname__))

    @property
    def facts(self) -> dict[str, Any]:
        """All that it knows beside its function."""
        return {name: value for name, value in vars(self).items() if name not in ("function", "__wrapped__")}

    def __repr__(self) -> str:
        return f"<stage {self.name}({', '.join((*self.needs, *self.reads))})>"


def stage_of(function: Callable[..., Any], facts: Mapping[str, Any]) -> Stage[..., Any]:
    """Return a stage as it was made elsewhere."""
    made: Stage[..., Any] = Stage.__new__(Stage)
    vars(made).update(facts, function=function, __wrapped__=function)
    return made


@overload
def stage(function: Callable[P, R], /) -> Stage[P, R]: ...
@overload
def stage(
    *,
    reads: tuple[str, ...] = (),
    uses: tuple[str, ...] = (),
    keep: bool = True,
    unless: Mapping[str, object] | None = None,
    only_if: Mapping[str, tuple[str, object]] | None = None,
    inputs: Callable[..., str] | None = None,
    over: tuple[str, str] | None = None,
) -> Callable[[Callable[P, R]], Stage[P, R]]: ...
def stage(
    function: Callable[..., Any] | None = None,
    /,
    *,
    reads: tuple[str, ...] = (),
    uses: tuple[str, ...] = (),
    keep: bool = True,
    unless: Mapping[str, object] | None = None,
    only_if: Mapping[str, tuple[str, object]] | None = None,
    inputs: Callable[..., str] | None = None,
    over: tuple[str, str] | None = None,
) -> Any:
    """Make a stage of a function; see ``Stage`` for what each word means.

    >>> @stage(reads=("scale",))
    ... def scaled(table, *, scale):
    ...     return [scale * value for value in table]
    >>> scaled
    <stage scaled(table, scale)>
    >>> scaled([1, 2], scale=3)
    [3, 6]
    """

    def made(function: Callable[..., Any]) -> Stage[..., Any]:
        if not (callable(function) and hasattr(function, "__name__")):
            raise StageError(f"{function!r} is not a function; write @stage, or @stage(reads=(…,)), above a def")
        for word, given in (("reads", reads), ("uses", uses)):
            if isinstance(given, str):
                raise StageError(f"stage {function.__name__}: {word}={given!r} is one text; write {word}=({given!r},)")
        return Stage(function, tuple(reads), tuple(uses), keep, unless or {}, only_if or {}, inputs, over)

    return made if function is None else made(function)


def check(stage: Stage[..., Any]) -> tuple[str, ...]:
    """The stage's inputs; raises if its parameters are not what it declares."""
    parameters = inspect.signature(stage.function).parameters.values()
    needs = tuple(each.name for each in parameters if each.kind in POSITIONAL)
    given = {each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
    where = f"stage {stage.name}"
    if any(each.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD) for each in parameters):
        raise StageError(f"{where} takes * or ** arguments; name each input and each value of the configuration")
    if undeclared := given - set(stage.reads):
        name = min(undeclared)
        raise StageError(f"{where} takes {name!r} but does not declare it; write reads=(…, {name!r})")
    if missing := set(stage.reads) - given - set(stage.unless):
        name = min(missing)
        raise StageError(f"{where} declares reads={name!r} but does not take it; write def {stage.name}(…, *, {name})")
    if unknown := set(stage.only_if) - set(needs):
        raise StageError(f"{where}: only_if names {min(unknown)!r}, which is none of its inputs: {', '.join(needs)}")
    if stage.unless and not needs:
        raise StageError(f"{where} has no input that could pass through where it is left out; drop unless")
    return needs


def same(value: object, other: object) -> bool:
    """Equal and of one type: ``1`` and ``True`` are different values of a configuration."""
    return type(value) is type(other) and value == other


def import_attribute(module: str, name: str) -> Any:
    """A stage by name, where it was sent to."""
    from importlib import import_module

    return functools.reduce(getattr, name.split("."), import_module(module))
