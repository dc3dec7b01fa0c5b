"""What Prometheus reads is what its own tool accepts: known names, help, types, escaped labels, in a stable order."""

from __future__ import annotations

import math

import pytest

from scalable.observe.metrics import METRICS, Sample, exposition
from tests.helpers.observe.metrics import ODD, every_sample


def test_a_sample_is_a_line_with_its_labels_escaped_after_help_and_type() -> None:
    text = exposition([Sample("scalable_pending_tasks", 3, {"tag": ODD})])
    lines = text.splitlines()
    assert lines[0].startswith("# HELP scalable_pending_tasks Tasks that wait")
    assert lines[1] == "# TYPE scalable_pending_tasks gauge"
    assert lines[2] == r'scalable_pending_tasks{tag="it' + r"'s \"odd\"\\\nand long" + '"} 3'
    assert text.endswith("\n")


def test_the_order_does_not_depend_on_that_of_the_samples() -> None:
    samples = [Sample("scalable_tasks", at, {"tag": f"t{at % 3}", "state": f"s{at}"}) for at in range(9)]
    samples += every_sample()
    text = exposition(samples)
    assert exposition(reversed(samples)) == text
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert names == list(METRICS)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0"),
        (2.0, "2"),
        (0.25, "0.25"),
        (1e300, "1e+300"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_written_as_prometheus_reads_them(value: float, written: str) -> None:
    assert exposition([Sample("scalable_paused", value)]).splitlines()[-1] == f"scalable_paused {written}"


def test_nothing_to_say_is_an_empty_text() -> None:
    assert exposition([]) == ""
