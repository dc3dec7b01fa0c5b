"""Secrets that stand in a manifest as text.

Whoever loads a manifest is warned of them; who puts it where many can read it refuses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from scalable.findings import Finding
from scalable.manifest import tree
from scalable.observe.redact import looks_secret, names_a_file, redact_text

CODE = "secret-in-manifest"
VARIABLE = re.compile(r"\$\{[^{}]*\}")

Path = tuple[str | int, ...]


def literal(root: tree.Node) -> Iterator[tuple[Path, tree.Scalar]]:
    """Yield each value that is a secret by its name or its shape, and neither a variable nor the name of a Secret."""
    for path, node in scalars(root):
        bare = VARIABLE.sub("", node.text)
        name = next((part for part in reversed(path) if isinstance(part, str)), "")
        held = isinstance(node.value, str) and bare == node.text and looks_secret(name)
        if (held or redact_text(bare) != bare) and not reference(root, path):
            yield path, node


def exposed(root: tree.Node, dotted: Iterable[str] = ()) -> Iterator[Finding]:
    """Warn of secrets in environments and addresses; ``dotted``: paths that are reported otherwise."""
    for path, node in literal(root):
        where = ".".join(map(str, path))
        name = str(path[-1])
        in_env = len(path) == 4 and path[0] in ("components", "targets") and path[2] == "env"
        by_shape = redact_text(node.text) != node.text
        if where in dotted or not (by_shape or (in_env and not names_a_file(name, node.text))):
            continue
        variable = re.sub(r"\W", "_", name).upper()
        message = f"{where} holds a secret, which everybody who sees the manifest can read"
        yield Finding.warning(CODE, where, message, f"export {variable}=… and write ${{{variable}}} here", node.place)


def reference(root: tree.Node, path: Path) -> bool:
    """Return whether a value only names a Secret: {secret: NAME, key: KEY}."""
    above = tree.locate(root, path[:-1])[1]
    return isinstance(above, tree.Mapping) and set(above.items) == {"secret", "key"}


def scalars(node: tree.Node, path: Path = ()) -> Iterator[tuple[Path, tree.Scalar]]:
    if isinstance(node, tree.Scalar):
        yield path, node
    elif isinstance(node, tree.Sequence):
        for at, item in enumerate(node.items):
            yield from scalars(item, (*path, at))
    else:
        for name, item in node.items.items():
            yield from scalars(item, (*path, name))
