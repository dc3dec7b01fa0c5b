"""A toy model of a power system: demand grows, old plants retire, the cheapest plant that is missing is built."""

from __future__ import annotations

import math
import random
from typing import Any

YEARS = range(2025, 2061)
HOURS = 8760 // 12  # a month of hours stands for the year
COST = {"gas": 0.9, "wind": 1.1, "solar": 0.8}  # billions per gigawatt
EMISSIONS = {"gas": 0.35, "wind": 0.0, "solar": 0.0}  # million tonnes per terawatt-hour


def simulate(scenario: str, growth: float, seed: int = 0) -> dict[str, Any]:
    """Capacity, cost and emissions of one scenario; the same arguments always give the same result."""
    chance = random.Random(f"{scenario}/{seed}")
    capacity = {"gas": 40.0, "wind": 15.0, "solar": 10.0}
    peak, cost, emissions = 50.0, 0.0, 0.0
    for _ in YEARS:
        peak *= 1 + growth
        unmet = 0.0
        for hour in range(HOURS):
            day = math.sin(math.pi * (hour % 24 - 6) / 12)
            demand = peak * (0.75 + 0.2 * day)
            sun, wind = max(0.0, day) * chance.random(), chance.betavariate(2, 3)
            renewable = capacity["solar"] * sun + capacity["wind"] * wind
            gas = min(max(0.0, demand - renewable), capacity["gas"])
            emissions += gas * EMISSIONS["gas"] * 12 / 1000
            unmet = max(unmet, demand - renewable - gas)
        kind = "gas" if unmet > 0 and scenario != "green" else chance.choice(["wind", "solar"])
        built = max(0.5, unmet)
        capacity[kind] += built
        capacity["gas"] *= 0.99
        cost += built * COST[kind]
    return {
        "scenario": scenario,
        "capacity": round(sum(capacity.values()), 1),
        "cost": round(cost, 1),
        "emissions": round(emissions, 1),
    }


def difference(baseline: dict[str, Any], green: dict[str, Any]) -> dict[str, float]:
    """What the green scenario costs more, and what it saves."""
    return {name: round(green[name] - baseline[name], 1) for name in ("cost", "emissions")}


def mean(results: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("capacity", "cost", "emissions")
    return {"scenario": results[0]["scenario"]} | {
        name: round(sum(one[name] for one in results) / len(results), 1) for name in names
    }
