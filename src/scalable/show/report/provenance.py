"""Where the figures come from: versions, command, seeds, settings, fingerprints of code and data, the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from scalable.observe.words import moment, named, one_line
from scalable.show.report.elements import Child, Markup, facts, join, more, paragraph, table, tag
from scalable.show.report.material import Material
from scalable.show.report.results import SweepResults
from scalable.sweeps.workload import SHIPPED
from scalable.wording import plural, some_of

SHORT = 16  # characters of a fingerprint that are shown


def provenance(found: Material) -> Markup:
    run = found.report["run"]
    pairs: list[tuple[str, Child]] = [
        ("run", run["run_id"]),
        ("scalable", named(run.get("version"))),
        ("Python", named(run.get("python"))),
        ("host", named(run.get("host"))),
        (
            "target",
            " ".join(filter(None, (named(run.get("target")), f"({run['provider']})" if run.get("provider") else ""))),
        ),
        ("command", tag("code", one_line(named(run.get("command")))) if run.get("command") else ""),
        ("folder", one_line(named(found.facts.get("cwd")))),
        ("manifest", named(run.get("manifest"))),
        ("journal", f"{plural(run['records'], 'record')}{damage(found)}"),
        ("report made", moment(found.made)),
    ]
    parts: list[Child] = [facts(pairs), [sweep(each) for each in found.results if each.compiled is not None]]
    if found.manifest:
        when = "as it is now; it was changed after the run began" if found.changed else "as it was when the run began"
        parts.append(
            tag(
                "details",
                tag("summary", f"The manifest, {when}"),
                tag("pre", found.manifest, tabindex=0),
                class_="manifest",
            )
        )
    return join(parts)


def damage(found: Material) -> str:
    run = found.report["run"]
    lines = f", {plural(run['damaged_lines'], 'line')} could not be read" if run["damaged_lines"] else ""
    return f"{lines}, ends in the middle of a line" if run["torn"] else lines


def sweep(each: SweepResults) -> Markup | None:
    made, outcome = each.compiled, each.outcome
    if made is None or outcome is None:
        return None
    rows = [row for _, row in outcome.there()]
    codes = sorted({row.code_fingerprint for row in rows if row.code_fingerprint})
    grid = made.grid
    settings = {**made.base_env, **made.sweep.settings}
    pairs: list[tuple[str, Child]] = [
        ("factor", f"{grid.factor}: {', '.join(map(str, grid.variants))}"),
        (
            "assets",
            some_of(grid.assets),
        ),
        ("folds, costs", f"{plural(grid.folds, 'fold')}; {', '.join(f'{cost:g}' for cost in grid.costs_bps)} bps"),
        ("trials, seed", f"{grid.trials} trials, seed {grid.seed}"),
        ("workload", made.workload.path or SHIPPED),
        ("locked and set", ", ".join(f"{name} = {settings[name]}" for name in sorted(settings))),
        ("configurations", plural(len({row.config_fingerprint for row in rows}), "distinct fingerprint")),
        ("libraries", ", ".join(libraries(each)) + " (where this report was made)"),
    ]
    stages = [code.split() for code in codes[:3]]
    lines = [part.partition(":")[::2] for part in (stages[0] if stages else [])]
    others = f"The rows were made with {len(codes)} versions of the code; the first is shown." if len(codes) > 1 else ""
    data = sorted((asset, print_[:SHORT]) for asset, print_ in made.data.items())
    return join(
        [
            tag("h3", f"Sweep {each.sweep}"),
            facts(pairs),
            paragraph(others, class_="note warn") if others else None,
            more(
                "Fingerprints of code and data",
                table(
                    "Code of each stage, as the rows have it",
                    ("stage", "fingerprint"),
                    [(name, tag("code", print_)) for name, print_ in lines],
                ),
                table(
                    "What each asset's rows read",
                    ("asset", "fingerprint"),
                    [(asset, tag("code", print_)) for asset, print_ in data],
                ),
            ),
        ]
    )


def libraries(each: SweepResults) -> Iterator[str]:
    used = (
        {name for stage in each.compiled.workload.stages for name in stage.uses} if each.compiled is not None else set()
    )
    for name in sorted(used | {"distributed"}):
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
