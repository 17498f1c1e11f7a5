"""One self-contained page: no network, light and dark, for the screen and for paper."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from preflight.report.parts.clean import clean
from preflight.report.parts.life_rows import when
from preflight.report.parts.options import Options
from preflight.report.parts.page_view import filters, view
from preflight.report.parts.page_words import breakable, coded, headed
from preflight.report.parts.sections import summary_rows
from preflight.report.parts.sentences import subject
from preflight.vocabulary.report import Report

if TYPE_CHECKING:
    from jinja2 import Template

ENDINGS = (".html", ".htm")


def render(report: Report, options: Options) -> str:
    """Return the page. The template escapes whatever comes from the user's files; no script but its own may run."""
    import base64
    import hashlib

    from markupsafe import Markup

    script = _read("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    several = len(report.scripts) > 1
    context: dict[str, Any] = {
        "top": view(report, options),
        "scripts": [view(item, options) for item in report.scripts] if several else [],
        "summary": summary_rows(report)[1:] if several else [],
        "anchors": {subject(item): f"script-{number}" for number, item in enumerate(report.scripts, 1)},
        "stages": _stages(report, options),
        "filters": filters(report),
        "tool": clean(f"{report.tool.name} {report.tool.version}, {report.command}, {report.schema}"),
        "script": Markup(script),
        "style": Markup(style()),
        "script_hash": f"sha256-{digest}",
    }
    return _template().render(context).strip() + "\n"


def _stages(report: Report, options: Options) -> list[dict[str, Any]]:
    """The newest reports of a run's life, each in full."""
    if report.life is None:
        return []
    return [
        {"words": " ".join(map(clean, stage.words)), "when": when(stage), "view": view(stage.report, options)}
        for stage in report.life.stages
        if stage.latest
    ]


def style() -> str:
    """Return the style of all pages."""
    return _read("report.css")


def _template() -> Template:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=False, loader=FunctionLoader(_read)
    )
    environment.filters.update(headed=headed, breakable=breakable, coded=coded)
    return environment.get_template("report.html.j2")


def _read(name: str) -> str:
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "page", name), encoding="utf-8") as file:
        return file.read()
