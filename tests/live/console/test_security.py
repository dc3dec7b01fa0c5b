"""Whoever was not shown the address reads nothing and does nothing, over real HTTP."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalable.show.console.guard import TOKEN_HEADER, AccessGuard, is_loopback
from tests.helpers.browser.serving import served
from tests.helpers.console.client import Client, token_of
from tests.helpers.observe.builders import a_run, sweep_started

HOSTILE = "<script>alert(1)</script>"
READ = ("/api/session", "/api/runs", "/api/stream", "/api/results", "/api/incident", "/api/log")


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccessGuard]:
    runs = tmp_path_factory.mktemp("runs")
    a_run(runs, sweep_started(HOSTILE))
    with served(runs) as found:
        yield found


@pytest.fixture
def client(guard: AccessGuard) -> Client:
    return Client(guard)


def test_an_address_lets_one_page_in_and_no_answer_sets_a_cookie(client: Client) -> None:
    stranger, token = Client(client.guard, token=""), token_of(client.guard.invite())
    page, entered, again = stranger.get("/"), stranger.enter(token), stranger.enter(token)
    assert page.status == 200 and page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert (entered.status, again.status) == (200, 403) and "Press Enter" in again.json["error"]
    assert all("Set-Cookie" not in answer.headers for answer in (page, entered, again))
    session = entered.json["token"]
    assert session != token and Client(client.guard, token=session).get("/api/runs").status == 200
    assert stranger.enter(session).status == 403


def test_what_another_server_of_this_machine_may_learn_from_a_browser_opens_nothing(client: Client) -> None:
    """Browsers send cookies and what is in a query to other ports and into logs; neither counts."""
    stranger = Client(client.guard, token="")
    for path, headers in (
        ("/api/runs", {"Cookie": f"scalable_console_{client.guard.port}={client.token}"}),
        (f"/api/runs?token={client.token}", {}),
        ("/api/runs", {"Authorization": f"Bearer {client.token}"}),
    ):
        assert stranger.get(path, headers).status == 403


@pytest.mark.parametrize("token", ["", "wrong", "ä", "{invited}"])
def test_without_the_token_of_a_session_nothing_is_read(client: Client, token: str) -> None:
    stranger = Client(client.guard, token=token.format(invited=token_of(client.guard.invite())))
    for path in READ:
        refused = stranger.get(path)
        assert refused.status == 403 and "Press Enter" in refused.json["error"], path
    assert stranger.post({"action": "pause", "run": "x"}).status == 403
    assert stranger.enter("wrong").status == 403


def test_a_name_that_somebody_lets_point_here_is_refused(client: Client) -> None:
    port = client.guard.port
    for host in (
        f"evil.example:{port}",
        "127.0.0.1",
        f"127.0.0.1:{port + 1}",
        f"127.0.0.1.evil.example:{port}",
        "",
        "x y",
    ):
        for path in ("/", "/api/runs", "/nowhere"):
            assert client.get(path, {"Host": host}).status in (400, 403), (host, path)
    assert client.get("/api/runs", {"Host": f"localhost:{port}"}).status == 200


def test_requests_of_other_sites_are_refused(client: Client) -> None:
    for headers in (
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": f"https://{client.host}"},
        {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
    ):  # fmt: skip
        assert client.get("/api/session", headers).status == 403, headers
        assert client.post({"action": "pause", "run": "x"}, headers).status == 403, headers
    assert client.get("/api/session", {"Sec-Fetch-Site": "same-origin"}).status == 200


def test_a_form_of_another_site_does_nothing(client: Client) -> None:
    """It can send what looks like JSON, as one of three types and without our header."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        refused = client.post({"action": "kill", "run": "x"}, {"Content-Type": kind})
        assert refused.status == (400 if "multipart" in kind else 415) and not refused.json["ok"]
    for token in ("", "wrong"):
        assert client.post({"action": "kill", "run": "x"}, {TOKEN_HEADER: token}).status == 403


ELSEWHERE = (
    "/static/../server.py", "/static/..", "/static/%2e%2e/server.py", "/static/..%2fserver.py", "/api",
    "/static/%2e%2e%2fguard.py", "/static//etc/passwd", "/static/.hidden.js", "/static/none.js", "/../../etc/passwd",
    "/static/", "/server.py",
)  # fmt: skip


@pytest.mark.parametrize("path", ELSEWHERE)
def test_paths_lead_nowhere_but_to_the_pages_own_files(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status == 404 and answer.json == {"ok": False, "error": "there is nothing here"}


@pytest.mark.parametrize("run", ["..", "../x", "/etc", "run-20260101T000000Z-../../x-00000000", "..%00", "x" * 5000])
def test_a_path_is_no_id_of_a_run(client: Client, run: str) -> None:
    for path in ("/api/stream?run={}", "/api/results?run={}&sweep=s", "/api/incident?run={}&id=1", "/api/log?run={}"):
        answer = client.get(path.format(run))
        assert answer.status == 404 and "no id of a run" in answer.json["error"], path
    assert client.post({"action": "pause", "run": run}).status == 404


def test_a_run_is_asked_for_only_by_the_folders_own_names(client: Client) -> None:
    (run,) = client.get("/api/runs").json
    for worker in ("../../journal", "/etc/passwd", "w1"):
        answer = client.get(f"/api/log?run={run['run_id']}&worker={worker}")
        assert answer.status == 404 and "has no log" in answer.json["error"]
    for number in ("../1", "-1", "1e3", "", "7"):
        answer = client.get(f"/api/incident?run={run['run_id']}&id={number}")
        assert answer.status in (400, 404) and answer.json["error"]


def test_only_what_is_meant_to_be_done_with_a_path_can_be_done(client: Client) -> None:
    for path in ("/", "/api/runs", "/static/app.js", "/api/action"):
        for method in ("HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", *(["GET"] if path == "/api/action" else ["POST"])):
            assert client.get(path, method=method).status == 405, (method, path)


def test_html_in_a_name_arrives_as_data_only(client: Client) -> None:
    runs = client.get("/api/runs")
    assert runs.json[0]["sweeps"] == [HOSTILE]
    assert runs.headers["Content-Type"] == "application/json; charset=utf-8"
    with client.stream() as stream:
        assert stream.answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert stream.until("sweeps")[0]["name"] == HOSTILE
    assert HOSTILE.encode() not in client.get(f"/?run={HOSTILE}").body


def test_every_answer_forbids_what_the_page_does_not_need(client: Client) -> None:
    for path in ("/", "/api/runs", "/nowhere", "/static/app.js"):
        headers = client.get(path).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"] and "Server" not in headers
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"


def test_damaged_and_huge_actions_are_refused(client: Client) -> None:
    headers = {"Content-Type": "application/json"}
    for body in (b"", b"[", b"[]", b'{"action": 3}', b'{"run": 1}', b"\xff", b"[" * 10_000):
        assert client.get("/api/action", headers, method="POST", body=body).status == 400
    assert client.get("/api/action", {**headers, "Content-Length": "100000"}, method="POST").status in (400, 413)


def test_a_read_only_console_shows_and_does_nothing(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    with served(tmp_path, read_only=True) as guard:
        client = Client(guard)
        assert client.get("/api/session").json["read_only"] is True
        refused = client.post({"action": "pause", "run": run.run_id})
        assert refused.status == 403 and "read-only" in refused.json["error"]
        assert client.get("/api/runs").status == 200 and not run.control.exists()


def test_the_pages_files_have_their_types_and_are_asked_for_anew(client: Client) -> None:
    page = client.get("/").body.decode()
    names = {part.partition('"')[0] for part in page.split("/static/")[1:]}
    assert names
    for name in names:
        file = client.get(f"/static/{name}")
        kind = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}[name.rpartition(".")[2]]
        assert file.status == 200 and file.headers["Content-Type"].startswith(kind)
        assert file.headers["Cache-Control"] == "no-cache"
        again = client.get(f"/static/{name}", {"If-None-Match": file.headers["Etag"]})
        assert again.status == 304 and again.body == b""


def test_where_other_machines_are_let_in_numbers_and_own_names_are_hosts() -> None:
    guard = AccessGuard("0.0.0.0", 8788)
    assert guard.is_ours("192.168.0.7:8788") and guard.is_ours("[fe80::1]:8788") and guard.is_ours("localhost:8788")
    assert not guard.is_ours("evil.example:8788") and not guard.is_ours("192.168.0.7")
    assert "0.0.0.0" not in (address := guard.invite()) and guard.is_ours(address.split("/")[2])
    assert [is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")] == [True] * 4
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "10.0.0.1", "example.org", ""))
    assert json.dumps(AccessGuard("::1", 1).invite()).startswith('"http://[::1]:1/')


def test_a_slow_name_server_is_asked_once_and_not_by_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def slow() -> str:
        asked.append("lab.example")
        return asked[0]

    monkeypatch.setattr(socket, "getfqdn", slow)
    guard = AccessGuard("10.20.30.40", 8788)
    assert all(guard.is_ours("lab.example:8788") for _ in range(3))
    assert len(asked) == 1


def test_of_a_log_with_endless_lines_a_bounded_part_is_sent_and_that_is_said(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    with run.log("w1").open("wb") as file:
        file.truncate(1 << 32)  # a line of zeros, which takes no room
        file.seek(0, 2)
        file.write(b"\n" + b"x" * 100_000 + b"\nlast\n")
    with served(tmp_path) as guard:
        answer = Client(guard).get(f"/api/log?run={run.run_id}&worker=w1")
    assert answer.json["cut"] is True and [len(line) for line in answer.json["lines"]] == [8205, 4]


def test_a_pipe_in_place_of_a_journal_or_report_holds_nobody_up(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    run.journal.unlink()
    for path in (run.journal, run.report_file):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    with served(tmp_path) as guard:
        client = Client(guard)
        assert [one["state"] for one in client.get("/api/runs").json] == ["cannot be read"]
        assert client.get(f"/api/stream?run={run.run_id}").status == 409
