"""What passes through the relay, in both directions, many at once, and with peers that do not read."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from scalable.cluster.kubernetes.relay import link as link_module
from scalable.cluster.kubernetes.relay.client import Tunnel, TunnelError
from scalable.cluster.kubernetes.relay.link import MOST_WINDOW, Link, Stream
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

MANY = 200


async def never_reads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        writer.transport.abort()


async def dialled(tunnel: Tunnel, port: int) -> Streams:
    return await asyncio.open_connection(sock=await tunnel.dial(LOOPBACK, port))


@asynccontextmanager
async def a_known_worker() -> AsyncIterator[tuple[Desk, Tunnel, Streams]]:
    """A worker has connected through relay and tunnel, so that its host may be dialled."""
    async with a_relay() as desk, a_tunnel(desk, echo) as tunnel:
        worker = await desk.worker()
        await soon(lambda: LOOPBACK in tunnel.workers)
        yield desk, tunnel, worker
        await close(worker)


def carried(link: Link | None, port: int) -> Stream:
    """The stream that leads to a port."""
    assert link is not None
    return next(stream for stream in link.streams.values() if stream.port == port)


def test_a_worker_and_the_scheduler_talk_through_the_relay() -> None:
    async def scene() -> None:
        async with a_relay() as desk, a_tunnel(desk, echo):
            worker = await desk.worker()
            data = os.urandom(3_000_000)
            assert await echoed(worker, data) == data
            await close(worker)

    run(scene())


def test_the_driver_dials_a_worker_that_has_connected() -> None:
    async def scene() -> None:
        async with a_server(echo) as port, a_known_worker() as (_, tunnel, _):
            there = await dialled(tunnel, port)
            data = os.urandom(3_000_000)
            assert await echoed(there, data) == data
            await close(there)

    run(scene())


def test_hosts_that_have_not_connected_are_not_dialled() -> None:
    async def scene() -> None:
        async with a_relay() as desk, a_server(echo) as port, a_tunnel(desk, echo) as tunnel:
            with pytest.raises(TunnelError, match=r"127\.0\.0\.1 has not connected to the relay"):
                await tunnel.dial(LOOPBACK, port)
            worker = await desk.worker()
            await soon(lambda: LOOPBACK in tunnel.workers)
            with pytest.raises(TunnelError, match=r"169\.254\.169\.254 has not connected to the relay"):
                await tunnel.dial("169.254.169.254", 80)
            await close(worker)

    run(scene())


def test_a_worker_that_does_not_listen_is_said_to_be_unreachable() -> None:
    async def scene() -> None:
        async with a_known_worker() as (_, tunnel, _):
            with socket.socket() as unused:
                unused.bind((LOOPBACK, 0))
                with pytest.raises(TunnelError, match=r"cannot be reached from the relay: .*refused"):
                    await tunnel.dial(*unused.getsockname())

    run(scene())


def test_a_worker_hears_at_once_that_the_scheduler_is_gone() -> None:
    async def scene() -> None:
        async with a_relay() as desk, a_tunnel(desk, echo) as tunnel:
            tunnel.scheduler = (LOOPBACK, 1)  # nothing listens there
            worker = await desk.worker()
            assert await ended(worker[0])
            await close(worker)

    run(scene())


def test_the_last_bytes_arrive_before_the_end() -> None:
    async def says_and_goes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * 2_000_000)
        await writer.drain()
        writer.close()

    async def scene() -> None:
        async with a_relay() as desk, a_tunnel(desk, says_and_goes) as tunnel:
            worker = await desk.worker()
            assert len(await worker[0].read(-1)) == 2_000_000
            await soon(lambda: tunnel.link and not tunnel.link.streams)
            await close(worker)

    run(scene())


def test_two_hundred_streams_at_once_are_kept_apart() -> None:
    async def scene() -> None:
        async with a_relay() as desk, a_tunnel(desk, echo) as tunnel:
            workers = await asyncio.gather(*(desk.worker() for _ in range(MANY)))
            sent = [os.urandom(100_000) for _ in range(MANY)]
            back = await asyncio.gather(*(echoed(one, data) for one, data in zip(workers, sent, strict=True)))
            assert back == sent
            assert tunnel.link is not None
            assert len(tunnel.link.streams) == MANY
            await close(*workers)
            await soon(lambda: tunnel.link and not tunnel.link.streams)
            assert desk.relay.link is not None
            await soon(lambda: desk.relay.link and not desk.relay.link.streams)

    run(scene())


def test_a_stream_that_nobody_reads_waits_alone_and_keeps_little() -> None:
    async def scene() -> None:
        async with a_server(never_reads) as deaf, a_known_worker() as (desk, tunnel, worker):
            stuck = await dialled(tunnel, deaf)
            for _ in range(64):
                stuck[1].write(b"x" * 1_000_000)
            assert await echoed(worker, b"y" * 1_000_000) == b"y" * 1_000_000
            there, here = carried(desk.relay.link, deaf), carried(tunnel.link, deaf)
            await soon(lambda: there.waiting and here.credit == 0)
            assert there.waiting <= MOST_WINDOW
            assert await echoed(worker, b"y" * 1_000_000) == b"y" * 1_000_000
            stuck[1].transport.abort()
            here.close()

    run(scene())


def test_a_stream_is_closed_though_its_peer_never_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "LINGER_S", 0.05)

    async def scene() -> None:
        async with a_server(never_reads) as deaf, a_known_worker() as (desk, tunnel, _):
            stuck = await dialled(tunnel, deaf)
            stuck[1].write(b"x" * 40_000_000)
            there = carried(desk.relay.link, deaf)
            await soon(lambda: there.waiting)
            carried(tunnel.link, deaf).close()
            await asyncio.wait(there.link.tasks)
            stuck[1].transport.abort()

    run(scene())


def test_a_stream_that_waits_notices_that_its_peer_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "LINGER_S", 0.05)

    async def scene() -> None:
        async with a_server(echo) as port, a_known_worker() as (_, tunnel, _):
            there = await dialled(tunnel, port)
            carried(tunnel.link, port).credit = 0
            carried(tunnel.link, port).more.set()
            assert await echoed(there, b"x") == b"x"  # it was reading already
            there[1].write(b"y")
            there[1].transport.abort()
            await soon(lambda: tunnel.link and len(tunnel.link.streams) == 1)

    run(scene())


def test_a_silent_connection_stays_until_one_end_closes_it() -> None:
    async def scene() -> None:
        async with a_known_worker() as (desk, tunnel, silent):
            talking = await desk.worker()
            assert await echoed(talking, b"here") == b"here"
            assert await echoed(silent, b"still here") == b"still here"
            assert tunnel.link is not None
            assert len(tunnel.link.streams) == 2
            await close(talking)

    run(scene())


def test_one_host_cannot_take_all_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalable.cluster.kubernetes.relay.server.MOST_FROM_ONE_HOST", 2)

    async def scene() -> None:
        async with a_relay() as desk, a_tunnel(desk, echo):
            first, second = await desk.worker(), await desk.worker()
            assert await echoed(first, b"1") + await echoed(second, b"2") == b"12"
            third = await desk.worker()
            assert await ended(third[0])
            assert await echoed(first, b"1") == b"1"
            await close(first, second, third)

    run(scene())


def test_what_is_more_than_a_link_carries_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "MOST_STREAMS", 1)

    async def scene() -> None:
        async with a_server(echo) as port, a_known_worker() as (desk, tunnel, worker):
            with pytest.raises(TunnelError, match="more than 1 connections"):
                await tunnel.dial(LOOPBACK, port)
            second = await desk.worker()
            assert await ended(second[0])
            assert await echoed(worker, b"first") == b"first"
            await close(second)

    run(scene())


def test_dialling_is_possible_from_another_loop() -> None:
    async def scene() -> None:
        async with a_server(echo) as port, a_known_worker() as (_, tunnel, _):
            sock = await asyncio.to_thread(lambda: asyncio.run(tunnel.dial(LOOPBACK, port)))
            there = await asyncio.open_connection(sock=sock)
            assert await echoed(there, b"from elsewhere") == b"from elsewhere"
            await close(there)

    run(scene())


def test_a_tunnel_that_is_not_open_says_so() -> None:
    async def scene() -> None:
        async with a_relay() as desk:
            with pytest.raises(TunnelError, match="not open yet"):
                await desk.tunnel().dial(LOOPBACK, 1)
            with pytest.raises(TunnelError, match=r"'127\.0\.0\.1' is no address .* tls://127\.0\.0\.1:8786"):
                await desk.tunnel().open(LOOPBACK)

    run(scene())
