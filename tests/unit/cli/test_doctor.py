"""``scalable doctor`` on this machine: what it finds before a run, what it says to do, and that it leaves no trace."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scalable.cluster.network import interfaces
from scalable.doctor import machine, nodes
from scalable.doctor.code import project
from scalable.findings import Severity
from scalable.wording import install_hint
from scalable.worker.project import LARGEST_FILE
from scalable.worker.runner.environment import THREAD_VARIABLES
from tests.helpers.cli.commands import Call, call
from tests.helpers.cli.doctor import GOOD, looked_at

__all__ = ["call"]

PLACE = ("file", "line", "column")


def written(text: str) -> None:
    Path("scalable.yaml").write_text(text)


def found(call: Call, *arguments: str, status: int = 0) -> dict[str, list[dict[str, Any]]]:
    """Checks by name."""
    answer = call("doctor", *arguments, "--format", "json")
    assert answer.status == status, answer
    assert answer.json["ok"] is (status == 0)
    checks: dict[str, list[dict[str, Any]]] = {}
    for check in answer.json["checks"]:
        assert set(check) == {"name", "status", "text", "remedy", "code", "severity", "path", "message", *PLACE}
        checks.setdefault(check["name"], []).append(check)
    return checks


def the(checks: dict[str, list[dict[str, Any]]], name: str) -> dict[str, Any]:
    [check] = checks[name]
    return check


def test_a_limit_that_a_worker_alone_exceeds_is_told_before_it_is_killed_for_it(call: Call) -> None:
    written(GOOD.replace("1GiB", "50MB"))
    check = the(found(call, status=1), "memory")
    assert (check["status"], check["remedy"]) == ("fail", "write e.g. components.model.memory: 500MiB")
    assert "model may use 50 MB" in check["text"]


def test_a_machine_that_is_ready_says_so(call: Call) -> None:
    written(GOOD)
    checks = found(call)
    assert the(checks, "plan")["text"] == "1 × model, 1 × report"
    assert the(checks, "threads")["text"] == "every worker gets as many as it has CPUs"
    assert the(checks, "memory")["text"].startswith("1 GiB for all workers, ")
    assert [path.name for path in Path().iterdir()] == ["scalable.yaml"], "looking leaves nothing behind"


def test_people_get_a_line_for_each_check_and_a_last_word(call: Call) -> None:
    written(GOOD.replace("max_workers: 2", "max_workers: 500"))
    answer = call("doctor")
    assert answer.status == 0
    assert "\nwarn  CPUs " in answer.out
    assert "→ lower max_workers, or cpus of components\n" in answer.out
    assert answer.out.splitlines()[-1].startswith("ready, with ")


def test_every_error_of_the_manifest_is_a_failed_check_with_its_remedy(call: Call) -> None:
    written(GOOD.replace("max_workers: 2", "max_workers: 0").replace("1GiB", "1 parsec"))
    checks = found(call, status=1)
    assert [check["status"] for check in checks["bad value"]] == ["fail", "fail"]
    assert all(check["remedy"] for check in checks["bad value"])
    assert {check["path"] for check in checks["bad value"]} == {"targets.here.max_workers", "components.model.memory"}
    assert set(checks) == {"packages", "bad value"}, "the rest cannot be judged"


def test_a_plan_that_cannot_be_made_is_told(call: Call) -> None:
    written(GOOD.replace("max_workers: 2", "max_workers: 1"))
    assert "raise max_workers" in the(found(call, status=1), "plan")["text"]


def test_what_the_provider_says_of_the_target_is_told(call: Call) -> None:
    written(GOOD.replace("processes: true", "processes: true, containers: docker"))
    check = the(found(call, status=1), "unsupported")
    assert check["path"] == "targets.here.containers"
    assert check["remedy"] == "write containers: none"


def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(machine.NEEDED, "local", ("surely_not_installed",))
    written(GOOD)
    check = the(found(call, status=1), "provider")
    assert check["text"] == "local needs surely_not_installed, which is not installed"
    assert check["remedy"] == install_hint("local")


def test_a_package_that_is_too_old_or_missing_is_told() -> None:
    assert machine.unmet("distributed>=9999").startswith("distributed>=9999 is needed, not ")
    assert machine.unmet("surely-not-installed>=1") == "surely-not-installed is not installed"
    assert machine.unmet("surely-not-installed>=1; extra == 'slurm'") == ""


def test_a_runs_folder_that_cannot_be_written_is_told(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALABLE_RUNS_DIR", "/proc/runs")
    written(GOOD)
    check = the(found(call, status=1), "runs folder")
    assert check["text"].startswith("/proc/runs cannot be written: ")
    assert "SCALABLE_RUNS_DIR" in check["remedy"]


def test_a_history_that_cannot_be_read_is_told(call: Call) -> None:
    written(GOOD)
    Path(".scalable/runs").mkdir(parents=True)
    Path(".scalable/history.json").write_text("{")
    assert "history.json" in the(found(call, status=1), "history")["text"]


SWEEP = """
sweeps: {calibration: {factor: calibration, assets: [X], run_minutes: 1}}
profiles: {standard: {request: {cpu: 1, memory: 1GiB}, limit: {cpu: 1, memory: 2GiB}}}
"""


def test_a_store_is_looked_at_without_making_it(call: Call) -> None:
    written(GOOD + SWEEP)
    assert the(found(call), "store")["text"] == "sqlite:///.scalable/results.db will be made"
    assert not Path(".scalable").exists()


def test_a_store_that_is_no_database_or_not_supported_is_told(call: Call) -> None:
    Path("results.db").write_text("no database, but long enough to look like one " * 100)
    written(GOOD + SWEEP + "store: sqlite:///results.db\n")
    assert "file is not a database" in the(found(call, status=1), "store")["text"]
    written(GOOD + SWEEP + "store: mysql://host/results\n")
    assert the(found(call, status=1), "store")["status"] == "fail"


def test_more_cpus_and_memory_than_there_are_is_a_warning(call: Call) -> None:
    written(GOOD.replace("1GiB", "100TiB").replace("report: {}", "report: {cpus: 5000}"))
    checks = found(call)
    assert "workers share them and get slower" in the(checks, "CPUs")["text"]
    assert "the kernel kills some" in the(checks, "memory")["text"]


def test_thread_variables_beyond_the_cpus_are_a_warning(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    written(GOOD.replace("report: {}", "report: {env: {OMP_NUM_THREADS: 8}}"))
    assert the(found(call), "threads")["text"] == "more threads than CPUs: report sets OMP_NUM_THREADS=8"
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    written(GOOD.replace("processes: true", "processes: false").replace("{memory: 1GiB}", "{}"))
    assert the(found(call), "threads")["status"] == "warn"


@pytest.fixture
def few_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (205, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_files")
def test_a_limit_of_open_files_below_what_workers_need_fails(call: Call) -> None:
    written(GOOD)
    check = the(found(call, status=1), "open files")
    assert check["text"] == "205 allowed, 2 workers may need 220"
    assert check["remedy"] == "ulimit -n 220"


TASKS = """
tasks:
  load: {component: model, run: "pack.steps:load", arguments: {path: a.csv}}
  fit: {component: model, run: "pack.steps:fit", needs: [load]}
"""


def package(steps: str) -> None:
    Path("pack").mkdir(exist_ok=True)
    Path("pack/__init__.py").write_text("raise SystemExit('a doctor must not import this')\n")
    Path("pack/steps.py").write_text(steps)


def test_functions_are_found_without_importing_anything(call: Call) -> None:
    package("import torch_is_not_installed\n\ndef load(path, *, again=False): ...\n\nclass fit: ...\n")
    written(GOOD + TASKS)
    assert the(found(call), "functions")["text"].startswith("2 tasks can be found in ")


def test_axes_are_arguments_and_outputs_are_where_a_function_takes_them(call: Call) -> None:
    package("def load(year, chart): ...\n\ndef fit(month): ...\n")
    over = "over: {year: 2}, outputs: {chart: 'out/{year}.png', table: 'out/{year}.csv'}"
    tasks = f"tasks: {{load: {{component: model, run: 'pack.steps:load', {over}}}}}\n"
    written(GOOD + tasks)
    assert the(found(call), "functions")["text"].startswith("1 task can be found in ")
    written(GOOD + tasks.replace(":load", ":fit"))
    [problem] = found(call, status=1)["functions"]
    assert problem["text"] == "tasks.load.run: fit in pack/steps.py takes no argument 'year'"


def test_a_function_a_module_or_an_argument_that_is_not_there_is_told(call: Call) -> None:
    package("def load(file): ...\n\ndef fitt(load): ...\n")
    written(GOOD + TASKS)
    texts = [check["text"] for check in found(call, status=1)["functions"]]
    assert texts == [
        "tasks.load.run: load in pack/steps.py takes no argument 'path'",
        "tasks.fit.run: in pack/steps.py, function 'fit' is not defined; known: fitt, load",
    ]
    written(GOOD + TASKS.replace("pack.steps", "pack.nowhere"))
    assert "there is no module pack.nowhere in " in found(call, status=1)["functions"][0]["text"]


def test_code_with_an_error_of_syntax_is_told_with_its_line(call: Call) -> None:
    package("def load(path:\n")
    written(GOOD + TASKS)
    assert "steps.py, line 1" in found(call, status=1)["functions"][0]["text"]


@pytest.mark.parametrize(
    "steps",
    [
        "from numpy import *\n",
        "def __getattr__(name): ...\n",
        "try:\n    from fast import load, fit\nexcept ImportError:\n    load = fit = print\n",
        "import functools\n@functools.cache\ndef load(other): ...\nfit = functools.partial(load, 1)\n",
        "def load(path, **more): ...\ndef fit(*, load): ...\n",
    ],
)
def test_code_that_cannot_be_judged_from_its_text_is_not_blamed(call: Call, steps: str) -> None:
    package(steps)
    written(GOOD + TASKS)
    assert the(found(call), "functions")["status"] == "ok"


SWEEPS = """
version: 1
project: {name: lab}
targets: {here: {provider: local, max_workers: 2, processes: true}}
profiles: {standard: {request: {cpu: 1, memory: 1GiB}, limit: {cpu: 1, memory: 2GiB}}}
sweeps:
  own: {factor: depth, variants: [1, 2], assets: [a], run: "pack.steps:load", run_minutes: 1}
"""

BUILT_IN = "  shipped: {factor: calibration, assets: [AAVEUSDC], folds: 2, settings: {horizon: 8h}, run_minutes: 1}\n"


def test_a_sweep_is_planned_and_its_function_looked_for_as_a_task_is(call: Call) -> None:
    package("def load(cell): ...\n")
    written(SWEEPS)
    checks = found(call)
    assert "1 target, 1 sweep" in the(checks, "manifest")["text"]
    assert the(checks, "plan")["text"] == "own: 2 × standard"
    assert the(checks, "memory")["text"].startswith("4 GiB for all workers, ")
    assert the(checks, "functions")["text"].startswith("1 sweep can be found in ")
    assert "target" not in checks, "a profile that no sweep takes may be larger than this machine"
    written(SWEEPS.replace("pack.steps", "pack.nowhere"))
    assert "sweeps.own.run: there is no module pack.nowhere" in the(found(call, status=1), "functions")["text"]


def test_a_folder_of_artefacts_that_cannot_be_made_is_told(call: Call) -> None:
    package("def load(cell): ...\n")
    written(f"{SWEEPS}artefacts: scalable.yaml/kept\n")
    assert the(found(call, status=1), "artefacts")["remedy"] == "write artefacts: FOLDER"


def test_a_path_that_is_longer_than_a_line_is_told_whole(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    package("def load(cell): ...\n")
    path = "/".join(["far"] * 30)
    written(f"{SWEEPS}store: sqlite:///{path}/results.db\n")
    monkeypatch.setenv("COLUMNS", "60")
    assert f"{path}/results.db" in "".join(call("doctor").out.split())


def test_a_sweep_that_cannot_be_run_is_not_called_ready(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    package("def load(cell): ...\n")
    written(SWEEPS + BUILT_IN.replace("horizon", "horizn"))
    assert the(found(call, status=1), "undefined setting")["remedy"] == "write horizon"
    written(SWEEPS + BUILT_IN)
    monkeypatch.setattr(machine, "importable", lambda module: module != "xgboost")
    assert the(found(call, status=1), "workload")["remedy"] == install_hint("finetune")


def test_a_target_on_slurm_without_slurm_says_where_to_run(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    written(GOOD.replace("{provider: local, max_workers: 2, processes: true}", "{provider: slurm}"))
    checks = found(call, status=1)
    assert the(checks, "Slurm")["text"] == "sbatch, squeue, scancel, scontrol, sinfo not found on this machine"
    assert "no slurm" not in checks, "said once"


def test_nodes_on_other_machines_cannot_reach_loopback(tmp_path: Path) -> None:
    checks = looked_at(tmp_path, interface="lo")
    assert checks["nodes"].message == "2 nodes, 2 on other machines"
    assert checks["interface"].severity is Severity.ERROR
    assert checks["interface"].message == "lo (127.0.0.1) is this machine's only; 2 nodes cannot reach it"
    assert looked_at(tmp_path, "n1|127.0.0.1\n", interface="lo")["interface"].severity is Severity.OK


def test_an_interface_that_is_not_there_fails_with_those_that_are(tmp_path: Path) -> None:
    check = looked_at(tmp_path, interface="ib7")["interface"]
    assert check.severity is Severity.ERROR
    assert all(name in check.message for name in interfaces())


def test_folders_on_local_disks_are_a_warning_where_nodes_are_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "mount_table", lambda: [("/", "ext4"), (str(tmp_path / "home"), "nfs4")])
    monkeypatch.setenv("SCALABLE_RUNS_DIR", str(tmp_path / "home" / "runs"))
    checks = looked_at(tmp_path)
    assert (
        checks["shared-runs-folder"].message
        == f"{tmp_path}/home/runs is on ext4, which other machines probably do not see"
    )
    (tmp_path / "home").mkdir()
    checks = looked_at(tmp_path)
    assert checks["shared-runs-folder"].message == f"{tmp_path}/home/runs is on nfs4"
    assert checks["shared-project-folder"].remedy == "work in a shared folder, or write code: upload"
    assert "shared-project-folder" not in looked_at(tmp_path, code="upload")
    assert "shared-runs-folder" not in looked_at(tmp_path, "n1|127.0.0.1\n")


def test_this_machines_mounts_can_be_read() -> None:
    mounts = nodes.mount_table()
    assert ("/proc", "proc") in mounts
    assert nodes.mount_type(Path("/proc/self"), mounts) == "proc"


def test_a_project_that_is_too_large_to_upload_fails(tmp_path: Path) -> None:
    for number in range(60):
        with (tmp_path / f"{number}.bin").open("wb") as file:
            file.truncate(LARGEST_FILE)
    [check] = project(tmp_path, "upload")
    assert check.severity is Severity.ERROR
    assert check.message.endswith("has 60 MiB to upload, at most 50 MiB: too large to upload")
    [check] = project(tmp_path, "shared")
    assert check.severity is Severity.OK


def test_files_that_are_left_out_of_an_upload_are_named(tmp_path: Path) -> None:
    with (tmp_path / "prices.csv").open("wb") as file:
        file.truncate(3 * LARGEST_FILE)
    [check] = project(tmp_path, "upload")
    assert check.message == "not uploaded, being over 1 MiB: prices.csv (3 MiB)"


def test_a_home_folder_as_project_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalable.doctor.code.MOST_FILES", 20)
    for number in range(21):
        (tmp_path / f"{number}").touch()
    assert [check.severity for check in (*project(tmp_path, "shared"), *project(tmp_path, "upload"))] == [
        "warning",
        "error",
    ]
