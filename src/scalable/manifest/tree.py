"""YAML as a tree that remembers where everything stands.

Read from the parser's events rather than with a loader, for four reasons: every value keeps its line and column,
duplicate keys are errors, plain words follow YAML 1.2 (``off`` is a word and ``04:00:00`` is a time, not 14400), and
aliases, nesting and size are bounded, so no file can exhaust the machine. ``yaml.compose`` would save this module 50
lines, but it recurses: 300,000 opening brackets, a third of a megabyte, end the process with a segmentation fault.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from scalable.findings import Finding, SourcePlace
from scalable.manifest.validation import ManifestError, ValidationReport

MAX_BYTES = 1 << 20  # the largest manifests people wrote are under 100 kB
MAX_DEPTH = 40  # the models nest 7 deep
MAX_VALUES = 100_000  # after aliases are followed; a "billion laughs" file passes it at once

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Scalar:
    """A single value. ``text`` is what stands in the file; ``quoted`` says that it is text whatever it looks like."""

    place: SourcePlace
    text: str
    quoted: bool = False
    weight: int = 1
    source: str = ""
    """What the file says where a variable was replaced in ``text``."""

    @property
    def value(self) -> str | int | float | bool | None:
        return self.text if self.quoted else plain_value(self.text)

    @property
    def variable(self) -> bool:
        """The file has one variable here and nothing else."""
        return re.fullmatch(r"\$\{[^{}]*\}", self.source) is not None


@dataclass(slots=True)
class Sequence:
    place: SourcePlace
    items: list[Node] = field(default_factory=list)
    weight: int = 1


@dataclass(slots=True)
class Mapping:
    place: SourcePlace
    items: dict[str, Node] = field(default_factory=dict)
    keys: dict[str, SourcePlace] = field(default_factory=dict)
    weight: int = 1


Node = Scalar | Sequence | Mapping


def compose(source: str, file: str, problems: list[Finding] | None = None) -> Mapping:
    """Return the tree of a document, or a ``ManifestError`` that says where it is no readable mapping.

    What does not keep the rest from being read (a key written twice) is added to ``problems`` if that is given.
    """
    composer = Composer(source, file)
    if bad := yaml.reader.Reader.NON_PRINTABLE.search(source):
        start = bad.start()
        place = SourcePlace(file, source.count("\n", 0, start) + 1, start - source.rfind("\n", 0, start))
        what = f"the character U+{ord(bad[0]):04X} is not allowed in YAML"
        raise composer.refuse(place, what, "yaml-character", "remove it")
    try:
        root = composer.document(yaml.parse(source, Loader=LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        lines = source.splitlines() or [""]
        line = min(mark.line, len(lines) - 1) if mark else 0  # what is missing at the end is missed past the last line
        column = mark.column if mark and mark.line == line else len(lines[line])
        place = SourcePlace(file, line + 1, column + 1)
        what = f"not readable as YAML: {error.problem}"
        raise composer.refuse(place, what, "yaml-syntax", hint(error, source)) from None
    if root is None or (isinstance(root, Scalar) and root.value is None):
        remedy = "start with  version: 1  and  project: {name: …}, or let  scalable init  write one"
        raise composer.refuse(SourcePlace(file, 1, 1), "the manifest is empty", "empty", remedy)
    if not isinstance(root, Mapping):
        remedy = "start with  version: 1  and  project: {name: …}"
        raise composer.refuse(root.place, "a manifest is a mapping of keys to values", "not-a-mapping", remedy)
    if composer.findings and problems is None:
        raise ManifestError(ValidationReport.of(composer.findings), {file: source})
    if problems is not None:
        problems += composer.findings
    return root


class Composer:
    """Builds nodes from events with a stack of its own, so that nesting cannot exhaust Python's."""

    def __init__(self, source: str, file: str) -> None:
        self.source = source
        self.file = file
        self.anchors: dict[str, Node] = {}
        self.open_anchors: set[str] = set()
        self.findings: list[Finding] = []
        """What is wrong without keeping the rest from being read."""

    def document(self, events: Iterator[Any]) -> Node | None:
        root: Node | None = None
        documents = 0
        stack: list[tuple[Sequence | Mapping, str | None]] = []  # open collections with their anchors
        keys: list[Scalar | None] = []  # the key each open mapping waits to give a value
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    what, remedy = "a manifest is one document", "remove this  ---  and what follows"
                    raise self.refuse(self.place(event), what, "second-document", remedy)
            elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
                self.plain_tag(event)
                kind = Sequence if isinstance(event, yaml.SequenceStartEvent) else Mapping
                if len(stack) >= MAX_DEPTH:
                    what = f"nested more than {MAX_DEPTH} deep"
                    raise self.refuse(self.place(event), what, "too-deep", "flatten it")
                stack.append((kind(self.place(event)), event.anchor))
                keys.append(None)
                if event.anchor:
                    self.open_anchors.add(event.anchor)
            elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
                node, anchor = stack.pop()
                keys.pop()
                if anchor:
                    self.anchors[anchor] = node
                    self.open_anchors.discard(anchor)
                root = self.put(node, stack, keys) or root
            elif isinstance(event, yaml.ScalarEvent):
                self.plain_tag(event)
                scalar = Scalar(self.place(event), event.value, quoted=bool(event.style))
                self.printable(scalar)
                if event.anchor:
                    self.anchors[event.anchor] = scalar
                root = self.put(scalar, stack, keys) or root
            elif isinstance(event, yaml.AliasEvent):
                root = self.put(self.alias(event), stack, keys) or root
        return root

    def put(
        self, node: Node, stack: list[tuple[Sequence | Mapping, str | None]], keys: list[Scalar | None]
    ) -> Node | None:
        """Place a finished node in the innermost open collection; at the top it is the document itself."""
        if not stack:
            return node
        parent = stack[-1][0]
        parent.weight += node.weight
        if parent.weight > MAX_VALUES:
            what = f"more than {MAX_VALUES:,} values once its aliases are followed"
            raise self.refuse(parent.place, what, "too-large", "write it without aliases of aliases")
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif keys[-1] is None:
            if not isinstance(node, Scalar):
                raise self.refuse(node.place, "a key must be a single word", "bad-key", "write  key: value")
            keys[-1] = node
        else:
            self.set(parent, keys[-1], node)
            keys[-1] = None
        return None

    def set(self, mapping: Mapping, key: Scalar, value: Node) -> None:
        name = key.text
        if not name.strip():
            raise self.refuse(key.place, "a key needs a name", "bad-key", "write  key: value")
        if name == "<<" and not key.quoted:
            self.merge(mapping, value)
        elif name in mapping.items and name in mapping.keys:
            first = mapping.keys[name]
            remedy = f"remove one; the first is on line {first.line}"
            self.findings.append(
                Finding.error("duplicate-key", "", f"the key {name!r} is written twice", remedy, key.place)
            )
        else:
            mapping.items[name] = value
            mapping.keys[name] = key.place

    def merge(self, mapping: Mapping, value: Node) -> None:
        """Merge YAML's ``<<: *base``: what is written in the mapping itself wins."""
        for base in value.items if isinstance(value, Sequence) else [value]:
            if not isinstance(base, Mapping):
                raise self.refuse(base.place, "<< takes a mapping", "bad-merge", "write  <<: *name")
            for name, node in base.items.items():
                mapping.items.setdefault(name, node)

    def alias(self, event: Any) -> Node:
        node = self.anchors.get(event.anchor)
        if node is None:
            inside = event.anchor in self.open_anchors
            what = f"*{event.anchor} " + ("stands inside what it names" if inside else "names nothing above it")
            raise self.refuse(self.place(event), what, "bad-alias", f"define &{event.anchor} before, outside of it")
        return node

    def printable(self, scalar: Scalar) -> None:
        r"""Refuse escapes such as ``"\e"``, which bring control characters into names that reach a terminal."""
        if control(scalar.text):
            what = f"the text {scalar.text!r} has a control character"
            self.findings.append(Finding.error("control-character", "", what, "remove it", scalar.place))

    def plain_tag(self, event: Any) -> None:
        if event.tag and event.tag not in ("!", "tag:yaml.org,2002:str"):
            what = f"the tag {event.tag} is not used in manifests"
            raise self.refuse(self.place(event), what, "tag", "remove it")

    def place(self, event: Any) -> SourcePlace:
        start, end = event.start_mark, event.end_mark
        single = end.line == start.line
        return SourcePlace(
            self.file, start.line + 1, start.column + 1, max(1, end.column - start.column) if single else 1
        )

    def refuse(self, place: SourcePlace, message: str, code: str, remedy: str) -> ManifestError:
        return ManifestError(
            ValidationReport.of([Finding.error(code, "", message, remedy, place)]), {self.file: self.source}
        )


def hint(error: yaml.MarkedYAMLError, source: str) -> str:
    problem, mark = error.problem or "", error.problem_mark
    lines = source.splitlines()
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    if mark and "\t" in line[: mark.column + 1]:
        return "indent with spaces, not tabs"
    if mark and line[mark.column - 1 : mark.column + 1] == "${":
        return 'inside braces quote it: "${NAME}"'
    if "mapping values are not allowed" in problem:
        return "check the indentation, or quote a text that contains ': '"
    return "check indentation, quotes and brackets here"


INTEGER = re.compile(r"[-+]?\d{1,18}")
FLOAT = re.compile(r"[-+]?(\.\d{1,40}|\d{1,40}(\.\d{0,40})?)([eE][-+]?\d{1,3})?")
WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}


def plain_value(text: str) -> str | int | float | bool | None:
    """Return what an unquoted word means in YAML 1.2's core schema."""
    if text in WORDS:
        return WORDS[text]
    if INTEGER.fullmatch(text):
        return int(text)
    if FLOAT.fullmatch(text):
        return float(text)
    return text


def control(text: str) -> bool:
    return any(unicodedata.category(character) == "Cc" and character not in "\n\t" for character in text)


class FromVariable(str):
    """A quoted text that is one variable and nothing else: where a number is asked for, it is read as one.

    Inside braces a variable must be quoted, so quotes alone cannot mean that a text is meant.
    """

    __slots__ = ()


def to_python(node: Node) -> Any:
    """Return the plain values of a tree."""
    if isinstance(node, Scalar):
        return FromVariable(node.text) if node.quoted and node.variable else node.value
    if isinstance(node, Sequence):
        return [to_python(item) for item in node.items]
    return {name: to_python(item) for name, item in node.items.items()}


def locate(root: Node, path: tuple[str | int, ...]) -> tuple[SourcePlace, Node | None]:
    """Return where a path stands: its value if there is one, else the nearest thing above it that exists."""
    node: Node = root
    for part in path:
        if isinstance(node, Mapping) and str(part) in node.items:
            child = node.items[str(part)]
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            child = node.items[part]
        else:
            return node.place, None
        node = child
    return node.place, node


def key_place(root: Node, path: tuple[str | int, ...]) -> SourcePlace:
    """Return where the key itself stands, for findings about the key rather than its value."""
    place, parent = locate(root, path[:-1])
    if isinstance(parent, Mapping):
        return parent.keys.get(str(path[-1]), place)
    return place
