"""What a person does on the page reaches a real session: a sweep that runs in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from scalable.observe import RunFolder
from tests.helpers.browser.serving import PATIENCE_S, served
from tests.helpers.settings import without_settings

MANIFEST = """version: 1
project: {name: small}
targets: {local: {provider: local, max_workers: 2, processes: true}}
profiles: {standard: {request: {cpu: 1, memory: 1GiB}, limit: {cpu: 1, memory: 2GiB}}}
sweeps: {depths: {factor: depth, variants: [1, 2], assets: [A], folds: 2, run: "work:score"}}
"""
WORK = """
import time
from pathlib import Path
from scalable import progress

def score(*, asset, fold, depth):
    for step in range(100_000):
        progress(step, 100_000, "waiting")
        if Path("go").exists():
            return {"accuracy": depth + fold / 10}
        time.sleep(0.05)
"""


@contextmanager
def a_sweep(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """``scalable run`` in a process of its own; its units wait for a file."""
    (folder / "scalable.yaml").write_text(MANIFEST)
    (folder / "work.py").write_text(WORK)
    env = without_settings()
    command = [sys.executable, "-m", "scalable", "run", "--sweep", "depths"]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=said, stderr=said, start_new_session=True)
    try:
        yield process
    finally:
        (folder / "go").touch()
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def test_a_real_sweep_is_paused_resumed_looked_at_killed_at_and_marked_from_the_page(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # results take the project's code, which is run only from its own folder
    runs = tmp_path / ".scalable" / "runs"
    with served(runs) as console, a_sweep(tmp_path) as process:
        page.goto(console.invite())
        busy = page.locator("#workers tbody tr").filter(has_text="busy")
        expect(busy).to_have_count(2)
        assert confirmed(page, "Pause", "Pause") == "paused: 2 jobs may end, 2 more wait"
        expect(page.locator("#paused")).to_have_text(re.compile(r"^paused by \S+ \(console\)$"))
        assert confirmed(page, "Resume", "Resume") == "it goes on"
        expect(page.locator("#paused")).to_be_hidden()

        name = busy.first.get_by_role("button").inner_text()
        page.get_by_role("button", name=name, exact=True).click()
        worker = page.get_by_role("dialog", name=f"Worker {name}")
        assert confirmed(page, "Dump …", "Dump", inside=worker, close=False).startswith("what every thread of")
        expect(page.get_by_role("region", name="Dump")).to_contain_text("work.py")
        page.locator("#ask-cancel").click()
        said = confirmed(page, "Kill worker …", "Kill", inside=worker)
        assert said.startswith(f"killed worker {name}: 1 job is run again elsewhere")
        page.keyboard.press("Escape")
        told = [(one["ask"], one["target"]) for one in journal(runs, "operator")]
        assert told == [("pause", ""), ("resume", ""), ("kill", name)]

        (tmp_path / "go").touch()
        expect(page.locator("#state")).to_have_text("ok")
        assert process.wait(PATIENCE_S) == 0
        expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuetext", "4 of 4 rows, 0 failed")
        page.locator("#panel-results").scroll_into_view_if_needed()
        expect(page.locator("#results-note")).to_contain_text("complete; accuracy decides: ")
        expect(page.locator("#results .interval")).to_have_attribute("aria-label", "from +1 to +1")
        expect(page.locator("#results tbody tr").first).to_contain_text("blocks that do not differ are one measurement")

        page.get_by_role("button", name="Mark results of depths failed").click()
        page.get_by_label("Why").fill("wrong prices")
        page.get_by_role("dialog").get_by_role("button", name="Mark failed").click()
        expect(page.locator("#ask-result")).to_contain_text("4 rows")
        expect(page.locator("#ask-result")).to_contain_text("the next run computes them again")


def confirmed(page: Page, button: str, ok: str, inside: Any = None, *, close: bool = True) -> str:
    """What is answered after a button and its confirmation."""
    (inside or page).get_by_role("button", name=button, exact=True).click()
    dialog = page.locator("#ask")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name=ok, exact=True).click()
    expect(dialog.get_by_role("button", name="Close")).to_be_focused()
    said = dialog.locator(".result").inner_text()
    if close:
        page.keyboard.press("Enter")
        expect(dialog).to_be_hidden()
    return said


def journal(runs: Path, kind: str) -> list[dict[str, Any]]:
    [run] = RunFolder.list(runs)
    lines = run.journal.read_text().splitlines()
    return [one for line in lines if line.endswith("}") and (one := json.loads(line))["kind"] == kind]
