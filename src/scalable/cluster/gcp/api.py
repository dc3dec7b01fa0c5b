"""The calls to Google Cloud: Compute Engine and Secret Manager by their REST interfaces, with Google's own sign-in.

Five kinds of calls are needed, so they are written down here instead of taken from a client library of a thousand. The
instance objects of dask-cloudprovider are not used: they print errors and raise them without their code, know no cause
of an instance's end, need a cluster object with its own scheduler, and put private keys into an instance's metadata.
"""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from scalable.cluster.base import WorkerFate
from scalable.cluster.clouds.fleet import CANNOT_PULL, CloudError, Ending
from scalable.engine.events import Loss
from scalable.errors import MissingExtraError
from scalable.wording import install_hint
from scalable.worker.options import CANNOT_CONNECT, CANNOT_READ, CANNOT_START

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
COMPUTE = ("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", "https://compute.googleapis.com/compute/v1/")
SECRETS = ("CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER", "https://secretmanager.googleapis.com/")
"""Where the interfaces are; gcloud's variables for private endpoints count here, too."""
ANSWER_WITHIN_S = 20.0
TRIES = 4  # of a call that Google was too busy for
FIRST_PAUSE_S = 0.5
PLACED_WITHIN_S = 60.0  # how long an insert may take to be refused; capacity is known within seconds


class GcpError(CloudError):
    def __init__(self, message: str, status: int = 0, *, passing: bool = False) -> None:
        super().__init__(message, passing=passing)
        self.status = status


class Api:
    def __init__(self) -> None:
        try:
            import google.auth
            from google.auth.exceptions import DefaultCredentialsError
            from google.auth.transport.requests import AuthorizedSession
        except ImportError as error:
            raise MissingExtraError(f"gcp needs google-auth ({error}); {install_hint('gcp')}") from None
        try:
            self.credentials, self.project = google.auth.default(scopes=[SCOPE])
        except DefaultCredentialsError:
            text = "there are no credentials for Google Cloud; run gcloud auth application-default login"
            raise GcpError(text) from None
        self.make = AuthorizedSession
        self.of_thread = threading.local()

    def session(self) -> Any:
        """Return the session of this thread: it keeps connections that cannot be shared."""
        if not hasattr(self.of_thread, "session"):
            self.of_thread.session = self.make(self.credentials)
        return self.of_thread.session

    def call(self, method: str, where: tuple[str, str], path: str, **request: Any) -> dict[str, Any]:
        """Return Google's answer, or raise its error. Calls that only failed for a moment are made again."""
        from google.auth.exceptions import GoogleAuthError, RefreshError, TransportError
        from requests.exceptions import RequestException

        url = os.environ.get(where[0], where[1]).rstrip("/") + "/" + path
        pause = FIRST_PAUSE_S
        for last in (*[False] * (TRIES - 1), True):
            try:
                answer = self.session().request(method, url, timeout=ANSWER_WITHIN_S, **request)
            except (RequestException, GoogleAuthError) as error:
                unheard = isinstance(error.__cause__, TransportError)  # who gives out tokens did not answer
                if isinstance(error, RefreshError) and not (error.retryable or unheard):
                    text = "the credentials for Google Cloud cannot be used"
                    raise GcpError(
                        f"{text}: {next(iter(error.args), error)}; run gcloud auth application-default login"
                    ) from None
                if last:
                    raise GcpError(f"Google does not answer {method} {path}: {error}", passing=True) from None
            else:
                if answer.status_code < 400:
                    content: dict[str, Any] = answer.json() if answer.content else {}
                    return content
                if last or (answer.status_code != 429 and answer.status_code < 500):
                    raise refused(method, path, answer)
            time.sleep(pause)
            pause *= 2
        raise AssertionError("unreachable")

    def placed(self, project: str, zone: str, operation: dict[str, Any]) -> None:
        """Wait until Google has done or refused what was asked for; one that takes longer counts as done."""
        deadline = time.monotonic() + PLACED_WITHIN_S
        path = f"projects/{project}/zones/{zone}/operations/{operation['name']}"
        pause = FIRST_PAUSE_S / 5
        while operation.get("status") != "DONE" and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(2 * pause, 2.0)
            operation = self.call("GET", COMPUTE, path)
        if "error" in operation:
            text, passing = operation_error(operation["error"])
            raise GcpError(text, passing=passing)


def refused(method: str, path: str, answer: Any) -> GcpError:
    try:
        error = answer.json()["error"]
        message, details = str(error.get("message", "")), error.get("errors") or []
    except (ValueError, KeyError, TypeError):
        message, details = answer.text[:200], []
    reason = str(details[0].get("reason", "")) if details else ""
    passing = answer.status_code in (429, 500, 502, 503, 504) or reason in ("quotaExceeded", "rateLimitExceeded")
    hint = "; your account needs the right to do that" if answer.status_code == 403 and not passing else ""
    return GcpError(
        f"Google refused {method} {path}: {message} ({answer.status_code}){hint}", answer.status_code, passing=passing
    )


def read_secret(name: str) -> str:
    """Read a secret on a worker's machine, with what its service account may do."""
    from scalable.cluster.clouds.start import HandoutError

    try:
        answer = Api().call("GET", SECRETS, f"v1/{name}/versions/latest:access")
    except CloudError as error:
        raise HandoutError(
            f"{error}; may the service account read secrets (roles/secretmanager.secretAccessor)?"
        ) from None
    return base64.b64decode(answer["payload"]["data"]).decode()


REFUSED = {
    "ZONE_RESOURCE_POOL_EXHAUSTED": ("the zone has no room for this machine type at the moment", True),
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": ("the zone has no room for this machine type at the moment", True),
    "STOCKOUT": ("the zone has no room for this machine type at the moment", True),
    "QUOTA_EXCEEDED": ("a quota of the project is used up", True),
    "RATE_LIMIT_EXCEEDED": ("too many calls", True),
    "IP_SPACE_EXHAUSTED": ("the subnetwork has no free addresses", True),
    "RESOURCE_NOT_FOUND": ("something it names does not exist", False),
    "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE": ("something it names is in use", False),
    "PERMISSIONS_ERROR": ("the project may not use something it names", False),
    "UNSUPPORTED_OPERATION": ("the zone does not do that", False),
    "INVALID_USAGE": ("the request cannot be met", False),
}
"""Codes of a failed operation, what they mean, and whether asking again later may help."""

WAITS = {"PROVISIONING": "Google looks for capacity", "STAGING": "the machine is being set up"}
GONE = ("STOPPING", "SUSPENDING", "SUSPENDED", "TERMINATED", "STOPPED", "DEPROVISIONING")

TAKEN = {
    "compute.instances.preempted": (Loss.PREEMPTED, "Google took the spot capacity back"),
    "compute.instances.hostError": (Loss.NODE_LOST, "its host failed"),
    "compute.instances.automaticRestart": (Loss.NODE_LOST, "its host failed"),
    "compute.instances.guestTerminate": (Loss.WORKER_LOST, "it switched itself off"),
    "stop": (Loss.PREEMPTED, "someone stopped it"),
    "delete": (Loss.PREEMPTED, "someone deleted it"),
    "suspend": (Loss.PREEMPTED, "someone suspended it"),
}
"""Types of the operations that end an instance; the newest one of an instance tells."""


def operation_error(error: Mapping[str, Any]) -> tuple[str, bool]:
    """Return why an operation failed, and whether that may pass."""
    first = (error.get("errors") or [{}])[0]
    code, message = str(first.get("code", "")), str(first.get("message", ""))
    words, passing = REFUSED.get(code, ("Google refused it", False))
    return f"{words}: {message} ({code})", passing


def instance_waits(instance: Mapping[str, Any]) -> str:
    return WAITS.get(str(instance.get("status")), "")


def instance_gone(instance: Mapping[str, Any]) -> bool:
    return instance.get("status") in GONE


def instance_fate(name: str, operation: str, end: Ending | None) -> WorkerFate:
    """Return why an instance goes. ``operation`` ended it; ``end`` is what its console said of the worker."""
    name = f"instance {name}"
    loss, meaning = TAKEN.get(operation, (Loss.WORKER_LOST, "it is gone"))
    if end is None or loss in (Loss.NODE_LOST, Loss.PREEMPTED):
        return WorkerFate(loss, f"{name}: {meaning} ({operation or 'no reason given'})")
    if end.out_of_memory:
        return WorkerFate(Loss.OUT_OF_MEMORY, f"{name}: the worker used more memory than it may")
    if end.code in (CANNOT_START, CANNOT_READ, CANNOT_PULL):
        return WorkerFate(Loss.CANNOT_START, f"{name}: {end.message or 'its container could not be started'}")
    if end.code == CANNOT_CONNECT:
        return WorkerFate(Loss.WORKER_LOST, f"{name}: {end.message}; do firewall rules let workers in?")
    if end.code == 0:
        return WorkerFate(Loss.PREEMPTED, f"{name} left after notice")
    return WorkerFate(
        Loss.WORKER_LOST,
        f"{name}: the worker ended with exit code {end.code}{f': {end.message}' if end.message else ''}",
    )
