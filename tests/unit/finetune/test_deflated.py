"""The deflated Sharpe ratio against the published example."""

from __future__ import annotations

from math import sqrt

import pytest

from scalable_finetune.deflated import deflated_sharpe, expected_largest

DAILY = sqrt(250)


def test_the_worked_example_of_bailey_and_lopez_de_prado() -> None:
    assert expected_largest(100, 0.5 / 250) == pytest.approx(0.1132, abs=5e-5)
    assert deflated_sharpe(2.5 / DAILY, 1250, -3, 10, 100, 0.5 / 250) == pytest.approx(0.9004, abs=5e-5)


def test_a_single_trial_is_not_deflated_and_more_trials_are_deflated_more() -> None:
    chances = [deflated_sharpe(1.0 / DAILY, 1250, 0, 3, trials, 0.5 / 250) for trials in (1, 10, 1000)]
    assert expected_largest(1, 0.5) == 0
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > 0.95 > 0.2 > chances[-1]
