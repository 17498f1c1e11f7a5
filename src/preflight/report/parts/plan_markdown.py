"""A plan as lines of Markdown; the cells that it gives are plain text, which the caller escapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from preflight.report.parts.clean import one_line
from preflight.report.parts.plan_rows import (
    CANDIDATE_TITLES,
    COMPARED_TITLES,
    STAGE_TITLES,
    bottleneck_groups,
    candidate_rows,
    change_words,
    compared_reasons,
    compared_rows,
    layout_words,
    run_rows,
    run_words,
    stage_rows,
)
from preflight.vocabulary.model import model_in_words
from preflight.vocabulary.plan import Plan

Table = Callable[[tuple[str, ...], Sequence[tuple[str, ...]]], list[str]]
_CANDIDATES = 12


def plan_lines(plan: Plan, level: str, escape: Callable[[str], str], table: Table) -> list[str]:
    """Return layout, stages, run, candidates and the effects of changes."""

    def cells(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        return [tuple(escape(cell) for cell in row) for row in rows]

    lines: list[str] = []
    if plan.compared:
        lines += [f"{level}# Compared", "", *table(COMPARED_TITLES, cells(compared_rows(plan)))]
        lines += [f"- {escape(reason)}" for reason in compared_reasons(plan)] + [""]
    if plan.chosen is not None:
        if plan.model is not None and (size := model_in_words(plan.model)):
            lines += [f"{level}# Model", "", escape(size) + ".", ""]
        lines += [f"{level}# Layout", "", escape(layout_words(plan.chosen.parallel)) + ".", ""]
        lines += [escape(run_words(plan.chosen.run, plan.model)) + ".", ""]
        if len(plan.chosen.stages) > 1:
            lines += [f"{level}# Pipeline stages", "", *table(STAGE_TITLES, cells(stage_rows(plan.chosen)))]
    for title, found in bottleneck_groups(plan):
        told = [
            (one.name, f"{one.share * 100:.0f} %", one_line(one.text), change_words(one)) for one in found
        ]  # fmt: skip
        lines += [
            f"{level}# What holds it back: {title}",
            "",
            *table(("what", "share", "how much", "best change"), cells(told)),
        ]
    rows = run_rows(plan)
    if rows:
        lines += [f"{level}# Run", "", *table(("what", "value"), cells(rows))]
    if plan.searched > 1:
        shown = candidate_rows(plan.candidates[:_CANDIDATES])
        lines += [f"{level}# Candidates ({plan.searched:,} evaluated)", "", *table(CANDIDATE_TITLES, cells(shown))]
    if plan.experiment:
        lines += [f"To tell them apart: {escape(plan.experiment)}", ""]
    if plan.bottlenecks and plan.sensitivities:
        lines += [f"{level}# One change at a time", "", *(f"- {escape(item.text)}" for item in plan.sensitivities), ""]
    for name, text in plan.settings.items():
        lines += [f"<details><summary>Settings for {escape(name)}</summary>", "", "```", text.rstrip("\n"), "```", ""]
        lines += ["</details>", ""]
    if plan.settings_reasons:
        lines += [f"- not for {escape(name)}: {escape(reason)}" for name, reason in plan.settings_reasons.items()] + [
            ""
        ]
    if plan.assumptions:
        lines += [f"{level}# Taken for granted", "", *(f"- {escape(said)}" for said in plan.assumptions), ""]
    return lines
