"""``assert_fork_safe`` passes what is safe, and says of the rest where it goes wrong."""

from __future__ import annotations

import inspect
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from scalable.errors import UsageError
from scalable.testing import assert_fork_safe
from tests.helpers.forks import examples

FILE = str(Path(examples.__file__))


def line_of(function: Callable[..., object], text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(at for at, line in enumerate(lines) if text in line)


def test_a_function_that_starts_new_programs_passes() -> None:
    assert_fork_safe(examples.safe, "abc", times=2)


def test_a_function_may_be_given_by_its_path_or_be_written_on_the_spot() -> None:
    assert_fork_safe("tests.helpers.forks.examples:safe", "abc")
    assert_fork_safe(lambda: sum(range(1000)), threads=1)


def test_a_fork_fails_at_its_file_and_line() -> None:
    with pytest.raises(AssertionError, match="forks a process that has threads") as found:
        assert_fork_safe(examples.forking)

    assert f"at {FILE}:{line_of(examples.forking, 'Pool(2)')} (forking)" in str(found.value)
    assert "n_jobs=1" in str(found.value)


def test_a_fork_whose_error_is_swallowed_fails_too() -> None:
    with pytest.raises(AssertionError) as found:
        assert_fork_safe(examples.forking_in_secret)

    assert f"{FILE}:{line_of(examples.forking_in_secret, 'os.fork')} (forking_in_secret)" in str(found.value)


def test_a_hang_fails_with_the_line_it_hangs_in() -> None:
    last = examples.hanging.__code__.co_firstlineno + 3
    line = f'File "{FILE}", line {last} in hanging'
    for timeout in (1, 4, 16):  # beside the threads it takes a loaded machine seconds to get to that line
        with pytest.raises(AssertionError, match=rf"hanging did not end within {timeout} s") as found:
            assert_fork_safe(examples.hanging, timeout=timeout)
        if line in str(found.value):
            break

    assert line in str(found.value)
    assert "pressing" not in str(found.value)


def test_a_death_is_told_with_its_signal() -> None:
    with pytest.raises(AssertionError, match="dying died of SIGSEGV"):
        assert_fork_safe(examples.dying)


def test_an_error_is_told_with_what_was_printed() -> None:
    with pytest.raises(AssertionError, match="failing failed beside other threads") as found:
        assert_fork_safe(examples.failing)

    assert "ValueError: not today" in str(found.value)
    assert "so far so good" in str(found.value)


def test_leaving_is_no_success() -> None:
    with pytest.raises(AssertionError, match="leaving failed"):
        assert_fork_safe(examples.leaving)


def test_a_function_of_a_module_that_only_this_process_has_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ghost = types.ModuleType("ghost")
    exec("def work():\n    pass", ghost.__dict__)
    monkeypatch.setitem(sys.modules, "ghost", ghost)

    with pytest.raises(UsageError, match="work cannot be loaded in a process of its own") as found:
        assert_fork_safe(ghost.work)

    assert "No module named 'ghost'" in str(found.value)


def test_what_cannot_be_sent_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="cannot be sent"):
        assert_fork_safe(examples.safe, threading.Lock())
