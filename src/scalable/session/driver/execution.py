"""The driver's end of its conversation with the supervisors on the workers: work goes out, ends and signs come in.

It uses the connection that every worker has to the scheduler anyway, in both directions: no further port, encrypted
where that one is, in order, and gone with the worker. What is said to a worker in one turn of the loop goes together.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed.comm.core import CommClosedError

from scalable.errors import ScalableError
from scalable.manifest.policies import Policies
from scalable.worker.runner.wire import pack
from scalable.worker.runners import OP

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster
    from scalable.cluster.workers import Member

SIGN_EVERY_S = 1.0  # how often workers tell how their jobs are
SIGNS_BEFORE_STUCK = 8  # or as often as this before a job counts as stuck, if that is sooner
ANSWER_WITHIN_S = 30.0  # beyond what a question needs by itself: a dump takes seconds, a worker may be slow


@dataclass(frozen=True, slots=True)
class JobCall:
    """The call that a job makes."""

    function: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def packed(self) -> bytes:
        return pack((self.function, (), dict(self.arguments)))


class Conversation:
    def __init__(self, cluster: TaggedCluster, on_report: Callable[..., None]) -> None:
        self.cluster = cluster
        self.outgoing: dict[str, dict[str, Any]] = {}
        self.questions: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.numbers = itertools.count()
        self.on_report = on_report
        cluster.scheduler.stream_handlers[OP] = self.heard

    def close(self) -> None:
        self.cluster.scheduler.stream_handlers[OP] = lambda **report: None
        for question in self.questions.values():
            question.cancel()

    def configure(self, address: str, settings: dict[str, Any]) -> None:
        self.message(address)["settings"] = settings

    def give(self, address: str, key: str, content: bytes) -> None:
        self.message(address).setdefault("give", []).append((key, content))

    def take_back(self, address: str, key: str) -> None:
        self.message(address).setdefault("take_back", []).append(key)

    def kill(self, address: str, key: str, cause: str, text: str, silent_for: float | None = None) -> None:
        """Kill a job if it was silent for ``silent_for`` seconds by what its worker can see, else it lives on."""
        self.message(address).setdefault("kill", []).append((key, cause, text, silent_for))

    async def ask(self, address: str, question: str, within: float, **arguments: Any) -> Any:
        """Return what the supervisor there answers; raise its errors here."""
        number = next(self.numbers)
        answer = self.questions[number] = asyncio.get_running_loop().create_future()
        self.message(address).setdefault("ask", []).append((number, question, arguments))
        try:
            content = await asyncio.wait_for(answer, within)
        except TimeoutError:
            raise ScalableError(f"the worker at {address} did not answer within {within:g} s") from None
        finally:
            del self.questions[number]
        if not content.pop("ok"):
            raise ScalableError(content["error"])
        return content

    def message(self, address: str) -> dict[str, Any]:
        if not self.outgoing:
            asyncio.get_running_loop().call_soon(self.send)
        return self.outgoing.setdefault(address, {"op": OP})

    def send(self) -> None:
        outgoing, self.outgoing = self.outgoing, {}
        for address, message in outgoing.items():
            with suppress(KeyError, CommClosedError):  # it is gone; whoever notices gives its work up
                self.cluster.scheduler.stream_comms[address].send(message)

    def heard(self, worker: str, answers: tuple[tuple[int, dict[str, Any]], ...] = (), **report: Any) -> None:
        for number, content in answers:
            if (question := self.questions.get(number)) is not None and not question.done():
                question.set_result(dict(content))
        if report:
            self.on_report(worker, **report)


def runner_settings(member: Member, policies: Policies, log: Path) -> dict[str, Any]:
    """Return the settings of a worker's runners; ``log`` is for a worker without a process and log of its own."""
    template = member.template
    in_process = str(member.address).startswith("inproc")
    after = policies.stuck.after.seconds
    return {
        "cpus": template.threads,
        "memory": template.memory.bytes if template.memory else None,
        "apart": in_process,
        "environment": template.runner_environment,
        "fork": policies.fork.policy,
        "allow": list(policies.fork.allow),
        "grpc": policies.fork.grpc.variables(),
        "log": str(log) if in_process else None,
        "sign_every_s": min(SIGN_EVERY_S, after / SIGNS_BEFORE_STUCK),
        "stuck_after_s": after,
    }
