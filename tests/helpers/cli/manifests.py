"""The command line: what each command prints for people and machines, where it reads from, and how it ends."""

from __future__ import annotations

LOCAL = """version: 1
project: {name: small}
targets: {local: {provider: local, max_workers: 2, processes: true}}
profiles: {standard: {request: {cpu: 1, memory: 1GiB}, limit: {cpu: 1, memory: 2GiB}}}
sweeps:
  calibration:
    factor: calibration
    assets: [X, Y]
    folds: ${FOLDS:-2}
    run_minutes: {p50: 1, p95: 3}
overlays: {deeper: {sweeps: {calibration: {folds: 4}}}}
"""
