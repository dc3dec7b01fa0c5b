"""The same in an object store: copies on this machine, claims and registrations that are renewed, no kernel's help."""

from __future__ import annotations

import json
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
import numpy as np
import pytest

from scalable.store.artefacts import MISSING, ArtefactError, open_artefacts
from scalable.store.artefacts.remote import RemoteArtefacts
from scalable.store.leases import held
from scalable.store.leases import objects as object_leases
from scalable.store.leases.objects import ObjectLeases, signature
from tests.helpers.artefacts.children import KEY, PATIENCE_S, STAGE
from tests.helpers.artefacts.remote import machine, objects, url

__all__ = ["url"]


def test_what_one_machine_saved_another_loads_and_copies(tmp_path: Path, url: str) -> None:
    one, other = machine(url, tmp_path, "one"), machine(url, tmp_path, "other")
    assert other.load(STAGE, KEY) is MISSING
    size = one.save(STAGE, KEY, np.arange(10_000))

    assert int(other.load(STAGE, KEY).sum()) == 49_995_000
    fsspec.filesystem("memory").rm(f"{url}/{STAGE}/{KEY}.artefact")
    assert int(other.load(STAGE, KEY).sum()) == 49_995_000  # from its copy
    assert machine(url, tmp_path, "third").load(STAGE, KEY) is MISSING
    assert size > 80_000


def test_a_damaged_object_is_missing_and_set_aside(tmp_path: Path, url: str) -> None:
    machine(url, tmp_path, "one").save(STAGE, KEY, 1)
    system = fsspec.filesystem("memory")
    name = f"{url}/{STAGE}/{KEY}.artefact"
    system.pipe_file(name, system.cat_file(name)[:-1] + b"\0")

    assert machine(url, tmp_path, "other").load(STAGE, KEY) is MISSING
    assert objects(url) == [f"{STAGE}/{KEY}.damaged"]
    machine(url, tmp_path, "other").collect()
    assert objects(url) == []


def test_who_lost_a_claim_by_being_late_does_not_take_it_back(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_leases, "RENEW_S", 0.02)
    system: Any = fsspec.filesystem("memory")
    name = f"{url}/{STAGE}/{KEY}.claim"
    with held(ObjectLeases(system, url).ask(name)):
        system.pipe_file(name, b"another's")
        time.sleep(0.1)
        assert system.cat_file(name) == b"another's"
    assert system.cat_file(name) == b"another's"


def test_what_is_in_use_anywhere_stays(tmp_path: Path, url: str) -> None:
    one, other = machine(url, tmp_path, "one"), machine(url, tmp_path, "other")
    for key in (KEY, "2" * 32):
        one.save(STAGE, key, 1)
    with one.using("sweep", [KEY]):
        collected = other.collect(keep_bytes=0)
        assert ([one.key for one in collected.removed], collected.in_use) == (["2" * 32], 1)
    assert [one.key for one in other.collect(keep_bytes=0).removed] == [KEY]
    assert objects(url) == []


def test_what_the_dead_used_goes(tmp_path: Path, url: str) -> None:
    artefacts = machine(url, tmp_path, "one")
    artefacts.save(STAGE, KEY, 1)
    system = fsspec.filesystem("memory")
    system.pipe_file(f"{url}/.using/sweep-1.keys", KEY.encode())
    system.pipe_file(f"{url}/.using/sweep-1.beat", json.dumps({**json.loads(signature()), "started": -1}).encode())

    assert len(artefacts.collect(older_than_s=-60).removed) == 1
    assert objects(url) == []


def test_who_registers_while_a_collection_removes_waits_for_it(tmp_path: Path, url: str) -> None:
    one, other = machine(url, tmp_path, "one"), machine(url, tmp_path, "other")
    one.save(STAGE, KEY, 1)
    registered = threading.Event()

    def sweep() -> None:
        with other.using("sweep", [KEY]):
            registered.set()

    with one.collecting() as in_use:
        assert in_use == set()
        thread = threading.Thread(target=sweep, daemon=True)
        thread.start()
        assert not registered.wait(0.3)
    thread.join(PATIENCE_S)
    assert registered.is_set()


def test_half_done_work_stays_on_the_machine_until_the_value_is_saved(tmp_path: Path, url: str) -> None:
    artefacts = pickle.loads(pickle.dumps(machine(url, tmp_path, "one")))
    folder = artefacts.scratch(STAGE, KEY)
    assert folder.is_relative_to(tmp_path / "one")
    artefacts.save(STAGE, KEY, 1)
    assert not folder.exists()


def test_a_place_that_cannot_be_opened_is_said_with_what_to_install_or_write() -> None:
    with pytest.raises(ArtefactError, match=r"abfs://box/data cannot be opened: .*; run  pip install adlfs"):
        open_artefacts("abfs://box/data").load(STAGE, KEY)
    with pytest.raises(ArtefactError, match=r"nowhere://box cannot be opened: .*; write a folder, or s3://"):
        open_artefacts("nowhere://box").load(STAGE, KEY)


def test_a_password_in_the_address_of_artefacts_is_used_and_never_shown() -> None:
    given = "nowhere://lab:hunt@er2@box/a@b"
    artefacts = pickle.loads(pickle.dumps(RemoteArtefacts(given)))
    with pytest.raises(ArtefactError, match=r"^nowhere://lab@box/a@b cannot be opened"):
        artefacts.load(STAGE, KEY)
    assert (artefacts.url, artefacts.given) == ("nowhere://lab@box/a@b", given)


def test_what_a_store_refuses_is_said_with_place_and_remedy(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: object, **options: object) -> None:
        raise PermissionError("Access Denied")

    artefacts = machine(url, tmp_path, "one")
    system, _ = artefacts.place()
    monkeypatch.setattr(system, "put_file", refused)
    with pytest.raises(ArtefactError, match=rf"{url}: the result of stage search .*Access Denied; let this user write"):
        artefacts.save(STAGE, KEY, 1)
    monkeypatch.setattr(system, "pipe_file", refused)
    with pytest.raises(ArtefactError, match=r"could not be claimed: .*Access Denied"), artefacts.claimed(STAGE, KEY):
        pass
    with pytest.raises(ArtefactError, match=r"could not be registered: .*Access Denied"), artefacts.using("one", [KEY]):
        pass


def test_what_goes_wrong_with_the_work_under_a_claim_is_told_as_it_is(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    artefacts = machine(url, tmp_path, "one")
    system, _ = artefacts.place()
    with pytest.raises(ZeroDivisionError), artefacts.claimed(STAGE, KEY):
        monkeypatch.setattr(system, "rm_file", lambda name: 1 / 0)  # the store fails now, too
        raise ZeroDivisionError
