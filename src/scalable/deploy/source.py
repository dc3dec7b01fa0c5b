"""The text of a manifest on its way into a cluster: which variables it needs there, and that no secret stands in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from scalable.errors import UsageError
from scalable.findings import Finding, SourcePlace
from scalable.manifest import layers, tree
from scalable.manifest.load import choose_target, dotted
from scalable.manifest.secrets import VARIABLE, Path, literal, scalars
from scalable.observe.redact import looks_secret, redact_text

STORE = "SCALABLE_STORE_URL"
WRITTEN_OUT = ("image", "namespace")
"""Of the target; the cluster's copy has their values, so that no variable must be known there."""
PASSWORD = re.compile(r"""://[^\s/:@"'$]*:(?!\d{1,5}/)[^\s@"'$]+@""")
PAIR = re.compile(r"(?:^[\s#-]*([\w.-]+)|\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)):\s+(?=[^\s{$])")
"""A name and a value in a comment: what it begins with, or the name of a variable anywhere; the rest is prose."""


@dataclass(frozen=True, slots=True)
class Source:
    text: str
    file: str
    target: str
    overlay: str | None
    root: tree.Mapping
    """As it is written."""
    merged: tree.Mapping
    """With the target's overlays."""
    local: Mapping[str, str]
    """The environment here, which is not the cluster's."""

    UNKNOWN: ClassVar[str] = "known-in-the-cluster-only"
    """Stands for what a Secret holds while the rest of the manifest is checked."""

    @classmethod
    def of(cls, text: str, file: str, target: str | None, overlay: str | None, local: Mapping[str, str]) -> Source:
        """Raises ``UsageError`` if there is no target on Kubernetes to deploy to."""
        problems: list[Finding] = []  # who loads the manifest tells them
        root = tree.compose(text, file, problems)
        name = choose_target(root, target) if target else first_on_kubernetes(root)
        merged = layers.overlaid(root, name, overlay, local, problems)
        provider = tree.locate(merged, ("targets", name, "provider"))[1] if name else None
        if name is None or not isinstance(provider, tree.Scalar) or provider.text != "kubernetes":
            others = ", ".join(on_kubernetes(root))
            remedy = f"--target names one of: {others}" if others else "add one: provider: kubernetes"
            which = f"the target {name} is not on Kubernetes" if name else "no target is on Kubernetes"
            raise UsageError(f"{file}: {which}; {remedy}")
        return cls(text, file, name, overlay, root, merged, local)

    @property
    def target_path(self) -> Path:
        return ("targets", self.target)

    @property
    def from_secret(self) -> tuple[str, ...]:
        """Variables without which the manifest cannot be read in the cluster and that the target's env does not give.

        The store's is among them even if it has a default: that is for your machine.
        """
        needed = {
            name
            for path, name, default in variables(self.merged)
            if default is None or (path, name) == (("store",), STORE)
            if path[:2] != self.target_path or path[2] not in WRITTEN_OUT
        }
        return tuple(sorted(needed - set(self.given)))

    @property
    def given(self) -> dict[str, tree.Node]:
        """The target's env as it is written."""
        env = tree.locate(self.merged, (*self.target_path, "env"))[1]
        return env.items if isinstance(env, tree.Mapping) else {}

    @property
    def secret_names(self) -> set[str]:
        """Variables whose values are in Secrets."""
        return {*self.from_secret, *(name for name, node in self.given.items() if isinstance(node, tree.Mapping))}

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the manifest is read with: the cluster's, and values of secrets where they are known."""
        written = [name for key in WRITTEN_OUT for name in self.names_in((*self.target_path, key))]
        values = {name: self.local[name] for name in written if name in self.local}
        for name, node in self.given.items():
            if isinstance(node, tree.Scalar):
                values[name] = self.UNKNOWN if "$" in node.text else node.text
        return values | {name: self.local.get(name) or self.UNKNOWN for name in self.secret_names}

    def names_in(self, path: Path) -> list[str]:
        node = tree.locate(self.merged, path)[1]
        return [name for _, name, _ in variables(node)] if node is not None else []

    def error(self, code: str, at: str | Path, message: str, remedy: str = "") -> Finding:
        """Return a finding about a key of the target, or about any path."""
        path = (*self.target_path, at) if isinstance(at, str) else at
        return Finding.error(code, dotted(path), message, remedy, tree.locate(self.merged, path)[0])

    def secrets(self) -> Iterator[Finding]:
        """Yield values that many could read in the cluster, as text, in an overlay or in a comment."""
        lines = set()
        for path, node in literal(self.root):
            lines.add(node.place.line)
            yield exposed(dotted(path), node.place)
        for number, line in enumerate(self.text.splitlines(), 1):
            if number not in lines and (PASSWORD.search(line) or in_comment(line)):
                yield exposed("", SourcePlace(self.file, number, 1))

    def with_values(self, values: Mapping[str, str]) -> str:
        """Return the text with these values of the target written out."""
        text, at = "", 0
        spans = (self.span(key, value) for key, value in values.items() if self.written(key) != value)
        for start, end, value in sorted(spans):
            text += self.text[at:start] + value
            at = end
        return text + self.text[at:]

    def written(self, key: str) -> str | None:
        """Return what the file has for a key of the target."""
        node = tree.locate(self.merged, (*self.target_path, key))[1]
        return node.text if isinstance(node, tree.Scalar) else None

    def span(self, key: str, value: str) -> tuple[int, int, str]:
        """Return where a value of the target stands in the text, and what to write there."""
        place = tree.locate(self.merged, (*self.target_path, key))[0]
        lines = self.text.splitlines(keepends=True)
        start = sum(map(len, lines[: place.line - 1])) + place.column - 1
        whole = self.text[start : start + place.length]
        bare = whole.strip("'\"")
        if bare != self.written(key):
            path = dotted((*self.target_path, key))
            raise UsageError(f"{self.file}:{place.line}: {path} cannot be written out; write it here, on one line")
        return start, start + place.length, whole.replace(bare, value)


def exposed(path: str, place: SourcePlace) -> Finding:
    message = "a secret that stands here would be readable by everybody who may read the run's ConfigMap"
    return Finding.error("secret", path, message, "write ${NAME} instead; its value then comes from a Secret", place)


def in_comment(line: str) -> bool:
    """Return whether a comment holds a secret: by its shape, as NAME=VALUE, or as a line of YAML; prose is none."""
    comment = VARIABLE.sub("", line.partition("#")[2])
    prose = comment.replace(": ", " ")
    return redact_text(prose) != prose or any(looks_secret(pair[1] or pair[2]) for pair in PAIR.finditer(comment))


def variables(node: tree.Node) -> Iterator[tuple[Path, str, str | None]]:
    """Yield every variable of a tree: where it stands, its name, and its default if it has one."""
    for path, scalar in scalars(node):
        if path[:1] != ("overlays",):
            for match in layers.VARIABLE.finditer(scalar.text):
                if match[1] is not None:
                    yield path, match[1], match[3]


def on_kubernetes(root: tree.Mapping) -> list[str]:
    targets = tree.locate(root, ("targets",))[1]
    names = list(targets.items) if isinstance(targets, tree.Mapping) else []
    providers = [(name, tree.locate(root, ("targets", name, "provider"))[1]) for name in names]
    return [name for name, node in providers if isinstance(node, tree.Scalar) and node.text == "kubernetes"]


def first_on_kubernetes(root: tree.Mapping) -> str | None:
    return next(iter(on_kubernetes(root)), None)
