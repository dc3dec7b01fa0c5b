"""Sweeps logged to an MLflow server: from a thread of the driver, and later if the server is down."""

from scalable.tracking.errors import TrackingError
from scalable.tracking.records import Status, SweepRecord, averaged
from scalable.tracking.tracker import Tracker, open_tracker

__all__ = ["Status", "SweepRecord", "Tracker", "TrackingError", "averaged", "open_tracker"]
