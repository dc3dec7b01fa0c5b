"""Which errors of the user's code may pass."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request

import pytest

from scalable.worker.runner import ends


def test_a_refused_connection_may_pass_also_as_a_library_tells_it() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with pytest.raises(urllib.error.URLError) as found:
            opener.open(address, timeout=5)
    assert ends.cause_of(found.value) == ends.TRANSIENT
