"""What ``ScalableClient`` says to calls that cannot work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import LocalCluster
from distributed.client import ClosedClientError

from scalable import ScalableClient, ScalableSession, get_provider
from scalable.errors import UsageError
from scalable.wording import undefined

MANIFEST = """version: 1
project: {name: misuse}
targets: {local: {provider: local, max_workers: 2}}
components: {model: {cpus: 1, tags: [land]}, other: {cpus: 1}}
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
    with pytest.raises(UsageError, match="as text: land, model, other"):
        session.start().submit(abs, -1, tag=tag)


def test_what_no_worker_can_ever_have_is_refused_at_once(session: ScalableSession) -> None:
    client = session.start()
    asked: dict[str, Any]
    for asked in (
        {"resources": {"GPU": 1}},
        {"resources": {"model": 2}},
        {"resources": {"GPU": 1}, "tag": "model"},
        {"resources": {"other": 1}, "tag": "model"},  # either can be had, but no worker has both
    ):
        with pytest.raises(UsageError, match="none can ever run this; workers have 1 model and 1 land, 1 other"):
            client.submit(abs, -1, **asked)
        with pytest.raises(UsageError, match="none can ever run this"):
            client.map(abs, [-1], **asked)
    assert client.submit(abs, -1, tag="model", resources={"land": 1}).result() == 1


@pytest.mark.parametrize("guarded", [True, False])
def test_what_cannot_be_called_is_refused_at_once(session: ScalableSession, guarded: bool) -> None:
    with pytest.raises(TypeError, match="'abs' is nothing that can be called"):
        session.start().submit("abs", -1, tag="model", guarded=guarded)  # type: ignore[arg-type]


def test_a_name_that_is_not_even_a_text_is_answered_with_those_there_are(session: ScalableSession) -> None:
    name: Any = 5
    with pytest.raises(UsageError, match="no target 5: the manifest has local"):
        ScalableSession.from_yaml(target=name)
    with pytest.raises(UsageError, match="provider 5 is not defined; known: aws, gcp, kubernetes, local, slurm"):
        get_provider(name)
    assert undefined("sweep", name, ["one"]) == "sweep 5 is not defined; known: one"
    with pytest.raises(UsageError, match="tag 5 is not defined; known: land, model, other"):
        session.start().worker_count(name)


def test_dasks_own_ways_to_scale_say_what_to_use_instead(session: ScalableSession) -> None:
    cluster: Any = session.start().cluster
    with pytest.raises(UsageError, match="use add_workers"):
        cluster.scale(2)
    with pytest.raises(UsageError, match="whose target is adaptive"):
        cluster.adapt(minimum=0, maximum=2)


def test_a_client_that_would_wait_in_another_event_loop_is_refused(session: ScalableSession) -> None:
    with pytest.raises(UsageError, match=r"write  await asyncio.to_thread\(future.result\)"):
        ScalableClient(session.start().cluster, asynchronous=True)


def test_a_worker_that_somebody_else_started_says_that_it_guards_nothing() -> None:
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        ScalableClient(cluster) as client,
        pytest.raises(UsageError, match="needs a worker that this package started"),
    ):
        client.submit(abs, -1, guarded=True).result()


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
