"""What a manifest may say of alerts: whom to tell, and thresholds of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator, SecretStr, WithJsonSchema, field_validator

from scalable.errors import QuantityError
from scalable.manifest.fields import BOOLS, Section, as_number
from scalable.observe.alerts import RULES, Rule, adjusted
from scalable.quantities import Duration, Share
from scalable.wording import not_defined, shown

if TYPE_CHECKING:
    from scalable.manifest.models import Manifest

OFF = "off"
Numbers = dict[str, float | None]
BY_NAME = {rule.name: rule for rule in RULES}


def address(value: object) -> object:
    """A web address, or nothing if its variable is empty. What it is stays out of the message: it is a secret."""
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
    """In the rule's own unit: 90% or 0.9, 20m, 3; off turns it off."""
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
        found: Numbers = {}
        problems = []
        for name, value in values.items():
            if name not in BY_NAME:
                problems.append(QuantityError(*not_defined("alert", str(name), BY_NAME), (name,)))
                continue
            try:
                found[name] = threshold(BY_NAME[name], value)
            except QuantityError as error:
                problems.append(QuantityError(f"{name}: {error.message}", error.remedy, (name,)))
        QuantityError.raise_all(problems)
        return found


def rules_of(manifest: Manifest) -> tuple[Rule, ...]:
    """With the manifest's thresholds; how long it lets a run be silent, or last, is no alert before."""
    stuck = manifest.policies.stuck
    allowed = {"Stuck": stuck.after, "RunLong": stuck.walltime}
    longer = {
        name: time.seconds
        for name, time in allowed.items()
        if time is not None and time.seconds > BY_NAME[name].when.threshold
    }
    return adjusted({**longer, **manifest.alerts.thresholds})
