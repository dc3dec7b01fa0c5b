"""Whoever was not shown the address reads nothing and does nothing, over real HTTP."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.browser.serving import served
from tests.helpers.console.client import Client
from tests.helpers.console.security import client, guard
from tests.helpers.observe.builders import a_run

__all__ = ["client", "guard"]


def test_the_address_opens_the_page_and_leaves_the_token_in_a_cookie_only(client: Client) -> None:
    stranger = Client(client.guard, cookie="")
    opened = stranger.get(f"/?token={client.guard.token}")
    assert opened.status == 302 and opened.headers["Location"] == "/"
    cookie = opened.headers["Set-Cookie"]
    assert all(word in cookie for word in (client.guard.token, "HttpOnly", "SameSite=Strict", "Path=/"))
    page = Client(client.guard, cookie=cookie.partition(";")[0]).get("/")
    assert page.status == 200 and page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert client.guard.token.encode() not in page.body and client.guard.acting.encode() not in page.body


def test_a_read_only_console_shows_and_does_nothing(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    with served(tmp_path, read_only=True) as guard:
        client = Client(guard)
        session = client.get("/api/session").json
        assert session["read_only"] is True and session["token"] == ""
        refused = client.post({"action": "pause", "run": run.run_id})
        assert refused.status == 403 and "read-only" in refused.json["error"]
        assert client.get("/api/runs").status == 200 and not run.control.exists()
