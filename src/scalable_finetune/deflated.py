"""How much of a Sharpe ratio is left after the number of trials that found it.

The best of many strategies without any skill has a high Sharpe ratio by chance alone. The deflated Sharpe ratio (Bailey
and López de Prado 2014) is the probability that the true one is above what chance would give.
"""

from __future__ import annotations

from math import e, sqrt

EULER = 0.5772156649015329  # the Euler-Mascheroni constant, of the expected largest of many normal draws


def expected_largest(trials: int, variance: float) -> float:
    """Return the Sharpe ratio that the best of so many trials without skill is expected to have.

    ``variance`` is that of the trials' Sharpe ratios, in the same unit (per day for daily returns).
    """
    from scipy.special import ndtri

    if trials < 2:
        return 0.0
    largest = (1 - EULER) * ndtri(1 - 1 / trials) + EULER * ndtri(1 - 1 / (trials * e))
    return float(sqrt(variance) * largest)


def deflated_sharpe(
    sharpe: float, observations: int, skewness: float, kurtosis: float, trials: int, variance: float
) -> float:
    """Return the probability that a Sharpe ratio is real, given how many trials were made.

    All are per observation, not annualised; ``kurtosis`` is 3 for normal returns.

    >>> round(deflated_sharpe(2.5 / 250**0.5, 1250, -3, 10, trials=100, variance=0.5 / 250), 4)
    0.9004
    """
    from scipy.special import ndtr

    chance = expected_largest(trials, variance)
    error = sqrt(1 - skewness * sharpe + (kurtosis - 1) / 4 * sharpe**2)
    return float(ndtr((sharpe - chance) * sqrt(observations - 1) / error))
