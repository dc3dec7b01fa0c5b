"""What the supervisor does about runners, with runners that have no process: each does as its test says."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from scalable.worker.runner import ends, supervisor
from scalable.worker.runner.process import Runner, Settings, Started
from scalable.worker.runner.supervisor import FAILED_STARTS, Supervisor
from scalable.worker.runner.work import End, Listener

TURNS = 100  # of the event loop, in which everything that can happen without waiting has happened


class FakeRunner(Runner):
    """A runner without a process; whether it starts, and whether someone kills it, is said by the class."""

    starts = Started.WELL
    killed = False
    made: list[FakeRunner]

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.ends = 0
        self.made.append(self)

    @property
    def has_begun(self) -> bool:
        return bool(self.sent)

    async def start(self, on_end: Any, on_hang_up: Any, on_fork: Any) -> Started:
        self.on_end = on_end
        self.ready = self.starts is Started.WELL
        return self.starts

    def send(self, work: Any, content: bytes) -> None:
        self.sent.append(work)

    def answer(self, seconds: float = 1.0, left: str = "") -> None:
        self.on_end(self, (ends.FINISHED, b"", "", seconds, 0.0, None, left, 0.0))

    @property
    def stamp(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(begun=1)

    def look(self, *, closely: bool = False) -> None:
        pass

    async def status(self) -> int:
        return -signal.SIGSEGV

    def how_it_ended(self, status: int | None) -> str:
        return "crashed"

    async def was_killed(self) -> bool:
        return self.killed

    async def end(self) -> int:
        self.ending = True
        self.ends += 1
        return 0


class Scene:
    """A supervisor with one slot, the runners it has made and the ends it has told of."""

    def __init__(self) -> None:
        self.ends: list[End] = []
        self.supervisor = Supervisor(Settings(), 1, Listener(self.ends.append))
        self.runners: list[FakeRunner] = FakeRunner.made

    def give(self, *keys: str) -> None:
        for key in keys:
            self.supervisor.give(key, b"")

    async def settle(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Scene], Awaitable[None]]], None]:
    """Run an asynchronous scene with fake runners, which wait for nothing between two starts."""
    monkeypatch.setattr(FakeRunner, "made", [], raising=False)
    monkeypatch.setattr(supervisor, "Runner", FakeRunner)
    monkeypatch.setattr(supervisor, "START_AGAIN_S", 0.0)

    def played(act: Callable[[Scene], Awaitable[None]]) -> None:
        async def go() -> None:
            scene = Scene()
            await act(scene)
            await scene.supervisor.close()

        asyncio.run(go())

    return played


Play = Callable[[Callable[[Scene], Awaitable[None]]], None]


def test_work_is_given_up_when_three_starts_in_a_row_have_failed(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeRunner, "starts", Started.BADLY)

    async def act(scene: Scene) -> None:
        scene.give("a", "b")
        await scene.settle()
        assert [(end.key, end.cause) for end in scene.ends] == [("a", ends.CANNOT_START), ("b", ends.CANNOT_START)]
        assert len(scene.runners) == FAILED_STARTS
        assert all(runner.ends for runner in scene.runners)
        assert scene.supervisor.runners == []

    play(act)


def test_a_start_that_others_have_killed_hardly_counts(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeRunner, "starts", Started.BADLY)
    monkeypatch.setattr(FakeRunner, "killed", True)

    async def act(scene: Scene) -> None:
        scene.give("a")
        while not scene.ends:
            await scene.settle()
        assert len(scene.runners) == 10 * FAILED_STARTS

    play(act)


def test_a_runner_is_kept_for_the_next_work(play: Play) -> None:
    async def act(scene: Scene) -> None:
        scene.give("a", "b")
        await scene.settle()
        [runner] = scene.runners
        assert runner.current.key == "a"
        runner.answer()
        await scene.settle()
        assert runner.current.key == "b"
        runner.answer()
        await scene.settle()
        assert [(end.key, end.cause) for end in scene.ends] == [("a", ends.FINISHED), ("b", ends.FINISHED)]
        assert (scene.supervisor.runners, runner.ends) == ([runner], 0)

    play(act)


def test_work_that_was_told_to_die_while_it_waited_in_a_runner_dies_when_its_turn_comes(play: Play) -> None:
    async def act(scene: Scene) -> None:
        scene.give("a")
        await scene.settle()
        [runner] = scene.runners
        runner.answer(seconds=0.001)
        scene.give("b", "c")
        assert [work.key for work in runner.sent] == ["b", "c"]
        scene.supervisor.kill("c", ends.STOPPED)
        await scene.settle()
        assert [end.key for end in scene.ends] == ["a"]
        runner.answer(seconds=0.001)
        await scene.settle()
        assert [(end.key, end.cause) for end in scene.ends[1:]] == [("b", ends.FINISHED), ("c", ends.STOPPED)]
        assert runner.ends == 1

    play(act)


def test_a_runner_in_which_work_left_something_goes_and_what_waited_in_it_is_run_by_the_next(play: Play) -> None:
    async def act(scene: Scene) -> None:
        scene.give("a")
        await scene.settle()
        [runner] = scene.runners
        runner.answer(seconds=0.001)
        scene.give("b", "c")
        assert [work.key for work in runner.sent] == ["b", "c"]
        runner.answer(seconds=0.001, left="thread Thread-1")
        await scene.settle()
        assert [(end.key, end.cause) for end in scene.ends[1:]] == [("b", ends.FINISHED)]
        assert runner.ends == 1
        assert [work.key for work in scene.supervisor.runners[0].sent] == ["c"]
        assert scene.supervisor.runners == scene.runners[1:]

    play(act)


def test_a_runner_of_old_settings_goes_after_its_work(play: Play) -> None:
    async def act(scene: Scene) -> None:
        scene.give("a")
        await scene.settle()
        [runner] = scene.runners
        scene.supervisor.use(Settings(cpus=2))
        assert not runner.ending
        runner.answer()
        await scene.settle()
        assert (scene.supervisor.runners, runner.ends) == ([], 1)

    play(act)


def test_a_runner_that_is_gone_is_buried_once_and_what_waited_in_it_goes_to_the_next(play: Play) -> None:
    async def act(scene: Scene) -> None:
        scene.give("a")
        await scene.settle()
        [runner] = scene.runners
        runner.answer(seconds=0.001)
        scene.give("b", "c")
        scene.supervisor.hung_up(runner)
        scene.supervisor.hung_up(runner)
        await scene.settle()
        assert [(end.key, end.cause) for end in scene.ends[1:]] == [("b", ends.CRASHED)]
        assert runner.ends == 1
        assert [one.key for one in scene.supervisor.runners[0].sent] == ["c"]
        assert scene.supervisor.runners == scene.runners[1:]

    play(act)
