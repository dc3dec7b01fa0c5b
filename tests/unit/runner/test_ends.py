"""Which errors of the user's code may pass."""

from __future__ import annotations

import errno
import socket

import pytest

from scalable.worker.runner import ends


class LibraryError(OSError):
    """As that of requests: no connection error of Python's own."""


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (OSError(errno.EHOSTUNREACH, "No route to host"), ends.TRANSIENT),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), ends.TRANSIENT),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), ends.RAISED),
        (FileNotFoundError(errno.ENOENT, "No such file"), ends.RAISED),
        (ValueError("bad input"), ends.RAISED),
    ],
)
def test_what_may_pass_is_told_from_what_would_come_again(error: Exception, cause: str) -> None:
    assert ends.cause_of(error) == cause
    wrapped = LibraryError("no answer")
    wrapped.__context__ = RuntimeError("gave up")
    wrapped.__context__.__cause__ = error
    assert ends.cause_of(wrapped) == cause


def test_an_error_of_the_code_is_its_own_though_a_connection_failed_before() -> None:
    error = ValueError("nothing to read")
    error.__context__ = ConnectionResetError()
    assert ends.cause_of(error) == ends.RAISED
    hidden = LibraryError("not configured")
    hidden.__context__, hidden.__suppress_context__ = ConnectionResetError(), True
    assert ends.cause_of(hidden) == ends.RAISED
