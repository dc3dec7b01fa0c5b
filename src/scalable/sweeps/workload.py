"""A workload: stages put together, the last of which gives a row. From a configuration to the keys of all of them.

A stage's key is a hash of its code, of the values it reads, of the versions of the libraries it uses, of what it reads
outside, and of the keys of its inputs. So two rows that agree on all of that share the stage, within a sweep and
between sweeps, and whatever changes a result changes its key.
"""

from __future__ import annotations

import inspect
import pickle
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from types import FunctionType
from typing import Any

from scalable.plugins import plugin_at
from scalable.store.caching import key_of
from scalable.store.caching.fingerprints import DECORATED, fingerprint_of
from scalable.store.caching.keys import Encoder
from scalable.sweeps.files import InputFiles
from scalable.sweeps.stages import NOT_IMPORTED, Stage, StageError, stage_of
from scalable.wording import not_defined, undefined

OTHER_NAMES = {"xgboost": ("xgboost-cpu", "xgboost"), "sklearn": ("scikit-learn",)}  # distributions of packages
OUR_FILES = str(Path(__file__).parents[1])
SHORT = 8  # characters of a fingerprint where a person compares them

ASKED = ("factor", "variant", "universe")  # values of a row that a stage gets only if it names them

Configuration = Mapping[str, Any]

IMPORTING: ContextVar[bool] = ContextVar("importing", default=False)
"""Whether a module is being imported for its workload: a script must not start its sweep then."""


@dataclass(frozen=True, eq=False)
class Workload:
    """Stages in an order in which each comes after its inputs; the last one's result is the row: metrics by name."""

    stages: tuple[Stage[..., Any], ...]
    unit: str = ""
    """Rows that share this stage are computed together; the last kept one that all need if nothing is said."""
    defaults: Mapping[str, Any] | None = None
    """Values of the configuration that neither the sweep nor its cell sets."""
    check: Callable[[Configuration], None] | None = None
    """Refuses configurations that contradict themselves, before anything starts."""
    path: str = ""
    """Where a worker finds it: ``package.module:name``."""
    matrix: tuple[str, Callable[[Any], tuple[int, int]]] | None = None
    """The stage whose result is trained on, and what returns its samples and features: memory follows them."""
    pickled: bytes = b""
    """Its code, where that travels to workers instead of being found by name."""

    def __post_init__(self) -> None:
        if not self.stages:
            raise StageError("a workload needs at least one stage, which gives the row")
        seen: dict[str, Stage[..., Any]] = {}
        for stage in self.stages:
            if not isinstance(stage, Stage):
                raise StageError(f"{stage!r} is not a stage; write @stage above it")
            if stage.name in seen:
                raise StageError(f"the workload has two stages named {stage.name}; rename one")
            for need in stage.needs:
                if need not in seen:
                    problem = "; ".join(not_defined("stage", need, seen))
                    raise StageError(f"stage {stage.name} needs {need}, which no stage before it gives: {problem}")
            seen[stage.name] = stage
        if self.unit and self.unit not in seen:
            raise StageError("; ".join(not_defined("stage", self.unit, seen)))
        if self.unit and self.unit not in self.certain:
            there = ", ".join(name for name in seen if name in self.certain)
            raise StageError(f"unit {self.unit}: some rows do without that stage; name one that all need: {there}")

    @cached_property
    def by_name(self) -> dict[str, Stage[..., Any]]:
        return {stage.name: stage for stage in self.stages}

    @property
    def row(self) -> Stage[..., Any]:
        return self.stages[-1]

    @cached_property
    def shared_by(self) -> str:
        """The stage whose rows are computed together."""
        kept = [stage.name for stage in self.stages[:-1] if stage.keep and stage.name in self.certain]
        return self.unit or (kept[-1] if kept else self.row.name)

    @cached_property
    def certain(self) -> set[str]:
        """Stages that every row needs, whatever its configuration says."""
        names = {self.row.name}
        for stage in reversed(self.stages):
            if stage.name in names and stage.over is None:
                names |= set(stage.needs[:1] if stage.unless else stage.needs) - set(stage.only_if)
        return names

    @cached_property
    def reads(self) -> frozenset[str]:
        """Everything of a configuration that can matter."""
        rules = [name for stage in self.stages for name, _ in stage.only_if.values()]
        rules += [stage.over[1] for stage in self.stages if stage.over is not None]
        return frozenset(name for stage in self.stages for name in (*stage.reads, *stage.unless)) | frozenset(rules)

    def needed(self, configuration: Configuration) -> set[str]:
        """Stages without which there is no row."""
        return self.before([self.row.name], configuration)

    def before(self, names: Iterable[str], configuration: Configuration) -> set[str]:
        """These stages and all they need; what one of them needs of several assets is not among them."""
        needed = set(names)
        for stage in reversed(self.stages):
            if stage.name not in needed:
                continue
            if stage.left_out(configuration):
                needed.add(stage.needs[0])
            elif stage.over is None:
                needed |= {need for need, given in stage.needed(configuration).items() if given}
        return needed

    @cached_property
    def code(self) -> dict[str, str]:
        """What each stage's code and libraries are now."""
        return {stage.name: code_of(stage) for stage in self.stages}

    def code_fingerprint(self) -> str:
        """The code of all stages, for people to compare: which of them changed."""
        return " ".join(f"{name}:{code[:SHORT]}" for name, code in self.code.items())

    def configured(self, values: Configuration) -> dict[str, Any]:
        """A whole configuration of these values; raises if something is missing or contradicts itself."""
        whole = {**(self.defaults or {}), **values}
        if missing := self.reads - set(whole):
            name = min(missing)
            readers = [stage.name for stage in self.stages if name in (*stage.reads, *stage.unless)]
            raise StageError(
                f"nothing says what {name!r} is, which stage {readers[0]} reads; it may use "
                f"{', '.join(sorted({*values, *ASKED}))}; or write {name!r} under settings, or give it a default"
            )
        if self.check is not None:
            self.check(whole)
        return whole


class Keys:
    """The keys of a workload's stages. Remembers what it has worked out: 10,000 rows have few distinct stages."""

    def __init__(self, workload: Workload, files: InputFiles | None = None) -> None:
        self.workload = workload
        self.files = files or InputFiles()
        """Files that the sweep names; those of marked arguments are added."""
        self.known: dict[tuple[Any, ...], str] = {}
        self.read: dict[tuple[Any, ...], str] = {}
        self.texts: dict[str, str] = {}
        """What stages read outside, by their keys."""

    def of(self, configuration: Configuration) -> dict[str, str]:
        """Of the stages that the row needs; one that is left out has the key of what passes through it."""
        return self.stage_keys(self.workload.needed(configuration), configuration)

    def parts(self, configuration: Configuration) -> dict[str, dict[str, str]]:
        """Of the stages that are needed for several assets: the keys for each of them."""
        keys_by_value: dict[str, dict[str, str]] = {}
        for stage in self.workload.stages:
            if stage.over is not None and stage.name in self.workload.needed(configuration):
                for value, keys in self.gathered(stage, configuration).items():
                    keys_by_value.setdefault(value, {}).update(keys)
        return keys_by_value

    def gathered(self, stage: Stage[..., Any], configuration: Configuration) -> dict[str, dict[str, str]]:
        """The keys of all that a stage needs of every asset it goes over."""
        assert stage.over is not None
        name, among = stage.over
        each = [{**configuration, name: value} for value in configuration[among]]
        return {part[name]: self.stage_keys(self.workload.before(stage.needs, part), part) for part in each}

    def stage_keys(self, needed: set[str], configuration: Configuration) -> dict[str, str]:
        keys: dict[str, str] = {}
        for stage in self.workload.stages:
            if stage.name not in needed:
                continue
            if stage.left_out(configuration):
                keys[stage.name] = keys[stage.needs[0]]
                continue
            parts = self.gathered(stage, configuration) if stage.over is not None else {}
            keys[stage.name] = self.key(stage, configuration, inputs_of(stage, configuration, keys, parts))
        return keys

    def key(self, stage: Stage[..., Any], configuration: Configuration, inputs: tuple[Any, ...]) -> str:
        values = {name: configuration[name] for name in stage.reads}
        at: Any = (stage.name, tuple((type(value), value) for value in values.values()), inputs)
        try:
            hash(at)
        except TypeError:  # a list or a mapping in the configuration
            at = (stage.name, key_of(values), inputs)
        if at not in self.known:
            outside = self.read_outside(stage, values)
            files = self.files.key(stage, values)
            self.known[at] = key_of((stage.name, self.workload.code[stage.name], values, outside, inputs, *files))
            if stage.inputs is not None:
                self.texts[self.known[at]] = f"{stage.name} {outside}"
        return self.known[at]

    def read_outside(self, stage: Stage[..., Any], values: Configuration) -> str:
        if stage.inputs is None:
            return ""
        at = (stage.name, key_of(dict(values)))
        if at not in self.read:
            self.read[at] = stage.inputs(**values)
        return self.read[at]

    def outside(self, *keys: Mapping[str, str]) -> Iterator[str]:
        """What the stages of these keys read outside, whatever their settings are."""
        return (self.texts[key] for each in keys for key in each.values() if key in self.texts)


def inputs_of(
    stage: Stage[..., Any],
    configuration: Configuration,
    keys: Mapping[str, str],
    parts: Mapping[str, Mapping[str, str]],
) -> tuple[Any, ...]:
    """The keys of what a stage gets; where it goes over several assets ``parts`` has those of each."""
    if stage.over is not None:
        among = configuration[stage.over[1]]
        return tuple((value, need, parts[value][need]) for value in among for need in stage.needs)
    return tuple(keys[need] if given else "" for need, given in stage.needed(configuration).items())


def code_of(stage: Stage[..., Any]) -> str:
    """The stage's code with what it names, and the versions of Python and of the libraries it uses."""
    function = stage.function
    if not isinstance(function, FunctionType):
        raise StageError(f"stage {stage.name} is a {type(function).__name__}; write a function")
    DECORATED.add(function)
    libraries = {name: version_of(name) for name in stage.uses}
    if missing := [name for name, there in libraries.items() if there is None]:
        raise StageError(f"stage {stage.name} uses {missing[0]}, which is not installed; pip install {missing[0]}")
    encoder = Encoder()
    encoder.put((fingerprint_of(function).key, libraries, sys.version_info[:2], stage.needs, stage.reads))
    return encoder.key()


@cache
def version_of(library: str) -> str | None:
    """The version of an importable package, which may come from a distribution of another name; None if of none."""
    for name in OTHER_NAMES.get(library, (library,)):
        with suppress(PackageNotFoundError):
            return version(name)
    named = packages_distributions().get(library)  # reads what every package brings: slow
    return version(named[0]) if named else None


def find_workload(path: str | None) -> Workload:
    """The workload at a path: a ``Workload``, a single stage, or any function of yours."""
    if path is None:
        raise StageError("nothing says what computes a row; write run: package.module:function, or workload: NAME")
    module_name, _, name = path.partition(":")
    importing = IMPORTING.set(True)
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if (plugin := plugin_at(path)) is not None:
            raise StageError(plugin.missing(str(error.name))) from None
        if error.name == module_name.partition(".")[0] or error.name == module_name:
            raise StageError(f"run: {path}: {error}; it is imported from the manifest's folder") from None
        raise StageError(f"run: {path} cannot be imported\n{user_error(error)}") from None
    except Exception as error:  # noqa: BLE001, whatever the user's module raises while it is imported
        raise StageError(f"run: {path} cannot be imported\n{user_error(error)}") from None
    finally:
        IMPORTING.reset(importing)
    if not hasattr(module, name):
        functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise StageError(f"run: {undefined(f'function of {module_name}', name, functions)}")
    return as_workload(getattr(module, name), path)


def user_error(error: BaseException) -> str:
    """Return an error in the user's code as its author needs it: file, line, the line's text, and what is wrong.

    The frames of this package and of Python's import machinery, which only led there, are left out.
    """
    if isinstance(error, SyntaxError):  # no frame is in a file that could not be compiled
        return "".join(traceback.format_exception_only(error)).rstrip()
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(("<frozen importlib", OUR_FILES))]
    return "".join([*traceback.format_list(own[-1:]), *traceback.format_exception_only(error)]).rstrip()


def as_workload(source: Any, path: str) -> Workload:
    if isinstance(source, Workload):
        return replace(source, path=path)
    if isinstance(source, Stage):
        return Workload((source,), path=path)
    if not isinstance(source, FunctionType):
        raise StageError(f"run: {path} is a {type(source).__name__}; write a function, a stage or a Workload")
    stages = (*stages_beside(source).values(), plain(source))
    given = [each for stage in stages for each in inspect.signature(stage.function).parameters.values()]
    own = {each.name: each.default for each in given if each.default is not each.empty}
    return Workload(stages, defaults=own, path=path)


def stages_beside(
    function: Callable[..., Any], known: dict[str, Stage[..., Any]] | None = None
) -> dict[str, Stage[..., Any]]:
    """Return the stages that a function takes the results of, each after those that it takes itself.

    They are defined beside it and are parameters by their names. A parameter of theirs that no stage is called by is a
    value of the row, as one of the function is.
    """
    known = {} if known is None else known
    for name in stages_taken(function):
        if name not in known:
            source = function.__globals__[name]
            stages_beside(source.function, known)
            needs = stages_taken(source.function)
            values = tuple(need for need in source.needs if need not in needs)
            known[name] = stage_of(source.function, {**source.facts, "needs": needs, "reads": source.reads + values})
    return known


def stages_taken(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the parameters of a function that are names of stages beside it."""
    beside = getattr(function, "__globals__", {})
    return tuple(name for name in inspect.signature(function).parameters if isinstance(beside.get(name), Stage))


def by_value(workload: Workload) -> Workload:
    """Return a workload whose code travels with it: that of a script or a notebook, which workers cannot import.

    Workers take it for what it is here: they could not make its fingerprint again.
    """
    import cloudpickle

    modules = [sys.modules.get(stage.function.__module__) for stage in workload.stages]
    own = {module for module in modules if module is not None and module.__name__ not in NOT_IMPORTED}
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        stages = [(stage.function, stage.facts) for stage in workload.stages]
        return replace(workload, pickled=cloudpickle.dumps((stages, workload.defaults, workload.path, workload.code)))
    except (pickle.PicklingError, TypeError) as error:
        raise StageError(f"{workload.path} cannot be sent to workers: {error}; make that within the function") from None
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)


@lru_cache(maxsize=8)
def unpacked(pickled: bytes) -> Workload:
    """Return a workload that came by value."""
    stages, defaults, path, code = pickle.loads(pickled)
    made = Workload(tuple(stage_of(function, facts) for function, facts in stages), defaults=defaults, path=path)
    vars(made)["code"] = code
    return made


def plain(function: FunctionType) -> Stage[..., Any]:
    """A function of one's own as a stage that takes stages beside it, and reads what its other parameters name."""
    parameters = list(inspect.signature(function).parameters.values())
    if wild := [each.name for each in parameters if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]:
        raise StageError(
            f"{function.__qualname__} takes {wild[0]} with a star; name the values of a cell that it reads"
        )
    needs = stages_taken(function)
    reads = tuple(each.name for each in parameters if each.name not in needs)
    facts = {"name": function.__name__, "reads": reads, "needs": needs, "uses": (), "keep": False}
    return stage_of(function, {**facts, "unless": {}, "only_if": {}, "inputs": None, "over": None})
