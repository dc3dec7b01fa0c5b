"""What compiled code says about names: which global ones it reads, and which variables it changes itself.

Only what is plain to see is found: a name is followed through the attributes read from it at once, a change is an
assignment, or one to an item or attribute, or a call of a method that changes collections.
"""

from __future__ import annotations

import dis
from collections import defaultdict
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from types import CodeType

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


class Change(Enum):
    ASSIGNED = "assigned"
    """The name stands for something else afterwards."""
    PART_ASSIGNED = "part assigned"
    """An item or attribute was assigned: so it is not a value that stays what it is."""
    METHOD_CALLED = "method called"
    """Changes a collection; what a method of this name does to other things nobody knows."""


def parts_of(code: CodeType) -> Iterator[CodeType]:
    """The code and that of the functions and comprehensions within."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from parts_of(constant)


@lru_cache(REMEMBERED)
def names_read(code: CodeType) -> list[tuple[str, ...]]:
    """Global names with the attributes read from them: ``helpers.compute`` is one chain."""
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
def names_changed(code: CodeType) -> dict[str, set[Change]]:
    """Variables of the module or of a surrounding function that the code changes, and how."""
    found: dict[str, set[Change]] = defaultdict(set)
    for part in parts_of(code):
        for name, change in changes(part):
            found[name].add(change)
    return found


def changes(code: CodeType) -> Iterator[tuple[str, Change]]:
    """Follows which variable each place of the stack was read from, as far as no jump leads in between."""
    stack: list[str] = []
    for one in dis.get_instructions(code):
        if one.is_jump_target:
            stack.clear()
        depth = PART_ASSIGNMENTS.get(one.opname, 1)
        on_stack = stack[-depth] if len(stack) >= depth else ""
        if one.opname in ASSIGNMENTS:
            yield one.argval, Change.ASSIGNED
        elif one.opname in PART_ASSIGNMENTS and on_stack:
            yield on_stack, Change.PART_ASSIGNED
        elif one.opname in ATTRIBUTE_LOADS and one.argval in CHANGING_METHODS and on_stack:
            yield on_stack, Change.METHOD_CALLED
        follow(one, stack)


def follow(one: dis.Instruction, stack: list[str]) -> None:
    """What an instruction leaves on the stack; what it computes is taken to come from its first operand."""
    if one.opname == "COPY" and one.arg:
        stack.append(stack[-one.arg] if len(stack) >= one.arg else "")
    elif one.opname == "SWAP" and one.arg and len(stack) >= one.arg:
        stack[-1], stack[-one.arg] = stack[-one.arg], stack[-1]
    else:
        effect = dis.stack_effect(one.opcode, one.arg)
        if effect < 0:
            del stack[effect:]
        stack += [""] * effect
        if one.opname in LOADS:
            stack[-1] = one.argval


def is_loaded(code: CodeType, constant: int) -> bool:
    return any(one.arg == constant and one.opcode in dis.hasconst for one in dis.get_instructions(code))
