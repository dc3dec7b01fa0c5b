"""Changes to a tree before it is checked: overlays are merged in and ``${VAR}`` is replaced."""

from __future__ import annotations

import re
from collections.abc import Mapping as Environment

from scalable.findings import Finding, SourcePlace
from scalable.manifest.tree import Mapping, Node, Scalar, Sequence, control, locate
from scalable.wording import not_defined

SECRETS = (("alerts", "webhook"),)
VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^${}]*))?\}|\$\{[^}]*\}?")


def overlaid(
    root: Mapping, target: str | None, overlay: str | None, env: Environment[str, str], problems: list[Finding]
) -> Mapping:
    """Return the manifest with the overlay the target names, then the one asked for, merged in.

    An overlay may stand on another by its own ``overlay:`` key, and may change which overlay the target names;
    a chain that comes back to itself is an error.
    """
    applied: list[str] = []
    while target is not None:
        named = locate(root, ("targets", target, "overlay"))[1]
        named = substituted(named, env, []) if named is not None else None
        if not isinstance(named, Scalar) or not isinstance(named.value, str) or named.value in applied[-1:]:
            break
        if not isinstance(locate(root, ("overlays", named.value))[1], Mapping):
            break  # check_overlays says so
        if not apply(named.value, f"targets.{target}.overlay", named, applied, problems):
            break
        root = merged(root, chain(root, named.value, [], problems))
    if overlay is not None and apply(overlay, "overlay", root, [], problems):
        root = merged(root, chain(root, overlay, [], problems))
    return root


def apply(name: str, path: str, at: Node, applied: list[str], problems: list[Finding]) -> bool:
    """Note that an overlay is about to be applied; a second time round is a cycle."""
    if name in applied:
        shown = " → ".join([*applied, name])
        problems.append(
            Finding.error("cyclic-overlay", path, f"the overlay is cyclic: {shown}", "break the chain", at.place)
        )
        return False
    applied.append(name)
    return True


def chain(root: Mapping, name: str, above: list[str], problems: list[Finding]) -> Mapping:
    """Return an overlay with those it stands on merged under it."""
    place, node = locate(root, ("overlays", name))
    if name in above:
        message = f"the overlay is cyclic: {' → '.join([*above, name])}"
        problems.append(Finding.error("cyclic-overlay", f"overlays.{name}.overlay", message, "break the chain", place))
        return Mapping(root.place)
    if not isinstance(node, Mapping):
        known = locate(root, ("overlays",))[1]
        names = list(known.items) if isinstance(known, Mapping) else []
        path, at = (
            ("overlays." + above[-1] + ".overlay", known.items[above[-1]].place)
            if above and isinstance(known, Mapping)
            else ("overlay", place)
        )
        problems.append(undefined(path, name, names, at))
        return Mapping(root.place)
    own = Mapping(node.place, {k: v for k, v in node.items.items() if k != "overlay"}, node.keys)
    base = node.items.get("overlay")
    if isinstance(base, Scalar) and isinstance(base.value, str):
        return merged(chain(root, base.value, [*above, name], problems), own)
    return own


def check_overlays(root: Mapping, env: Environment[str, str], problems: list[Finding]) -> None:
    """Check overlays that no target of this call uses, which must be sound too."""
    overlays = locate(root, ("overlays",))[1]
    if overlays is not None and not isinstance(overlays, Mapping):
        remedy = "write e.g. {large: {targets: …}}"
        problems.append(Finding.error("wrong-type", "overlays", "overlays are not a mapping", remedy, overlays.place))
    for name, node in overlays.items.items() if isinstance(overlays, Mapping) else ():
        if isinstance(node, Mapping):
            chain(root, name, [], problems)
        else:
            remedy = "write the keys it changes, e.g. {targets: …}"
            problems.append(
                Finding.error("wrong-type", f"overlays.{name}", "the overlay is not a mapping", remedy, node.place)
            )
    targets = locate(root, ("targets",))[1]
    for name in targets.items if isinstance(targets, Mapping) else ():
        named = locate(root, ("targets", name, "overlay"))[1]
        unset: list[Finding] = []
        named = substituted(named, env, unset) if named is not None else None
        if isinstance(named, Scalar) and isinstance(named.value, str) and not unset:
            known = list(overlays.items) if isinstance(overlays, Mapping) else []
            if named.value not in known:
                path = f"targets.{name}.overlay"
                problems.append(undefined(path, named.value, known, named.place))


def merged(below: Mapping, above: Mapping) -> Mapping:
    """Return both merged: mappings merge, lists and scalars replace."""
    result = Mapping(below.place, dict(below.items), dict(below.keys))
    for name, node in above.items.items():
        old = result.items.get(name)
        both = isinstance(old, Mapping) and isinstance(node, Mapping)
        result.items[name] = merged(old, node) if both else node  # type: ignore[arg-type]
        result.keys[name] = above.keys.get(name, node.place)
    return result


def substituted(node: Node, env: Environment[str, str], problems: list[Finding], path: str = "") -> Node:
    """Return the tree with ``${VAR}`` and ``${VAR:-default}`` replaced; ``$$`` stands for a dollar sign.

    An unquoted value is read again afterwards, so ``max_workers: ${N}`` is a number. Messages keep showing the
    source text: what a variable holds may be a secret.
    """
    if isinstance(node, Scalar):
        if "$" not in node.text:
            return node

        def replace(match: re.Match[str]) -> str:
            if match[0] == "$$":
                return "$"
            name, default = match[1], match[3]
            if name is None:
                remedy = "write ${NAME} or ${NAME:-default}, with no variable in the default; $$ for a dollar sign"
                problems.append(
                    Finding.error("bad-variable", path, f"{match[0]} is not a variable", remedy, node.place)
                )
                return ""
            value = env.get(name) or default  # as in a shell, :- also covers a variable that is set but empty
            if match[2] is None:
                value = env.get(name)
            if value is None:
                remedy = f"export {name}=…, or write ${{{name}:-default}}"
                message = f"the environment variable {name} is not set"
                problems.append(Finding.error("unset-variable", path, message, remedy, node.place))
            if control(value or ""):
                message = f"the environment variable {name} holds a control character"
                problems.append(
                    Finding.error("control-character", path, message, f"unset {name} or correct it", node.place)
                )
            return value or ""

        return Scalar(node.place, VARIABLE.sub(replace, node.text), node.quoted, source=node.text)
    if isinstance(node, Sequence):
        items = [substituted(item, env, problems, f"{path}[{i}]") for i, item in enumerate(node.items)]
        return Sequence(node.place, items)
    inside = {
        name: substituted(item, env, problems, f"{path}.{name}" if path else name) for name, item in node.items.items()
    }
    return Mapping(node.place, inside, node.keys)


def check_secrets(root: Node, problems: list[Finding]) -> None:
    """Refuse secrets in a file that people share; they are written as variables."""
    for path in SECRETS:
        place, node = locate(root, path)
        if isinstance(node, Scalar) and node.text and not node.variable:
            dotted, name = ".".join(path), "_".join(path).upper()
            message = f"{dotted} is a secret and stands in the manifest"
            remedy = f"export {name}=… and write {path[-1]}: ${{{name}}}"
            problems.append(Finding.error("secret-in-manifest", dotted, message, remedy, place))


def undefined(path: str, name: str, known: list[str], place: SourcePlace) -> Finding:
    message, remedy = not_defined("overlay", name, known)
    return Finding.error(
        "undefined-overlay", path, message, remedy if known else "no overlay is defined; add one", place
    )
