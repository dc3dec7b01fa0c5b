"""Frames are read as they were written, and what is none is refused before anything of it is kept."""

from __future__ import annotations

import asyncio

import pytest

from scalable.cluster.kubernetes.relay.link import (
    CHUNK,
    HEADER,
    LONGEST,
    Frame,
    FrameError,
    FrameKind,
    encoded,
    place,
    plain,
    read,
)

GIBIBYTES_4 = 2**32 - 1


def decoded(data: bytes) -> Frame:
    async def reading() -> Frame:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        return await asyncio.wait_for(read(reader), 5)  # no end: whoever waits for more fails

    return asyncio.run(reading())


@pytest.mark.parametrize("kind", FrameKind)
def test_every_kind_is_read_as_it_was_written_at_its_longest(kind: FrameKind) -> None:
    payload = b"x" * LONGEST.get(kind, 0)
    assert decoded(encoded(kind, 7, payload)) == Frame(kind, 7, payload)


@pytest.mark.parametrize("kind", FrameKind)
def test_a_frame_longer_than_its_kind_allows_is_refused_by_its_header(kind: FrameKind) -> None:
    for length in (LONGEST.get(kind, 0) + 1, GIBIBYTES_4):
        with pytest.raises(FrameError, match=f"{kind.name} of {length} bytes"):
            decoded(HEADER.pack(kind, 1, length))


def test_a_kind_that_there_is_not_is_refused() -> None:
    with pytest.raises(FrameError, match="no frame has the kind 71"):
        decoded(b"GET / HTTP/1.1\r\n\r\n")


def test_a_place_is_read_as_it_was_written() -> None:
    assert decoded(encoded(FrameKind.OPEN, 2, place("fd00::1", 8786))).place == ("fd00::1", 8786)


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x01\x02\xff\xff"])
def test_a_place_that_cannot_be_read_is_refused(payload: bytes) -> None:
    with pytest.raises(FrameError, match="nowhere"):
        _ = Frame(FrameKind.OPEN, 2, payload).place


def test_a_window_must_have_its_size() -> None:
    with pytest.raises(FrameError, match="a window of 3 bytes"):
        _ = Frame(FrameKind.WINDOW, 2, b"abc").amount


def test_reasons_are_cut_to_what_a_frame_may_carry() -> None:
    assert len(decoded(encoded(FrameKind.CLOSE, 1, "ä" * CHUNK)).payload) == LONGEST[FrameKind.CLOSE]


@pytest.mark.parametrize(
    ("written", "meant"),
    [("10.0.0.1", "10.0.0.1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("FD00:0::1", "fd00::1"), ("Node-1", "node-1")],
)
def test_addresses_are_the_same_however_they_are_written(written: str, meant: str) -> None:
    assert plain(written) == meant
