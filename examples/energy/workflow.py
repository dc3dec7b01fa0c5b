"""Three scenarios with eight random weathers each: simulate every pair, then average each scenario."""

from __future__ import annotations

from models import mean, simulate

from scalable import ScalableSession

SCENARIOS = {"baseline": 0.02, "green": 0.01, "growth": 0.03}
WEATHERS = range(8)

with ScalableSession.from_yaml() as client:
    averages = []
    for scenario, growth in SCENARIOS.items():
        runs = [client.submit(simulate, scenario, growth, seed, tag="simulate") for seed in WEATHERS]
        averages.append(client.submit(mean, runs, tag="summarise"))
    print(f"{'scenario':<10} {'capacity GW':>12} {'cost bn':>9} {'emissions Mt':>13}")
    for row in client.gather(averages):
        print(f"{row['scenario']:<10} {row['capacity']:>12} {row['cost']:>9} {row['emissions']:>13}")
