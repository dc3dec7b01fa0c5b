"""The lessons of finished runs for later plans: merged into ``.scalable/history.json``, which the planner reads.

One writer at a time holds ``history.lock`` (the system frees it when its holder dies); readers need no lock, since the
file is replaced whole. A run is learned once. What this version does not know in the file stays there.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from scalable.errors import QuantityError, ScalableError
from scalable.machine_hours import HeldResources
from scalable.observe.fields import day, listed, mapping, month, number, text
from scalable.observe.files import write_beside
from scalable.observe.folders import state_dir, state_file
from scalable.observe.starts import possible, start_times
from scalable.observe.sweep_progress import LEAST_CORES, MOST_SIZES, SweepProgress
from scalable.observe.view import RunView
from scalable.quantities import Memory, Money, decimal_text

logger = logging.getLogger("scalable")

FILE = "history.json"
LOCK = "history.lock"
MOST_DURATIONS = 200  # by name: enough for a mean and its spread, few enough to follow a change
MOST_SESSIONS = 50
MOST_RUNS = 500  # learned ones that are remembered, so that none is learned twice
MOST_STARTS = 20  # by provider: enough for a median
ENOUGH_UNITS = 5  # a sweep that measured as many says by itself how its units differ: code and data change
MOST_SWEEPS = 5  # whose level is remembered: a machine's speed drifts by a third from day to day, their median does not
OTHER_WORK = 2.0  # by so many times no machine drifts: the work is another, and what it took before is forgotten
BY_NAME = ("seconds", "peaks", "memory", "reads", "sizes", "tasks", "units", "starts", "hours")
LISTS = ("sessions", "runs")
PARTS: dict[str, type] = {**dict.fromkeys(BY_NAME, dict), **dict.fromkeys(LISTS, list)}
WAIT_S = 10.0  # merging takes milliseconds; whoever holds the lock longer is stuck


def learn(base: Path | str, view: RunView, *, wait_s: float = WAIT_S) -> bool:
    """Merge a run into the history of a runs folder; whether there was anything new in it."""
    folder = Path(base)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(state_file(LOCK, folder), wait_s):
            path = state_file(FILE, folder)
            history = known(path)
            if view.run_id and view.run_id in history.get("runs", ()):
                return False
            merge(history, view)
            write_beside(path, json.dumps(history, indent=1) + "\n")
            return True
    except OSError as error:
        path = state_dir(folder) / FILE
        raise ScalableError(f"{path} cannot be written: {error.strerror}; this run is not learned") from None


def forget_peaks(
    base: Path | str, name: str | None = None, run: str | None = None, settings: str | None = None
) -> list[dict[str, Any]]:  # fmt: skip
    """Remove measured peaks from the history of a runs folder, and return them.

    ``name`` is a factor, a component or a task; all there are if nothing is said. ``run`` and ``settings`` leave out
    other workloads and settings of a factor.
    """
    folder = Path(base)
    path = state_file(FILE, folder)
    if not path.exists():
        return []
    with locked(state_file(LOCK, folder), WAIT_S):
        history = known(path)
        gone, memory, peaks = [], history.get("memory", {}), history.get("peaks", {})
        for factor in list(memory) if name is None else [name]:
            entries = listed(memory.get(factor))
            going = [
                entry for entry in entries
                if run in (None, mapping(entry).get("run")) and settings in (None, mapping(entry).get("settings"))
            ]  # fmt: skip
            gone += [{"name": factor, **mapping(entry)} for entry in going]
            if going:
                memory[factor] = [entry for entry in entries if entry not in going]
        for key in [key for key in peaks if name is None or is_about(key, name, run, settings)]:
            gone.append({"name": key, "peak": peaks.pop(key)})
        if gone:
            write_beside(path, json.dumps(history, indent=1) + "\n")
        return gone


def is_about(key: str, name: str, run: str | None, settings: str | None) -> bool:
    """Tell whether a peak of a component, of a task, or of a sweep as earlier versions kept it, is meant."""
    if run is not None and settings is not None:
        return key == " ".join(filter(None, (name, run, settings)))
    return key in (f"tag:{name}", f"run:{name}") or key.partition(" ")[0] == name


def known(path: Path) -> dict[str, Any]:
    """Return what the file says now. One that cannot be understood is left alone: a person may have edited it."""
    try:
        history = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise ScalableError(f"{path} cannot be read: {error}; move it away, this run is not learned") from None
    if not isinstance(history, dict) or not all(isinstance(history.get(k, t()), t) for k, t in PARTS.items()):
        raise ScalableError(f"{path} is no history; move it away, this run is not learned")
    return history


def merge(history: dict[str, Any], view: RunView) -> None:
    seconds, peaks, tasks = (history.setdefault(part, {}) for part in ("seconds", "peaks", "tasks"))
    for tag, work in sorted(view.work.items()):
        name = f"tag:{tag}"
        if durations := [round(value, 6) for value in work.seconds.sample(MOST_DURATIONS) if possible(value)]:
            before = seconds.get(name)
            seconds[name] = [*listed(before), *durations][-MOST_DURATIONS:]
        if work.peak is not None:
            peaks[name] = Memory(max(work.peak, bytes_of(peaks.get(name)))).exact
        if count := work.finished + work.failed:
            tasks[name] = count
    for run, took in sorted(view.run_seconds.items()):
        if durations := [round(value, 6) for value in took.sample(MOST_DURATIONS) if possible(value)]:
            seconds[f"run:{run}"] = durations  # the latest: code and data change
    for run, peak in sorted(view.run_peaks.items()):
        peaks[f"run:{run}"] = Memory(peak).exact  # the latest: code and data change
    for _, sweep in sorted(view.sweeps.items()):
        if sweep.reads:
            history.setdefault("reads", {})[sweep.run] = sweep.reads
        merge_memory(history, sweep, view)
        if sweep.sizes:
            sizes = history.setdefault("sizes", {})
            sizes[sweep.run] = [*listed(sizes.get(sweep.run)), *map(list, sweep.sizes)][-MOST_SIZES:]
        merge_units(history.setdefault("units", {}), sweep, view)
    provider, start = text(view.started.get("provider")), start_times(view)
    if provider and start:
        starts = history.setdefault("starts", {})
        starts[provider] = [*listed(starts.get(provider)), start][-MOST_STARTS:]
    history["sessions"] = [*history.get("sessions", ()), session(view)][-MOST_SESSIONS:]
    if view.run_id:
        history["runs"] = [*history.get("runs", ()), view.run_id][-MOST_RUNS:]
    if view.hours.open and view.last is not None:
        by_day = history.setdefault("hours", {})
        today = day(view.last)
        by_day[today] = (HeldResources.from_dict(mapping(by_day.get(today))) + view.hours.used).to_dict()
    if view.spent_by_month:
        history["spent_this_month"] = spent(history.get("spent_this_month"), view)


def merge_memory(history: dict[str, Any], sweep: SweepProgress, view: RunView) -> None:
    """Merge the peak of a sweep's units, beside what it depends on. It belongs to the code that had it.

    What another code had is forgotten as soon as something is known of the present one.
    """
    if not sweep.factor or (sweep.peak is None and not sweep.short):
        return
    circumstances = {"run": sweep.run, "settings": sweep.settings, "base": sweep.base}
    memory = history.setdefault("memory", {})
    known = [entry for entry in listed(memory.get(sweep.factor)) if isinstance(entry, dict)]
    same = [entry for entry in known if all(entry.get(name) == value for name, value in circumstances.items())]
    entry: dict[str, Any] = {**circumstances, "code": sweep.code, "peak": None, "short": [], "target": ""}
    entry = next((before for before in same if before.get("code") == sweep.code), entry)
    if sweep.peak is not None and sweep.peak >= bytes_of(entry.get("peak")):
        entry = {**entry, "peak": Memory(sweep.peak).exact, "target": text(view.started.get("target"))}
    entry = {**entry, "short": sorted({*listed(entry.get("short")), *sweep.short})}
    memory[sweep.factor] = [*(before for before in known if before not in same), entry]
    if not sweep.base:  # as earlier versions kept it, without its code
        history["peaks"].pop(" ".join(filter(None, (sweep.factor, sweep.run, sweep.settings))), None)


def merge_units(units: dict[str, Any], sweep: SweepProgress, view: RunView) -> None:
    """Merge durations of a sweep's units, beside the circumstances that they depend on."""
    size = mapping(mapping(view.plan.get("resources_by_tag")).get(sweep.tag))
    cpus = number(size.get("cpus"))
    durations = [round(value, 6) for value in sweep.took.sample(MOST_DURATIONS) if possible(value)]
    if not (sweep.factor and durations and cpus and cpus > 0):
        return
    if sweep.job_s is not None and possible(sweep.job_s):  # jobs of a pilot pay for what others share
        durations = [round(value * sweep.job_s * len(durations) / sum(durations), 6) for value in durations]
    circumstances = {
        "run": sweep.run,
        "settings": sweep.settings,
        "base": sweep.base,
        "trials": sweep.trials,
        "provider": text(view.started.get("provider")),
        "cpus": cpus,
    }
    known = [units_before for units_before in listed(units.get(sweep.factor)) if isinstance(units_before, dict)]
    same = [
        units_before
        for units_before in known
        if all(units_before.get(name, "") == value for name, value in circumstances.items())
    ]
    means = [
        value for units_before in same for value in map(number, units_before.get("means") or ()) if value is not None
    ]
    pilot = sweep.pilot
    if len(durations) >= ENOUGH_UNITS and not pilot and any(entry.get("pilot") is True for entry in same):
        means = []  # a sweep says more than the pilot before it
    if len(durations) < ENOUGH_UNITS:  # too little to stand alone: part of the sweep before
        pilot = pilot or any(units_before.get("pilot") is True for units_before in same)
        earlier = [value for units_before in same for value in units_before.get("seconds", ())]
        durations, means = [*earlier, *durations][-MOST_DURATIONS:], means[:-1]
    cores = max(LEAST_CORES, round(sweep.cores, 4)) if sweep.cores is not None else None
    loads = [value for value in sweep.loads.values() if possible(value)]  # none where an earlier sweep loaded the code
    loads = loads or [value for entry in same if (value := number(entry.get("load_s")))]
    entry = {
        **circumstances,
        "seconds": durations,
        "means": levels(means, sum(durations) / len(durations)),
        "cores": cores,
        "rows": max(1, sweep.rows_per_unit),
        **({"load_s": round(median(loads), 6)} if loads else {}),
        **({"pilot": True} if pilot else {}),
    }
    units[sweep.factor] = [*(units_before for units_before in known if units_before not in same), entry]


def levels(means: list[float], latest: float) -> list[float]:
    """Return the mean of a unit in each of the latest sweeps of the same work, the latest last."""
    alike = [mean for mean in means if latest / OTHER_WORK <= mean <= latest * OTHER_WORK]
    return [*alike, round(latest, 6)][-MOST_SWEEPS:]


def session(view: RunView) -> dict[str, Any]:
    """Return one session for the acceptance criteria."""
    where = {name: text(view.started.get(name)) for name in ("target", "provider")}
    facts: dict[str, Any] = {**where, "oom_kills": view.out_of_memory, "failures": view.failed}
    for name, took in (("scale_up_s", view.fleet.slowest_start_s), ("scale_down_s", view.fleet.slowest_end_s)):
        if took is not None and possible(took):
            facts[name] = round(took, 6)
    return facts


def spent(before: object, view: RunView) -> dict[str, str]:
    """Return this month's bill with the run's part. Earlier months are over, later ones never overwritten.

    Only a clock that was wrong speaks of a month to come; kept, it would hide what is spent until that month.
    """
    latest_month, today = max(view.spent_by_month), month(time.time())
    amount, latest = view.spent_by_month[latest_month], min(latest_month or today, today)
    then = text(mapping(before).get("month"))
    try:
        paid = Money.parse(mapping(before).get("amount") if then else before) if before else None
    except QuantityError:
        paid = None
    if paid is None or (then and then < latest) or then > today:
        return written(latest, amount)
    if then > latest:
        return written(then, paid)
    if paid.currency != amount.currency:
        logger.warning("%s is not added to the %s spent this month: another currency", amount, paid)
        return written(latest, paid)
    return written(latest, paid + amount)


def written(when: str, amount: Money) -> dict[str, str]:
    return {"month": when, "amount": f"{decimal_text(round(amount.amount, 6))} {amount.currency}"}


def bytes_of(peak: object) -> int:
    try:
        return Memory.parse(peak).bytes
    except QuantityError:
        return 0


@contextmanager
def locked(path: Path, wait_s: float) -> Iterator[None]:
    """Hold a lock that dies with its holder."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        give_up = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise ScalableError(f"{path} is held by another process; this run is not learned") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(file)
