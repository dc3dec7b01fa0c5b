"""The bill of a run: every machine is paid, every row has its part, and together that is the bill to the last digit."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable.observe import RunView, costs
from scalable.observe.bills import HOUR, Bill, CostShare, median, paid, split
from scalable.observe.costs import OTHERS
from scalable.observe.liveness import RunState
from scalable.observe.report import current, report_of
from tests.helpers.observe.builders import (
    START,
    Record,
    a_plan,
    attempt,
    attempt_ended,
    ended,
    joined,
    lost,
    record,
    removed,
    run_started,
    sweep_started,
    task,
    unit,
)
from tests.helpers.observe.tariffs import machine, placed, tariff

EURO = 10**9


def billed(*records: Record, until: float = 100.0, over: bool = True) -> Bill:
    bill = RunView.of(records).bill(START + until, over=over)
    assert bill is not None
    assert sum(share.total for share in bill.shares) + sum(bill.unattributed.values()) == bill.total
    return bill


def euros(grains: int) -> float:
    return grains / EURO


def test_a_row_costs_what_its_unit_occupied_and_the_time_its_node_waited_for_work() -> None:
    bill = billed(tariff(), machine(until=100), placed(), *unit("a", 20, at=40), *unit("b", 60, at=100, rows=1))
    a, b = bill.shares
    assert (euros(a.busy), euros(b.busy)) == (20, 60)
    assert (euros(a.idle), euros(b.idle)) == (5, 15), "20 s of waiting, by the time each occupied"
    assert (a.rows, b.rows, a.sweep) == (9, 1, "calibration")
    assert euros(bill.total) == 100 and not any(bill.unattributed.values())


def test_workers_that_share_a_node_pay_their_part_of_it() -> None:
    half = [placed("w1", part=0.75), placed("w2", part=0.25)]
    ends = [attempt_ended(name, at=100, worker=worker, seconds=100) for name, worker in (("a", "w1"), ("b", "w2"))]
    over = [record("run-ended", 100, run=name, state="finished") for name in "ab"]
    a, b = billed(tariff(), machine(until=100), *half, *ends, *over).shares
    assert (euros(a.total), euros(b.total)) == (75, 25)


def test_units_in_the_slots_of_one_worker_share_it() -> None:
    units = [*unit("a", 50, at=50), *unit("b", 50, at=50)]
    bill = billed(tariff("workers"), machine("w1", until=50, pool="demeter"), placed(on="w1", slots=2), *units)
    assert [euros(share.busy) for share in bill.shares] == [25, 25]
    assert bill.pools["demeter"].to_dict()["busy_share"] == 1.0


def test_attempts_that_came_to_nothing_are_shown_apart_and_belong_to_the_row() -> None:
    died = [
        attempt("a", at=0),
        attempt_ended("a", "worker lost", at=30, seconds=None),
        *unit("a", 70, at=100, number=2),
    ]
    [share] = billed(tariff(), machine(until=100), placed(), *died).shares
    assert (euros(share.total), euros(share.lost), share.rows) == (100, 30, 9)


def test_a_retry_on_another_node_is_paid_there() -> None:
    first = [machine("n1", until=40), placed("w1", "n1"), attempt_ended("a", "worker lost", at=40, seconds=40)]
    second = [machine("n2", 50, until=100), placed("w2", "n2"), attempt_ended("a", at=100, worker="w2", seconds=40)]
    rows = record("rows", 100, sweep="s", run="a", count=3)
    bill = billed(tariff(), *first, *second, rows)
    [share] = bill.shares
    assert (euros(share.busy), euros(share.idle), euros(share.lost)) == (80, 10, 40)
    assert euros(bill.total) == 90


def test_tasks_given_to_dask_are_charged_one_by_one() -> None:
    bill = billed(tariff(), machine(until=12), placed(), task("t1", 0, 4), task("t2", 4, 8, ok=False))
    assert [(share.run, euros(share.total), euros(share.lost)) for share in bill.shares] == [
        ("t1", 4, 0),
        ("t2", 8, 8),
    ]


def test_the_time_after_the_last_row_of_a_node_is_charged_to_no_row() -> None:
    bill = billed(tariff(), machine(until=100), placed(), *unit("a", 60, at=60))
    assert [euros(share.total) for share in bill.shares] == [60]
    assert {why: euros(cost) for why, cost in bill.unattributed.items()} == {"tail": 40, "unused": 0, "without_rows": 0}


def test_a_node_without_any_row_is_charged_to_no_row() -> None:
    bill = billed(tariff(), machine(until=100), machine("n2", 50, 100), placed(), *unit("a", 100, at=100))
    assert euros(bill.unattributed["unused"]) == 50
    assert euros(bill.total) == 150


def test_work_that_was_stopped_is_charged_to_no_row() -> None:
    stopped = [attempt_ended("b", "stopped", at=100, seconds=50), record("run-ended", 100, run="b", state="stopped")]
    bill = billed(tariff(), machine(until=100), placed(), *unit("a", 50, at=50), *stopped)
    assert [share.run for share in bill.shares] == ["a"]
    assert euros(bill.unattributed["without_rows"]) == 50


def test_what_is_under_way_is_charged_to_no_row_yet() -> None:
    records = [tariff(), machine(), placed(), *unit("a", 50, at=50), attempt("b", at=50)]
    bill = billed(*records, until=80, over=False)
    assert (euros(bill.total), euros(bill.unattributed["without_rows"])) == (80, 30)


def test_a_node_that_is_still_there_at_the_end_is_paid_until_it_will_be_gone() -> None:
    records = [tariff(), machine(tail_s=600), placed(), *unit("a", 90, at=90), removed("w1", 95)]
    bill = billed(*records)
    assert euros(bill.total) == 95 + 600
    assert euros(bill.foreseen) == 595, "all that is paid after the run's end"
    assert euros(bill.unattributed["tail"]) == 605
    assert euros(billed(*records, over=False).total) == 100, "nothing is foreseen while it runs"


def test_a_worker_whose_end_nobody_saw_is_paid_until_the_last_sign_of_the_run() -> None:
    bill = billed(tariff("workers"), machine("w1", 10, pool="demeter"), placed(on="w1"), until=70)
    assert euros(bill.total) == 60


def test_nodes_that_are_always_there_cost_nothing_but_are_counted() -> None:
    bill = billed(tariff(), machine(until=3600, price="0"), placed(), *unit("a", 1800, at=3600), until=3600)
    assert bill.total == 0
    assert bill.pools["compute"].to_dict() == {
        "machines": 1, "hours": 0.0, "standing_hours": 1.0, "amount": 0.0, "busy_share": 0.5,
    }  # fmt: skip


def test_what_is_known_better_later_replaces_what_was_told_before() -> None:
    bill = billed(tariff(), machine(), machine(until=30), placed(), *unit("a", 30, at=30))
    assert euros(bill.total) == 30 and bill.pools["compute"].machines == 1


names = st.sampled_from(["a", "b", "c", "d"])

workers = st.sampled_from(["w1", "w2", "w3"])

moments = st.floats(0, 1e5, allow_nan=False)

stories = st.lists(
    st.one_of(
        st.builds(
            machine, st.sampled_from(["n1", "n2", "n3"]), moments, st.none() | moments,
            pool=st.sampled_from(["compute", "heavy"]), price=st.sampled_from(["0", "0.1644", "7", "0.000000001"]),
            tail_s=moments,
        ),
        st.builds(
            placed, workers, st.sampled_from(["n1", "n2", "n3", "n4"]), st.floats(0.01, 1), st.integers(1, 3)
        ),
        st.builds(attempt, names, st.integers(1, 3), moments, worker=workers),
        st.builds(
            attempt_ended, names, st.sampled_from(["finished", "worker lost"]), st.integers(1, 3), moments,
            worker=workers, seconds=st.none() | moments,
        ),
        st.builds(lambda run, count: record("rows", 5, sweep="s", run=run, count=count), names, st.integers(0, 9)),
        st.builds(
            lambda run, state: record("run-ended", 5, run=run, state=state),
            names, st.sampled_from(["finished", "failed", "stopped"]),
        ),
        st.builds(removed, workers, moments),
        st.builds(lost, workers, moments),
        st.builds(task, names, moments, moments, worker=workers),
    ),
    max_size=40,
)  # fmt: skip


@given(stories, moments, st.booleans())
def test_rows_and_unattributed_are_the_bill_whatever_happened(story: list[Record], until: float, over: bool) -> None:
    bill = billed(tariff(), *story, until=until, over=over)
    assert bill.total == sum(pool.cost for pool in bill.pools.values())
    assert all(share.busy >= share.lost >= 0 and share.idle >= 0 for share in bill.shares)
    assert all(cost >= 0 for cost in bill.unattributed.values())
    assert 0 <= bill.foreseen <= bill.total
    told = bill.to_dict()
    parts = Decimal(str(told["rows"]["amount"])) + Decimal(str(told["unattributed"]["amount"]))
    assert parts == Decimal(str(told["amount"])), "as it is printed, too"


@given(st.integers(0, 10**15), st.lists(st.integers(0, 10**12), min_size=1, max_size=20))
def test_a_whole_is_split_without_a_remainder_and_fairly(whole: int, weights: list[int]) -> None:
    parts = split(whole, weights)
    assert sum(parts) == (whole if sum(weights) else 0)
    assert all(
        abs(part * sum(weights) - whole * weight) <= sum(weights) for part, weight in zip(parts, weights, strict=True)
    )


def test_an_hour_costs_the_price_of_an_hour() -> None:
    assert paid(164_400_000, HOUR) == 164_400_000


def test_the_median_counts_rows_not_units() -> None:
    assert median([CostShare("a", "", 9, 9, 0, 0), CostShare("b", "", 1, 100, 0, 0)]) == 1


def test_beyond_a_bound_work_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "MOST_PIECES", 100)
    many = (task(f"t{number}", 0, 0) for number in range(105))
    ledger = RunView.of([tariff(), machine(until=10), placed(), *many, task("last", 0, 10)]).costs
    assert len(ledger.pieces) == 101
    bill = ledger.bill(START + 10, over=True)
    assert bill is not None and [euros(s.total) for s in bill.shares if s.run == OTHERS] == [10]


def story() -> list[Record]:
    return [
        run_started(),
        a_plan(workers_by_tag={"demeter": 1}, cost={"amount": 0.2, "currency": "EUR"}, node_hours=1.5),
        tariff(assumed=["as observed"], budget={"amount": 5, "currency": "EUR"}),
        machine(price="3.6", until=3600),
        joined("w1"),
        placed(),
        *unit("AAVE fold 1", 1000, at=1200, rows=4),
        record("cost", 1200, spent={"amount": 1.2, "currency": "EUR"}, per_hour={"amount": 3.6, "currency": "EUR"}),
    ]


def test_a_report_has_the_bill_by_pool_and_by_row_beside_the_plan() -> None:
    told = report_of(RunView.of([*story(), ended(3600)]), RunState.OK, START + 3600)
    cost = told["cost"]
    assert (cost["amount"], cost["currency"], cost["basis"]) == (3.6, "EUR", "nodes as observed")
    assert cost["rows"] | {"count": 4, "units": 1, "amount": 1.2, "median": 0.3, "mean": 0.3} == cost["rows"]
    assert (
        cost["rows"]["dearest"][0] | {"run": "AAVE fold 1", "per_row": 0.3, "idle": 0.2} == cost["rows"]["dearest"][0]
    )
    assert cost["unattributed"] == {"amount": 2.4, "tail": 2.4, "unused": 0.0, "without_rows": 0.0}
    assert cost["pools"]["compute"]["hours"] == 1.0
    assert cost["pools"]["compute"]["busy_share"] == pytest.approx(1000 / 3600, abs=1e-4)
    assert cost["assumed"] == ["as observed"]
    assert told["plan_vs_actual"]["cost"]["actual"] == {"amount": 3.6, "currency": "EUR"}
    assert told["plan_vs_actual"]["node_hours"] == {"planned": 1.5, "actual": 1.0}


def test_the_cost_of_every_row_is_listed_and_adds_up() -> None:
    axes = {"variant": ["off", "on"], "asset": ["BTC"], "fold": [str(fold) for fold in range(25)], "cost_bps": ["5"]}
    records = [tariff(), machine(until=997), placed(), sweep_started(axes=axes)]
    for number in range(25):
        ended_, rows = unit(f"fold {number}", 7 + number, at=30 * (number + 1), rows=2)
        records += [ended_, rows | {"cells": f"{number},{number + 25}"}]
    rows = billed(*records, until=997).to_dict()["rows"]
    assert len(rows["each"]) == 25 and rows["dearest"] == rows["each"][:10]
    assert sum(Decimal(str(share["amount"])) for share in rows["each"]) == Decimal(str(rows["amount"]))
    assert sum(share["rows"] for share in rows["each"]) == rows["count"] == 50
    last = next(share for share in rows["each"] if share["run"] == "fold 24")
    assert last["cells"] == [
        {"variant": variant, "asset": "BTC", "fold": "24", "cost_bps": "5"} for variant in ("off", "on")
    ]


def test_rows_of_a_grid_that_is_not_told_are_counted_only() -> None:
    [share] = billed(tariff(), machine(until=100), placed(), *unit("a")).to_dict()["rows"]["each"]
    assert (share["rows"], share["cells"]) == (9, [])


def metered(exact: str, due: float = 0.0, at: float = 100.0) -> Record:
    money = {"currency": "EUR"}
    return record("cost", at, spent={"amount": float(exact), **money}, exact=exact, due={"amount": due, **money})


def test_the_sum_is_the_one_that_the_session_metered_and_is_shared_out_by_price_and_time() -> None:
    machines = [machine("n1", until=100), machine("n2", until=50), placed("w1", "n1"), placed("w2", "n2")]
    ends = [attempt_ended(name, at=50, worker=worker, seconds=50) for name, worker in (("a", "w1"), ("b", "w2"))]
    over = [record("run-ended", 50, run=name, state="finished") for name in "ab"]
    bill = billed(tariff(), *machines, *ends, *over, metered("149.999999997"))
    assert bill.total == 149_999_999_997
    assert [share.total for share in bill.shares] == [49_999_999_999, 49_999_999_999]
    assert bill.unattributed["tail"] == 49_999_999_999


def test_a_killed_session_still_pays_what_was_due_at_its_last_sign() -> None:
    records = (tariff(), machine(), placed(), *unit("a", 20, at=40), metered("40", due=2.5, at=40))
    assert euros(billed(*records, until=40).total) == 42.5
    assert euros(billed(*records, until=45, over=False).total) == 40, "while it runs, what is metered by now"


def test_a_metered_sum_without_machines_is_charged_to_nobody() -> None:
    assert billed(tariff(), metered("1.5")).unattributed["unused"] == 1_500_000_000


def test_where_nodes_have_no_price_their_hours_are_reported() -> None:
    records = [tariff(currency=""), machine(until=7200, price="0"), placed()]
    cost = report_of(RunView.of([run_started(), *records, ended(7200)]), RunState.OK, START)["cost"]
    assert cost["currency"] is None and cost["pools"]["compute"]["standing_hours"] == 2.0


def test_without_a_tariff_a_report_has_the_sum_only() -> None:
    records = [run_started(), *unit("a"), record("cost", 9, spent={"amount": 1.2, "currency": "EUR"}), ended()]
    assert report_of(RunView.of(records), RunState.OK, START)["cost"] == {"amount": 1.2, "currency": "EUR"}


def test_the_status_says_what_is_left_of_the_budget() -> None:
    told = current(RunView.of(story()), RunState.RUNNING, START + 1300)
    assert told["cost"] == {"amount": 1.2, "currency": "EUR"}
    assert told["budget_left"] == {"amount": 3.8, "currency": "EUR"}
    spent = record("cost", 1300, spent={"amount": 6, "currency": "EUR"})
    assert current(RunView.of([*story(), spent]), RunState.RUNNING, START)["budget_left"]["amount"] == 0


@pytest.mark.parametrize("price", [None, 7, "seven", "-1", "nan", "1e999999"])
def test_a_price_that_makes_no_sense_is_no_price(price: object) -> None:
    told = machine(until=100) | {"price": price}
    assert billed(tariff(), told, placed(), *unit("a")).total == 0
