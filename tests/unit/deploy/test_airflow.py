"""The rendered DAG, loaded with stand-ins that remember what they were told; Airflow itself is in tests/system."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import jinja2
import pytest

from scalable.deploy.airflow import render
from scalable.errors import UsageError
from tests.helpers.deploy.airflow import CLUSTER, IMAGE, SWEEPS, manifest


class Told:
    """Whatever is made of it remembers its arguments; ``with`` and ``>>`` as a DAG and its tasks have them."""

    made: list[Told]

    def __init__(self, what: str, given: tuple[Any, ...], settings: dict[str, Any]) -> None:
        self.what, self.given, self.settings = what, given, settings
        self.after: list[Any] = []
        Told.made.append(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.settings[name]

    def __enter__(self) -> Told:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __rshift__(self, other: Any) -> Any:
        self.after.append(other)
        return other

    def __rrshift__(self, others: list[Told]) -> Told:
        for one in others:
            one.after.append(self)
        return self


def stand_in(name: str, **known: Any) -> ModuleType:
    found = ModuleType(name)

    def make(kind: str) -> Any:
        if kind.startswith("__"):
            raise AttributeError(kind)
        return known[kind] if kind in known else lambda *given, **settings: Told(kind, given, settings)

    found.__getattr__ = make  # type: ignore[method-assign]
    return found


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    Told.made = []
    models = stand_in("kubernetes.client.models")
    for name in ("airflow", "airflow.providers", "airflow.providers.standard", "airflow.providers.standard.operators"):
        monkeypatch.setitem(sys.modules, name, stand_in(name))
    monkeypatch.setitem(sys.modules, "airflow.providers.standard.operators.bash", stand_in("bash"))
    monkeypatch.setitem(sys.modules, "airflow.sdk", stand_in("sdk"))
    monkeypatch.setitem(sys.modules, "kubernetes", stand_in("kubernetes"))
    monkeypatch.setitem(sys.modules, "kubernetes.client", stand_in("client", models=models))


def loaded(sweep: str = "calibration", **sections: Any) -> tuple[Told, dict[str, Told]]:
    """The DAG and its tasks by id."""
    [(name, text)] = render(manifest(**sections), "cluster", sweep).items()
    exec(compile(text, name, "exec"), {"__name__": name})
    [dag] = [one for one in Told.made if one.what == "DAG"]
    return dag, {one.task_id: one for one in Told.made if one.what == "BashOperator"}


def plain(value: Any) -> Any:
    """A pod as nested dicts."""
    if isinstance(value, Told):
        return {name: plain(one) for name, one in value.settings.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def pod_of(task: Told) -> Any:
    return plain(task.executor_config["pod_override"])


@pytest.mark.usefixtures("airflow")
def test_one_run_at_a_time_and_a_lost_task_is_started_once_more_after_up_to_five_minutes() -> None:
    dag, _ = loaded()
    assert (dag.dag_id, dag.max_active_runs, dag.catchup) == ("scalable_calibration", 1, False)
    assert dag.default_args == {
        "retries": 1,
        "retry_delay": timedelta(seconds=60),
        "retry_exponential_backoff": 2,
        "max_retry_delay": timedelta(seconds=300),
    }
    assert dag.params["manifest"].given == ("/opt/project/scalable.yaml",)


@pytest.mark.usefixtures("airflow")
def test_a_sweep_with_retries_of_its_own_is_started_again_by_them() -> None:
    sweep = {"factor": "calibration", "assets": "defi_top5", "retry": {"delay": "5s"}}
    dag, _ = loaded(sweeps={"calibration": sweep})
    assert dag.default_args["retry_delay"] == timedelta(seconds=5)
    assert dag.default_args["max_retry_delay"] == timedelta(seconds=300)


@pytest.mark.usefixtures("airflow")
def test_admission_comes_first_then_each_asset_and_the_last_looks_at_what_is_there_whatever_happened() -> None:
    _, tasks = loaded()
    assets = {name: as_airflow_reads(task.env["PART"]) for name, task in tasks.items() if "PART" in task.env}
    assert assets == {
        "asset_AAVEUSDC": "asset=AAVEUSDC", "asset_UNI_USDC": "asset=UNI/USDC", "asset_UNI_USDC_": "asset=UNI USDC",
    }  # fmt: skip
    first, last = tasks["admitted"], tasks["complete"]
    assert [one.task_id for one in first.after[0]] == list(assets)
    assert all(tasks[name].after == [last] for name in assets)
    assert last.trigger_rule == "all_done"
    assert last.bash_command.endswith('exec scalable results "$SWEEP" --check')
    assert {task.env["HOLDER"] for task in tasks.values()} == {"{{ dag.dag_id }} {{ run_id }}"}
    assert all('--holder "$HOLDER"' in task.bash_command for task in tasks.values())


def as_airflow_reads(text: str) -> str:
    return jinja2.Environment().from_string(text).render()


@pytest.mark.usefixtures("airflow")
def test_names_are_no_templates_and_no_files_of_templates() -> None:
    odd = ["{{ 1 + 1 }}", "{% if x %}", "{# no #}", "clean.sh", "100%"]
    _, tasks = loaded(sweeps={"calibration": {**SWEEPS["calibration"], "assets": odd}})
    given = [task.env["PART"] for task in tasks.values() if "PART" in task.env]
    assert [as_airflow_reads(one) for one in given] == [f"asset={name}" for name in odd]
    assert not [one for one in given if one.endswith(".sh")]
    assert {as_airflow_reads(task.env["SWEEP"]) for task in tasks.values()} == {"calibration"}
    assert {as_airflow_reads(task.env["SCALABLE_TARGET"]) for task in tasks.values()} == {"cluster"}


def test_a_name_that_ends_a_text_without_templates_is_refused() -> None:
    sweeps = {"calibration": {**SWEEPS["calibration"], "assets": ["A{% endraw %}B"]}}
    with pytest.raises(UsageError, match=r"endraw .* rename it"):
        render(manifest(sweeps=sweeps), "cluster", "calibration")


@pytest.mark.usefixtures("airflow")
def test_an_asset_has_a_pod_of_its_profiles_size_on_the_pool_of_sweeps() -> None:
    _, tasks = loaded()
    spec = pod_of(tasks["asset_AAVEUSDC"])["spec"]
    [container] = spec["containers"]
    assert (container["name"], container["image"]) == ("base", IMAGE)
    assert container["resources"] == {  # 3.9 CPU so that no more than 4 bursts of 4 CPU meet on 16
        "requests": {"cpu": "3900m", "memory": "3072Mi", "ephemeral-storage": "1Gi"},
        "limits": {"cpu": "4", "memory": "9216Mi", "ephemeral-storage": "20Gi"},
    }
    assert spec["node_selector"] == {"pool": "compute"}
    assert spec["tolerations"] == [{"key": "sweeps", "operator": "Exists"}]


@pytest.mark.usefixtures("airflow")
def test_a_heavy_factor_has_the_heavy_profile_and_at_least_two_nodes() -> None:
    _, tasks = loaded("n_features")
    pod = pod_of(tasks["asset_AAVEUSDC"])
    assert pod["spec"]["containers"][0]["resources"]["limits"]["memory"] == "25600Mi"
    [rule] = pod["spec"]["topology_spread_constraints"]
    assert (rule["min_domains"], rule["max_skew"], rule["when_unsatisfiable"]) == (2, 1, "DoNotSchedule")
    assert rule["label_selector"]["match_labels"].items() <= pod["metadata"]["labels"].items()


@pytest.mark.usefixtures("airflow")
def test_tasks_that_only_ask_the_store_start_no_node_of_the_pool() -> None:
    _, tasks = loaded()
    for name in ("admitted", "complete"):
        spec = pod_of(tasks[name])["spec"]
        assert "node_selector" not in spec and "tolerations" not in spec


@pytest.mark.usefixtures("airflow")
def test_no_pod_has_rights_and_secrets_are_only_named() -> None:
    _, tasks = loaded(target={"worker_service_account": "sweeper"})
    for task in tasks.values():
        spec = pod_of(task)["spec"]
        assert spec["automount_service_account_token"] is False and spec["service_account_name"] == "sweeper"
        [container] = spec["containers"]
        assert container["security_context"] == {
            "run_as_non_root": True,
            "read_only_root_filesystem": True,
            "allow_privilege_escalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccomp_profile": {"type": "RuntimeDefault"},
        }
        reference = {"secret_key_ref": {"name": "store", "key": "url"}}
        assert container["env"] == [{"name": "SCALABLE_STORE_URL", "value_from": reference}]
        mounted = {one["name"] for one in container["volume_mounts"]}
        assert mounted == {one["name"] for one in spec["volumes"]} == {"scalable-tmp", "scalable-work"}


@pytest.mark.usefixtures("airflow")
def test_without_the_kubernetes_client_the_dag_loads_and_asks_for_no_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes.client", None)
    _, tasks = loaded()
    assert {str(task.executor_config) for task in tasks.values()} == {"{}"}


@pytest.mark.usefixtures("airflow")
def test_a_local_target_gives_tasks_without_pods() -> None:
    _, tasks = loaded()
    Told.made = []
    [(_, text)] = render(manifest(), "here", "calibration", manifest_path=Path("lab.yaml")).items()
    assert "k8s" not in text and "pod" not in text and f'MANIFEST = "{Path.cwd()}/lab.yaml"' in text
    exec(compile(text, "dag", "exec"), {"__name__": "dag"})
    assert {one.task_id for one in Told.made if one.what == "BashOperator"} == set(tasks)


@pytest.mark.parametrize(
    ("changes", "arguments", "told"),
    [
        ({}, ("cluster", "calibratoin"), "sweep 'calibratoin' is not defined; known: calibration, n_features"),
        ({}, ("clutser", "calibration"), "target 'clutser' is not defined; known: cluster, here; write cluster"),
        ({"target": {"provider": "slurm", "image": "x:1"}}, ("cluster", "calibration"), "not on slurm; name another"),
        ({"target": {"env": {}}}, ("cluster", "calibration"), r"store: a file in a pod goes with the pod"),
        (
            {"target": {"env": {**CLUSTER["env"], "DB_PASSWORD": "hunter2"}}},  # type: ignore[dict-item]
            ("cluster", "calibration"),
            r"targets.cluster.env.DB_PASSWORD would stand in the DAG .* write DB_PASSWORD: \{secret: NAME, key: KEY\}",
        ),
        (
            {"target": {"env": {"SCALABLE_STORE_URL": "postgresql://lab:hunter2@db/results"}}},
            ("cluster", "calibration"),
            r"targets.cluster.env.SCALABLE_STORE_URL would stand in the DAG for all to read",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_write(
    changes: dict[str, Any], arguments: tuple[str, str], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        render(manifest(**changes), *arguments)
