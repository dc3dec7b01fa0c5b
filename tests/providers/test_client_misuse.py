"""What ``ScalableClient`` says to calls that cannot work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed.client import ClosedClientError

from scalable import ScalableClient, ScalableSession
from scalable.errors import UsageError

MANIFEST = """version: 1
project: {name: misuse}
targets: {local: {provider: local, max_workers: 1}}
components: {model: {cpus: 1}}
"""


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScalableSession]:
    monkeypatch.chdir(tmp_path)
    Path("scalable.yaml").write_text(MANIFEST)
    session = ScalableSession.from_yaml()
    yield session
    session.close()


@pytest.mark.parametrize("n", [0, -1, "2", 1.5, None, True])
def test_a_number_of_slots_is_a_whole_number(session: ScalableSession, n: Any) -> None:
    with pytest.raises(UsageError, match="write a whole number from 1"):
        session.start().submit(abs, -1, tag="model", n=n)


@pytest.mark.parametrize("tag", [5, ["model"], b"model"])
def test_a_tag_is_a_text(session: ScalableSession, tag: Any) -> None:
    with pytest.raises(UsageError, match="as text: model"):
        session.start().submit(abs, -1, tag=tag)


def test_a_closed_client_says_so_whatever_is_asked_of_it(session: ScalableSession) -> None:
    client = session.start()
    future = client.submit(abs, -1, tag="model")
    assert future.result() == 1
    session.close()
    for use in (
        lambda: client.submit(abs, -1, tag="model"),
        lambda: client.submit(abs, -1, tag="model"),  # what was refused once is not taken for submitted
        lambda: client.map(abs, [-1], tag="model"),
        lambda: client.gather([future]),
        future.result,
    ):
        with pytest.raises(ClosedClientError, match="this client is closed"):
            use()
    client.close()


def test_a_client_without_a_cluster_does_not_start_one_of_its_own() -> None:
    with pytest.raises(UsageError, match=r"write ScalableClient\(cluster\)"):
        ScalableClient()
