"""A plain Dask task whose function executes in a runner process beside its worker, with everything that protects runs.

The task itself only waits: the worker, its heartbeat and its neighbours notice nothing of what becomes of the call.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

from dask.utils import funcname
from distributed import Reschedule, get_worker

from scalable.errors import ScalableError, UsageError
from scalable.worker.runner import ends
from scalable.worker.runner.wire import pack
from scalable.worker.runner.work import End
from scalable.worker.runners import NAME


class RunKilledError(ScalableError):
    """A guarded call that did not come to an end by itself: out of memory, stuck, crashed, killed."""

    def __init__(self, name: str, cause: str, message: str) -> None:
        super().__init__(name, cause, message)
        self.name, self.cause, self.message = name, cause, message

    def __str__(self) -> str:
        return f"{self.name}: {self.cause}: {self.message}"


class Guarded:
    """Stands for a function. It travels packed, so that workers need not import what only runners use."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = self.__name__ = funcname(function)  # Dask names tasks by it
        self.content = pack(function)

    def __call__(self, *args: Any, **kw: Any) -> Any:
        worker = get_worker()
        runners: Any = worker.plugins.get(NAME)
        if runners is None:
            raise UsageError("guarded=True needs a worker that this package started; this one has no runner processes")
        content = pack((Packed(self.content), args, kw))
        run = runners.run(worker.get_current_task(), content)
        call = asyncio.run_coroutine_threadsafe(run, worker.loop.asyncio_loop)  # type: ignore[attr-defined]
        try:
            return self.value(call.result())
        except CancelledError:  # its worker closes: Dask runs it on another one, as it does with plain tasks
            raise Reschedule from None

    def value(self, end: End) -> Any:
        if end.cause == ends.FINISHED:
            return pickle.loads(end.value)
        if end.cause == ends.PREEMPTED:
            raise Reschedule
        error, trace = self.error(end)
        if isinstance(error, Exception):  # others, as that of sys.exit, would end the worker
            error.add_note(f"in its runner process:\n{trace}")
            raise error
        raise RunKilledError(self.name, end.cause, end.message)

    def error(self, end: End) -> tuple[Any, str]:
        """Return the error it raised, if it can be rebuilt here: the worker may lack modules that the runner has."""
        try:
            unpickled: tuple[Any, str] = pickle.loads(end.value)
        except Exception:  # noqa: BLE001 - it calls the error's own code
            return None, ""
        return unpickled


class Packed:
    """Becomes what is packed in it where it is read."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return pickle.loads, (self.content,)
