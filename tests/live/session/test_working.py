"""What work in a session can rely on: as many at once as there are workers, on the right ones, with the right size."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from scalable import ScalableClient
from scalable.cluster.base import LaunchRefused
from scalable.cluster.client import WorkerKilledError
from scalable.errors import UnknownTagError, UsageError
from scalable.session.driver.tasks import TaskError
from tests.helpers.session.builders import Project, here, meet
from tests.helpers.waiting import LONG_S, until


def span(seconds: float, *anything: object) -> tuple[float, float]:
    """When it began and ended; the clock is the same for all processes of a machine."""
    began = time.monotonic()
    time.sleep(seconds)
    return began, time.monotonic()


def overlap(spans: list[tuple[float, float]]) -> bool:
    (_, first_end), (second_begin, _) = sorted(spans)
    return second_begin < first_end


@pytest.mark.parametrize("processes", [False, True])
def test_four_workers_have_four_tasks_at_once_and_each_of_them_one(project: Project, processes: bool) -> None:
    def both(number: int) -> tuple[str, tuple[float, float]]:
        return meet(folder, 4), span(0.1, number)

    folder = project.folder / "met"
    with project.session(target={"max_workers": 4, "processes": processes}) as client:
        done = client.gather(client.map(both, range(8), tag="demeter"))
    spans: dict[str, list[tuple[float, float]]] = {}
    for worker, one in done:
        spans.setdefault(worker, []).append(one)
    assert len(spans) == 4
    assert not any(overlap([one, next_]) for of in map(sorted, spans.values()) for one, next_ in pairwise(of))


class TestTwoComponents:
    """One session with processes for all of these; none of them changes it."""

    @pytest.fixture(scope="class")
    @classmethod
    def client(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScalableClient]:
        folder = tmp_path_factory.mktemp("two components")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            (folder / "ready.py").write_text("import os\nos.environ['PRELOADED'] = 'yes'\n")
            components = {
                "gcam": {"cpus": 2, "env": {"MODEL": "gcam", "YEARS": 3}, "tags": ["climate", "economy"]},
                "demeter": {"env": {"MODEL": "demeter"}, "preload_script": str(folder / "ready.py")},
            }
            target = {"max_workers": 3, "threads_per_worker": 2, "processes": True}
            session = Project(folder).session(target=target, components=components)
            try:
                yield session.start()
            finally:
                session.close()

    def test_max_workers_is_the_number_of_workers_in_all(self, client: ScalableClient) -> None:
        assert (client.worker_count(), client.worker_count("gcam"), client.worker_count("demeter")) == (3, 2, 1)

    def test_a_task_never_runs_on_the_workers_of_another_component(self, client: ScalableClient) -> None:
        futures = {tag: client.map(here, range(40), tag=tag) for tag in ("gcam", "demeter")}
        for tag, some in futures.items():
            assert {name.rpartition("-")[0] for name in client.gather(some)} == {tag}

    def test_the_environment_is_that_of_the_component(self, client: ScalableClient) -> None:
        def variables() -> list[str | None]:
            return [os.environ.get(name) for name in ("MODEL", "YEARS", "OMP_NUM_THREADS", "PRELOADED")]

        assert client.submit(variables, tag="gcam").result() == ["gcam", "3", "1", None]
        assert client.submit(variables, tag="demeter").result() == ["demeter", None, "1", "yes"]

    def test_other_tags_of_a_component_lead_to_it_too(self, client: ScalableClient) -> None:
        for tag in ("climate", "economy"):
            assert client.submit(here, tag=tag).result().startswith("gcam-")
            assert client.worker_count(tag) == 2

    def test_a_worker_takes_as_many_tasks_at_once_as_it_has_slots(self, client: ScalableClient) -> None:
        client.submit(here, "warm", tag="demeter").result()
        spans = client.gather([client.submit(span, 0.5, number, tag="demeter") for number in range(2)])
        assert overlap(spans), "one was done after the other"

    def test_a_task_that_takes_all_slots_is_alone_on_its_worker(self, client: ScalableClient) -> None:
        spans = client.gather([client.submit(span, 0.3, number, "alone", tag="demeter", n=2) for number in range(2)])
        assert not overlap(spans)

    def test_the_same_call_with_another_tag_is_another_task(self, client: ScalableClient) -> None:
        one, other = client.submit(here, 7, tag="gcam"), client.submit(here, 7, tag="demeter")
        assert (one.result()[:4], other.result()[:7]) == ("gcam", "demeter")
        assert client.submit(here, 7, tag="gcam").key == one.key
        [mapped] = client.map(here, [7], tag="demeter")
        assert mapped.key == other.key

    def test_functions_of_any_kind_can_be_sent(self, client: ScalableClient) -> None:
        factor = 3
        assert client.submit(lambda number: number * factor, 14, tag="gcam").result() == 42
        assert client.gather(client.map(lambda a, b: a + b, [1, 2], [10, 20], tag="demeter")) == [11, 22]
        assert client.gather(client.map(max, [1, 5], [4, 2], tag="gcam")) == [4, 5]
        assert client.submit(str.upper, "gcam", tag="gcam").result() == "GCAM"

    def test_results_of_one_component_can_be_arguments_for_another(self, client: ScalableClient) -> None:
        first = client.submit(lambda: list(range(5)), tag="gcam")
        second = client.submit(sum, first, tag="demeter")
        assert client.gather({"a": first, "b": [second]}) == {"a": [0, 1, 2, 3, 4], "b": [10]}

    def test_plain_tasks_run_anywhere(self, client: ScalableClient) -> None:
        assert sum(client.gather(client.map(lambda number: number, range(10)))) == 45

    def test_the_options_of_dask_work_with_a_tag(self, client: ScalableClient) -> None:
        assert client.map(here, [], tag="gcam") == []
        assert client.gather(client.map(here, range(2), tag="demeter", n=2, batch_size=1))
        named = client.submit(here, tag="gcam", key="a name of my own", priority=5, retries=2)
        assert (named.key, named.result()[:4]) == ("a name of my own", "gcam")
        one, other = (client.submit(here, tag="gcam", pure=False) for _ in range(2))
        assert one.key != other.key
        counter = client.submit(Counter, tag="gcam", actor=True).result()
        assert counter.update("ab").result() is None
        assert counter.total().result() == 2

    def test_a_client_made_from_the_address_alone_knows_the_tags_too(self, client: ScalableClient) -> None:
        with ScalableClient(client.scheduler_info()["address"], set_as_default=False) as other:
            assert other.submit(here, "from afar", tag="climate").result().startswith("gcam-")
            assert (other.worker_count(), other.worker_count("gcam")) == (3, 2)
            with pytest.raises(UnknownTagError, match="climate, demeter, economy, gcam"):
                other.submit(here, tag="gcan")

    def test_an_error_of_a_task_is_the_callers_to_see(self, client: ScalableClient) -> None:
        def wrong() -> None:
            raise KeyError("no such year")

        with pytest.raises(KeyError, match="no such year"):
            client.submit(wrong, tag="gcam").result()
        assert client.submit(here, "after the error", tag="gcam").result()

    def test_an_unknown_tag_fails_at_once_with_the_known_ones(self, client: ScalableClient) -> None:
        for use in (client.submit, lambda *a, **k: client.map(*a, [1], **k)):
            began = time.monotonic()
            with pytest.raises(UnknownTagError, match=r"climate, demeter, economy, gcam.*write gcam"):
                use(here, tag="gcan")
            assert time.monotonic() - began < LONG_S / 2, "it waited for workers first"

    def test_a_demand_no_worker_can_meet_fails_at_once(self, client: ScalableClient) -> None:
        with pytest.raises(UsageError, match="2 slots"):
            client.submit(here, tag="gcam", n=3)
        with pytest.raises(UsageError, match="climate, demeter, economy, gcam"):
            client.submit(here, n=2)


def test_memory_over_the_limit_ends_the_task_with_the_figures_and_the_session_goes_on(project: Project) -> None:
    code = project.module(
        """
        def greedy():
            return len(bytearray(b"x") * 600_000_000)
        """
    )
    session = project.session(
        target={"processes": True},
        components={"demeter": {"memory": "300MiB"}},
        policies={"retry": {"times": 0}},
        tasks={"greedy": {"component": "demeter", "run": f"{code}:greedy"}},
    )
    with session as client:
        neighbour = client.submit(here, tag="demeter")
        assert neighbour.result(timeout=LONG_S)
        greedy = client.submit(lambda: len(bytearray(b"x") * 600_000_000), tag="demeter")
        with pytest.raises(WorkerKilledError, match=r"out of memory \(used \d.* of the 300 MiB it may use; killed\)"):
            greedy.result(timeout=LONG_S)
        assert neighbour.result(timeout=LONG_S)
        with pytest.raises(TaskError, match=r"out of memory and no larger profile exists: \d.* MiB on demeter"):
            session.run_tasks()
        assert client.submit(here, "still working", tag="demeter").result(timeout=LONG_S)
    lost = project.journal("worker-lost")
    assert [record["cause"] for record in lost] == ["out of memory"]  # of the plain task; the run took no worker along
    assert len(project.journal("attempt-started")) == 1, "the same size is not tried again"
    assert project.workers() == []


def test_with_the_policy_all_plain_tasks_run_in_runner_processes(project: Project) -> None:
    def process() -> int:
        return os.getpid()

    with project.session(target={"processes": True}, policies={"guard": "all"}) as client:
        workers = set(client.run(os.getpid).values())
        assert client.submit(process, tag="demeter").result(timeout=LONG_S) not in workers
        assert set(client.gather(client.map(lambda number: os.getpid(), range(2), tag="demeter"))) & workers == set()
        assert client.submit(process, tag="demeter", guarded=False).result(timeout=LONG_S) in workers
        counter = client.submit(Counter, actor=True).result(timeout=LONG_S)
        assert type(counter).__name__ == "Actor"


def test_a_worker_that_is_killed_is_replaced_and_its_task_done_again(project: Project) -> None:
    def first_try_waits(note: Path) -> str:
        again = note.exists()
        note.write_text(str(os.getpid()))
        if not again:
            time.sleep(600)
        return here()

    note = project.folder / "pid"
    with project.session(target={"processes": True}) as client:
        future = client.submit(first_try_waits, note, tag="demeter")
        assert until(lambda: note.exists() and note.read_text())
        os.kill(int(note.read_text()), signal.SIGKILL)
        assert future.result(timeout=LONG_S) == "demeter-1"
        assert client.worker_count() == 1
    [lost] = project.journal("worker-lost")
    assert (lost["worker"], lost["cause"]) == ("demeter-0", "worker lost")
    [retry] = project.journal("retry")
    assert (retry["key"], retry["tag"], retry["cause"]) == (future.key, "demeter", "worker lost")


@pytest.mark.parametrize("processes", [False, True])
def test_a_preload_script_that_fails_is_told_at_once_and_leaves_nothing_behind(
    project: Project, processes: bool
) -> None:
    script = project.folder / "ready.py"
    script.write_text("raise RuntimeError('there is no licence for demeter')")
    session = project.session(
        target={"processes": processes, "max_workers": 2}, components={"demeter": {"preload_script": str(script)}}
    )
    began = time.monotonic()
    with pytest.raises(LaunchRefused, match="there is no licence for demeter"):
        session.start()
    assert time.monotonic() - began < LONG_S / 2
    assert project.ended()[0] == "failed"
    assert "there is no licence for demeter" in project.ended()[1]
    assert project.workers() == []
    with pytest.raises(UsageError, match="not running"):
        session.live()
