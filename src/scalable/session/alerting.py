"""Tells of alerts while a session lives: in its journal, in the terminal, and to a webhook. Never raises, never waits.

Every look of the driver that brings new figures applies the rules of ``scalable.observe.alerts``. What is told
elsewhere in better words is not repeated in the terminal, and many alerts of one rule at once are one line, or one
message.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from scalable.observe.alerts import TOLD_OTHERWISE, Change, Rule, Watch
from scalable.session.webhook import Webhook
from scalable.wording import some_of

if TYPE_CHECKING:
    from scalable.observe.journal import Journal
    from scalable.observe.metrics import Sample

logger = logging.getLogger("scalable")

SAY_AFTER_S = 5.0  # what passes sooner is in the journal, and not worth a line in the terminal
Key = tuple[str, tuple[tuple[str, str], ...]]
MOST_LISTED = 5  # alerts of one rule that are told one by one in a line or message


class Alerting:
    def __init__(self, rules: Sequence[Rule], journal: Journal, webhook: Webhook | None = None) -> None:
        self.watch = Watch(rules)
        self.journal = journal
        self.webhook = webhook
        self.said: set[Key] = set()

    def look(self, samples: Iterable[Sample], now: float) -> None:
        changes = self.watch.evaluate(samples, now)
        groups: dict[tuple[str, str], list[Change]] = {}
        for change in changes:
            self.journal.write("alert", **change.to_record())
            groups.setdefault((change.rule.name, change.state), []).append(change)
        if self.webhook is not None:
            for those in groups.values():
                self.webhook.send(those, now)
        self.say(self.watch.firing, now)

    def say(self, firing: Iterable[Change], now: float) -> None:
        """In the terminal, what lasts; and that it is over."""
        lasting = {
            (one.rule.name, tuple(one.labels.items())): one
            for one in firing
            if one.rule.name not in TOLD_OTHERWISE and now - one.since >= SAY_AFTER_S
        }
        groups: dict[str, list[Change]] = {}
        for key, one in lasting.items():
            if key not in self.said:
                groups.setdefault(one.rule.name, []).append(one)
        for those in groups.values():
            findings = [one.finding for one in those]
            logger.warning("%s; %s", some_of([each.message for each in findings], MOST_LISTED), findings[0].remedy)
        for name, labels in sorted(self.said - lasting.keys()):
            logger.warning("over: %s", ", ".join([name, *(value for _, value in labels)]))
        self.said = set(lasting)

    def firing(self) -> list[dict[str, Any]]:
        return [{**one.to_record(), "since": one.since} for one in self.watch.firing]

    def close(self) -> None:
        if self.webhook is not None:
            self.webhook.close()
