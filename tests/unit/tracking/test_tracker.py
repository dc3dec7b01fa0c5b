"""Sweeps that are logged at once, later, or not at all: the sweep goes on whatever the server does."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from scalable.store.tracking import SweepRecord, TrackingError, averaged, open_tracker
from tests.helpers.tracking.desk import ROWS, record
from tests.helpers.tracking.tracker import nothing_set

__all__ = ["nothing_set"]


def test_metrics_of_a_variant_are_the_means_of_its_rows() -> None:
    assert averaged(ROWS, ["sharpe", "odd", "none such"]) == {
        "none/rows": 2,
        "none/sharpe": 1.5,
        "sigmoid/rows": 1,
        "sigmoid/sharpe": 3,
        "sigmoid/odd": 5,
    }


def test_a_record_is_the_same_after_it_waited_in_a_file() -> None:
    one = record(metrics={"a": 1.5}, rows=[{"x": 1, "y": "z"}])
    assert SweepRecord.from_json(one.to_json()) == one


def test_without_a_server_nothing_is_logged_or_written(tmp_path: Path) -> None:
    with open_tracker(outbox=tmp_path / "none") as one:
        one.log(record())
        assert one.flush()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("url", ["sqlite:///mlflow.db", "./mlruns", "http://", "http://host:port", "databricks"])
def test_what_is_no_server_is_refused_where_it_is_written_and_a_warning_in_the_environment(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(TrackingError, match=r"is no MLflow server; write its address, e.g. http://localhost:5000"):
        open_tracker(url)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
    with caplog.at_level(logging.WARNING), open_tracker(outbox=tmp_path) as one:
        one.log(record())
    assert "MLFLOW_TRACKING_URI is not used" in caplog.text


@pytest.mark.parametrize("password", ["secret", "sec/ret", "sec@ret", "sec ret#?"])
def test_an_address_that_is_refused_is_shown_without_its_password(password: str) -> None:
    with pytest.raises(TrackingError) as refused:
        open_tracker(f"http://me:{password}@host:none")
    assert "'http://host:none'" in str(refused.value) and "sec" not in str(refused.value)
