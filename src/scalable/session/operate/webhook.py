"""Sends alerts to a web address as ``{"text": …}``, which Slack, Mattermost and others take as a message.

A thread of its own sends, so that a server that is slow or gone keeps nobody waiting. The address is a secret: it is in
no message, journal or log. What cannot be sent is told once, in the journal; the run does not suffer.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from scalable.observe.redact import KNOWN, redact_text
from scalable.wording import plural

if TYPE_CHECKING:
    from scalable.observe.alerts import Change

TIMEOUT_S = 5.0
TRIES = 2
PAUSE_S = 1.0  # between them
MOST_A_MINUTE = 20  # messages; more are a flood that nobody reads
AGAIN_S = 60.0  # the same alert is not sent more often, nor within the time its rule waits before it fires
MOST_REMEMBERED = 10_000  # alerts
CLOSE_WITHIN_S = 3.0  # for the last message at the end of a session
MOST_LISTED = 5  # alerts of one rule in a message


class Webhook:
    def __init__(self, url: str, where: str, tell: Callable[[str], None]) -> None:
        """``where`` says in every message which run it is about; ``tell`` hears once that messages cannot be sent."""
        KNOWN.add({"webhook_secret": url})
        self.url = url
        self.where = where
        self.tell = tell
        self.told = False
        self.sent: dict[tuple[str, str, str], float] = {}
        """When each alert was last sent, by rule, state and labels."""
        self.recent: deque[float] = deque()
        self.dropped = 0
        self.waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None

    def send(self, changes: list[Change], now: float) -> None:
        """Alerts of one rule that began or ended together, soon; not those that were sent a moment ago."""
        new = [one for one in changes if self.is_new(one, now)]
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

    def is_new(self, one: Change, now: float) -> bool:
        key = one.rule.name, one.state, str(sorted(one.labels.items()))
        quiet = max(one.rule.for_s, AGAIN_S)
        if len(self.sent) > MOST_REMEMBERED:
            self.sent.clear()
        if now - self.sent.get(key, float("-inf")) < quiet:
            return False
        self.sent[key] = now
        return True

    def text(self, those: list[Change]) -> str:
        first, over = those[0].finding, those[0].state == "resolved"
        lines = [f"*{first.code}* is over" if over else f"*{first.code}* ({first.severity})", self.where]
        lines += [f"• {one.finding.message}" for one in those[:MOST_LISTED]]
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
            if (why := self.deliver(text)) and not self.told:
                self.told = True
                self.tell(f"alerts cannot be sent to the webhook: {redact_text(why)}; the run goes on")

    def deliver(self, text: str) -> str:
        """Why it could not be sent; empty if it was."""
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
    """What was meant for one server is sent to no other."""

    def redirect_request(self, *_: object) -> None:
        return None


OPENER = build_opener(Stay)
