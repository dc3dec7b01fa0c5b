"""Processes that save, compute and die: what is read is whole, what is computed is computed once."""

from __future__ import annotations

import random
import time
from pathlib import Path

from scalable.store.artefacts import MISSING, open_artefacts
from tests.helpers.artefacts.children import KEY, PATIENCE_S, STAGE, child, is_whole, said

KILLS = 12


def test_whoever_is_killed_while_saving_leaves_a_whole_artefact_or_none(tmp_path: Path) -> None:
    artefacts = open_artefacts(tmp_path)
    chance = random.Random(7)
    for _ in range(KILLS):
        with child("save", tmp_path) as saving:
            assert said(saving) == "saved"
            time.sleep(chance.uniform(0, 0.02))
            saving.kill()
            saving.wait(PATIENCE_S)
        found = artefacts.load(STAGE, KEY)
        assert found is not MISSING
        assert is_whole(found)
        assert not list(tmp_path.rglob("*.damaged"))
    artefacts.collect()
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".artefact"]


def test_of_processes_that_need_the_same_value_one_computes_it(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    with (
        child("compute", tmp_path / "kept", calls) as one,
        child("compute", tmp_path / "kept", calls) as two,
        child("compute", tmp_path / "kept", calls) as three,
    ):
        everyone = (one, two, three)
        assert [said(each) for each in everyone] == ["ready"] * 3
        assert [each.communicate("go\n", timeout=PATIENCE_S)[0] for each in everyone] == ["7 True\n"] * 3
    assert calls.read_text().split() == ["called"]


def test_who_waits_takes_over_from_the_dead_with_their_half_done_work(tmp_path: Path) -> None:
    artefacts = open_artefacts(tmp_path)
    with child("hold", tmp_path) as holder:
        assert said(holder) == "held"
        holder.kill()
        with artefacts.claimed(STAGE, KEY):
            folder = artefacts.scratch(STAGE, KEY)
            assert folder is not None
            assert (folder / "half").read_text() == "done"
            artefacts.save(STAGE, KEY, 1)
    assert not folder.exists()
