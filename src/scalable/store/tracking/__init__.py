"""Sweeps logged to an MLflow server: from a thread of the driver, and later if the server is down."""

from scalable.store.tracking.mlflow import Status, SweepRecord, TrackingError, averaged
from scalable.store.tracking.tracker import Tracker, open_tracker

__all__ = ["Status", "SweepRecord", "Tracker", "TrackingError", "averaged", "open_tracker"]
