"""Places across processes that share a store on a server."""

from __future__ import annotations

import time

import pytest

from scalable.store import Lease, open_store
from scalable.testing.store_extras import one_at_a_time
from tests.helpers.store.leases import LeaseContract


class TestPostgresql(LeaseContract):
    """The place that ``url`` names."""


def test_no_clock_but_the_servers_decides_who_is_dead(server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(server_url) as store:
        holder = store.leases().ask("holder", "normal")
        assert isinstance(holder.try_take(one_at_a_time), Lease)
        real = time.time
        for shift in (-1e6, 1e6):
            monkeypatch.setattr(time, "time", lambda shift=shift: real() + shift)
            with open_store(server_url) as elsewhere:
                other = elsewhere.leases().ask("other", "normal")
                assert other.try_take(one_at_a_time) == "holder is first"
                assert abs(elsewhere.leases().list()[-1].requested_at - real()) < 60
                assert holder.beat()
                other.release()
