"""One connection that carries many: both its ends, the relay's and the driver's, are the same.

Every stream has a window: what its sender may send before the receiver has passed it on. So a stream whose receiver is
slow waits alone, and what is kept in memory for it is bounded. Windows start small, since most connections say little,
and grow with what was passed on to an equal part of a fixed sum, since a long way needs much under way to be fast.

What is said are frames: one byte for the kind, four for the stream's number, four for the length. No kind may be longer
than a fixed size, so that whoever announces gigabytes is cut off before anything is read.
"""

from __future__ import annotations

import asyncio
import ipaddress
import select
import socket
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from enum import IntEnum
from typing import Any, NamedTuple

FIRST_WINDOW = 64 * 1024  # what may be sent before the receiver has said anything
ALL_WINDOWS = 32 * 1024 * 1024  # shared by the streams; what a relay keeps is of this order, also if nobody reads
MOST_WINDOW = 4 * 1024 * 1024  # 40 MB/s over a way of 100 ms, more than a port-forward gives
MOST_STREAMS = 4096  # two for each of 2,000 workers
PING_EVERY_S = 10.0
MOST_SILENCES = 3  # intervals without a word, after which the other end is taken for dead
LINGER_S = 10.0  # what is left to deliver when the far end has closed may take this long
DEAD_AFTER_S = 30  # as Dask's own connections: a machine that answers nothing for so long is gone

Accept = Callable[["Stream"], Coroutine[Any, Any, None]]


class StreamRefused(Exception):  # noqa: N818 - what happened
    """The far end was not reached; the message says why."""


class Link:
    """See the module. ``accept`` is run for every stream that the other end opens."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, accept: Accept, *, first: int
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.accept = accept
        self.streams: dict[int, Stream] = {}
        self.next = first
        """Numbers of streams that this end opens: odd here, even there, never used twice."""
        self.ended = ""
        """Why it is over; empty as long as it is not."""
        self.refused = False
        """The other end wants no more of us."""
        self.refusing = False
        """It is to hear why, before the connection is closed."""
        self.heard = 0
        self.turn = asyncio.Lock()
        """Streams that have much to send take turns, one frame each."""
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> str:
        """Handle what comes until the connection ends; says why it did."""
        watch = asyncio.ensure_future(self.watch())
        try:
            while not self.ended:
                self.handle(await read(self.reader))
        except (asyncio.IncompleteReadError, OSError) as error:
            self.end(f"the connection broke ({error})" if isinstance(error, OSError) else "the connection was closed")
        except FrameError as error:
            self.end(f"the other end does not speak our language: {error}")
        finally:
            watch.cancel()
            self.end("closed")
            await asyncio.gather(*self.tasks, shut(self.writer, flush=self.refusing), return_exceptions=True)
        return self.ended

    def handle(self, frame: Frame) -> None:
        self.heard += 1
        stream = self.streams.get(frame.stream)
        match frame.kind:
            case FrameKind.PING:
                self.say(FrameKind.PONG)
            case FrameKind.PONG:
                pass
            case FrameKind.OPEN:
                self.incoming(frame)
            case FrameKind.REFUSED:
                self.refused = True
                self.end(frame.words)
            case FrameKind.OPENED | FrameKind.DATA | FrameKind.CLOSE | FrameKind.WINDOW:
                if stream is not None:  # else it was closed here while this was under way
                    stream.handle(frame)
            case _:
                raise FrameError(f"{frame.kind.name} after the beginning")

    def incoming(self, frame: Frame) -> None:
        host, port = frame.place
        if frame.stream in self.streams or frame.stream % 2 == self.next % 2:
            raise FrameError(f"a second stream {frame.stream}")
        if len(self.streams) >= MOST_STREAMS:
            self.say(FrameKind.CLOSE, frame.stream, f"more than {MOST_STREAMS} connections")
            return
        stream = self.streams[frame.stream] = Stream(self, frame.stream, plain(host), port)
        task = asyncio.ensure_future(self.accept(stream))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def open(self, host: str, port: int) -> Stream:
        if self.ended:
            raise StreamRefused(self.ended)
        if len(self.streams) >= MOST_STREAMS:
            raise StreamRefused(f"more than {MOST_STREAMS} connections")
        stream = self.streams[self.next] = Stream(self, self.next, host, port)
        self.say(FrameKind.OPEN, self.next, place(host, port))
        self.next += 2
        return stream

    def say(self, kind: FrameKind, stream: int = 0, payload: bytes | str = b"") -> None:
        """Send without waiting: for frames of a few bytes, of which there are few."""
        if not self.writer.is_closing():
            self.writer.write(encoded(kind, stream, payload))

    async def watch(self) -> None:
        """Notice an other end that is gone without a word; a pause of this process counts as one interval at most."""
        silences, before = 0, self.heard
        while silences < MOST_SILENCES:
            self.say(FrameKind.PING)
            await asyncio.sleep(PING_EVERY_S)
            silences, before = (0 if self.heard != before else silences + 1), self.heard
        self.end(f"nothing was heard for {MOST_SILENCES * PING_EVERY_S:g} s")

    def end(self, reason: str) -> None:
        """End at once, with all streams: nobody can go on where a stream was cut."""
        if self.ended:
            return
        self.ended = reason
        if not self.refusing:
            self.writer.transport.abort()
        self.reader.feed_eof()  # whoever waits for a frame stops waiting
        for stream in list(self.streams.values()):
            stream.cut()

    def refuse(self, reason: str) -> None:
        """End it, and tell the other end not to come back."""
        self.say(FrameKind.REFUSED, 0, reason)
        self.refusing = True
        self.end(reason)


class Stream:
    """One connection that passes: a socket here, a number on the link, a socket beyond the link.

    A peer that has nothing more to send has closed its connection, as among Dask's; there is no half of one.
    """

    def __init__(self, link: Link, number: int, host: str, port: int) -> None:
        self.link = link
        self.number = number
        self.host = host
        self.port = port
        self.arrived: asyncio.Queue[bytes | None] = asyncio.Queue()
        """What is to be passed on here; nothing after the last. The window bounds it."""
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.opened.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be waiting
        self.over = asyncio.Event()
        self.credit = FIRST_WINDOW
        """Bytes that may be sent now."""
        self.more = asyncio.Event()
        self.granted = FIRST_WINDOW
        """Bytes that the other end may send or has sent, and that were not passed on."""
        self.waiting = 0
        """Bytes that have arrived and were not passed on."""
        self.passed = 0

    def handle(self, frame: Frame) -> None:
        match frame.kind:
            case FrameKind.DATA:
                self.waiting += len(frame.payload)
                if self.waiting > self.granted:
                    raise FrameError(f"more than the {self.granted} bytes that stream {self.number} has room for")
                self.arrived.put_nowait(frame.payload)
            case FrameKind.WINDOW:
                self.credit += frame.amount
                self.more.set()
            case FrameKind.OPENED:
                if not self.opened.done():
                    self.opened.set_result(None)
            case _:
                self.finish(frame.words)

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on in both directions until one end closes."""
        sending, receiving, over = (
            asyncio.ensure_future(work) for work in (self.send(reader, writer), self.receive(writer), self.over.wait())
        )
        try:
            await asyncio.wait({sending, receiving, over}, return_when=asyncio.FIRST_COMPLETED)
            if over.done() and not self.link.ended:
                await asyncio.wait({receiving}, timeout=LINGER_S)
        finally:
            delivered = receiving.done() and not self.link.ended
            for task in (sending, receiving, over):
                task.cancel()
            self.close()
            await shut(writer, flush=delivered)
            await asyncio.gather(sending, receiving, over, return_exceptions=True)

    async def send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            while self.credit <= 0:
                self.more.clear()
                try:
                    await asyncio.wait_for(self.more.wait(), LINGER_S)
                except TimeoutError:
                    if hung_up(writer):  # and what it sent last is not wanted
                        return
            data = await reader.read(min(CHUNK, self.credit))
            if not data:
                return
            self.credit -= len(data)
            async with self.link.turn:
                self.link.say(FrameKind.DATA, self.number, data)
                await self.link.writer.drain()

    async def receive(self, writer: asyncio.StreamWriter) -> None:
        while (data := await self.arrived.get()) is not None:
            writer.write(data)
            await writer.drain()
            self.passed_on(len(data))

    def passed_on(self, size: int) -> None:
        """Let the other end send more, once it is worth a frame."""
        self.waiting -= size
        self.granted -= size
        self.passed += size
        share = ALL_WINDOWS // max(1, len(self.link.streams))
        window = max(FIRST_WINDOW, min(MOST_WINDOW, share, FIRST_WINDOW + self.passed))
        if self.granted <= window // 2:
            self.link.say(FrameKind.WINDOW, self.number, AMOUNT.pack(window - self.granted))
            self.granted = window

    def close(self, reason: str = "") -> None:
        """Close this end; the other is told unless it said so first."""
        if self.link.streams.pop(self.number, None) is not None:
            self.link.say(FrameKind.CLOSE, self.number, reason)
        self.finish(reason)

    def finish(self, reason: str) -> None:
        self.link.streams.pop(self.number, None)
        self.arrived.put_nowait(None)
        if not self.opened.done():
            self.opened.set_exception(StreamRefused(reason or "the connection was closed"))
        self.over.set()

    def cut(self) -> None:
        """End with a link that is gone."""
        self.finish(self.link.ended)


async def shut(writer: asyncio.StreamWriter, *, flush: bool) -> None:
    """Close a socket; its peer may have stopped reading, so what is written last is not waited for without end."""
    if flush:
        writer.close()
    else:
        writer.transport.abort()
    with suppress(OSError, TimeoutError):
        await asyncio.wait_for(writer.wait_closed(), LINGER_S)
        return
    writer.transport.abort()


def hung_up(writer: asyncio.StreamWriter) -> bool:
    """Return whether the peer of a socket that is not being read has closed it."""
    poll = select.poll()
    poll.register(writer.get_extra_info("socket"), getattr(select, "POLLRDHUP", 0))  # Linux; others see less
    return bool(poll.poll(0))


def notice_death(writer: asyncio.StreamWriter) -> None:
    """Let the kernel close a connection whose other machine is gone without a word."""
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # Linux
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, DEAD_AFTER_S // 3)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, DEAD_AFTER_S // 15)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_AFTER_S * 1000)


VERSION = 1  # of this language; a driver and an image that differ in it refuse each other with a sentence
HEADER = struct.Struct(">BII")
PORT = struct.Struct(">H")
AMOUNT = struct.Struct(">I")
CHUNK = 128 * 1024  # the most a DATA frame carries: large enough to be quick, small enough that others get their turn
MOST_WORDS = 1024  # bytes of a reason


class FrameKind(IntEnum):
    HELLO = 1  # driver to relay, first: version and token
    READY = 2  # relay to driver: the token is right, streams may be opened
    REFUSED = 3  # relay to driver: do not come back, with the reason
    OPEN = 4  # a new stream, with port and host of its far end
    OPENED = 5  # the far end is connected
    DATA = 6
    CLOSE = 7  # one end is closed or was never reached, with the reason
    WINDOW = 8  # so many bytes more may be sent on a stream
    PING = 9
    PONG = 10


LONGEST = {
    FrameKind.HELLO: 256,
    FrameKind.REFUSED: MOST_WORDS,
    FrameKind.OPEN: 256,
    FrameKind.DATA: CHUNK,
    FrameKind.CLOSE: MOST_WORDS,
    FrameKind.WINDOW: AMOUNT.size,
}


class FrameError(Exception):
    """Bytes that no relay and no driver sends."""


class Frame(NamedTuple):
    kind: FrameKind
    stream: int
    payload: bytes

    @property
    def words(self) -> str:
        return self.payload.decode(errors="replace")

    @property
    def amount(self) -> int:
        try:
            (amount,) = AMOUNT.unpack(self.payload)
        except struct.error as error:
            raise FrameError(f"a window of {len(self.payload)} bytes") from error
        return int(amount)

    @property
    def place(self) -> tuple[str, int]:
        """Encode host and port of an OPEN frame."""
        try:
            (port,) = PORT.unpack_from(self.payload)
            return self.payload[PORT.size :].decode("ascii"), int(port)
        except (struct.error, UnicodeDecodeError) as error:
            raise FrameError("a stream to nowhere") from error


def encoded(kind: FrameKind, stream: int = 0, payload: bytes | str = b"") -> bytes:
    if isinstance(payload, str):
        payload = payload.encode(errors="replace")[:MOST_WORDS]
    return HEADER.pack(kind, stream, len(payload)) + payload


def place(host: str, port: int) -> bytes:
    return PORT.pack(port) + host.encode("ascii")


async def read(reader: asyncio.StreamReader) -> Frame:
    """Read the next frame; raises ``FrameError`` for what is none, without reading what it announces."""
    number, stream, length = HEADER.unpack(await reader.readexactly(HEADER.size))
    try:
        kind = FrameKind(number)
    except ValueError:
        raise FrameError(f"no frame has the kind {number}") from None
    if length > LONGEST.get(kind, 0):
        raise FrameError(f"{kind.name} of {length} bytes; the most is {LONGEST.get(kind, 0)}")
    return Frame(kind, stream, await reader.readexactly(length))


def plain(host: str) -> str:
    """Write an address in one way, whoever wrote it: ``::ffff:10.0.0.1`` is ``10.0.0.1``."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower()
    return str(getattr(address, "ipv4_mapped", None) or address)
