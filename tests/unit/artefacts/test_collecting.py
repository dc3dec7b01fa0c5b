"""What a collection removes and what it leaves alone."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from scalable.store.artefacts import MISSING, ArtefactError, open_artefacts
from scalable.store.artefacts.local import LocalArtefacts
from tests.helpers.artefacts.children import KEY, PATIENCE_S, STAGE
from tests.helpers.artefacts.collecting import DAY_S, aged, keys
from tests.helpers.artefacts.privileges import without_privileges


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
