"""Alerts of a real session: each is provoked, told in journal, webhook, live.json and /metrics, and over in the end.

The rules are the real ones with shorter durations. One session has all the troubles at once, since each of them needs
workers, and workers need seconds.
"""

from __future__ import annotations

PROVOKED = {
    "WorkerMemory": "warning",
    "RunLong": "warning",
    "Stuck": "page",
    "RetriesUsed": "warning",
    "PendingWork": "warning",
    "ScaleUpSlow": "warning",
    "DependencyDown": "warning",
}
