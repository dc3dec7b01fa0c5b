"""What ``report`` and ``status`` say of money."""

from __future__ import annotations

from pathlib import Path

from scalable.observe.words import fine
from tests.helpers.cli.commands import Call, call
from tests.helpers.observe.builders import Record, a_live_run, a_plan, a_run, ended, record, unit
from tests.helpers.observe.tariffs import machine, placed, tariff

__all__ = ["call"]  # a fixture

RUNS = Path(".scalable/runs")


def a_story(*, basis: str = "nodes as observed", currency: str = "EUR") -> list[Record]:
    """An hour of a node for EUR 3.60: 20 minutes until its last row, 1,000 s of them with work."""
    return [
        a_plan(workers_by_tag={"demeter": 1}, cost={"amount": 3.2, "currency": "EUR"}, node_hours=0.9),
        tariff(basis, currency, assumed=["a node is kept for 10 min"], budget={"amount": 5, "currency": "EUR"}),
        machine(price="3.6" if currency else "0", until=3600),
        placed(),
        *unit("AAVE fold 1", 1000, at=1200, rows=4),
        record("cost", 1200, spent={"amount": 1.2, "currency": "EUR"}, per_hour={"amount": 3.6, "currency": "EUR"}),
    ]


def told(call: Call, *records: Record) -> list[str]:
    a_run(RUNS, *records, ended(3600), end=False)
    out = call("report").out
    section = out[out.index("\nCost\n") :]
    return [" ".join(line.split()) for line in section.splitlines() if line.strip()]


def test_a_report_shows_rows_what_is_beside_them_and_the_bill_by_pool(call: Call) -> None:
    assert told(call, *a_story())[:8] == [
        "Cost",
        "4 rows EUR 1.20 EUR 0.3000 each, half of them up to EUR 0.3000",
        "idle share EUR 0.2000 machines that waited between rows",
        "dearest EUR 0.3000 calibration, AAVE fold 1",
        "unattributed EUR 2.40 EUR 2.40 after the last work on a machine",
        "bill EUR 3.60 planned EUR 3.20",
        "nodes hours always there busy cost",
        "compute 1 1.00 h 0.00 h 27.8 % EUR 3.60",
    ]


def test_a_report_says_what_was_assumed_and_sets_hours_beside_the_plan(call: Call) -> None:
    assert "· a node is kept for 10 min" in told(call, *a_story())
    assert "machine-hours 0.90 h 1.00 h" in " ".join(call("report").out.split())


def test_where_workers_are_paid_their_hours_are_shown(call: Call) -> None:
    assert "workers hours busy cost" in told(call, *a_story(basis="workers"))


def test_nodes_without_a_price_are_shown_with_their_hours_only(call: Call) -> None:
    lines = told(call, *a_story(currency=""))
    assert lines[1:3] == ["nodes hours always there busy cost", "compute 1 0.00 h 1.00 h 27.8 % –"]


def test_a_run_without_a_tariff_has_no_section_about_money(call: Call) -> None:
    a_run(RUNS, *unit("a"))
    assert "\nCost\n" not in call("report").out


def test_the_status_says_what_was_spent_how_fast_and_what_is_left(call: Call) -> None:
    a_live_run(RUNS, *a_story())
    assert "EUR 1.20 so far, EUR 3.60 an hour, EUR 3.80 left of the budget" in " ".join(call("status").out.split())


def test_small_amounts_are_told_with_the_digits_they_need() -> None:
    amounts = (0.0, 12.345, 0.0123, 0.00001)
    assert [fine(each, "EUR") for each in amounts] == ["EUR 0.00", "EUR 12.35", "EUR 0.0123", "< EUR 0.0001"]
