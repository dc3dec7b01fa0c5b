"""More and fewer workers while a session runs: by hand, by need, by a scaler of one's own."""

from __future__ import annotations

import time
from typing import Any

import pytest

from scalable import AdaptiveScaler, ScalableClient, ScaleDecision
from scalable.errors import UnknownTagError, UsageError
from scalable.planning.rules import rules_for
from tests.helpers.session.builders import Project, here, nap
from tests.helpers.session.virtual import World
from tests.helpers.waiting import until

pytestmark = pytest.mark.usefixtures("world")


def come(client: ScalableClient, **counts: int) -> bool:
    return until(lambda: {tag: client.worker_count(tag) for tag in counts} == counts)


AT_ONCE = {"scaling": {"cooldown": "0s", "idle": "0.3s"}}


def test_a_session_runs_by_the_rules_that_its_site_and_plan_give(project: Project) -> None:
    session = project.session(components={"a": {"memory": "1GiB", "larger": "b"}, "b": {"memory": "2GiB"}},
                              target={"max_workers": 2, "processes": True}, policies=AT_ONCE)  # fmt: skip
    plan = session.plan()
    with session:
        assert session.live().engine.view.rules == rules_for(session.site(), plan.scale_plan)


def test_scaling_by_hand_brings_exactly_so_many(project: Project) -> None:
    session = project.session(components={"a": {}, "b": {}}, target={"max_workers": 2})
    with session as client:
        for counts in ({"a": 3}, {"a": 1, "b": 2}, {"a": 0}, {"a": 2, "b": 1}):
            session.scale(counts)
            assert {tag: client.worker_count(tag) for tag in counts} == counts
        time.sleep(1)
        assert (client.worker_count("a"), client.worker_count("b")) == (2, 1), (
            "the engine leaves it as it was asked for"
        )


def test_scaling_down_after_a_long_time_takes_no_more_than_asked_for(project: Project) -> None:
    """The engine gives idle workers back by itself once no cooldown is on; nobody else may then do so too."""
    session = project.session(target={"max_workers": 4}, policies={"scaling": {"cooldown": "0s"}})
    with session as client:
        for count in (3, 1, 4, 2):
            session.scale({"demeter": count})
            assert come(client, demeter=count)
            time.sleep(0.2)
            assert client.worker_count() == count


def test_workers_that_are_withdrawn_while_they_start_can_be_had_again(project: Project) -> None:
    session = project.session()
    with session as client:
        driver = session.live()
        driver.cluster.sync(driver.set_counts, {"demeter": 3}, "asked for")
        assert until(lambda: len(driver.cluster.members) == 3) and client.worker_count() == 1
        session.scale({"demeter": 1})
        assert come(client, demeter=1)
        session.scale({"demeter": 2})
        assert come(client, demeter=2)
    removed = project.journal("worker-removed")
    assert len([record for record in removed if record["reason"] != "session closed"]) == 2


def test_scaling_down_hands_over_the_tasks_of_busy_workers(project: Project) -> None:
    session = project.session(target={"max_workers": 3})
    with session as client:
        futures = [client.submit(nap, 0.1, number, tag="demeter") for number in range(30)]
        session.scale({"demeter": 1})
        assert len(client.gather(futures)) == 30
        assert client.worker_count() == 1


def test_wrong_counts_are_refused_and_nothing_changes(project: Project) -> None:
    session = project.session()
    with session as client:
        for wrong in ({"demeter": -1}, {"demeter": True}, {"demeter": 1.5}, {"demeter": "2"}):
            with pytest.raises(UsageError, match="write a whole number from 0"):
                session.scale(wrong)  # type: ignore[arg-type]
        with pytest.raises(UnknownTagError, match="demeter"):
            session.scale({"gcam": 1})
        assert client.worker_count() == 1
    with pytest.raises(UsageError, match="not running"):
        session.scale({"demeter": 1})


def test_a_decision_can_be_carried_out(project: Project) -> None:
    session = project.session(target={"max_workers": 2})
    with session as client:
        scaler = AdaptiveScaler(max_workers={"demeter": 4})
        session.apply(scaler.evaluate(pending_tasks=[{"tag": "demeter"}] * 9, active_workers={"demeter": 2}))
        assert until(lambda: client.worker_count() == 4)
        session.apply(ScaleDecision(workers_to_remove={"demeter": 3}, reasoning="enough"))
        assert until(lambda: client.worker_count() == 1)
        with pytest.raises(UnknownTagError):
            session.apply(ScaleDecision(workers_to_add={"gcam": 1}))
    down = [record for record in project.journal("scale") if record["direction"] == "down"]
    assert sum(record["count"] for record in down) == 3, down


def an_adaptive_session(project: Project, low: int, high: int, **sections: Any) -> Any:
    target = {"adaptive": {"minimum": low, "maximum": high}, "max_workers": high}
    return project.session(target=target, policies=AT_ONCE, **sections)


def test_an_adaptive_target_follows_the_work_and_keeps_its_bounds(project: Project) -> None:
    with an_adaptive_session(project, 1, 3) as client:
        assert client.worker_count() == 1
        futures = [client.submit(nap, 5, number, tag="demeter") for number in range(20)]
        assert until(lambda: client.worker_count() == 3)
        results = client.gather(futures)
        assert len(set(results)) == 3
        assert until(lambda: client.worker_count() == 1)
        assert client.gather(futures) == results, "finished tasks are not done again"
        del futures
        time.sleep(1.5)
        assert client.worker_count() == 1
    ups = [record for record in project.journal("scale") if record["direction"] == "up"]
    assert sum(record["count"] for record in ups) == 3, "never more than that, and they come and go once"


def test_an_adaptive_target_may_have_no_workers_while_there_is_nothing_to_do(project: Project) -> None:
    with an_adaptive_session(project, 0, 2, components={"a": {}, "b": {}}) as client:
        assert client.worker_count() == 0
        kept = client.submit(here, tag="a")
        assert kept.result().startswith("a-")
        assert client.submit(here, tag="b").result().startswith("b-")
        assert until(lambda: client.worker_count() == 1)
        time.sleep(1)
        assert (client.worker_count("a"), kept.result()[:2]) == (1, "a-"), "the keeper of a result stays"
        del kept
        assert until(lambda: client.worker_count() == 0)
        assert client.submit(here, "again", tag="b").result().startswith("b-")


def test_those_that_were_had_work_though_there_was_no_room_for_all(project: Project, world: World) -> None:
    """A quota for two, and work for four."""
    world.refuse = lambda name: "the quota is used up" if int(name.rpartition("-")[2]) >= 2 else ""
    with an_adaptive_session(project, 0, 4) as client:
        futures = [client.submit(nap, 5, number, tag="demeter") for number in range(8)]
        assert len(set(client.gather(futures))) == 2
    assert [record["count"] for record in project.journal("workers-refused")] == [2]


def test_a_kind_of_worker_that_is_needed_takes_the_place_of_an_idle_one(project: Project) -> None:
    with an_adaptive_session(project, 0, 2, components={"a": {}, "b": {}}, tasks={}) as client:
        assert len(client.gather([client.submit(nap, 0.3, number, tag="a") for number in range(6)])) == 6
        assert client.submit(here, tag="b").result().startswith("b-")


def test_any_target_can_be_made_adaptive_and_an_adaptive_one_fixed(project: Project) -> None:
    session = project.session(target={"max_workers": 2}, policies=AT_ONCE)
    client = session.start(adaptive=True)
    assert client.worker_count() == 0
    assert client.submit(here, tag="demeter").result()
    session.close()
    session = an_adaptive_session(project, 0, 2)
    client = session.start(adaptive=False)
    assert client.worker_count() == 2
    time.sleep(1)
    assert client.worker_count() == 2
    session.close()


def test_a_scaler_of_ones_own_decides(project: Project) -> None:
    scaler = AdaptiveScaler(min_workers={"demeter": 1}, max_workers={"demeter": 3}, cooldown_seconds=0.3)
    session = project.session(target={"max_workers": 3})
    client = session.start(adaptive=scaler)
    assert client.worker_count() == 1
    futures = [client.submit(nap, 5, number, tag="demeter") for number in range(20)]
    assert until(lambda: client.worker_count() == 3)
    results = client.gather(futures)
    assert until(lambda: client.worker_count() == 1)
    assert client.gather(futures) == results
    session.close()
    assert scaler.decision_history
    assert project.journal("scale")[0]["tag"] == "demeter"


def test_a_scaler_of_ones_own_gets_no_more_workers_than_the_target_allows(project: Project) -> None:
    session = an_adaptive_session(project, 0, 2)
    client = session.start(adaptive=AdaptiveScaler(min_workers={"demeter": 0}, cooldown_seconds=0))
    client.gather([client.submit(nap, 5, number, tag="demeter") for number in range(8)])
    session.close()
    assert max(record["count"] for record in project.journal("scale") if record["direction"] == "up") <= 2


def test_a_scaler_of_ones_own_counts_the_manifests_tasks_too(project: Project) -> None:
    code = project.module("import time\ndef task(): time.sleep(1.2); return 1")
    tasks = {name: {"component": "demeter", "run": f"{code}:task"} for name in "abc"}
    scaler = AdaptiveScaler(min_workers={"demeter": 0}, max_workers={"demeter": 3}, cooldown_seconds=0)
    session = project.session(target={"max_workers": 3}, tasks=tasks)
    session.start(adaptive=scaler)
    for _ in range(2):
        assert session.run_tasks() == dict.fromkeys("abc", 1)
        assert until(lambda: session.client is not None and session.client.worker_count() == 0)
    session.close()
    assert len(project.journal("attempt-started")) == 6, "no worker was taken away under a task"


def test_the_manifests_tasks_bring_workers_to_an_adaptive_target(project: Project) -> None:
    code = project.module("import time\ndef task(): time.sleep(0.5); return time.time()")
    tasks = {name: {"component": "demeter", "run": f"{code}:task"} for name in "ab"}
    session = an_adaptive_session(project, 0, 2, tasks=tasks)
    with session as client:
        assert set(session.run_tasks()) == {"a", "b"}
        assert until(lambda: client.worker_count() == 0)
    assert {record["worker"] for record in project.journal("attempt-started")} == {"demeter-0", "demeter-1"}


def test_workers_that_join_later_take_their_part(project: Project) -> None:
    session = project.session(target={"max_workers": 1})
    with session as client:
        futures = [client.submit(nap, 5, number, tag="demeter") for number in range(40)]
        session.scale({"demeter": 4})
        assert len(set(client.gather(futures))) == 4
