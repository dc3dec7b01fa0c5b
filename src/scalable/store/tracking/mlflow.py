"""An MLflow server, spoken to in plain HTTP: eight of its requests are all that a sweep needs.

Its client library is not imported: it would bring dozens of packages and threads into the driver. A sweep is one run,
found again by a tag, so a record that was logged in part is completed and none is logged twice. A ``SweepRecord`` is
complete in itself, so it can wait in a file.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from http.client import HTTPException
from itertools import islice
from numbers import Real
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from scalable.errors import ScalableError
from scalable.wording import shortened

TIMEOUT_S = 10.0  # for one request; a server that takes longer is asked again later
MOST_METRICS, MOST_PARAMS, MOST_TAGS = 1000, 100, 100  # in one request, as its API says
LONGEST_PARAM, LONGEST_TAG, LONGEST_NAME = 6000, 5000, 250
ID_TAG = "scalable.id"
TABLE = "rows.json"
TABLE_TAG = "mlflow.loggedArtifacts"  # what makes its pages show a file as a table
PROXIED = "mlflow-artifacts:"  # where the server itself takes files
PASSING = (408, 425, 429)  # refusals of the moment


class TrackingError(ScalableError):
    """A place that no sweep can be logged to as it is written, or a server that did not take one."""


class UnreachableError(TrackingError):
    """The server is down, overloaded or broken: worth another try soon."""


class ForbiddenError(TrackingError):
    """The server does not let us in: worth another try when somebody has changed that."""


class RejectedError(TrackingError):
    """The server understood and refused what it was sent: no try will be better."""


class Status(Enum):
    """The state of a sweep, in MLflow's words."""

    RUNNING = "RUNNING"
    FINISHED = "FINISHED"  # complete: every expected row is there
    FAILED = "FAILED"  # ended with rows missing
    KILLED = "KILLED"  # interrupted; it may be resumed


@dataclass(frozen=True, slots=True)
class SweepRecord:
    """One run of a sweep. Logging a record again replaces what was logged of the same ``id``, so nothing is doubled."""

    id: str
    """Names this run of the sweep among all, e.g. its run folder's name."""
    experiment: str
    """What it is listed under: the project."""
    name: str
    """The sweep's."""
    started: float
    """In seconds since 1970, as is ``ended``."""
    ended: float | None = None
    status: Status = Status.RUNNING
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    """For each variant, as ``averaged`` makes them, or others."""
    decision: Mapping[str, Any] = field(default_factory=dict)
    """The verdict and what it rests on; they become tags, which may change later."""
    rows: Sequence[Mapping[str, Any]] = ()

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "status": self.status.value}, default=str)

    @classmethod
    def from_json(cls, text: str) -> SweepRecord:
        facts = json.loads(text)
        return cls(**{**facts, "status": Status(facts["status"])})

    def table(self) -> dict[str, Any]:
        """Return the rows as MLflow reads tables: columns once, and what JSON has no number for as nothing."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        return {"columns": columns, "data": [[table_cell(row.get(name)) for name in columns] for row in self.rows]}


class MlflowServer:
    """A server and what it takes to be let in; ``send`` logs a record."""

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            is_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is no number
            is_server = False
        if not is_server:
            raise TrackingError(
                f"tracking: {without_password(url)!r} is no MLflow server; write its address, "
                "e.g. http://localhost:5000 (what is kept in files or databases needs one, too: run  mlflow server)"
            )
        host = parts.netloc.rpartition("@")[2]
        self.url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        user = parts.username or os.environ.get("MLFLOW_TRACKING_USERNAME")
        password = parts.password or os.environ.get("MLFLOW_TRACKING_PASSWORD") or ""
        self.headers = {"Accept": "application/json"}
        if user:
            self.headers["Authorization"] = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
        elif token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
            self.headers["Authorization"] = f"Bearer {token}"

    def send(self, record: SweepRecord) -> str:
        """Log a record, completing what is there of it; the run's id."""
        experiment = self.experiment(record.experiment)
        run = self.find_run(experiment, record.id) or self.created(experiment, record)
        info = run["info"]
        at = milliseconds(record.ended or record.started)
        metrics = [
            {"key": named(key), "value": float(value), "timestamp": at, "step": 0}
            for key, value in record.metrics.items()
            if is_number(value)
        ]
        params = [{"key": named(key), "value": cut_text(value, LONGEST_PARAM)} for key, value in record.params.items()]
        tags = [{"key": named(key), "value": cut_text(value, LONGEST_TAG)} for key, value in record.decision.items()]
        if record.rows and self.uploaded(info, TABLE, record.table()):
            tags.append({"key": TABLE_TAG, "value": json.dumps([{"path": TABLE, "type": "table"}])})
        for kind, entries, most in (
            ("params", params, MOST_PARAMS), ("metrics", metrics, MOST_METRICS), ("tags", tags, MOST_TAGS),
        ):  # fmt: skip
            for batch in batches(entries, most):
                self.post("runs/log-batch", {"run_id": info["run_id"], kind: batch})
        ended = {} if record.status is Status.RUNNING or record.ended is None else {"end_time": at}
        self.post("runs/update", {"run_id": info["run_id"], "status": record.status.value, **ended})
        return str(info["run_id"])

    def asked(self) -> None:
        """Raises if it does not answer, or not to us."""
        self.get("experiments/get-by-name", {"experiment_name": "Default"}, missing={})

    def experiment(self, name: str) -> str:
        """Return the experiment of this name, made if there is none; one in the bin is taken out again."""
        for _ in range(2):
            known = self.get("experiments/get-by-name", {"experiment_name": name}, missing={})
            if experiment := known.get("experiment"):
                if experiment.get("lifecycle_stage") == "deleted":
                    self.post("experiments/restore", {"experiment_id": experiment["experiment_id"]})
                return str(experiment["experiment_id"])
            try:
                return str(self.post("experiments/create", {"name": name})["experiment_id"])
            except RejectedError as error:
                if "RESOURCE_ALREADY_EXISTS" not in str(error):  # else another was faster
                    raise
        raise UnreachableError(f"{self.url}: the experiment {name} comes and goes")

    def find_run(self, experiment: str, identity: str) -> dict[str, Any] | None:
        wanted = {
            "experiment_ids": [experiment],
            "filter": f"tags.`{ID_TAG}` = '{literal(identity)}'",
            "max_results": 1,
        }
        runs = self.post("runs/search", wanted).get("runs") or [None]
        run: dict[str, Any] | None = runs[0]
        return run

    def created(self, experiment: str, record: SweepRecord) -> dict[str, Any]:
        tags = [{"key": ID_TAG, "value": literal(record.id)}, {"key": "mlflow.source.name", "value": "scalable"}]
        given = {"experiment_id": experiment, "run_name": record.name, "start_time": milliseconds(record.started)}
        run: dict[str, Any] = self.post("runs/create", {**given, "tags": tags})["run"]
        return run

    def uploaded(self, info: Mapping[str, Any], name: str, content: object) -> bool:
        """Hand a file to the server, if it takes files; where it lets clients write to a bucket, they stay away."""
        place = str(info.get("artifact_uri") or "")
        if not place.startswith(PROXIED):
            return False
        path = quote(f"{urlsplit(place).path.strip('/')}/{name}")
        data = json.dumps(content).encode()
        self.ask("PUT", f"/api/2.0/mlflow-artifacts/artifacts/{path}", data, "application/octet-stream")
        return True

    def get(self, what: str, query: Mapping[str, str], missing: dict[str, Any]) -> dict[str, Any]:
        return self.ask("GET", f"/api/2.0/mlflow/{what}?{urlencode(query)}", missing=missing)

    def post(self, what: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.ask("POST", f"/api/2.0/mlflow/{what}", json.dumps(body).encode(), "application/json")

    def ask(
        self, method: str, path: str, data: bytes | None = None, kind: str = "", missing: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        headers = {**self.headers, **({"Content-Type": kind} if kind else {})}
        request = Request(f"{self.url}{path}", data, headers, method=method)
        try:
            with urlopen(request, timeout=TIMEOUT_S) as answer:
                content = answer.read()
            reply: dict[str, Any] = json.loads(content) if content.strip() else {}
        except HTTPError as error:
            with error:
                complaint = error.read(2000).decode(errors="replace")
            if error.code == 404 and missing is not None and "RESOURCE_DOES_NOT_EXIST" in complaint:
                return missing
            raise self.refusal(error.code, complaint) from None
        except (OSError, HTTPException, ValueError) as error:
            raise UnreachableError(f"{self.url}: {getattr(error, 'reason', None) or error}") from None
        return reply

    def refusal(self, code: int, complaint: str) -> TrackingError:
        message = " ".join(complaint.split())[:300]
        if code in (401, 403):
            return ForbiddenError(
                f"{self.url} refused ({code}): {message}; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, "
                "or MLFLOW_TRACKING_TOKEN"
            )
        if code >= 500 or code in PASSING:
            return UnreachableError(f"{self.url} answered {code}: {message}")
        return RejectedError(f"{self.url} refused ({code}): {message}")


def batches(entries: list[dict[str, Any]], most: int) -> Iterator[list[dict[str, Any]]]:
    rest = iter(entries)
    while batch := list(islice(rest, most)):
        yield batch


def named(key: str) -> str:
    """Return a name as MLflow allows it."""
    allowed = re.sub(r"[^\w\-. :/]", "_", key, flags=re.ASCII)
    return "/".join(part for part in allowed.split("/") if part.strip("."))[:LONGEST_NAME] or "_"


def cut_text(value: object, longest: int) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return shortened(text, longest)


def literal(identity: str) -> str:
    """Return a text that needs no quoting in a search."""
    return re.sub(r"[^\w\-.:/ ]", "_", identity)


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def without_password(url: str) -> str:
    return re.sub(r"//.*@", "//", url, flags=re.DOTALL)  # to the last @: a password may hold any character


def averaged(rows: Iterable[Mapping[str, Any]], metrics: Iterable[str]) -> dict[str, float]:
    """Return the mean of each metric over the rows of each variant, as ``VARIANT/METRIC``, and their number."""
    wanted = list(metrics)
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[str(row.get("variant"))].append(row)
    means: dict[str, float] = {}
    for variant, group in groups.items():
        means[f"{variant}/rows"] = float(len(group))
        for name in wanted:
            if values := [float(row[name]) for row in group if is_number(row.get(name))]:
                means[f"{variant}/{name}"] = math.fsum(values) / len(values)
    return means


def is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def table_cell(value: Any) -> Any:
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, Real):
        return None if not math.isfinite(value) else int(value) if isinstance(value, int) else float(value)
    return str(value)
