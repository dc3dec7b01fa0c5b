"""What a plan makes of measured memory: whose it is, what it may refuse, and what overrules it."""

from __future__ import annotations

from typing import Any

import pytest

from scalable.engine.events import SweepKind
from scalable.errors import PlanningError
from scalable.manifest import load_file
from scalable.manifest.models import PROFILES
from scalable.planning.acceptance import Result, acceptance
from scalable.planning.expected import estimate_peak
from scalable.planning.history import History, MeasuredUnits, MemoryUse
from scalable.planning.loads import pick_sweeps, sweep_load
from scalable.planning.plan import Plan, plan_sweep
from scalable.planning.site import Site
from scalable.quantities import Memory
from scalable_finetune.plugin import PLUGIN
from tests.helpers.paths import ROOT
from tests.helpers.planning.builders import MACHINE, Change, a_site, example, gib, with_sweep

CALIBRATION = "calibration: {factor: calibration,"
LOCKED = {"cusum_training_mode": "disabled"}


def plan(
    *changes: Change, base: dict[str, Any] | None = None, code: str = "", history: History | None = None,
    sweep: str = "calibration",
) -> Plan:  # fmt: skip
    return plan_sweep(at(a_site(*changes), base, code), sweep, history=history)


def at(site: Site, base: dict[str, Any] | None = None, code: str = "") -> Site:
    return Site(site.manifest, base=base, code=lambda run: code)


def used(peak: float | None, factor: str = "calibration", **facts: Any) -> History:
    use = MemoryUse(None if peak is None else gib(peak), **facts)
    return History(memory={factor: (use,)})


# The locked base


@pytest.mark.parametrize(
    ("values", "heavy"),
    [
        ({}, False),
        ({"cusum_training_mode": "events", "btc_features": "off", "n_features": 80}, False),
        ({"n_features": 50}, False),
        ({"cleanlab": "prune"}, False),
        ({"n_features": 120}, True),
        ({"n_features": "full"}, True),
        ({"btc_features": "on"}, True),
        ({"cusum_training_mode": "relaxed"}, True),
        (LOCKED, True),
    ],
    ids=str,
)
def test_values_that_make_training_sets_large_make_any_factor_heavy(values: dict[str, Any], heavy: bool) -> None:
    assert PLUGIN.is_heavy({"calibration": ()}, values) is heavy
    assert PLUGIN.is_heavy({"n_features": ()}, values)


def test_a_factor_that_is_varied_is_not_heavy_for_what_is_locked_of_it() -> None:
    assert not PLUGIN.is_heavy({"calibration": ()}, {"calibration": "full"})
    assert not PLUGIN.is_heavy({"cleanlab": ()}, {"cleanlab": "prune"})


def test_a_heavy_variant_in_the_base_or_the_settings_routes_a_sweep_to_the_heavy_profile() -> None:
    settings = (CALIBRATION, f"{CALIBRATION} settings: {{cusum_training_mode: disabled}},")
    for found in (plan(base=LOCKED), plan(settings)):
        assert (found.profile, found.nodes_peak >= 2) == ("heavy", True)
    assert plan(base={"cusum_training_mode": "events"}).profile == "standard"


def test_what_is_locked_for_trading_says_nothing_about_a_workload_of_ones_own() -> None:
    own = (CALIBRATION, f'{CALIBRATION} run: "m:f",')
    assert plan(own, base=LOCKED).profile == "standard"


def test_what_was_measured_on_another_base_is_not_used() -> None:
    history = History(
        units={"calibration": (MeasuredUnits((6.0,) * 5, trials=30, base="cleanlab=prune"),)},
        memory={"calibration": (MemoryUse(gib(3), base="cleanlab=prune"),)},
    )
    there = plan(base={"cleanlab": "prune"}, history=history)
    assert there.peak == gib(3)
    assert "mean of 5 measured" in there.assumptions[0]
    for base in ({}, {"cleanlab": "weight"}, {"cleanlab": "prune", "timeframe": "4h"}):
        elsewhere = plan(base=base, history=history)
        assert elsewhere.peak == gib(2)
        assert "no history yet" in elsewhere.assumptions[0]


def test_only_what_matters_of_the_base_tells_measurements_apart() -> None:
    """A locked baseline, the factor itself and what the workload does not read change nothing."""
    history = History(memory={"calibration": (MemoryUse(gib(3)),)}, reads={"": frozenset({"cleanlab", "calibration"})})
    assert plan(base={"cleanlab": "off", "calibration": "isotonic", "size": 9}, history=history).peak == gib(3)


def test_what_earlier_versions_measured_counts_while_nothing_is_locked() -> None:
    history = History(peaks={"calibration": gib(3)})
    assert plan(history=history).peak == gib(3)
    assert plan(base={"cleanlab": "prune"}, history=history).peak == gib(2)


# The code


def test_a_peak_of_other_code_refuses_nothing() -> None:
    history = used(500, code="before")
    with pytest.raises(PlanningError, match="500 GiB"):
        plan(history=history, code="before")
    assert plan(history=history, code="after").peak == gib(2)
    with pytest.raises(PlanningError, match="500 GiB"):
        plan(history=history, code="")  # the code cannot be told


def test_a_refusal_names_what_forgets_the_measured_peak() -> None:
    with pytest.raises(PlanningError, match="scalable admin forget peak calibration"):
        plan(history=used(500))


def test_the_code_is_looked_at_only_where_a_peak_would_not_fit() -> None:
    def importing(run: str | None) -> str:
        raise AssertionError("the workload was imported")

    site = Site(a_site().manifest, code=importing)
    assert plan_sweep(site, "calibration", history=used(3, code="before")).peak == gib(3)


# What a manifest says


def test_a_stated_peak_wins_over_a_measured_one() -> None:
    stated = ("limit: {cpu: 4, memory: 8GiB}, peak: 2GiB}", "limit: {cpu: 4, memory: 8GiB}, peak: 5GiB}")
    assert plan(stated, history=used(500)).peak == gib(5)


def test_the_shipped_profiles_peak_is_only_where_measuring_begins() -> None:
    assert plan(history=used(3)).peak == gib(3)


def test_a_job_that_ran_out_of_memory_goes_only_to_profiles_that_are_declared() -> None:
    small = "small: {request: {cpu: 1, memory: 1GiB}, limit: {cpu: 1, memory: 2GiB}}"
    declared = ("\ngroups:", f"  {small}\n\ngroups:")
    site = a_site(declared)
    assert site.climb("small", "compute") == ("wfrb", "compute")
    text = "profiles: {small: {request: {cpu: 1, memory: 1GiB}, limit: {cpu: 1, memory: 2GiB}}}"
    alone = a_site((profiles(), f"{text}\n"))
    assert alone.climb("small", "compute") is None
    assert alone.climb("standard", "compute") == ("heavy", "compute"), "both are shipped"


def profiles() -> str:
    """The section of the example."""
    start = example().index("profiles:")
    return example()[start : example().index("\ngroups:")]


# Routing


def test_a_measured_peak_routes_the_whole_factor_to_the_profile_that_holds_it() -> None:
    found = plan(history=used(9))
    assert (found.profile, found.peak, found.nodes_peak >= 2) == ("heavy", gib(9), True)
    assert "routed to heavy: 9 GiB measured for this factor" in found.assumptions
    site = at(a_site())
    assert sweep_load(site, "calibration", used(9)).kind is SweepKind.HEAVY
    assert sweep_load(site, "timeframe", used(9)).profile_name == "standard"
    criteria = {criterion.name: criterion for criterion in acceptance(site, used(9))}
    assert criteria["no manual profile choice"].result is Result.PASS


def test_running_out_of_memory_on_a_profile_routes_above_it_whatever_the_peak_was() -> None:
    """The kernel may kill a job just before its highest use is seen."""
    found = plan(history=used(7.9, short=frozenset({"standard"})))
    assert found.profile == "heavy"
    assert "routed to heavy: this factor ran out of memory on standard" in found.assumptions
    assert plan(history=used(None, short=frozenset({"standard"}))).profile == "heavy"
    assert plan(history=used(7.9, short=frozenset({"standard"}), code="before"), code="after").profile == "standard"


def test_a_profile_that_the_sweep_names_is_not_changed_by_a_measurement() -> None:
    named = (CALIBRATION, f"{CALIBRATION} profile: standard,")
    with pytest.raises(PlanningError, match="use the profile heavy"):
        plan(named, history=used(9))


def test_sweeps_of_a_profile_are_those_that_are_routed_to_it() -> None:
    site = at(a_site())
    assert pick_sweeps(site, "x", "heavy", 2, History()) == ["n_features"] * 2
    assert set(pick_sweeps(site, "x", "heavy", 2, used(9))) == {"n_features", "calibration"}


def test_the_shipped_portfolio_workload_is_routed_without_a_profile() -> None:
    screening = load_file(ROOT / "examples/screening/scalable.yaml", env={}).manifest
    site = Site(screening, "local", MACHINE)
    assert sweep_load(site, "wfrb", History()).profile_name == "wfrb"
    assert sweep_load(site, "discovery", History()).profile_name == "standard"
    criteria = {criterion.name: criterion for criterion in acceptance(site)}
    assert criteria["no manual profile choice"].result is Result.PASS


# Estimates


def test_an_estimate_is_never_under_what_was_observed_until_something_was_measured() -> None:
    sized = ("n_features: {factor: n_features,", "n_features: {factor: n_features, samples: 20000, features: 272,")
    site = at(a_site(sized))
    load = sweep_load(site, "n_features", History())
    assert load.estimate.peak == gib(15)
    assert "highest observed" in load.estimate.source and "20,000 samples × 272 features" in load.estimate.source
    assert load.profile.peak == PROFILES["heavy"].peak, "margins are those of what was observed"
    larger = sweep_load(at(a_site((sized[0], sized[1].replace("20000", "900000")))), "n_features", History())
    assert larger.estimate.peak > gib(15)
    assert sweep_load(site, "n_features", used(3, "n_features")).estimate.peak == gib(3)


def test_nothing_was_observed_of_a_workload_that_never_ran() -> None:
    mine = with_sweep("mine: {factor: mine, variants: [a, b], assets: [X], folds: 2, run: m:f}")
    source = sweep_load(at(a_site(mine)), "mine", History()).estimate.source
    assert "observed" not in source and "nothing was measured" in source


def sizes(count: int = 25, fixed: float = 0.42, each: float = 61.0) -> tuple[tuple[int, int, int], ...]:
    """Peaks on a line, a hundredth to either side."""
    grid = ((500 * number, (50, 80, 272)[number % 3]) for number in range(1, count + 1))
    return tuple(
        (samples, features, round((fixed * 2**30 + each * samples * features) * (1 + 0.01 * (-1) ** samples)))
        for samples, features in grid
    )


def test_an_estimate_follows_what_jobs_of_the_workload_used() -> None:
    estimate = estimate_peak(20_000, 272, 1.0, sizes())
    assert estimate.peak.bytes == pytest.approx(0.42 * 2**30 + 61 * 20_000 * 272, rel=0.05)
    assert estimate.source.startswith("fit of 25 measured: 0.4")
    with_safety = estimate_peak(20_000, 272, 1.5, sizes()).peak.bytes
    assert with_safety == pytest.approx(0.42 * 2**30 + 1.5 * 61 * 20_000 * 272, rel=0.05)


@pytest.mark.parametrize("known", [sizes(4), ((1000, 80, 2**30),) * 9, sizes(9, each=-1.0)])
def test_what_does_not_make_a_line_is_not_fitted(known: tuple[tuple[int, int, int], ...]) -> None:
    assert estimate_peak(20_000, 272, 1.5, known) == estimate_peak(20_000, 272, 1.5)


def test_a_plan_shows_the_fit_of_the_sweeps_workload() -> None:
    sized = ("n_features: {factor: n_features,", "n_features: {factor: n_features, samples: 2000000, features: 272,")
    history = History(sizes={"": sizes(each=6.0)})
    estimate = sweep_load(at(a_site(sized)), "n_features", history).estimate
    assert "fit of 25 measured" in estimate.source and "highest observed" in estimate.source
    assert estimate.peak == gib(15), "what was observed is more"
    assert sweep_load(at(a_site(sized)), "n_features", History(sizes={"": sizes(each=600.0)})).estimate.peak > gib(100)


# A heavy profile of one's own


def test_a_heavy_profile_of_ones_own_has_what_it_leaves_out_of_the_shipped_one() -> None:
    text = "profiles: {heavy: {request: {cpu: 2, memory: 14GiB}, limit: {cpu: 4, memory: 28GiB}}}\n"
    site = at(a_site((profiles(), text)))
    load = sweep_load(site, "n_features", History())
    assert load.kind is SweepKind.HEAVY
    assert (load.profile.limit.memory, load.profile.peak) == (gib(28), PROFILES["heavy"].peak)
    assert plan_sweep(site, "n_features").nodes_peak >= 2
    own = a_site((profiles(), text.replace("28GiB}", "28GiB}, alone: false, min_nodes: 1, peak: 1GiB"))).manifest
    assert (own.profiles["heavy"].alone, own.profiles["heavy"].min_nodes) == (False, 1)
    small = a_site((profiles(), text.replace("14GiB", "4GiB").replace("28GiB", "8GiB"))).manifest
    assert small.profiles["heavy"].peak is None, "15 GiB were never seen on a worker of 8"


def test_a_jobs_memory_is_what_the_plan_expects() -> None:
    load = sweep_load(at(a_site()), "calibration", used(3))
    assert load.planned(1).memory == Memory.of_gib(3)
