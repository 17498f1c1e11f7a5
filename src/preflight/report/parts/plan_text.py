"""A plan for a terminal."""

from __future__ import annotations

from preflight.report.parts.bottleneck_text import bottleneck_section
from preflight.report.parts.clean import clean, display_width, one_line
from preflight.report.parts.paint import Canvas
from preflight.report.parts.plan_rows import (
    CANDIDATE_TITLES,
    COMPARED_TITLES,
    EFFECT_TITLES,
    SCALING_TITLES,
    STAGE_TITLES,
    attention_words,
    candidate_rows,
    compared_reasons,
    compared_rows,
    effect_rows,
    layout_words,
    rate_rows,
    run_rows,
    run_words,
    scaling_rows,
    stage_rows,
)
from preflight.vocabulary.model import model_in_words
from preflight.vocabulary.plan import Plan

# The speed of a GPU follows from the step, and all candidates fit.
_TOLD_BY_OTHERS = ("tokens/s/GPU", "fits", "MFU")
_STAGES, _CANDIDATES, _EFFECTS, _REJECTED = 8, 10, 8, 5


def layout_section(canvas: Canvas, plan: Plan) -> None:
    """Add how the run is spread, and what else it was planned with; or the clusters that are compared."""
    if plan.compared:
        canvas.heading("COMPARED")
        _narrow_table(canvas, COMPARED_TITLES, compared_rows(plan))
        for reason in compared_reasons(plan):
            canvas.write(reason, indent=2, first="- ")
    if plan.chosen is None:
        return
    if plan.model is not None and (size := model_in_words(plan.model)):
        canvas.heading("MODEL")
        canvas.write(size, indent=2)
    canvas.heading("LAYOUT")
    canvas.write(layout_words(plan.chosen.parallel), indent=2)
    canvas.write(run_words(plan.chosen.run, plan.model), indent=2)


def attention_line(canvas: Canvas, plan: Plan) -> None:
    """Add what the matrix of scores takes, or would take."""
    if plan.attention is not None:
        canvas.write(attention_words(plan.attention), indent=2, first="attention  ", hang=4)


def plan_sections(canvas: Canvas, plan: Plan, *, verbose: bool, remark: str = "") -> None:
    """Add stages, the run, candidates; and what holds the run back and what changes do, where that was asked for."""
    if plan.chosen is not None and len(plan.chosen.stages) > 1:
        canvas.heading("PIPELINE STAGES")
        rows = stage_rows(plan.chosen)
        kept = rows if verbose or len(rows) <= _STAGES else [*rows[: _STAGES - 1], rows[-1]]
        _table(canvas, STAGE_TITLES, kept)
        if len(kept) < len(rows):
            canvas.write(f"{len(rows) - len(kept)} stages between them with {canvas.rest}", indent=2)
    bottleneck_section(canvas, plan)
    rows_of_run = run_rows(plan)
    if rows_of_run:
        canvas.heading("RUN", remark)
        width = max(len(name) for name, _ in rows_of_run)
        for name, value in rows_of_run:
            canvas.write(value, indent=2, first=f"{name:<{width}}  ")
    _candidates(canvas, plan, verbose=verbose)
    if verbose:
        _rates(canvas, plan)
    if verbose and plan.scaling is not None:
        for name, points in (("same batch", plan.scaling.strong), ("batch grows with the GPUs", plan.scaling.weak)):
            if len(points) > 1:
                canvas.heading("SCALING", name)
                _table(canvas, SCALING_TITLES, scaling_rows(points))
    if plan.bottlenecks or verbose:
        _effects(canvas, plan, verbose=verbose)


def closing_sections(canvas: Canvas, plan: Plan, *, verbose: bool) -> None:
    """Add the settings that run the plan, and what it takes for granted."""
    if plan.settings:
        names = ", ".join(plan.settings)
        note = "" if verbose else f"for {names}: {canvas.rest} shows them, --format json holds them"
        canvas.heading("SETTINGS", note)
        for name, text in plan.settings.items() if verbose else ():
            canvas.write(f"{name}:", indent=2, style="bold")
            canvas.lines += [f"    {clean(line)}".rstrip() for line in text.rstrip("\n").split("\n")]
        # Nobody asks why there is nothing for one framework while there is something for another.
        for name, reason in plan.settings_reasons.items() if verbose or len(plan.settings) == 1 else ():
            canvas.write(one_line(reason), indent=2, first=f"not for {name}: ", hang=4)
    if plan.assumptions:
        canvas.heading("ASSUMED")
        for said in plan.assumptions:
            canvas.write(one_line(said), indent=2, first="- ")


def _rates(canvas: Canvas, plan: Plan) -> None:
    rows = rate_rows(plan)
    if rows:
        canvas.heading("RATES", "what is counted on, of what is promised, per GPU")
        width = max(len(name) for name, _, _ in rows)
        for name, told, moved in rows:
            canvas.write(told + (f"; {moved}" if moved else ""), indent=2, first=f"{name:<{width}}  ")


def _candidates(canvas: Canvas, plan: Plan, *, verbose: bool) -> None:
    if plan.searched > 1:
        took = f" in {plan.seconds:.1f} s" if plan.seconds is not None else ""
        canvas.heading("CANDIDATES", f"{plan.searched:,} layouts evaluated{took}")
        shown = plan.candidates if verbose else plan.candidates[:_CANDIDATES]
        _table(canvas, *_narrowed(CANDIDATE_TITLES, candidate_rows(shown), canvas.width))
    if plan.experiment:
        canvas.write(one_line(plan.experiment), indent=2, first="to tell them apart: ", hang=4)
    if plan.rejected:
        canvas.heading("RULED OUT")
        shown_rejected = plan.rejected if verbose else plan.rejected[:_REJECTED]
        for item in shown_rejected:
            canvas.write(one_line(item.reason), indent=2, first=f"{item.count:>9,} x ")
        if len(shown_rejected) < len(plan.rejected):
            canvas.write(f"{len(plan.rejected) - len(shown_rejected)} more reasons with {canvas.rest}", indent=2)


def _effects(canvas: Canvas, plan: Plan, *, verbose: bool) -> None:
    effects = plan.sensitivities
    if not effects:
        return
    shown = effects if verbose else effects[:_EFFECTS]
    canvas.heading("ONE CHANGE AT A TIME")
    rows = effect_rows(shown)
    widths = [max(display_width(row[at]) for row in (EFFECT_TITLES, *rows)) for at in range(3)]
    for number, row in enumerate((EFFECT_TITLES, *rows)):
        lead = "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=False))
        canvas.write(
            row[3], indent=2, first=f"{lead}  ", style=(dim := "dim" if number == 0 else None), first_style=dim
        )
    if len(shown) < len(effects):
        canvas.write(f"{len(effects) - len(shown)} more with {canvas.rest}", indent=2)


def _narrowed(
    titles: tuple[str, ...], rows: list[tuple[str, ...]], width: int
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return a table without the columns that others tell too, as far as the page is too narrow for them."""
    kept = list(range(len(titles)))
    for title in _TOLD_BY_OTHERS:
        room = sum(max(display_width(row[at]) for row in (titles, *rows)) + 2 for at in kept)
        if room > width and title in titles:
            kept.remove(titles.index(title))
    return tuple(titles[at] for at in kept), [tuple(row[at] for at in kept) for row in rows]


def _narrow_table(canvas: Canvas, titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Add a table; where it is wider than the page, one thing a line and a column for each row."""
    width = sum(max(display_width(row[at]) for row in (titles, *rows)) + 2 for at in range(len(titles)))
    if width <= canvas.width:
        _table(canvas, titles, rows)
        return
    turned = [tuple(row[at] for row in rows) for at in range(len(titles))]
    cells = [(title, *line) for title, line in zip(titles, turned, strict=True)]
    _table(canvas, cells[0], cells[1:])


def _table(canvas: Canvas, titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Add a table; where it is wider than the page, its last columns go to a second line."""
    cells = [titles, *rows]
    widths = [max(display_width(row[at]) for row in cells) for at in range(len(titles))]
    for number, row in enumerate(cells):
        line = "  ".join(
            f"{cell:<{width}}" if at == 0 else f"{cell:>{width}}"
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        canvas.write(line.rstrip(), indent=2, hang=6, style="dim" if number == 0 else None) if len(
            line
        ) > canvas.width - 2 else canvas.lines.append(
            "  " + canvas.paint(line.rstrip(), "dim" if number == 0 else None)
        )
