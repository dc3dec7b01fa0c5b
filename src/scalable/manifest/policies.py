"""The rules a manifest may set; the defaults are what the requirements ask for.

Margins, retries and limits first, then whom alerts are told to, then what a month may cost.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import BeforeValidator, SecretStr, WithJsonSchema, field_validator, model_validator

from scalable.errors import QuantityError
from scalable.machine_hours import MachineHours
from scalable.manifest.fields import (
    BOOLS,
    Count,
    CountOrNone,
    Flag,
    Positive,
    Section,
    Text,
    Wait,
    as_number,
    one_or_many,
)
from scalable.manifest.work import Retry, Stated, Together
from scalable.observe.alerts import RULES, Rule, adjusted
from scalable.quantities import Duration, Money, Price, Share
from scalable.stuck import STUCK_AFTER_S
from scalable.wording import not_defined, shown

if TYPE_CHECKING:
    from scalable.manifest.models import Manifest

ForkPolicy = Literal["deny", "warn", "allow"]
MODULE = {"type": "string", "minLength": 1}
Modules = Annotated[
    list[Text],
    BeforeValidator(one_or_many),
    WithJsonSchema({"anyOf": [MODULE, {"type": "array", "items": MODULE}]}),
]


class Margins(Section):
    ram: Share = Share(0.40)
    cpu: Share = Share(0.15)
    spread: Flag = True
    """Raise requests so that the scheduler places no more workers on a node than its CPUs can serve."""


class Stuck(Section):
    after: Wait = Duration(STUCK_AFTER_S)
    walltime: Wait | None = None
    """A run that never reports progress is stopped after this; not at all when not given."""


class Scaling(Section):
    cooldown: Duration = Duration(120)
    """Workers of a kind are not added and removed within this time."""
    idle: Duration = Duration(0)
    """How long a worker without work is kept; its node is kept longer, by the pool's idle."""


class Preflight(Section):
    memory: Share = Share(0.70)
    """Largest part of a node's memory that an estimated peak may take."""
    safety: Positive = 1.5
    """What an estimate without history is multiplied by."""


class Concurrency(Section):
    normal: Count = 2
    """How many sweeps may run at once."""


class Acceptance(Section):
    """The goals that a sizing must reach to be accepted."""

    factor: Wait = Duration(9000)
    scale_up: Wait = Duration(300)
    scale_down: Wait = Duration(900)
    sessions: Count = 10


class Grpc(Section):
    """The environment variables by which gRPC is told about forks before anything can import it."""

    support: Flag = False
    """GRPC_ENABLE_FORK_SUPPORT: on, gRPC stops its threads at a fork, and may wait for them for ever."""
    poll: Text | None = None
    """GRPC_POLL_STRATEGY, e.g. poll; gRPC's own choice when not given."""

    def variables(self) -> dict[str, str]:
        variables = {"GRPC_ENABLE_FORK_SUPPORT": "1" if self.support else "0"}
        return {**variables, "GRPC_POLL_STRATEGY": self.poll} if self.poll else variables


class Fork(Section):
    """The treatment of a job that forks its process while that has other threads; the policy alone may be written."""

    policy: ForkPolicy = "deny"
    allow: Modules = []
    """Modules, with all below them, that may fork nevertheless, e.g. torch.utils.data; it is counted and reported."""
    grpc: Grpc = Grpc()

    @model_validator(mode="before")
    @classmethod
    def short(cls, value: Any) -> Any:
        if isinstance(value, dict | Fork):
            return value
        words = "'deny', 'warn' or 'allow'"
        if not isinstance(value, str):
            remedy = f"write {words}, or keys, e.g. {{policy: deny, allow: [torch.utils.data]}}"
            raise QuantityError(f"{shown(value)} is no fork policy", remedy)
        if value not in get_args(ForkPolicy):
            raise QuantityError(f"{shown(value)} is not one of {words}", f"write {words}")
        return {"policy": value}

    @field_validator("allow")
    @classmethod
    def modules(cls, names: list[str]) -> list[str]:
        example = "write e.g. torch.utils.data"
        QuantityError.raise_all(
            [
                QuantityError(f"{shown(name)} is not the name of a module", example, (at,))
                for at, name in enumerate(names)
                if not all(part.isidentifier() for part in name.split("."))
            ]
        )
        return names


class Pilot(Section):
    """Bounds of a pilot: jobs that have not ended by then are stopped."""

    time: Wait = Duration(120)
    """After the first worker is expected to be there."""
    cost: Money | None = None
    """What its workers may cost; the budget counts in any case."""


class Verdicts(Section):
    control: Literal["sweep", "programme"] = "sweep"
    """What shares a chance of 5 % of a false LOCK: each sweep by itself, or all decisions in the store together."""


class Policies(Section):
    margins: Margins = Margins()
    retry: Retry = Retry()
    stuck: Stuck = Stuck()
    scaling: Scaling = Scaling()
    preflight: Preflight = Preflight()
    concurrency: Concurrency = Concurrency()
    acceptance: Acceptance = Acceptance()
    fork: Fork = Fork()
    pilot: Pilot = Pilot()
    verdicts: Verdicts = Verdicts()
    guard: Literal["asked", "all"] = "asked"
    """Which plain tasks (submit, map) run in runner processes: those with guarded=True, or all but guarded=False."""
    worker_clients: Literal["refused", "allowed"] = "refused"
    """Whether tasks may act as Dask clients (get_client, worker_client); workers then have the rights of the driver."""

    def retry_of(self, own: Retry | None) -> Retry:
        """Return how a task or sweep is retried: what it does not say itself is as for all."""
        if own is None:
            return self.retry
        return self.retry.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


OFF = "off"
Numbers = dict[str, float | None]
BY_NAME = {rule.name: rule for rule in RULES}


def address(value: object) -> object:
    """Return a web address, or nothing if its variable is empty.

    What it is stays out of the message: it is a secret.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
        good = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        good = False
    if not good:
        raise QuantityError("webhook is no web address", "export SLACK_WEBHOOK=https://… and write ${SLACK_WEBHOOK}")
    return value


def threshold(rule: Rule, value: object) -> float | None:
    """Read a threshold in the rule's own unit: 90% or 0.9, 20m, 3; off turns it off."""
    value = as_number(value)
    if value is False or (isinstance(value, str) and BOOLS.get(value.lower()) is False):
        return None
    match rule.unit:
        case "share":
            return float(Share.parse(value))
        case "seconds":
            return Duration.parse(value).seconds
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise QuantityError(f"{shown(value)} is no threshold", f"write a number from 0, or {OFF}")
    return float(value)


class Alerts(Section):
    """Alerts while a session runs; without this section they are in its journal, the console and the terminal."""

    webhook: Annotated[
        SecretStr | None, BeforeValidator(address), WithJsonSchema({"type": "string", "pattern": r"\$\{"})
    ] = None
    """Where they are sent, too, as Slack takes messages: a variable, ${SLACK_WEBHOOK}, not the address itself."""
    thresholds: Annotated[
        Numbers, WithJsonSchema({"type": "object", "additionalProperties": {"type": ["number", "string", "boolean"]}})
    ] = {}
    """By the alert's name, e.g. WorkerMemory: 90%, RunLong: 30m; off turns one off."""

    @field_validator("thresholds", mode="before")
    @classmethod
    def known(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        thresholds: Numbers = {}
        problems = []
        for name, value in values.items():
            if name not in BY_NAME:
                problems.append(QuantityError(*not_defined("alert", str(name), BY_NAME), (name,)))
                continue
            try:
                thresholds[name] = threshold(BY_NAME[name], value)
            except QuantityError as error:
                problems.append(QuantityError(f"{name}: {error.message}", error.remedy, (name,)))
        QuantityError.raise_all(problems)
        return thresholds


def rules_of(manifest: Manifest) -> tuple[Rule, ...]:
    """Return the rules with the manifest's thresholds; the times in ``policies.stuck`` hold for alerts, too."""
    stuck = manifest.policies.stuck
    allowed = {"Stuck": stuck.after, "RunLong": stuck.walltime}
    longer = {
        name: time.seconds
        for name, time in allowed.items()
        if time is not None and time.seconds > BY_NAME[name].when.threshold
    }
    return adjusted({**longer, **manifest.alerts.thresholds})


class Sessions(Section):
    """The number and length of a scenario's sessions in a month."""

    sessions: CountOrNone
    hours: Positive
    nodes: Count | None = None
    """As many as the scenario needs when not given."""


class Option(Section):
    """One way to run a sweep, to be compared with others."""

    sweep: Text
    pool: Text
    workers: Count
    nodes: Count | None = None
    """Keep the pool to so many nodes."""
    stated: Stated | None = None


class Growth(Together):
    """A question about more: more assets, more at once, another node type, or nodes that never stop."""

    assets: Text | None = None
    """A group that replaces the assets of the sweeps."""
    node: Text | None = None
    """A node type that replaces the pool's."""
    always_on: CountOrNone = 0

    @model_validator(mode="after")
    def something(self) -> Growth:
        if bool(self.sweeps or self.workloads) == bool(self.always_on):
            raise QuantityError(
                "a growth question has either sweeps and workloads, or always_on",
                "write e.g. {sweeps: {standard: 1}, assets: defi_full}",
            )
        if self.always_on and self.node is None:
            raise QuantityError("always_on needs a node", "write e.g. {node: PRO2-M, always_on: 2}")
        return self


def day(value: object) -> object:
    """Return a day; YAML reads one that is not quoted by itself."""
    try:
        return value if isinstance(value, date) else date.fromisoformat(str(value))
    except ValueError:
        raise QuantityError(f"{shown(value)} is not a day", "write YYYY-MM-DD, e.g. 2026-10-01") from None


Day = Annotated[date, BeforeValidator(day), WithJsonSchema({"type": "string", "format": "date"})]


class Budget(Section):
    monthly: Money | None = None
    """What may be spent in a calendar month."""
    allocation: MachineHours | None = None
    """Hours of a cluster's machines that this project may use in all: 50000 core-hours, node-hours or gpu-hours."""
    allocation_since: Day | None = None
    """The first day that counts against the allocation; all recorded runs count when not given."""
    fixed: dict[str, Money] = {}
    price: Price | None = None
    """An hourly price for projections instead of the node's own, such as a rounded one."""
    months: dict[str, dict[str, Sessions]] = {}
    options: dict[str, Option] = {}
    growth: dict[str, Growth] = {}
    stated: Stated | None = None
    """For all sweeps together: rows, and hours on a single worker."""

    @model_validator(mode="after")
    def some(self) -> Budget:
        if self.monthly is None and self.allocation is None:
            text = "budget limits nothing: it has neither monthly nor allocation"
            raise QuantityError(text, "write e.g. monthly: 200 EUR, or allocation: 50000 core-hours")
        if self.monthly is None and self.months:
            raise QuantityError("budget.months needs budget.monthly", "write e.g. monthly: 200 EUR", ("months",))
        if self.allocation is None and self.allocation_since is not None:
            text = "allocation_since is the first day of an allocation, and there is none"
            raise QuantityError(text, "write e.g. allocation: 50000 core-hours", ("allocation_since",))
        return self
