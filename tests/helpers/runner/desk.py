"""A desk in front of a supervisor with real runner processes: gives work, and collects what comes back."""

from __future__ import annotations

import asyncio
import functools
import inspect
import pickle
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from scalable import proc
from scalable.worker.runner import ends, supervisor
from scalable.worker.runner.process import Settings
from scalable.worker.runner.supervisor import Supervisor
from scalable.worker.runner.wire import pack
from scalable.worker.runner.work import End, Listener, Sign

LONG_S = 60.0


class Desk:
    """Gives work to a supervisor and collects what comes back."""

    def __init__(self, settings: Settings, slots: int) -> None:
        self.ends: dict[str, End] = {}
        self.order: list[str] = []
        self.signs: list[Sign] = []
        self.forks: list[dict[str, Any]] = []
        told = Listener(self.ended, self.signs.extend, lambda key, facts: self.forks.append(facts))
        self.supervisor = Supervisor(settings, slots, told)

    def ended(self, end: End) -> None:
        assert end.key not in self.ends, f"{end.key} ended twice"
        self.ends[end.key] = end
        self.order.append(end.key)

    def give(self, key: str, function: Callable[..., Any], *args: Any) -> None:
        self.supervisor.give(key, pack((function, args, {})))

    async def end_of(self, key: str) -> End:
        await self.until(lambda: key in self.ends, key)
        return self.ends[key]

    async def run(self, function: Callable[..., Any], *args: Any) -> End:
        key = f"call-{len(self.ends)}"
        self.give(key, function, *args)
        return await self.end_of(key)

    async def value(self, function: Callable[..., Any], *args: Any) -> Any:
        end = await self.run(function, *args)
        assert end.cause == ends.FINISHED, end
        return pickle.loads(end.value)

    async def until(self, condition: Callable[[], object], what: str = "it") -> None:
        deadline = time.monotonic() + LONG_S
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not come in time"
            await asyncio.sleep(0.005)

    async def began(self, key: str) -> int:
        """The process a piece of work runs in."""

        def there() -> bool:
            one = self.supervisor.works.get(key)
            return one is not None and one.runner is not None and one.runs and one.runner.has_begun

        await self.until(there, key)
        pid = self.supervisor.works[key].runner.pid  # type: ignore[union-attr]
        assert pid is not None
        return pid


@asynccontextmanager
async def desk(slots: int = 1, **settings: Any) -> AsyncIterator[Desk]:
    one = Desk(Settings(**settings), slots)
    before = len(list(Path("/proc/self/fd").iterdir()))
    try:
        yield one
    finally:
        marks = [runner.mark for runner in one.supervisor.runners]
        await one.supervisor.close()
        assert not [pid for mark in marks for pid in proc.marked("SCALABLE_RUNNER", mark)]
        await asyncio.sleep(0)
        assert len(list(Path("/proc/self/fd").iterdir())) <= before, "open files are left"


def on_a_desk(**settings: Any) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Run an asynchronous test with a desk as its first argument; its fixtures follow by name."""

    def wrap(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        @functools.wraps(test)
        def call(**fixtures: Any) -> None:
            async def go() -> None:
                async with desk(**settings) as one:
                    await asyncio.wait_for(test(one, **fixtures), LONG_S * 2)

            with patch.object(supervisor, "oom_kills", lambda: 0):  # tests beside this one make the kernel kill
                asyncio.run(go())

        parameters = list(inspect.signature(test).parameters.values())[1:]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return call

    return wrap
