"""The same in an object store: copies on this machine, claims and registrations that are renewed, no kernel's help."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import fsspec  # type: ignore[import-untyped]
import pytest

from scalable.store.artefacts import MISSING
from scalable.store.leases import objects as object_leases
from scalable.store.leases.objects import signature
from tests.helpers.artefacts.children import KEY, PATIENCE_S, STAGE
from tests.helpers.artefacts.remote import machine, objects, url

__all__ = ["url"]


class Elsewhere:
    """A process on a machine whose processes nobody here can see."""

    @staticmethod
    def signature() -> bytes:
        return json.dumps({**json.loads(signature()), "machine": "elsewhere"}).encode()


def test_machines_that_need_the_same_value_compute_it_once(tmp_path: Path, url: str) -> None:
    computed: list[str] = []
    begin = threading.Barrier(3)

    def need(name: str) -> None:
        artefacts = machine(url, tmp_path, name)
        begin.wait(PATIENCE_S)
        with artefacts.claimed(STAGE, KEY):
            if artefacts.load(STAGE, KEY) is MISSING:
                computed.append(name)
                time.sleep(0.2)
                artefacts.save(STAGE, KEY, 1)

    threads = [threading.Thread(target=need, args=(name,), daemon=True) for name in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(computed) == 1
    assert objects(url) == [f"{STAGE}/{KEY}.artefact"]


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_nobody_waits_for_the_dead(tmp_path: Path, url: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = {**json.loads(signature()), "started": -1}
    if where == "elsewhere":
        gone["machine"] = "elsewhere"
        monkeypatch.setattr(object_leases, "EXPIRES_S", 0.3)
    fsspec.filesystem("memory").pipe_file(f"{url}/{STAGE}/{KEY}.claim", json.dumps(gone).encode())

    with machine(url, tmp_path, "one").claimed(STAGE, KEY):
        assert objects(url) == [f"{STAGE}/{KEY}.claim"]
    assert objects(url) == []


def test_a_claim_elsewhere_is_believed_for_as_long_as_it_is_renewed(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_leases, "RENEW_S", 0.05)
    monkeypatch.setattr(object_leases, "EXPIRES_S", 2.0)
    monkeypatch.setattr(object_leases, "signature", Elsewhere.signature)
    order: list[str] = []
    one, other = machine(url, tmp_path, "one"), machine(url, tmp_path, "other")

    def wait() -> None:
        with other.claimed(STAGE, KEY):
            order.append("other")

    with one.claimed(STAGE, KEY):
        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        thread.join(2.5)  # longer than a claim lasts that is not renewed
        order.append("one")
    thread.join(PATIENCE_S)
    assert order == ["one", "other"]
