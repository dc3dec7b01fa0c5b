"""The pages' snippets that need Kubernetes, run as written on a real one; only the namespace is this test's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.docs.snippets import name_of, needing, play
from tests.helpers.kubernetes.helpers import Namespace, Project


@pytest.mark.parametrize("page", needing("kubernetes"), ids=name_of)
def test_every_snippet_for_kubernetes_does_what_the_page_says(page: Path, kube: Namespace, project: Project) -> None:
    play(page, project.folder, "kubernetes", {"namespace: research": f"namespace: {kube.name}"})
    assert kube.left() == []
