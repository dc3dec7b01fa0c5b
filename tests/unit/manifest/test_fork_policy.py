"""The fork policy of a manifest: one word, or keys with exceptions and what gRPC is told."""

from __future__ import annotations

import pytest

from scalable.manifest import load_text
from scalable.manifest.policies import Fork

HEAD = "version: 1\nproject: {name: test}\n"


def fork(text: str, **env: str) -> Fork:
    return load_text(HEAD + text, env=env).manifest.policies.fork


def test_forks_with_threads_are_denied_unless_something_else_is_said() -> None:
    found = fork("store: sqlite:///x.db")

    assert (found.policy, found.allow, found.grpc.variables()) == ("deny", [], {"GRPC_ENABLE_FORK_SUPPORT": "0"})


@pytest.mark.parametrize("text", ["policies: {fork: warn}", "policies: {fork: {policy: warn}}"])
def test_the_policy_alone_may_be_written(text: str) -> None:
    assert fork(text) == Fork(policy="warn")


def test_the_policy_may_come_from_a_variable() -> None:
    assert fork("policies:\n  fork: ${FORK}", FORK="allow").policy == "allow"


def test_modules_may_be_excepted_one_or_many() -> None:
    assert fork("policies: {fork: {allow: torch.utils.data}}").allow == ["torch.utils.data"]
    assert fork("policies: {fork: {allow: [torch.utils.data, joblib]}}").allow == ["torch.utils.data", "joblib"]


@pytest.mark.parametrize(
    ("written", "variables"),
    [
        ("{support: on, poll: poll}", {"GRPC_ENABLE_FORK_SUPPORT": "1", "GRPC_POLL_STRATEGY": "poll"}),
        ("{support: off}", {"GRPC_ENABLE_FORK_SUPPORT": "0"}),
        ("{poll: epoll1}", {"GRPC_ENABLE_FORK_SUPPORT": "0", "GRPC_POLL_STRATEGY": "epoll1"}),
    ],
)
def test_what_grpc_is_told_becomes_its_variables(written: str, variables: dict[str, str]) -> None:
    assert fork(f"policies: {{fork: {{grpc: {written}}}}}").grpc.variables() == variables
