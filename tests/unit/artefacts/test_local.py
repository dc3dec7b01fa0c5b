"""Values kept in a folder: what comes back, what counts as missing, what is said when they cannot be kept."""

from __future__ import annotations

import os
import pickle
import resource
import sys
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalable.store.artefacts import MISSING, ArtefactError, open_artefacts
from scalable.store.artefacts.local import CHUNK
from tests.helpers.artefacts.children import KEY, STAGE
from tests.helpers.artefacts.privileges import without_privileges


@dataclass(frozen=True)
class Result:
    name: str
    array: Any


VALUES = {
    "nothing": None,
    "a row": {"sharpe": 1.25, "trades": 7, "text": "ü"},
    "small arrays": Result("small", [np.arange(3), np.array([]), np.array([[1, 2]], dtype=np.float32)]),
    "large arrays": Result("large", {"c": np.arange(3 * CHUNK // 8 + 1.0), "f": np.asfortranarray(np.eye(100))}),
    "arrays that lie in pieces": np.arange(20_000).reshape(100, 200)[::2, ::3],
    "bytes": b"x" * (CHUNK + 1),
    "objects": np.array(["a", None, 3], dtype=object),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_comes_back_as_it_was(tmp_path: Path, value: Any) -> None:
    artefacts = open_artefacts(tmp_path / "made")
    assert artefacts.load(STAGE, KEY) is MISSING

    size = artefacts.save(STAGE, KEY, value)

    assert size == (tmp_path / "made" / STAGE / f"{KEY}.artefact").stat().st_size
    found = artefacts.load(STAGE, KEY)
    assert pickle.dumps(found) == pickle.dumps(pickle.loads(pickle.dumps(value)))


def test_arrays_come_back_in_order_and_may_be_written_to_if_they_might(tmp_path: Path) -> None:
    fixed = np.arange(5000.0)
    fixed.flags.writeable = False
    artefacts = open_artefacts(tmp_path)
    artefacts.save(STAGE, KEY, [np.asfortranarray(np.ones((50, 100))), fixed])

    order, frozen = artefacts.load(STAGE, KEY)

    assert order.flags.f_contiguous
    assert (order.flags.writeable, frozen.flags.writeable) == (True, False)


@pytest.mark.parametrize("value", [{"a": 1}, np.arange(2.0 * CHUNK / 8)], ids=["small", "large"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(share=st.floats(0, 1), flipped=st.integers(1, 255))
def test_a_file_that_was_torn_or_changed_anywhere_is_set_aside(
    tmp_path: Path, value: Any, share: float, flipped: int
) -> None:
    artefacts = open_artefacts(tmp_path)
    artefacts.save(STAGE, KEY, value)
    path = tmp_path / STAGE / f"{KEY}.artefact"
    whole = path.read_bytes()
    place = min(int(share * len(whole)), len(whole) - 1)
    for damaged in (
        whole[:place],
        whole[:place] + bytes([whole[place] ^ flipped]) + whole[place + 1 :],
        whole + b"\0",
    ):
        path.write_bytes(damaged)
        assert artefacts.load(STAGE, KEY) is MISSING
        assert not path.exists()
        assert path.with_suffix(".damaged").read_bytes() == damaged


def test_the_artefact_of_another_stage_or_key_is_none_of_this(tmp_path: Path) -> None:
    artefacts = open_artefacts(tmp_path)
    artefacts.save(STAGE, KEY, 1)
    (tmp_path / "other").mkdir()
    os.link(tmp_path / STAGE / f"{KEY}.artefact", tmp_path / "other" / f"{KEY}.artefact")
    (tmp_path / STAGE / f"{KEY}.artefact").rename(tmp_path / STAGE / f"{'2' * 32}.artefact")

    assert artefacts.load("other", KEY) is MISSING
    assert artefacts.load(STAGE, "2" * 32) is MISSING


class Gone:
    pass


def test_a_value_whose_class_is_gone_is_missing_but_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artefacts = open_artefacts(tmp_path)
    artefacts.save(STAGE, KEY, Gone())
    with monkeypatch.context() as patched:
        patched.delattr(sys.modules[__name__], "Gone")
        assert artefacts.load(STAGE, KEY) is MISSING

    assert isinstance(artefacts.load(STAGE, KEY), Gone)


@pytest.mark.parametrize(("stage", "key"), [("../up", "k"), ("", "k"), (".using", "k"), ("s", "a/b"), ("s", "k.part")])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, stage: str, key: str) -> None:
    artefacts = open_artefacts(tmp_path)
    for ask in (artefacts.load, artefacts.scratch):
        with pytest.raises(ArtefactError, match=r"is no (name of a stage|key of stage)"):
            ask(stage, key)


def test_what_cannot_be_pickled_is_said_with_its_stage(tmp_path: Path) -> None:
    artefacts = open_artefacts(tmp_path)
    with (
        artefacts.claimed(STAGE, KEY),
        pytest.raises(ArtefactError, match=r"result of stage search cannot be pickled.*keep=False"),
    ):
        artefacts.save(STAGE, KEY, threading.Lock())

    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("claim", [True, False], ids=["claimed", "unclaimed"])
def test_a_full_disk_is_said_with_place_and_remedy_and_leaves_nothing(tmp_path: Path, claim: bool) -> None:
    artefacts = open_artefacts(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    said = rf"{tmp_path}: the result of stage search could not be kept: .*; free some space .*artefacts:"
    resource.setrlimit(resource.RLIMIT_FSIZE, (CHUNK, limits[1]))
    try:
        with pytest.raises(ArtefactError, match=said):
            if claim:
                with artefacts.claimed(STAGE, KEY):
                    artefacts.save(STAGE, KEY, np.ones(CHUNK))
            else:
                artefacts.save(STAGE, KEY, np.ones(CHUNK))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert artefacts.load(STAGE, KEY) is MISSING
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_file_in_the_way_is_said_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    artefacts = open_artefacts(tmp_path / "file")
    with pytest.raises(ArtefactError, match="move it away"):
        artefacts.save(STAGE, KEY, 1)
    assert artefacts.load(STAGE, KEY) is MISSING
    assert artefacts.scratch(STAGE, KEY) is None


def test_a_folder_that_is_read_only_is_read_and_said_to_be() -> None:
    with TemporaryDirectory() as name:
        artefacts = open_artefacts(name)
        artefacts.save(STAGE, KEY, 1)
        for folder in (Path(name), Path(name) / STAGE):
            folder.chmod(0o555)
        with without_privileges():
            assert artefacts.load(STAGE, KEY) == 1
            with pytest.raises(ArtefactError, match=r"Permission denied; let this user write there"):
                artefacts.save(STAGE, "2" * 32, 1)
            with (
                pytest.raises(ArtefactError, match=r"in use could not be registered: Permission denied"),
                artefacts.using("sweep", [KEY]),
            ):
                pass
            assert artefacts.scratch(STAGE, KEY) is None
        for folder in (Path(name), Path(name) / STAGE):
            folder.chmod(0o755)


def test_half_done_work_is_kept_until_the_value_is_saved(tmp_path: Path) -> None:
    artefacts = open_artefacts(tmp_path)
    folder = artefacts.scratch(STAGE, KEY)
    assert folder is not None
    (folder / "trials").write_text("1 2 3", encoding="ascii")
    assert artefacts.scratch(STAGE, KEY) == folder
    assert (folder / "trials").exists()

    artefacts.save(STAGE, KEY, 1)

    assert not folder.exists()


def test_half_done_work_that_a_killed_writer_left_behind_goes_when_the_value_is_used(tmp_path: Path) -> None:
    artefacts = open_artefacts(tmp_path)
    artefacts.save(STAGE, KEY, 1)
    folder = artefacts.scratch(STAGE, KEY)  # as it is when one is killed between the value and this
    assert folder is not None
    (folder / "trials").write_text("1 2 3", encoding="ascii")

    assert artefacts.load(STAGE, KEY) == 1

    assert not folder.exists()


def test_a_second_claim_within_the_first_waits_for_nobody(tmp_path: Path) -> None:
    artefacts = open_artefacts(tmp_path)
    with artefacts.claimed(STAGE, KEY), artefacts.claimed(STAGE, KEY):
        artefacts.save(STAGE, KEY, 1)
        artefacts.save(STAGE, KEY, 2)
    assert artefacts.load(STAGE, KEY) == 2


def test_artefacts_are_sent_to_other_processes_as_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    artefacts = open_artefacts("kept")
    artefacts.save(STAGE, KEY, 1)
    sent = pickle.dumps(artefacts)
    monkeypatch.chdir("/")

    assert pickle.loads(sent).load(STAGE, KEY) == 1
    assert open_artefacts(f"file://{tmp_path}/kept").load(STAGE, KEY) == 1


def test_artefacts_are_listed_with_size_and_times(tmp_path: Path) -> None:
    artefacts = open_artefacts(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(artefacts.list()) == []
    size = artefacts.save(STAGE, KEY, 1)
    artefacts.save("row", "2" * 32, 1)
    os.utime(tmp_path / STAGE / f"{KEY}.artefact", (1000, 500))

    row, search = artefacts.list()

    assert (search.stage, search.key, search.bytes, search.written, search.used) == (STAGE, KEY, size, 500, 1000)
    assert (row.stage, row.key) == ("row", "2" * 32)
    artefacts.load(STAGE, KEY)
    (_, search) = artefacts.list()
    assert search.written == 500
    assert search.used > 1000
