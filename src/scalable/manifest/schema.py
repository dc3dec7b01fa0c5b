"""The JSON Schema of ``scalable.yaml``, for editors that complete and check while one types."""

from __future__ import annotations

from typing import Any

from scalable.manifest.models import Manifest
from scalable.manifest.targets import BUILT_IN
from scalable.quantities import Memory

VARIABLE = {"type": "string", "pattern": r"\$\{.+\}"}
MEMORY = {"type": "string", "pattern": Memory.pattern, "examples": [Memory.written]}
NAMES = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


def json_schema() -> dict[str, Any]:
    """Every field that takes a value also takes ``${VAR}``, since variables are replaced before checking."""
    schema = Manifest.model_json_schema(mode="validation")
    parts = schema["$defs"]
    parts["Peak"] = {"anyOf": [MEMORY, parts["Peak"]]}
    parts["Minutes"] = {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, parts["Minutes"]]}
    parts["Fork"] = {"anyOf": [parts["Fork"]["properties"]["policy"], parts["Fork"]]}
    for name in ("Scenario", "Growth"):
        fields = parts[name]["properties"]
        fields["workloads"] = {"anyOf": [NAMES, fields["workloads"]]}
    parts["Target"]["properties"]["provider"]["not"] = {"enum": list(BUILT_IN)}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **open_up(schema), "title": "scalable.yaml"}


def open_up(part: Any) -> Any:
    if isinstance(part, list):
        return [open_up(item) for item in part]
    if not isinstance(part, dict):
        return part
    part = {key: open_up(value) for key, value in part.items()}
    narrow = part.get("type") == "string" and ("pattern" in part or "enum" in part)
    return {"anyOf": [part, VARIABLE]} if narrow or part.get("type") in ("integer", "number", "boolean") else part
