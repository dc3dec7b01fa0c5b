"""The margin table: every figure of the sizing document, both packings, and the warnings due."""

from __future__ import annotations

import pytest

from scalable.manifest.machines import Allocatable, NodeType, Pool, Profile, Resources
from scalable.manifest.policies import Margins
from scalable.planning.front import Choice
from scalable.planning.history import History
from scalable.planning.margins import Load, MarginRow, margin_row
from scalable.planning.plan import plan_sweep
from scalable.planning.scenarios import margin_table
from scalable.quantities import Cpu
from tests.helpers.planning.builders import Change, a_site, gib

OVERLAPPING = ["ftf-normal+discovery", "ftf-heavy+wfrb", "worst-case"]


def table(*changes: Change, history: History | None = None) -> dict[str, MarginRow]:
    return {row.scenario: row for row in margin_table(a_site(*changes), history)}


def notes(row: MarginRow) -> str:
    return "\n".join(row.notes)


@pytest.mark.parametrize(
    ("scenario", "pods", "cpu", "ram", "nodes", "cpu_margin", "ram_margin"),
    [
        ("ftf-normal", 10, 40, 20, 3, 17, 90),
        ("ftf-heavy", 5, 20, 60, 2, 38, 53),
        ("discovery", 5, 20, 20, 2, 38, 84),
        ("wfrb", 5, 10, 10, 1, 38, 84),
        ("ftf-normal+discovery", 15, 60, 40, 4, 6, 84),
        ("ftf-normal+wfrb", 15, 50, 30, 4, 22, 88),
        ("ftf-heavy+wfrb", 10, 30, 70, 2, 6, 45),
        ("worst-case", 20, 70, 50, 5, 12.5, 84),
    ],
)
def test_every_row_of_the_sizing_document_is_reproduced(
    scenario: str, pods: int, cpu: float, ram: float, nodes: int, cpu_margin: float, ram_margin: float
) -> None:
    row = table()[scenario]
    assert (row.pods, row.cpu_burst, row.ram_peak_gib, row.nodes) == (pods, cpu, ram, nodes)
    assert (row.cpu_available, row.ram_available_gib) == (16 * nodes, 64 * nodes), "nominal capacity"
    assert row.cpu_margin == pytest.approx(1 - cpu / (16 * nodes))
    assert row.ram_margin == pytest.approx(1 - ram / (64 * nodes))
    assert abs(row.cpu_margin * 100 - cpu_margin) <= (0.5 if cpu_margin != 12.5 else 0), "as printed"
    assert abs(row.ram_margin * 100 - ram_margin) <= 0.5, "as printed"


def test_without_spreading_margins_and_plan_count_the_same_nodes() -> None:
    off = ("margins: {ram: 40%, cpu: 15%}", "margins: {ram: 40%, cpu: 15%, spread: off}")
    changes = (off, ("\nbudget:", "  one: {sweeps: {calibration: 1}}\n\nbudget:"))
    row, planned = table(*changes)["one"], plan_sweep(a_site(*changes), "calibration", Choice(policy="manual"))
    assert (row.nodes, row.nodes_paid, row.cpu_margin) == (planned.nodes_peak, planned.nodes_peak, planned.cpu_margin)
    assert (row.nodes, row.cpu_margin, row.status) == (1, -0.25, "fail")


def test_small_workers_do_not_fill_what_the_burst_of_large_ones_needs() -> None:
    """On 12 cores 3 workers fit by request as by burst; what is left of 11.7 would hold two of the small ones."""
    node = (
        "PRO2-M: {cpu: 16, memory: 64GiB, allocatable: {cpu: 15.6, memory: 60GiB}",
        "PRO2-M: {cpu: 12, memory: 64GiB, allocatable: {cpu: 11.7, memory: 60GiB}",
    )
    row = table(node, ("standard: {request: {cpu: 2,", "standard: {request: {cpu: 3,"))["ftf-normal+wfrb"]
    assert (row.nodes, row.nodes_paid, row.nodes_by_request) == (5, 5, 4)
    assert row.cpu_margin == pytest.approx(1 - 50 / 60)


@pytest.mark.parametrize(
    ("sweeps", "waiting"),
    [
        ("{standard: 1, heavy: 1}", {"n_features": "a heavy sweep runs alone; calibration must end first"}),
        ("{heavy: 1, standard: 1}", {"calibration": "the heavy sweep n_features runs alone"}),
        ("{standard: 3}", {"fold_size": "at most 2 sweeps run at once: calibration, timeframe"}),
        ("{standard: 2}", {}),
    ],
)
def test_sweeps_that_may_not_run_beside_the_others_say_how_long_they_wait(sweeps: str, waiting: dict[str, str]) -> None:
    row = table(("\nbudget:", f"  queue: {{sweeps: {sweeps}}}\n\nbudget:"))["queue"]
    waits = {
        note.split(" waits ")[0]: note.split(" waits ")[1].split(": ", 1) for note in row.notes if " waits " in note
    }
    assert {name: why for name, (_, why) in waits.items()} == waiting
    assert not any(how_long.startswith("0") for how_long, _ in waits.values())
    assert row.status != "ok"


def test_the_table_has_the_scenarios_of_the_manifest_in_their_order() -> None:
    assert list(table()) == [
        *("ftf-normal", "ftf-heavy", "discovery", "wfrb"),
        *("ftf-normal+discovery", "ftf-normal+wfrb", "ftf-heavy+wfrb", "worst-case"),
    ]


@pytest.mark.parametrize(
    ("scenario", "nodes"),
    [
        ("ftf-normal", 2),
        ("ftf-heavy", 1),
        ("discovery", 1),
        ("wfrb", 1),
        ("ftf-normal+discovery", 3),
        ("worst-case", 3),
    ],
)
def test_by_request_the_scheduler_takes_fewer_nodes(scenario: str, nodes: int) -> None:
    assert table()[scenario].nodes_by_request == nodes


@pytest.mark.parametrize("scenario", [name for name in table() if name not in ("wfrb", "ftf-heavy+wfrb")])
def test_where_requests_pack_tighter_than_promised_a_warning_says_what_makes_the_promise_true(scenario: str) -> None:
    row = table()[scenario]
    assert row.nodes_by_request < row.nodes
    assert row.status != "ok"
    said = next(note for note in row.notes if "by requests" in note)
    assert f"not {row.nodes}" in said
    assert "3.9 CPU" in said, "4 workers on 15.6 cores"
    assert f"so it takes {row.nodes}" in said


def test_the_two_nodes_of_a_heavy_sweep_are_kept_by_a_spread_constraint() -> None:
    assert "a spread constraint keeps at least 2 nodes" in notes(table()["ftf-heavy"])


def test_a_heavy_sweep_that_would_fit_on_one_node_still_gets_two() -> None:
    row = table(("limit: {cpu: 4, memory: 24GiB}", "limit: {cpu: 3, memory: 24GiB}"))["ftf-heavy"]
    assert (row.cpu_burst, row.ram_peak_gib) == (15, 60), "within 16 CPU and 64 GiB"
    assert row.nodes == 2


def test_without_spreading_the_warning_says_that_it_is_off_and_proposes_no_cure() -> None:
    row = table(("margins: {ram: 40%, cpu: 15%}", "margins: {ram: 40%, cpu: 15%, spread: false}"))["ftf-normal"]
    assert "policies.margins.spread is off" in notes(row)
    assert "generated pods" not in notes(row)


def test_no_warning_where_both_packings_agree() -> None:
    row = table()["wfrb"]
    assert (row.status, row.notes) == ("ok", ())


def test_heavy_at_its_highest_observed_peak_is_under_the_guarantee_and_says_by_how_much() -> None:
    row = table()["ftf-heavy"]
    assert row.status == "warn", "the table itself keeps 53 %"
    said = next(note for note in row.notes if "highest observed" in note)
    assert "75 GiB" in said
    assert "41.4 % of nominal" in said
    assert "37.5 % of 120 GiB allocatable" in said


def test_a_highest_peak_that_keeps_the_guarantee_is_no_warning() -> None:
    row = table(("highest: 15GiB", "highest: 12.5GiB"))["ftf-heavy"]
    assert "highest observed" not in notes(row)


@pytest.mark.parametrize("scenario", OVERLAPPING)
def test_overlapping_workloads_under_15_percent_cpu_are_best_effort(scenario: str) -> None:
    row = table()[scenario]
    assert row.status == "warn"
    assert "is under 15 %: best effort while workloads overlap" in notes(row)


@pytest.mark.parametrize("scenario", [name for name in table() if name not in OVERLAPPING])
def test_nothing_else_is_called_best_effort(scenario: str) -> None:
    assert "best effort" not in notes(table()[scenario])


def test_memory_is_named_only_where_it_is_raised() -> None:
    """Among workers of several sizes each is compared with its own request, not with the first one's."""
    mixed = ("ftf-normal: {sweeps: {standard: 2}}", "ftf-normal: {sweeps: {standard: 1, heavy: 1}}")
    assert "generated pods ask for more (standard 3.9 CPU, heavy 3.9 CPU)" in notes(table(mixed)["ftf-normal"])


def test_sizes_that_share_a_node_by_burst_but_not_as_pods_ask_take_the_nodes_that_are_said_and_paid() -> None:
    """5 + 5 + 6 are the 16 CPU of a node, but more than the 15.6 that it can give."""
    row = table(
        ("ftf-normal: {sweeps: {standard: 2}}", "ftf-normal: {sweeps: {standard: 1, heavy: 1}}"),
        ("limit: {cpu: 4, memory: 8GiB}", "limit: {cpu: 5, memory: 8GiB}"),
        ("limit: {cpu: 4, memory: 24GiB}", "limit: {cpu: 6, memory: 24GiB}"),
    )["ftf-normal"]
    assert (row.nodes, row.nodes_by_request, row.nodes_paid) == (4, 2, 5)
    assert "not 4" in notes(row)
    assert "so it takes 5" in notes(row)


def test_raised_requests_that_take_more_nodes_than_both_packings_are_a_warning() -> None:
    node = NodeType(cpu=Cpu.of(16), memory=gib(64), allocatable=Allocatable(cpu=Cpu.of(15.6), memory=gib(60)))
    asked = Resources(cpu=Cpu.of(2), memory=gib(2))
    loads = [
        Load(f"{cpus} CPU", "one", profile, workers, gib(2), gib(2), sweep=True)
        for cpus, workers in ((6, 2), (4, 1))
        for profile in [Profile(request=asked, limit=Resources(cpu=Cpu.of(cpus), memory=gib(8)))]
    ]
    row = margin_row("mixed", loads, node, Pool(node="M", max=6), Margins(), overlap=True)
    assert (row.nodes, row.nodes_by_request, row.nodes_paid) == (1, 1, 2)
    assert "takes 2 nodes where the burst needs 1: they are paid" in notes(row)


def test_requests_on_nodes_of_a_fixed_number_are_not_said_to_be_raised() -> None:
    row = table(("min: 0, max: 6", "count: 6"))["ftf-normal"]
    assert "takes 2 nodes, not 3: 40 CPU of burst on 32; raise the requests" in notes(row)
    assert "generated pods" not in notes(row)


def test_a_sweep_alone_under_the_cpu_guarantee_fails() -> None:
    row = table(("cpu: 15%", "cpu: 17%"))["ftf-normal"]
    assert row.status == "fail"
    assert "CPU margin 16.7 % is not over the guaranteed 17 %" in notes(row)


def test_a_margin_of_exactly_the_guarantee_does_not_keep_it() -> None:
    assert table(("cpu: 15%", "cpu: 37.5%"))["discovery"].status == "fail"


def test_the_ram_guarantee_is_hard_even_when_workloads_overlap() -> None:
    row = table(("ram: 40%", "ram: 46%"))["ftf-heavy+wfrb"]
    assert row.status == "fail"
    assert "RAM margin 45.3 % is not over the guaranteed 46 %" in notes(row)


def test_a_scenario_the_pool_cannot_hold_fails_with_both_numbers() -> None:
    row = table(("min: 0, max: 6", "min: 0, max: 4"))["worst-case"]
    assert row.status == "fail"
    assert "needs 5 nodes, the pool has at most 4" in notes(row)


def test_a_printed_figure_that_does_not_add_up_is_corrected_in_a_note() -> None:
    assert "stated is a RAM margin of 75 %; it is 84.4 %" in notes(table()["worst-case"])


def test_measured_peaks_replace_the_observed_ones_of_the_manifest() -> None:
    history = History(peaks={"calibration": gib(3), "timeframe": gib(3)})
    assert table(history=history)["ftf-normal"].ram_peak_gib == 30
    assert table()["ftf-normal"].ram_peak_gib == 20


def test_a_row_for_machines_has_the_shape_of_the_interface() -> None:
    assert set(table()["ftf-normal"].to_dict()) == {
        *("scenario", "pods", "cpu_burst", "ram_peak_gib", "nodes", "nodes_by_request", "cpu_available"),
        *("ram_available_gib", "cpu_margin", "ram_margin", "status", "notes"),
    }
