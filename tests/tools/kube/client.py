"""Asking an API server with the standard library alone, so that tests do not judge the product by its own means."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from tests.tools.errors import ToolError

Object = dict[str, Any]

ANSWER_S = 30.0  # an API server that takes longer hangs
MERGE = "application/merge-patch+json"
PLACES = {
    "Deployment": "/apis/apps/v1", "Job": "/apis/batch/v1", "NetworkPolicy": "/apis/networking.k8s.io/v1",
    "PriorityClass": "/apis/scheduling.k8s.io/v1", "Role": "/apis/rbac.authorization.k8s.io/v1",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1",
}  # fmt: skip
PLURALS = {"NetworkPolicy": "networkpolicies", "PriorityClass": "priorityclasses"}
WHOLE_CLUSTER = ("Namespace", "Node", "PersistentVolume", "PriorityClass")


class KubeError(ToolError):
    """What the API server refused, with its status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class KubeClient:
    """One user of one cluster, as a kubeconfig says."""

    def __init__(self, kubeconfig: Path) -> None:
        found = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        self.cluster: Object = found["clusters"][0]["cluster"]
        self.token: str = found["users"][0]["user"]["token"]
        authority = base64.b64decode(self.cluster["certificate-authority-data"]).decode()
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=authority)),
        )

    def ask(self, method: str, path: str, body: Object | None = None, kind: str = "application/json") -> Object:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.cluster["server"] + path, data, headers, method=method)
        try:
            with self.opener.open(request, timeout=ANSWER_S) as answer:
                found: Object = json.loads(answer.read() or b"{}")
                return found
        except urllib.error.HTTPError as error:
            raise KubeError(error.code, f"{method} {path}: {error.read().decode(errors='replace')}") from None
        except OSError as error:
            raise ToolError(f"{method} {path}: {error}") from error

    def create(self, thing: Object, *, dry_run: bool = False) -> Object:
        """An object, in the namespace that it names."""
        place = path_to(thing["kind"], thing["metadata"].get("namespace"))
        return self.ask("POST", place + ("?dryRun=All" if dry_run else ""), thing)

    def delete(self, kind: str, name: str, namespace: str | None = None, **options: Any) -> None:
        """Gone already is as good."""
        try:
            self.ask("DELETE", f"{path_to(kind, namespace)}/{name}", options or None)
        except KubeError as error:
            if error.status != 404:
                raise

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        try:
            return self.ask("GET", f"{path_to(kind, namespace)}/{name}")
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    def all(self, kind: str, namespace: str | None = None, labels: str = "") -> list[Object]:
        query = f"?labelSelector={urllib.parse.quote(labels)}" if labels else ""
        found: list[Object] = self.ask("GET", path_to(kind, namespace) + query)["items"]
        return found

    def evict(self, pod: str, namespace: str) -> None:
        """What ``kubectl drain`` does to a pod."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
        self.ask("POST", f"{path_to('Pod', namespace)}/{pod}/eviction", body)

    def log(self, pod: str, namespace: str) -> str:
        path = f"{self.cluster['server']}{path_to('Pod', namespace)}/{pod}/log"
        request = urllib.request.Request(path, headers={"Authorization": f"Bearer {self.token}"})
        with self.opener.open(request, timeout=ANSWER_S) as answer:
            text: bytes = answer.read()
            return text.decode(errors="replace")

    def token_of(self, account: str, namespace: str) -> str:
        path = f"{path_to('ServiceAccount', namespace)}/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
        token: str = self.ask("POST", path, body)["status"]["token"]
        return token

    def kubeconfig(self, file: Path, token: str, namespace: str) -> Path:
        """A file for somebody else of the same cluster."""
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": self.cluster}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it", "namespace": namespace}}],
        }  # fmt: skip
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        file.chmod(0o600)
        return file


def path_to(kind: str, namespace: str | None) -> str:
    plural = PLURALS.get(kind, f"{kind.lower()}s")
    inside = f"/namespaces/{namespace}" if namespace and kind not in WHOLE_CLUSTER else ""
    return f"{PLACES.get(kind, '/api/v1')}{inside}/{plural}"
