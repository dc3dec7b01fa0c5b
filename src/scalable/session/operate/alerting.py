"""Tells of alerts while a session lives: in its journal, in the terminal, and to a webhook. Never raises, never waits.

Every look of the driver that brings new figures applies the rules of ``scalable.observe.alerts``. What is told
elsewhere in better words is not repeated in the terminal, and many alerts of one rule at once are one line, or one
message.

``Webhook`` sends ``{"text": …}`` to a web address, which Slack, Mattermost and others take as a message. A thread of
its own sends, so that a server that is slow or gone keeps nobody waiting. The address is a secret: it is in no message,
journal or log. What cannot be sent is told once, in the journal; the run does not suffer.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from scalable.observe.alerts import TOLD_OTHERWISE, AlertChange, AlertWatch, Rule
from scalable.observe.redact import KNOWN, redact_text
from scalable.wording import plural, some_of

if TYPE_CHECKING:
    from scalable.observe.alerts import AlertChange
    from scalable.observe.journal import Journal
    from scalable.observe.metrics import Sample

logger = logging.getLogger("scalable")

SAY_AFTER_S = 5.0  # what passes sooner is in the journal, and not worth a line in the terminal
Key = tuple[str, tuple[tuple[str, str], ...]]
MOST_LISTED = 5  # alerts of one rule that are told one by one in a line or message
TIMEOUT_S = 5.0
TRIES = 2
PAUSE_S = 1.0  # between them
MOST_A_MINUTE = 20  # messages; more are a flood that nobody reads
AGAIN_S = 60.0  # the same alert is not sent more often, nor within the time its rule waits before it fires
MOST_REMEMBERED = 10_000  # alerts
CLOSE_WITHIN_S = 3.0  # for the last message at the end of a session


class Alerting:
    def __init__(self, rules: Sequence[Rule], journal: Journal, webhook: Webhook | None = None) -> None:
        self.watch = AlertWatch(rules)
        self.journal = journal
        self.webhook = webhook
        self.announced: set[Key] = set()

    def look(self, samples: Iterable[Sample], now: float) -> None:
        changes = self.watch.evaluate(samples, now)
        groups: dict[tuple[str, str], list[AlertChange]] = {}
        for change in changes:
            self.journal.write("alert", **change.to_record())
            groups.setdefault((change.rule.name, change.state), []).append(change)
        if self.webhook is not None:
            for those in groups.values():
                self.webhook.send(those, now)
        self.say(self.watch.firing, now)

    def say(self, firing: Iterable[AlertChange], now: float) -> None:
        """Print alerts that last, and that they are over, in the terminal."""
        lasting = {
            (change.rule.name, tuple(change.labels.items())): change
            for change in firing
            if change.rule.name not in TOLD_OTHERWISE and now - change.since >= SAY_AFTER_S
        }
        groups: dict[str, list[AlertChange]] = {}
        for key, change in lasting.items():
            if key not in self.announced:
                groups.setdefault(change.rule.name, []).append(change)
        for those in groups.values():
            findings = [change.finding for change in those]
            logger.warning("%s; %s", some_of([each.message for each in findings], MOST_LISTED), findings[0].remedy)
        for name, labels in sorted(self.announced - lasting.keys()):
            logger.warning("over: %s", ", ".join([name, *(value for _, value in labels)]))
        self.announced = set(lasting)

    def firing(self) -> list[dict[str, Any]]:
        return [{**change.to_record(), "since": change.since} for change in self.watch.firing]

    def close(self) -> None:
        if self.webhook is not None:
            self.webhook.close()


class Webhook:
    def __init__(self, url: str, where: str, tell: Callable[[str], None]) -> None:
        """Name the run by ``where`` in every message; ``tell`` hears once that messages cannot be sent."""
        KNOWN.add({"webhook_secret": url})
        self.url = url
        self.where = where
        self.tell = tell
        self.complained = False
        self.sent: dict[tuple[str, str, str], float] = {}
        """When each alert was last sent, by rule, state and labels."""
        self.recent: deque[float] = deque()
        self.dropped = 0
        self.waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None

    def send(self, changes: list[AlertChange], now: float) -> None:
        """Send alerts of one rule that began or ended together, soon; not those that were sent a moment ago."""
        new = [change for change in changes if self.is_new(change, now)]
        if not new:
            return
        while self.recent and self.recent[0] <= now - 60:
            self.recent.popleft()
        if len(self.recent) >= MOST_A_MINUTE:
            self.dropped += 1
            return
        self.recent.append(now)
        self.waiting.put(self.text(new))
        if self.thread is None:
            self.thread = threading.Thread(target=self.work, name="scalable-webhook", daemon=True)
            self.thread.start()

    def is_new(self, change: AlertChange, now: float) -> bool:
        key = change.rule.name, change.state, str(sorted(change.labels.items()))
        quiet = max(change.rule.for_s, AGAIN_S)
        if len(self.sent) > MOST_REMEMBERED:
            self.sent.clear()
        if now - self.sent.get(key, float("-inf")) < quiet:
            return False
        self.sent[key] = now
        return True

    def text(self, those: list[AlertChange]) -> str:
        first, over = those[0].finding, those[0].state == "resolved"
        lines = [f"*{first.code}* is over" if over else f"*{first.code}* ({first.severity})", self.where]
        lines += [f"• {change.finding.message}" for change in those[:MOST_LISTED]]
        if (more := len(those) - MOST_LISTED) > 0:
            lines.append(f"• and {plural(more, 'other')}")
        if not over:
            lines.append(f"What to do: {first.remedy}")
        if self.dropped:
            lines.append(f"{plural(self.dropped, 'message')} before this one were not sent: too many within a minute")
            self.dropped = 0
        return redact_text("\n".join(lines))

    def work(self) -> None:
        while (text := self.waiting.get()) is not None:
            if (why := self.deliver(text)) and not self.complained:
                self.complained = True
                self.tell(f"alerts cannot be sent to the webhook: {redact_text(why)}; the run goes on")

    def deliver(self, text: str) -> str:
        """Send it and return why it could not be sent; empty if it was."""
        why = ""
        for attempt in range(TRIES):
            if attempt:
                time.sleep(PAUSE_S)
            request = Request(
                self.url, json.dumps({"text": text}).encode(), {"Content-Type": "application/json"}, method="POST"
            )
            try:
                with OPENER.open(request, timeout=TIMEOUT_S):
                    return ""
            except HTTPError as error:
                why = f"it answers {error.code} {error.reason}"
            except (OSError, HTTPException, ValueError) as error:
                why = str(getattr(error, "reason", "") or error) or type(error).__name__
        return why

    def close(self) -> None:
        """Send what waits, if that is quickly done."""
        if self.thread is not None:
            self.waiting.put(None)
            self.thread.join(CLOSE_WITHIN_S)
            self.thread = None


class Stay(HTTPRedirectHandler):
    """A handler that refuses redirects: what was meant for one server is sent to no other."""

    def redirect_request(self, *_: object) -> None:
        return None


OPENER = build_opener(Stay)
