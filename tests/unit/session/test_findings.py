"""Every sentence of the diagnosis, from snapshots written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scalable.cluster.diagnosis import LIMITS, Awaited, Bounds, Kind, Refusal, Snapshot, diagnose
from scalable.engine.events import Loss
from scalable.findings import Finding, Severity

NOW = 10_000.0
REMOTE = Snapshot(
    remote=True,
    scheduler="tls://10.0.0.5:45123",
    interfaces={"lo": "127.0.0.1", "eth0": "10.0.0.5", "ib0": "192.168.1.5"},
)
LOCAL = Snapshot(scheduler="tcp://127.0.0.1:40001")


def the_finding(snapshot: Snapshot) -> Finding:
    [finding] = diagnose(snapshot, NOW)
    return finding


def a_kind(**facts: Any) -> Kind:
    """Two model workers are wanted; tasks have waited for ten minutes, if any do."""
    standard: dict[str, Any] = {"minimum": 2, "maximum": 2, "waits_since": NOW - 600}
    return Kind("model", **(standard | facts))


def queued(reason: str, *, ago: float = 120.0, name: str = "model-0") -> Awaited:
    return Awaited(name, "model", NOW - ago, "job 17", reason)


def started(ago: float, **facts: Any) -> Awaited:
    return Awaited("model-0", "model", NOW - ago - 5, "job 17", runs_since=NOW - ago, **facts)


# Workers that do not connect


def test_a_queued_job_is_told_with_the_reason_of_slurm_and_since_when() -> None:
    finding = the_finding(
        replace(REMOTE, kinds=(a_kind(waiting=5),), awaited=(queued("waits for free nodes (Resources)"),))
    )
    assert finding.code == "workers-queued"
    assert finding.message == "1 model worker queued for 2 min: waits for free nodes (Resources); 5 tasks wait"
    assert finding.remedy == (
        "jobs with fewer CPUs, less memory or a shorter walltime start sooner;  squeue --start --jobs=17  estimates"
    )


def test_jobs_that_wait_for_different_reasons_are_counted_by_reason() -> None:
    jobs = [queued("others come first (Priority)", name=f"model-{n}") for n in (1, 2)]
    down = queued("the partition is down (PartitionDown)", name="model-3")
    finding = the_finding(replace(REMOTE, kinds=(a_kind(),), awaited=(*jobs, down)))
    assert finding.message == (
        "3 model workers queued for 2 min: 2 × others come first (Priority), 1 × the partition is down (PartitionDown)"
    )
    assert finding.remedy == "write another queue in the target; sinfo lists them with their state"


def test_limits_and_held_jobs_have_remedies_of_their_own() -> None:
    limit = the_finding(replace(REMOTE, kinds=(a_kind(),), awaited=(queued("QOSMaxJobsPerUserLimit"),)))
    assert limit.remedy == "that many are not allowed at once: end other jobs, or lower max_workers"
    held = the_finding(replace(REMOTE, kinds=(a_kind(),), awaited=(queued("JobHeldUser"),)))
    assert held.remedy == "a held job starts after  scontrol release 17"


def test_a_job_that_was_just_submitted_is_not_worth_a_word() -> None:
    just = queued("Slurm has not looked at it yet", ago=LIMITS.queued - 1)
    assert diagnose(replace(REMOTE, kinds=(a_kind(waiting=5),), awaited=(just,)), NOW) == []


def test_a_job_that_runs_without_connecting_leads_to_address_interface_and_port() -> None:
    awaited = started(25, node="n7", words="connecting")
    finding = the_finding(replace(REMOTE, kinds=(a_kind(waiting=1),), awaited=(awaited,)))
    assert finding.code == "workers-silent"
    assert finding.message == (
        "model-0 (job 17, n7) has run for 25 s and has not connected to the scheduler at tls://10.0.0.5:45123; "
        "its log ends: connecting; 1 task waits"
    )
    assert finding.remedy == (
        "nodes must reach eth0 of this machine: write another interface (it has eth0 (10.0.0.5), ib0 (192.168.1.5)), "
        "or port: N if a firewall closes 45123"
    )


def test_a_scheduler_that_only_its_own_machine_can_reach_is_named() -> None:
    lost = replace(REMOTE, scheduler="tls://127.0.0.1:8786", kinds=(a_kind(),), awaited=(started(30),))
    assert the_finding(lost).remedy == (
        "no other machine can reach 127.0.0.1: write interface: NAME in the target; "
        "this machine has eth0 (10.0.0.5), ib0 (192.168.1.5)"
    )


def test_an_address_that_is_not_this_machines_is_named() -> None:
    lost = replace(REMOTE, scheduler="tls://203.0.113.9:8786", kinds=(a_kind(),), awaited=(started(30),))
    assert the_finding(lost).remedy == (
        "203.0.113.9 is no address of this machine (eth0 (10.0.0.5), ib0 (192.168.1.5)): "
        "correct contact_address of the target"
    )


def test_on_this_machine_a_silent_worker_leads_to_its_preload_script() -> None:
    awaited = (started(21), replace(started(30), name="model-1"))
    finding = the_finding(replace(LOCAL, kinds=(a_kind(),), awaited=awaited))
    assert finding.message == (
        "model-0 (job 17) and 1 more have run for 21 s and have not connected to the scheduler at tcp://127.0.0.1:40001"
    )
    assert finding.remedy == "see what its preload_script does:  scalable logs model-0"


def test_a_worker_that_could_not_connect_is_explained_like_one_that_does_not() -> None:
    reason = "job 17 on n1: cannot reach the scheduler at tls://10.0.0.5:45123: no answer within 60 s"
    kind = a_kind(refusal=Refusal(reason, NOW, Loss.WORKER_LOST), waiting=3)
    finding = the_finding(replace(REMOTE, kinds=(kind,)))
    assert finding.code == "cannot-connect"
    assert finding.message == f"1 model worker did not come: {reason}; 3 tasks wait"
    assert finding.remedy.startswith("nodes must reach eth0 of this machine: ")
    assert finding.severity is Severity.ERROR


def test_refusals_are_told_apart_by_what_can_be_done() -> None:
    reasons = {
        "this worker differs from the driver: dask 2025.1 here, 2026.8 there": (
            "versions-differ",
            "install the same versions on both sides, in the image too",
        ),
        "model: the image /sw/model.sif does not exist": (
            "image-missing",
            "build it, or correct components.model.image",
        ),
        "the code in /home/a is not the driver's: run.py differs": (
            "code-differs",
            "or write code: upload in the target",
        ),
        "sbatch refused the job: invalid partition specified: fast": (
            "slurm-refused",
            "scalable doctor  asks Slurm about every component and starts nothing",
        ),
        "quota exceeded": ("workers-refused", "scalable doctor  checks the target and starts nothing"),
    }
    for reason, (code, remedy) in reasons.items():
        finding = the_finding(replace(REMOTE, kinds=(a_kind(refusal=Refusal(reason, NOW)),)))
        assert (finding.code, finding.remedy) == (code, remedy)


def test_a_start_that_fails_again_and_again_is_counted_and_then_given_up() -> None:
    again = Refusal("cannot start: no module named model", NOW, Loss.CANNOT_START, times=2)
    finding = the_finding(replace(LOCAL, kinds=(a_kind(refusal=again, live=1),)))
    assert finding.code == "cannot-start"
    assert finding.message == "1 model worker did not come (2 in a row): cannot start: no module named model"
    assert finding.severity is Severity.WARNING, "one is there"
    finding = the_finding(replace(LOCAL, kinds=(a_kind(refusal=replace(again, given_up=True)),)))
    assert finding.message == (
        "no model worker can be had (2 in a row), and what waits for one is given up: "
        "cannot start: no module named model"
    )
    assert finding.code == "workers-given-up"
    assert finding.severity is Severity.ERROR


def test_a_start_that_takes_more_memory_than_allowed_says_so() -> None:
    short = Refusal("used 120 MiB of the 100 MiB it may use; killed", NOW, Loss.OUT_OF_MEMORY)
    finding = the_finding(replace(LOCAL, kinds=(a_kind(refusal=short),)))
    assert finding.code == "start-out-of-memory"
    assert finding.remedy == "raise components.model.memory: the start alone takes more"


def test_a_refusal_is_forgotten_when_nothing_needs_the_worker_any_more() -> None:
    old = a_kind(minimum=0, maximum=None, bounds=Bounds.ADAPTIVE, refusal=Refusal("quota", NOW - 100))
    assert diagnose(replace(LOCAL, kinds=(old,)), NOW) == []


def test_a_batch_system_that_does_not_answer_is_told() -> None:
    finding = the_finding(replace(REMOTE, trouble="squeue did not answer within 30 s"))
    assert finding.code == "backend-silent"
    assert finding.message == (
        "the batch system does not answer: squeue did not answer within 30 s; "
        "workers that run go on, new ones cannot be had"
    )


# Tasks that wait


def test_work_for_a_tag_that_may_have_no_worker_says_what_to_write() -> None:
    finding = the_finding(replace(LOCAL, kinds=(a_kind(minimum=0, maximum=0, waiting=4),)))
    assert finding.code == "nothing-asked-for"
    assert finding.message == "4 tasks wait for model workers, and at most 0 are allowed"
    assert finding.remedy == "raise max_workers of the target, or call session.scale({'model': 1})"


def test_a_cluster_without_add_workers_is_told_to_call_it() -> None:
    kind = a_kind(bounds=Bounds.HAND, minimum=0, maximum=None, waiting=1, waits_since=NOW - 6)
    finding = the_finding(replace(REMOTE, kinds=(kind,)))
    assert finding.message == "1 task waits for model workers, and none was asked for"
    assert finding.remedy == "call add_workers(n, 'model')"
    assert diagnose(replace(REMOTE, kinds=(replace(kind, waits_since=NOW - 4),)), NOW) == []


def test_a_long_queue_at_the_maximum_says_how_to_go_faster() -> None:
    finding = the_finding(replace(LOCAL, kinds=(a_kind(live=2, running=2, waiting=40),)))
    assert finding.code == "workers-full"
    assert finding.message == "all 2 model workers are busy: 2 tasks run, 40 wait, and 2 is the most allowed"
    assert finding.remedy == "to go faster, raise max_workers of the target, or call session.scale({'model': 3})"
    assert finding.severity is Severity.NOTE


def test_the_remedy_follows_from_who_sets_the_bounds() -> None:
    full = a_kind(live=2, running=2, waiting=40)
    remedies = {
        Bounds.ADAPTIVE: "to go faster, raise adaptive.maximum of the target",
        Bounds.SCALER: "to go faster, raise max_workers of the AdaptiveScaler",
        Bounds.HAND: "to go faster, call add_workers(n, 'model')",
    }
    for bounds, remedy in remedies.items():
        assert the_finding(replace(LOCAL, kinds=(replace(full, bounds=bounds),))).remedy == remedy


def test_workers_that_are_busy_below_the_maximum_are_no_finding() -> None:
    kind = a_kind(bounds=Bounds.ADAPTIVE, maximum=None, live=2, running=2, waiting=40)
    assert diagnose(replace(LOCAL, most_workers=3, kinds=(kind,)), NOW) == []
    assert the_finding(replace(LOCAL, most_workers=2, kinds=(kind,))).code == "workers-full"


def test_room_that_other_kinds_have_is_named() -> None:
    kind = a_kind(bounds=Bounds.ADAPTIVE, minimum=0, maximum=None, waiting=4)
    other = Kind("other", Bounds.ADAPTIVE, live=2, running=2)
    finding = the_finding(replace(LOCAL, most_workers=2, kinds=(kind, other)))
    assert finding.code == "no-room"
    assert finding.message == (
        "4 tasks wait for model workers, but other workers have all the room there is "
        "(2 other, and 2 is the most allowed)"
    )
    assert finding.remedy == "raise adaptive.maximum of the target"


def test_a_cooldown_is_told_with_its_end() -> None:
    kind = a_kind(bounds=Bounds.ADAPTIVE, minimum=0, maximum=None, waiting=4, cooling_s=90.0)
    finding = the_finding(replace(LOCAL, kinds=(kind,)))
    assert finding.code == "cooling-down"
    assert finding.message == (
        "4 tasks wait for model workers; workers were removed a moment ago, so none is added for another 1 min 30 s"
    )


def test_workers_that_the_backend_neither_accepts_nor_refuses_are_told() -> None:
    finding = the_finding(replace(REMOTE, kinds=(a_kind(waiting=4, unaccepted=2),)))
    assert finding.code == "unaccepted"
    assert finding.message == "4 tasks wait for model workers; 2 asked for, and the backend has not said yes or no"


def test_tasks_that_wait_for_no_known_reason_are_not_passed_over() -> None:
    finding = the_finding(replace(LOCAL, kinds=(a_kind(minimum=0, maximum=3, waiting=4),)))
    assert finding.code == "no-worker"
    assert finding.message == "4 tasks wait for model workers for 10 min; none is there or asked for"


def test_tasks_that_ask_for_what_no_worker_has_are_told_apart() -> None:
    kind = a_kind(live=2, idle=(NOW - 100, NOW - 50), waiting=3, unplaced=3)
    finding = the_finding(replace(LOCAL, kinds=(kind,)))
    assert finding.code == "tasks-restricted"
    assert finding.message == (
        "3 tasks wait for 10 min although 2 model workers are idle: the resources or workers they name are not there"
    )


def test_a_pause_and_a_used_up_budget_are_why_tasks_wait() -> None:
    kind = a_kind(waiting=4)
    paused = the_finding(replace(LOCAL, paused="paused by the operator", kinds=(kind,)))
    assert (paused.code, paused.message) == ("paused", "4 tasks are not started: paused by the operator")
    stopped = the_finding(replace(LOCAL, stopped="the budget of EUR 5.00 is used up", kinds=(kind,)))
    assert (stopped.code, stopped.message) == ("budget", "4 tasks are not started: the budget of EUR 5.00 is used up")


# Workers that idle, starts that are slow


def test_workers_kept_by_a_minimum_are_told_with_what_they_cost() -> None:
    kind = a_kind(
        bounds=Bounds.ADAPTIVE,
        minimum=2,
        maximum=None,
        live=3,
        idle=(NOW - 400, NOW - 350, NOW - 10),
        hourly="EUR 0.50",
    )
    finding = the_finding(replace(REMOTE, kinds=(kind,)))
    assert finding.code == "idle-workers"
    assert finding.message == "1 model worker idle for 6 min 40 s, kept by a minimum of 2, at EUR 0.50 an hour each"
    assert finding.remedy == "lower adaptive.minimum of the target"
    assert finding.severity is Severity.WARNING


def test_workers_of_a_fixed_count_can_be_made_adaptive() -> None:
    finding = the_finding(replace(LOCAL, kinds=(a_kind(live=2, idle=(NOW - 301, NOW - 300)),)))
    assert finding.message == "2 model workers idle for 5 min 1 s, kept because 2 are set"
    assert finding.remedy == (
        "write adaptive: {minimum: 0, maximum: 2} in the target, or call session.scale({'model': 0})"
    )
    assert finding.severity is Severity.NOTE, "they cost nothing here"


def test_workers_added_by_hand_can_be_removed_by_hand() -> None:
    kind = a_kind(bounds=Bounds.HAND, minimum=0, maximum=None, live=1, idle=(NOW - 301,))
    finding = the_finding(replace(REMOTE, kinds=(kind,)))
    assert (finding.message, finding.remedy) == ("1 model worker idle for 5 min 1 s", "call remove_workers(1, 'model')")


def test_idle_workers_that_are_about_to_go_are_no_finding() -> None:
    kind = a_kind(bounds=Bounds.ADAPTIVE, minimum=0, maximum=None, live=2, idle=(NOW - 900, NOW - 900))
    assert diagnose(replace(REMOTE, kinds=(kind,)), NOW) == []


def test_idle_workers_while_other_work_waits_are_told_with_both_names() -> None:
    idle = a_kind(bounds=Bounds.ADAPTIVE, maximum=None, live=2, idle=(NOW - 20, NOW - 20))
    other = Kind("other", Bounds.ADAPTIVE, waiting=5, waits_since=NOW - 20)
    found = {one.code: one for one in diagnose(replace(LOCAL, most_workers=2, kinds=(idle, other)), NOW)}
    assert set(found) == {"idle-while-others-wait", "no-room"}
    finding = found["idle-while-others-wait"]
    assert finding.message == ("2 model workers are idle, kept by a minimum of 2, while 5 tasks wait for other workers")
    assert finding.remedy == (
        "lower adaptive.minimum of the target, or let them do both: components.model.tags: [other]"
    )


def test_slow_cold_starts_suggest_a_warm_worker() -> None:
    kind = a_kind(bounds=Bounds.ADAPTIVE, minimum=0, maximum=None, starts_s=(90.0, 100.0), cold=2)
    finding = the_finding(replace(REMOTE, kinds=(kind,)))
    assert finding.code == "slow-cold-starts"
    assert finding.message == "tasks waited 2 times for a first model worker, which takes 1 min 35 s to start"
    assert finding.remedy == ("keep one warm: adaptive.minimum: 1 in the target, or a longer policies.scaling.idle")
    for other in (replace(kind, cold=1), replace(kind, starts_s=(2.0, 3.0)), replace(kind, minimum=1)):
        assert diagnose(replace(REMOTE, kinds=(other,)), NOW) == []


def test_a_cluster_where_all_is_well_has_nothing_to_say() -> None:
    busy = a_kind(live=2, running=2, waiting=1, waits_since=NOW - 5)
    assert diagnose(replace(REMOTE, kinds=(busy, Kind("other", Bounds.ADAPTIVE))), NOW) == []


def test_the_gravest_comes_first() -> None:
    kind = a_kind(live=2, running=2, waiting=40)
    broken = Kind("other", minimum=1, maximum=1, refusal=Refusal("quota exceeded", NOW))
    found = diagnose(replace(REMOTE, trouble="no answer", kinds=(kind, broken)), NOW)
    assert [one.code for one in found] == ["workers-refused", "backend-silent", "workers-full"]
