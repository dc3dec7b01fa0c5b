"""Torn files, full disks, results that cannot be kept: the function's result is returned all the same."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalable.store.caching import CacheWarning, FileType, cacheable
from scalable.store.caching.cache import MISSING, SMALL, WARNED, ResultFile

LARGE = SMALL + 1000


@pytest.mark.parametrize("value", [None, {"a": [1, 2]}, "x" * LARGE], ids=["nothing", "small", "large"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(share=st.floats(0, 1), flipped=st.integers(1, 255))
def test_a_file_that_was_torn_or_changed_anywhere_is_no_result(
    tmp_path: Path, value: Any, share: float, flipped: int
) -> None:
    entry = ResultFile(str(tmp_path), "0" * 32)
    entry.save(value, None)
    whole = entry.path.read_bytes()
    assert entry.load() == value

    place = min(int(share * len(whole)), len(whole) - 1)
    entry.path.write_bytes(whole[:place])
    assert entry.load() is MISSING
    entry.path.write_bytes(whole[:place] + bytes([whole[place] ^ flipped]) + whole[place + 1 :])
    assert entry.load() is MISSING
    entry.path.write_bytes(whole + b"\0")
    assert entry.load() is MISSING


def test_a_result_under_the_name_of_another_is_no_result(tmp_path: Path) -> None:
    for value, key in ((1, "0" * 32), ("x" * LARGE, "1" * 32)):
        ResultFile(str(tmp_path), key).save(value, None)
        ResultFile(str(tmp_path), key).path.rename(tmp_path / f"{'2' * 32}.pickle")
        assert ResultFile(str(tmp_path), "2" * 32).load() is MISSING


def test_a_torn_result_is_computed_again_and_replaced(tmp_path: Path) -> None:
    calls: list[int] = []

    @cacheable(cache_dir=tmp_path)
    def f(x: int) -> int:
        calls.append(x)
        return x

    f(1)
    (file,) = tmp_path.rglob("*.pickle")
    file.write_bytes(file.read_bytes()[:-1])
    assert (f(1), f(1), calls) == (1, 1, [1, 1])


class Gone:
    pass


def test_a_result_whose_class_is_gone_is_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = ResultFile(str(tmp_path), "0" * 32)
    entry.save(Gone(), None)
    assert isinstance(entry.load(), Gone)
    monkeypatch.delattr(sys.modules[__name__], "Gone")

    assert entry.load() is MISSING


@pytest.mark.parametrize("obstacle", ["a file", "a file above"])
def test_a_folder_that_cannot_be_written_costs_one_warning_and_no_result(tmp_path: Path, obstacle: str) -> None:
    blocked = tmp_path / "blocked"
    blocked.touch()

    @cacheable(cache_dir=blocked if obstacle == "a file" else blocked / "below")
    def f(x: int) -> int:
        return x

    with pytest.warns(
        CacheWarning, match=r"f: the result is returned but could not be kept in .*Not a directory"
    ) as seen:
        assert [f(1), f(1), f(2), f.recompute(1)] == [1, 1, 2, 1]
    assert len(seen) == 1
    assert seen[0].filename == __file__


def test_results_in_a_folder_that_is_read_only_are_found() -> None:
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)

        @cacheable(cache_dir=name)
        def f(x: int) -> int:
            return x

        f(1)
        Path(f.cache_info().folder).chmod(0o555)
        with without_privileges():
            assert f(1) == 1
            with pytest.warns(CacheWarning, match="Permission denied"):
                assert f(2) == 2
        Path(f.cache_info().folder).chmod(0o755)
    assert f.cache_info().hits == 1


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may write everywhere; be nobody for a while."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


class Stubborn:
    def __reduce__(self) -> Any:
        raise KeyError("never")


@pytest.mark.parametrize("make", [threading.Lock, lambda: lambda: 1, Stubborn], ids=["lock", "lambda", "stubborn"])
def test_a_result_that_cannot_be_pickled_costs_one_warning_and_no_result(tmp_path: Path, make: Any) -> None:
    @cacheable(cache_dir=tmp_path)
    def f(x: int) -> Any:
        return make()

    try:
        with pytest.warns(CacheWarning, match="could not be kept") as seen:
            assert f(1) is not f(1)
        assert len(seen) == 1
    finally:
        WARNED.clear()
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_a_file_that_was_promised_and_not_made_costs_one_warning(tmp_path: Path) -> None:
    @cacheable(cache_dir=tmp_path / "cache")
    def f() -> FileType:
        return tmp_path / "never made"

    with pytest.warns(CacheWarning, match="never made cannot be read"):
        assert f() == tmp_path / "never made"


def test_a_folder_that_vanishes_while_a_result_is_computed_is_made_anew(tmp_path: Path) -> None:
    cache = tmp_path / "cache"

    @cacheable(cache_dir=cache)
    def f(x: int) -> int:
        for path in sorted(cache.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        cache.rmdir()
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(1)
    assert f(1) == 1
    assert f.cache_info()[:2] == (1, 1)


def test_names_of_functions_that_no_file_can_have_are_no_obstacle(tmp_path: Path) -> None:
    def f(x: int) -> int:
        return x

    f.__qualname__ = "../../" + "ü/\0" * 200
    cached = cacheable(cache_dir=tmp_path / "cache")(f)

    assert (cached(1), cached(1)) == (1, 1)
    assert cached.cache_info().hits == 1
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
