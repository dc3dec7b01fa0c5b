"""What a collection removes and what it leaves alone."""

from __future__ import annotations

import os
from pathlib import Path

from scalable.store.artefacts.local import LocalArtefacts
from tests.helpers.artefacts.children import KEY, PATIENCE_S, STAGE, child, said
from tests.helpers.artefacts.collecting import DAY_S, aged, keys


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
