"""Every snippet of the documentation is executed, and prints what the page says it prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.generate import pages

from tests.helpers.docs.snippets import PAGES, name_of, play
from tests.helpers.docs.warm import warm_command
from tests.helpers.paths import ROOT

README = ROOT / "README.md"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with warm_command(tmp_path_factory.mktemp("warm")) as folder:
        yield folder


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.journey if page == README else ()) for page in PAGES],
    ids=name_of,
)
def test_every_snippet_does_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    play(page, tmp_path, programs=programs)


def test_generated_pages_and_pictures_are_up_to_date() -> None:
    stale = [path for path, text in pages().items() if (ROOT / path).read_text(encoding="utf-8") != text]
    assert not stale, "run make docs"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for match in LINK.finditer(text):
        link = match[1] or match[2]
        if link.startswith(("http:", "https:")):
            continue
        path, _, heading = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{name_of(page)}: {link}"
        assert not heading or heading in headings(there), f"{name_of(page)}: {link}"


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs/README.md"
    linked = {
        (index.parent / match[1].partition("#")[0]).resolve() for match in LINK.finditer(index.read_text("utf-8"))
    }
    unseen = [name_of(page) for page in (ROOT / "docs").rglob("*.md") if page != index and page.resolve() not in linked]
    assert unseen == []


def headings(page: Path) -> set[str]:
    """As a link names them: in small letters, blanks as dashes, without punctuation."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}
