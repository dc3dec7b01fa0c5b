"""AWS for tests: moto's server, and hands that really run what it was asked to run.

moto keeps books only. ``Hands`` does what ECS and EC2 do beyond that: it starts a process for every task and instance
with the command, the secrets and the user data it was given, ends it when it is stopped, writes its output where the
log driver would, and notes its end in the books.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends
from moto.ec2.models.instances import StateReason
from moto.ecs.models import ecs_backends
from moto.logs.models import logs_backends
from moto.secretsmanager.models import secretsmanager_backends

from tests.helpers.cluster.hands import Running, drained, kill, run, tell, worker_command

REGION = "eu-central-1"
LOOK_EVERY_S = 0.02


class Hands:
    def __init__(self, endpoint: str) -> None:
        self.env = {"AWS_ENDPOINT_URL": endpoint}
        self.ecs = ecs_backends[DEFAULT_ACCOUNT_ID][REGION]
        self.ec2 = ec2_backends[DEFAULT_ACCOUNT_ID][REGION]
        self.running: dict[str, Running] = {}
        self.over: set[str] = set()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.work, name="hands of AWS", daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.stop.set()
        self.thread.join()
        for one in self.running.values():
            kill(one.process)

    def work(self) -> None:
        while not self.stop.wait(LOOK_EVERY_S):
            for tasks in list(self.ecs.tasks.values()):
                for task in list(tasks.values()):
                    self.tend_task(task)
            for reservation in list(self.ec2.reservations.values()):
                for instance in list(reservation.instances):
                    self.tend_instance(instance)

    def tend_task(self, task: Any) -> None:
        arn = task.task_arn
        if arn in self.over:
            return
        one = self.running.get(arn)
        if one is None:
            if task.desired_status == "STOPPED":
                self.over.add(arn)
                return
            family = task.task_definition_arn.rpartition("/")[2].partition(":")[0]
            definition: Any = max(self.ecs.task_definitions[family].items())[1]
            [container] = definition.container_definitions
            [override] = task.overrides["containerOverrides"]
            env = {one["name"]: self.secret(one["valueFrom"]) for one in container.get("secrets", [])}
            self.running[arn] = run([*container["entryPoint"][1:], *override["command"]], {**self.env, **env})
            return
        if task.desired_status == "STOPPED":
            task.stop_code = "UserInitiated"
            tell(one)
        if (code := one.process.poll()) is not None:
            self.over.add(arn)
            self.log(task, drained(one))
            [container] = task.containers
            container.exitCode, container.last_status = 128 - code if code < 0 else code, "STOPPED"
            task.stopped_reason = task.stopped_reason or "Essential container in task exited"
            task.stop_code = "EssentialContainerExited"
            task.desired_status = "STOPPED"
            task.status = "STOPPED"

    def log(self, task: Any, output: bytes) -> None:
        """As the awslogs driver does."""
        logs = logs_backends[DEFAULT_ACCOUNT_ID][REGION]
        family = task.task_definition_arn.rpartition("/")[2].partition(":")[0]
        revisions: dict[int, Any] = self.ecs.task_definitions.get(family, {})
        definition = max(revisions.items())[1] if revisions else None
        if definition is None:
            return
        options = definition.container_definitions[0]["logConfiguration"]["options"]
        stream = f"{options['awslogs-stream-prefix']}/worker/{task.task_arn.rpartition('/')[2]}"
        group = options["awslogs-group"]
        logs.create_log_stream(group, stream)
        now = int(time.time() * 1000)
        lines = [{"timestamp": now, "message": line} for line in output.decode(errors="replace").splitlines() if line]
        if lines:
            logs.put_log_events(group, stream, lines)

    def secret(self, arn: str) -> str:
        backend = secretsmanager_backends[DEFAULT_ACCOUNT_ID][REGION]
        found = backend.get_secret_value(secret_id=arn, version_id="", version_stage="")
        return str(found["SecretString"])

    def tend_instance(self, instance: Any) -> None:
        name = instance.id
        if name in self.over:
            return
        one = self.running.get(name)
        alive = instance.state in ("pending", "running")
        if one is None:
            if alive:
                self.running[name] = run(worker_command(instance.user_data.decode()), self.env)
            return
        if not alive:
            kill(one.process)  # a machine that is terminated is gone within seconds
        if one.process.poll() is not None:
            self.over.add(name)
            if alive:
                switch_off(instance)


def switch_off(instance: Any) -> None:
    """As ``instance.terminate()``, but by the instance itself; whoever looks meanwhile sees no end without a reason."""
    code = "Client.InstanceInitiatedShutdown"
    for nic in instance.nics.values():
        nic.stop()
        nic.delete()
    instance.teardown_defaults()
    instance.state_reason = StateReason(f"{code}: Instance initiated shutdown", code)
    instance._state.name, instance._state.code = "terminated", 48
