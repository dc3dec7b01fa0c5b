"""What an interrupt leaves behind in the event loop stays off the screen."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from distributed.utils import LoopRunner, sync
from tornado.ioloop import IOLoop

from scalable.cluster.cluster import forgive_interrupts, no_cancel_before_start


class Interrupted(threading.Event):
    def wait(self, timeout: float | None = None) -> bool:
        raise KeyboardInterrupt


@pytest.fixture
def loop() -> Iterator[IOLoop]:
    logger = logging.getLogger("tornado.application")
    logger.removeFilter(no_cancel_before_start)  # of a cluster that another test had
    runner = LoopRunner()
    runner.start()
    yield runner.loop
    runner.stop()
    logger.removeFilter(no_cancel_before_start)


async def nothing() -> None:
    pass


async def forgive() -> None:
    forgive_interrupts()


def interrupt_at_once(loop: IOLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt a caller who waits before the loop has begun what the caller waits for."""
    busy = threading.Event()
    loop.add_callback(busy.wait)
    with monkeypatch.context() as patch:
        patch.setattr("distributed.utils.threading", SimpleNamespace(Event=Interrupted, get_ident=threading.get_ident))
        with pytest.raises(KeyboardInterrupt):
            sync(loop, nothing)
    busy.set()
    sync(loop, nothing)  # the loop has done all that was asked of it before


def test_an_interrupt_before_the_wait_has_begun_is_no_error(
    loop: IOLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    interrupt_at_once(loop, monkeypatch)
    assert "sync.<locals>.cancel" in caplog.text  # Dask's own complaint, which is kept off the screen from here on
    caplog.clear()
    sync(loop, forgive)
    interrupt_at_once(loop, monkeypatch)
    assert caplog.text == ""


def test_other_errors_of_callbacks_are_still_shown(loop: IOLoop, caplog: pytest.LogCaptureFixture) -> None:
    sync(loop, forgive)
    loop.add_callback(int, "future")
    sync(loop, nothing)
    assert "ValueError: invalid literal" in caplog.text
