"""Verifications, associations, comparisons and lives as sections of sentences and one table each: what Markdown and the page show of them."""

from __future__ import annotations

from typing import NamedTuple

from preflight.report.parts.associations_text import headline
from preflight.report.parts.clean import one_line
from preflight.report.parts.comparison_rows import TITLES, change_rows, gone_rows, sides
from preflight.report.parts.life_rows import figure_rows, left_out, stage_rows
from preflight.vocabulary.association import Associations
from preflight.vocabulary.comparison import Comparison
from preflight.vocabulary.report import Life, Report
from preflight.vocabulary.verification import Verification


class Part(NamedTuple):
    """A section: its title, sentences, and a table (no rows: none)."""

    title: str
    sentences: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def compared_parts(report: Report) -> list[Part]:
    """Everything that was compared; nothing where the report is about something else."""
    found: list[Part] = []
    if report.verification is not None:
        found += _verification(report.verification)
    if report.associations is not None:
        found += _associations(report.associations)
    if report.comparison is not None:
        found += _comparison(report.comparison)
    if report.life is not None:
        found += _life(report.life)
    return found


def _life(told: Life) -> list[Part]:
    titles = ("when (UTC)", "verdict", "command", "what")
    said = "The newest report of each kind has a star."
    if left := left_out(told):
        said += f" Older ones that are not shown: {left}."
    found = [Part("The life of the run", (said,), titles, tuple(stage_rows(told)))]
    figures = tuple((name, "; ".join(by), change) for name, by, change in figure_rows(told))
    if figures:
        found.append(Part("Foretold and seen", (), ("figure", "by whom", "change"), figures))
    return found


def _comparison(told: Comparison) -> list[Part]:
    found = [Part("The two sides", (), ("side", "verdict", "told by", "name"), tuple(sides(told)))]
    for aspect, title in TITLES.items():
        rows = tuple((row.name, row.before, row.after, row.change, row.tone) for row in change_rows(told, aspect))
        if rows:
            found.append(Part(title, (), ("what", "before", "after", "change", ""), rows))
        elif aspect in told.shared:
            found.append(Part(title, ("The same on both sides.",)))
    gone = tuple(gone_rows(told))
    if gone:
        found.append(Part(f"Gone ({len(gone)})", (), ("rule", "place", "what it said"), gone))
    return found


def _verification(told: Verification) -> list[Part]:
    found = [Part(told.status, (one_line(told.text),))]
    problem = told.problem
    if problem is not None:
        rows = tuple(
            (
                name,
                f"{side.failed} of {side.runs}",
                f"{side.exposure:,.6g} {problem.unit}",
                str(side.others),
                str(side.left_out),
            )
            for name, side in (("before", problem.before), ("after", problem.after))
        )
        p = "" if problem.p is None else f"p = {problem.p:.2g}, "
        said = (f"{one_line(problem.what)}: {problem.verdict} ({p}{problem.method})",)
        found.append(
            Part("The problem", said, ("side", "runs failed", "exposure", "failed otherwise", "not counted"), rows)
        )
    if told.metrics:
        metrics = tuple(
            (
                one_line(one.metric),
                one.verdict,
                "" if one.before is None else f"{one.before:,.6g}",
                "" if one.after is None else f"{one.after:,.6g}",
                ""
                if one.low is None or one.high is None
                else f"{100 * (one.low - 1):+.1f} % to {100 * (one.high - 1):+.1f} %",
                f"{one.direction} ({one.told_by})",
                one_line(one.method or one.text),
            )
            for one in told.metrics
        )
        found.append(Part("Metrics", (), ("metric", "verdict", "before", "after", "change", "better", "how"), metrics))
    if told.needed:
        found.append(Part("Still needed", tuple(map(one_line, told.needed))))
    if told.assumptions:
        found.append(Part("It rests on", tuple(map(one_line, told.assumptions))))
    return found


def _associations(told: Associations) -> list[Part]:
    rows = tuple(
        (
            one.of,
            one_line(one.name),
            "" if one.window is None else f"{one.window / 60:g} min",
            f"{one.failures[0]} with, {one.failures[1]} without",
            "only with it" if one.ratio is None else f"{one.ratio:.2f}",
            "" if one.low is None else f"{one.low:.2g} to {'any' if one.high is None else format(one.high, '.3g')}",
            f"{one.q:.2g}",
            "associated" if one.associated else "not told from chance",
        )
        for one in told.associations
    )
    titles = ("what", "name", "window", "failures", "ratio", "95 %", "q", "answer")
    found = [Part("What goes together with failures", (headline(told),), titles, rows)]
    if told.timing:
        found.append(Part("When", tuple(one_line(one.text) for one in told.timing)))
    if told.power is not None:
        found.append(Part("What could be seen", (one_line(told.power),)))
    return found
