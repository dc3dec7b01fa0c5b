"""The verdict on a sweep's variants, as the page shows it.

Finding out which rows are expected imports the user's code, which changes while a console stays open, and the
statistics take memory: so each is done by a process of its own, ``python -m scalable.show.console.verdicts RUN SWEEP``,
and its answer is kept until rows change.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from scalable.errors import ScalableError, UnknownNameError
from scalable.observe import RunFolder, redact_text
from scalable.wording import undefined

WITHIN_S = 120.0  # statistics of 10,000 rows take some seconds
CLOSED = {"error": "the console is closed"}
METRIC = ("name", "role", "delta", "ci", "p", "p_corrected")


class Judging:
    """One process at a time, whoever asks."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], tuple[object, dict[str, Any]]] = {}
        self.turn = asyncio.Lock()
        self.asking: asyncio.Task[dict[str, Any]] | None = None
        self.closed = False

    async def results(self, run: RunFolder, sweep: str, rows: object) -> dict[str, Any]:
        """``rows`` stands for the rows there are: what was found is right as long as it stays the same."""
        async with self.turn:
            known = self.kept.get((run.run_id, sweep))
            if known is not None and known[0] == rows:
                return known[1]
            if self.closed:
                return CLOSED
            self.asking = asyncio.create_task(asked(run, sweep))
            await asyncio.wait([self.asking])
            result = CLOSED if self.asking.cancelled() else self.asking.result()
            if "error" not in result:  # what was wrong may be mended although no row came
                self.kept[run.run_id, sweep] = rows, result
            return result

    def forget(self) -> None:
        """The rows of a store were changed from here."""
        self.kept.clear()

    async def close(self) -> None:
        """End the process that is asked; who waits for it, or for a turn, is told so."""
        self.closed = True
        if self.asking is not None:
            self.asking.cancel()
            await asyncio.wait([self.asking])


async def asked(run: RunFolder, sweep: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "scalable.show.console.verdicts", str(run.path), sweep,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        output, complained = await asyncio.wait_for(process.communicate(), WITHIN_S)
    except BaseException as error:
        with suppress(ProcessLookupError):  # it ended just now
            process.kill()
        await process.wait()
        if isinstance(error, TimeoutError):
            return {"error": f"the results of {sweep} are not there after {WITHIN_S:.0f} s"}
        raise
    try:
        result: dict[str, Any] = json.loads(output.splitlines()[-1])  # code that is imported may print, too
    except (ValueError, IndexError):
        last = complained.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return {"error": f"the results of {sweep} cannot be read: {redact_text(last) or 'nobody says why'}"}
    return result


def judged(run: RunFolder, sweep: str) -> dict[str, Any]:
    from scalable.show.report.material import check_import, manifest_of
    from scalable.sweeps.ledger import control_of, decide_without_recording
    from scalable.sweeps.loading import open_results, outcome

    manifest, beside = manifest_of(run, run.facts())
    if sweep not in manifest.sweeps:
        raise UnknownNameError(undefined("sweep", sweep, manifest.sweeps))
    check_import(manifest.sweeps[sweep].run, beside)
    with open_results(manifest, create=False) as store:
        results = outcome(manifest, sweep, store, beside)
        decision = decide_without_recording(results, store, control_of(manifest)).to_dict() if results.finished else {}
    counts = {"complete": results.complete, "expected": len(results.expected), "finished": results.finished}
    content: dict[str, Any] = {"sweep": sweep, **counts, "baseline": str(results.baseline), "variants": []}
    if decision:
        content |= {name: decision[name] for name in ("primary", "method", "recommended")}
        ranked = sorted(decision["variants"], key=lambda each: int(each["rank"]))
        content["variants"] = [variant(each) for each in ranked]
    return content


def variant(judgement: dict[str, Any]) -> dict[str, Any]:
    metrics = [{name: metric[name] for name in METRIC} for metric in judgement["metrics"]]
    return {
        "variant": str(judgement["variant"]),
        "verdict": judgement["verdict"],
        "rank": judgement["rank"],
        "reason": "; ".join((judgement["reason"], *judgement["findings"])),
        "metrics": metrics,
    }


def main(arguments: Sequence[str]) -> None:
    folder, sweep = arguments
    try:
        content = judged(RunFolder.open(folder), sweep)
    except (ScalableError, OSError) as error:
        content = {"error": f"the results of {sweep} cannot be read: {redact_text(str(error))}"}
    print(f"\n{json.dumps(content)}")


if __name__ == "__main__":
    main(sys.argv[1:])
