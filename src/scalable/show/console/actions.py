"""What an operator does from the page: the same questions and functions that the commands use, in the same words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scalable.errors import UsageError
from scalable.observe import RunFolder, redact_text
from scalable.observe.answers import killed, not_paused, paused
from scalable.observe.fields import text
from scalable.observe.mailbox import ACT_WITHIN_S, LOOK_WITHIN_S, ask, who
from scalable.show.console.stored import mark_failed, replay
from scalable.wording import undefined

Stop = Callable[[], bool]


def act(run: RunFolder, asked: Mapping[str, Any], stop: Stop) -> dict[str, Any]:
    """Do it and say what came of it; raises ``ScalableError`` if it cannot be done.

    Waits for the session's answer until ``stop`` says that nobody wants it any more.
    """
    action = text(asked.get("action"))
    if action not in ACTIONS:
        raise UsageError(undefined("action", action, ACTIONS))
    return ACTIONS[action](run, asked, stop)


def pause(run: RunFolder, asked: Mapping[str, Any], stop: Stop) -> dict[str, Any]:
    now = asked.get("now") is True
    answer = ask(run, "pause", within_s=ACT_WITHIN_S, by=by(), stop=stop, now=now)
    told = list(filter(None, (*paused(answer, now=now), not_paused(answer))))
    return {"text": f"paused{': ' if told else ''}{', '.join(told)}"}


def resume(run: RunFolder, asked: Mapping[str, Any], stop: Stop) -> dict[str, Any]:
    answer = ask(run, "resume", by=by(), stop=stop)
    if still := text(answer.get("still")):
        return {"text": f"not paused by a person any more, but it waits: {still}"}
    return {"text": "it goes on" if answer["was"] else "it was not paused"}


def kill(run: RunFolder, asked: Mapping[str, Any], stop: Stop) -> dict[str, Any]:
    answer = ask(run, "kill", within_s=ACT_WITHIN_S, by=by(), stop=stop, target=target(asked))
    return {"text": killed(answer)}


def dump(run: RunFolder, asked: Mapping[str, Any], stop: Stop) -> dict[str, Any]:
    name = target(asked)
    answer = ask(run, "dump", within_s=LOOK_WITHIN_S, by=by(), stop=stop, target=name)
    told = {"worker": answer["worker"], "run": answer["run"], "dump": redact_text(str(answer["text"]))}
    return {"text": f"what every thread of {name} does", **told}


def mark(run: RunFolder, asked: Mapping[str, Any], stop: Stop) -> dict[str, Any]:
    reason = text(asked.get("reason")).strip()
    if not reason:
        raise UsageError("the reason is empty; say what is wrong with the results, for those who ask")
    return {"text": mark_failed(run, target(asked), reason)}


def replay_letters(run: RunFolder, asked: Mapping[str, Any], stop: Stop) -> dict[str, Any]:
    return {"text": replay(run)}


def target(asked: Mapping[str, Any]) -> str:
    if not (name := text(asked.get("target"))):
        raise UsageError("what is meant? name a worker, a run or a sweep as target")
    return name


def by() -> str:
    """For the journal."""
    return f"{who()} (console)"


ACTIONS: dict[str, Callable[[RunFolder, Mapping[str, Any], Stop], dict[str, Any]]] = {
    "pause": pause,
    "resume": resume,
    "kill": kill,
    "dump": dump,
    "mark-failed": mark,
    "replay": replay_letters,
}
