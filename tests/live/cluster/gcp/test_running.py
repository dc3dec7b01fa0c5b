"""Work on Compute Engine, end to end against a stand-in that answers as Google does and really runs the workers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scalable.cluster import cleanup
from scalable.cluster.base import ClusterHandle, LaunchRefused, WorkerTemplate
from scalable.cluster.gcp import api
from scalable.cluster.gcp.provider import GcpFleet, GcpProvider
from scalable.errors import UsageError
from scalable.manifest.targets import GcpTarget
from scalable.planning.resources import ScalePlan
from tests.helpers.cluster.gcp.google import PROJECT, ZONE, Google
from tests.helpers.cluster.gcp.specs import a_spec
from tests.helpers.cluster.scenes import Driver, all_ended, expect_no_secrets, lose_a_worker, variable
from tests.helpers.waiting import LONG_S, until

FULL = {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": f"The zone '{ZONE}' does not have enough resources"}

NO_QUOTA = {"code": "QUOTA_EXCEEDED", "message": "Quota 'CPUS' exceeded.  Limit: 24.0 in region us-central1."}


def left_behind(google: Google, run: str) -> list[str]:
    return [name for name in (*google.instances, *google.secrets) if run in name]


@pytest.fixture(scope="class")
def handle(google: Google, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterHandle]:
    found = GcpProvider().build_cluster(a_spec(tmp_path_factory.mktemp("run")))
    try:
        yield found
    finally:
        GcpProvider().close(found)


@pytest.fixture
def staffed(handle: ClusterHandle) -> ClusterHandle:
    """With a worker of each kind, whichever tests came before: two processes may share those of a class."""
    GcpProvider().scale(handle, ScalePlan({"small": 1, "large": 1}))
    return handle


class TestRun:
    """One cluster for all of these, in this order."""

    def test_workers_come_in_kinds_and_work_with_their_environment(self, handle: ClusterHandle, google: Google) -> None:
        assert left_behind(google, handle.metadata["run"]) == []
        with handle.client_factory() as client:
            GcpProvider().scale(handle, ScalePlan({"small": 1, "large": 1}))
            who = [client.submit(variable, "WHO", tag=tag, pure=False) for tag in ("small", "large")]
            assert [one.result(timeout=LONG_S) for one in who] == ["small", "large"]

    def test_what_instances_are_made_of_has_no_secrets(self, staffed: ClusterHandle, google: Google) -> None:
        expect_no_secrets(json.dumps(google.inserted), staffed)
        assert all(body["labels"]["scalable-run"] == staffed.metadata["run"] for body in google.inserted)

    def test_a_busy_google_is_asked_again(self, handle: ClusterHandle, google: Google) -> None:
        google.busy = 2
        assert api.Api().call("GET", api.COMPUTE, f"projects/{PROJECT}/zones/{ZONE}")["status"] == "UP"

    @pytest.mark.parametrize(
        ("refusal", "words"), [(FULL, "no room for this machine type"), (NO_QUOTA, "Quota 'CPUS'")]
    )
    def test_a_refusal_reaches_the_caller(
        self, handle: ClusterHandle, google: Google, refusal: dict[str, str], words: str
    ) -> None:
        google.refusals = [refusal]
        with pytest.raises(LaunchRefused, match=words) as error:
            GcpProvider().scale(handle, ScalePlan({"large": 2}))
        assert not error.value.definite, "capacity and quotas may be free again later"

    def test_a_lost_worker_has_a_cause_and_is_replaced(self, staffed: ClusterHandle) -> None:
        facts = lose_a_worker(staffed)
        assert "exit code 137" in facts["detail"]

    def test_closing_leaves_nothing(self, handle: ClusterHandle, google: Google) -> None:
        GcpProvider().scale(handle, ScalePlan({"small": 0}))
        GcpProvider().close(handle)
        assert left_behind(google, handle.metadata["run"]) == []
        assert until(lambda: all_ended(google.running.values()))


@pytest.mark.long  # what clears away looks once more after five seconds
def test_a_driver_that_is_killed_leaves_nothing(google: Google, tmp_path: Path) -> None:
    driver = Driver(tmp_path, DRIVER.format(folder=str(tmp_path / "run")))
    assert left_behind(google, driver.run) != []
    reapers = driver.kill()
    assert until(lambda: left_behind(google, driver.run) == [])
    assert until(lambda: not any(one.is_running() for one in reapers))


DRIVER = """
import time
from pathlib import Path
from scalable.cluster.gcp.provider import GcpProvider
from scalable.planning.resources import ScalePlan
from tests.helpers.cluster.gcp.specs import a_spec

if __name__ == "__main__":
    handle = GcpProvider().build_cluster(a_spec(Path({folder!r})))
    GcpProvider().scale(handle, ScalePlan({{"small": 1}}))
    print(handle.metadata["run"], flush=True)
    time.sleep(600)
"""


def test_an_instance_whose_placing_cannot_be_watched_does_not_stay(
    google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = a_spec(tmp_path).target
    assert isinstance(target, GcpTarget)
    fleet = GcpFleet(target, "0000feed", "lab")
    stopped: list[str] = []
    real = fleet.api.call

    def call(method: str, where: tuple[str, str], path: str, **request: Any) -> dict[str, Any]:
        if method == "GET" and "/operations/" in path:
            raise api.GcpError("Google does not answer", passing=True)
        if method == "POST":
            return {"name": "operation-1", "status": "RUNNING"}
        if method == "DELETE":
            stopped.append(path.rpartition("/")[2])
        return real(method, where, path, **request)

    monkeypatch.setattr(fleet.api, "call", call)
    with pytest.raises(api.GcpError, match="does not answer"):
        fleet.start("small-0", WorkerTemplate("small"), ["source"])
    assert stopped == ["scalable-0000feed-small-0"]


def test_the_clean_up_command_succeeds_where_nothing_is_left(google: Google) -> None:
    assert cleanup.main(["gcp", "--run=0000beef", f"--project={PROJECT}", f"--zone={ZONE}"]) == 0


def test_a_driver_outside_the_network_is_refused(google: Google, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"could not reach this machine .* contact_address"):
        GcpProvider().build_cluster(a_spec(tmp_path, contact_address=None))


def test_a_zone_or_network_that_does_not_exist_is_refused(google: Google, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Google refused GET projects/lab/regions/us-central1/subnetworks/nowhere"):
        GcpProvider().build_cluster(a_spec(tmp_path, network="nowhere"))


def test_no_credentials_are_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    with pytest.raises(UsageError, match="gcloud auth application-default login"):
        GcpProvider().build_cluster(a_spec(tmp_path))


def test_credentials_that_google_takes_back_are_a_sentence(
    google: Google, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    account = json.loads(Path(google.env["GOOGLE_APPLICATION_CREDENTIALS"]).read_text())
    (tmp_path / "old.json").write_text(json.dumps(account | {"universe_domain": "googleapis.com"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "old.json"))
    with pytest.raises(api.GcpError, match=r"cannot be used: .*; run gcloud auth") as refused:
        api.Api().call("GET", api.COMPUTE, f"projects/{PROJECT}/zones/{ZONE}")
    assert not refused.value.passing


READ = """
import json, sys
from google.cloud.compute_v1.types.compute import Instance
read = Instance.from_json(sys.stdin.read())
print(json.dumps([read.machine_type, read.scheduling.provisioning_model, read.scheduling.automatic_restart]))
"""


@pytest.mark.long  # Google's library takes ten seconds to import
@pytest.mark.parametrize("spot", [False, True])
def test_the_body_of_an_insert_is_what_google_publishes_as_its_form(google: Google, tmp_path: Path, spot: bool) -> None:
    """Google's own library reads it and knows every field."""
    spec = a_spec(tmp_path, spot=spot, image="us-docker.pkg.dev/lab/images/worker:1")
    assert isinstance(spec.target, GcpTarget)
    body = GcpFleet(spec.target, "1a2b3c4d", "lab").body("small-0", spec.components["small"], ["gcp:x", "tls://h:1"])
    line = [sys.executable, "-c", READ]
    done = subprocess.run(line, input=json.dumps(body), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    machine, model, restart = json.loads(done.stdout)
    assert machine.endswith("e2-highcpu-2")
    assert model == ("SPOT" if spot else "")
    assert restart is False
