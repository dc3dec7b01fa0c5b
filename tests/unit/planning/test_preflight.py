"""The memory check before a run: never smaller for more data, and blocking with numbers and a way out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable.planning.expected import BASE, Estimate, estimate_peak, preflight
from scalable.quantities import Memory, Share

SAMPLES = st.integers(1, 10**7)
FEATURES = st.integers(1, 10**4)
SAFETY = st.floats(1, 10)


def gib(number: float) -> Memory:
    return Memory.of_gib(number)


def estimate(number: float) -> Estimate:
    return Estimate(gib(number), "measured")


@given(SAMPLES, FEATURES, SAFETY, st.integers(0, 10**6), st.integers(0, 10**3))
def test_more_samples_or_features_never_need_less(
    samples: int, features: int, safety: float, more: int, wider: int
) -> None:
    peak = estimate_peak(samples, features, safety).peak

    assert estimate_peak(samples + more, features, safety).peak >= peak
    assert estimate_peak(samples, features + wider, safety).peak >= peak
    assert peak > BASE


@given(SAMPLES, FEATURES, SAFETY)
def test_the_estimate_is_at_least_the_matrix_itself(samples: int, features: int, safety: float) -> None:
    assert estimate_peak(samples, features, safety).peak.bytes >= samples * features * 8


def test_the_estimate_says_where_its_figure_comes_from() -> None:
    source = estimate_peak(20_000, 272, 1.5).source

    assert "20,000 samples × 272 features" in source
    assert "× 1.5" in source


def test_the_largest_heavy_training_set_passes_and_the_standard_one_too() -> None:
    node, share = gib(64), Share(0.7)

    assert preflight(estimate_peak(20_000, 272, 1.5), limit=gib(24), node=node, share=share, larger=None).ok
    assert preflight(estimate_peak(2_000, 80, 1.5), limit=gib(8), node=node, share=share, larger="heavy").ok


@pytest.mark.parametrize(
    ("peak", "limit", "node", "ok"),
    [
        (8.0, 8, 64, True),
        (8.01, 8, 64, False),
        (6.99, 8, 10, True),
        (7.01, 8, 10, False),
        (7.01, 24, 10, False),
        (6.99, 24, 10, True),
    ],
)
def test_the_lesser_of_limit_and_70_percent_of_the_node_decides(
    peak: float, limit: float, node: float, ok: bool
) -> None:
    verdict = preflight(estimate(peak), limit=gib(limit), node=gib(node), share=Share(0.7), larger=None)

    assert verdict.ok is ok
    assert verdict.allowed.gib == pytest.approx(min(limit, node * 0.7))


@given(st.floats(0, 200), st.integers(1, 100), st.integers(1, 100), st.integers(1, 100))
def test_a_peak_is_blocked_exactly_when_it_is_over_what_is_allowed(
    peak: float, limit: int, node: int, percent: int
) -> None:
    verdict = preflight(estimate(peak), limit=gib(limit), node=gib(node), share=Share(percent / 100), larger=None)

    assert verdict.ok == (gib(peak) <= verdict.allowed)
    assert verdict.allowed <= gib(limit)
    assert verdict.allowed.bytes <= gib(node).bytes * percent / 100 + 1


def test_a_block_by_the_limit_has_the_numbers_and_the_larger_profile() -> None:
    verdict = preflight(estimate(9), limit=gib(8), node=gib(64), share=Share(0.7), larger="heavy")

    assert verdict.message == (
        "memory check: a peak of 9 GiB (measured) is over the profile's limit of 8 GiB; use the profile heavy"
    )


def test_a_block_by_the_node_has_the_share_and_says_what_to_change() -> None:
    verdict = preflight(estimate(50), limit=gib(60), node=gib(64), share=Share(0.7), larger=None)

    assert "a peak of 50 GiB" in verdict.message
    assert "is over 70 % of the node's 64 GiB" in verdict.message
    assert verdict.message.endswith("; use fewer samples or features, or a larger node")


def test_a_pass_shows_the_peak_and_what_was_allowed() -> None:
    verdict = preflight(estimate(3), limit=gib(8), node=gib(64), share=Share(0.7), larger="heavy")

    assert verdict.message == "peak 3 GiB within 8 GiB"
