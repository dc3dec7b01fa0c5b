"""Files and folders count by what they contain."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from scalable.store.caching import CachingError, ContentError, DirType, FileType, ValueType, cacheable


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALABLE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def written(path: str, text: str) -> Path:
    made = Path(path)
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_text(text)
    return made


@cacheable
def length(path: FileType) -> int:
    return len(Path(path).read_text())


@cacheable
def names(folder: DirType) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*"))


def test_a_file_counts_by_its_bytes_and_not_by_its_name() -> None:
    one, other = written("one", "abc"), written("other", "abc")

    assert length.cache_key(one) == length.cache_key(str(one)) == length.cache_key(other)
    assert length(one) == 3
    stat = one.stat()
    one.write_text("abd")
    os.utime(one, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert length.cache_key(one) != length.cache_key(other)


def test_marks_may_be_options_or_annotations_and_options_win() -> None:
    def plain(config: Any, data: Any = None) -> None: ...
    def annotated(config: FileType, data: DirType | None = None) -> None: ...
    def several(config: list[FileType], data: dict[str, FileType] | None = None) -> None: ...

    one, other = written("one", "abc"), written("other", "abc")
    assert cacheable(plain).cache_key(one) != cacheable(plain).cache_key(other)
    marked = cacheable(config=FileType, data=DirType)(plain)
    assert marked.cache_key(one) == marked.cache_key(other)
    assert cacheable(annotated).cache_key(one) == cacheable(annotated).cache_key(other)
    overruled = cacheable(config=ValueType)(annotated)
    assert overruled.cache_key(one) != overruled.cache_key(other)
    assert cacheable(several).cache_key([one], {"a": one}) == cacheable(several).cache_key([other], {"a": other})
    assert cacheable(several).cache_key([one], {"a": one}) != cacheable(several).cache_key([other], {"b": other})
    assert cacheable(several).cache_key([one]) != cacheable(several).cache_key([one, other])


def test_a_folder_counts_by_names_and_contents() -> None:
    written("data/a/b.txt", "abc")
    written("data/c.txt", "d")
    first = names.cache_key("data")

    def changed_by(change: Any) -> bool:
        nonlocal first
        change()
        before, first = first, names.cache_key("data")
        return before != first

    Path("data").rename("moved")
    Path("moved").rename("data")
    assert names.cache_key("data") == first
    assert changed_by(lambda: written("data/a/b.txt", "abd"))
    assert changed_by(lambda: Path("data/a/b.txt").rename("data/b.txt"))
    assert changed_by(lambda: Path("data/empty").mkdir())
    assert changed_by(lambda: written("data/ünï code\n", ""))
    assert changed_by(lambda: Path("data").joinpath(os.fsdecode(b"not \xff text")).touch())
    assert changed_by(lambda: Path("data/gone").symlink_to("nowhere"))
    Path("data/gone").unlink()
    assert changed_by(lambda: Path("data/gone").symlink_to("elsewhere"))
    assert changed_by(lambda: Path("data/a/round").symlink_to("..", target_is_directory=True))


def test_names_and_contents_cannot_be_mistaken_for_each_other() -> None:
    written("one/a", "b")
    written("one/c", "")
    written("other/a", "")
    written("other/c", "b")

    assert names.cache_key("one") != names.cache_key("other")


def test_links_count_as_what_they_lead_to() -> None:
    written("real/a", "x")
    written("copy/a", "x")
    Path("linked").mkdir()
    Path("linked/a").symlink_to("../real/a")

    assert names.cache_key("linked") == names.cache_key("copy")
    Path("whole").symlink_to("real", target_is_directory=True)
    assert names.cache_key("whole") == names.cache_key("copy")


def test_paths_that_cannot_be_read_are_refused_by_the_name_of_their_argument() -> None:
    written("data/a", "x")
    os.mkfifo("pipe")

    with pytest.raises(ContentError, match=r"argument 'path' of length: the file missing cannot be read: No such file"):
        length("missing")
    with pytest.raises(OSError, match=r"argument 'path' of length: data is a folder; mark the argument as DirType"):
        length("data")
    with pytest.raises(
        ContentError, match=r"argument 'folder' of names: data/a is a file; mark the argument as FileType"
    ):
        names("data/a")
    with pytest.raises(ContentError, match="pipe is neither a file nor a folder"):
        length("pipe")
    with pytest.raises(ContentError, match="cannot be read"):
        length("a\0b")
    with pytest.raises(CachingError, match=r"argument 'path' of length: a int is not a path to a file"):
        length(3)  # type: ignore[arg-type]


def test_a_returned_file_must_still_be_what_it_was() -> None:
    calls = []

    @cacheable
    def make(name: str) -> FileType:
        calls.append(name)
        return written(name, f"made {name}")

    def made_again(change: Any) -> bool:
        change()
        before = len(calls)
        assert Path(make("result")).read_text() == "made result"
        return len(calls) > before

    assert made_again(lambda: None)
    assert not made_again(lambda: None)
    assert made_again(lambda: Path("result").unlink())
    assert not made_again(lambda: None)
    assert made_again(lambda: written("result", "changed"))
    assert made_again(lambda: Path("result").rename("kept"))


def test_returned_folders_and_lists_of_files_are_checked_as_well() -> None:
    calls = []

    @cacheable(return_type=DirType)
    def folder() -> str:
        calls.append("folder")
        written("out/a", "1")
        return "out"

    @cacheable
    def files() -> list[FileType]:
        calls.append("files")
        return [written("b", "1"), written("c", "2")]

    assert folder() == folder() == "out"
    assert files() == files() == [Path("b"), Path("c")]
    assert calls == ["folder", "files"]
    written("out/b", "2")
    written("c", "3")
    folder(), files()
    assert calls == ["folder", "files", "folder", "files"]


def test_an_annotation_that_names_a_mark_but_cannot_be_read_is_refused() -> None:
    def hidden(path: Unimported | FileType) -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def unmarked(path: Unimported) -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def twice(path: dict[FileType, DirType]) -> None: ...

    with pytest.raises(CachingError, match=r"annotation .* of 'path' cannot be read .*@cacheable\(path=FileType\)"):
        cacheable(hidden).cache_key("x")
    with pytest.raises(CachingError, match="'path' has two marks"):
        cacheable(twice).cache_key({"x": "x"})
    assert cacheable(unmarked).cache_key("x")
