"""Other systems that run functions on two worker processes, each opened the way its documentation shows.

Each is a context manager that gives a function: it takes a function and its arguments, one per task, and yields
results as they come. Ray and Parsl are optional (``pip install -e '.[bench]'``); nothing heavy is imported at the
top, because worker processes import this file again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from tempfile import TemporaryDirectory
from typing import Any

WORKERS = 2
RAY_AT_ONCE = 64  # results asked for in one ray.wait; asking for one at a time costs a look at all that are left
TAG = "model"

Start = Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]


@contextmanager
def dask(tagged: bool = False) -> Iterator[Start]:
    from distributed import Client, LocalCluster, as_completed

    how: dict[str, Any] = {"resources": {TAG: 1}} if tagged else {}
    settings: dict[str, Any] = {"n_workers": WORKERS, "threads_per_worker": 1, "processes": True, **how}
    with LocalCluster(**settings, dashboard_address=None) as cluster, Client(cluster) as client:

        def start(function: Callable[[Any], Any], arguments: Sequence[Any]) -> Iterator[Any]:
            futures = [client.submit(function, argument, pure=False, **how) for argument in arguments]
            for _, result in as_completed(futures, with_results=True):
                yield result

        yield start


@contextmanager
def tagged_dask() -> Iterator[Start]:
    with dask(tagged=True) as start:
        yield start


@contextmanager
def ray() -> Iterator[Start]:
    import ray as system  # type: ignore[import-not-found,unused-ignore]

    system.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)

    def start(function: Callable[[Any], Any], arguments: Sequence[Any]) -> Iterator[Any]:
        remote = system.remote(function)
        left = [remote.remote(argument) for argument in arguments]
        while left:
            done, left = system.wait(left, num_returns=min(RAY_AT_ONCE, len(left)))
            yield from system.get(done)

    try:
        yield start
    finally:
        system.shutdown()


@contextmanager
def parsl() -> Iterator[Start]:
    from concurrent.futures import as_completed

    import parsl as system  # type: ignore[import-not-found,unused-ignore]
    from parsl.config import Config  # type: ignore[import-not-found,unused-ignore]
    from parsl.executors import HighThroughputExecutor  # type: ignore[import-not-found,unused-ignore]
    from parsl.providers import LocalProvider  # type: ignore[import-not-found,unused-ignore]

    with TemporaryDirectory() as folder:
        provider = LocalProvider(init_blocks=1, min_blocks=1, max_blocks=1)
        executor = HighThroughputExecutor(
            label="processes", address="127.0.0.1", max_workers_per_node=WORKERS, cores_per_worker=1, provider=provider
        )
        settings = Config(executors=[executor], run_dir=folder, strategy="none", usage_tracking=0)
        with system.load(settings):

            def start(function: Callable[[Any], Any], arguments: Sequence[Any]) -> Iterator[Any]:
                app = system.python_app(function)
                for future in as_completed([app(argument) for argument in arguments]):
                    yield future.result()

            yield start


PEERS: dict[str, Callable[[], AbstractContextManager[Start]]] = {
    "Ray": ray,
    "Parsl HTEX": parsl,
    "Dask": dask,
    "Dask, tagged": tagged_dask,
}


def nothing(number: int) -> int:
    """A run. It stands in a module that is imported, so that it travels by its name."""
    return number


def nothings(numbers: list[int]) -> list[int]:
    return [nothing(number) for number in numbers]
