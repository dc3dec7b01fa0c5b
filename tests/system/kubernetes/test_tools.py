"""The played nodes do what the tests on them count on."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from tests.helpers.kubernetes.helpers import Namespace
from tests.helpers.paths import ROOT
from tests.helpers.waiting import eventually
from tests.tools.kube import KubeClient, KubeError
from tests.tools.kube.door import behind_a_wall


def phase(kube: Namespace, name: str) -> str:
    found = kube.admin.get("Pod", name, kube.name)
    assert found is not None
    return str(found["status"]["phase"])


def test_a_folder_of_a_pods_own_in_place_of_tmp_hides_neither_programs_nor_what_is_shared(kube: Namespace) -> None:
    text = f"import os, scalable; open('{kube.shared}/seen', 'w').write(str(len(os.listdir('/tmp'))))"
    tmp = {"volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}
    kube.pod("one", "steady", "python", "-c", text, container=tmp, volumes=[{"name": "tmp", "emptyDir": {}}])
    eventually(lambda: phase(kube, "one") == "Succeeded", lambda: kube.admin.log("one", kube.name))
    assert int((kube.shared / "seen").read_text()) <= len(list(Path("/tmp").iterdir()))


def test_an_image_of_a_host_that_cannot_be_is_never_pulled(kube: Namespace) -> None:
    kube.pod("one", "steady", "true", container={"image": "nowhere.invalid/any:1"})

    def reasons() -> list[str]:
        found = kube.admin.get("Pod", "one", kube.name) or {}
        states = [one["state"] for one in found["status"].get("containerStatuses", [])]
        return [state["waiting"]["reason"] for state in states if "waiting" in state]

    eventually(lambda: reasons() == ["ImagePullBackOff"], lambda: f"a refusal, not {reasons()}")


def test_nodes_come_for_pods_that_must_be_spread_and_go_without(kube: Namespace) -> None:
    rule = {
        "maxSkew": 1, "minDomains": 2, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"apart": "yes"}},
    }  # fmt: skip
    for name in ("one", "two"):
        kube.pod(name, "burst", "sleep", "infinity", labels={"apart": "yes"}, topologySpreadConstraints=[rule])
    eventually(lambda: len(kube.nodes("burst")) == 2, lambda: f"two nodes, not {kube.nodes('burst')}")
    eventually(lambda: {phase(kube, "one"), phase(kube, "two")} == {"Running"}, lambda: "both to run")
    for name in ("one", "two"):
        kube.admin.delete("Pod", name, kube.name, gracePeriodSeconds=0)
    eventually(lambda: not kube.nodes("burst"), lambda: f"no node, not {kube.nodes('burst')}")


def test_the_account_of_a_namespace_has_no_rights_beyond_a_drivers(kube: Namespace) -> None:
    driver = KubeClient(kube.kubeconfig)
    assert driver.all("Pod", kube.name) == []
    for kind, place in (("Secret", kube.name), ("Pod", "default"), ("Node", None)):
        try:
            driver.all(kind, place)
        except KubeError as error:
            assert error.status == 403
        else:
            raise AssertionError(f"it may list {kind} in {place}")


def test_behind_the_wall_is_nothing_but_the_api_server(kube: Namespace) -> None:
    with socket.socket() as here:
        here.bind((kube.cluster.host, 0))
        here.listen()
        text = f"""
import socket, sys
from pathlib import Path
from tests.tools.kube import KubeClient
from tests.helpers.waiting import eventually
client = KubeClient(Path({str(kube.kubeconfig)!r}))
def answered():
    try:
        return client.all("Pod", {kube.name!r}) == []
    except Exception:
        return False
eventually(answered, lambda: "an answer")
try:
    socket.create_connection({here.getsockname()!r}, 2)
except OSError as error:
    print("cut off:", error)
"""
        with behind_a_wall(kube.kubeconfig) as wall:
            root = str(ROOT)
            command = [*wall, sys.executable, "-c", text]
            done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("cut off:"), done.stdout + done.stderr
