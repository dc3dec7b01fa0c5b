"""A toy model of temperature: a table for each scenario and year, then the trend of each scenario, then all trends."""

from __future__ import annotations

import csv
import math
import random
from pathlib import Path

WARMING = {"low": 0.015, "middle": 0.03, "high": 0.05}  # degrees a year


def simulate(scenario: str, year: int, table: str, start: int = 2025) -> None:
    """Write the temperature of each month of a year; the file is an output, so its path is the result."""
    chance = random.Random(f"{scenario}/{year}")
    with Path(table).open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["month", "temperature"])
        for month in range(1, 13):
            season = -8 * math.cos(2 * math.pi * (month - 1) / 12)
            warmer = WARMING[scenario] * (year - start)
            rows.writerow([month, round(14 + season + warmer + chance.gauss(0, 0.2), 2)])


def trend(scenario: str, simulate: dict[int, str]) -> float:
    """Return how many degrees a year a scenario warms; ``simulate`` are its tables, by year."""
    means = {year: mean_of(path) for year, path in simulate.items()}
    middle, average = sum(means) / len(means), sum(means.values()) / len(means)
    covariance = sum((year - middle) * (mean - average) for year, mean in means.items())
    return round(covariance / sum((year - middle) ** 2 for year in means), 4)


def mean_of(path: str) -> float:
    with Path(path).open(newline="") as file:
        temperatures = [float(row["temperature"]) for row in csv.DictReader(file)]
    return sum(temperatures) / len(temperatures)


def compare(trend: dict[str, float], summary: str) -> None:
    """Write the trends of all scenarios side by side."""
    lines = ["scenario,degrees a year", *(f"{scenario},{slope}" for scenario, slope in trend.items())]
    Path(summary).write_text("\n".join(lines) + "\n")
