"""How often workers give a sign of life, so that many of them do not keep the scheduler busy."""

from __future__ import annotations

import pytest

from scalable.cluster.scheduler import MOST_BEATS, SELDOM_BEAT_S, beat_every


@pytest.mark.parametrize(("workers", "seconds"), [(1, 0.5), (40, 1.0), (100, 2.0), (500, 10.0), (10_000, 51.0)])
def test_many_workers_give_a_sign_of_life_less_often(workers: int, seconds: float) -> None:
    assert beat_every(workers) == seconds


def test_no_more_signs_come_in_a_second_than_a_login_node_bears() -> None:
    for workers in (100, 200, 500, 1000, int(MOST_BEATS * SELDOM_BEAT_S)):
        assert workers / beat_every(workers) <= MOST_BEATS
