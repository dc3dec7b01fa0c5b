"""Whether a value of a manifest is a secret as it stands there: by its name, by its shape, by the flag before it."""

from __future__ import annotations

from scalable.manifest import layers, tree
from scalable.observe.redact import asks, looks_secret, names_a_file, redact_text

Path = tuple[str | int, ...]


def is_secret(root: tree.Node, path: Path, node: tree.Scalar) -> bool:
    """Return whether a value holds a secret itself, and neither only names a variable nor a Secret of a cluster."""
    text = layers.VARIABLE.sub(lambda variable: variable[3] or "", node.text)  # a default stands here as well
    if redact_text(text) != text:
        return True
    if text in ("", "true", "false", "null") or reference(root, path):
        return False
    name = next((part for part in reversed(path) if isinstance(part, str)), "")
    return (looks_secret(name) and not names_a_file(name, text)) or asks(before(root, path), text)


def before(root: tree.Node, path: Path) -> str | None:
    """Return what stands before a value in a list: the flag of an argument."""
    if not path or not isinstance(path[-1], int) or path[-1] == 0:
        return None
    node = tree.locate(root, (*path[:-1], path[-1] - 1))[1]
    return node.text if isinstance(node, tree.Scalar) else None


def reference(root: tree.Node, path: Path) -> bool:
    """Return whether a value only names a Secret: {secret: NAME, key: KEY}."""
    above = tree.locate(root, path[:-1])[1]
    return isinstance(above, tree.Mapping) and set(above.items) == {"secret", "key"}
