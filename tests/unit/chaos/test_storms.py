"""Storms: drawn from a seed, made in time, told one by one, and over when they are over."""

from __future__ import annotations

from collections import Counter

import pytest

from scalable.chaos import ChaosError, plan


def test_a_seed_gives_one_storm_and_another_seed_another() -> None:
    assert plan(7, 50, 60) == plan(7, 50, 60)
    assert plan(7, 50, 60) != plan(8, 50, 60)


def test_faults_come_in_order_within_the_time_and_by_their_weights() -> None:
    drawn = plan(1, 1000, 60, {"kill-runner": 9, "kill-worker": 1})
    assert [one.at for one in drawn] == sorted(one.at for one in drawn)
    assert drawn[0].at >= 0
    assert drawn[-1].at <= 60
    assert 850 < Counter(one.name for one in drawn)["kill-runner"] < 950


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(ChaosError, match="no fault 'kill-moon'; there are kill-worker"):
        plan(1, 1, 1, {"kill-moon": 1})
