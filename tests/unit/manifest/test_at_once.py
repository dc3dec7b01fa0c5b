"""All errors at once, variables wherever they stand, and values that were once let through."""

from __future__ import annotations

import traceback

import pytest

from scalable.manifest import Issue, ManifestError, load_text
from tests.helpers.manifest.refusals import HEAD, NODE, only, refused

SWEEP = "sweeps: {s: {factor: calibration, assets: [a]}}\n"


def paths(error: ManifestError) -> list[str]:
    return [issue.path for issue in error.report.errors]


def by_path(error: ManifestError) -> dict[str, Issue]:
    return {issue.path: issue for issue in error.report.errors}


# All at once


def test_a_wrong_section_does_not_hide_undefined_names_in_others() -> None:
    error = refused(
        HEAD
        + "pools: 5\n"
        + "tasks: {t: {component: nope}}\n"
        + "sweeps: {s: {factor: calibratoin, assets: nogroup}}\n"
    )

    assert [(issue.path, issue.code) for issue in error.report.errors] == [
        ("pools", "wrong-type"),
        ("tasks.t.component", "undefined-component"),
        ("sweeps.s.factor", "undefined-factor"),
        ("sweeps.s.assets", "undefined-group"),
    ]


def test_what_a_wrong_section_would_have_defined_is_not_called_undefined() -> None:
    error = refused(HEAD + "pools: 5\nsweeps: {s: {factor: calibration, assets: [a], pool: p}}\n")

    assert paths(error) == ["pools"]


def test_every_bad_mount_of_a_component_is_reported() -> None:
    error = refused(HEAD + "components: {c: {mounts: {a: /b, /good: /place, /c: d}}}\n")

    assert paths(error) == ["components.c.mounts.a", "components.c.mounts./c"]
    assert all("is not a mount" in issue.message for issue in error.report.errors)


def test_every_request_over_its_limit_is_reported() -> None:
    error = refused(
        HEAD + "profiles: {p: {request: {cpu: 8, memory: 16GiB, gpus: 1}, limit: {cpu: 4, memory: 8GiB}}}\n"
    )

    assert paths(error) == ["profiles.p.request.cpu", "profiles.p.request.memory", "profiles.p.request.gpus"]


def test_a_key_written_twice_does_not_hide_other_errors() -> None:
    error = refused(HEAD + "groups: {g: [A], g: [B]}\nfoo: 3\ntasks: {t: {component: nope}}\n")

    assert [issue.code for issue in error.report.errors] == ["duplicate-key", "unknown-key", "undefined-component"]


def test_every_control_character_in_a_name_is_reported_and_hides_nothing() -> None:
    error = refused(HEAD + 'groups: {"a\\eb": ["x\\a"]}\nfoo: 3\n')

    assert [issue.code for issue in error.report.errors] == ["control-character", "control-character", "unknown-key"]
    assert "\x1b" not in str(error)


# Variables

NAMED = 'targets: {t: {provider: local, overlay: "${WHICH}"}}\noverlays: {big: {targets: {t: {max_workers: 4}}}}\n'


def test_a_variable_may_name_an_overlay() -> None:
    (target,) = load_text(HEAD + NAMED, env={"WHICH": "big"}).manifest.targets.values()

    assert target.model_dump()["max_workers"] == 4


def test_a_variable_that_names_no_overlay_is_refused_at_its_place() -> None:
    issue = only(refused(HEAD + NAMED, WHICH="bog"))

    assert (issue.path, issue.code, issue.remedy) == ("targets.t.overlay", "undefined-overlay", "write big")
    assert issue.place.line == 3


def test_an_unset_variable_that_names_an_overlay_is_reported_once() -> None:
    assert only(refused(HEAD + NAMED)).code == "unset-variable"


QUOTED = (
    'nodes: {n: {cpu: "${N}", memory: 64GiB, price: 0.16 EUR/h}}\n'
    'pools: {p: {node: n, max: "${N}"}}\n'
    'sweeps: {s: {factor: mine, variants: [x], assets: [a], folds: "${N}", costs_bps: ["${N}"], run_minutes: "${N}"}}\n'
    'components: {c: {image: "${N}", env: {ID: "${N}"}}}\n'
    'profiles: {standard: {request: {cpu: 1, memory: 1GiB}, limit: {cpu: "${N}", memory: 2GiB}}}\n'
)


def test_a_quoted_variable_is_a_number_where_one_is_asked_for_and_a_text_where_that_is() -> None:
    manifest = load_text(HEAD + QUOTED, env={"N": "007"}).manifest

    sweep, component = manifest.sweeps["s"], manifest.components["c"]
    assert sweep.run_minutes is not None
    assert (manifest.nodes["n"].cpu.cores, manifest.pools["p"].max) == (7, 7)
    assert (sweep.over["fold"].values, sweep.average, sweep.run_minutes.p50) == (
        tuple(range(7)),
        {"cost_bps": (7.0,)},
        7.0,
    )
    assert manifest.profiles["standard"].limit.cpu.cores == 7
    assert (component.image, component.env) == ("007", {"ID": "007"})


def test_a_quoted_number_that_is_no_variable_stays_a_text() -> None:
    assert only(refused(HEAD + NODE.replace("max: 6", 'max: "6"'))).path == "pools.p.max"


def test_a_quoted_variable_with_more_around_it_stays_a_text() -> None:
    assert only(refused(HEAD + NODE.replace("max: 6", 'max: "${N}0"'), N="1")).path == "pools.p.max"


def test_a_quoted_variable_that_is_no_number_is_refused_where_one_is_asked_for() -> None:
    issue = only(refused(HEAD + NODE.replace("max: 6", 'max: "${N}"'), N="five"))

    assert issue.message == "max must be a positive integer, not ${N}"


@pytest.mark.parametrize("env", [{}, {"A": "x"}, {"B": "y"}], ids=["unset", "outer", "inner"])
def test_a_variable_in_a_default_is_refused_and_says_what_to_write(env: dict[str, str]) -> None:
    issue = only(refused(HEAD + 'store: "${A:-${B}}"\n', **env))

    assert (issue.path, issue.code) == ("store", "bad-variable")
    assert "with no variable in the default" in issue.remedy


@pytest.mark.parametrize("text", ['store: "${TOKEN}"\n', NODE.replace("max: 6", 'max: "${TOKEN}"')])
def test_a_variable_that_holds_a_control_character_is_refused_without_showing_it(text: str) -> None:
    error = refused(HEAD + text, TOKEN="hunter2\x1b[31m")

    issue = only(error)
    assert issue.message == "the environment variable TOKEN holds a control character"
    assert issue.code == "control-character"
    shown = "".join(traceback.format_exception(error)) + repr(error.report)
    assert "hunter2" not in shown and "\x1b" not in shown


# Values


def test_amounts_in_another_currency_are_found_wherever_they_are_stated() -> None:
    error = refused(
        HEAD
        + NODE
        + SWEEP
        + "budget:\n"
        + "  monthly: 20 EUR\n"
        + "  fixed: {disk: 1 SEK}\n"
        + "  stated: {cost: 3 USD}\n"
        + "  options: {o: {sweep: s, pool: p, workers: 1, stated: {cost: 5 GBP}}}\n"
        + "  growth: {g: {node: n, always_on: 2, stated: {monthly: 5 CHF}}}\n"
    )

    assert {issue.code for issue in error.report.errors} == {"currency-mix"}
    assert {issue.path: issue.message[:3] for issue in error.report.errors} == {
        "budget.fixed.disk": "SEK",
        "budget.stated.cost": "USD",
        "budget.options.o.stated.cost": "GBP",
        "budget.growth.g.stated.monthly": "CHF",
    }


def test_an_empty_list_is_called_empty() -> None:
    error = refused(
        HEAD
        + "targets: {t: {provider: aws, subnets: []}}\n"
        + "groups: {g: []}\n"
        + "sweeps: {s: {factor: mine, variants: [], assets: [], costs_bps: []}}\n"
    )

    assert set(paths(error)) == {
        *("targets.t.subnets", "groups.g", "sweeps.s.variants", "sweeps.s.assets", "sweeps.s.costs_bps"),
    }
    assert {issue.message for issue in error.report.errors} == {"the list is empty"}


def test_a_group_that_lists_an_asset_twice_is_refused_at_each_repetition() -> None:
    error = refused(HEAD + "groups: {g: [A, B, A, A]}\n")

    assert paths(error) == ["groups.g[2]", "groups.g[3]"]
    assert {issue.message for issue in error.report.errors} == {"A is listed twice"}


def test_a_pool_with_a_count_has_no_min() -> None:
    issue = only(refused(HEAD + NODE.replace("max: 6", "count: 2, min: 1")))

    assert (issue.path, issue.message) == ("pools.p.min", "a pool with a count has no min")


@pytest.mark.parametrize("key", ['""', '"  "'])
def test_a_key_without_a_name_is_refused(key: str) -> None:
    issue = only(refused(HEAD + f"sweeps: {{{key}: {{factor: calibration, assets: [a]}}}}\n"))

    assert (issue.code, issue.message, issue.place.line) == ("bad-key", "a key needs a name", 3)


@pytest.mark.parametrize("left", ["{cpu: 0, memory: 1GiB}", "{cpu: 1, memory: 0GiB}"])
def test_a_node_with_nothing_to_allocate_is_refused(left: str) -> None:
    issue = only(refused(HEAD + f"nodes: {{n: {{cpu: 16, memory: 64GiB, allocatable: {left}}}}}\n"))

    assert (issue.path, issue.message) == ("nodes.n.allocatable", "a node must have something to give")


COUNTED = (
    "nodes: {n: {cpu: 1, memory: 1GiB, price: 1 EUR/h}}\n"
    "pools: {p: {node: n, max: COUNT}}\n"
    "sweeps: {s: {factor: mine, variants: [x], assets: [a], costs_bps: [1], folds: COUNT, workers: COUNT}}\n"
)


def test_counts_over_a_million_are_refused() -> None:
    found = by_path(refused(HEAD + COUNTED.replace("COUNT", "1000001")))

    assert set(found) == {"pools.p.max", "sweeps.s.folds", "sweeps.s.workers"}
    assert found["pools.p.max"].message == "max is 1,000,001; more than 1,000,000 cannot be planned"
    assert {issue.remedy for issue in found.values()} == {"write at most 1000000"}


def test_a_count_of_a_million_is_accepted() -> None:
    manifest = load_text(HEAD + COUNTED.replace("COUNT", "1000000"), env={}).manifest

    assert (manifest.pools["p"].max, len(manifest.sweeps["s"].over["fold"].values)) == (1_000_000, 1_000_000)
