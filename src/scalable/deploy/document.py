"""Objects as YAML that a person would keep: in their order, long texts as blocks, and comments that say why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Document:
    """One object and what a reader should know about it."""

    object: dict[str, Any]
    comments: tuple[str, ...] = ()


class Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True  # equal parts are written out: who reads a policy wants no references

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def text_node(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


Dumper.add_representer(str, text_node)


def written(documents: Sequence[Document]) -> str:
    return "---\n".join(
        "".join(f"# {line}\n" for line in document.comments)
        + yaml.dump(document.object, Dumper=Dumper, sort_keys=False, width=120, allow_unicode=True)
        for document in documents
    )
