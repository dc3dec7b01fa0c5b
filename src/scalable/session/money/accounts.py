"""Expenses that this month's budget must pay besides this session and what is in the history.

A run enters into the history what it cost when it ends. One that was killed never did, so whoever starts next enters
it. Sessions that run at the same time are paid from the same budget: what they spend is read from their journals now
and then, a few new lines each time.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from decimal import Decimal

from scalable.errors import ScalableError
from scalable.machine_hours import HeldResources
from scalable.observe.fields import month
from scalable.observe.folders import RunFolder, state_file
from scalable.observe.history import FILE, known, learn
from scalable.observe.journal import Records, read
from scalable.observe.liveness import LOOKED_AT, is_running
from scalable.observe.view import RunView
from scalable.quantities import Money

logger = logging.getLogger("scalable")


def catch_up(own: RunFolder) -> None:
    """Learn from runs that were killed before they could say what they cost."""
    base = own.path.parent
    try:
        learned = set(known(state_file(FILE, base)).get("runs", ()))
        for run in RunFolder.list(base)[-LOOKED_AT:]:
            if run != own and run.run_id not in learned and not is_running(run):
                with suppress(OSError):  # another user's run
                    learn(base, RunView.of(read(run.journal)))
    except ScalableError as error:  # a spoilt history: the runs themselves are recorded
        logger.warning("%s", error)


class SessionAccount:
    """One other session."""

    def __init__(self, run: RunFolder) -> None:
        self.records = Records(run.journal)
        self.view = RunView()

    def look(self) -> None:
        with suppress(OSError):  # another user's, or a disk that does not answer: what is known of it counts on
            for record in self.records.new():
                if record["kind"] in ("cost", "gauge", "hours"):
                    self.view.take(record)

    def spent(self, currency: str) -> Decimal:
        """Return what it paid this month by now, in this money."""
        self.look()
        paid = self.view.spent_by_month.get(month(time.time()))
        return paid.amount if paid is not None and paid.currency == currency else Decimal(0)


class Others:
    """Sessions beside this one: those that ran when it began, and those that began since."""

    def __init__(self, own: RunFolder, currency: str) -> None:
        self.base, self.currency = own.path.parent, currency
        before = RunFolder.list(self.base)
        self.known = {run.run_id for run in before}
        self.accounts = [SessionAccount(run) for run in before[-LOOKED_AT:] if run != own and is_running(run)]
        self.before, self.hours_before = self.spent(), self.hours()
        """When this one began; its own part of the budgets is without that already."""

    def spent(self) -> Money:
        """Return what they spent. Never raises: who asks is in the middle of other things, and asks again."""
        self.find()
        return Money(sum((account.spent(self.currency) for account in self.accounts), Decimal(0)), self.currency)

    def since(self) -> Money:
        """Return what they have spent from this session's beginning on."""
        return self.spent() - self.before

    def hours(self) -> HeldResources:
        """Return core-, node- and GPU-hours that they have used; never raises either."""
        self.find()
        for account in self.accounts:
            account.look()
        return sum((account.view.hours.used for account in self.accounts), HeldResources())

    def hours_since(self) -> HeldResources:
        """Return what they have used from this session's beginning on."""
        return self.hours() + self.hours_before * -1.0

    def find(self) -> None:
        """Count sessions in that began since the last look."""
        with suppress(ScalableError):
            for run in RunFolder.list(self.base):
                if run.run_id not in self.known:
                    self.known.add(run.run_id)
                    self.accounts.append(SessionAccount(run))
