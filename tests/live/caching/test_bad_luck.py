"""Torn files, full disks, results that cannot be kept: the function's result is returned all the same."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path


def test_a_full_disk_costs_one_warning_and_no_result(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import resource
        from scalable.store.caching import cacheable

        @cacheable(cache_dir="cache")
        def f(size):
            return "x" * size

        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        print([len(f(size)) for size in (100, 100_000, 100, 100_000, 200_000, 5_000_000)], f.cache_info().hits)
        """)
    )
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == "[100, 100000, 100, 100000, 200000, 5000000] 1\n"
    assert done.stderr.count("CacheWarning") == 1
    assert "File too large" in done.stderr
    assert [file.suffix for file in (tmp_path / "cache").rglob("*") if file.is_file()] == [".pickle"]
