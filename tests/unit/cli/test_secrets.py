"""Secrets in manifests: whoever writes one down is told, and no error says it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalable.manifest import ManifestError, load_text
from tests.helpers.cli.commands import Call, call

__all__ = ["call"]

HEAD = "version: 1\nproject: {name: lab}\n"
PASSWORD, HOOK, TOKEN = "hunter2-and-more", "https://chat.example/hooks/T0/B0/xyzzy42", "plain-words-of-a-token"


def codes(text: str) -> list[tuple[str, str]]:
    report = load_text(HEAD + text, env={}).report
    return [(finding.code, finding.path) for finding in report.warnings]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (f"components: {{demeter: {{env: {{DB_PASSWORD: {PASSWORD}}}}}}}\n", "components.demeter.env.DB_PASSWORD"),
        (
            f"targets: {{here: {{provider: kubernetes, image: 'a:1', env: {{API_TOKEN: {TOKEN}}}}}}}\n",
            "targets.here.env.API_TOKEN",
        ),
        (f"store: postgresql://me:{PASSWORD}@db/results\n", "store"),
        (f"tracking: https://me:{PASSWORD}@mlflow.example\n", "tracking"),
    ],
)
def test_a_secret_that_stands_in_a_manifest_is_warned_about(text: str, path: str) -> None:
    assert ("secret-in-manifest", path) in codes(text)


@pytest.mark.parametrize(
    "text",
    [
        "components: {demeter: {env: {DB_PASSWORD: '${DB_PASSWORD:-}', PGPASSFILE: /home/me/.pgpass, TOKENS: 5}}}\n",
        "targets: {here: {provider: kubernetes, image: 'a:1', env: {API_TOKEN: {secret: lab, key: token}}}}\n",
        "store: postgresql://me@db/results\n",
    ],
)
def test_a_variable_a_file_or_the_name_of_a_secret_is_none(text: str) -> None:
    assert "secret-in-manifest" not in dict(codes(text))


def test_no_error_says_a_secret_that_stands_in_the_manifest(call: Call) -> None:
    lines = [
        f"store: postgresql://me:{PASSWORD}@db/results",
        f"alerts: {{webhook: '{HOOK}'}}",
        "budget: {monthly: nothing}",
        f"components: {{demeter: {{env: {{API_TOKEN: [{TOKEN}]}}}}}}",
    ]
    Path("scalable.yaml").write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    for arguments in (("validate",), ("validate", "--format", "json"), ("plan",)):
        answer = call(*arguments)
        assert answer.status != 0
        for secret in (PASSWORD, "xyzzy42", TOKEN):
            assert secret not in answer.out + answer.err, arguments


def test_a_manifest_that_cannot_be_read_is_refused_without_the_secret_beside(call: Call) -> None:
    text = f"{HEAD}alerts:\n  webhook: {HOOK}\n  : [\n"
    with pytest.raises(ManifestError) as refused:
        load_text(text, env={})
    assert "xyzzy42" not in str(refused.value)


def test_a_refused_value_of_a_secret_name_is_not_shown() -> None:
    text = f"{HEAD}alerts: {{webhook: 'ftp://chat/{TOKEN}'}}\nstore: 'nonsense {PASSWORD}@db'\n"
    with pytest.raises(ManifestError) as refused:
        load_text(text, env={})
    assert TOKEN not in str(refused.value) and PASSWORD not in str(refused.value)
