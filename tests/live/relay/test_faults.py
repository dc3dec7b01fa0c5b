"""What goes wrong with the driver's connection, and who comes to the relay uninvited."""

from __future__ import annotations

import asyncio

import pytest

from scalable.cluster.kubernetes.relay import client as client_module
from scalable.cluster.kubernetes.relay import link as link_module
from scalable.cluster.kubernetes.relay import server as server_module
from scalable.cluster.kubernetes.relay.client import TunnelError, TunnelRefused
from scalable.cluster.kubernetes.relay.link import FIRST_WINDOW, HEADER, VERSION, FrameKind, encoded
from scalable.errors import UsageError
from tests.helpers.relay.desk import (
    LOOPBACK,
    Desk,
    Streams,
    a_relay,
    a_server,
    a_tunnel,
    close,
    echo,
    echoed,
    ended,
    run,
)
from tests.helpers.waiting import soon

GIBIBYTES_4 = 2**32 - 1


async def works(desk: Desk) -> bool:
    worker = await desk.worker()
    try:
        return await echoed(worker, b"still there?") == b"still there?"
    finally:
        await close(worker)


def test_a_cut_connection_closes_workers_at_once_and_is_made_anew() -> None:
    async def scene() -> None:
        async with a_relay() as desk, a_tunnel(desk, echo) as tunnel:
            worker = await desk.worker()
            assert await echoed(worker, b"hello") == b"hello"
            assert tunnel.link is not None
            tunnel.link.writer.transport.abort()
            assert await ended(worker[0])
            await soon(lambda: "relay-back" in desk.told)
            assert desk.told == ["relay-lost", "relay-back"]
            assert await works(desk)
            await close(worker)

    run(scene())


def test_a_worker_that_comes_while_the_driver_is_away_is_kept_until_it_is_back() -> None:
    async def scene() -> None:
        async with a_relay() as desk:
            early = await desk.worker()
            early[1].write(b"anybody?")
            async with a_tunnel(desk, echo):
                assert await early[0].readexactly(8) == b"anybody?"
            await close(early)

    run(scene())


def test_workers_dialled_before_the_cut_must_connect_again_first() -> None:
    async def scene() -> None:
        async with a_relay() as desk, a_server(echo) as port, a_tunnel(desk, echo) as tunnel:
            assert await works(desk)
            assert tunnel.link is not None
            tunnel.link.writer.transport.abort()
            await soon(lambda: "relay-back" in desk.told)
            assert tunnel.knows(LOOPBACK, port)
            with pytest.raises(TunnelError, match="has not connected"):
                await tunnel.dial(LOOPBACK, port)

    run(scene())


def test_a_relay_without_a_driver_for_its_time_ends() -> None:
    async def scene() -> None:
        async with a_relay(keep=0.1) as desk:
            async with a_tunnel(desk, echo) as tunnel:
                unused = asyncio.ensure_future(desk.relay.until_unused())
                await asyncio.sleep(0.2)
                assert not unused.done()
                assert tunnel.link is not None
            assert await unused == "no driver for 0.1 s"

    run(scene())


def test_a_relay_that_does_not_come_back_is_given_up_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "KEEP_S", 0.3)

    async def scene() -> None:
        async with a_relay() as desk, a_tunnel(desk, echo) as tunnel:
            await desk.relay.close()
            await soon(lambda: "relay-gone" in desk.told)
            assert desk.told == ["relay-lost", "relay-gone"]
            assert "the relay was not reached within 0.3 s" in desk.reasons[-1]
            with pytest.raises(TunnelError, match="the connection to the relay is lost"):
                await tunnel.dial(LOOPBACK, 1)

    run(scene())


def test_a_way_to_the_relay_that_is_forbidden_is_not_tried_again_until_somebody_opens_it() -> None:
    async def scene() -> None:
        async with a_relay() as desk, a_tunnel(desk, echo) as tunnel:
            allowed = tunnel.reach

            async def forbidden() -> Streams:
                raise UsageError("pods/portforward is forbidden")

            tunnel.reach = forbidden
            assert tunnel.link is not None
            tunnel.link.writer.transport.abort()
            await soon(lambda: "relay-gone" in desk.told)
            assert desk.reasons[-1] == "pods/portforward is forbidden"
            tunnel.reach = allowed
            await tunnel.open("tls://{}:{}".format(*tunnel.scheduler))
            assert await works(desk)

    run(scene())


def test_a_wrong_token_is_refused_and_disturbs_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    async def scene() -> None:
        async with a_relay() as desk, a_tunnel(desk, echo):
            stranger = desk.tunnel()
            stranger.token = b"x" * 64
            with pytest.raises(TunnelRefused, match="the token is not that of this run"):
                await stranger.open(f"tls://{LOOPBACK}:1")
            assert await works(desk)
            assert desk.told == []
            assert "xxxx" not in capsys.readouterr().err

    run(scene())


def test_a_driver_of_another_version_is_told_to_use_another_image() -> None:
    async def scene() -> None:
        async with a_relay() as desk:
            reader, writer = await desk.reach()
            writer.write(encoded(FrameKind.HELLO, 0, bytes([VERSION + 1]) + desk.relay.token))
            answer = await reader.read(-1)
            assert b"use an image with the driver's version" in answer
            await close((reader, writer))

    run(scene())


def test_a_newer_driver_replaces_the_older_which_does_not_come_back() -> None:
    async def scene() -> None:
        async with a_relay() as desk, a_tunnel(desk, echo):
            worker = await desk.worker()
            assert await echoed(worker, b"hello") == b"hello"
            async with a_tunnel(desk, echo):
                assert await ended(worker[0])
                await soon(lambda: desk.told)
                assert desk.told == ["relay-gone"]
                assert "replaced" in desk.reasons[0]
                assert await works(desk)
            await close(worker)

    run(scene())


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: relay\r\n\r\n",
        b"\x00" * 5000,
        HEADER.pack(FrameKind.HELLO, 0, GIBIBYTES_4) + b"x" * 100_000,
        encoded(FrameKind.DATA, 2, b"x" * 1000),
        encoded(FrameKind.OPEN, 2, b"\x00\x50169.254.169.254"),
    ],
    ids=["http", "zeros", "4 GiB", "data", "open"],
)
def test_garbage_on_the_control_port_is_cut_off(garbage: bytes) -> None:
    async def scene() -> None:
        async with a_relay() as desk, a_tunnel(desk, echo):
            reader, writer = await desk.reach()
            writer.write(garbage)
            assert await ended(reader)
            assert await works(desk)
            await close((reader, writer))

    run(scene())


def test_whoever_says_nothing_on_the_control_port_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "HELLO_WITHIN_S", 0.05)

    async def scene() -> None:
        async with a_relay() as desk:
            connection = await desk.reach()
            assert await ended(connection[0])
            await close(connection)

    run(scene())


def test_garbage_on_the_workers_port_goes_to_the_scheduler_and_nowhere_else() -> None:
    heard: list[bytes] = []

    async def scheduler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(100))
        writer.close()

    async def scene() -> None:
        async with a_relay() as desk, a_tunnel(desk, scheduler) as tunnel:
            worker = await desk.worker()
            worker[1].write(encoded(FrameKind.HELLO, 0, bytes([VERSION]) + desk.relay.token))
            assert await ended(worker[0])
            assert heard == [encoded(FrameKind.HELLO, 0, bytes([VERSION]) + desk.relay.token)]
            assert tunnel.link is not None
            assert desk.told == []
            await close(worker)

    run(scene())


@pytest.mark.parametrize(
    ("frames", "problem"),
    [
        (HEADER.pack(FrameKind.DATA, 1, GIBIBYTES_4), "DATA of 4294967295 bytes"),
        (encoded(FrameKind.HELLO), "HELLO after the beginning"),
        (encoded(FrameKind.OPEN, 1, b"\x00\x01127.0.0.1"), "a second stream 1"),
        (encoded(FrameKind.OPEN, 2, b"\x00"), "a stream to nowhere"),
    ],
    ids=["4 GiB", "greeting", "number", "place"],
)
def test_a_driver_that_breaks_the_rules_is_cut_off(frames: bytes, problem: str) -> None:
    async def scene() -> None:
        async with a_relay() as desk:
            reader, writer = await desk.says_hello()
            link = desk.relay.link
            assert link is not None
            writer.write(frames)
            assert await ended(reader)
            assert problem in link.ended
            await close((reader, writer))

    run(scene())


def test_a_driver_that_sends_more_than_there_is_room_for_is_cut_off() -> None:
    async def scene() -> None:
        async with a_relay() as desk:
            reader, writer = await desk.says_hello()
            worker = await desk.worker()
            link = desk.relay.link
            assert link is not None
            await soon(lambda: 1 in link.streams)
            link.streams[1].granted = 0  # as after a worker that has stopped reading
            writer.write(encoded(FrameKind.DATA, 1, b"x" * FIRST_WINDOW))
            assert await ended(reader)
            assert "more than the 0 bytes" in link.ended
            await close((reader, writer), worker)

    run(scene())


def test_a_driver_that_is_gone_without_a_word_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "PING_EVERY_S", 0.05)

    async def scene() -> None:
        async with a_relay() as desk:
            silent = await desk.says_hello()
            link = desk.relay.link
            assert link is not None
            assert await ended(silent[0])
            assert "nothing was heard" in link.ended
            await close(silent)

    run(scene())


def test_both_ends_hear_each_other_though_nothing_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "PING_EVERY_S", 0.05)

    async def scene() -> None:
        async with a_relay() as desk, a_tunnel(desk, echo) as tunnel:
            link = tunnel.link
            assert link is not None
            await soon(lambda: link.heard > 10)
            assert desk.told == []

    run(scene())


def test_what_answers_but_is_no_relay_is_refused() -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await ended(reader)
        writer.close()

    async def scene() -> None:
        async with a_relay() as desk, a_server(web) as desk.control:
            with pytest.raises(TunnelRefused, match="what answers is no relay"):
                await desk.tunnel().open(f"tls://{LOOPBACK}:1")

    run(scene())
