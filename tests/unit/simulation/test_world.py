"""The modelled world: time follows CPUs, nodes come and go, faults end as they should, and chance has a seed."""

from __future__ import annotations

import random
from dataclasses import asdict

import pytest

from scalable.engine.events import (
    BoundsSet,
    Job,
    JobLost,
    JobState,
    KillJob,
    Loss,
    Paused,
    Resumed,
    StartJob,
    SubmittedSweep,
    SweepKind,
)
from scalable.findings import Finding
from scalable.planning.resources import Size
from scalable.planning.simulation import SimulationOutcome
from scalable.planning.simulation.cluster import Computation, SimulatedNode, shares
from scalable.planning.simulation.durations import Fixed, LogNormal, MeasuredDurations, SessionTimes
from scalable.planning.simulation.faults import FaultKind, Faults
from scalable.quantities import Cpu, Memory, Money
from tests.helpers.simulation.builders import CORES, Cluster, a_cluster

HOUR = 3600.0


@pytest.mark.parametrize(
    ("jobs", "workers", "nodes", "request_", "hours"),
    [
        pytest.param(225, 1, 1, 3.9, 13.125, id="225 jobs on one pod of 4 cores"),
        pytest.param(225, 5, 2, 3.9, 2.625, id="225 jobs on 5 pods on two nodes"),
        pytest.param(225, 5, 1, 2.0, 52.5 / 15.6, id="225 jobs on 5 pods that share a node"),
        pytest.param(300, 1, 1, 3.9, 17.5, id="300 jobs on one pod of 4 cores"),
        pytest.param(300, 5, 2, 3.9, 3.5, id="300 jobs on 5 pods on two nodes"),
        pytest.param(300, 5, 1, 2.0, 70 / 15.6, id="300 jobs on 5 pods that share a node"),
    ],
)
def test_time_follows_cpus_not_pods(jobs: int, workers: int, nodes: int, request_: float, hours: float) -> None:
    outcome = a_cluster().with_nodes(nodes, request=request_).with_sweep("s", jobs, workers).run()
    assert outcome.wall_s / HOUR == pytest.approx(hours, rel=1e-9)
    assert outcome.peak_nodes == nodes
    assert outcome.peak_workers == {"standard": workers}
    assert outcome.busy_core_s / HOUR == pytest.approx(jobs * 14 / 60), "14 core-minutes a job, however they are spread"


def test_the_first_job_on_each_worker_takes_longer_where_code_is_loaded() -> None:
    def wall_s(workers: int, **loads: float) -> float:
        cluster = a_cluster().with_sweep("s", 8, workers, Fixed(10.0))
        cluster.loads = loads
        return cluster.run().wall_s

    assert [wall_s(workers, s=6.0) - wall_s(workers) for workers in (1, 2, 3)] == [6.0, 6.0, 6.0]
    assert wall_s(3, other=6.0) == wall_s(3)


def test_a_fault_free_sweep_loses_nothing() -> None:
    outcome = a_cluster().with_sweep("s", 225, 5).run()
    assert outcome.complete
    assert outcome.states == {JobState.FINISHED: 225}
    assert (outcome.attempts, outcome.retries, outcome.alerts) == (225, 0, [])


def test_a_job_that_others_slow_down_past_the_stuck_limit_is_not_taken_for_stuck() -> None:
    """It would take 290 s alone; five that join it on the node at 200 s stretch it to more than 300 s."""
    cluster = a_cluster().with_nodes(1, request=2.0).with_times(provision=0, idle=600)
    outcome = cluster.with_sweep("first", 1, 1, Fixed(290)).with_sweep("second", 5, 5, Fixed(290), at=200).run()
    assert outcome.sweeps["first"].ended > 300
    assert (outcome.retries, outcome.alerts) == (0, [])


@pytest.mark.parametrize("seed", range(8))
def test_jobs_of_all_lengths_on_a_shared_node_lose_nothing(seed: int) -> None:
    cluster = a_cluster().with_nodes(1, request=2.0)
    for place, at in enumerate((0, 500)):
        cluster.with_sweep(f"s{place}", 40, 3, LogNormal(200, 900), at=at)
    outcome = cluster.run(seed)
    assert outcome.complete
    assert (outcome.retries, outcome.alerts) == (0, [])


def test_a_node_is_there_after_provisioning_and_gone_after_idling() -> None:
    outcome = a_cluster().with_times(provision=240, idle=420).with_sweep("s", 10, 5).run()
    assert outcome.started == 240
    for span in outcome.nodes:
        assert (span.requested, span.up) == (0, 240)
        assert span.worked_until == 240 + 2 * 210
        assert span.gone == 240 + 2 * 210 + 420, "its workers go at once, then it idles"
    assert outcome.over == outcome.nodes[0].gone
    assert outcome.node_steps() == [(240, 2), (outcome.over, 0)]


def test_what_is_paid_covers_the_start_of_a_node_and_its_idle_tail() -> None:
    outcome = a_cluster().with_sweep("s", 10, 5).run()
    assert outcome.node_hours()["compute"] == pytest.approx(2 * (180 + 420 + 600) / HOUR)
    assert outcome.node_hours(computing_only=True)["compute"] == pytest.approx(2 * 420 / HOUR)
    price = {"compute": Money.parse("0.1644 EUR")}
    assert float(outcome.cost(price, "EUR").amount) == pytest.approx(0.1644 * 2 * 1200 / HOUR)


def quick() -> Cluster:
    """Nodes of one worker each, that come after 20 s and go after 30 s."""
    return a_cluster().with_nodes(3, request=15.6).with_times(provision=20, idle=30)


def node_seconds(outcome: SimulationOutcome) -> float:
    return outcome.node_hours()["compute"] * HOUR


def test_a_session_closes_with_its_last_row_and_its_nodes_go_after_their_idle_time() -> None:
    outcome = quick().with_sweep("s", 1, 1, Fixed(25)).run()
    assert outcome.node_steps() == [(20, 1), (75, 0)]
    assert outcome.worker_steps == [(20, 1), (45, 0)]
    assert node_seconds(outcome) == 75


@pytest.mark.parametrize("minimum", [0, 3])
def test_all_nodes_of_a_session_go_when_it_closes(minimum: int) -> None:
    """The third worker has nothing to do after 30 s; if it is kept, so is its node."""
    cluster = quick().with_policy("scaling", cooldown="0s").with_sweep("s", 5, 3, Fixed(10)).keeping(minimum)
    outcome = cluster.run()
    assert outcome.node_steps()[0] == (20, 3)
    assert outcome.over == 20 + 20 + 30
    assert node_seconds(outcome) == (3 * 70 if minimum else 2 * 70 + 60)


def test_workers_that_have_not_joined_when_a_session_closes_never_do() -> None:
    """Their nodes come all the same, and idle."""
    cluster = quick().with_sweep("s", 1, 1, Fixed(5)).keeping(1)
    cluster.script.append((24, BoundsSet("standard", 2, 2)))
    outcome = cluster.run()
    assert outcome.peak_workers == {"standard": 1}
    assert outcome.node_steps() == [(20, 1), (44, 2), (55, 1), (74, 0)]


def test_a_session_stays_open_for_a_sweep_that_is_still_to_come() -> None:
    outcome = quick().with_sweep("a", 1, 1, Fixed(25)).with_sweep("b", 1, 1, Fixed(25), at=60).run()
    assert outcome.sweeps["b"].started == 60, "its node is still there"
    assert outcome.node_steps() == [(20, 1), (60 + 25 + 30, 0)]
    assert len(outcome.nodes) == 1


def test_a_retry_keeps_the_session_open_until_it_ends() -> None:
    cluster = quick().with_policy("retry", delay="10s").with_sweep("s", 1, 1, Fixed(25))
    outcome = cluster.with_fault("s/0", FaultKind.TRANSIENT).run()
    assert outcome.complete
    assert outcome.ended == 20 + 12.5 + 10 + 25
    assert outcome.node_steps() == [(20, 1), (outcome.ended + 30, 0)]


def test_without_closing_workers_stay_for_the_cooldown() -> None:
    cluster = quick().with_sweep("s", 1, 1, Fixed(25))
    assert cluster.run(closes=False).over == 120 + 30


def test_workers_join_after_the_time_they_usually_take_on_a_node_that_is_up() -> None:
    outcome = quick().with_sweep("s", 1, 1, Fixed(25)).run(times=SessionTimes(join_s=7))
    assert outcome.started == 27
    assert outcome.node_steps() == [(20, 1), (82, 0)]


def test_what_a_session_takes_before_it_asks_for_workers_delays_its_nodes_and_costs_nothing() -> None:
    at_once, later = (quick().with_sweep("s", 1, 1, Fixed(25)).run(times=SessionTimes(ask_s=s)) for s in (0, 5))
    assert later.ended == at_once.ended + 5
    assert [span.requested for span in later.nodes] == [5]
    assert later.node_hours() == at_once.node_hours()


def test_a_node_comes_after_the_time_it_was_measured_to_take() -> None:
    outcome = quick().with_sweep("s", 1, 1, Fixed(25)).run(node_s=23)
    assert outcome.started == 23
    (span,) = outcome.nodes
    assert (span.requested, span.paid_from, span.up) == (0, 3, 23), "20 s of it are the start of the machine"


def test_nodes_are_paid_while_they_start_and_until_they_are_gone() -> None:
    outcome = quick().with_sweep("s", 1, 1, Fixed(25)).run()
    assert outcome.node_hours() == {"compute": pytest.approx((20 + 25 + 30) / HOUR)}
    assert outcome.node_hours(computing_only=True) == {"compute": pytest.approx(25 / HOUR)}


def test_nodes_idle_from_when_the_workers_are_gone_which_closing_takes_time_for() -> None:
    outcome = quick().with_sweep("s", 1, 1, Fixed(25)).run(times=SessionTimes(close_s=4))
    assert outcome.ended == 45
    assert outcome.over == 45 + 4 + 30


def test_a_worker_that_replaces_a_lost_one_finds_its_node_up() -> None:
    cluster = quick().with_policy("retry", delay="0s").with_sweep("s", 1, 1, Fixed(25))
    outcome = cluster.with_fault("s/0", FaultKind.WORKER_DIES).run(times=SessionTimes(join_s=7, warm_s=2))
    assert outcome.ended == 20 + 7 + 12.5 + 2 + 25
    assert len(outcome.nodes) == 1


def test_a_job_is_handed_over_and_its_end_reported_in_some_time_unless_it_waits_on_the_worker() -> None:
    long = quick().with_sweep("s", 3, 1, Fixed(25)).run(times=SessionTimes(hand_s=1))
    assert long.ended == 20 + 3 * (25 + 1)
    short = quick().with_sweep("s", 50, 1, Fixed(0.1)).run(times=SessionTimes(hand_s=1))
    assert short.ended < 20 + 50 * (0.1 + 1) / 2


def test_a_session_after_another_takes_its_own_start_and_finds_the_nodes_that_are_still_there() -> None:
    times = SessionTimes(ask_s=5, join_s=3, warm_s=1, close_s=2)
    second = SubmittedSweep("second", SweepKind.NORMAL, (Job("second/0", "second", "standard", "", 25.0),), 1)
    outcome = quick().with_sweep("first", 1, 1, Fixed(25)).run(times=times, later=[second])
    assert outcome.complete
    first_ended = 5 + 20 + 3 + 25
    assert outcome.sweeps["second"].started == first_ended + 2 + 5 + 1
    assert outcome.ended == first_ended + 2 + 5 + 1 + 25
    assert outcome.over == outcome.ended + 2 + 30
    assert len(outcome.nodes) == 1


def test_a_session_that_starts_after_the_nodes_have_gone_waits_for_others() -> None:
    second = SubmittedSweep("second", SweepKind.NORMAL, (Job("second/0", "second", "standard", "", 25.0),), 1)
    outcome = quick().with_sweep("first", 1, 1, Fixed(25)).run(times=SessionTimes(ask_s=31), later=[second])
    assert len(outcome.nodes) == 2
    assert outcome.sweeps["second"].started == 31 + 45 + 31 + 20


def test_a_second_sweep_within_the_idle_time_finds_the_nodes_still_there() -> None:
    cluster = a_cluster().with_sweep("first", 5, 5).with_sweep("second", 5, 5, at=180 + 210 + 300)
    outcome = cluster.run()
    assert len(outcome.nodes) == 2
    assert outcome.sweeps["second"].started == 180 + 210 + 300


def test_a_second_sweep_after_the_idle_time_waits_for_nodes_again() -> None:
    outcome = a_cluster().with_sweep("first", 5, 5).with_sweep("second", 5, 5, at=2000).run()
    assert len(outcome.nodes) == 4
    assert outcome.sweeps["second"].started == 2180


def cores(caps: list[float], cpus: float) -> list[float]:
    node = SimulatedNode("n", "compute", 0.0, 0.0, Size(Cpu(0), Memory(0)))
    return shares([Computation(str(i), 1, "w", node, 1.0, cap) for i, cap in enumerate(caps)], cpus)


@pytest.mark.parametrize(
    ("caps", "cpus", "fair"),
    [
        ([4, 4], 16, [4, 4]),
        ([4, 4, 4, 4, 4], 15, [3, 3, 3, 3, 3]),
        ([1, 4, 4], 7, [1, 3, 3]),
        ([4, 1, 8], 8, [3.5, 1, 3.5]),
        ([4], 2, [2]),
        ([], 8, []),
    ],
)
def test_cpus_are_shared_fairly_and_what_one_cannot_use_goes_to_the_others(
    caps: list[float], cpus: float, fair: list[float]
) -> None:
    assert cores(caps, cpus) == pytest.approx(fair)


def test_a_job_speeds_up_when_its_neighbours_end() -> None:
    cluster = a_cluster().with_nodes(1, request=2.0).with_times(provision=0, idle=0)
    cluster.with_sweep("long", 1, 1, Fixed(400)).with_sweep("short", 4, 4, Fixed(100))
    outcome = cluster.run()
    crowded = 100 * 4 / 3.12
    assert outcome.sweeps["short"].ended == pytest.approx(crowded)
    assert outcome.sweeps["long"].ended == pytest.approx(crowded + 300)


def test_a_node_lost_mid_job_costs_one_retry_each_and_the_sweep_recovers() -> None:
    cluster = a_cluster().with_sweep("s", 50, 5).with_node_lost(at=300)
    outcome = cluster.run()
    lost = [event for _, event, _ in cluster.seen if getattr(event, "cause", None) is Loss.NODE_LOST]
    assert 1 <= len(lost) <= 4
    assert outcome.complete
    assert outcome.retries == len(lost)
    assert len([alert for alert in outcome.alerts if alert.code == "retry-used"]) == len(lost)
    assert len(outcome.nodes) == 3, "another came for it"


def test_all_nodes_lost_at_once_pauses_the_work_and_it_goes_on() -> None:
    outcome = a_cluster().with_sweep("s", 50, 5).with_node_lost(at=300).with_node_lost(at=300).run()
    assert outcome.complete
    assert outcome.retries == 5


def test_a_node_lost_while_it_starts_loses_no_job() -> None:
    outcome = a_cluster().with_sweep("s", 10, 5).with_node_lost(at=100).run()
    assert outcome.complete
    assert outcome.retries == 0


def losses(cluster: Cluster) -> list[Loss]:
    return [event.cause for _, event, _ in cluster.seen if isinstance(event, JobLost)]


def test_a_slow_job_ends_late_but_is_left_alone() -> None:
    cluster = a_cluster().with_sweep("s", 1, 1).with_fault("s/0", FaultKind.SLOW, factor=20.0)
    outcome = cluster.run()
    assert outcome.complete
    assert outcome.wall_s == pytest.approx(20 * 210)
    assert losses(cluster) == []


def test_a_stuck_job_is_killed_after_300_seconds_and_run_again() -> None:
    cluster = a_cluster().with_sweep("s", 5, 5).with_fault("s/0", FaultKind.STUCK)
    outcome = cluster.run()
    assert outcome.complete
    assert losses(cluster) == [Loss.STUCK]
    assert outcome.wall_s == pytest.approx(300 + 60 + 210)
    assert {alert.code for alert in outcome.alerts} == {"stuck", "retry-used"}


def test_a_job_that_is_stuck_twice_fails_and_the_sweep_is_not_complete() -> None:
    cluster = a_cluster().with_sweep("s", 5, 5)
    cluster.with_fault("s/0", FaultKind.STUCK).with_fault("s/0", FaultKind.STUCK, attempt=2)
    outcome = cluster.run()
    assert outcome.states == {JobState.FINISHED: 4, JobState.FAILED: 1}
    assert not outcome.complete


def test_a_job_out_of_memory_ends_on_the_heavy_profile() -> None:
    cluster = a_cluster().with_sweep("s", 5, 5).with_fault("s/0", FaultKind.OUT_OF_MEMORY, peak=Memory.of_gib(9))
    outcome = cluster.run()
    assert outcome.complete
    assert outcome.peak_workers == {"standard": 5, "heavy": 1}
    assert losses(cluster) == [Loss.OUT_OF_MEMORY]


def test_a_job_out_of_memory_on_both_profiles_fails_with_both_peaks() -> None:
    cluster = a_cluster().with_sweep("s", 1, 1)
    cluster.with_fault("s/0", FaultKind.OUT_OF_MEMORY, peak=Memory.of_gib(9))
    cluster.with_fault("s/0", FaultKind.OUT_OF_MEMORY, attempt=2, peak=Memory.of_gib(25))
    outcome = cluster.run()
    assert outcome.states == {JobState.FAILED: 1}
    assert "9 GiB of 8 GiB on standard, 25 GiB of 24 GiB on heavy" in outcome.alerts[-1].message


def test_a_preempted_job_goes_on_elsewhere_without_a_retry_being_charged() -> None:
    outcome = a_cluster().with_sweep("s", 5, 5).with_fault("s/0", FaultKind.PREEMPTED).run()
    assert outcome.complete
    assert outcome.retries == 1, "it was started again"
    assert not [alert for alert in outcome.alerts if alert.code == "retry-used"]


def test_a_job_that_takes_its_worker_with_it_is_retried_on_another() -> None:
    cluster = a_cluster().with_sweep("s", 5, 5).with_fault("s/0", FaultKind.WORKER_DIES)
    assert cluster.run().complete
    workers = [i.worker for _, _, all_ in cluster.seen for i in all_ if isinstance(i, StartJob) and i.job == "s/0"]
    assert len(set(workers)) == 2


@pytest.mark.parametrize(
    ("kind", "states"),
    [
        (FaultKind.RAISES, {JobState.FINISHED: 4, JobState.FAILED: 1}),
        (FaultKind.TRANSIENT, {JobState.FINISHED: 5}),
    ],
)
def test_only_an_error_that_may_pass_is_tried_again(kind: FaultKind, states: dict[JobState, int]) -> None:
    assert a_cluster().with_sweep("s", 5, 5).with_fault("s/0", kind).run().states == states


def test_a_stuck_job_on_a_shared_node_leaves_its_cpus_to_the_others_once_killed() -> None:
    cluster = a_cluster().with_nodes(1, request=2.0).with_policy("retry", times=0)
    outcome = cluster.with_sweep("s", 5, 5, Fixed(600)).with_fault("s/0", FaultKind.STUCK).run()
    while_stuck, rest = 300 * 3.12, 600 * 4 - 300 * 3.12
    assert while_stuck + rest == 2400
    assert outcome.wall_s == pytest.approx(300 + rest / 3.9)


def test_refused_workers_are_asked_for_again() -> None:
    outcome = a_cluster().with_sweep("s", 5, 5).with_refusals(2).run()
    assert outcome.complete
    assert outcome.started == 60 + 120 + 180
    assert len([alert for alert in outcome.alerts if alert.code == "workers-refused"]) == 2


def test_workers_that_are_always_refused_stop_the_sweep_instead_of_hanging_it() -> None:
    outcome = a_cluster().with_sweep("s", 5, 5).with_refusals(99).run()
    assert outcome.states == {JobState.STOPPED: 5}
    assert outcome.nodes == []


def test_a_pause_scales_to_zero_and_the_rest_runs_after_it() -> None:
    cluster = a_cluster().with_sweep("s", 50, 5)
    cluster.script += [(400, Paused()), (10_000, Resumed())]
    outcome = cluster.run()
    assert outcome.complete
    assert (0 in [count for when, count in outcome.node_steps() if when < 10_000]) is True
    assert outcome.retries == 0, "running work was allowed to end"


def wild(seed: int) -> SimulationOutcome:
    cluster = a_cluster().with_sweep("a", 60, 5, LogNormal(200, 500)).with_sweep("b", 40, 5, LogNormal(100, 300), at=99)
    cluster.faults = Faults(rates=dict.fromkeys(FaultKind, 0.04))
    return cluster.with_node_lost(at=1000).run(seed)


@pytest.mark.parametrize("seed", [0, 1, 2**32])
def test_the_same_seed_gives_the_same_outcome_in_every_field(seed: int) -> None:
    first, second = wild(seed), wild(seed)
    assert asdict(first) == asdict(second)
    assert first.retries > 0, "there was chance in it"


def test_another_seed_gives_another_outcome_when_durations_vary() -> None:
    ends = {a_cluster().with_sweep("s", 25, 5, LogNormal(210, 400)).run(seed).ended for seed in range(5)}
    assert len(ends) == 5


def test_another_seed_changes_nothing_when_durations_are_fixed() -> None:
    outcomes = [asdict(a_cluster().with_sweep("s", 25, 5).run(seed)) for seed in range(3)]
    assert outcomes[0] == outcomes[1] == outcomes[2]


@pytest.mark.parametrize("seed", range(3))
def test_as_many_jobs_as_were_measured_take_as_long_together(seed: int) -> None:
    measured = MeasuredDurations(tuple(float(10 * n) for n in range(1, 26)))
    outcome = a_cluster().with_sweep("s", 25, 1, measured).run(seed)
    assert outcome.wall_s == pytest.approx(sum(measured.seconds))


def test_more_jobs_than_were_measured_take_what_was_measured_again() -> None:
    outcome = a_cluster().with_sweep("s", 26, 1, MeasuredDurations((100.0, 200.0))).run()
    assert outcome.wall_s == pytest.approx(13 * 300)


@pytest.mark.parametrize(("uses", "wall_s"), [(1.0, 600.0), (CORES, 600.0), (2 * CORES, 1200.0)])
def test_a_job_takes_longer_only_where_its_worker_has_fewer_cores_than_it_used(uses: float, wall_s: float) -> None:
    cluster = a_cluster().with_sweep("s", 3, 1, Fixed(200.0))
    cluster.uses["s"] = uses
    assert cluster.run().wall_s == pytest.approx(wall_s)


def test_jobs_of_one_core_do_not_slow_each_other_down_where_jobs_of_four_do() -> None:
    walls = []
    for uses in (1.0, CORES):
        cluster = a_cluster().with_nodes(1, request=1.0).with_sweep("s", 12, 12, Fixed(200.0))
        cluster.uses["s"] = uses
        walls.append(cluster.run().wall_s)
    assert walls == [pytest.approx(200), pytest.approx(200 * 12 * CORES / 15.6)]


def test_log_normal_durations_have_the_median_and_the_95th_percentile_asked_for() -> None:
    chance = random.Random(7)
    drawn = sorted(LogNormal(210, 400).draw(chance) for _ in range(20_000))
    assert drawn[10_000] == pytest.approx(210, rel=0.02)
    assert drawn[19_000] == pytest.approx(400, rel=0.03)
    assert LogNormal(210, 400).expected == pytest.approx(sum(drawn) / len(drawn), rel=0.02)


def test_every_kill_is_followed_by_the_news_of_the_death() -> None:
    cluster = a_cluster().with_sweep("s", 20, 5)
    for job in ("s/0", "s/3"):
        cluster.with_fault(job, FaultKind.STUCK)
    cluster.run()
    killed = [(i.job, i.attempt) for _, _, all_ in cluster.seen for i in all_ if isinstance(i, KillJob)]
    reported = [(event.job, event.attempt) for _, event, _ in cluster.seen if isinstance(event, JobLost)]
    assert sorted(killed) == sorted(reported) == [("s/0", 1), ("s/3", 1)]


def test_alerts_of_the_engine_are_kept_in_the_outcome() -> None:
    cluster = a_cluster().with_sweep("s", 5, 5).with_fault("s/0", FaultKind.TRANSIENT)
    outcome = cluster.run()
    assert outcome.alerts == [i for _, _, all_ in cluster.seen for i in all_ if isinstance(i, Finding)]
    assert len(outcome.alerts) == 1
