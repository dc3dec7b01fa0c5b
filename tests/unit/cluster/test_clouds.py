"""How a worker in a cloud is handed its secrets, what its machine runs, and what a target's check finds."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from scalable.cluster.aws.provider import AwsProvider
from scalable.cluster.base import DeploymentProvider, DeploymentSpec, WorkerTemplate
from scalable.cluster.clouds import start
from scalable.cluster.clouds.fleet import CloudError, ending, image_problem, plain, unreachable
from scalable.cluster.clouds.launcher import CloudLauncher, CloudWorker
from scalable.cluster.clouds.start import HandoutError, packed, unpack
from scalable.cluster.gcp.provider import GcpProvider
from scalable.errors import UsageError
from scalable.manifest.targets import AwsTarget, GcpTarget, Target
from scalable.planning.resources import ScalePlan
from scalable.quantities import Memory
from scalable.worker.options import CANNOT_START
from tests.helpers.cluster.clouds import a_handout


def test_what_is_handed_out_comes_back_readable_by_nobody_else(tmp_path: Path) -> None:
    text = a_handout(tmp_path / "here")
    assert unpack(text, tmp_path / "there") == {"WHO": "me"}
    assert (tmp_path / "there" / "key.pem").read_text() == "private"
    assert {file.name for file in (tmp_path / "there").iterdir()} == {"notes.txt", "key.pem"}
    for path in (tmp_path / "there", *(tmp_path / "there").iterdir()):
        assert path.stat().st_mode & 0o077 == 0


def test_a_project_that_no_secret_holds_is_refused(tmp_path: Path) -> None:
    (tmp_path / "project.zip").write_bytes(os.urandom(60_000))
    with pytest.raises(HandoutError, match="put it into the image, code: image"):
        packed(tmp_path, {})


@pytest.mark.parametrize("text", ["", "not base64 …", "aGVsbG8="])
def test_a_torn_handout_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(HandoutError, match="cannot be read"):
        unpack(text, tmp_path / "there")


@pytest.mark.parametrize(
    ("source", "words"), [("environment", "is empty"), ("elsewhere", "no place"), (None, "cannot start")]
)
def test_a_worker_without_its_secret_ends_and_says_so(
    source: str | None, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SCALABLE_HANDOUT", raising=False)
    assert start.main([source] if source else []) == CANNOT_START
    assert words in capsys.readouterr().err


class Moody:
    """A cloud that does not know a worker yet, and does not end it when it is asked to the first time."""

    noun = "instance"

    def __init__(self) -> None:
        self.asked = 0

    def stop(self, ids: list[str]) -> None:
        self.asked += 1
        if self.asked == 1:
            raise CloudError("not now", passing=True)


def test_a_worker_that_could_not_be_ended_is_ended_later(tmp_path: Path) -> None:
    async def ended() -> CloudWorker:
        fleet: Any = Moody()
        launcher, worker = CloudLauncher(fleet, tmp_path, {}), CloudWorker("i-1", fleet)
        launcher.workers.add(worker)
        await worker.stop()
        assert not worker.ended
        await launcher.poll([])
        assert worker.ending is not None
        await worker.ending
        return worker

    assert asyncio.run(ended()).ended


class Slow(Moody):
    """Does not answer whoever asks for a worker."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: set[str] = set()
        self.answers = threading.Event()

    def check(self, template: WorkerTemplate) -> str:
        return ""

    def prepare(self) -> None:
        pass

    def publish(self, template: WorkerTemplate, handout: str) -> str:
        return "environment"

    def start(self, name: str, template: WorkerTemplate, arguments: list[str]) -> str:
        self.answers.wait(20)
        return "i-1"

    def clear(self) -> list[str]:
        return []

    def clean_up_command(self) -> list[str]:
        return ["clean", *sorted(self.kinds)]


class Notes:
    """What a reaper was told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def on_death(self, command: list[str]) -> None:
        self.told.append(command)

    def leave(self) -> None:
        self.told.append("leave")

    def done(self) -> None:
        self.told.append("done")


@pytest.mark.parametrize("answers", [True, False])
def test_closing_does_not_wait_for_ever_and_leaves_what_was_asked_for_to_another_process(
    answers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not answers:
        monkeypatch.setattr("scalable.cluster.clouds.launcher.CLOSE_WITHIN_S", 0.1)

    async def closed() -> list[object]:
        fleet: Any = Slow()
        launcher = CloudLauncher(fleet, tmp_path, {})
        notes: Any = Notes()
        launcher.reaper = notes
        asked = asyncio.ensure_future(launcher.launch("a-0", WorkerTemplate("a"), "tls://127.0.0.1:1"))
        while ["clean", "a"] not in notes.told:
            await asyncio.sleep(0.01)
        if answers:
            fleet.answers.set()
        await launcher.close()
        fleet.answers.set()
        await asked
        return list(notes.told)

    expected = "done" if answers else "leave"
    assert asyncio.run(closed()) == [["clean"], ["clean", "a"], expected]


def test_a_cloud_that_does_not_know_a_young_worker_has_not_lost_it() -> None:
    fleet: Any = Moody()
    worker = CloudWorker("i-1", fleet)
    for _ in range(10):
        worker.update(None)
    assert worker.fate is None
    worker.began -= 61
    worker.update(None)
    assert worker.fate is not None and "without a trace" in worker.fate.detail


def test_a_console_that_says_nothing_of_the_worker_tells_nothing() -> None:
    assert ending("Linux version 6.1\nlogin: ") is None


def test_names_that_clouds_take_stay_different() -> None:
    names = ["small", "Small", "small@pool", "small-pool", "ärger", "x" * 80, "x" * 81]
    made = [plain(name) for name in names]
    assert len(set(made)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", name) for name in made)
    assert plain("small-0") == "small-0"


@pytest.mark.parametrize("image", [None, "", "lab/worker", "lab/worker:latest", "host:5000/worker"])
def test_an_image_that_may_change_is_refused(image: str | None) -> None:
    assert "write" in image_problem(image) or "name a version" in image_problem(image)


@pytest.mark.parametrize("image", ["lab/worker:1.2", "host:5000/worker:1", "lab/worker@sha256:" + "a" * 64])
def test_an_image_that_stays_the_same_is_taken(image: str) -> None:
    assert image_problem(image) == ""


def test_a_driver_outside_the_workers_network_is_told_what_to_write() -> None:
    unreachable("10.1.2.3", ["172.31.0.0/16", "10.1.0.0/16"], "vpc-1")
    with pytest.raises(UsageError, match=r"vpc-1 \(172.31.0.0/16\) could not reach this machine .* contact_address"):
        unreachable("192.168.0.5", ["172.31.0.0/16"], "vpc-1")


AWS = {"provider": "aws", "region": "us-east-1", "image": "lab/worker:1", "execution_role_arn": "arn:aws:iam::1:role/x"}

GCP = {
    "provider": "gcp",
    "project_id": "lab",
    "zone": "us-central1-a",
    "image": "lab/worker:1",
    "service_account": "w@lab",
}


def a_spec(target: Target, **component: object) -> DeploymentSpec:
    part = WorkerTemplate("a", **component)  # type: ignore[arg-type]
    return DeploymentSpec("project", "cloud", target, {"a": part})


def of(written: dict[str, object]) -> tuple[DeploymentProvider, Target]:
    if written["provider"] == "aws":
        return AwsProvider(), AwsTarget.model_validate(written)
    return GcpProvider(), GcpTarget.model_validate(written)


@pytest.mark.parametrize(
    ("written", "component", "path", "words"),
    [
        ({**AWS, "region": None}, {}, "targets.cloud.region", "region: eu-central-1"),
        ({**AWS, "region": "mars-1"}, {}, "targets.cloud", "known are us-east-1"),
        ({**AWS, "execution_role_arn": None}, {}, "targets.cloud.execution_role_arn", "GetSecretValue"),
        ({**AWS, "cluster_type": "ec2"}, {}, "targets.cloud.instance_profile", "instance profile"),
        ({**AWS, "image": None}, {}, "components.a.image", "has no image"),
        (AWS, {"image": "lab/worker"}, "components.a.image", "changes under you"),
        (AWS, {"gpus": 1}, "components.a.gpus", "Fargate has no GPUs"),
        (AWS, {"cpus": 17}, "components.a", "cluster_type: ec2"),
        (AWS, {"mounts": {"/a": "/b"}}, "components.a.mounts", "no folders of this machine"),
        ({**GCP, "zone": None}, {}, "targets.cloud.zone", "zone: europe-west1-b"),
        ({**GCP, "project_id": None}, {}, "targets.cloud.project_id", "id of your project"),
        ({**GCP, "service_account": None}, {}, "targets.cloud.service_account", "secretAccessor"),
        ({**GCP, "region": "europe-west1"}, {}, "targets.cloud.zone", "not in the region"),
        ({**GCP, "machine_type": "e2-standard-2"}, {"cpus": 4}, "components.a", "name a larger type"),
        (GCP, {"gpus": 1}, "components.a.gpus", "kubernetes"),
    ],
)
def test_a_check_names_place_and_remedy(
    written: dict[str, object], component: dict[str, object], path: str, words: str
) -> None:
    provider, target = of(written)
    report = provider.validate(a_spec(target, **component))
    found = [str(issue) for issue in report.errors if issue.path == path]
    assert any(words in text for text in found), report.errors


@pytest.mark.parametrize("written", [AWS, {**AWS, "cluster_type": "ec2", "instance_profile": "x"}, GCP])
def test_a_target_with_all_it_needs_is_fine_and_its_plan_has_a_price(written: dict[str, object]) -> None:
    provider, target = of(written)
    spec = a_spec(target, cpus=2, memory=Memory.of_gib(4))
    assert provider.validate(spec).ok, provider.validate(spec).errors
    cost = provider.estimate_cost(spec, ScalePlan({"a": 2}))
    assert cost is not None
    assert cost.total_hourly > 0


def test_spot_without_a_price_of_its_own_is_warned_about() -> None:
    provider, target = of({**AWS, "spot": True})
    assert [issue.code for issue in provider.validate(a_spec(target)).warnings] == ["spot-price"]
    provider, target = of({**AWS, "spot": True, "prices": {"spot": "30%"}})
    assert provider.validate(a_spec(target)).warnings == ()
