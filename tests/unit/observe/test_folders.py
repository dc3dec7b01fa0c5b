"""Run folders: their names, what is written in them, and how they are found again."""

from __future__ import annotations

import json
import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable.observe import Journal, RunFolder, RunFolderError, UnknownRunError, runs_dir
from scalable.observe.folders import safe_name

NOON = datetime(2026, 4, 15, 12, 0, 0, 123456, tzinfo=UTC)


def test_a_run_folder_is_named_after_its_time_and_project(tmp_path: Path) -> None:
    folder = RunFolder.create("lab", tmp_path, NOON)
    assert re.fullmatch(r"run-20260415T120000Z-lab-[0-9a-f]{8}", folder.run_id)
    assert folder.path.parent == tmp_path
    assert folder.logs.is_dir()


def test_a_time_of_another_zone_is_written_in_utc(tmp_path: Path) -> None:
    folder = RunFolder.create("lab", tmp_path, NOON.astimezone(datetime.now().astimezone().tzinfo))
    assert folder.run_id.startswith("run-20260415T120000Z-")


@pytest.mark.parametrize(
    ("project", "written"),
    [
        ("Energie Müller", "Energie-Muller"),
        ("../../etc/passwd", "etc-passwd"),
        ("a/b\\c:d*e", "a-b-c-d-e"),
        ("项目", "project"),
        ("", "project"),
        ("..", "project"),
        ("-rf", "rf"),
        ("x" * 300, "x" * 60),
        ("tab\there\nand\0there", "tab-here-and-there"),
        ("\udc80broken", "broken"),
    ],
)
def test_any_project_name_becomes_a_safe_folder_name(project: str, written: str, tmp_path: Path) -> None:
    folder = RunFolder.create(project, tmp_path, NOON)
    assert folder.run_id.startswith(f"run-20260415T120000Z-{written}-")
    assert RunFolder.list(tmp_path) == (folder,)


@given(st.text())
def test_a_safe_name_is_a_plain_name_that_stays_the_same(text: str) -> None:
    name = safe_name(text, "instead")
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", name)
    assert safe_name(name, "instead") == name


def test_runs_of_the_same_moment_get_folders_of_their_own(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        folders = list(threads.map(lambda _: RunFolder.create("lab", tmp_path, NOON), range(100)))
    assert len({folder.path for folder in folders}) == 100


def test_the_latest_run_is_the_one_started_last_also_within_a_second(tmp_path: Path) -> None:
    times = [NOON + timedelta(microseconds=step) for step in (0, 7, 20_000, 2_000_000, 86_400_000_000)]
    folders = [RunFolder.create(project, tmp_path, time) for project, time in zip("zyxwv", times, strict=True)]
    assert RunFolder.list(tmp_path) == tuple(folders)
    assert RunFolder.latest(tmp_path) == folders[-1]


def test_a_run_that_is_dated_in_the_future_is_not_everybodys_latest(tmp_path: Path) -> None:
    planted = RunFolder.create("lab", tmp_path, datetime(2099, 1, 1, tzinfo=UTC))
    ahead = RunFolder.create("lab", tmp_path, datetime.now(UTC) + timedelta(hours=2))  # a clock that is wrong
    ours = RunFolder.create("lab", tmp_path)
    assert RunFolder.list(tmp_path) == (planted, ours, ahead)


def test_other_things_in_the_runs_folder_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text("{}", encoding="utf-8")
    (tmp_path / "run-20260415T120000Z-file-00000000").write_text("", encoding="utf-8")
    (tmp_path / "notes").mkdir()
    assert RunFolder.list(tmp_path) == ()
    assert RunFolder.latest(tmp_path) is None


def test_no_runs_folder_means_no_runs(tmp_path: Path) -> None:
    assert RunFolder.list(tmp_path / "none") == ()
    with pytest.raises(UnknownRunError, match="none is there; SCALABLE_RUNS_DIR says where to look"):
        RunFolder.find(base=tmp_path / "none")


def test_the_place_is_named_then_set_then_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALABLE_RUNS_DIR", raising=False)
    assert runs_dir() == Path(".scalable/runs")
    monkeypatch.setenv("SCALABLE_RUNS_DIR", str(tmp_path / "set"))
    assert RunFolder.create("lab").path.parent == tmp_path / "set"
    assert RunFolder.create("lab", tmp_path / "named").path.parent == tmp_path / "named"


def test_a_folder_stays_valid_when_the_program_changes_its_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = RunFolder.create("lab", "runs")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    folder.write_run({"project": "lab"})
    assert (tmp_path / "runs" / folder.run_id / "run.json").exists()


def test_a_place_that_cannot_be_used_is_named_with_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"file.*set SCALABLE_RUNS_DIR to a folder you may write to"):
        RunFolder.create("lab", tmp_path / "file")


def test_a_run_is_opened_by_its_id_or_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder.create("lab", tmp_path)
    assert RunFolder.open(folder.run_id, tmp_path) == folder
    assert RunFolder.open(folder.path, tmp_path / "elsewhere") == folder
    monkeypatch.chdir(tmp_path)
    assert RunFolder.open(folder.run_id, "elsewhere") == folder


@pytest.mark.parametrize(
    "name", ["run-20260415T120000Z-lab-00000000", "nonsense", "", ".", "..", "/", "a/b", "x" * 500]
)
def test_an_unknown_run_is_refused_with_the_latest_ones(name: str, tmp_path: Path) -> None:
    runs = [RunFolder.create("lab", tmp_path, NOON + timedelta(hours=hour)) for hour in range(7)]
    with pytest.raises(UnknownRunError) as refused:
        RunFolder.open(name, tmp_path)
    named = [run.run_id for run in runs if run.run_id in str(refused.value)]
    assert named == [run.run_id for run in runs[-5:]]


def test_the_latest_run_of_one_manifest_is_found_among_others(tmp_path: Path) -> None:
    first, second, third = (RunFolder.create("lab", tmp_path, NOON + timedelta(hours=hour)) for hour in range(3))
    first.write_run({"manifest": str(tmp_path / "a.yaml")})
    second.write_run({"manifest": str(tmp_path / "b.yaml")})
    assert RunFolder.find(manifest=tmp_path / "x/../a.yaml", base=tmp_path) == first
    assert RunFolder.find(manifest=tmp_path / "b.yaml", base=tmp_path) == second
    assert RunFolder.find(base=tmp_path) == third
    with pytest.raises(UnknownRunError, match=r"no run of .*c\.yaml is recorded"):
        RunFolder.find(manifest=tmp_path / "c.yaml", base=tmp_path)


def test_the_latest_run_is_ones_own_where_others_record_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    own, other = RunFolder.create("lab", tmp_path, moment), RunFolder.create("lab", tmp_path)
    monkeypatch.setattr(RunFolder, "is_mine", lambda run: run == own)
    assert RunFolder.latest(tmp_path) == own
    monkeypatch.setattr(RunFolder, "is_mine", lambda run: False)
    assert RunFolder.latest(tmp_path) == other


def test_what_is_running_is_written_whole_and_without_secrets(tmp_path: Path) -> None:
    folder = RunFolder.create("lab", tmp_path)
    folder.write_run({"command": "run --token abc", "store": "postgresql://u:hunter2@db/x", "path": tmp_path})
    folder.write_run({**folder.facts(), "project": "Müller"})
    seal = folder.facts()["seal"]
    assert folder.is_sealed()
    assert folder.facts() == {
        "seal": seal,
        "command": "run --token ***",
        "store": "postgresql://u:***@db/x",
        "path": str(tmp_path),
        "project": "Müller",
    }
    assert sorted(path.name for path in folder.path.iterdir()) == ["logs", "run.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"null", b"[" * 100_000])
def test_a_run_file_that_cannot_be_read_says_nothing(content: bytes, tmp_path: Path) -> None:
    folder = RunFolder.create("lab", tmp_path)
    folder.run_file.write_bytes(content)
    assert folder.facts() == {}


def test_a_report_is_written_beside_then_renamed(tmp_path: Path) -> None:
    folder = RunFolder.create("lab", tmp_path)
    folder.write_report({"run": {"state": "ok"}})
    assert json.loads(folder.report_file.read_text(encoding="utf-8")) == {"run": {"state": "ok"}}


def test_a_file_that_cannot_be_replaced_leaves_nothing_beside_it(tmp_path: Path) -> None:
    folder = RunFolder.create("lab", tmp_path)
    folder.report_file.mkdir()
    with pytest.raises(RunFolderError, match=r"report\.json cannot be written"):
        folder.write_report({})
    assert sorted(path.name for path in folder.path.iterdir()) == ["logs", "report.json"]


def test_logs_of_odd_worker_names_stay_apart_and_in_their_folder(tmp_path: Path) -> None:
    folder = RunFolder.create("lab", tmp_path)
    names = ["demeter-1", "a/b", "a b", "a:b", "../up", "é", "è", "", "x" * 300, "x" * 301, "."]
    logs = [folder.log(name) for name in names]
    assert len(set(logs)) == len(names)
    for log in logs:
        log.write_text("hello", encoding="utf-8")
        assert log.parent == folder.logs
    assert folder.log("demeter-1").name == "demeter-1.log"


@pytest.mark.parametrize(("shared", "folders", "files"), [(False, 0o700, 0o600), (True, 0o750, 0o640)])
def test_a_run_is_its_users_own_unless_the_runs_folder_is_shared_with_a_group(
    tmp_path: Path, shared: bool, folders: int, files: int
) -> None:
    if shared:
        tmp_path.chmod(0o2775)
    before = os.umask(0o022)
    try:
        run = RunFolder.create("lab", tmp_path)
        run.write_run({"project": "lab"})
        Journal(run.journal).close()
    finally:
        os.umask(before)
    made = {path: stat.S_IMODE(path.stat().st_mode) & 0o777 for path in (run.path, run.logs)}
    assert made == dict.fromkeys(made, folders)
    written = {path: stat.S_IMODE(path.stat().st_mode) for path in (run.run_file, run.journal)}
    assert written == dict.fromkeys(written, files)
