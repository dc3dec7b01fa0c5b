"""The pages' snippets that need Slurm, run as written on a real one; only the network's name is this machine's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.docs.snippets import name_of, needing, play
from tests.tools.slurm import PrivateSlurm, Settings


@pytest.mark.parametrize("page", needing("slurm"), ids=name_of)
@pytest.mark.parametrize("fresh_slurm", [Settings(nodes=5, cpus=4, partition="batch")], indirect=True)
def test_every_snippet_for_slurm_does_what_the_page_says(
    page: Path, fresh_slurm: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    play(page, tmp_path, "slurm", {"ib0": "lo"})
    assert all(job.state == "COMPLETING" for job in fresh_slurm.living())
