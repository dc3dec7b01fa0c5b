"""The command line: what each command prints for people and machines, where it reads from, and how it ends."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from scalable.cli.arguments import VIEWS
from scalable.cli.main import RENAMED
from tests.helpers.cli.commands import Call, call
from tests.helpers.cli.examples import EXAMPLE, example
from tests.helpers.cli.manifests import LOCAL

__all__ = ["example"]

__all__ = ["call"]

COMMANDS = ("init", "validate", "schema", "plan", "forecast", "completion")


@pytest.fixture
def small(call: Call, tmp_path: Path) -> Call:
    """The same, with a small manifest for this machine."""
    (tmp_path / "scalable.yaml").write_text(LOCAL, encoding="utf-8")
    return call


@pytest.mark.parametrize("template", ["function", "trading", "minimal", "ftf", "hpc"])
def test_what_init_writes_is_good_and_can_be_planned(call: Call, template: str) -> None:
    written = call("init", "--template", template)
    assert written.status == 0
    assert "wrote scalable.yaml" in written.out

    assert call("validate").status == 0
    assert call("plan").status == 0
    assert call("plan", "--format", "json").json["workers_by_tag"]


def test_init_names_the_next_step_for_a_file_of_another_name(call: Call) -> None:
    assert "scalable plan lab.yaml" in call("init", "lab.yaml").out
    assert call("plan", "lab.yaml").status == 0


def test_init_refuses_to_overwrite_and_leaves_the_file_alone(call: Call, tmp_path: Path) -> None:
    (tmp_path / "scalable.yaml").write_text("mine", encoding="utf-8")
    refused = call("init")
    assert refused.status == 2
    assert "scalable.yaml exists; --force overwrites it" in refused.err
    assert (tmp_path / "scalable.yaml").read_text(encoding="utf-8") == "mine"

    assert call("init", "--force").status == 0
    assert call("validate").status == 0


def test_init_writes_no_manifest_where_it_may_not_write_the_code(call: Call, tmp_path: Path) -> None:
    (tmp_path / "experiment.py").write_text("mine", encoding="utf-8")
    refused = call("init")
    assert (refused.status, [path.name for path in tmp_path.iterdir()]) == (2, ["experiment.py"])
    assert "experiment.py exists; --force overwrites it" in refused.err
    assert (tmp_path / "experiment.py").read_text(encoding="utf-8") == "mine"


def test_init_into_a_folder_that_does_not_exist_says_so(call: Call) -> None:
    refused = call("init", "nowhere/scalable.yaml")
    assert refused.status == 2
    assert "cannot write nowhere/scalable.yaml: No such file or directory" in refused.err


def test_init_of_an_unknown_template_names_the_known_ones(call: Call) -> None:
    refused = call("init", "--template", "gigantic")
    assert refused.status == 2
    assert "function" in refused.err


def test_forecast_margins_has_its_shape(example: Call) -> None:
    rows = example("forecast", "margins", "--format", "json").json["rows"]
    assert [row["scenario"] for row in rows] == [
        *("ftf-normal", "ftf-heavy", "discovery", "wfrb"),
        *("ftf-normal+discovery", "ftf-normal+wfrb", "ftf-heavy+wfrb", "worst-case"),
    ]
    for row in rows:
        assert set(row) == {
            *("scenario", "pods", "cpu_burst", "ram_peak_gib", "nodes", "nodes_by_request", "cpu_available"),
            *("ram_available_gib", "cpu_margin", "ram_margin", "status", "notes"),
        }
        assert row["status"] in ("ok", "warn", "fail")
        assert all(isinstance(note, str) for note in row["notes"])
    assert rows[0] | {"notes": []} == {
        "scenario": "ftf-normal",
        "pods": 10,
        "cpu_burst": 40.0,
        "ram_peak_gib": 20.0,
        "nodes": 3,
        "nodes_by_request": 2,
        "cpu_available": 48.0,
        "ram_available_gib": 192.0,
        "cpu_margin": 0.1667,
        "ram_margin": 0.8958,
        "status": "warn",
        "notes": [],
    }


def test_forecast_month_has_its_shape(example: Call) -> None:
    months = example("forecast", "month", "--format", "json").json["months"]
    assert [(month["name"], month["total"]) for month in months] == [
        ("normal", {"amount": 122.44, "currency": "EUR"}),
        ("heavy", {"amount": 148.2, "currency": "EUR"}),
        ("worst", {"amount": 177.8, "currency": "EUR"}),
    ]
    for month in months:
        assert {"name", "total", "lines", "budget", "margin"} <= set(month)
        assert month["budget"] == {"amount": 200.0, "currency": "EUR"}
        assert month["margin"]["amount"] == pytest.approx(200 - month["total"]["amount"])
        assert sum(line["cost"]["amount"] for line in month["lines"]) == pytest.approx(month["total"]["amount"])


def test_forecast_options_has_its_shape(example: Call) -> None:
    record = example("forecast", "options", "--format", "json").json
    assert record["recommended"] == "B compute pool"
    assert isinstance(record["reason"], str)
    for option in record["options"]:
        assert {"name", "workers", "hours", "cost", "monthly"} <= set(option)
    assert record["options"][1]["hours"] == 2.625


def test_plan_of_a_sweep_has_its_shape(example: Call) -> None:
    record = example("plan", "--sweep", "calibration", "--format", "json").json
    assert {
        *("sweep", "rows", "units", "workers_by_tag", "nodes_peak", "wall_s", "wall_unshared_s"),
        *("cost", "front", "assumptions", "warnings"),
    } <= set(record)
    assert (record["sweep"], record["rows"], record["units"]) == ("calibration", 225, 25)
    assert (record["wall_s"], record["wall_unshared_s"]) == (1050.0, 9450.0)
    assert record["workers_by_tag"] == {"standard": 5}
    assert record["cost"] == {"amount": 0.1671, "currency": "EUR"}
    assert all(isinstance(text, str) for text in record["assumptions"] + record["warnings"])
    assert [finding["code"] for finding in record["findings"]] == ["packed-tighter"]


def test_plan_of_everything_counts_all_sweeps(example: Call) -> None:
    record = example("plan", "--format", "json").json
    assert (record["rows"], record["units"], len(record["plans"])) == (1350, 400, 5)


def test_forecast_growth_timeline_and_acceptance_print_json_too(example: Call) -> None:
    assert [row["nodes"] for row in example("forecast", "growth", "--format", "json").json["rows"]][:4] == [5, 9, 13, 3]
    assert example("forecast", "timeline", "--format", "json").json["timeline"] == [[180.0, 2], [1830.0, 0]]
    criteria = example("forecast", "acceptance", "--format", "json").json["criteria"]
    assert {criterion["result"] for criterion in criteria} == {"pass", "unknown"}


def test_validate_for_machines_lists_every_finding_with_its_place(
    example: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(EXAMPLE))  # any file: a cluster is known here
    assert example("validate", "--format", "json").json == {"ok": True, "errors": [], "warnings": []}
    text = EXAMPLE.read_text(encoding="utf-8").replace("max: 6", "max: -1").replace("cpu: 15%", "cpu: 1500%")
    (tmp_path / "bad.yaml").write_text(text, encoding="utf-8")
    bad = example("validate", "bad.yaml", "--format", "json")
    assert bad.status == 1
    assert bad.json["ok"] is False
    assert {"pools.compute.max", "policies.margins.cpu"} <= {error["path"] for error in bad.json["errors"]}
    assert {"path", "message", "code", "severity", "remedy", "file", "line", "column"} == set(bad.json["errors"][0])


def test_schema_is_valid_json_schema(call: Call) -> None:
    from jsonschema import Draft202012Validator

    schema = call("schema").json
    Draft202012Validator.check_schema(schema)
    assert {"version", "project"} <= set(schema["required"])
    assert schema["title"] == "scalable.yaml"


@pytest.mark.parametrize("name", ["bash", "zsh", "tcsh"])
def test_completion_prints_a_script_that_knows_the_commands(call: Call, name: str) -> None:
    script = call("completion", name)
    assert script.status == 0
    assert all(command in script.out for command in COMMANDS)


def test_no_name_in_a_manifest_is_run_at_a_tab(call: Call, tmp_path: Path) -> None:
    names = ("$(touch run)", "`touch run`", "a;b", "\\x1b[2J", "größe-1.5", "a/b")
    (tmp_path / "scalable.yaml").write_text(json.dumps({"sweeps": dict.fromkeys(names)}), encoding="utf-8")
    assert call("completion", "sweeps").out.split("\n") == ["größe-1.5", "a/b", ""]
    (tmp_path / "scalable.yaml").write_text("sweeps: " + "[" * 2000, encoding="utf-8")
    assert call("completion", "sweeps").out == "\n"


TEXTS = [("plan",), ("plan", "--sweep", "calibration"), ("validate",), *(("forecast", view) for view in VIEWS)]


@pytest.mark.parametrize("arguments", TEXTS, ids=" ".join)
def test_text_in_a_pipe_has_no_escape_codes_and_no_trailing_blanks(example: Call, arguments: tuple[str, ...]) -> None:
    shown = example(*arguments)
    assert shown.status == 0
    assert shown.out.strip()
    assert "\x1b" not in shown.out
    assert [line for line in shown.out.splitlines() if line != line.rstrip()] == []


def test_text_fits_the_width_asked_for(example: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = example("plan", "--sweep", "calibration").out
    assert max(map(len, out.splitlines())) <= 80


def test_the_plan_for_people_says_what_it_takes_and_costs(example: Call) -> None:
    out = example("plan", "--sweep", "calibration").out
    for text in ("225 rows", "25 jobs", "5 workers", "18 min", "2 h 38", "EUR 0.17", "37.5 %", "3.9 CPU"):
        assert text in out


def test_a_cost_without_nodes_is_not_said_to_include_their_idle_time(small: Call, tmp_path: Path) -> None:
    manifest = tmp_path / "scalable.yaml"
    manifest.write_text(LOCAL.replace("provider: local", "provider: local, cpu_price: 0.10 EUR/h"), encoding="utf-8")
    out = small("plan", "--sweep", "calibration").out
    assert "EUR" in out
    assert "idle tail" not in out


def test_a_plan_starts_and_writes_nothing(example: Call, tmp_path: Path) -> None:
    example("plan")
    example("forecast", "margins")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scalable.yaml"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_examples(call: Call, command: str) -> None:
    shown = call(command, "--help")
    assert shown.status == 0
    assert "examples:" in shown.out
    assert f"scalable {RENAMED.get(command, command)}" in shown.out.split("examples:")[1]


def test_help_lists_every_command(call: Call) -> None:
    out = call("--help").out
    assert all(command in out for command in COMMANDS)
    assert "examples:" in out


def test_the_log_level_of_the_environment_holds_for_every_command(
    example: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger, last = logging.getLogger("scalable"), logging.lastResort
    assert last is not None
    before = logger.level, last.level
    try:
        monkeypatch.setenv("SCALABLE_LOG_LEVEL", "error")
        assert example("validate").status == 0
        assert (logger.level, last.level) == (logging.ERROR, logging.ERROR)
        monkeypatch.setenv("SCALABLE_LOG_LEVEL", "loud")
        refused = example("validate")
    finally:
        logger.setLevel(before[0])
        last.setLevel(before[1])
    assert (refused.status, "write one of DEBUG, INFO, WARNING" in refused.err) == (2, True)


def test_without_a_command_one_is_told_where_they_are_listed(call: Call) -> None:
    assert call().err.endswith("required: COMMAND; scalable --help  lists them\n")


def test_the_version_is_printed(call: Call) -> None:
    assert call("--version").out.startswith("scalable 0.")


def test_the_manifest_is_taken_from_the_argument_then_the_environment_then_the_folder(
    small: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folds, name in ((3, "named.yaml"), (5, "environment.yaml")):
        (tmp_path / name).write_text(LOCAL.replace("${FOLDS:-2}", str(folds)), encoding="utf-8")

    def rows(*arguments: str) -> int:
        return int(small("plan", *arguments, "--format", "json").json["rows"])

    per_fold = 3 * 2 * 3
    assert rows() == 2 * per_fold
    monkeypatch.setenv("SCALABLE_MANIFEST", "environment.yaml")
    assert rows() == 5 * per_fold
    assert rows("named.yaml") == 3 * per_fold


def test_the_target_is_taken_from_the_argument_then_the_environment_then_the_manifest(
    example: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pool(*arguments: str) -> str:
        return str(example("plan", "--sweep", "calibration", "--format", "json", *arguments).json["pool"])

    assert pool() == "compute"
    monkeypatch.setenv("SCALABLE_TARGET", "local")
    assert pool() == "local"
    assert pool("--target", "cluster") == "compute"


def test_the_seed_is_taken_from_the_argument_then_the_environment(small: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def seed(*arguments: str) -> tuple[int, float]:
        record = small("plan", "--sweep", "calibration", "--format", "json", *arguments).json
        return record["seed"], record["wall_s"]

    assert seed()[0] == 0
    monkeypatch.setenv("SCALABLE_SEED", "7")
    assert seed()[0] == 7
    assert seed("--seed", "8")[0] == 8
    assert len({seed("--seed", str(number))[1] for number in range(3)}) == 3, "the durations vary"
    assert seed("--seed", "3") == seed("--seed", "3")


@pytest.mark.parametrize(
    "arguments", [("plan",), ("plan", "--sweep", "calibration"), ("forecast", "timeline")], ids=" ".join
)
def test_an_overlay_applies_to_every_command(small: Call, arguments: tuple[str, ...]) -> None:
    plain, deeper = (small(*arguments, "--format", "json", *more).json for more in ((), ("--overlay", "deeper")))
    assert plain != deeper
    assert small("validate", "--overlay", "deeper").status == 0


@pytest.mark.parametrize(
    "arguments", [("plan",), ("plan", "--sweep", "calibration"), ("forecast", "timeline")], ids=" ".join
)
def test_a_variable_applies_to_every_command(
    small: Call, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = small(*arguments, "--format", "json").json
    monkeypatch.setenv("FOLDS", "6")
    assert small(*arguments, "--format", "json").json != plain
    monkeypatch.setenv("FOLDS", "none")
    assert small("validate").status == 1


@pytest.mark.parametrize("arguments", [("validate",), ("plan",), *(("forecast", view) for view in VIEWS)], ids=" ".join)
def test_an_unset_variable_is_named_by_every_command(call: Call, arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "scalable.yaml").write_text(LOCAL.replace("${FOLDS:-2}", "${HOW_MANY}"), encoding="utf-8")
    refused = call(*arguments)
    assert refused.status == 1
    assert "the environment variable HOW_MANY is not set" in refused.err


def test_history_of_the_runs_folder_is_used(example: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALABLE_RUNS_DIR", "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    history = {
        "seconds": {"calibration": [100.0] * 5},
        "peaks": {"calibration": "3 GiB"},
        "sessions": [{"target": "cluster"}] * 10,
    }
    (tmp_path / "elsewhere/history.json").write_text(json.dumps(history), encoding="utf-8")
    record = example("plan", "--sweep", "calibration", "--policy", "manual", "--format", "json").json
    assert record["wall_s"] == 500
    assert "memory peak 3 GiB (measured)" in record["assumptions"]
    criteria = example("forecast", "acceptance", "--format", "json").json["criteria"]
    assert {criterion["result"] for criterion in criteria} == {"pass"}


ON_MANIFESTS = [("validate",), ("plan",), ("forecast", "margins")]


@pytest.mark.parametrize("arguments", ON_MANIFESTS, ids=" ".join)
def test_a_missing_file_is_wrong_use_and_init_is_proposed(call: Call, arguments: tuple[str, ...]) -> None:
    refused = call(*arguments)
    assert refused.status == 2
    assert refused.out == ""
    assert "cannot read scalable.yaml: No such file or directory; scalable init  writes one" in refused.err


@pytest.mark.parametrize("arguments", ON_MANIFESTS, ids=" ".join)
def test_a_folder_instead_of_a_file_is_wrong_use(call: Call, arguments: tuple[str, ...], tmp_path: Path) -> None:
    refused = call(*arguments, str(tmp_path))
    assert refused.status == 2
    assert "is a folder; name the manifest in it" in refused.err


@pytest.mark.parametrize("arguments", ON_MANIFESTS, ids=" ".join)
def test_an_unknown_target_is_wrong_use_and_the_known_ones_are_named(example: Call, arguments: tuple[str, ...]) -> None:
    refused = example(*arguments, "--target", "clutser")
    assert refused.status == 2
    assert "no target 'clutser': the manifest has cluster, local; did you mean cluster?" in refused.err


@pytest.mark.parametrize("arguments", [("plan",), ("forecast", "timeline")], ids=" ".join)
def test_an_unknown_sweep_is_wrong_use_and_the_known_ones_are_named(example: Call, arguments: tuple[str, ...]) -> None:
    refused = example(*arguments, "--sweep", "nothing")
    assert refused.status == 2
    assert "sweep 'nothing' is not defined; known: calibration" in refused.err


@pytest.mark.parametrize("option", ["objective", "policy"])
@pytest.mark.parametrize("template", ["function", "hpc"])
def test_an_unknown_objective_or_policy_is_wrong_use_and_named(call: Call, option: str, template: str) -> None:
    call("init", "--template", template)
    refused = call("plan", f"--{option}", "faster")
    assert refused.status == 2
    assert f"{option} 'faster' is unknown; choose one of" in refused.err


@pytest.mark.parametrize("arguments", ON_MANIFESTS, ids=" ".join)
def test_an_unknown_overlay_is_named(example: Call, arguments: tuple[str, ...]) -> None:
    refused = example(*arguments, "--overlay", "nothing")
    assert refused.status == 1
    assert "overlay 'nothing' is not defined" in refused.err


@pytest.mark.parametrize("arguments", ON_MANIFESTS, ids=" ".join)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: 1\npools: ]\n", "scalable.yaml:2:8"),
        ("", "scalable.yaml"),
        ("- a\n- b\n", "scalable.yaml"),
        ("version: 2\nproject: {name: x}\n", "write version: 1"),
        ("version: 1\n", "'project' is required"),
        ("version: 1\nproject: {name: x}\nsweeeps: {}\n", "write sweeps"),
        ("\x00", "scalable.yaml"),
    ],
)
def test_a_broken_manifest_fails_with_its_place(
    call: Call, arguments: tuple[str, ...], text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "scalable.yaml").write_text(text, encoding="utf-8")
    broken = call(*arguments)
    assert broken.status == 1
    assert said in broken.err
    assert broken.out == ""


def test_a_manifest_that_is_not_utf_8_fails_with_its_line(call: Call, tmp_path: Path) -> None:
    (tmp_path / "scalable.yaml").write_bytes(b"version: 1\nproject: {name: \xff}\n")
    broken = call("plan")
    assert broken.status == 1
    assert "byte 0xff on line 2 is not UTF-8" in broken.err


def spent(folder: Path, amount: str) -> None:
    (folder / ".scalable/runs").mkdir(parents=True)
    (folder / ".scalable/history.json").write_text(json.dumps({"spent_this_month": amount}), encoding="utf-8")


@pytest.mark.parametrize("sweep", [(), ("--sweep", "calibration")], ids=["all", "one"])
@pytest.mark.parametrize("shape", ["text", "json"])
def test_a_plan_over_budget_is_shown_refused_and_can_be_accepted(
    example: Call, sweep: tuple[str, ...], shape: str, tmp_path: Path
) -> None:
    spent(tmp_path, "114.95 EUR")
    refused = example("plan", *sweep, "--format", shape)
    assert refused.status == 1
    assert "calibration" in refused.out
    assert "over the EUR 0.05 left of this month's budget; --over-budget accepts it" in refused.err

    accepted = example("plan", *sweep, "--format", shape, "--over-budget")
    assert accepted.status == 0
    assert accepted.out == refused.out
    assert accepted.err == ""


@pytest.mark.parametrize(
    ("amount", "remedy"),
    [("0 EUR", "--over-budget  runs it until that is used up"), ("1 EUR", "raise budget.monthly to run it")],
    ids=["some is left", "nothing is left"],
)
def test_a_run_over_budget_is_refused_with_what_would_help(
    small: Call, amount: str, remedy: str, tmp_path: Path
) -> None:
    priced = LOCAL.replace("provider: local", "provider: local, cpu_price: 9 EUR/h")
    (tmp_path / "scalable.yaml").write_text(f"{priced}budget: {{monthly: 0.05 EUR}}\n", encoding="utf-8")
    spent(tmp_path, amount)
    refused = small("run", "--sweep", "calibration")
    assert refused.status == 1
    assert remedy in refused.err
    assert not list((tmp_path / ".scalable/runs").glob("*/")), "nothing was started"


@pytest.mark.parametrize("arguments", [("plan",), ("forecast", "acceptance"), ("forecast", "margins")], ids=" ".join)
@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "[" * 50_000,
        '{"seconds": {"calibration": 5}}',
        '{"seconds": {"calibration": [-1, -1, -1, -1, -1]}}',
        '{"seconds": {"calibration": [0, 0, 0, 0, 0]}}',
        '{"seconds": {"calibration": [NaN, 1, 1, 1, 1]}}',
        '{"seconds": {"calibration": [Infinity, 1, 1, 1, 1]}}',
        '{"seconds": {"calibration": ["fast"]}}',
        '{"peaks": {"calibration": "much"}}',
        '{"sessions": [1]}',
        '{"sessions": [{"oom_kills": "many"}]}',
        '{"sessions": [{"scale_up_s": "long"}]}',
        '{"sessions": [{"unheard_of": 1}]}',
        '{"spent_this_month": 5}',
    ],
    ids=lambda text: text[:45],
)
def test_a_history_that_cannot_be_read_fails_and_is_named(
    example: Call, arguments: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    (tmp_path / ".scalable/runs").mkdir(parents=True)
    (tmp_path / ".scalable/history.json").write_text(text, encoding="utf-8")
    broken = example(*arguments)
    assert broken.status == 1
    assert ".scalable/history.json" in broken.err
    assert broken.out == ""


@pytest.mark.parametrize("amount", ["5 USD"])
def test_money_of_another_currency_in_the_history_is_refused(example: Call, amount: str, tmp_path: Path) -> None:
    spent(tmp_path, amount)
    refused = example("plan")
    assert refused.status == 1
    assert "USD" in refused.err


@pytest.mark.parametrize("seed", ["-1", "x", "1.5", "²"])
def test_a_seed_in_the_environment_that_is_no_number_is_wrong_use(
    example: Call, seed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCALABLE_SEED", seed)
    refused = example("plan", "--sweep", "calibration")
    assert refused.status == 2
    assert "SCALABLE_SEED" in refused.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("plna",),
        ("plan", "--format", "xml"),
        ("plan", "--seed", "x"),
        ("forecast",),
        ("forecast", "weather"),
        ("forecast", "margins", "--sweep", "calibration"),
        ("completion", "fish-and-chips"),
    ],
    ids=" ".join,
)
def test_wrong_arguments_are_wrong_use(example: Call, arguments: tuple[str, ...]) -> None:
    refused = example(*arguments)
    assert refused.status == 2
    assert refused.err


def test_what_follows_two_dashes_is_an_argument_like_others_but_of_a_workflow_the_scripts_own(example: Call) -> None:
    assert "cannot read nowhere.yaml" in example("validate", "--", "nowhere.yaml").err
    lost = example("run", "--", "--year", "2030")
    assert (lost.status, "name it: --workflow" in lost.err) == (2, True)


def test_an_acceptance_that_fails_fails_the_command(example: Call, tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace("monthly: 200 EUR", "monthly: 150 EUR")
    (tmp_path / "scalable.yaml").write_text(text, encoding="utf-8")
    assert example("forecast", "acceptance").status == 1


@pytest.mark.parametrize("view", ["margins", "timeline", "options", "month", "growth"])
def test_a_view_the_manifest_says_nothing_about_fails_with_what_is_missing(
    call: Call, view: str, tmp_path: Path
) -> None:
    (tmp_path / "scalable.yaml").write_text("version: 1\nproject: {name: x}\n", encoding="utf-8")
    answer = call("forecast", view)
    assert answer.status == 1
    assert answer.out == ""
    assert answer.err.startswith("the manifest ")


def test_a_sweep_that_fails_its_memory_check_fails_the_plan(example: Call, tmp_path: Path) -> None:
    (tmp_path / ".scalable/runs").mkdir(parents=True)
    history = json.dumps({"peaks": {"calibration": "25 GiB"}})
    (tmp_path / ".scalable/history.json").write_text(history, encoding="utf-8")
    refused = example("plan", "--sweep", "calibration")
    assert refused.status == 1
    assert "a peak of 25 GiB (measured) is over the profile's limit of 24 GiB" in refused.err


def test_a_plan_is_written_to_a_file_with_the_status_it_has(example: Call, tmp_path: Path) -> None:
    printed = example("plan", "--sweep", "calibration", "--format", "json")
    written = example("plan", "--sweep", "calibration", "--format", "json", "--dry-run", "--output", "plan.json")
    assert written.status == printed.status == 0
    assert json.loads((tmp_path / "plan.json").read_text(encoding="utf-8")) == printed.json
    assert example("plan", "--sweep", "calibration", "--output", "plan.txt").status == 0
    assert (tmp_path / "plan.txt").read_text(encoding="utf-8") == example("plan", "--sweep", "calibration").out


def test_a_dry_run_shows_the_plan_and_starts_nothing(example: Call, tmp_path: Path) -> None:
    wishes = ("--sweep", "calibration", "--objective", "minimize time", "--format", "json")
    dry = example("run", *wishes, "--dry-run")
    assert (dry.status, dry.json) == (0, example("plan", *wishes).json)
    assert example("run", *wishes, "--dry-run", "--pilot").status == 2
    spent(tmp_path, "EUR 199.99")
    assert example("run", "--sweep", "calibration", "--dry-run").status == 1, "refused as the plan is"
    assert [path.name for path in (tmp_path / ".scalable").iterdir() if path.name != "runs"] == ["history.json"]
    assert not any((tmp_path / ".scalable/runs").iterdir())
