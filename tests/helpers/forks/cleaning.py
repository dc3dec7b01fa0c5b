"""Label cleaning as it must be done on workers: in this process, without a pool."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def label_issues(labels: Any, probabilities: Any) -> Any:
    """The indices of labels that are probably wrong, the worst first."""
    library = import_module("cleanlab.filter")  # takes seconds, so only where it is needed
    return library.find_label_issues(labels, probabilities, return_indices_ranked_by="self_confidence", n_jobs=1)


def sample(size: int) -> tuple[Any, Any]:
    """Labels of three classes, a tenth of them wrong, and probabilities that know better."""
    import numpy

    random = numpy.random.default_rng(0)
    truth = random.integers(0, 3, size)
    probabilities = random.dirichlet((1, 1, 1), size) * 0.3 + 0.7 * numpy.eye(3)[truth]
    wrong = random.random(size) < 0.1
    return numpy.where(wrong, (truth + 1) % 3, truth), probabilities
