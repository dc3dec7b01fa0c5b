"""Lock and advance: a variant that won becomes part of the base configuration, on which the next factor is tested.

The store keeps every version with its reason, so a lock can be undone, and undone again further back. Two people who
lock at the same moment do not overwrite each other: the store refuses the slower one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any, Protocol

from scalable.errors import ScalableError, UsageError
from scalable.sweeps.decisions import Decision, Verdict
from scalable.sweeps.results import Variant, same

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scalable.store import Config

UNDO = re.compile(r"undo of version (\d+)")  # how the reason of an undo begins; no other reason does
LONGEST = 900  # characters of a reason; the store takes a thousand


class LockRefused(ScalableError):  # noqa: N818  (nothing failed: the rule says no)
    """A variant that may not be locked; the message says why, and what would lock it nevertheless."""


class ConfigStore(Protocol):
    """What of a store locking needs."""

    def config(self) -> Config: ...

    def config_history(self) -> list[Config]: ...

    def set_config(
        self, base_env: Mapping[str, Any], *, factor: str, variant: Any, reason: str, expect_version: int
    ) -> Config: ...


@dataclass(frozen=True, slots=True)
class Locked:
    """The configuration after a lock or an undo."""

    config: Config
    changed: bool = True
    """Whether it is a new version; a variant that is locked already is not locked again."""


def lock(
    store: ConfigStore,
    decision: Decision,
    variant: Variant,
    *,
    force: bool = False,
    reason: str = "",
    on: Config | None = None,
    values: Mapping[str, Variant] | None = None,
) -> Locked:
    """Make a variant part of the base configuration if its verdict is LOCK, or if it is the baseline.

    ``force`` locks any variant and needs a reason, which is kept with the verdict it overrules. ``on`` is the
    configuration the decision was made on; if another has taken its place meanwhile, the store refuses. ``values`` are
    those of a variant on several compared axes.
    """
    config = store.config() if on is None else on
    why = justified(decision, variant, force, reason.strip())
    factor = decision.factor
    wanted = {factor: variant} if values is None else dict(values)
    held = {name: config.base_env[name] for name in wanted if name in config.base_env}
    if held:
        now = "/".join(map(str, held.values())) if len(wanted) > 1 else held[factor]
        if {name: same(value) for name, value in held.items()} == {name: same(each) for name, each in wanted.items()}:
            return Locked(config, changed=False)
        if same(now) != same(decision.baseline) and not force:
            raise LockRefused(
                f"{factor} {variant} is not locked: {factor} {now} is, with which sweep {decision.sweep} has compared "
                f"nothing. Add {now} to sweep {decision.sweep} and run it again; to lock {variant} "
                f'nevertheless: scalable lock {quote(factor)} {quote(str(variant))} --force --reason "…"'
            )
    return advance(store, config, factor, variant, why, wanted)


def lock_untested(
    store: ConfigStore, factor: str, variant: Variant, baseline: Variant, *, force: bool, reason: str = ""
) -> Locked:
    """Lock a variant of a workload's factor that no sweep compared: its baseline as long as no other is locked.

    ``force`` locks any variant and needs a reason.
    """
    config = store.config()
    now = config.base_env.get(factor)
    if now is not None and same(now) == same(variant):
        return Locked(config, changed=False)
    if now is None and same(variant) == same(baseline):
        return advance(store, config, factor, variant, "baseline: what holds where nothing is locked" + added(reason))
    if not force:
        held = f"{factor} {now} is, and " if now is not None else ""
        raise LockRefused(
            f"{factor} {variant} is not locked: {held}no sweep of the manifest varies {factor}. To lock it "
            f'nevertheless: scalable lock {quote(factor)} {quote(str(variant))} --force --reason "…"'
        )
    needs_reason(reason)
    why = f"forced: {reason.strip()} (no sweep of the manifest varies {factor})"
    return advance(store, config, factor, variant, why)


def advance(
    store: ConfigStore, config: Config, factor: str, variant: Variant, why: str,
    values: Mapping[str, Variant] | None = None,
) -> Locked:  # fmt: skip
    changed = {**config.base_env, **({factor: variant} if values is None else values)}
    return Locked(
        store.set_config(changed, factor=factor, variant=variant, reason=cut(why), expect_version=config.version)
    )


def added(reason: str) -> str:
    return f" ({reason.strip()})" if reason.strip() else ""


def needs_reason(reason: str) -> None:
    if not reason.strip():
        raise UsageError('--force needs a reason that is kept, e.g. --reason "agreed on 3 May, see minutes"')


def justified(decision: Decision, variant: Variant, force: bool, reason: str) -> str:
    """Why the variant may be locked; raises if it may not."""
    if force:
        needs_reason(reason)
    if same(variant) == same(decision.baseline):
        return f"baseline: what the other variants were compared with{added(reason)}"
    judgement = decision.of(variant)
    if judgement is None:
        known = ", ".join(str(each) for each in (decision.baseline, *(each.variant for each in decision.variants)))
        raise UsageError(f"sweep {decision.sweep} has no variant {variant}; it has {known}")
    if judgement.verdict is Verdict.LOCK:
        return f"decided by {decision.sweep}: {judgement.reason}{added(reason)}"
    if force:
        return f"forced: {reason} (the verdict was {judgement.verdict.value}: {judgement.reason})"
    raise LockRefused(
        f"{decision.factor} {variant} is not locked: its verdict is {judgement.verdict.value}: {judgement.reason}. "
        f'To lock it nevertheless: scalable lock {quote(decision.factor)} {quote(str(variant))} --force --reason "…"'
    )


def undo(store: ConfigStore, reason: str = "") -> Locked:
    """Go back to the configuration before the last lock that is in force."""
    config = store.config()
    standing = in_force(store.config_history())
    if not standing:
        raise UsageError("nothing is locked, so there is nothing to undo")
    last = standing[-1]
    before = dict(standing[-2].base_env) if len(standing) > 1 else {}
    factor = last.factor or ""
    why = f"undo of version {last.version}" + (f": {reason.strip()}" if reason.strip() else "")
    return Locked(
        store.set_config(
            before, factor=factor, variant=before.get(factor), reason=cut(why), expect_version=config.version
        )
    )


def in_force(history: Iterable[Config]) -> list[Config]:
    """The locks that were not undone, oldest first."""
    standing: dict[int, Config] = {}
    for entry in sorted(history, key=lambda each: each.version):
        if undone := UNDO.match(entry.reason):
            standing.pop(int(undone[1]), None)
        elif entry.version > 0:
            standing[entry.version] = entry
    return list(standing.values())


def cut(reason: str) -> str:
    return reason if len(reason) <= LONGEST else f"{reason[: LONGEST - 1]}…"
