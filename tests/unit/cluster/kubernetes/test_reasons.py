"""What a cluster says reaches people in words and the engine in its terms; read from answers as clusters give them."""

# ruff: noqa: E501 - the tables of cases are read line by line
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalable.cluster.base import WorkerFate
from scalable.cluster.kubernetes.answers import LONGEST, more, read
from scalable.cluster.kubernetes.reasons import NO_NODE, fate, refusal, waits
from scalable.engine.events import Loss
from scalable.quantities import Memory

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
    return found


def fate_of(name: str, **more: Any) -> WorkerFate | None:
    case = recorded(name)
    return fate(case["pod"], case["events"], case.get("node"), **more)


def waits_of(name: str) -> str:
    case = recorded(name)
    return waits(case["pod"], case["events"])


WAITS = {
    "unschedulable-node-coming": ["no node has room for it: 0/3 nodes are available", "2 Insufficient cpu", "the autoscaler adds a node: pod triggered scale-up: [{compute 0->1 (max: 6)}]"],
    "unschedulable-no-node-will-come": ["no node has room for it", "the autoscaler adds no node: pod didn't trigger scale-up: 1 max node group size reached"],
    "unschedulable": ["no node has room for it: 0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 Insufficient cpu."],
    "unschedulable-for-its-spread": ["2 node(s) didn't match pod topology spread constraints."],
    "node-claimed": ["no node has room for it", "a node is coming: Pod should schedule on: nodeclaim/compute-x7k2p"],
    "held-by-a-gate": ["it is held back (SchedulingGated)"],
    "not-looked-at": ["the scheduler has not looked at it yet"],
    "pulling": ["its image is being pulled on compute-1"],
    "init-container-runs": ["its container is being made on compute-1"],
    "secret-of-a-volume-missing": ['secret "scalable-r1" not found'],
    "image-not-found": ["its image cannot be pulled (ImagePullBackOff)", "registry.example.com/ftf:1.4: not found"],
    "image-not-found-told-by-an-event": ["its image cannot be pulled (ImagePullBackOff)", "registry.example.com/ftf:1.4: not found"],
    "registry-busy": ["its image cannot be pulled (ErrImagePull)", "429 Too Many Requests"],
    "secret-of-a-variable-missing": ["its container lacks something (CreateContainerConfigError)", 'secret "store" not found'],
    "another-wait": ["Daydreaming: back in a minute"],
}  # fmt: skip

FATES = {
    "out-of-memory": (Loss.OUT_OF_MEMORY, "on compute-1 used more memory than its limit of 8 GiB (OOMKilled)"),
    "out-of-memory-beside-another": (Loss.OUT_OF_MEMORY, "its limit of 8 GiB"),
    "evicted-for-its-memory": (Loss.OUT_OF_MEMORY, "was evicted: The node was low on resource: memory"),
    "evicted-for-a-full-disk": (Loss.PREEMPTED, "low on resource: ephemeral-storage"),
    "evicted-for-its-own-files": (Loss.WORKER_LOST, "exceeds the total limit of containers 2Gi"),
    "preempted": (Loss.PREEMPTED, "gave way to a pod of higher priority"),
    "preempted-told-by-an-event": (Loss.PREEMPTED, "gave way to a pod of higher priority: Preempted by pod 7a0c"),
    "drained": (Loss.PREEMPTED, "was evicted, as when a node is drained"),
    "node-shut-down": (Loss.PREEMPTED, "its node was shut down"),
    "node-deleted": (Loss.NODE_LOST, "its node is gone: PodGC: node no longer exists"),
    "node-silent": (Loss.NODE_LOST, "compute-1 does not answer: Kubelet stopped posting node status."),
    "node-not-in-the-cluster": (Loss.NODE_LOST, "its node is gone"),
    "tainted-away": (Loss.NODE_LOST, "had to leave its node"),
    "deleted": (Loss.PREEMPTED, "was deleted by somebody"),
    "walltime": (Loss.WALLTIME, "reached its walltime"),
    "not-taken-by-the-node": (Loss.PREEMPTED, "was not taken by its node (OutOfcpu)"),
    "no-python-in-the-image": (Loss.CANNOT_START, 'exec: "python3": executable file not found in $PATH'),
    "no-scalable-in-the-image": (Loss.CANNOT_START, "No module named 'scalable'"),
    "cannot-start": (Loss.CANNOT_START, "this worker differs from the driver: dask 2025.1 here, 2025.2 there"),
    "cannot-connect": (Loss.WORKER_LOST, "cannot reach the scheduler at tls://10.1.2.3:8786: connection refused"),
    "killed": (Loss.WORKER_LOST, "was killed (SIGKILL)"),
    "crashed": (Loss.WORKER_LOST, "ended with status 139"),
    "left": (Loss.PREEMPTED, "left after notice"),
    "another-reason": (Loss.WORKER_LOST, "failed: Sabotage: Somebody pulled the plug."),
    "image-not-found": (Loss.CANNOT_START, "its image cannot be pulled (ImagePullBackOff)"),
    "image-not-found-told-by-an-event": (Loss.CANNOT_START, "registry.example.com/ftf:1.4: not found"),
    "image-not-found-in-an-init-container": (Loss.CANNOT_START, "registry.example.com/ftf:1.4: not found"),
    "image-name-unreadable": (Loss.CANNOT_START, "the name of its image cannot be read"),
    "secret-of-a-variable-missing": (Loss.CANNOT_START, 'secret "store" not found'),
}  # fmt: skip

STILL_THERE = [
    "unschedulable", "unschedulable-node-coming", "unschedulable-no-node-will-come", "not-looked-at", "pulling", "registry-busy",
    "secret-of-a-volume-missing", "running", "preempted-and-still-handing-over", "node-well", "another-wait",
]  # fmt: skip

REFUSALS = {
    "quota-used-up": (403, False, "the quota compute is used up: it asks for limits.memory 8Gi with 8Gi of 12Gi used, requests.cpu 3900m with 3900m of 4 used"),
    "quota-too-small": (403, True, "the quota compute is smaller than one worker: limits.memory 8Gi with 0 of 4Gi used; raise it, or use a smaller profile"),
    "no-right": (403, True, "system:serviceaccount:ftf:driver may not create pods in the namespace ftf; have a Role with the verb create for pods bound to it"),
    "pod-security": (403, True, 'violates PodSecurity "restricted:latest"'),
    "limit-range": (403, True, "maximum memory usage per Container is 4Gi, but limit is 8Gi"),
    "no-service-account": (403, True, "the service account worker does not exist; create it, or name another: worker_service_account"),
    "no-namespace": (404, True, "the namespace ftf does not exist; kubectl create namespace ftf"),
    "invalid": (422, True, "spec.containers[0].resources.requests: Invalid value: \"5\": must be less than or equal to cpu limit of 4"),
    "not-logged-in": (401, True, "the cluster does not accept the credentials; log in again"),
    "already-there": (409, False, "there is one already (409)"),
    "too-many-requests": (429, False, "the cluster's API is busy or fails (429): Too many requests"),
    "server-fails": (500, False, "failed calling webhook"),
    "webhook-denies": (400, True, "images must come from the internal registry"),
}  # fmt: skip


@pytest.mark.parametrize("name", WAITS)
def test_a_pod_that_waits_says_why(name: str) -> None:
    assert [words for words in WAITS[name] if words not in waits_of(name)] == []


@pytest.mark.parametrize("name", ["running", "left", "out-of-memory"])
def test_a_pod_that_runs_or_has_ended_waits_for_nothing(name: str) -> None:
    assert waits_of(name) == ""


@pytest.mark.parametrize("name", FATES)
def test_the_end_of_a_pod_has_a_cause_and_words(name: str) -> None:
    found = fate_of(name)

    assert found is not None
    assert (found.cause, FATES[name][1] in found.detail) == (FATES[name][0], True), found


@pytest.mark.parametrize("name", STILL_THERE)
def test_a_pod_that_may_still_work_has_no_fate(name: str) -> None:
    assert fate_of(name) is None


@pytest.mark.parametrize(
    ("message", "hopeless"),
    [
        ("couldn't find key token in Secret ftf/store", True),
        ("container has runAsNonRoot and image will run as root", True),
        ("failed to sync secret cache: timed out waiting for the condition", False),
        ("context deadline exceeded", False),
    ],
)
def test_a_container_that_could_not_be_made_is_waited_for_if_that_may_pass(message: str, hopeless: bool) -> None:
    waiting = {"reason": "CreateContainerConfigError", "message": message}
    status = {"phase": "Pending", "containerStatuses": [{"name": "worker", "state": {"waiting": waiting}}]}
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": status}
    found = fate(pod)
    assert (found is not None and found.cause is Loss.CANNOT_START) is hopeless
    assert message in waits(pod)


def test_a_pod_that_vanished_while_it_handed_over_ended_for_the_reason_it_was_told_to() -> None:
    found = fate_of("preempted-and-still-handing-over", gone=True)

    assert found is not None and found.cause is Loss.PREEMPTED
    assert "gave way to a pod of higher priority" in found.detail


def test_a_pod_that_had_notice_before_its_node_went_was_preempted() -> None:
    case = recorded("preempted-and-still-handing-over")
    found = fate(case["pod"], case["events"], NO_NODE)
    assert found is not None
    assert found.cause is Loss.PREEMPTED


def test_a_pod_that_vanished_while_it_ran_was_deleted() -> None:
    assert fate_of("running", gone=True) == WorkerFate(
        Loss.PREEMPTED, "pod scalable-r1-standard-0 on compute-1 was deleted by somebody"
    )


def test_what_a_scheduler_says_of_preemption_is_left_out() -> None:
    said = [waits_of(name) for name in ("unschedulable", "unschedulable-for-its-spread", "unschedulable-node-coming")]

    assert not any("reemption" in one or "claims" in one for one in said), said


def test_memory_that_killed_a_worker_is_told() -> None:
    killed, evicted = fate_of("out-of-memory"), fate_of("evicted-for-its-memory")

    assert killed is not None and killed.peak == Memory.parse("8GiB")
    assert evicted is not None and evicted.peak == Memory.parse("7GiB")


def test_events_of_another_pod_are_not_believed() -> None:
    case = recorded("unschedulable-node-coming")
    for event in case["events"]:
        event["involvedObject"].update(name="scalable-r1-standard-1", uid="another")

    assert "autoscaler" not in waits(case["pod"], case["events"])


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_says_what_to_do_and_whether_asking_again_helps(name: str) -> None:
    status, definite, words = REFUSALS[name]
    found = refusal(status, recorded(f"refusals/{name}"))

    assert (found.definite, words in str(found)) == (definite, True), str(found)


@pytest.mark.parametrize("body", [None, "", "upstream connect error", [], {"message": 5}])
def test_a_refusal_without_a_status_object_is_still_one(body: object) -> None:
    assert str(refusal(503, body)).startswith("the cluster's API is busy or fails (503)")
    assert refusal(400, body).definite


def test_a_recorded_answer_is_in_a_table() -> None:
    pods = {file.stem for file in RECORDED.glob("*.json")}
    refused = {file.stem for file in (RECORDED / "refusals").glob("*.json")}

    assert pods - {*WAITS, *FATES, *STILL_THERE} == set()
    assert refused == set(REFUSALS)


WORDS = st.sampled_from(
    [
        "Pending",
        "Failed",
        "Succeeded",
        "Running",
        "Unknown",
        "Evicted",
        "OOMKilled",
        "True",
        "False",
        "Ready",
        "PodScheduled",
        "DisruptionTarget",
        "ImagePullBackOff",
        "Error",
        "worker",
        "TriggeredScaleUp",
        "Preempted",
        "8Gi",
    ]
) | st.text(max_size=8)
KEYS = st.sampled_from(
    [
        "status",
        "spec",
        "metadata",
        "phase",
        "conditions",
        "containerStatuses",
        "initContainerStatuses",
        "state",
        "waiting",
        "terminated",
        "reason",
        "message",
        "exitCode",
        "type",
        "name",
        "nodeName",
        "containers",
        "resources",
        "limits",
        "memory",
        "involvedObject",
        "regarding",
        "series",
        "lastTimestamp",
        "note",
        "taints",
        "key",
        "details",
        "causes",
        "field",
    ]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | WORDS, inner, max_size=4),
    max_leaves=12,
)
STATES = st.fixed_dictionaries({"state": st.fixed_dictionaries({"terminated": ANYTHING}) | ANYTHING, "name": ANYTHING})
PODS = st.dictionaries(KEYS | WORDS, ANYTHING, max_size=4) | st.fixed_dictionaries(
    {
        "metadata": ANYTHING,
        "spec": ANYTHING,
        "status": st.fixed_dictionaries(
            {
                "phase": WORDS,
                "reason": ANYTHING,
                "conditions": ANYTHING,
                "containerStatuses": st.lists(STATES | ANYTHING),
            }
        ),
    }
)
NODES = st.none() | st.dictionaries(KEYS | WORDS, ANYTHING, max_size=3)


@settings(max_examples=60)
@given(pod=PODS, events=st.lists(PODS, max_size=3), node=NODES, gone=st.booleans())
def test_no_answer_is_too_strange_to_be_read(pod: Any, events: list[Any], node: Any, gone: bool) -> None:
    found = fate(pod, events, node, gone=gone)

    assert found is None or len(found.detail) <= 2 * LONGEST
    assert "\n" not in waits(pod, events)
    assert found is not None or not gone


@given(status=st.integers(min_value=400, max_value=599), body=ANYTHING)
def test_no_refusal_is_too_strange_to_be_told(status: int, body: Any) -> None:
    assert str(refusal(status, body))


@given(st.text() | st.integers() | st.none() | st.floats())
def test_amounts_are_read_or_are_none(written: object) -> None:
    read(written)


def test_amounts_are_compared_whatever_their_units() -> None:
    assert more("1Gi", "1G") and more("1", "999m") and more("2k", "1e3") and more("1100m", 1)
    assert not more("1Gi", "1024Mi") and not more("500m", "0.5") and not more("many", "1")


@pytest.mark.parametrize(("ready", "cause"), [("False", Loss.NODE_LOST), ("True", None)])
def test_a_pod_that_must_leave_is_lost_if_its_node_is_silent_and_hands_over_if_it_is_not(
    ready: str, cause: Loss | None
) -> None:
    conditions = [
        {"type": "Ready", "status": ready},
        {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "deleting"},
    ]
    states = [{"name": "worker", "ready": True, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]
    pod = {
        "metadata": {"name": "p"},
        "status": {"phase": "Running", "conditions": conditions, "containerStatuses": states},
    }
    found = fate(pod)
    assert (found and found.cause) == cause
