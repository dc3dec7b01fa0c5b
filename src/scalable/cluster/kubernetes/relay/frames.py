"""What is said between a relay and its driver: frames of a kind, the number of a stream, and a few bytes.

A frame has one byte for its kind, four for the stream's number, four for its length. No kind may be longer than a fixed
size, so that whoever announces gigabytes is cut off before anything is read.
"""

from __future__ import annotations

import asyncio
import ipaddress
import struct
from enum import IntEnum
from typing import NamedTuple

VERSION = 1  # of this language; a driver and an image that differ in it refuse each other with a sentence
HEADER = struct.Struct(">BII")
PORT = struct.Struct(">H")
AMOUNT = struct.Struct(">I")
CHUNK = 128 * 1024  # the most a DATA frame carries: large enough to be quick, small enough that others get their turn
MOST_WORDS = 1024  # bytes of a reason


class Kind(IntEnum):
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
    Kind.HELLO: 256,
    Kind.REFUSED: MOST_WORDS,
    Kind.OPEN: 256,
    Kind.DATA: CHUNK,
    Kind.CLOSE: MOST_WORDS,
    Kind.WINDOW: AMOUNT.size,
}


class FrameError(Exception):
    """Bytes that no relay and no driver sends."""


class Frame(NamedTuple):
    kind: Kind
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
        """Host and port of an OPEN frame."""
        try:
            (port,) = PORT.unpack_from(self.payload)
            return self.payload[PORT.size :].decode("ascii"), int(port)
        except (struct.error, UnicodeDecodeError) as error:
            raise FrameError("a stream to nowhere") from error


def encoded(kind: Kind, stream: int = 0, payload: bytes | str = b"") -> bytes:
    if isinstance(payload, str):
        payload = payload.encode(errors="replace")[:MOST_WORDS]
    return HEADER.pack(kind, stream, len(payload)) + payload


def place(host: str, port: int) -> bytes:
    return PORT.pack(port) + host.encode("ascii")


async def read(reader: asyncio.StreamReader) -> Frame:
    """The next frame; raises ``FrameError`` for what is none, without reading what it announces."""
    number, stream, length = HEADER.unpack(await reader.readexactly(HEADER.size))
    try:
        kind = Kind(number)
    except ValueError:
        raise FrameError(f"no frame has the kind {number}") from None
    if length > LONGEST.get(kind, 0):
        raise FrameError(f"{kind.name} of {length} bytes; the most is {LONGEST.get(kind, 0)}")
    return Frame(kind, stream, await reader.readexactly(length))


def plain(host: str) -> str:
    """One way to write an address, whoever wrote it: ``::ffff:10.0.0.1`` is ``10.0.0.1``."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower()
    return str(getattr(address, "ipv4_mapped", None) or address)
