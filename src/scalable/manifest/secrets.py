"""Secrets that stand in a manifest as text.

Whoever loads a manifest is warned of them; who puts it where many can read it refuses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from scalable.findings import Finding
from scalable.manifest import layers, tree
from scalable.observe.redact import SHORTEST_SECRET, asks, looks_secret, names_a_file, redact_text

CODE = "secret-in-manifest"
VARIABLE = re.compile(r"\$\{[^{}]*\}")

Path = tuple[str | int, ...]


def literal(root: tree.Node) -> Iterator[tuple[Path, tree.Scalar]]:
    """Yield each value that is a secret by its name or its shape, and neither a variable nor the name of a Secret."""
    return ((path, node) for path, node in scalars(root) if is_secret(root, path, node))


def is_secret(root: tree.Node, path: Path, node: tree.Scalar) -> bool:
    text = layers.VARIABLE.sub(lambda variable: variable[3] or "", node.text)  # a default stands here as well
    if redact_text(text) != text:
        return True
    small = not isinstance(node.value, str) and len(text) < SHORTEST_SECRET  # a count, a size, yes or no
    if not text or small or reference(root, path):
        return False
    name = next((part for part in reversed(path) if isinstance(part, str)), "")
    return (looks_secret(name) and not names_a_file(name, text)) or asks(before(root, path), text)


def before(root: tree.Node, path: Path) -> str | None:
    """Return what stands before a value in a list: the flag of an argument."""
    if not path or not isinstance(path[-1], int) or path[-1] == 0:
        return None
    node = tree.locate(root, (*path[:-1], path[-1] - 1))[1]
    return node.text if isinstance(node, tree.Scalar) else None


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
