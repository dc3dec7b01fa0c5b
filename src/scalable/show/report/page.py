"""The page: one file that holds its own style, refers to nothing outside, and runs no script."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from importlib.resources import files

from scalable.observe.words import moment
from scalable.show.report import overview, result_sections, run_sections
from scalable.show.report.elements import Markup, tag
from scalable.show.report.material import Material
from scalable.show.report.overview import provenance
from scalable.show.report.run_sections import cost

Section = Callable[[Material], Markup | None]
SECTIONS: tuple[tuple[str, str, Section], ...] = (
    ("summary", "Summary", overview.summary),
    ("verdict", "Verdict", result_sections.verdicts),
    ("effects", "Effects", result_sections.effect_sizes),
    ("equity", "Equity", result_sections.equity_curves),
    ("heat-map", "Heat map", result_sections.heat),
    ("metrics", "Metrics", result_sections.metrics),
    ("timeline", "Timeline", run_sections.going),
    ("plan", "Plan against actual", run_sections.plan),
    ("memory", "Memory", run_sections.memory_used),
    ("scaling", "Scaling", run_sections.scaling),
    ("work", "Work", run_sections.tasks),
    ("cost", "Cost", cost),
    ("retries", "Losses and retries", run_sections.retries),
    ("incidents", "Incidents", run_sections.incidents),
    ("findings", "Findings and alerts", run_sections.alerts),
    ("provenance", "Provenance", provenance),
)


def page(material: Material) -> str:
    style = Markup(files("scalable.show.report").joinpath("theme.css").read_text(encoding="utf-8"))
    made = [(id_, title, content) for id_, title, section in SECTIONS if (content := section(material))]
    links = tag(
        "nav", tag("ul", (tag("li", tag("a", title, href=f"#{id_}")) for id_, title, _ in made)), aria_label="Sections"
    )
    main = [tag("section", tag("h2", title), content, id=id_) for id_, title, content in made]
    name = material.report["run"].get("project") or material.report["run"]["run_id"]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy(style)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content="scalable"),
        tag("title", f"{name}: {material.report['run']['run_id']}"),
        tag("style", style),
    ]
    foot = tag("footer", f"Made by scalable on {moment(material.made)}.")
    body = tag("body", overview.header(material), links, tag("main", main), foot)
    return f"<!doctype html>\n{tag('html', tag('head', head), body, lang='en')}\n"


def policy(style: str) -> str:
    """Nothing may be loaded, run or sent anywhere; only this page's own style counts."""
    print_ = b64encode(sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{print_}'; base-uri 'none'; form-action 'none'"
