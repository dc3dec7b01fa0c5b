"""One interface for leases in database rows, files and object stores: all keep the same promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import fsspec  # type: ignore[import-untyped]
import pytest

from scalable.store import held, open_store
from scalable.store.leases import Claim
from scalable.store.leases.files import FileClaim
from scalable.store.leases.objects import ObjectLeases

Asker = Callable[[str], Claim]


@pytest.fixture(params=["row", "file", "object"])
def ask(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Asker]:
    """Return claims of names that are kept in one of the media."""
    if request.param == "row":
        with open_store(f"sqlite:///{tmp_path}/results.db") as store:
            yield lambda name: store.leases().ask(name, "job")
    elif request.param == "file":
        yield lambda name: FileClaim(tmp_path / "claims" / name)
    else:
        root = f"/{uuid4().hex}"
        leases = ObjectLeases(fsspec.filesystem("memory"), root)
        yield lambda name: leases.ask(f"{root}/{name}")


@pytest.fixture
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    """Another thread: one never waits for what it holds itself in a file."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_what_one_holds_another_has_after_it(ask: Asker, elsewhere: ThreadPoolExecutor) -> None:
    with held(ask("a")):
        other = ask("a")
        assert not elsewhere.submit(other.take).result()
    assert elsewhere.submit(other.take).result()
    assert elsewhere.submit(other.beat).result()
    elsewhere.submit(other.release).result()


def test_who_does_not_wait_leaves_the_lease_to_its_holder(ask: Asker, elsewhere: ThreadPoolExecutor) -> None:
    holder = ask("a")
    assert elsewhere.submit(holder.take).result()
    with held(ask("a"), wait=False) as free:
        assert not free
    assert elsewhere.submit(holder.beat).result()
    elsewhere.submit(holder.release).result()


def test_leases_of_other_names_are_free(ask: Asker, elsewhere: ThreadPoolExecutor) -> None:
    holder = ask("a")
    assert elsewhere.submit(holder.take).result()
    with held(ask("b"), wait=False) as free:
        assert free
    elsewhere.submit(holder.release).result()


def test_what_was_given_back_is_held_no_longer_and_may_be_given_back_again(ask: Asker) -> None:
    claim = ask("a")
    assert claim.take()
    assert claim.beat()
    claim.release()
    claim.release()
    assert not claim.beat()
    with held(ask("a"), wait=False) as free:
        assert free


def test_an_error_under_a_lease_gives_it_back(ask: Asker) -> None:
    with pytest.raises(ZeroDivisionError), held(ask("a")):
        raise ZeroDivisionError
    with held(ask("a"), wait=False) as free:
        assert free
