"""The list of defects that the mutation check plants."""

from __future__ import annotations

from collections import Counter

from tests.helpers.paths import ROOT
from tests.tools.mutants import GROUPS, draw


def test_defects_are_drawn_evenly_from_files_that_exist_and_the_same_for_everybody() -> None:
    drawn = draw(1, 30)
    assert drawn == draw(1, 30) != draw(2, 30)
    assert Counter(group for group, _ in drawn) == dict.fromkeys(GROUPS, 6)
    assert all((ROOT / folder).is_dir() for group in GROUPS.values() for folder in group.tests)
