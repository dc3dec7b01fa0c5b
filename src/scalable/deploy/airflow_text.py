"""The text of a DAG as ``scalable admin deploy airflow`` writes it; ``<<NAME>>`` stands for what a manifest says."""

HEAD = '''"""The sweep <<title>>, part by part: <<about>>.

Written by  scalable admin deploy airflow; yours to change. The first task waits until the sweep may run among all that
share its store, and takes one place for this whole run of the DAG. The last task gives the place back, and fails if a
row is missing or failed. The rows of each <<axis>> are computed in <<where>>.

A task that is lost is started once more and computes what is missing. What failed had its attempts, and is not tried
again in this run of the DAG.
"""

from datetime import timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, Param
'''

IMPORT_KUBERNETES = """
try:
    from kubernetes.client import models as k8s
except ImportError:  # no executor starts pods without it: tasks run where it runs them, as large as that is
    k8s = None
"""

SETTINGS = """
SWEEP = <<sweep>>
PROFILE = <<sized>>
TARGET = <<target>>
# Where tasks run; another one may be named when the DAG is triggered.
MANIFEST = <<manifest>>
PARTS = <<parts>>
"""

KUBERNETES = '''
IMAGE = <<image>>
WORKER = <<worker>>
SMALL = <<small>>
LABELS = <<labels>>
NODE_SELECTOR = <<selector>>
TOLERATIONS = <<tolerations>>
SPREAD = <<spread>>
VARIABLES = <<variables>>
SECRETS = <<secrets>>


def pod(resources, **placed):
    """A task's pod: how large it is, where it runs, what it may not do."""
    if k8s is None:
        return {}
    given = [k8s.V1EnvVar(name=name, value=value) for name, value in VARIABLES.items()]
    for name, (secret, key) in SECRETS.items():
        source = k8s.V1EnvVarSource(secret_key_ref=k8s.V1SecretKeySelector(name=secret, key=key))
        given.append(k8s.V1EnvVar(name=name, value_from=source))
    folder = MANIFEST.rpartition("/")[0]
    container = k8s.V1Container(
        name="base",  # what Airflow calls the container of a task
        image=IMAGE,
        resources=k8s.V1ResourceRequirements(**resources),
        env=given,
        security_context=k8s.V1SecurityContext(
            run_as_non_root=True,
            read_only_root_filesystem=True,
            allow_privilege_escalation=False,
            capabilities=k8s.V1Capabilities(drop=["ALL"]),
            seccomp_profile=k8s.V1SeccompProfile(type="RuntimeDefault"),
        ),
        volume_mounts=[
            k8s.V1VolumeMount(name="scalable-tmp", mount_path="/tmp"),
            k8s.V1VolumeMount(name="scalable-work", mount_path=f"{folder}/.scalable"),
        ],
    )
    spec = k8s.V1PodSpec(
        containers=[container],
        volumes=[
            k8s.V1Volume(name="scalable-tmp", empty_dir=k8s.V1EmptyDirVolumeSource()),
            k8s.V1Volume(name="scalable-work", empty_dir=k8s.V1EmptyDirVolumeSource()),
        ],
        automount_service_account_token=False,<<account>>
        **placed,
    )
    return {"pod_override": k8s.V1Pod(metadata=k8s.V1ObjectMeta(labels=LABELS), spec=spec)}


def worker_pod():
    """As large as a worker of the profile <<profile>>, with room for Airflow and the driver, on nodes for sweeps."""
    if k8s is None:
        return {}
    apart = [
        k8s.V1TopologySpreadConstraint(
            topology_key="kubernetes.io/hostname",
            when_unsatisfiable="DoNotSchedule",
            label_selector=k8s.V1LabelSelector(match_labels=LABELS),
            node_taints_policy="Honor",
            **rule,
        )
        for rule in SPREAD
    ]
    return pod(
        WORKER,
        node_selector=NODE_SELECTOR,
        tolerations=[k8s.V1Toleration(**one) for one in TOLERATIONS],
        topology_spread_constraints=apart,
    )
'''

TASKS = '''

def verbatim(name):
    """Airflow fills in what looks like a template, and reads what ends like a script's name; names are neither."""
    return "{% raw %}" + name + "{% endraw %}"


def task(name, command, **settings):
    """A command of scalable, in the folder of the manifest."""
    return BashOperator(
        task_id=name,
        bash_command=f'cd "$(dirname "$SCALABLE_MANIFEST")" || exit 1\\n{command}',
        env={
            "SCALABLE_MANIFEST": "{{ params.manifest }}",
            "SCALABLE_TARGET": verbatim(TARGET),
            "SWEEP": verbatim(SWEEP),
            "PROFILE": verbatim(PROFILE),
            "HOLDER": "{{ dag.dag_id }} {{ run_id }}",  # whose place it is: that of all tasks of this run together
            **settings.pop("env", {}),
        },
        append_env=True,
        do_xcom_push=False,
        **settings,
    )


with DAG(
    dag_id=<<dag>>,
    schedule=None,  # triggered by hand; or e.g. "0 2 * * *"
    catchup=False,
    max_active_runs=1,
    params={"manifest": Param(MANIFEST, type="string", pattern="^/")},
    default_args={
        "retries": 1,  # of a task that was lost; of rows that failed there are none here
        "retry_delay": timedelta(seconds=<<delay>>),
        "retry_exponential_backoff": 2,
        "max_retry_delay": timedelta(seconds=<<cap>>),
    },
    tags=["scalable"],
) as dag:
    admitted = task(
        "admitted",
        'exec scalable ops slots take "$SWEEP" --profile "$PROFILE" --holder "$HOLDER"',<<in_small_line>>
    )
    parts = [
        task(
            name,
            'exec scalable run --sweep "$SWEEP" --where "$PART" --here --profile "$PROFILE" --holder "$HOLDER"',
            env={"PART": verbatim(part)},<<in_worker>>
        )
        for name, part in PARTS.items()
    ]
    complete = task(
        "complete",
        'scalable ops slots leave "$SWEEP" --holder "$HOLDER"\\nexec scalable results "$SWEEP" --check',
        trigger_rule="all_done",  # whatever became of the parts<<in_small_line>>
    )
    admitted >> parts >> complete
'''
