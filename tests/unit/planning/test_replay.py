"""Records that are replayed: every kind of fault is decided again as it was, and whatever was changed is found."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from scalable.engine.events import (
    Event,
    Instruction,
    Job,
    OutsideWork,
    Progressed,
    SpendChanged,
    SubmittedSweep,
    SweepKind,
    SweepSubmitted,
)
from scalable.observe.journal import line_of
from scalable.planning.codec import NAMES
from scalable.planning.replay import (
    Recording,
    Replay,
    ReplayError,
    decode_event,
    decode_rules,
    encode_event,
    encode_rules,
    event_record,
    replay,
    rules_record,
)
from scalable.planning.simulation.faults import FaultKind
from scalable.quantities import Money
from tests.helpers.simulation.builders import Cluster, a_cluster

EURO = Money.parse("1.10 EUR")
Record = dict[str, Any]


def recorded(cluster: Cluster) -> list[Record]:
    """What a driver writes of a world, as it is read back."""
    cluster.run()
    records = [rules_record(cluster.rules()), *(event_record(*seen) for seen in cluster.seen)]
    return [json.loads(line_of({"kind": kind, **facts})) for kind, facts in records]


def replayed(records: list[Record]) -> Replay:
    return replay(Recording.of(records))


def a_retry() -> list[Record]:
    return recorded(a_cluster().with_sweep("fits", 10, 2).with_fault("fits/3", FaultKind.TRANSIENT))


def event(records: list[Record], kind: str) -> tuple[int, Record]:
    """The first event of a kind, and its number."""
    return next((number, one) for number, one in enumerate(records) if one["kind"] == kind)


@pytest.mark.parametrize("kind", FaultKind)
def test_every_fault_is_decided_again_as_it_was_and_ends_when_it_did(kind: FaultKind) -> None:
    found = replayed(recorded(a_cluster().with_sweep("fits", 20, 3).with_fault("fits/3", kind)))
    assert found.difference is None
    assert found.simulated is not None
    assert found.simulated.off == pytest.approx(0, abs=0.05)


def test_a_lost_node_and_refused_workers_are_decided_again_as_they_were() -> None:
    found = replayed(recorded(a_cluster().with_sweep("fits", 40, 5).with_node_lost(600.0).with_refusals(1)))
    assert found.difference is None
    assert found.simulated is not None
    assert found.simulated.off == pytest.approx(0, abs=0.05)


def test_a_decision_that_was_changed_in_the_record_is_found() -> None:
    records = a_retry()
    number, lost = event(records, "job-lost")
    lost["out"] = [{"job-ended": {"job": "fits/3", "state": "failed"}}]
    found = replayed(records).difference
    assert found is not None
    assert (found.number, found.at_s, found.event) == (number, lost["t"], {"job-lost": facts(lost)})
    assert found.then == lost["out"]
    assert [kind for one in found.now for kind in one] == ["finding", "start-job"]


def facts(record: Record) -> Record:
    return {name: value for name, value in record.items() if name not in ("t", "kind", "out")}


def test_other_rules_give_other_decisions() -> None:
    records = a_retry()
    records[0]["rules"]["policies"]["retry"]["times"] = 0
    found = replayed(records)
    assert not found.same
    assert found.difference is not None
    assert found.difference.number == event(records, "job-lost")[0]


def test_the_simulation_follows_the_rules_and_not_the_record() -> None:
    records = recorded(a_cluster().with_sweep("fits", 2, 2).with_fault("fits/1", FaultKind.TRANSIENT))
    before = replayed(records).simulated
    records[0]["rules"]["policies"]["retry"]["delay"] = 260
    after = replayed(records).simulated
    assert before is not None
    assert after is not None
    assert after.actual_s == before.actual_s
    assert after.simulated_s == pytest.approx(before.simulated_s + 200)
    assert after.off > 0.05


def test_a_text_that_was_recorded_without_its_secret_is_no_other_decision() -> None:
    cluster = a_cluster().with_fault("password", FaultKind.TRANSIENT)
    job = Job("password", "odd names", "standard")
    cluster.script.append((0.0, SweepSubmitted(SubmittedSweep("odd names", SweepKind.NORMAL, (job,), 1))))
    records = recorded(cluster)
    [alert, *_] = event(records, "job-lost")[1]["out"]
    assert alert["finding"]["message"].startswith("password: ***")
    assert replayed(records).same


@pytest.mark.parametrize("cut", [0, 1], ids=["nothing", "no rules"])
def test_what_has_no_rules_cannot_be_replayed(cut: int) -> None:
    with pytest.raises(ReplayError):
        Recording.of(a_retry()[1:] if cut else [])


@pytest.mark.parametrize(
    "broken",
    [
        {"kind": "job-exploded", "t": 5.0, "out": []},
        {"kind": "job-finished", "t": 5.0, "out": []},
        {"kind": "worker-lost", "t": 5.0, "worker": "w", "cause": "boredom", "out": []},
        {"kind": "alert", "t": 5.0, "alert": "journal-gap", "text": "3 records could not be written"},
    ],
    ids=["an unknown event", "a missing field", "an unknown word", "a gap"],
)
def test_a_record_that_cannot_be_read_names_the_event(broken: Record) -> None:
    records = a_retry()
    with pytest.raises(ReplayError, match=r"event [12]\b"):
        Recording.of([*records[:2], broken, *records[2:]])


def test_a_record_of_a_later_version_is_refused() -> None:
    records = a_retry()
    records[0]["form"] = 2
    with pytest.raises(ReplayError, match="form 2"):
        Recording.of(records)


def test_a_record_that_stops_in_the_middle_is_compared_and_not_simulated() -> None:
    records = a_retry()
    found = replayed(records[: event(records, "job-lost")[0]])
    assert (found.same, found.simulated) == (True, None)
    assert found.why_not == "6 of 10 jobs had not ended when the record ends"
    assert replayed(records[:1]).why_not == "no job was submitted"


class TestTheForm:
    def test_everything_that_passes_the_engines_door_has_a_name(self) -> None:
        for union in (Event, Instruction):
            assert set(NAMES[union].values()) == set(get_args(union))

    def test_rules_come_back_as_they_were(self) -> None:
        rules = a_cluster().with_policy("stuck", after="0.25s", walltime="90s").rules()
        assert decode_rules(json.loads(json.dumps(encode_rules(rules)))) == rules

    @pytest.mark.parametrize(
        "told",
        [
            Progressed("a", 1, float("inf"), reported=False),
            OutsideWork("a", 2, frozenset({"x", "y"}), frozenset()),
            SpendChanged(EURO, EURO, EURO, elsewhere=Money.zero("EUR") - EURO),
        ],
        ids=lambda told: type(told).__name__,
    )
    def test_events_come_back_as_they_were(self, told: Event) -> None:
        assert decode_event(json.loads(json.dumps(encode_event(told), allow_nan=False))) == told
