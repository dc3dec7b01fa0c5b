"""The rules a manifest may set; the defaults are what the requirements ask for."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, WithJsonSchema, field_validator, model_validator

from scalable.errors import QuantityError
from scalable.manifest.fields import Count, CountOrNone, Flag, Positive, Section, Text, Wait, one_or_many
from scalable.quantities import Duration, Share
from scalable.stuck import STUCK_AFTER_S
from scalable.wording import shown

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


class Retry(Section):
    times: CountOrNone = 1
    delay: Duration = Duration(60)
    cap: Duration = Duration(300)


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
    """What a sizing must reach to be accepted."""

    factor: Wait = Duration(9000)
    scale_up: Wait = Duration(300)
    scale_down: Wait = Duration(900)
    sessions: Count = 10


class Grpc(Section):
    """What gRPC is told about forks, by its environment variables, before anything can import it."""

    support: Flag = False
    """GRPC_ENABLE_FORK_SUPPORT: on, gRPC stops its threads at a fork, and may wait for them for ever."""
    poll: Text | None = None
    """GRPC_POLL_STRATEGY, e.g. poll; gRPC's own choice when not given."""

    def variables(self) -> dict[str, str]:
        found = {"GRPC_ENABLE_FORK_SUPPORT": "1" if self.support else "0"}
        return {**found, "GRPC_POLL_STRATEGY": self.poll} if self.poll else found


class Fork(Section):
    """What happens to a run that forks its process while that has other threads; the policy alone may be written."""

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


class Policies(Section):
    margins: Margins = Margins()
    retry: Retry = Retry()
    stuck: Stuck = Stuck()
    scaling: Scaling = Scaling()
    preflight: Preflight = Preflight()
    concurrency: Concurrency = Concurrency()
    acceptance: Acceptance = Acceptance()
    fork: Fork = Fork()
