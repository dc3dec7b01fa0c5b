"""A live session on this machine for measurements, and runs handed to its engine from the caller's thread."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.peers import TAG, WORKERS

if TYPE_CHECKING:
    from scalable.engine.events import JobState
    from scalable.session.session import ScalableSession

Ends = dict[str, "Future[tuple[JobState, Any]]"]


@contextmanager
def opened(workers: int = WORKERS, **sections: Any) -> Iterator[ScalableSession]:
    """In a folder of its own, which is the current one meanwhile; ``target`` adds to the local target."""
    import yaml

    from scalable.session.session import ScalableSession

    target = {"provider": "local", "max_workers": workers, "processes": True, **sections.pop("target", {})}
    manifest = {"version": 1, "project": {"name": "bench"}, "targets": {"local": target}, "components": {TAG: {}}}
    before = Path.cwd()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "scalable.yaml"
        path.write_text(yaml.safe_dump({**manifest, **sections}), encoding="utf-8")
        os.chdir(folder)
        try:
            session = ScalableSession.from_yaml(path)
            with session:
                yield session
        finally:
            os.chdir(before)


def submit(session: ScalableSession, function: Callable[..., Any], arguments: Sequence[Mapping[str, Any]]) -> Ends:
    """One run for each of the arguments, all of them one sweep; how each ends comes with its future."""
    from scalable.engine.events import Job, SubmittedSweep, SweepKind
    from scalable.session.driver.execution import JobCall

    driver = session.live()
    name = f"sweep-{time.monotonic_ns()}"
    works = {f"{name}-{at}": JobCall(function, dict(one)) for at, one in enumerate(arguments)}
    ends: Ends = {job: Future() for job in works}

    async def give() -> None:
        jobs = tuple(Job(job, name, TAG) for job in works)
        futures = await driver.submit(SubmittedSweep(name, SweepKind.FREE, jobs, workers=WORKERS), works)
        for job, future in futures.items():
            future.add_done_callback(partial(pass_on, ends[job]))

    driver.cluster.sync(give)
    return ends


def pass_on(to: Future[Any], ended: Any) -> None:
    to.set_result(ended.result())
