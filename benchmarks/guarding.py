"""What being guarded costs: a run's added latency, a progress stamp, a search; and how soon a stuck run is dealt with.

Imports nothing heavy at the top: worker processes import this file again.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.execution import raw_client
from benchmarks.peers import TAG, nothing
from benchmarks.sessions import opened, submit

if TYPE_CHECKING:
    from scalable.session.session import ScalableSession

SINGLE_RUNS = 300
WARM_UP = 20
STAMPS = 200_000
TRIALS, TREES, EVENTS, FEATURES = 6, 60, 1500, 80  # of one search; some seconds
SEARCHES = 9  # of each way, by turns
STUCK_AFTER_S = 2.0  # the shortest in use would be minutes; what follows takes the same time
HANGS = ("hang_in_lock", "hang_in_c", "hang_on_child", "stop_itself")
ENOUGH_S = 120.0


def measure() -> dict[str, Any]:
    found: dict[str, Any] = {"stamp": stamp()}
    with opened(workers=1) as session:
        found["one run at a time"] = latency(session)
        found["a search"] = search_share(session)
    found["stuck runs, seconds after the threshold"] = {name: stuck(name) for name in HANGS}
    return found


def stamp() -> dict[str, float]:
    from scalable.worker.runner.stamp import Stamp, progress, use

    use(Stamp.create())
    began = time.process_time()
    for step in range(STAMPS):
        progress(step, STAMPS)
    took = time.process_time() - began
    use(None)
    return {"microseconds": took / STAMPS * 1e6}


def latency(session: ScalableSession) -> dict[str, float]:
    """Asked for and waited for one by one, by turns: tasks of plain Dask, guarded tasks, runs of the engine."""
    client = session.client
    assert client is not None
    with raw_client(1) as raw:
        ways: dict[str, Callable[[int], Any]] = {
            "dask": lambda number: raw.submit(nothing, number, pure=False).result(),
            "guarded": lambda number: client.submit(nothing, number, pure=False, tag=TAG, guarded=True).result(),
            "run": lambda number: next(iter(submit(session, nothing, [{"number": number}]).values())).result(ENOUGH_S),
        }
        seen: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(-WARM_UP, SINGLE_RUNS):
            for name, way in ways.items():
                began = time.perf_counter()
                way(number)
                if number >= 0:
                    seen[name].append((time.perf_counter() - began) * 1000)
    middle = {name: statistics.median(times) for name, times in seen.items()}
    return {
        **{f"{name}_ms": value for name, value in middle.items()},
        "guarded_adds_ms": middle["guarded"] - middle["dask"],
        "run_adds_ms": middle["run"] - middle["dask"],
    }


def search_share(guarded: ScalableSession) -> dict[str, Any]:
    """CPU seconds of the same search, with a stamp for every tree: in a plain process, and in runners with and without
    the fork guard, by turns."""
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        opened(workers=1, policies={"fork": "allow"}) as bare,
    ):
        ways: dict[str, Callable[[int], float]] = {
            "plain": lambda number: pool.submit(search, number).result(ENOUGH_S),
            "unguarded": lambda number: in_runner(bare, number),
            "guarded": lambda number: in_runner(guarded, number),
        }
        seen: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(-1, SEARCHES):
            for name, way in ways.items():
                took = way(number)
                if number >= 0:
                    seen[name].append(took)
    middle = {name: statistics.median(times) for name, times in seen.items()}
    return {
        **{f"{name}_cpu_s": value for name, value in middle.items()},
        "guard_percent": (middle["guarded"] / middle["unguarded"] - 1) * 100,
        "runner_percent": (middle["guarded"] / middle["plain"] - 1) * 100,
    }


def in_runner(session: ScalableSession, number: int) -> float:
    client = session.client
    assert client is not None
    took: float = client.submit(search, number, pure=False, tag=TAG, guarded=True).result(ENOUGH_S)
    return took


def search(seed: int) -> float:
    """Some trials of boosted trees on one thread, each tree a step; the CPU seconds they took."""
    import numpy
    import xgboost

    from scalable.worker.runner.stamp import progress

    class Told(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            progress(epoch, TREES)
            return False

    chance = numpy.random.default_rng(0)
    features = chance.normal(size=(EVENTS, FEATURES)).astype("float32")
    labels = (features[:, 0] + chance.normal(size=EVENTS) > 0).astype(int)
    data = xgboost.DMatrix(features, labels, nthread=1)
    began = time.process_time()
    for trial in range(TRIALS):
        settings = {"objective": "binary:logistic", "max_depth": 3 + trial % 4, "nthread": 1, "seed": trial}
        scores: dict[str, Any] = {}
        xgboost.train(
            settings, data, TREES, evals=[(data, "train")], evals_result=scores, verbose_eval=False, callbacks=[Told()]
        )
        assert scores["train"]["logloss"][-1] < 1
    return time.process_time() - began


def stuck(how: str) -> float:
    """Until a run that hangs was found, looked into, killed and begun again, counted from the threshold."""
    from scalable.observe import read

    policies = {"stuck": {"after": f"{STUCK_AFTER_S:g}s"}, "retry": {"times": 1, "delay": "0s"}}
    with tempfile.TemporaryDirectory() as folder, opened(workers=1, policies=policies) as session:
        note = str(Path(folder) / "begun")
        (end,) = submit(session, hang_once, [{"how": how, "note": note}]).values()
        state, value = end.result(ENOUGH_S)
        assert (state.value, value) == ("finished", how), value
        session.live().journal.flush()
        ended = [one for one in read(session.folder.journal) if one["kind"] == "attempt-ended"]
        assert [one["outcome"] for one in ended] == ["stuck", "finished"], ended
        begun = [float(line) for line in Path(note).read_text(encoding="ascii").split()]
    return begun[1] - begun[0] - STUCK_AFTER_S


def hang_once(how: str, note: str) -> str:
    from scalable.chaos import workloads

    again = Path(note).exists()
    with Path(note).open("a", encoding="ascii") as file:
        file.write(f"{time.time()}\n")
    if not again:
        getattr(workloads, how)()
    return how
