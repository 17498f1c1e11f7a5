"""What holds a run back, for a terminal."""

from __future__ import annotations

from preflight.report.parts.clean import one_line
from preflight.report.parts.paint import Canvas
from preflight.report.parts.plan_rows import bottleneck_groups, change_words
from preflight.vocabulary.plan import Plan

_BAR = 16


def bottleneck_section(canvas: Canvas, plan: Plan) -> None:
    """Add parts of the step, rates and parts of the memory, each with its share and what makes most of it go away."""
    groups = bottleneck_groups(plan)
    if not groups:
        return
    step = plan.chosen.step if plan.chosen is not None else None
    canvas.heading("BOTTLENECKS", one_line(step.bottleneck) if step is not None and step.bottleneck else "")
    width = max(len(one.name) for _, found in groups for one in found)
    for title, found in groups:
        canvas.write(title, indent=2)
        for one in found:
            lead = f"{one.name:<{width}}  {one.share * 100:>3.0f} %  {canvas.bar(one.share, _BAR)}  "
            if one.of == "rate":
                canvas.lines.append(f"    {lead}".rstrip())
                canvas.write(one_line(one.text), indent=6, hang=4)
                continue
            canvas.write(one_line(one.text), indent=4, first=lead)
            canvas.write(change_words(one), indent=6, first="best: " if one.change else "", hang=4)
