"""The API's bad minutes: whatever the server does, an object is made once, and what changed is heard of."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from distributed.security import Security

from scalable.cluster.kubernetes import api
from scalable.cluster.kubernetes.api import ApiError, Cluster, Kube, Listing, WatchEvent, Watching
from scalable.cluster.kubernetes.reach import Forwarder
from scalable.cluster.kubernetes.watch import objects_in
from scalable.errors import UsageError
from tests.helpers.cluster.kubernetes.server import NAMESPACE, Object, Server, a_server
from tests.helpers.waiting import LONG_S, soon

OPEN = Path("/proc/self/fd")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "FIRST_PAUSE_S", 0.02)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, LONG_S))


@asynccontextmanager
async def a_kube(patience: float = 5.0) -> AsyncIterator[tuple[Server, Kube]]:
    async with a_server() as server:
        kube = Kube(Cluster(NAMESPACE, url=server.url), patience=patience, answer_within=LONG_S)
        kube.answered = True
        try:
            yield server, kube
        finally:
            await kube.close()


def a_pod(name: str = "p1") -> Object:
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {}}


def test_a_busy_server_is_asked_again_as_late_as_it_wants() -> None:
    async def scene() -> None:
        async with a_kube() as (server, kube):
            server.fail("POST", "/pods", 429, headers={"Retry-After": "1"})
            await kube.create("pods", a_pod())
            first, second = server.asked("POST", "/pods")
            assert second.at - first.at >= 1.0

    run(scene())


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_failing_server_is_asked_again(status: int) -> None:
    async def scene() -> None:
        async with a_kube() as (server, kube):
            server.fail("GET", "/pods/p1", status, times=2)
            server.add("pods", a_pod())
            found = await kube.get("pods", "p1")
            assert found is not None
            assert found["metadata"]["name"] == "p1"

    run(scene())


def test_an_object_whose_creation_got_no_answer_is_found_and_not_made_twice() -> None:
    async def scene() -> None:
        async with a_kube() as (server, kube):
            server.fail("POST", "/pods", lost=True)
            made = await kube.create("pods", a_pod())
            assert made["metadata"]["uid"] == "uid-pods-p1"
            assert server.names("pods") == ["p1"]
            assert len(server.asked("POST", "/pods")) == 2

    run(scene())


def test_an_object_that_may_be_made_but_not_read_counts_as_made_after_a_lost_answer() -> None:
    async def scene() -> None:
        async with a_kube() as (server, kube):
            server.fail("POST", "/secrets", lost=True)
            server.fail("GET", "/secrets", 403, reason="Forbidden")
            made = await kube.create("secrets", a_pod("s"))
            assert made["metadata"]["name"] == "s"

    run(scene())


def test_a_name_that_somebody_else_has_taken_is_refused() -> None:
    async def scene() -> None:
        async with a_kube() as (server, kube):
            server.add("pods", a_pod())
            with pytest.raises(ApiError, match="already exists") as refusal:
                await kube.create("pods", a_pod())
            assert (refusal.value.status, refusal.value.reason) == (409, "AlreadyExists")

    run(scene())


def test_a_quota_that_others_count_at_the_same_moment_is_tried_again() -> None:
    async def scene() -> None:
        async with a_kube() as (server, kube):
            text = "Operation cannot be fulfilled on resourcequotas: the object has been modified"
            server.fail("POST", "/pods", 409, reason="Conflict", message=text)
            await kube.create("pods", a_pod())
            assert server.names("pods") == ["p1"]

    run(scene())


def test_what_is_forbidden_is_said_at_once_with_the_servers_words() -> None:
    async def scene() -> None:
        async with a_kube() as (server, kube):
            text = 'pods is forbidden: User "me" cannot create resource "pods" in API group ""'
            server.fail("POST", "/pods", 403, reason="Forbidden", message=text, times=9)
            with pytest.raises(ApiError, match="cannot create resource") as refusal:
                await kube.create("pods", a_pod())
            assert (refusal.value.status, refusal.value.verb, refusal.value.resource) == (403, "create", "pods")
            assert refusal.value.body["message"] == text
            assert len(server.asked("POST", "/pods")) == 1

    run(scene())


def test_credentials_that_expired_are_read_again() -> None:
    async def scene() -> None:
        async with a_kube() as (server, kube):
            server.fail("POST", "/pods", 401, reason="Unauthorized")
            await kube.create("pods", a_pod())
            assert server.names("pods") == ["p1"]

    run(scene())


def test_credentials_that_stay_refused_are_told_and_use_up_no_connections() -> None:
    async def scene() -> None:
        async with a_kube() as (server, kube):
            await kube.find("pods")
            server.fail("GET", "/pods", 401, reason="Unauthorized", times=10)
            before = len(list(OPEN.iterdir()))
            for _ in range(5):
                with pytest.raises(ApiError):
                    await kube.find("pods")
            assert "401 Unauthorized" in kube.trouble
            assert len(list(OPEN.iterdir())) <= before
            await kube.find("pods")
            assert not kube.trouble

    run(scene())


def plugin(folder: Path, url: str, token: str = "t") -> str:
    """A kubeconfig whose credentials a program gives, which fails once wherever there is a file ``broken``."""
    program = folder / "login"
    told = json.dumps({"status": {"token": token}})
    program.write_text(f"#!/bin/sh\nif rm {folder}/broken 2>/dev/null; then exit 1; fi\necho '{told}'\n")
    program.chmod(0o755)
    login = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program)}
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "small", "user": "me"}}],
        "clusters": [{"name": "small", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"exec": login}}],
    }
    (folder / "config").write_text(yaml.safe_dump(config))
    return str(folder / "config")


def test_a_login_that_fails_once_while_credentials_are_renewed_is_tried_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with a_server() as server:
            server.add("pods", a_pod())
            kube = Kube(Cluster(NAMESPACE, kubeconfig=plugin(tmp_path, server.url)), patience=10.0)
            await kube.get("pods", "p1")
            (tmp_path / "broken").touch()
            server.fail("GET", "/pods/p1", 401, reason="Unauthorized")
            assert await kube.get("pods", "p1") is not None
            assert not (tmp_path / "broken").exists()
            await kube.close()

    run(scene())


def test_a_first_login_that_fails_is_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    async def scene() -> None:
        (tmp_path / "broken").touch()
        with pytest.raises(UsageError, match=r"kubeconfig: FILE.*looked at kubeconfig .*config"):
            await Kube(Cluster(NAMESPACE, kubeconfig=plugin(tmp_path, "http://127.0.0.1:1"))).get("pods", "p1")

    run(scene())


@pytest.mark.parametrize("torn", ["", "{a: [", "- a", "current-context: ''\ncontexts: []"])
def test_a_kubeconfig_that_is_torn_is_said_to_be_and_waited_for_once_it_was_good(tmp_path: Path, torn: str) -> None:
    async def scene() -> None:
        async with a_server() as server:
            whole = Path(plugin(tmp_path, server.url))
            text = whole.read_text()
            whole.write_text(torn)
            kube = Kube(Cluster(NAMESPACE, kubeconfig=str(whole)), patience=10.0)
            with pytest.raises(UsageError, match="the kubeconfig cannot be read"):
                await kube.get("pods", "p1")
            whole.write_text(text)
            await kube.get("pods", "p1")
            whole.write_text(torn)
            server.fail("GET", "/pods/p1", 401, reason="Unauthorized")
            asked = asyncio.ensure_future(kube.get("pods", "p1"))
            await soon(lambda: "the kubeconfig cannot be read" in kube.trouble)
            whole.write_text(text)
            assert await asked is None
            await kube.close()

    run(scene())


def test_a_login_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        config = plugin(tmp_path, "http://127.0.0.1:1")
        (tmp_path / "login").write_text("#!/bin/sh\nexec sleep 25\n")
        with pytest.raises(UsageError, match=r"not within 0\.2 s"):
            await Kube(Cluster(NAMESPACE, kubeconfig=config)).get("pods", "p1")

    monkeypatch.setattr(api, "LOGIN_WITHIN_S", 0.2)
    run(scene())


def test_a_forwarded_port_that_finds_expired_credentials_has_them_read_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with a_server() as server:
            kube = Kube(Cluster(NAMESPACE, kubeconfig=plugin(tmp_path, server.url)), patience=10.0)
            forwarder = Forwarder(kube)
            old = await kube.open()
            plugin(tmp_path, server.url, token="new")
            server.fail("GET", "/portforward", 401, reason="Unauthorized", message="expired")
            with pytest.raises(ConnectionError, match="answers 401"):
                await forwarder.connect("p1", 8787)
            assert await kube.open() is not old
            server.fail("GET", "/portforward", 403, reason="Forbidden", message="may not", times=2)
            with pytest.raises(ApiError, match="may not"):
                await forwarder.connect("p1", 8787)
            await forwarder.close()
            await kube.close()

    run(scene())


def test_a_server_that_never_answers_is_given_up_after_a_while() -> None:
    async def scene() -> None:
        async with a_kube(patience=0.2) as (server, kube):
            server.fail("GET", "/pods", times=99)
            with pytest.raises(ApiError, match="no answer") as silence:
                await kube.get("pods", "p1")
            assert silence.value.status == 0
            assert silence.value.unclear

    run(scene())


def test_what_is_not_there_is_nothing_and_can_be_deleted() -> None:
    async def scene() -> None:
        async with a_kube() as (server, kube):
            assert await kube.get("pods", "p1") is None
            assert await kube.delete("pods", "p1") is False
            server.add("pods", a_pod())
            assert await kube.delete("pods", "p1", grace=7) is True
            sent = server.asked("DELETE", "/pods")[-1].body
            assert (sent["gracePeriodSeconds"], sent["propagationPolicy"]) == (7, "Background")

    run(scene())


def test_a_watch_goes_on_after_it_was_cut_and_misses_nothing() -> None:
    async def scene() -> None:
        async with a_kube() as (server, kube), aclosing(kube.watch("pods")) as told:
            server.add("pods", a_pod("there"))
            assert names(await anext(told)) == ["there"]
            assert await anext(told) == Watching()
            server.add("pods", a_pod("second"))
            assert names(await anext(told)) == ["second"]
            server.cut_watches()
            server.add("pods", a_pod("third"))
            assert await anext(told) == Watching()
            assert names(await anext(told)) == ["third"]
            assert len([one for one in server.requests if not one.watches]) == 1

    run(scene())


def test_a_watch_that_is_too_old_begins_with_a_new_list() -> None:
    async def scene() -> None:
        async with a_kube() as (server, kube), aclosing(kube.watch("pods")) as told:
            server.add("pods", a_pod("going"))
            assert names(await anext(told)) == ["going"]
            assert await anext(told) == Watching()
            server.add("pods", a_pod("second"))
            assert names(await anext(told)) == ["second"]
            server.cut_watches()
            server.remove("pods", "going")
            server.add("pods", a_pod("third"))
            server.forget_versions()
            assert await anext(told) == Watching()
            anew = await anext(told)
            assert isinstance(anew, Listing)
            assert names(anew) == ["second", "third"]

    run(scene())


def test_a_watch_lasts_through_a_server_that_is_away() -> None:
    async def scene() -> None:
        async with a_kube(patience=0.1) as (server, kube), aclosing(kube.watch("pods")) as told:
            server.fail("GET", "/pods", times=4)
            server.fail("GET", "/pods", 503, times=2)
            server.add("pods", a_pod())
            assert names(await anext(told)) == ["p1"]

    run(scene())


def test_a_watch_that_is_forbidden_says_so() -> None:
    async def scene() -> None:
        async with a_kube() as (server, kube):
            server.fail("GET", "/events", 403, reason="Forbidden", message="no", watches=True)
            with pytest.raises(ApiError) as refusal:
                async for _ in kube.watch("events"):
                    pass
            assert (refusal.value.status, refusal.value.verb) == (403, "watch")

    run(scene())


def test_what_a_pod_printed_is_read_and_a_missing_log_is_empty() -> None:
    async def scene() -> None:
        async with a_kube() as (server, kube):
            server.logs["p1"] = "one\ntwo\n"
            assert await kube.log("p1", lines=10) == "one\ntwo\n"
            assert await kube.log("p2", lines=10) == ""
            async with aclosing(kube.follow_log("p1")) as told:
                assert b"".join([part async for part in told]) == b"one\ntwo\n"

    run(scene())


def test_without_a_cluster_it_is_said_what_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        with pytest.raises(UsageError, match=r"kubeconfig: FILE.*set KUBECONFIG"):
            await Kube(Cluster(NAMESPACE)).get("pods", "p1")

    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    run(scene())


def test_keys_of_a_kubeconfig_stay_in_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    security: Any = Security.temporary()
    pair = {"client-certificate-data": security.tls_client_cert, "client-key-data": security.tls_client_key}

    async def scene() -> None:
        async with a_server() as server:
            server.add("pods", a_pod())
            config = {
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "small", "user": "me"}}],
                "clusters": [{"name": "small", "cluster": {"server": server.url}}],
                "users": [{"name": "me", "user": {name: encoded(text) for name, text in pair.items()}}],
            }
            (tmp_path / "config").write_text(yaml.safe_dump(config))
            kube = Kube(Cluster(NAMESPACE, kubeconfig=str(tmp_path / "config")))
            assert await kube.get("pods", "p1") is not None
            await kube.close()

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run(scene())
    assert [file.name for file in tmp_path.iterdir()] == ["config"]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def names(told: WatchEvent) -> list[str]:
    return sorted(one["metadata"]["name"] for one in objects_in(told))
