"""How many false locks many decisions give by chance, and how strictly programme-wide control judges each."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from scalable.verdicts import rule
from scalable.verdicts.ledger import Control, Tally, level_of, tally
from scalable.verdicts.methods import choose
from scalable.verdicts.rule import ALPHA
from tests.helpers.verdicts.builders import an_axis


def test_each_sweep_has_its_own_five_per_cent_unless_the_programme_is_controlled() -> None:
    assert {level_of(number, Control.SWEEP) for number in (1, 2, 1000)} == {ALPHA}


def test_the_levels_of_a_controlled_programme_fall_and_never_add_up_to_more_than_one_sweep_may_have() -> None:
    levels = [level_of(number, Control.PROGRAMME) for number in range(1, 10_001)]
    assert levels[:3] == pytest.approx([0.025, 0.05 / 6, 0.05 / 12])
    assert all(later < earlier for earlier, later in pairwise(levels))
    assert sum(levels) < ALPHA
    assert sum(levels) == pytest.approx(ALPHA * (1 - 1 / 10_001)), "and nearly all of it is used"


@pytest.mark.parametrize("number", [0, -1])
def test_decisions_are_counted_from_one(number: int) -> None:
    with pytest.raises(ValueError, match="counted from 1"):
        level_of(number, Control.PROGRAMME)


def test_a_controlled_programme_of_null_sweeps_locks_something_in_at_most_five_per_cent_of_cases() -> None:
    programmes, sweeps = 4000, 8
    method = choose((an_axis("dataset", 10),))
    complete = np.ones(2, dtype=np.bool_)
    chance = np.random.default_rng(20)
    locked = {control: np.zeros(programmes, dtype=np.bool_) for control in Control}
    for number in range(1, sweeps + 1):
        gain = method.estimate(chance.normal(size=(programmes, 2, 10)).reshape(-1, 10))
        shaped = gain._replace(**{name: getattr(gain, name).reshape(programmes, 2) for name in gain._fields})
        tested = rule.tests(shaped, complete)
        for control, any_locked in locked.items():
            any_locked |= (rule.verdicts(tested, complete, complete, level_of(number, control)) == 0).any(axis=1)
    assert locked[Control.SWEEP].mean() == pytest.approx(1 - 0.95**sweeps, abs=0.03)
    assert 0.02 < locked[Control.PROGRAMME].mean() <= 0.05


def test_decisions_are_summed_by_the_level_that_each_was_judged_at() -> None:
    assert tally([]) == Tally(0, 0, 0.0)
    assert tally([(8, ALPHA), (5, ALPHA), (8, ALPHA), (2, ALPHA)]) == Tally(4, 23, 0.2)
    levels = [(1, level_of(number, Control.PROGRAMME)) for number in range(1, 100)]
    assert tally(levels).expected_false_locks < ALPHA


def test_the_sentence_says_which_decision_it_was_and_what_chance_would_do() -> None:
    counts = tally([(8, ALPHA), (5, ALPHA), (8, ALPHA), (2, ALPHA)])
    chance = "by chance, 0.2 of 4 such sweeps would lock something"
    assert (
        str(replace(counts, number=4, looks=1)) == f"this was decision 4 on this project (23 variants tried): {chance}"
    )
    again = str(replace(counts, number=2, looks=3))
    assert again == f"this was decision 2 of 4 on this project (23 variants tried), seen 3 times: {chance}"
    assert str(counts) == f"4 sweeps decided on this project so far (23 variants tried): {chance}"
    assert "0.05 of 1 such sweep would" in str(replace(tally([(1, ALPHA)]), number=1))
    assert str(Tally()) == ""


def test_the_sentence_names_the_level_of_a_controlled_programme_and_the_reason_for_a_missing_entry() -> None:
    counts = replace(tally([(2, 0.025), (2, 0.05 / 6)]), control=Control.PROGRAMME)
    assert "judged at 0.0083 instead of 0.05" in str(replace(counts, number=2, level=0.05 / 6))
    assert "at most 5 % of projects" in str(counts)
    before = replace(tally([(2, ALPHA), (2, 0.05 / 6)]), control=Control.PROGRAMME, number=2, level=0.05 / 6)
    assert "judged at 0.0083 instead of 0.05, by chance, 0.0583 of 2 such sweeps" in str(before), "one without control"
    assert "could not be written: it is read-only" in str(replace(counts, problem="it is read-only"))


def test_machines_get_every_count() -> None:
    told = replace(tally([(2, ALPHA)]), number=1, looks=3).to_dict()
    assert {name: told[name] for name in ("sweeps", "variants", "expected_false_locks")} == {
        "sweeps": 1, "variants": 2, "expected_false_locks": 0.05,
    }  # fmt: skip
    assert (told["decision"], told["level"], told["control"], told["problem"]) == (1, 0.05, "sweep", None)
    assert replace(tally([(2, ALPHA)]), number=1, looks=4).to_dict() == told, "another look prints the same"
