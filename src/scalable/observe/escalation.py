"""How serious an incident is, seen with those before it, and what would have prevented it; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from scalable.observe.fields import count, text
from scalable.quantities import Duration, Memory

if TYPE_CHECKING:
    from scalable.observe.incidents import Incident

AGAIN_WITHIN_S = 86_400.0  # the same within 24 hours
MUCH_MEMORY = 8 * 1024**3
NORMAL, HIGH = "normal", "high"
WAITING = re.compile(
    r"\b(acquire|wait|join|lock|get|recv|poll|select|_wait_for_tstate_lock|__enter__)\b", re.IGNORECASE
)


class Severity(NamedTuple):
    level: str
    """``normal`` or ``high``."""
    escalation: str
    """Why it is high and what to do; empty if it is not."""


def severity(incident: Incident, earlier: Iterable[Incident]) -> Severity:
    """The same kind at the same place within a day, a fork in new code, or more than 8 GiB make it high."""
    before = [one for one in earlier if within_a_day(one, incident)]
    same = [one for one in before if (one.kind, place(one)) == (incident.kind, place(incident))]
    said = []
    if same:
        last = max(same, key=moment)
        ago = Duration(max(0.0, moment(incident) - moment(last)))
        said.append(
            f"the same happened {ago} before ({len(same) + 1} times within 24 h): trying again does not help; "
            "change the code at that place, or mark the run failed (scalable mark-failed)"
        )
    if forked(incident) and not any(forked(one) and place(one) == place(incident) for one in before):
        said.append(
            "a fork with threads in code that was not seen to do that: look at who added it, pass n_jobs=1, and "
            "test it with scalable.testing.assert_fork_safe"
        )
    if (used := memory(incident)) > MUCH_MEMORY:
        said.append(f"it used {Memory(used)}, more than {Memory(MUCH_MEMORY)}: find what grows before giving it more")
    return Severity(HIGH if said else NORMAL, "; ".join(said))


def advice(incident: Incident) -> tuple[str, ...]:
    """What would have prevented it, a sentence each."""
    notes = " ".join(map(text, incident.evidence.get("notes") or ()))
    if incident.kind == "fork refused":
        return ("pass n_jobs=1, or start processes by spawn; policies.fork.allow names modules that may fork",)
    if incident.kind == "out of memory":
        return (more_memory(incident),)
    if incident.kind != "stuck":
        return ()
    if "is stopped" in notes:
        return ("somebody stopped the process (SIGSTOP, Ctrl-Z, a debugger); nothing in the code is to blame",)
    if forked(incident) or "was forked" in notes or re.search(r"\bfork", incident.guilty):
        return ("pass n_jobs=1, or  policies.fork: deny",)
    if WAITING.search(incident.guilty.partition(" in ")[0]):
        return ("give that wait a timeout, so that it ends in an error that says what was missing",)
    return ("if it was only slow, report progress (scalable.progress) or declare the step (scalable.long_step)",)


def more_memory(incident: Incident) -> str:
    """The size to ask for, from the peak; from the limit if no peak was measured."""
    used, limit = Memory(memory(incident)), Memory(count(incident.evidence.get("limit")))
    size = Memory.to_ask_for(used, limit)
    if size is None:
        return "ask for more memory, or give each run less to do at once"
    why = f"it used {used}" if used >= limit else f"{limit} is the limit now"
    return f"ask for memory: {size.exact} ({why}), or give each run less to do at once"


def memory(incident: Incident) -> int:
    """The most it is known to have used."""
    return max(count(incident.evidence.get("peak")), count(incident.evidence.get("memory")))


def forked(incident: Incident) -> bool:
    return incident.kind == "fork refused" or count(incident.evidence.get("fork_warnings")) > 0


def place(incident: Incident) -> str:
    """Where it happened, without the lines, which change with every edit; its kind of work if that is not known."""
    return re.sub(r":\d+", "", incident.guilty) or f"{incident.tag or ''} {incident.run.partition('-')[0]}"


def within_a_day(one: Incident, other: Incident) -> bool:
    return one is not other and 0 <= moment(other) - moment(one) <= AGAIN_WITHIN_S


def moment(incident: Incident) -> float:
    return incident.found or incident.started or 0.0
