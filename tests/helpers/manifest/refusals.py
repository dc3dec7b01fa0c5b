"""Broken manifests: each finding has its place, what is wrong and what to write instead, and all come at once."""

from __future__ import annotations

import pytest

from scalable.manifest import Issue, ManifestError, load_text

HEAD = "version: 1\nproject: {name: test}\n"

NODE = "nodes: {n: {cpu: 16, memory: 64GiB, price: 0.16 EUR/h}}\npools: {p: {node: n, max: 6}}\n"


def refused(text: str, **env: str) -> ManifestError:
    with pytest.raises(ManifestError) as caught:
        load_text(text, env=env)
    return caught.value


def only(error: ManifestError) -> Issue:
    assert len(error.report.errors) == 1, str(error)
    return error.report.errors[0]
