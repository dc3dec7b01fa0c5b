"""How a run that the engine starts is carried out on a worker, and what its end means.

``Execution`` is the seam: today a run is a Dask task pinned to its worker; a supervised process beside the worker can
take its place without the driver noticing.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from distributed import Client, get_worker
from distributed.protocol.pickle import dumps
from distributed.scheduler import KilledWorker

from scalable.engine.events import Loss
from scalable.quantities import Memory
from scalable.worker import meter

LONGEST_MESSAGE = 1000  # characters of an error that are kept
TRANSIENT = (ConnectionError, TimeoutError, InterruptedError, BrokenPipeError)  # E2: errors that may pass


@dataclass(frozen=True, slots=True)
class Work:
    """What a run does."""

    function: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended; ``cause`` is nothing if it finished."""

    value: Any = None
    cause: Loss | None = None
    message: str = ""
    seconds: float = 0.0
    peak: Memory | None = None


class Execution(Protocol):
    async def run(self, key: str, work: Work, address: str) -> Outcome:
        """Carry the work out on the worker at an address. Cancelling this gives the attempt up."""
        ...

    async def close(self) -> None: ...


class PinnedTask:
    """A run as a Dask task that only its worker may execute, so that nobody but the engine decides about retries."""

    def __init__(self, address: str, security: Any) -> None:
        self.address = address
        self.security = security
        self.client: Any = None

    async def run(self, key: str, work: Work, address: str) -> Outcome:
        if self.client is None:  # set before it is awaited: others must not make one of their own meanwhile
            self.client = Client(
                self.address, security=self.security, asynchronous=True, set_as_default=False, name="scalable-driver"
            )
        client = await self.client
        future = client.submit(
            attempt, work.function, dict(work.arguments), key=key, workers=[address], pure=False, retries=0
        )
        try:
            outcome: Outcome = await future
            return outcome
        except KilledWorker:  # the worker is gone, and whoever finds out why gives this attempt up
            await asyncio.Event().wait()
            raise
        except Exception as error:  # noqa: BLE001 - work or a value that cannot be sent may raise anything
            return Outcome(None, cause_of(error), said(error))
        finally:
            future.release()

    async def close(self) -> None:
        if self.client is not None:
            await self.client.close()
            self.client._loop_runner.stop()  # else Dask believes that the loop is still used, and it never ends


def attempt(function: Callable[..., Any], arguments: dict[str, Any]) -> Outcome:
    """On the worker: call, measure, and turn any end into an outcome."""
    began = time.monotonic()
    try:
        value = function(**arguments)
        check_it_can_travel(value)
    except BaseException as error:  # noqa: BLE001 - whatever the user's code raises, sys.exit included, is an outcome
        return Outcome(None, cause_of(error), said(error), time.monotonic() - began, measured())
    return Outcome(value, None, "", time.monotonic() - began, measured())


def check_it_can_travel(value: Any) -> None:
    """Say in a sentence what Dask would say in a page. What is plain, or an array, can; within a process all can."""
    plain = isinstance(value, str | int | float | bool | bytes | None) or hasattr(value, "__array_interface__")
    if plain or get_worker().address.startswith("inproc"):
        return
    try:
        dumps(value)
    except Exception as error:  # noqa: BLE001 - pickling calls the value's own code
        raise TypeError(f"its result, a {type(value).__name__}, cannot be sent back: {error}") from None


def said(error: BaseException) -> str:
    """The error as Python would print it, cut to a length that can be read."""
    text = "".join(traceback.format_exception_only(error)).strip()
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}…"


def measured() -> Memory | None:
    peak = meter.peak()
    return Memory(peak) if peak else None


def cause_of(error: BaseException) -> Loss:
    """Whether an error would come again (E2)."""
    if isinstance(error, MemoryError):
        return Loss.OUT_OF_MEMORY
    if isinstance(error, ImportError):
        return Loss.CANNOT_START
    return Loss.TRANSIENT if isinstance(error, TRANSIENT) else Loss.RAISED
