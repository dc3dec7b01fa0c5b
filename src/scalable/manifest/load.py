"""From the text of a manifest to its typed form, with every error at once and each at its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from collections.abc import Mapping as Environment
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from scalable.errors import QuantityError, UsageError
from scalable.findings import Finding, Severity
from scalable.manifest import layers, tree
from scalable.manifest.checks import check
from scalable.manifest.models import Manifest, with_shipped
from scalable.manifest.secrets import exposed
from scalable.manifest.targets import BUILT_IN
from scalable.manifest.validation import ManifestError, ValidationReport
from scalable.manifest.work import Sweep
from scalable.observe.folders import project_folder
from scalable.observe.redact import HIDDEN, looks_secret
from scalable.plugins import installed
from scalable.wording import plural, shown

DIGEST = 16  # hex digits
MOST_ERRORS = 200  # of a manifest that are listed; who made more looks for a cause they share

Loc = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A usable manifest, what was warned about, and the target its overlay came from."""

    manifest: Manifest
    report: ValidationReport
    target: str | None
    root: tree.Node = field(repr=False)
    """The source with the place of every key."""
    digest: str
    """The first hex digits of the SHA-256 of the source, by which runs of the same text are known."""

    def placed(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return findings that others made about the manifest, each with its place."""
        return [placed(finding, self.root) for finding in findings]


def load_file(
    path: Path | str,
    *,
    env: Environment[str, str],
    target: str | None = None,
    overlay: str | None = None,
    providers: Iterable[str] = (),
) -> Loaded:
    """Read a manifest file; see ``load_text``."""
    return load_text(read(Path(path)), str(path), env=env, target=target, overlay=overlay, providers=providers)


def read(path: Path) -> str:
    """Return the text of a file, refused with its place when it is missing, too large or no UTF-8."""
    try:
        with path.open("rb") as file:
            data = file.read(tree.MAX_BYTES + 1)
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder; name the manifest in it, e.g. {path / 'scalable.yaml'}") from None
    except OSError as error:
        hint = "; scalable init  writes one" if isinstance(error, FileNotFoundError) else ""
        raise UsageError(f"cannot read {path}: {error.strerror}{hint}") from None
    if len(data) > tree.MAX_BYTES:
        message = f"too large for a manifest; at most {tree.MAX_BYTES // 1024} KiB are read"
        raise alone(str(path), message, "too-large", "move data out of it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"byte 0x{data[error.start]:02x} on line {line} is not UTF-8"
        raise alone(str(path), message, "not-utf-8", "save the file as UTF-8") from None


def alone(file: str, message: str, code: str, remedy: str) -> ManifestError:
    return ManifestError(ValidationReport.of([Finding.error(code, "", f"{file}: {message}", remedy)]))


def load_text(
    source: str,
    file: str = "scalable.yaml",
    *,
    env: Environment[str, str],
    target: str | None = None,
    overlay: str | None = None,
    providers: Iterable[str] = (),
    further: Callable[[Manifest], Iterable[Finding]] = lambda manifest: (),
) -> Loaded:
    """Return the manifest with its overlay and variables applied, or a ``ManifestError`` with all that is wrong.

    ``further`` looks for what only those know who compute the sweeps, in a manifest that is good by itself.
    """
    problems: list[Finding] = []
    root = tree.compose(source, file, problems)
    target = choose_target(root, target)
    merged = layers.overlaid(root, target, overlay, env, problems)
    layers.check_overlays(root, env, problems)
    body = tree.Mapping(merged.place, {k: v for k, v in merged.items.items() if k != "overlays"}, merged.keys)
    filled = layers.substituted(body, env, problems)
    assert isinstance(filled, tree.Mapping)
    layers.check_secrets(filled, problems)
    problems += exposed(body, {problem.path for problem in problems})
    values = tree.to_python(filled)
    report = ValidationReport.of(first_of(problems, len(problems)))
    try:
        manifest = with_shipped(Manifest.model_validate(values)).read_in(project_folder(file))
        findings = list(check(manifest, providers, target))
        findings += [] if any(finding.severity is Severity.ERROR for finding in findings) else further(manifest)
    except ValidationError as error:
        details = error.errors(include_url=False)
        wrong = [each for detail in details[:MOST_ERRORS] for each in findings_of(detail, filled)]
        wrong = first_of(wrong, len(details))
        spoiled = {problem.place for problem in problems}  # an unset variable is reported once, not as empty too
        report += ValidationReport.of(finding for finding in wrong if finding.place not in spoiled)
        findings = check_rest(values, [real(detail["loc"], filled) for detail in details], providers, target)
    report += ValidationReport.of(placed(finding, filled) for finding in findings)
    if not report.ok:
        raise ManifestError(report, {file: source})
    return Loaded(manifest, report, target, filled, sha256(source.encode("utf-8", "replace")).hexdigest()[:DIGEST])


def first_of(findings: list[Finding], count: int) -> list[Finding]:
    """Return the findings of the first errors, and how many more there are; each is shown with its lines."""
    if (more := count - MOST_ERRORS) <= 0:
        return findings
    text = f"{plural(more, 'more error')}, not listed here"
    return [*findings[:MOST_ERRORS], Finding.error("more-errors", "", text, "correct these first")]


def check_rest(values: dict[str, Any], wrong: list[Loc], providers: Iterable[str], target: str | None) -> list[Finding]:
    """Return findings between the entries that are readable by themselves, so that all errors come at once.

    What was taken out is not reported as undefined where others refer to it.
    """
    left = {name: dict(part) if isinstance(part, dict) else part for name, part in values.items()}
    gone: set[str | int] = set()
    for loc in wrong:
        section, *entry = loc
        if entry and section not in SINGLE and isinstance(left.get(str(section)), dict):
            left[str(section)].pop(entry[0], None)
            gone.add(entry[0])
        else:
            left.pop(str(section), None)
            gone.add(section)
    try:
        manifest = with_shipped(Manifest.model_validate({"version": 1, "project": {"name": "unnamed"}, **left}))
    except ValidationError:
        return []
    return [finding for finding in check(manifest, providers, target) if not follows(finding, gone)]


def follows(finding: Finding, gone: set[str | int]) -> bool:
    """Return whether a finding only says that something which was taken out is missing."""
    if finding.code.startswith(("undefined-", "missing-price", "profile-over")):
        if any(f"'{name}'" in finding.message for name in gone):
            return True
        return any(section in gone and noun in finding.code for section, noun in NOUNS.items())
    return False


NOUNS = {
    "components": "component",
    "nodes": "node",
    "pools": "pool",
    "profiles": "profile",
    "groups": "group",
    "sweeps": "sweep",
    "workloads": "workload",
    "scenarios": "scenario",
}


SINGLE = frozenset({"version", "project", "budget", "policies", "alerts", "store"})  # one thing, not a list


def choose_target(root: tree.Mapping, asked: str | None) -> str | None:
    """Return the target asked for, else the first of the manifest."""
    node = tree.locate(root, ("targets",))[1]
    names = list(node.items) if isinstance(node, tree.Mapping) else []
    if asked is not None:
        if asked not in names:
            near = get_close_matches(str(asked), names, n=1)
            listed = f"the manifest has {', '.join(names)}" if names else "the manifest has no targets"
            raise UsageError(f"no target {asked!r}: {listed}" + (f"; did you mean {near[0]}?" if near else ""))
        return asked
    return names[0] if names else None


def placed(finding: Finding, root: tree.Node) -> Finding:
    """Return the finding with the place of what its path names, or of the nearest thing above that exists."""
    loc = existing(finding.path, root)
    place, node = tree.locate(root, loc)
    entry = isinstance(node, tree.Mapping) and len(loc) == 2  # as pools.compute, whose name is what to look at
    about_key = entry or finding.code in ABOUT_KEYS
    if about_key and dotted(loc) == finding.path:
        place = tree.key_place(root, loc)
    return concealed(replace(finding, place=place), loc, root)


ABOUT_KEYS = frozenset(
    {
        "ignored-option", "undefined-scenario", "undefined-setting", "undefined-sweep or profile", "undefined-workload",
        "unknown-option", "unread-setting",
    }
)  # fmt: skip
"""Codes of findings that are about a key and not about its value."""


def existing(path: str, node: tree.Node, above: Loc = ()) -> Loc:
    """Return the keys that a dotted path names, as far as the tree has them; keys may have dots themselves."""
    if isinstance(node, tree.Scalar):
        return above
    children = node.items.items() if isinstance(node, tree.Mapping) else enumerate(node.items)
    named = [(loc, child) for key, child in children if begins(path, dotted(loc := (*above, key)))]
    return max((existing(path, child, loc) for loc, child in named), key=lambda loc: len(dotted(loc)), default=above)


def begins(path: str, start: str) -> bool:
    return path == start or path.startswith((f"{start}.", f"{start}["))


def concealed(finding: Finding, loc: Loc, root: tree.Node) -> Finding:
    """Return a finding that shows ``${VAR}`` as it is written, not what the variable holds: that may be a secret.

    Of what is called a secret it shows nothing.
    """
    depth = len(loc)
    while (node := tree.locate(root, loc[:depth])[1]) is None:
        depth -= 1
    written_part = len(dotted(loc[:depth]))
    secret = bool(loc[:depth]) and (loc[:depth] in layers.SECRETS or looks_secret(str(loc[depth - 1])))
    for scalar in node.items if isinstance(node, tree.Sequence) else [node]:
        if isinstance(scalar, tree.Scalar) and scalar.text and (scalar.source or secret):
            source = (scalar.source or HIDDEN).replace("\\", r"\\")
            for held in (shown(scalar.value), repr(scalar.value), scalar.text):
                whole = re.compile(rf"(?<![\w.]){re.escape(held)}(?![\w.])")
                finding = replace(finding, message=whole.sub(source, finding.message))
            rest = finding.path[written_part:].replace(f".{scalar.text}", f".{scalar.source or HIDDEN}")
            finding = replace(finding, path=finding.path[:written_part] + rest)
    return finding


def findings_of(error: Any, root: tree.Node) -> list[Finding]:
    """Return what one of pydantic's errors says: usually one finding, several where a check collected them."""
    cause = error.get("ctx", {}).get("error")
    others = cause.others if isinstance(cause, QuantityError) else []
    return [finding_of(error, root), *(finding_of({**error, "ctx": {"error": other}}, root) for other in others)]


def finding_of(error: Any, root: tree.Node) -> Finding:
    """Return one of pydantic's errors as a finding with its place and what to write."""
    loc = real(error["loc"], root)
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, QuantityError):
        loc += cause.at
    return concealed(described(error, loc, cause, root), loc, root)


def described(error: Any, loc: Loc, cause: object, root: tree.Node) -> Finding:
    if loc == ("project", "name") and error["type"] != "missing":
        message = "'project.name' is required and must be a non-empty string"
        return Finding.error(
            "bad-value", "project.name", message, "write e.g. name: my-project", tree.locate(root, loc)[0]
        )
    if isinstance(cause, QuantityError):
        return Finding.error(cause.code, dotted(loc), cause.message, cause.remedy, tree.locate(root, loc)[0])
    place, node = tree.locate(root, loc)
    path = dotted(loc)
    match error["type"]:
        case "missing":
            message = f"'{path}' is required"
            if path == "project.name":
                message += " and must be a non-empty string"
            place = tree.key_place(root, loc[:-1]) if len(loc) > 1 else place
            return Finding.error("missing", path, message, f"add  {loc[-1]}: {EXAMPLES.get(str(loc[-1]), '…')}", place)
        case "extra_forbidden":
            known = fields_at(loc[:-1])
            near = get_close_matches(str(loc[-1]), known, n=1)
            remedy = f"write {near[0]}" if near else f"known here: {', '.join(known)}" if known else "remove it"
            return Finding.error(
                "unknown-key", path, f"unknown key {str(loc[-1])!r}", remedy, tree.key_place(root, loc)
            )
        case "literal_error":
            expected = error["ctx"]["expected"]
            return Finding.error(
                "bad-value", path, f"{written(node)} is not one of {expected}", f"write {expected}", place
            )
        case "model_type" | "dict_type" | "model_attributes_type":
            known = fields_at(loc)
            keys = f"{{{known[0]}: …}}" if known else "{name: …}"
            return Finding.error(
                "wrong-type", path, f"{written(node)} is not a mapping", f"write keys, e.g. {keys}", place
            )
        case "too_short":
            return Finding.error("bad-value", path, "the list is empty", "write at least one, e.g. [first]", place)
        case "string_type":
            remedy = 'quote it if it is a number: "2.0"'
            return Finding.error("wrong-type", path, f"{written(node)} is not a text", remedy, place)
        case "list_type":
            return Finding.error(
                "wrong-type", path, f"{written(node)} is not a list", "write e.g. [first, second]", place
            )
    return Finding.error("wrong-type", path, f"{written(node)}: {error['msg'].lower()}", "", place)


EXAMPLES = {
    "version": "1",
    "project": "{name: my-project}",
    "name": "my-project",
    "provider": "local",
    "factor": "calibration",
    "assets": "defi_top5",
    "cpu": "2",
    "memory": "8GiB",
    "price": "0.1644 EUR/h",
    "monthly": "200 EUR",
    "node": "PRO2-M",
    "request": "{cpu: 2, memory: 2GiB}",
    "limit": "{cpu: 4, memory: 8GiB}",
    "maximum": "20",
    "hours": "4",
    "sessions": "12",
    "workers": "5",
}


def real(loc: Loc, root: tree.Node) -> Loc:
    """Return a pydantic location without what the source does not have: union members and ``[key]`` marks."""
    path: list[str | int] = []
    for part in loc:
        if part == "[key]":
            continue
        parent = tree.locate(root, tuple(path))[1]
        has = isinstance(parent, tree.Mapping) and str(part) in parent.items
        if not has and (part in BUILT_IN or part == "other") and path[:1] == ["targets"] and len(path) == 2:
            continue
        if part in ("str", "int", "float", "bool", "tuple[str, ...]") and not has:
            continue
        path.append(part)
    return tuple(path)


def fields_at(loc: Loc) -> list[str]:
    """Return the keys that are known at a path, for messages about one that is not."""
    current: Any = Manifest
    for part in loc:
        if is_model(current):
            field = current.model_fields.get(str(part))
            current = field.annotation if field else None
        elif getattr(current, "__origin__", None) in (dict, list):
            current = current.__args__[-1]
        else:
            return []
        if getattr(current, "__origin__", None) not in (dict, list) and not is_model(current):
            current = next((member for member in getattr(current, "__args__", ()) if is_model(member)), None)
    short = [key for plugin in installed().values() for key in plugin.short_keys()] if current is Sweep else []
    return [*current.model_fields, *short] if is_model(current) else []


def is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def dotted(loc: Loc) -> str:
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def written(node: tree.Node | None) -> str:
    if isinstance(node, tree.Scalar):
        return shown(node.source or node.value)
    return "a list" if isinstance(node, tree.Sequence) else "a mapping" if node else "this"


__all__ = ["Loaded", "load_file", "load_text"]
