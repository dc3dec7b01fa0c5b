"""Workers as ECS tasks on Fargate: an ECS cluster of the run, a task definition for each kind, a task for each worker.

Certificates and environment are in Secrets Manager; the task definition only refers to them, so ``DescribeTasks`` and
``DescribeTaskDefinition`` show neither. Logs of workers go to CloudWatch and outlive the run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from scalable.cluster.aws import reasons
from scalable.cluster.aws.account import (
    AwsError,
    AwsFleet,
    keep_secret,
    remove_secrets,
    remove_security_groups,
    secret_prefix,
    tag_list,
)
from scalable.cluster.base import WorkerTemplate
from scalable.cluster.clouds.fleet import NAME_TAG, REASON, Seen, plain, unfit
from scalable.cluster.clouds.start import ENVIRONMENT, VARIABLE
from scalable.manifest.targets import AwsTarget
from scalable.planning.capacity import fargate_size

CONTAINER = "worker"
STOP_WITHIN_S = 60  # from notice to kill: running tasks have 20 s, handing over 8; Fargate allows up to 120
AT_ONCE = 100  # tasks that one DescribeTasks may ask about
KEPT_DAYS = 30  # logs of workers
LAST_LINES = 20


class FargateFleet(AwsFleet):
    """The tasks of one run."""

    noun = "task"

    def __init__(self, target: AwsTarget, run: str, project: str) -> None:
        super().__init__(target, run)
        self.cluster = f"scalable-{run}"
        self.logs = f"/scalable/{plain(project)}"

    def check(self, template: WorkerTemplate) -> str:
        if template.gpus:
            return "Fargate has no GPUs; use cluster_type: ec2"
        return unfit(template.image or self.target.image, lambda: fargate_size(template.cpus, template.memory))

    def prepare(self) -> None:
        self.make_group()
        self.account.call(
            "ecs", "create_cluster", clusterName=self.cluster, tags=tag_list(self.tags, "key", "value"),
            capacityProviders=["FARGATE", "FARGATE_SPOT"],
        )  # fmt: skip
        try:
            self.account.call("logs", "create_log_group", logGroupName=self.logs)
            self.account.call("logs", "put_retention_policy", logGroupName=self.logs, retentionInDays=KEPT_DAYS)
        except AwsError as error:
            if error.code != "ResourceAlreadyExistsException":
                raise

    def publish(self, template: WorkerTemplate, handout: str) -> str:
        arn = keep_secret(self.account, self.run, template.tag, handout, self.tags)
        self.account.call("ecs", "register_task_definition", **self.definition(template, arn))
        return ENVIRONMENT

    def family(self, template: WorkerTemplate) -> str:
        return secret_prefix(self.run) + plain(template.tag)

    def definition(self, template: WorkerTemplate, secret: str) -> dict[str, Any]:
        size = fargate_size(template.cpus, template.memory, self.target.worker_cpu or 0, self.target.worker_mem or 0)
        logging = {
            "awslogs-group": self.logs,
            "awslogs-region": self.account.session.region_name,
            "awslogs-stream-prefix": self.run,
        }
        container = {
            "name": CONTAINER,
            "image": template.image or self.target.image,
            "essential": True,
            "memory": size.mib,
            "entryPoint": [self.target.python, "-P", "-m", "scalable.cluster.clouds.start"],
            "command": [ENVIRONMENT],
            "secrets": [{"name": VARIABLE, "valueFrom": secret}],
            "stopTimeout": STOP_WITHIN_S,
            "linuxParameters": {"initProcessEnabled": True},
            "logConfiguration": {"logDriver": "awslogs", "options": logging},
        }
        roles = {"executionRoleArn": self.target.execution_role_arn, "taskRoleArn": self.target.task_role_arn}
        return {
            "family": self.family(template),
            "networkMode": "awsvpc",
            "requiresCompatibilities": ["FARGATE"],
            "cpu": str(size.units),
            "memory": str(size.mib),
            "containerDefinitions": [container],
            "tags": tag_list(self.tags, "key", "value"),
            **{name: arn for name, arn in roles.items() if arn},
        }

    def start(self, name: str, template: WorkerTemplate, arguments: Sequence[str]) -> str:
        assert self.network is not None
        if self.target.spot:
            where: dict[str, Any] = {"capacityProviderStrategy": [{"capacityProvider": "FARGATE_SPOT", "weight": 1}]}
        else:
            where = {"launchType": "FARGATE"}
        place = {
            "subnets": list(self.network.subnets),
            "securityGroups": self.groups,
            "assignPublicIp": "ENABLED" if self.network.public else "DISABLED",
        }
        answer = self.account.call(
            "ecs", "run_task", cluster=self.cluster, taskDefinition=self.family(template), count=1, **where,
            networkConfiguration={"awsvpcConfiguration": place},
            overrides={"containerOverrides": [{"name": CONTAINER, "command": list(arguments)}]},
            startedBy=f"scalable-{self.run}", clientToken=f"{self.run}-{plain(name)}",
            tags=tag_list({**self.tags, NAME_TAG: name}, "key", "value"),
        )  # fmt: skip
        if not answer.get("tasks"):
            text, passing = reasons.refusal((answer.get("failures") or [{}])[0])
            raise AwsError(text, passing=passing)
        arn: str = answer["tasks"][0]["taskArn"]
        return arn

    def look(self, ids: Sequence[str]) -> dict[str, Seen]:
        seen = {}
        for first in range(0, len(ids), AT_ONCE):
            asked = list(ids[first : first + AT_ONCE])
            for task in self.account.call("ecs", "describe_tasks", cluster=self.cluster, tasks=asked)["tasks"]:
                arn = task["taskArn"]
                if reasons.over(task):
                    seen[arn] = Seen(fate=reasons.task_fate(task, self.last_words(arn)))
                else:
                    seen[arn] = Seen(waits=reasons.task_waits(task))
        return seen

    def last_words(self, arn: str) -> str:
        """Return the reason that a worker wrote down before it ended; empty if there is none."""
        stream = f"{self.run}/{CONTAINER}/{arn.rpartition('/')[2]}"
        try:
            events = self.account.call(
                "logs", "get_log_events", logGroupName=self.logs, logStreamName=stream, limit=LAST_LINES,
                startFromHead=False,
            )["events"]  # fmt: skip
        except AwsError:  # it never came to write one
            return ""
        reasons_given = [match[1] for event in events if (match := re.search(REASON, event["message"]))]
        return reasons_given[-1] if reasons_given else ""

    def stop(self, ids: Sequence[str]) -> None:
        """Stop all that can be; raises at the end if one could not."""
        refusal: AwsError | None = None
        for arn in ids:
            try:
                self.account.call("ecs", "stop_task", cluster=self.cluster, task=arn, reason="no longer needed")
            except AwsError as error:
                if error.code not in ("InvalidParameterException", "ClusterNotFoundException"):  # it is gone
                    refusal = error
        if refusal is not None:
            raise refusal

    def clear(self) -> list[str]:
        left = self.clear_tasks()
        if not left:
            for family in self.families():
                for arn in self.account.pages(
                    "ecs", "list_task_definitions", "taskDefinitionArns", familyPrefix=family, status="ACTIVE"
                ):
                    self.account.call("ecs", "deregister_task_definition", taskDefinition=arn)
            left += remove_secrets(self.account, self.run, self.kinds)
            left += remove_security_groups(self.account, self.run)
        return left

    def families(self) -> list[str]:
        wishes = {"familyPrefix": secret_prefix(self.run), "status": "ACTIVE"}
        return self.account.pages("ecs", "list_task_definition_families", "families", **wishes)

    def clear_tasks(self) -> list[str]:
        """Stop all tasks and delete the ECS cluster when the last has gone."""
        try:
            tasks = self.account.pages("ecs", "list_tasks", "taskArns", cluster=self.cluster)
            self.stop(tasks)
            if tasks:
                seen = self.look(tasks)
                if running := [arn for arn in tasks if arn in seen and seen[arn].fate is None]:
                    return [f"task {arn.rpartition('/')[2]}" for arn in running]
            self.account.call("ecs", "delete_cluster", cluster=self.cluster)
        except AwsError as error:
            if error.code == "ClusterNotFoundException":
                return []
            if error.code in ("ClusterContainsTasksException", "UpdateInProgressException"):
                return [f"ECS cluster {self.cluster}"]
            raise
        return []
