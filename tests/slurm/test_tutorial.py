"""The pages' snippets that need Slurm, run as written on a real one; only the network's name is this machine's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_snippets import PAGES, ROOT, blocks
from tests.tools.slurm import PrivateSlurm, Settings

MARKED = [page for page in PAGES if any(block.on == "slurm" for block in blocks(page))]


@pytest.mark.parametrize("page", MARKED, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.parametrize("fresh_slurm", [Settings(nodes=5, cpus=4, partition="batch")], indirect=True)
def test_every_snippet_for_slurm_does_what_the_page_says(
    page: Path, fresh_slurm: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    ready = False
    for block in blocks(page):
        text = block.text.replace("ib0", "lo")
        if block.title:
            (tmp_path / block.title).write_text(text, encoding="utf-8")
        elif block.language == "python" and (block.on == "slurm" or not ready):
            exec(compile(text, f"{page.name}:{block.line}", "exec"), names)
            ready = True  # the first block holds the definitions the others use
    assert all(job.state == "COMPLETING" for job in fresh_slurm.living())
