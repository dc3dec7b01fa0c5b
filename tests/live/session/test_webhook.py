"""Messages to a webhook: few, complete, and never at the run's expense."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scalable.observe.alerts import RULES, AlertChange, Rule
from scalable.session.operate import alerting
from scalable.session.operate.alerting import AGAIN_S, MOST_A_MINUTE, Webhook
from tests.helpers.session.desk import SECRET, desk

MEMORY = next(rule for rule in RULES if rule.name == "WorkerMemory")


def change(worker: str = "demeter-1", rule: Rule = MEMORY, *, over: bool = False) -> AlertChange:
    return AlertChange(rule, {"worker": worker, "tag": "demeter"}, "resolved" if over else "firing", 0.0, 0.9)


def unheard(why: str) -> None:
    raise AssertionError(why)


def test_a_message_says_what_where_how_bad_and_what_to_do() -> None:
    with desk() as (url, came):
        hook = Webhook(url, "run r of p", unheard)
        hook.send([change()], 0)
        hook.send([change(over=True)], 1)
        hook.close()
    assert came == [
        f"*WorkerMemory* (warning)\nrun r of p\n• demeter-1 uses 90 % of its memory limit\nWhat to do: {MEMORY.remedy}",
        "*WorkerMemory* is over\nrun r of p\n• demeter-1 uses 90 % of its memory limit",
    ]


def test_many_alerts_of_a_rule_at_once_are_one_message() -> None:
    with desk() as (url, came):
        hook = Webhook(url, "run r of p", unheard)
        hook.send([change(f"demeter-{at}") for at in range(8)], 0)
        hook.close()
    (text,) = came
    assert text.count("•") == 6
    assert "and 3 others" in text


def test_the_same_alert_is_not_sent_again_and_again() -> None:
    slow = replace(MEMORY, name="Slow", for_s=2 * AGAIN_S)
    with desk() as (url, came):
        hook = Webhook(url, "run r of p", unheard)
        for rule in (MEMORY, slow):
            for now in (0.0, AGAIN_S - 1, AGAIN_S):
                hook.send([change(rule=rule)], now)
        hook.close()
    assert [text.split("*")[1] for text in came] == ["WorkerMemory", "WorkerMemory", "Slow"]


def test_a_flood_is_cut_and_the_next_message_says_so() -> None:
    with desk() as (url, came):
        hook = Webhook(url, "run r of p", unheard)
        for at in range(MOST_A_MINUTE + 5):
            hook.send([change(rule=replace(MEMORY, name=f"Rule{at}"))], 1)
        hook.send([change("other")], 62)
        hook.close()
    assert len(came) == MOST_A_MINUTE + 1
    assert "5 messages before this one were not sent" in came[-1]


@pytest.mark.parametrize("why", ["refused", "gone", "redirected"])
def test_what_cannot_be_sent_is_tried_twice_and_told_once_without_the_address(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerting, "PAUSE_S", 0.0)
    told: list[str] = []
    with desk() as (other, elsewhere):
        status, headers = (307, {"Location": other}) if why == "redirected" else (500, {})
        with desk(status, headers) as (url, came):
            if why != "gone":
                send_two(url, told)
        if why == "gone":
            send_two(url, told)
    assert len(came) == (0 if why == "gone" else 4)
    assert elsewhere == []
    (text,) = told
    assert text.startswith("alerts cannot be sent to the webhook: ")
    assert SECRET not in text


def send_two(url: str, told: list[str]) -> None:
    hook = Webhook(url, "run r of p", told.append)
    hook.send([change("first")], 0)
    hook.send([change("second")], 0)
    hook.close()
