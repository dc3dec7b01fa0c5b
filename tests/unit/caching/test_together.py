"""Threads, processes and Dask workers that ask for the same result at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalable.store.caching import cacheable
from scalable.store.leases.files import file_lease


def test_nobody_removes_the_claim_of_another(tmp_path: Path) -> None:
    part = tmp_path / "key.part"
    with file_lease(part, wait=True) as first:
        assert first is not None
        with file_lease(part, wait=True) as again, file_lease(part, wait=False) as third:
            assert (again, third) == (None, None)
        assert part.exists()
        part.rename(tmp_path / "published")
        part.touch()
    assert part.exists()


def test_where_files_cannot_be_locked_everyone_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*arguments: object) -> None:
        raise OSError(95, "Operation not supported")

    @cacheable(cache_dir=tmp_path)
    def f(x: int) -> int:
        return x * x

    monkeypatch.setattr("fcntl.lockf", unsupported)
    assert (f(3), f(3)) == (9, 9)
    assert f.cache_info()[:2] == (1, 1)
