"""Messages between a supervisor and its child: a length, a kind, and bytes; and how work and results become bytes.

The supervisor hands bytes on without looking into them, so that nothing a user sends can harm a worker.
"""

from __future__ import annotations

import pickle
import socket
import struct
import threading
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import cloudpickle

HEAD = struct.Struct("!QB")
LARGEST = 2**31  # bytes of a result; more belongs in a file
LARGEST_ANSWER = LARGEST + 2**24  # with the message and the figures beside it
LINE_CLOSED = 97  # a child's status when the user's code has closed its line
BLOCK = 1 << 18


class MessageKind(IntEnum):
    READY = 1  # from the child: it has started; what protects it
    WORK = 2  # to the child: a pickled (function, arguments)
    ENDED = 3  # from the child: how the work ended
    NOTED = 4  # from the child: something to be told at once, such as a fork that was refused


def pack(value: Any) -> bytes:
    """Pickle as Dask does: what is defined in a script or a notebook travels by value, all else by name."""
    try:
        plain = pickle.dumps(value, protocol=5)
        if b"__main__" not in plain:
            return plain
    except Exception:  # noqa: BLE001 - pickling calls the value's own code; cloudpickle can do more
        pass
    packed: bytes = cloudpickle.dumps(value, protocol=5)
    return packed


def frame(kind: MessageKind, content: bytes) -> bytes:
    return HEAD.pack(len(content), kind) + content


class Frames:
    """Puts messages together from pieces as they arrive."""

    def __init__(self, largest: int | None = None) -> None:
        self.rest = bytearray()
        self.largest = largest

    def feed(self, piece: bytes) -> Iterator[tuple[MessageKind, bytes]]:
        self.rest += piece
        at = 0
        while len(self.rest) - at >= HEAD.size:
            size, kind = HEAD.unpack_from(self.rest, at)
            if self.largest is not None and size > self.largest:
                raise ValueError(f"a message of {size} bytes")
            if len(self.rest) - at < HEAD.size + size:
                break
            at += HEAD.size
            yield MessageKind(kind), bytes(self.rest[at : at + size])
            at += size
        del self.rest[:at]


class Line:
    """The child's end: blocks until a message is there."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.frames = Frames()
        self.waiting: list[tuple[MessageKind, bytes]] = []
        self.turn = threading.RLock()
        """Threads of the user's code may have something to tell while an answer is sent; so may a signal handler."""

    def read(self) -> tuple[MessageKind, bytes] | None:
        """Return the next message; None when the other side is gone."""
        while not self.waiting:
            piece = self.connection.recv(BLOCK)
            if not piece:
                return None
            self.waiting = list(self.frames.feed(piece))
        return self.waiting.pop(0)

    def send(self, kind: MessageKind, content: bytes) -> None:
        with self.turn:
            self.connection.sendall(frame(kind, content))
