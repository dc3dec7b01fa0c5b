"""Fingerprints of code, so that an edited function does not return the results of its former self.

What counts: the bytecode and constants of the function (not its comments, docstring or place in the file), the values
it takes from the function around it, and whatever of your own code it names: other functions and classes, in turn with
what they name, and global values. "Your own" is what lies outside the installed libraries, or in the package of the
cached function. A library's function counts by its name and its own bytecode, one of this product by its name: how
progress is reported or a run is carried out changes no result, and must not make everybody compute anew. Plain values,
collections, dataclasses and arrays count by their content when the fingerprint is taken, other global objects by their
type. A variable that the function itself assigns or changes is its bookkeeping and does not count.

Names are followed where the code says them: through ``getattr``, an import inside the function or a method of an
argument nothing is seen. Of what compiled code does to names only what is plain to see is found: a name is followed
through the attributes read from it at once, a change is an assignment, or one to an item or attribute, or a call of a
method that changes collections.
"""

from __future__ import annotations

import dis
import functools
import sys
import sysconfig
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from inspect import getattr_static
from types import CellType, CodeType, FunctionType, ModuleType, NoneType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from scalable.store.caching.keys import CachingError, Encoder, known_as, module_of

STANDARD_LIBRARY = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), "<frozen ")
INSTALLED = ("/site-packages/", "/dist-packages/")
PLUMBING = (
    "_thread",
    "threading",
    "_queue",
    "queue",
    "logging",
    "asyncio",
    "concurrent",
    "multiprocessing",
    "distributed",
)
"""Packages whose objects steer how something is computed but not what: locks, events, loggers, clients."""
PRODUCT = __name__.partition(".")[0]
ATOMS = (str, bytes, int, float, complex, NoneType, FunctionType, type)
COLLECTIONS = (list, dict, set, deque, bytearray)
UNSET: Any = object()

REMEMBERED = 4096  # functions whose names are not looked for again when another cached function names them too
GLOBAL_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")  # the latter two in the bodies of classes
LOADS = (*GLOBAL_LOADS, "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
ATTRIBUTE_LOADS = ("LOAD_ATTR", "LOAD_METHOD")
ASSIGNMENTS = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF")
PART_ASSIGNMENTS = {"STORE_ATTR": 1, "DELETE_ATTR": 1, "STORE_SUBSCR": 2, "DELETE_SUBSCR": 2, "STORE_SLICE": 3}
"""How deep in the stack that lies whose part is assigned."""
CHANGING_METHODS = (
    *("add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert", "pop", "popitem", "popleft"),
    *("remove", "reverse", "setdefault", "sort", "subtract", "update"),
)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    key: str
    watched: tuple[tuple[Mapping[str, object], str, object], ...] = ()
    """Global names that were followed, and what they stood for."""
    cells: tuple[tuple[CellType, object], ...] = ()
    """The same for variables of the functions around it."""

    @classmethod
    def of(cls, source: FunctionType | type) -> Fingerprint:
        trace = Trace(source)
        try:
            trace.follow()
        except RecursionError:
            raise CachingError(
                f"{source.__qualname__} names values that are nested too deeply to be compared"
            ) from None
        watched = tuple((names, name, value) for (_, name), (names, value) in trace.watched.items())
        return cls(trace.key(), watched, tuple(trace.cells))

    def holds(self) -> bool:
        """Return whether every name still stands for the same object: a helper may have been defined anew."""
        for names, name, value in self.watched:
            if names.get(name, UNSET) is not value:
                return False
        return all(content(cell) is value for cell, value in self.cells)


DECORATED: WeakSet[FunctionType | type] = WeakSet()
"""Functions that are cached: their package is one's own even where it is installed among the libraries."""
KNOWN: WeakKeyDictionary[FunctionType | type, Fingerprint] = WeakKeyDictionary()


def fingerprint_of(source: FunctionType | type) -> Fingerprint:
    known = KNOWN.get(source)
    if known is None or not known.holds():
        known = KNOWN[source] = Fingerprint.of(source)
    return known


class Trace(Encoder):
    """Writes code and the code it names, each function and class once, in the order in which they are met."""

    def __init__(self, root: FunctionType | type) -> None:
        super().__init__()
        self.root = root
        self.package = package_of(module_of(root)) if root in DECORATED else "__main__"
        self.met: list[tuple[FunctionType | type, bool]] = []
        self.places: dict[int, int] = {}
        self.inside: dict[int, int] = {}
        self.watched: dict[tuple[int, str], tuple[Mapping[str, object], object]] = {}
        self.cells: list[tuple[CellType, object]] = []

    def follow(self) -> None:
        self.put_code(self.root)
        for source, lenient in self.met:  # which grows meanwhile
            self.lenient = lenient
            self.put_name(source)
            if isinstance(source, type):
                if self.is_own(source.__module__, None):
                    self.put_class(source)
            elif self.is_own(source.__module__, source.__code__.co_filename):
                self.put_function(source)
            elif not is_product(source.__module__):
                self.put_code_object(source.__code__)

    def put(self, value: Any) -> None:
        """Put a value, also one that contains itself, unlike in arguments: nobody chose to pass it."""
        if isinstance(value, ATOMS):
            super().put(value)
        elif id(value) in self.inside:
            self.out += b"^%d;" % self.inside[id(value)]
        else:
            self.inside[id(value)] = len(self.inside)
            super().put(value)
            del self.inside[id(value)]

    def put_code(self, source: Any) -> None:
        place = self.places.setdefault(id(source), len(self.met))
        self.out += b"c%d;" % place
        if place == len(self.met):
            self.met.append((source, self.lenient))

    def put_kind(self, kind: type) -> None:
        self.put_code(kind)

    def put_function(self, function: FunctionType) -> None:
        code = function.__code__
        self.put_code_object(code)
        changed = names_changed(code)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if not is_bookkeeping(content(cell), changed.get(name, set())):
                self.put_cell(function, name, cell)
        self.lenient = True
        if function is not self.root:  # the defaults of the root are among its arguments
            self.put((function.__defaults__, function.__kwdefaults__))
        for chain in names_read(code):
            if not is_bookkeeping(function.__globals__.get(chain[0]), changed.get(chain[0], set())):
                self.put_global(function.__globals__, chain)

    def put_cell(self, function: FunctionType, name: str, cell: CellType) -> None:
        value = content(cell)
        if not self.lenient:
            self.cells.append((cell, value))
        self.put(name)
        if value is UNSET or type(value).__module__.partition(".")[0] in PLUMBING:
            return
        try:
            self.put(value)
        except CachingError as error:
            raise CachingError(
                f"{function.__qualname__} reads {name!r} of the function around it: {error}; "
                "make it an argument, or a global variable if it does not change the result"
            ) from None

    def put_global(self, names: Mapping[str, object], chain: tuple[str, ...]) -> None:
        """Put what a global name stands for; through modules of one's own, the name within them."""
        name, *rest = chain
        value = names.get(name, UNSET)
        while isinstance(value, ModuleType) and rest and self.is_own(value.__name__, getattr(value, "__file__", "")):
            self.watched[id(names), name] = (names, value)
            names, name = vars(value), rest.pop(0)
            value = names.get(name, UNSET)
        if value is not UNSET:
            self.watched[id(names), name] = (names, value)
            self.put(name)
            self.put(value)

    def put_class(self, kind: type) -> None:
        self.lenient = True
        self.put(kind.__bases__)
        for name, member in sorted(vars(kind).items()):
            functions = functions_of(member)
            if functions or not (name.startswith("__") and name.endswith("__")):
                self.put(name)
                self.put(functions or member)

    def put_code_object(self, code: CodeType) -> None:
        self.put((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags))
        self.put((code.co_code, code.co_exceptiontable))
        self.put((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
        for number, constant in enumerate(code.co_consts):
            if isinstance(constant, CodeType):
                self.put_code_object(constant)
            elif number or is_loaded(code, 0):  # the first constant is the docstring if nothing loads it
                self.put(constant)

    def is_own(self, module: str | None, file: str | None) -> bool:
        if package_of(str(module)) in (self.package, "__main__", "__mp_main__"):
            return True
        if is_product(module):  # installed, or a checkout that somebody works on
            return False
        if file is None:
            loaded = sys.modules.get(str(module))
            file = "unknown" if loaded is None else getattr(loaded, "__file__", None)
        return bool(file) and not is_library(str(file))


def package_of(module: str) -> str:
    """Return what belongs together; a workload that this product brings is apart from the rest, like anybody's."""
    words = known_as(module).split(".")
    return ".".join(words[: 2 if is_product(module) else 1])


def is_product(module: str | None) -> bool:
    return known_as(str(module)).partition(".")[0] == PRODUCT


def is_library(file: str) -> bool:
    return file.startswith(STANDARD_LIBRARY) or any(folder in file for folder in INSTALLED)


def is_bookkeeping(value: object, changes: set[VariableChange]) -> bool:
    """Return whether a variable that a function changes keeps track of calls, and does not say what to compute."""
    if VariableChange.ASSIGNED in changes:
        return True
    if isinstance(value, ModuleType | FunctionType | type):
        return False
    return VariableChange.PART_ASSIGNED in changes or (
        VariableChange.METHOD_CALLED in changes and isinstance(value, COLLECTIONS)
    )


def functions_of(member: object) -> list[object]:
    """Return the functions behind a member of a class."""
    match member:
        case FunctionType():
            return [member]
        case staticmethod() | classmethod():
            return [member.__func__]
        case property():
            return [accessor for accessor in (member.fget, member.fset, member.fdel) if accessor is not None]
        case functools.cached_property():
            return [member.func]
    wrapped = getattr_static(member, "__wrapped__", None)
    return [] if wrapped is None else [wrapped]


def content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return UNSET


class VariableChange(Enum):
    """The way a function changes a variable that is not its own."""

    ASSIGNED = "assigned"
    """The name stands for something else afterwards."""
    PART_ASSIGNED = "part assigned"
    """An item or attribute was assigned: so it is not a value that stays what it is."""
    METHOD_CALLED = "method called"
    """Changes a collection; what a method of this name does to other things nobody knows."""


def parts_of(code: CodeType) -> Iterator[CodeType]:
    """Yield the code and that of the functions and comprehensions within."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from parts_of(constant)


@lru_cache(REMEMBERED)
def names_read(code: CodeType) -> list[tuple[str, ...]]:
    """Return global names with the attributes read from them: ``helpers.compute`` is one chain."""
    return sorted({chain for part in parts_of(code) for chain in chains(part)})


def chains(code: CodeType) -> Iterator[tuple[str, ...]]:
    chain: tuple[str, ...] = ()
    for instruction in dis.get_instructions(code):
        if instruction.opname in GLOBAL_LOADS:
            if chain:
                yield chain
            chain = (instruction.argval,)
        elif chain and instruction.opname in ATTRIBUTE_LOADS:
            chain = (*chain, instruction.argval)
        elif chain and instruction.opname != "EXTENDED_ARG":
            yield chain
            chain = ()


@lru_cache(REMEMBERED)
def names_changed(code: CodeType) -> dict[str, set[VariableChange]]:
    """Return variables of the module or of a surrounding function that the code changes, and how."""
    changed: dict[str, set[VariableChange]] = defaultdict(set)
    for part in parts_of(code):
        for name, change in changes(part):
            changed[name].add(change)
    return changed


def changes(code: CodeType) -> Iterator[tuple[str, VariableChange]]:
    """Follow which variable each place of the stack was read from, as far as no jump leads in between."""
    stack: list[str] = []
    for instruction in dis.get_instructions(code):
        if instruction.is_jump_target:
            stack.clear()
        depth = PART_ASSIGNMENTS.get(instruction.opname, 1)
        on_stack = stack[-depth] if len(stack) >= depth else ""
        if instruction.opname in ASSIGNMENTS:
            yield instruction.argval, VariableChange.ASSIGNED
        elif instruction.opname in PART_ASSIGNMENTS and on_stack:
            yield on_stack, VariableChange.PART_ASSIGNED
        elif instruction.opname in ATTRIBUTE_LOADS and instruction.argval in CHANGING_METHODS and on_stack:
            yield on_stack, VariableChange.METHOD_CALLED
        follow(instruction, stack)


def follow(instruction: dis.Instruction, stack: list[str]) -> None:
    """Return what an instruction leaves on the stack; what it computes is taken to come from its first operand."""
    if instruction.opname == "COPY" and instruction.arg:
        stack.append(stack[-instruction.arg] if len(stack) >= instruction.arg else "")
    elif instruction.opname == "SWAP" and instruction.arg and len(stack) >= instruction.arg:
        stack[-1], stack[-instruction.arg] = stack[-instruction.arg], stack[-1]
    else:
        effect = dis.stack_effect(instruction.opcode, instruction.arg)
        if effect < 0:
            del stack[effect:]
        stack += [""] * effect
        if instruction.opname in LOADS:
            stack[-1] = instruction.argval


def is_loaded(code: CodeType, constant: int) -> bool:
    return any(
        instruction.arg == constant and instruction.opcode in dis.hasconst for instruction in dis.get_instructions(code)
    )
