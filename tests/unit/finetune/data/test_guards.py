"""Settings that cannot work are refused before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalable.errors import QuantityError
from scalable_finetune.catalogue import FACTORS
from scalable_finetune.guards import check
from tests.helpers.finetune.data.builders import SETTINGS


@pytest.mark.parametrize("name", ["timeframe", "fold_size"])
def test_every_variant_of_the_catalogue_passes(name: str) -> None:
    for variant in FACTORS[name].variants:
        check({**SETTINGS, name: variant})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"fold_size": "200d"},
            r"fold_size: .200d. × 5 folds .* 1200 d, but years: 3 has 1096 d .*: 182d, folds: 4, or years: 3.3",
        ),
        ({"folds": 12}, r"fold_size: '90d' × 12 folds .*folds: 11"),
        ({"timeframe": "7m"}, r"timeframe: '7m' is not a multiple of 5 minutes .*; write e.g. 15m"),
        ({"timeframe": "25m"}, r"timeframe: '25m' is not a multiple of 5 minutes of which a whole number makes a day"),
        ({"timeframe": "hourly"}, r"timeframe: 'hourly' is not a duration; write"),
        ({"horizon": "30m"}, r"horizon: '30m' is shorter than a bar of 1h; write 1h or more"),
        ({"embargo": "9d"}, r"embargo: '9d' and a horizon of 12h take more than half"),
        ({"market": "nowhere"}, r"market: 'nowhere' is neither synthetic nor a folder"),
        ({"years": "many"}, r"years: 'many' is not a number above 0"),
        ({"take_profit": 0}, r"take_profit: 0 is not a number above 0"),
        ({"stop_loss": -1.0}, r"stop_loss: -1.0 is not a number above 0"),
    ],
)
def test_what_cannot_work_is_refused_with_its_place_and_what_to_write(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(QuantityError, match=message) as caught:
        check({**SETTINGS, **wrong})
    assert caught.value.at == (message.partition(":")[0],)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(QuantityError) as caught:
        check({**SETTINGS, "years": "many", "timeframe": "7m", "take_profit": -1})
    assert [error.at for error in (caught.value, *caught.value.others)] == [
        ("years",),
        ("timeframe",),
        ("take_profit",),
    ]


def test_how_much_a_folder_holds_is_not_known_before_it_is_read(tmp_path: Path) -> None:
    check({**SETTINGS, "market": str(tmp_path), "fold_size": "200d", "timeframe": "1m"})
