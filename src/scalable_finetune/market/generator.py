"""A market that never was: 5-minute bars of any asset from a seed, with what makes real ones hard, and a little order.

Volatility changes between calm, usual and stormy days (a Markov chain), over the hours and at weekends; shocks are
Student-t; volume follows the hours and the size of moves; every asset moves with Bitcoin, which comes from the same
seed. What a model can find: in calm and usual days a drift that lasts for hours (momentum), in stormy ones excursions
that are undone within hours (reversion). Both are small against the noise, and an asset's weather is hidden behind that
of Bitcoin: a boosted model of the default features reaches an area under the curve of about 0.58 on unseen quarters.

Each ingredient of each asset has a random stream of its own (PCG64, seeded by market seed, asset and ingredient), so
the same seed gives the same market in every process, more years only add bars at the end, and a change to one
ingredient does not stir the others. Prices are rounded to ticks, which also hides differences of the last bit between
processors. Other versions of numpy may draw differently, so stages that generate name numpy in ``uses``.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from math import floor, log10, sqrt

import numpy as np

from scalable_finetune.kernels import Floats, decayed_sum
from scalable_finetune.market.bars import BITCOIN, DAY, Bars

BEGIN = 1_640_995_200  # 2022-01-01 00:00 UTC
STEP = 300
STEPS_PER_DAY = DAY // STEP
STEPS_PER_HOUR = 3600 // STEP
DAYS_PER_YEAR = 365.25

FREEDOM = 4.0  # degrees of freedom of shocks: tails as fat as those of 5-minute returns of coins
CALM, USUAL, STORMY = range(3)
LEVELS = (0.6, 1.0, 1.8)  # volatility against the usual
WEATHER_DAYS = 5.0  # how long one of them lasts, on average
DRIFT_HOURS, DRIFT_SIZE = 16.0, 0.1  # halves in; size in standard deviations of 5 minutes
EXCURSION_HOURS, EXCURSION_SIZE = 3.0, 6.0  # the same
BITCOIN_DAILY = 0.024  # standard deviation of a return on a usual day
ALONE_DAILY = 0.022, 0.034  # of what an asset does without Bitcoin, the least and the most
BETA = 0.8, 1.4  # of an asset's moves with Bitcoin, the least and the most
INGREDIENTS = ("weather", "shocks", "drift", "excursion", "above", "below", "interest", "trade", "character")
DIGITS = 8  # of a first price


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """One source of returns, before it is scaled by an asset's volatility."""

    returns: Floats
    """In units of the usual standard deviation of 5 minutes."""
    size: Floats
    """The standard deviation at each step in the same units."""


def generate(asset: str, market_seed: int, years: float) -> Bars:
    """5-minute bars of an asset from 2022 on."""
    steps = round(years * DAYS_PER_YEAR * STEPS_PER_DAY)
    market = moves(market_seed, BITCOIN, steps)
    if asset == BITCOIN:
        usual = BITCOIN_DAILY / sqrt(STEPS_PER_DAY)
        returns, size = usual * market.returns, usual * market.size
        first_price, turnover = 45_000.0, 4e6
    else:
        own = moves(market_seed, asset, steps)
        character = stream(market_seed, asset, "character")
        with_market = BITCOIN_DAILY * character.uniform(*BETA) / sqrt(STEPS_PER_DAY)
        alone = character.uniform(*ALONE_DAILY) / sqrt(STEPS_PER_DAY)
        returns = with_market * market.returns + alone * own.returns
        size = np.hypot(with_market * market.size, alone * own.size)
        usual = sqrt(with_market**2 + alone**2)
        first_price, turnover = 10 ** character.uniform(-0.5, 2.5), 10 ** character.uniform(4, 5)
    return traded(asset, market_seed, returns, size, usual, first_price, turnover)


def moves(market_seed: int, asset: str, steps: int) -> Moves:
    def draws(ingredient: str) -> np.random.Generator:
        return stream(market_seed, asset, ingredient)

    weather = chain(draws("weather"), len(LEVELS), WEATHER_DAYS, steps)
    level = np.asarray(LEVELS)[weather]
    size = level * hours_of_volatility(steps)
    shocks = draws("shocks").standard_t(FREEDOM, steps) * sqrt((FREEDOM - 2) / FREEDOM)
    drift = DRIFT_SIZE * lasting(draws("drift"), steps, DRIFT_HOURS) * (weather != STORMY)
    excursion = EXCURSION_SIZE * lasting(draws("excursion"), steps, EXCURSION_HOURS) * (weather == STORMY)
    return Moves(size * (shocks + drift) + np.diff(level * excursion, prepend=0.0), size)


def traded(
    asset: str, market_seed: int, returns: Floats, size: Floats, usual: float, first_price: float, turnover: float
) -> Bars:
    """Bars around the returns: highs and lows beyond open and close, and how much changed hands."""
    steps = len(returns)
    close = first_price * np.exp(np.cumsum(returns))
    begin = np.append(first_price, close[:-1])
    above = 0.5 * np.abs(stream(market_seed, asset, "above").standard_normal(steps))
    below = 0.5 * np.abs(stream(market_seed, asset, "below").standard_normal(steps))
    decimals = DIGITS - 1 - floor(log10(first_price))
    interest = 0.35 * lasting(stream(market_seed, asset, "interest"), steps, 24.0)
    trade = 0.25 * stream(market_seed, asset, "trade").standard_normal(steps)
    agitation = 0.9 * np.log1p(np.abs(returns) / size) + 0.5 * np.log(size / usual)
    worth = turnover * np.exp(interest + trade + agitation) * hours_of_volatility(steps)
    return Bars(
        asset=asset,
        timeframe=STEP,
        time=BEGIN + STEP * np.arange(steps, dtype=np.int64),
        open=np.round(begin, decimals),
        high=np.round(np.maximum(begin, close) * np.exp(size * above), decimals),
        low=np.round(np.minimum(begin, close) * np.exp(-size * below), decimals),
        close=np.round(close, decimals),
        volume=np.round(worth / close, 4),
    )


def stream(market_seed: int, asset: str, ingredient: str) -> np.random.Generator:
    digest = sha256(asset.encode()).digest()
    words = [int.from_bytes(digest[first : first + 4], "big") for first in range(0, 16, 4)]
    return np.random.Generator(np.random.PCG64([market_seed, *words, INGREDIENTS.index(ingredient)]))


def chain(draws: np.random.Generator, states: int, days: float, steps: int) -> np.ndarray:
    """The state at each step of a Markov chain that leaves a state after ``days`` on average, for any of the others."""
    lasting_for: list[int] = []
    moved: list[int] = []
    while sum(lasting_for) < steps:  # by the hundred, so that a longer market begins like a shorter one
        lasting_for.extend(draws.geometric(1 / (days * STEPS_PER_DAY), 100).tolist())
        moved.extend(draws.integers(1, states, 100).tolist())
    return np.repeat(np.cumsum(moved) % states, lasting_for)[:steps]


def lasting(draws: np.random.Generator, steps: int, hours: float) -> Floats:
    """Noise of size 1 that remembers: its correlation with itself halves every so many hours."""
    halving = hours * STEPS_PER_HOUR
    kept = 0.5 ** (1 / halving)
    return decayed_sum(draws.standard_normal(steps) * sqrt(1 - kept**2), halving)


def hours_of_volatility(steps: int) -> Floats:
    """More happens when Europe and America are awake, less at weekends; 1 on average."""
    number = np.arange(steps)
    hour = number % STEPS_PER_DAY / STEPS_PER_HOUR
    weekday = (number // STEPS_PER_DAY + 5) % 7  # the first day is a Saturday
    return np.asarray((1 + 0.3 * np.cos((hour - 15) / 24 * 2 * np.pi)) * np.where(weekday >= 5, 0.8, 1.08))
