"""Google Cloud for tests: the few calls of Compute Engine and Secret Manager that are made, answered as Google does.

The answers have the shape of recorded ones. Instances really run: the container of an instance's start-up script is a
process here; when it ends, the instance switches itself off as a real one would. ``refusals`` are errors of operations
that inserts get instead, ``busy`` is how many calls are answered with 503 first.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.helpers.cluster.hands import Running, drained, kill, run, tell, worker_command

PROJECT, ZONE, REGION = "lab", "us-central1-a", "us-central1"
LOOK_EVERY_S = 0.02
RANGE = "10.128.0.0/20"


class Google:
    def __init__(self) -> None:
        self.instances: dict[str, dict[str, Any]] = {}
        self.operations: list[dict[str, Any]] = []
        self.secrets: dict[str, list[str]] = {}
        self.labels: dict[str, dict[str, str]] = {}
        self.running: dict[str, Running] = {}
        self.consoles: dict[str, str] = {}
        self.refusals: list[dict[str, str]] = []
        self.inserted: list[dict[str, Any]] = []
        self.busy = 0
        self.lock = threading.RLock()
        self.env: dict[str, str] = {}
        google = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:
                pass

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                status, found = google.handle(self.command, self.path, self.headers, body)
                text = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815 - the base's names

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.stop = threading.Event()
        threading.Thread(target=self.server.serve_forever, name="Google", daemon=True).start()
        self.thread = threading.Thread(target=self.work, name="hands of Google", daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.stop.set()
        self.thread.join()
        self.server.shutdown()
        self.server.server_close()
        for one in self.running.values():
            kill(one.process)

    def handle(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, Any]]:
        parts = urlsplit(path)
        if not headers.get("Authorization", "").startswith("Bearer "):
            return failed(401, "Request is missing required authentication credential.")
        with self.lock:
            if self.busy:
                self.busy -= 1
                return failed(503, "The service is currently unavailable.")
            wishes = {name: values[0] for name, values in parse_qs(parts.query).items()}
            given = json.loads(body) if body else {}
            for pattern, verb, answer in ROUTES:
                match = re.fullmatch(pattern, parts.path)
                if match and verb == method:
                    found: tuple[int, dict[str, Any]] = answer(self, given, wishes, *match.groups())
                    return found
        return failed(404, f"no such call here: {method} {path}")

    def operation(self, kind: str, name: str, error: dict[str, str] | None = None) -> dict[str, Any]:
        made: dict[str, Any] = {
            "kind": "compute#operation",
            "name": f"operation-{len(self.operations)}",
            "operationType": kind,
            "targetLink": f"https://compute.example/projects/{PROJECT}/zones/{ZONE}/instances/{name}",
            "status": "DONE" if kind != "insert" else "RUNNING",
            "insertTime": f"{time.time():.6f}",
        }
        if error:
            made["error"] = {"errors": [error]}
        self.operations.append(made)
        return made

    def insert(self, given: dict[str, Any], wishes: dict[str, str]) -> tuple[int, dict[str, Any]]:
        self.inserted.append(given)
        if self.refusals:
            return 200, self.operation("insert", given["name"], self.refusals.pop(0))
        if given["name"] in self.instances:
            return failed(409, f"The resource 'projects/{PROJECT}/…/{given['name']}' already exists")
        self.instances[given["name"]] = {**given, "status": "PROVISIONING"}
        return 200, self.operation("insert", given["name"])

    def get_operation(self, given: dict[str, Any], wishes: dict[str, str], name: str) -> tuple[int, dict[str, Any]]:
        [found] = [one for one in self.operations if one["name"] == name]
        found["status"] = "DONE"
        return 200, found

    def list(self, given: dict[str, Any], wishes: dict[str, str]) -> tuple[int, dict[str, Any]]:
        label, value = wishes["filter"].removeprefix("labels.").split("=")
        found = [one for one in self.instances.values() if one["labels"].get(label) == value]
        return 200, {"kind": "compute#instanceList", **({"items": found} if found else {})}

    def delete(self, given: dict[str, Any], wishes: dict[str, str], name: str) -> tuple[int, dict[str, Any]]:
        if name not in self.instances:
            return failed(404, f"The resource 'projects/{PROJECT}/zones/{ZONE}/instances/{name}' was not found")
        self.instances[name]["status"] = "STOPPING"
        return 200, self.operation("delete", name)

    def list_operations(self, given: dict[str, Any], wishes: dict[str, str]) -> tuple[int, dict[str, Any]]:
        wanted = wishes["filter"].rpartition("/")[2].rstrip('"')
        return 200, {"items": [one for one in self.operations if one["targetLink"].endswith(f"/{wanted}")]}

    def console(self, given: dict[str, Any], wishes: dict[str, str], name: str) -> tuple[int, dict[str, Any]]:
        return 200, {"contents": self.consoles.get(name, "")}

    def make_secret(self, given: dict[str, Any], wishes: dict[str, str]) -> tuple[int, dict[str, Any]]:
        name = f"projects/{PROJECT}/secrets/{wishes['secretId']}"
        if name in self.secrets:
            return failed(409, f"Secret [{name}] already exists.")
        self.secrets[name], self.labels[name] = [], given["labels"]
        return 200, {"name": name}

    def add_version(self, given: dict[str, Any], wishes: dict[str, str], name: str) -> tuple[int, dict[str, Any]]:
        self.secrets[name].append(base64.b64decode(given["payload"]["data"]).decode())
        return 200, {"name": f"{name}/versions/{len(self.secrets[name])}"}

    def access(self, given: dict[str, Any], wishes: dict[str, str], name: str) -> tuple[int, dict[str, Any]]:
        if not self.secrets.get(name):
            return failed(404, f"Secret [{name}] not found or has no versions.")
        return 200, {"payload": {"data": base64.b64encode(self.secrets[name][-1].encode()).decode()}}

    def list_secrets(self, given: dict[str, Any], wishes: dict[str, str]) -> tuple[int, dict[str, Any]]:
        label, value = wishes["filter"].removeprefix("labels.").split("=")
        return 200, {"secrets": [{"name": name} for name in self.secrets if self.labels[name].get(label) == value]}

    def delete_secret(self, given: dict[str, Any], wishes: dict[str, str], name: str) -> tuple[int, dict[str, Any]]:
        return (200, {}) if self.secrets.pop(name, None) is not None else failed(404, f"Secret [{name}] not found.")

    def work(self) -> None:
        while not self.stop.wait(LOOK_EVERY_S):
            with self.lock:
                for name, instance in list(self.instances.items()):
                    self.tend(name, instance)

    def tend(self, name: str, instance: dict[str, Any]) -> None:
        one = self.running.get(name)
        if one is None and instance["status"] == "PROVISIONING":
            script = next(item["value"] for item in instance["metadata"]["items"] if item["key"] == "startup-script")
            self.running[name] = run(worker_command(script), self.env)
            instance["status"] = "RUNNING"
        elif one is not None and instance["status"] == "STOPPING":
            tell(one)
            if one.process.poll() is not None:
                del self.instances[name]
        elif one is None and instance["status"] == "STOPPING":
            del self.instances[name]
        elif one is not None and instance["status"] == "RUNNING" and (code := one.process.poll()) is not None:
            status = 128 - code if code < 0 else code
            text = drained(one).decode(errors="replace")
            self.consoles[name] = f"{text}\nscalable-worker-ended code={status} oom=false\n"
            instance["status"] = "TERMINATED"
            self.operation("compute.instances.guestTerminate", name)


def failed(status: int, message: str) -> tuple[int, dict[str, Any]]:
    return status, {"error": {"code": status, "message": message, "errors": [{"message": message}]}}


ZONES = f"/compute/v1/projects/{PROJECT}/zones/{ZONE}"
SECRETS = f"/v1/projects/{PROJECT}/secrets"
NAMED = rf"/v1/(projects/{PROJECT}/secrets/[\w-]+)"
ROUTES: list[tuple[str, str, Any]] = [
    (ZONES, "GET", lambda self, given, wishes: (200, {"name": ZONE, "status": "UP"})),
    (
        rf"/compute/v1/projects/{PROJECT}/regions/{REGION}/subnetworks/default",
        "GET",
        lambda self, given, wishes: (200, {"name": "default", "ipCidrRange": RANGE}),
    ),
    (f"{ZONES}/instances", "POST", Google.insert),
    (f"{ZONES}/instances", "GET", Google.list),
    (rf"{ZONES}/instances/([\w-]+)", "DELETE", Google.delete),
    (rf"{ZONES}/instances/([\w-]+)/serialPort", "GET", Google.console),
    (f"{ZONES}/operations", "GET", Google.list_operations),
    (rf"{ZONES}/operations/([\w-]+)", "GET", Google.get_operation),
    (SECRETS, "POST", Google.make_secret),
    (SECRETS, "GET", Google.list_secrets),
    (rf"{NAMED}:addVersion", "POST", Google.add_version),
    (rf"{NAMED}/versions/latest:access", "GET", Google.access),
    (NAMED, "DELETE", Google.delete_secret),
]
