"""Sweeps that are logged at once, later, or not at all: the sweep goes on whatever the server does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scalable.store.tracking import SweepRecord, open_tracker
from tests.helpers.tracking.desk import Desk, desk, record
from tests.helpers.tracking.tracker import nothing_set

__all__ = ["nothing_set"]


PATIENCE_S = 60.0


def logged(server: Desk, folder: Path, *records: SweepRecord) -> list[str]:
    """Log records with a tracker of their own; what it told."""
    told: list[str] = []
    with open_tracker(server.url, outbox=folder, tell=told.append) as one:
        for each in records:
            one.log(each)
    return told


def test_a_sweep_is_one_run_with_params_metrics_decision_and_rows(tmp_path: Path) -> None:
    with desk() as server:
        assert logged(server, tmp_path, record()) == []

    (created,) = server.bodies("runs/create")
    assert (created["run_name"], created["start_time"], created["experiment_id"]) == ("calibration", 1_000_000, "1")
    params, metrics, tags = server.bodies("runs/log-batch")
    assert params["params"] == [
        {"key": "factor", "value": "calibration"},
        {"key": "assets", "value": '["X", "Y"]'},
    ]
    assert metrics["metrics"] == [{"key": "sigmoid/sharpe", "value": 3.0, "timestamp": 1_060_500, "step": 0}]
    assert {one["key"]: one["value"] for one in tags["tags"]} == {
        "verdict": "LOCK",
        "why": '{"p": 0.01}',
        "mlflow.loggedArtifacts": '[{"path": "rows.json", "type": "table"}]',
    }
    assert server.bodies("mlflow-artifacts/artifacts/1/7/artifacts/rows.json") == [
        {
            "columns": ["variant", "asset", "sharpe", "odd"],
            "data": [["none", "X", 1.0, None], ["none", "Y", 2.0, None], ["sigmoid", "X", 3.0, 5]],
        }
    ]
    assert server.bodies("runs/update") == [{"run_id": "7", "status": "FINISHED", "end_time": 1_060_500}]
    assert not list(tmp_path.iterdir())


def test_more_than_a_request_may_hold_is_sent_in_several(tmp_path: Path) -> None:
    params = {f"p{number}": number for number in range(250)}
    with desk() as server:
        logged(server, tmp_path, record(params=params, rows=[], metrics={}, decision={}))
    assert [len(body["params"]) for body in server.bodies("runs/log-batch")] == [100, 100, 50]


def test_a_server_that_is_down_costs_a_warning_and_the_next_sweep_logs_both(tmp_path: Path) -> None:
    with desk() as server:
        port = int(server.url.rpartition(":")[2])
    told = logged(server, tmp_path, record())
    assert len(told) == 2
    assert "MLflow cannot be reached, the sweep goes on and is logged later: http://127.0.0.1" in told[0]
    assert told[1] == (f"1 sweep could not be logged to MLflow yet; kept in {tmp_path}, the next sweep logs them")

    with desk(port) as again:
        assert logged(again, tmp_path, record(id="second")) == []
    assert len(again.bodies("runs/create")) == 2
    assert not list(tmp_path.glob("*.json"))


def test_a_server_that_comes_back_is_told_within_the_sweep(tmp_path: Path) -> None:
    told: list[str] = []
    with desk() as server, open_tracker(server.url, outbox=tmp_path, tell=told.append) as one:
        server.status, server.said = 503, "overloaded"
        one.log(record())
        assert not one.flush(PATIENCE_S, tries=2)
        server.status = 200
        assert one.flush(PATIENCE_S)
    assert len(told) == 1
    assert "answered 503: overloaded" in told[0]


def test_a_server_that_forbids_is_said_with_what_to_set_and_asked_once(tmp_path: Path) -> None:
    with desk() as server:
        server.status = 401
        told = logged(server, tmp_path, record())
        assert len(server.asked) == 1
    assert "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD" in told[0]
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_what_a_server_rejects_is_kept_aside_and_does_not_hold_up_others(tmp_path: Path) -> None:
    with desk() as server:
        server.status, server.said = 400, '{"error_code": "INVALID_PARAMETER_VALUE"}'
        (told,) = logged(server, tmp_path, record())
        assert "INVALID_PARAMETER_VALUE" in told
        server.status = 200
        assert logged(server, tmp_path, record(id="second")) == []
    assert [path.name for path in tmp_path.iterdir()] == ["run-20260415-lab-1a2b.rejected"]


def test_records_for_another_server_are_left_to_it(tmp_path: Path) -> None:
    with desk() as one, desk() as other:
        one.status = 503
        logged(one, tmp_path, record())
        assert logged(other, tmp_path, record(id="second")) == []
        assert len(other.bodies("runs/create")) == 1
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_a_folder_that_cannot_be_written_costs_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with desk() as server:
        (told,) = logged(server, tmp_path / "file", record())
    assert "sweep calibration is not logged" in told


def test_the_variable_names_the_server_and_the_password_stays_out_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk() as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url.replace("//", "//me:secret@"))
        with open_tracker(outbox=tmp_path) as one:
            server.status = 403
            one.log(record())
            one.flush(PATIENCE_S)
            (kept,) = tmp_path.glob("*.json")
            assert "secret" not in kept.read_text()
        assert server.headers[0]["Authorization"] == "Basic bWU6c2VjcmV0"


def test_a_record_that_another_driver_is_sending_is_left_to_it(tmp_path: Path) -> None:
    hold = (
        "import sys; from pathlib import Path; from scalable.store.leases.files import file_lease\n"
        "with file_lease(Path(sys.argv[1]), wait=True): print('held', flush=True); input()"
    )
    command = [sys.executable, "-c", hold, os.fspath(tmp_path / "run-20260415-lab-1a2b.part")]
    with desk() as server, subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        logged(server, tmp_path, record())
        assert server.asked == []
        other.kill()
        other.wait(PATIENCE_S)
        logged(server, tmp_path)
        assert len(server.bodies("runs/create")) == 1
