"""AdaptiveScaler: bounds, hysteresis, cooldown and what a decision says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable.engine.scaling import HISTORY, AdaptiveScaler, wanted
from scalable.errors import QuantityError


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def tasks(count: int, tag: str = "demeter") -> list[dict[str, str]]:
    return [{"tag": tag}] * count


def scaler(clock: Clock | None = None, **options: Any) -> AdaptiveScaler:
    return AdaptiveScaler(clock=clock or Clock(), **options)


def test_waiting_work_adds_workers_up_to_the_work() -> None:
    decision = scaler().evaluate(pending_tasks=tasks(5), active_workers={"demeter": 2})

    assert decision.workers_to_add == {"demeter": 3}
    assert decision.workers_to_remove == {}
    assert decision.has_changes


def test_a_tag_without_workers_gets_its_first_ones() -> None:
    assert scaler().evaluate(pending_tasks=tasks(2), active_workers={}).workers_to_add == {"demeter": 2}


def test_idle_workers_are_removed() -> None:
    decision = scaler().evaluate(active_workers={"demeter": 4})

    assert decision.workers_to_remove == {"demeter": 4}
    assert decision.workers_to_add == {}


def test_the_maximum_cuts_what_is_added() -> None:
    some = scaler(max_workers={"demeter": 4})

    assert some.evaluate(pending_tasks=tasks(50), active_workers={"demeter": 2}).workers_to_add == {"demeter": 2}


def test_the_minimum_is_kept_without_work_and_restored_when_missing() -> None:
    some = scaler(min_workers={"demeter": 3})

    assert not some.evaluate(active_workers={"demeter": 3}).has_changes
    assert some.evaluate(active_workers={"demeter": 1}).workers_to_add == {"demeter": 2}
    assert scaler(min_workers={"demeter": 3}).evaluate(active_workers={}).workers_to_add == {"demeter": 3}


def test_workers_over_the_maximum_are_cut_even_while_busy_work_waits() -> None:
    some = scaler(max_workers={"demeter": 4})

    assert some.evaluate(pending_tasks=tasks(50), active_workers={"demeter": 6}).workers_to_remove == {"demeter": 2}


def test_busy_workers_are_never_removed() -> None:
    some = scaler(max_workers={"demeter": 4})

    over = some.evaluate(active_workers={"demeter": 6}, busy_workers={"demeter": 5})
    assert over.workers_to_remove == {"demeter": 1}
    idle = scaler().evaluate(active_workers={"demeter": 20}, busy_workers={"demeter": 2})
    assert idle.workers_to_remove == {"demeter": 18}


def test_tags_are_decided_each_for_itself() -> None:
    decision = scaler().evaluate(
        pending_tasks=[*tasks(3, "a"), *tasks(1, "b")], active_workers={"a": 1, "b": 1, "c": 2}
    )

    assert decision.workers_to_add == {"a": 2}
    assert decision.workers_to_remove == {"c": 2}
    assert "b: stays at 1" in decision.reasoning


def test_between_the_thresholds_nothing_changes() -> None:
    def decide(busy: int, pending: int) -> dict[str, int]:
        some = scaler(scale_up_threshold=0.8, scale_down_threshold=0.2)
        seen = some.evaluate(
            pending_tasks=tasks(pending), active_workers={"demeter": 10}, busy_workers={"demeter": busy}
        )
        return {**seen.workers_to_add, **{tag: -count for tag, count in seen.workers_to_remove.items()}}

    assert decide(busy=7, pending=9) == {}
    assert decide(busy=8, pending=9) == {"demeter": 7}
    assert decide(busy=2, pending=0) == {}
    assert decide(busy=1, pending=0) == {"demeter": -9}


def test_a_change_starts_a_cooldown_that_the_reasoning_names() -> None:
    clock = Clock()
    some = scaler(clock, cooldown_seconds=120)
    some.evaluate(pending_tasks=tasks(4), active_workers={"demeter": 2})
    clock.now += 20

    decision = some.evaluate(active_workers={"demeter": 4})

    assert not decision.has_changes
    assert "demeter: in cooldown for 100 s, stays at 4 instead of 0" in decision.reasoning


def test_after_the_cooldown_changes_are_made_again() -> None:
    clock = Clock()
    some = scaler(clock, cooldown_seconds=120)
    some.evaluate(pending_tasks=tasks(4), active_workers={"demeter": 2})
    clock.now += 120

    assert some.evaluate(active_workers={"demeter": 4}).workers_to_remove == {"demeter": 4}


def test_a_cooldown_of_one_tag_does_not_hold_another() -> None:
    some = scaler()
    some.evaluate(pending_tasks=tasks(4, "a"), active_workers={"a": 2})

    assert some.evaluate(pending_tasks=tasks(4, "b"), active_workers={"a": 4, "b": 0}).workers_to_add == {"b": 4}


def test_a_decision_without_changes_starts_no_cooldown() -> None:
    some = scaler()
    assert not some.evaluate(pending_tasks=tasks(2), active_workers={"demeter": 2}).has_changes

    assert some.evaluate(pending_tasks=tasks(4), active_workers={"demeter": 2}).workers_to_add == {"demeter": 2}


def test_a_decision_held_back_does_not_prolong_the_cooldown() -> None:
    clock = Clock()
    some = scaler(clock, cooldown_seconds=120)
    some.evaluate(pending_tasks=tasks(4), active_workers={"demeter": 2})
    clock.now += 119
    assert "in cooldown" in some.evaluate(active_workers={"demeter": 4}).reasoning
    clock.now += 1

    assert some.evaluate(active_workers={"demeter": 4}).has_changes


def test_hard_bounds_hold_even_in_a_cooldown() -> None:
    some = scaler(min_workers={"demeter": 2}, max_workers={"demeter": 4})
    some.evaluate(pending_tasks=tasks(4), active_workers={"demeter": 2})

    assert some.evaluate(active_workers={"demeter": 1}).workers_to_add == {"demeter": 1}
    assert some.evaluate(active_workers={"demeter": 7}).workers_to_remove == {"demeter": 3}


def test_a_clock_that_is_set_back_does_not_prolong_a_cooldown() -> None:
    clock = Clock()
    some = scaler(clock, cooldown_seconds=120)
    some.evaluate(pending_tasks=[{"tag": "a"}] * 2, active_workers={"a": 0})
    clock.now -= 3600
    assert "in cooldown for 120 s" in some.evaluate(active_workers={"a": 2}).reasoning
    clock.now += 120
    assert some.evaluate(active_workers={"a": 2}).workers_to_remove == {"a": 2}


def test_reset_cooldown_lets_the_next_change_through() -> None:
    some = scaler()
    some.evaluate(pending_tasks=tasks(4), active_workers={"demeter": 2})
    some.reset_cooldown()

    assert some.evaluate(active_workers={"demeter": 4}).has_changes


def test_decisions_are_remembered_in_order_up_to_a_bound() -> None:
    clock = Clock(0)
    some = scaler(clock)
    for second in range(HISTORY + 5):
        clock.now = second
        some.evaluate(active_workers={"demeter": 1})

    assert [decision.timestamp for decision in some.decision_history] == list(range(5, HISTORY + 5))


def test_the_history_that_is_handed_out_is_a_copy() -> None:
    some = scaler()
    decision = some.evaluate(active_workers={"demeter": 0})
    some.decision_history.clear()

    assert some.decision_history == [decision]


def test_a_decision_as_a_record_has_every_field_and_is_json() -> None:
    decision = scaler(Clock(5.0)).evaluate(pending_tasks=tasks(5), active_workers={"demeter": 2})

    assert json.loads(json.dumps(decision.to_dict())) == {
        "workers_to_add": {"demeter": 3},
        "workers_to_remove": {},
        "reasoning": "demeter: 2 → 5 (100% busy, work for 5)",
        "confidence": 0.5,
        "predicted_completion_time": None,
        "timestamp": 5.0,
        "has_changes": True,
    }


def test_completion_is_predicted_from_recent_durations_and_surer_with_more() -> None:
    few = scaler().evaluate(pending_tasks=tasks(10), active_workers={"demeter": 10}, recent_completions=[10.0, 20.0])
    many = scaler(max_workers={"demeter": 5}).evaluate(
        pending_tasks=tasks(10), active_workers={"demeter": 5}, recent_completions=[{"seconds": 15}] * 40
    )

    assert few.predicted_completion_time == 15.0
    assert many.predicted_completion_time == 30.0
    assert 0.5 < few.confidence < many.confidence <= 1


def test_work_that_no_worker_may_do_has_no_completion_time() -> None:
    some = scaler(max_workers={"demeter": 0})

    decision = some.evaluate(pending_tasks=tasks(3), active_workers={}, recent_completions=[10.0])

    assert not decision.has_changes
    assert decision.predicted_completion_time is None


def test_nothing_known_changes_nothing() -> None:
    decision = scaler().evaluate(active_workers={})

    assert not decision.has_changes
    assert decision.reasoning == "no tags"


def test_a_task_without_a_tag_is_of_the_default_tag() -> None:
    assert scaler().evaluate(pending_tasks=[{}, {"tag": None}], active_workers={}).workers_to_add == {"default": 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_workers": {"a": -1}}, "min_workers is"),
        ({"min_workers": {"a": 3}, "max_workers": {"a": 2}}, "write 0 <= min <= max"),
        ({"max_workers": {"a": -1}}, "max_workers is"),
        ({"scale_up_threshold": 0.2, "scale_down_threshold": 0.2}, "leave no room between them"),
        ({"scale_up_threshold": 0.1, "scale_down_threshold": 0.9}, "leave no room between them"),
        ({"scale_up_threshold": 1.1}, "scale_up_threshold <= 1"),
        ({"scale_down_threshold": -0.1}, "0 <= scale_down_threshold"),
        ({"scale_up_threshold": float("nan")}, "thresholds"),
        ({"cooldown_seconds": -1}, "cooldown_seconds is -1; write 0 or more"),
        ({"cooldown_seconds": float("nan")}, "cooldown_seconds is nan"),
        ({"max_workers": 5}, "max_workers is 5; write whole numbers from 0 by tag"),
        ({"min_workers": {"a": "2"}}, "write whole numbers from 0 by tag, min_workers={'demeter': 4}"),
        ({"min_workers": {"a": 1.5}}, "write whole numbers from 0 by tag"),
    ],
)
def test_wrong_settings_are_refused_with_what_to_write(options: dict[str, Any], message: str) -> None:
    with pytest.raises(QuantityError) as refused:
        AdaptiveScaler(**options)

    assert message in str(refused.value)


@st.composite
def situations(draw: st.DrawFn) -> dict[str, Any]:
    active = draw(st.integers(0, 60))
    busy = draw(st.none() | st.integers(0, active))
    minimum = draw(st.integers(0, 20))
    down = draw(st.floats(0, 0.99))
    return {
        "active": active,
        "busy": busy,
        "work": draw(st.integers(busy or 0, 100)),
        "minimum": minimum,
        "maximum": draw(st.none() | st.integers(minimum, 50)),
        "up": draw(st.floats(down, 1, exclude_min=True)),
        "down": down,
    }


@given(situations())
def test_the_wanted_number_keeps_bounds_busy_workers_and_work(now: dict[str, Any]) -> None:
    active, busy, work, minimum, maximum = (now[key] for key in ("active", "busy", "work", "minimum", "maximum"))

    target, reason = wanted(**now)

    assert reason
    assert target >= minimum
    assert maximum is None or target <= max(maximum, busy or 0)
    assert target >= min(active, busy or 0)
    if target > active:
        assert target <= max(work, minimum)


@given(situations())
def test_a_number_that_was_reached_is_kept(now: dict[str, Any]) -> None:
    """With the same work, a second decision after the first never turns back."""
    first, _ = wanted(**now)
    busy = None if now["busy"] is None else min(now["work"], first)

    second, _ = wanted(**{**now, "active": first, "busy": busy})

    assert not (first > now["active"] and second < first)
    assert not (first < now["active"] and second > first and first >= now["work"])


STEPS = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 40), st.floats(0, 1)), min_size=1, max_size=25)


@given(STEPS, st.integers(0, 5), st.integers(5, 30), st.integers(0, 40), st.integers(1, 200))
def test_followed_decisions_stay_in_bounds_and_never_turn_within_a_cooldown(
    steps: list[tuple[int, int, float]], minimum: int, maximum: int, active: int, cooldown: int
) -> None:
    clock = Clock(0)
    some = scaler(clock, min_workers={"t": minimum}, max_workers={"t": maximum}, cooldown_seconds=cooldown)
    changed_at = float("-inf")
    for seconds, pending, part in steps:
        clock.now += seconds
        busy = min(int(active * part), maximum)
        decision = some.evaluate(
            pending_tasks=tasks(pending, "t"), active_workers={"t": active}, busy_workers={"t": busy}
        )
        add, remove = decision.workers_to_add.get("t", 0), decision.workers_to_remove.get("t", 0)

        assert not (add and remove)
        assert remove <= active - busy
        if decision.has_changes:
            assert clock.now - changed_at >= cooldown
            changed_at = clock.now
        active += add - remove
        assert minimum <= active <= maximum


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"active_workers": {"t": -1}}, "active_workers"),
        ({"active_workers": {"t": None}}, "active_workers"),
        ({"active_workers": {"t": "2"}}, "active_workers"),
        ({"active_workers": None}, "active_workers"),
        ({"busy_workers": {"t": 1.5}}, "busy_workers"),
        ({"pending_tasks": ["t"]}, "pending task"),
        ({"pending_tasks": [None]}, "pending task"),
        ({"recent_completions": [{"duration_s": 3.0}]}, "write seconds"),
        ({"recent_completions": [None]}, "write seconds"),
        ({"recent_completions": ["3"]}, "write seconds"),
        ({"recent_completions": [-1.0]}, "write seconds"),
        ({"recent_completions": [float("nan")]}, "write seconds"),
        ({"recent_completions": 5}, "recent_completions is 5"),
        ({"pending_tasks": None}, "pending_tasks is None"),
        ({"pending_tasks": 5}, "pending_tasks is 5"),
        ({"pending_tasks": [{"tag": 5}]}, "a pending task is {'tag': 5}"),
        ({"active_workers": {None: 1}}, "active_workers is {None: 1}"),
        ({"active_workers": {1: 2}}, "active_workers is {1: 2}"),
        ({"busy_workers": {1: 2}}, "busy_workers is {1: 2}"),
    ],
)
def test_what_cannot_be_counted_is_refused_by_its_name(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(QuantityError) as refused:
        scaler(Clock(0)).evaluate(**({"active_workers": {"t": 1}} | wrong))
    assert named in str(refused.value)
