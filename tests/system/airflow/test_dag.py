"""The rendered DAG in a real Airflow: it loads, runs, survives a lost driver, and tells when rows are missing."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from scalable.deploy.airflow import render
from scalable.store import RowStatus
from tests.helpers.airflow.desk import LOST, START_S, WRONG, Desk
from tests.helpers.deploy.airflow import manifest

pytestmark = pytest.mark.long


def test_a_driver_that_is_killed_is_started_again_and_each_row_is_there_once(desk: Desk) -> None:
    told = desk.tested(desk.write(LOST))
    assert desk.states() == {
        "admitted": ("success", 1), "asset_A": ("success", 1), "asset_B": ("success", 2), "asset_C": ("success", 1),
        "complete": ("success", 1),
    }, told  # fmt: skip
    assert desk.asked("select state from dag_run") == [("success",)]
    rows = desk.rows()
    assert len(rows) == 12 and {(row.run_status, row.attempt) for row in rows} == {(RowStatus.FINISHED, 1)}
    again = {cell for cell, times in Counter(desk.computed()).items() if times > 1}
    assert again and all(cell.split()[1] == "B" for cell in again), "only what the killed driver had under way"


def test_a_row_that_failed_fails_the_last_task_and_gets_no_further_attempt(desk: Desk) -> None:
    told = desk.tested(desk.write(WRONG))
    assert desk.states() == {
        "admitted": ("success", 1), "asset_A": ("success", 1), "asset_B": ("failed", 2), "asset_C": ("success", 1),
        "complete": ("failed", 2),
    }, told  # fmt: skip
    assert desk.asked("select state from dag_run") == [("failed",)]
    assert Counter(desk.computed())["2 B 1"] == 1, "Airflow started the task twice, the row had one attempt"
    failed = [row for row in desk.rows() if row.run_status is RowStatus.FAILED]
    assert [(row.axes["asset"], row.variant, row.axes["fold"], row.attempt) for row in failed] == [("B", 2, 1, 1)]
    assert "11 of 12 rows, incomplete" in told and "depth 2 does not fit" in told


def test_two_runs_of_the_dag_do_not_overlap(desk: Desk) -> None:
    dag = desk.write(variants=[1], assets=["A", "B"], folds=1)
    assert desk.airflow("dags", "reserialize").returncode == 0
    for run in ("first", "second"):
        done = desk.airflow("dags", "trigger", dag, "--run-id", run)
        assert done.returncode == 0, done.stdout[-3000:]
    with desk.running():
        deadline = time.monotonic() + START_S
        while not all(ended for (ended,) in desk.asked("select end_date from dag_run")):
            assert time.monotonic() < deadline, (desk.folder / "scheduler.log").read_text()[-5000:]
            time.sleep(1)
    (_, first_ended), (second_began, _) = sorted(desk.asked("select start_date, end_date from dag_run"))
    assert first_ended <= second_began
    assert desk.asked("select distinct state from dag_run") == [("success",)]
    assert len(desk.rows()) == len(desk.computed()) == 2


def test_the_executor_makes_the_pod_of_the_profile_out_of_it(desk: Desk) -> None:
    (desk.folder / "dags").mkdir()
    for name, text in render(manifest(), "cluster", "n_features").items():
        (desk.folder / "dags" / name).write_text(text, encoding="utf-8")
    pod = desk.python("""
        import json
        from kubernetes.client import ApiClient, models as k8s
        from airflow.dag_processing.dagbag import DagBag
        from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator
        from airflow.serialization.serialized_objects import BaseSerialization

        bag = DagBag()
        assert not bag.import_errors, bag.import_errors
        task = bag.dags["scalable_n_features"].task_dict["asset_AAVEUSDC"]
        stored = BaseSerialization.deserialize(BaseSerialization.serialize(task.executor_config))
        container = k8s.V1Container(name="base", image="airflow:3")
        pod = PodGenerator.construct_pod(
            dag_id="d", task_id="t", pod_id="p", try_number=1, kube_image="airflow:3", date=None, args=["run"],
            pod_override_object=stored["pod_override"], namespace="airflow", scheduler_job_id="1",
            base_worker_pod=k8s.V1Pod(spec=k8s.V1PodSpec(containers=[container], restart_policy="Never")),
        )
        print(json.dumps(ApiClient().sanitize_for_serialization(pod)))
    """)
    spec = pod["spec"]
    [container] = spec["containers"]
    assert (container["name"], container["image"], container["args"]) == ("base", "registry.lab/sweeps:1.4", ["run"])
    assert container["resources"]["limits"] == {"cpu": "4", "memory": "25600Mi"}
    assert container["securityContext"]["readOnlyRootFilesystem"] and container["securityContext"]["runAsNonRoot"]
    assert spec["restartPolicy"] == "Never" and spec["nodeSelector"] == {"pool": "compute"}
    assert spec["topologySpreadConstraints"][0]["minDomains"] == 2
    secret = {"secretKeyRef": {"name": "store", "key": "url"}}
    assert {"name": "SCALABLE_STORE_URL", "valueFrom": secret} in container["env"]
