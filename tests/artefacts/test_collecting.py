"""What a collection removes and what it leaves alone."""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from scalable.store.artefacts import MISSING, ArtefactError, Artefacts, open_artefacts
from scalable.store.artefacts.local import LocalArtefacts
from tests.artefacts.children import KEY, PATIENCE_S, STAGE, child, said
from tests.artefacts.test_local import without_privileges

DAY_S = 86_400.0


def aged(folder: Path, **days: int) -> Artefacts:
    """Artefacts of equal size, named after nothing, each last used so many days ago."""
    artefacts = open_artefacts(folder)
    for key, age in days.items():
        artefacts.save(STAGE, key, np.ones(1000))
        then = time.time() - age * DAY_S
        os.utime(folder / STAGE / f"{key}.artefact", (then, then))
    return artefacts


def keys(artefacts: Artefacts) -> list[str]:
    return sorted(one.key for one in artefacts.list())


def test_what_was_not_used_for_longer_than_asked_goes(tmp_path: Path) -> None:
    artefacts = aged(tmp_path, new=0, week=7, month=30, read=30)
    artefacts.load(STAGE, "read")

    collected = artefacts.collect(older_than_s=3 * DAY_S)

    assert [one.key for one in collected.removed] == ["month", "week"]
    assert (collected.kept, collected.in_use, collected.leftovers) == (2, 0, 0)
    assert collected.bytes == sum(one.bytes for one in collected.removed) > 16_000
    assert keys(artefacts) == ["new", "read"]


def test_the_longest_unused_go_until_the_rest_is_small_enough(tmp_path: Path) -> None:
    artefacts = aged(tmp_path, a=5, b=1, c=9, d=3)
    size = next(iter(artefacts.list())).bytes

    assert [one.key for one in artefacts.collect(keep_bytes=2 * size).removed] == ["c", "a"]
    assert artefacts.collect(keep_bytes=2 * size).removed == ()
    assert keys(artefacts) == ["b", "d"]


@pytest.mark.parametrize("as_function", [True, False])
def test_what_nobody_can_ask_for_goes(tmp_path: Path, as_function: bool) -> None:
    artefacts = aged(tmp_path, a=5, b=1, c=9)
    wanted = {"b", "c"}

    assert [one.key for one in artefacts.collect(reachable=wanted.__contains__ if as_function else wanted).removed] == [
        "a"
    ]
    assert keys(artefacts) == ["b", "c"]


def test_all_conditions_must_hold(tmp_path: Path) -> None:
    artefacts = aged(tmp_path, old=9, new=0, wanted=9, oldest=10)
    size = next(iter(artefacts.list())).bytes

    collected = artefacts.collect(older_than_s=DAY_S, reachable={"wanted"}, keep_bytes=3 * size)

    assert [one.key for one in collected.removed] == ["oldest"]


def test_without_a_condition_no_artefact_goes(tmp_path: Path) -> None:
    assert aged(tmp_path, a=5).collect().removed == ()
    assert open_artefacts(tmp_path / "nowhere").collect(keep_bytes=0).removed == ()
    assert not (tmp_path / "nowhere").exists()


def test_a_dry_run_says_what_would_go_and_removes_nothing(tmp_path: Path) -> None:
    artefacts = aged(tmp_path, a=5, b=1)
    before = [path for path in tmp_path.rglob("*") if path.is_file()]

    assert [one.key for one in artefacts.collect(keep_bytes=0, dry_run=True).removed] == ["a", "b"]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == before


def test_what_a_live_process_uses_stays_until_it_is_killed(tmp_path: Path) -> None:
    artefacts = aged(tmp_path, **{KEY: 9, "other": 9})
    with child("use", tmp_path) as user:
        assert said(user) == "using"
        collected = artefacts.collect(older_than_s=DAY_S)
        assert [one.key for one in collected.removed] == ["other"]
        assert (collected.kept, collected.in_use) == (1, 1)
        user.kill()
        user.wait(PATIENCE_S)
        assert [one.key for one in artefacts.collect(older_than_s=DAY_S).removed] == [KEY]
    assert not list((tmp_path / ".using").iterdir())


def test_a_collection_in_the_process_that_uses_them_leaves_them_and_their_registration_alone(tmp_path: Path) -> None:
    artefacts = aged(tmp_path, a=9, b=9)
    with artefacts.using("sweep", ["a"]):
        artefacts.collect(keep_bytes=0)
        assert keys(artefacts) == ["a"]
        with child("collect", tmp_path) as other:  # to which our lock must still say that we live
            assert said(other) == "removed 0"
        assert keys(artefacts) == ["a"]
    assert [one.key for one in artefacts.collect(keep_bytes=0).removed] == ["a"]


def test_who_registers_while_a_collection_removes_waits_for_it(tmp_path: Path) -> None:
    artefacts = LocalArtefacts(tmp_path)
    artefacts.save(STAGE, KEY, 1)
    registered = threading.Event()
    found: list[object] = []

    def sweep() -> None:
        with artefacts.using("sweep", [KEY]):
            registered.set()
            found.append(artefacts.load(STAGE, KEY))

    with ExitStack() as stack:
        in_use = stack.enter_context(artefacts.collecting())
        assert in_use == set()
        thread = threading.Thread(target=sweep, daemon=True)
        thread.start()
        assert not registered.wait(0.2)
        artefacts.remove(list(artefacts.list()))
    thread.join(PATIENCE_S)
    assert found == [MISSING]  # it looked after the collection, so it knows that it must compute


def test_leftovers_of_interrupted_work_go_but_not_those_somebody_works_on(tmp_path: Path) -> None:
    artefacts = LocalArtefacts(tmp_path)
    for key in ("half", "half-old", "done"):
        folder = artefacts.scratch(STAGE, key)
        assert folder is not None
        (folder / "trials").write_bytes(b"x" * 100)
        if key == "half-old":
            for path in (folder / "trials", folder):
                os.utime(path, (0, 0))
    artefacts.path(STAGE, "done").parent.mkdir()
    artefacts.path(STAGE, "done").touch()
    artefacts.path(STAGE, "torn", ".part").write_bytes(b"x" * 10)
    artefacts.path(STAGE, "bad", ".damaged").write_bytes(b"x")
    with child("hold", tmp_path) as holder:
        assert said(holder) == "held"
        os.utime(tmp_path / ".scratch" / STAGE / KEY / "half", (0, 0))
        os.utime(tmp_path / ".scratch" / STAGE / KEY, (0, 0))

        collected = artefacts.collect()

        assert (collected.leftovers, collected.bytes) == (4, 211)
        assert sorted(path.name for path in (tmp_path / ".scratch" / STAGE).iterdir()) == [KEY, "half"]
        assert [path.name for path in (tmp_path / STAGE).glob("*.part")] == [f"{KEY}.part"]
        holder.kill()


def test_a_folder_that_may_not_be_changed_is_said_to_be() -> None:
    with TemporaryDirectory() as name:
        artefacts = aged(Path(name), a=5)
        for folder in (Path(name), Path(name) / STAGE):
            folder.chmod(0o555)
        with without_privileges(), pytest.raises(ArtefactError, match="could not be removed: Permission denied"):
            artefacts.collect(keep_bytes=0)
        assert keys(artefacts) == ["a"]
        for folder in (Path(name), Path(name) / STAGE):
            folder.chmod(0o755)
