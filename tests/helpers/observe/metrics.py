"""What Prometheus reads is what its own tool accepts: known names, help, types, escaped labels, in a stable order."""

from __future__ import annotations

from scalable.observe.metrics import METRICS, Sample

ODD = 'it\'s "odd"\\\nand long'


def every_sample() -> list[Sample]:
    return [Sample(metric.name, 1.5, dict.fromkeys(metric.labels, ODD)) for metric in METRICS.values()]
