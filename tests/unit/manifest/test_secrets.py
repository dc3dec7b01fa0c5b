"""Which values of a manifest are secrets as they stand."""

from __future__ import annotations

import pytest

from scalable.manifest import tree
from scalable.manifest.secrets import is_secret


def secret(text: str, *path: str | int) -> bool:
    root = tree.compose(text, "m.yaml")
    node = tree.locate(root, path)[1]
    assert isinstance(node, tree.Scalar)
    return is_secret(root, path, node)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("args: ['--token', 'hunter2']", ("args", 1)),
        ("DB_PASSWORD: ${DB_PASSWORD:-hunter2}", ("DB_PASSWORD",)),
        ("store: 'postgresql://u:${PW:-hunter2}@db/x'", ("store",)),
        ("DB_PASSWORD: 'pre${A}hunter2'", ("DB_PASSWORD",)),
        ("DB_PASSWORD: 1234567890", ("DB_PASSWORD",)),
        ("pass: x", ("pass",)),
        ("a: {secret: ghp_abcdefgh12345abcdefgh12345, key: k}", ("a", "secret")),
    ],
)
def test_a_value_that_is_a_secret_is_found(text: str, path: tuple[str | int, ...]) -> None:
    assert secret(text, *path)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("args: ['--level', 'hunter2']", ("args", 1)),
        ("DB_PASSWORD: ${DB_PASSWORD}", ("DB_PASSWORD",)),
        ("store: 'postgresql://u:${PW}@db/x'", ("store",)),
        ("a: {secret: lab, key: url}", ("a", "secret")),
        ("LAB_TOKEN_FILE: /run/secrets/token", ("LAB_TOKEN_FILE",)),
        ("max_tokens: 4096", ("max_tokens",)),
    ],
)
def test_a_value_that_only_names_one_is_not(text: str, path: tuple[str | int, ...]) -> None:
    assert not secret(text, *path)
