"""How often verdicts are wrong, and how often they find what is there: simulated sweeps of known truth.

Every sweep goes through the functions that judge real ones (``scalable.verdicts``); only the differences between a
variant and the baseline are drawn, with a variance of 1 in each block. A line of the table is a grid and the share of
the variance that blocks of one asset or one period have in common. ``docs/explanation/verdicts.md`` shows the figures;
``python -m benchmarks.verdicts`` prints them in a few minutes, writes them to ``benchmarks/results/verdicts.json`` and
fails if a bound is broken. The seed was fixed before the first run.

Correlated folds with t₃ tails are drawn from the multivariate t distribution: all folds of a data set are wild or calm
together. Lines that are not bounded are reported: folds more correlated than 1/k, folds that are the sum of a common
and an own part with t₃ tails by themselves (k folds show little of the common part), and rare large losses.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import exp, prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from scalable.axes import AxisKind
from scalable.verdicts import futility, rule
from scalable.verdicts.methods import choose
from scalable.verdicts.power import Spread, detectable
from scalable.verdicts.tables import Axis, Floats

SWEEPS = 20_000  # for each figure: a rate of 5 % then has a standard error of 0.15 points
SEED = 19
VARIANTS = (1, 2, 12, 100)
GAINS = (0.5, 0.7, 0.9)  # of one variant of two, in standard deviations of a block's difference
CHUNK = 4_000_000  # numbers drawn at a time
MOST_FALSE = 0.06
LEAST_COVERED = 0.94
POWER_SLACK = 0.03
SURE = 1.96  # standard errors: a bound is broken only if the 95 % interval of a rate lies beyond it
RESULT = Path(__file__).parent / "results/verdicts.json"


@dataclass(frozen=True)
class Line:
    """One kind of sweep: its blocks, what they share, and the power that it must reach."""

    name: str
    axes: tuple[Axis, ...]
    shared: tuple[float, ...] = ()
    """By axis, the share of the variance that blocks with the same value have in common."""
    correlated: float = 0.0
    """Correlation of the folds of one data set."""
    parts: str = ""
    """``both`` or ``own``: which parts of a fold have t₃ tails by themselves, instead of all folds together."""
    power: tuple[float, ...] = ()
    """Least power for ``GAINS``; nan where nothing is promised."""
    holes: float = 0.0
    """Share of the blocks that do not exist."""
    bounded: bool = True


def crossed(assets: int, periods: int, by_asset: float, by_period: float, *power: float, holes: float = 0.0) -> Line:
    shared = f"{by_asset:g} and {by_period:g} shared" if by_asset or by_period else "nothing shared"
    name = f"crossed {assets} × {periods}, {shared}{f', {100 * holes:.0f} % of blocks not there' if holes else ''}"
    axes = (axis("asset", AxisKind.SAMPLE, assets), axis("period", AxisKind.PERIODS, periods))
    return Line(name, axes, (by_asset, by_period), power=power, holes=holes)


def sample(count: int, power: float) -> Line:
    return Line(f"sample of {count}", (axis("dataset", AxisKind.SAMPLE, count),), (0.0,), power=(np.nan, power, np.nan))


def folds(
    sets: int, count: int, correlated: float, power: float = np.nan, bounded: bool = True, parts: str = ""
) -> Line:
    name = f"{'one data set' if sets == 1 else f'{sets} fixed data sets'}, {count} folds correlated by {correlated:g}"
    name += {"": "", "both": ", common and own part t₃ by themselves", "own": ", own part t₃ by itself"}[parts]
    axes = (axis("dataset", AxisKind.SAMPLE, sets), axis("fold", AxisKind.FOLDS, count))
    return Line(name, axes, correlated=correlated, power=(np.nan, power, np.nan), bounded=bounded, parts=parts)


def axis(name: str, kind: AxisKind, count: int) -> Axis:
    return Axis(name, kind, tuple(range(count)))


LINES = (
    crossed(5, 5, 0, 0, 0.30, 0.61, 0.83),
    crossed(5, 5, 0.2, 0.2, 0.20, 0.38, 0.58),
    crossed(5, 5, 0, 0.5, 0.18, 0.33, 0.49),
    crossed(5, 10, 0.2, 0.2, 0.34, 0.57, 0.80),
    crossed(17, 5, 0, 0, 0.91, 1.00, 1.00),
    crossed(17, 5, 0.2, 0.2, 0.40, 0.67, 0.86),
    crossed(17, 5, 0.3, 0.3, 0.33, 0.53, 0.75),
    crossed(17, 10, 0.2, 0.2, 0.71, 0.94, 1.00),
    crossed(5, 5, 0.2, 0.2, holes=0.2),
    crossed(17, 5, 0.2, 0.2, holes=0.2),
    sample(5, 0.22),
    sample(10, 0.50),
    sample(20, 0.85),
    folds(1, 5, 0.2, 0.15),
    folds(1, 10, 0.1, 0.29),
    folds(2, 5, 0.2, 0.28),
    folds(2, 10, 0.1, 0.57),
    folds(1, 5, 0.3, bounded=False),
    folds(1, 10, 0.3, bounded=False),
    folds(1, 5, 0.2, bounded=False, parts="both"),
    folds(1, 10, 0.1, bounded=False, parts="both"),
    folds(1, 5, 0.2, bounded=False, parts="own"),
    folds(1, 10, 0.1, bounded=False, parts="own"),
)
LEFT_TAILED = (LINES[0], LINES[1], LINES[4], LINES[5], *LINES[10:13])


def measure(sweeps: int = SWEEPS) -> dict[str, Any]:
    """Simulate every line, as many at a time as there are CPUs; ``broken`` names the bounds that are."""
    both = [(line, tail) for line in LINES for tail in ("normal", "t3") if tail == "t3" or not line.parts]
    grids = ((5, 5), (5, 10), (17, 5), (17, 10))
    with ProcessPoolExecutor() as pool:
        lines = [pool.submit(simulated, line, tail, sweeps) for line, tail in reversed(both)][::-1]
        left = [pool.submit(simulated, line, "left", sweeps, (2,)) for line in LEFT_TAILED]
        stopped = [pool.submit(stopping, *grid, sweeps) for grid in grids]
        promised = [pool.submit(promise, line, sweeps) for line in LINES[1:8]]
    return {
        "sweeps": sweeps,
        "lines": [each.result() for each in lines],
        "left_tail": [each.result() for each in left],
        "futility": [each.result() for each in stopped],
        "promised": [each.result() for each in promised],
        "broken": [text for each in lines for text in each.result()["broken"]],
    }


def simulated(line: Line, tail: str, sweeps: int, variants: tuple[int, ...] = VARIANTS) -> dict[str, Any]:
    method = choose(line.axes)
    false_locks, covered, power = {}, {}, [0.0] * len(GAINS)
    for count in variants:
        locks, inside = 0, 0.0
        for gains in draws(line, tail, sweeps, count):
            estimate = method.estimate(gains)
            everything = np.ones(estimate.mean.shape, dtype=np.bool_)
            tested = rule.tests(estimate, everything)
            locks += int((rule.verdicts(tested, everything, everything) == 0).any(axis=-1).sum())
            inside += float(((tested.low <= 0) & (tested.high >= 0)).mean(axis=-1).sum())
            if count == 2:
                for at, gain in enumerate(GAINS):
                    lifted = estimate._replace(mean=estimate.mean + np.array([gain, 0.0]))
                    found = rule.verdicts(rule.tests(lifted, everything), everything, everything)[..., 0] == 0
                    power[at] += int(found.sum()) / sweeps
        false_locks[count], covered[count] = locks / sweeps, inside / sweeps
    result = {
        "line": line.name,
        "method": str(method),
        "tail": tail,
        "false_lock": false_locks,
        "covered": covered,
        "power": dict(zip(GAINS, power, strict=True)),
        "bounded": line.bounded and tail != "left",
    }
    return result | {"broken": broken(line, tail, sweeps, result) if result["bounded"] else []}


def broken(line: Line, tail: str, sweeps: int, result: dict[str, Any]) -> list[str]:
    """Return the bounds that lie outside the 95 % interval of a simulated rate."""
    texts = []
    for count, rate in result["false_lock"].items():
        if rate - error(rate, sweeps) > MOST_FALSE:
            texts.append(f"{line.name}, {tail}, {count} variants: false LOCK {rate:.1%}")
    for count, rate in result["covered"].items():
        if rate + error(rate, sweeps * count) < LEAST_COVERED:
            texts.append(f"{line.name}, {tail}, {count} variants: the interval covers {rate:.1%}")
    for (gain, rate), least in zip(result["power"].items(), line.power, strict=False):
        if rate + error(rate, sweeps) < least - POWER_SLACK:
            texts.append(f"{line.name}, {tail}: power {rate:.0%} at {gain}, not {least:.0%}")
    return texts


def error(rate: float, count: int) -> float:
    return SURE * sqrt(max(rate * (1 - rate), 1e-9) / count)


def draws(line: Line, tail: str, sweeps: int, variants: int) -> Iterator[Floats]:
    """Yield gains without an effect, many sweeps at a time: sweep, variant, then the axes."""
    chance = np.random.default_rng(SEED)
    lengths = tuple(len(each) for each in line.axes)
    size = max(CHUNK // (variants * prod(lengths)), 1)
    for start in range(0, sweeps, size):
        count = min(size, sweeps - start)
        own = 1 - sum(line.shared) - line.correlated
        jointly = tail == "t3" and line.correlated > 0 and not line.parts
        gains = sqrt(own) * drawn(chance, "normal" if jointly else tail, (count, variants, *lengths))
        for at, share in enumerate(line.shared):
            if share:
                shape = tuple(length if other == at else 1 for other, length in enumerate(lengths))
                gains += sqrt(share) * drawn(chance, tail, (count, variants, *shape))
        if line.correlated:
            common = tail if line.parts == "both" else "normal"
            gains += sqrt(line.correlated) * drawn(chance, common, (count, variants, *lengths[:-1], 1))
        if jointly:
            gains /= np.sqrt(chance.chisquare(3, (count, variants, *lengths[:-1], 1)))
        if line.holes:
            missing = chance.random((count, 1, *lengths)) < line.holes  # the same blocks for all variants of a sweep
            gains = np.where(missing, np.nan, gains)
        yield gains


def drawn(chance: np.random.Generator, tail: str, shape: tuple[int, ...]) -> Floats:
    """Return numbers with mean 0 and variance 1: normal, Student's t with 3 degrees of freedom, rare large losses."""
    match tail:
        case "t3":
            return chance.standard_t(3, shape) / sqrt(3)
        case "left":
            square = 0.8**2  # minus a log-normal distribution with σ = 0.8
            spread = sqrt((exp(square) - 1) * exp(square))
            return (exp(square / 2) - chance.lognormal(0.0, 0.8, shape)) / spread
    return chance.standard_normal(shape)


def stopping(assets: int, periods: int, sweeps: int) -> dict[str, Any]:
    """Run sweeps of two variants period by period, and stop variants that are futile."""
    line = crossed(assets, periods, 0, 0)
    method = choose(line.axes)
    periods_run, lost = {}, {}
    for effect in (-0.3, 0.0, 0.3, *GAINS):
        ran, locks_lost = 0.0, 0
        for gains in draws(line, "normal", sweeps, 2):
            shifted = gains + effect
            estimate = method.estimate(shifted)
            everything = np.ones(estimate.mean.shape, dtype=np.bool_)
            locked = rule.verdicts(rule.tests(estimate, everything), everything, everything) == 0
            stopped = np.zeros(locked.shape, dtype=np.bool_)
            for done in range(1, periods):
                ran += float((~stopped).sum())
                stopped |= futility.futile(method, shifted, done)
            ran += float((~stopped).sum())
            locks_lost += int((locked & stopped).sum())
        periods_run[effect], lost[effect] = ran / (2 * sweeps * periods), locks_lost / (2 * sweeps)
    return {"line": line.name, "periods_run": periods_run, "power_lost": lost}


def promise(line: Line, sweeps: int) -> dict[str, Any]:
    """Plant the gain that a plan calls detectable in 80 % of cases, and count how often it is locked."""
    method = choose(line.axes)
    gain = detectable(method, Spread(1.0, by_sample=line.shared[0], by_period=line.shared[1]), variants=2)
    found = 0
    for gains in draws(line, "normal", sweeps, 2):
        estimate = method.estimate(gains + np.array([gain, 0.0])[:, None, None])
        everything = np.ones(estimate.mean.shape, dtype=np.bool_)
        found += int((rule.verdicts(rule.tests(estimate, everything), everything, everything)[..., 0] == 0).sum())
    return {"line": line.name, "detectable": gain, "found": found / sweeps}


def table(figures: dict[str, Any]) -> str:
    """Return the figures as a table in Markdown, as the documentation shows them."""
    rows = ["| blocks | tails | false LOCK, 1 / 2 / 12 / 100 variants | interval covers | power at 0.5 / 0.7 / 0.9 |"]
    rows.append("|---|---|---|---|---|")
    for line in (*figures["lines"], *figures["left_tail"]):
        false = " / ".join(f"{100 * rate:.1f}" for rate in line["false_lock"].values())
        covered = f"{100 * min(line['covered'].values()):.1f} %"
        power = " / ".join(f"{100 * rate:.0f}" for rate in line["power"].values())
        tail = {"t3": "t₃", "left": "left"}.get(line["tail"], line["tail"])
        name = line["line"] if line["bounded"] else f"*{line['line']}*"
        rows.append(f"| {name} | {tail} | {false} % | {covered} | {power} % |")
    rows += [
        "",
        "| blocks | share of the periods run at −0.3 / 0 / +0.3 | most power lost, in points |",
        "|---|---|---|",
    ]
    for line in figures["futility"]:
        ran = " / ".join(f"{100 * line['periods_run'][effect]:.0f}" for effect in (-0.3, 0.0, 0.3))
        rows.append(f"| {line['line']} | {ran} % | {100 * max(line['power_lost'].values()):.2f} |")
    rows += ["", "| blocks | gain that a plan calls detectable | found in |", "|---|---|---|"]
    for line in figures["promised"]:
        rows.append(f"| {line['line']} | {line['detectable']:.2f} | {100 * line['found']:.1f} % |")
    return "\n".join(rows)


if __name__ == "__main__":
    figures = measure()
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(table(figures))
    for text in figures["broken"]:
        print(f"broken: {text}", file=sys.stderr)
    sys.exit(1 if figures["broken"] else 0)
