"""An incident as text: what happened, who began it, when, why, what only followed, what to do, what to observe."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.report.parts.alarm_text import ranks
from preflight.report.parts.clean import clean, one_line
from preflight.report.parts.incident_words import (
    culprit_name,
    frame_in_words,
    moment_time,
    percent,
    quote_line,
    several_days,
    since,
    subtitle,
    who,
)
from preflight.report.parts.paint import Canvas
from preflight.vocabulary.incident import Incident, Loss, Moment, Reason, UnknownLines
from preflight.vocabulary.tree import Walk

MOST_MOMENTS = 12
MOST_REASONS = 4
MOST_CAUSES = 4
# Logarithm of a likelihood ratio from which on an observation is worth a line below its cause.
TELLING = 1.5
WORTH_SAYING = 0.5
MOST_UNKNOWN = 5
MOST_FOLLOWED = 6
MOST_REMEDIES = 4
MOST_CLOCKS = 6


def incident_section(canvas: Canvas, incident: Incident, *, verbose: bool = False) -> None:
    """Add everything that a person at the terminal needs."""
    canvas.write(one_line(incident.headline), indent=2, style="bold")
    canvas.write(subtitle(incident), indent=2, style="dim")
    if incident.reason:
        canvas.write(one_line(incident.reason), indent=2)
    _raised(canvas, incident)
    _jobs(canvas, incident)
    if incident.category != "none" and (incident.timeline or incident.signature):
        _culprit(canvas, incident, verbose)
    _causes(canvas, incident, verbose)
    whys_section(canvas, incident)
    _series(canvas, incident, verbose)
    _moments(canvas, "TIMELINE", "corrected clocks", incident.timeline, MOST_MOMENTS, verbose, timed=True)
    _moments(canvas, "ONLY A CONSEQUENCE", "", incident.consequences, MOST_FOLLOWED, verbose)
    _moments(canvas, "RECOVERED FROM", "the run went on", incident.recovered, MOST_FOLLOWED, verbose)
    _next(canvas, incident, verbose)
    _unknown(canvas, incident, verbose)
    _attempts(canvas, incident)
    _clocks(canvas, incident, verbose)
    if incident.loss is not None:
        _loss(canvas, incident.loss)
    _caught(canvas, incident)


def _raised(canvas: Canvas, incident: Incident) -> None:
    """Add where the program was, unless that is told of another rank than the one that began it."""
    first, ranks_named = incident.first_failure, incident.culprit.ranks
    if first is None or first.frame is None or (ranks_named and first.rank not in (None, *ranks_named)):
        return
    canvas.write(frame_in_words(first.frame), indent=2, first="raised in ")


def _culprit(canvas: Canvas, incident: Incident, verbose: bool) -> None:
    culprit = incident.culprit
    named = culprit_name(culprit)
    if named:
        canvas.heading("WHO BEGAN IT", f"{named}  ({percent(culprit.confidence)})")
    else:
        canvas.heading("WHO BEGAN IT", one_line(culprit.reason or "cannot be told"))
    _reasons(canvas, culprit.reasons if named else (), verbose)
    if not named and culprit.reasons:
        _reasons(canvas, culprit.reasons, verbose)
    others = [one for one in culprit.suspects if one.rank not in culprit.ranks or one.rank is None]
    others = [
        one for one in others if one.probability >= 0.02 and one.node not in (culprit.nodes if not one.rank else ())
    ]
    if others:
        told = "; ".join(
            f"{who((one.rank,) if one.rank is not None else (), (one.node,) if one.node else ())} {percent(one.probability)}"
            for one in others[:4]
        )
        canvas.write(told, indent=2, first="also considered: ")


def _reasons(canvas: Canvas, reasons: Sequence[Reason], verbose: bool) -> None:
    shown = reasons if verbose else reasons[:MOST_REASONS]
    against = [reason for reason in reasons if reason.weight < 0 and reason not in shown][:1]
    for reason in [*shown, *against]:
        mark = "+" if reason.weight > 0 else "-"
        canvas.write(one_line(reason.text), indent=2, first=f"{mark} ",
                     first_style="red" if reason.weight > 0 else "green")  # fmt: skip
        for quote in reason.quotes[: None if verbose else 1]:
            canvas.write(quote_line(quote, canvas.width), indent=6, style="dim")


def _causes(canvas: Canvas, incident: Incident, verbose: bool) -> None:
    causes = [one for one in incident.hypotheses if one.probability >= 0.02]
    if not causes:
        return
    canvas.heading("WHAT MAY BE BEHIND IT")
    said: set[str] = set()
    for one in causes if verbose else causes[:MOST_CAUSES]:
        canvas.write(
            f"{one_line(one.title)} ({clean(one.category)})", indent=2, first=f"{percent(one.probability):>9}  "
        )
        least = TELLING if one is not causes[0] else WORTH_SAYING
        telling = [
            reason
            for reason in one.reasons
            if abs(reason.weight) >= least and reason.text not in said and reason.text not in incident.headline
        ]
        for reason in telling if verbose else telling[:1]:
            said.add(reason.text)
            side = "for" if reason.weight > 0 else "against"
            canvas.write(f"{side}: {one_line(reason.text)}", indent=13, style="dim")


def whys_section(canvas: Canvas, incident: Incident) -> None:
    """Add the chain of causes."""
    if not incident.five_whys:
        return
    canvas.heading("WHY")
    for number, one in enumerate(incident.five_whys, 1):
        answer = one_line(one.answer) if one.answer else f"not known: {one_line(one.reason or 'nothing tells')}"
        canvas.write(one_line(one.question), indent=2, first=f"{number}. ")
        told = f"{answer} [{one.known}]" if one.answer else answer
        canvas.write(told, indent=5)
        for quote in one.quotes[:1]:
            canvas.write(quote_line(quote, canvas.width), indent=5, style="dim")


def walk_section(canvas: Canvas, walk: Walk) -> None:
    """Add the way that the evidence took through the decision trees."""
    canvas.heading("THE WAY THROUGH THE DECISION TREES")
    for number, step in enumerate(walk.steps, 1):
        canvas.write(f"{one_line(step.text)} {clean(step.said)}", indent=2, first=f"{number}. ")
        canvas.write(one_line(step.because), indent=5)
        for quote in step.quotes[:1]:
            canvas.write(quote_line(quote, canvas.width), indent=5, style="dim")
    if walk.leaf is not None:
        canvas.write(one_line(walk.leaf.text), indent=2, first="=> ", style="bold")
        for number, text in enumerate(walk.leaf.next, 1):
            canvas.write(one_line(text), indent=5, first=f"{number}. ")
        if walk.leaf.remedies:
            canvas.write(", ".join(clean(name) for name in walk.leaf.remedies), indent=5, first="remedies: ")
    elif walk.open is not None:
        canvas.write(f"cannot tell; to go on: {one_line(walk.open)}", indent=2, first="=> ")


def _series(canvas: Canvas, incident: Incident, verbose: bool) -> None:
    if not incident.series:
        return
    canvas.heading("WHAT THE STEPS SHOW")
    for one in incident.series if verbose else incident.series[:MOST_FOLLOWED]:
        canvas.write(one_line(one.text), indent=2, first="- ")
        if one.quote is not None:
            canvas.write(quote_line(one.quote, canvas.width), indent=6, style="dim")


def _moments(
    canvas: Canvas, title: str, note: str, moments: Sequence[Moment], most: int, verbose: bool, *, timed: bool = False
) -> None:
    if not moments:
        return
    shown = moments if verbose else moments[:most]
    has_times = timed and any(one.time is not None for one in shown)
    canvas.heading(title, note if has_times or not timed else "")
    first = next((one.time for one in moments if one.time is not None), 0.0)
    days = several_days(shown)
    times_of = [moment_time(one, first=first, day=False, days=days) or "?" for one in shown]
    wide = max(17, *map(len, times_of))
    for one, time in zip(shown, times_of, strict=True):
        lead = f"{time:<{wide}} " if has_times else "- "
        where = f"{ranks(one.ranks)}: " if one.ranks else f"{clean(one.node)}: " if one.node else ""
        step = f" (step {one.step:,})" if one.step is not None else ""
        times = f", {one.count} times" if one.count > 1 else ""
        canvas.write(f"{where}{one_line(one.text)}{step}{times}", indent=2, first=lead)
        if one.quote is not None and verbose:
            canvas.write(quote_line(one.quote, canvas.width), indent=6, style="dim")
    if len(moments) > len(shown):
        canvas.write(f"and {len(moments) - len(shown)} more ({canvas.rest_or_json})", indent=2)


def _next(canvas: Canvas, incident: Incident, verbose: bool) -> None:
    for kind, title in (("act", "WHAT TO DO NOW"), ("observe", "WHAT TO OBSERVE NEXT")):
        steps = [one for one in incident.next if one.kind == kind]
        remedies = incident.remedies if kind == "act" else ()
        left = 0 if verbose else max(len(remedies) - MOST_REMEDIES, 0)
        remedies = remedies[: len(remedies) - left]
        if not steps and not remedies:
            continue
        canvas.heading(title)
        number = 0
        for number, one in enumerate(steps, 1):
            cost = f" ({clean(one.cost)})" if one.cost else ""
            tells = f", tells {', '.join(clean(name) for name in one.tells)}" if one.tells and kind == "observe" else ""
            canvas.write(f"{one_line(one.text)}{cost}{tells}", indent=2, first=f"{number}. ")
            if one.command:
                canvas.write(clean(one.command), indent=5, first="$ ", style="cyan")
        for remedy in remedies:
            number += 1
            canvas.write(f"{one_line(remedy.title)} ({remedy.kind}): {one_line(remedy.why)}", indent=2,
                         first=f"{number}. ")  # fmt: skip
            canvas.write(f"preflight investigate fix {clean(remedy.remedy)}", indent=5, first="$ ", style="cyan")
        if left:
            canvas.write(f"and {left} more remed{'y' if left == 1 else 'ies'} ({canvas.rest_or_json})", indent=2)


def _telling(incident: Incident) -> Sequence[UnknownLines]:
    """Return the lines that are worth a look; what a program warns of is none where nothing failed."""
    return [one for one in incident.unknown if not one.warning or incident.category != "none"][:MOST_UNKNOWN]


def _unknown(canvas: Canvas, incident: Incident, verbose: bool) -> None:
    if not incident.unknown:
        return
    shown = incident.unknown if verbose else _telling(incident)
    if not shown:
        return
    canvas.heading("NOT EXPLAINED", "lines that look like trouble and that no signature takes")
    for one in shown:
        on = f", {ranks(one.ranks)}" if one.ranks else ""
        canvas.write(f"{one.count} x{on}: {one_line(one.template)[:300]}", indent=2, first="- ")
        if one.quote is not None:
            canvas.write(f"{clean(one.quote.path)}:{one.quote.line}", indent=6, style="dim")
    if len(incident.unknown) > len(shown):
        canvas.write(f"and {len(incident.unknown) - len(shown)} more ({canvas.rest_or_json})", indent=2)


def _jobs(canvas: Canvas, incident: Incident) -> None:
    """Tell the jobs apart where the files of several were given."""
    if not incident.jobs:
        return
    canvas.heading("JOBS", "each judged by itself; what follows is about the one that is marked")
    for one in incident.jobs:
        by = f", {who(one.ranks, one.nodes)}" if one.ranks or one.nodes else ""
        text = f"{clean(one.name)} ({clean(one.category)}{by}): {one_line(one.headline)}"
        canvas.write(text, indent=2, first="> " if one.shown else "  ", style="bold" if one.shown else "")


def _attempts(canvas: Canvas, incident: Incident) -> None:
    if len(incident.attempts) < 2:
        return
    canvas.heading("ATTEMPTS")
    for one in incident.attempts:
        steps = f", steps {one.first_step:,} to {one.last_step:,}" if one.last_step is not None else ""
        by = f", {who(one.culprit, ())}" if one.culprit else ""
        canvas.write(f"{one.state}{steps}: {clean(one.category or '')}{by}  {one_line(one.text)}", indent=2,
                     first=f"{one.number}. ")  # fmt: skip


def _clocks(canvas: Canvas, incident: Incident, verbose: bool) -> None:
    off = [one for one in incident.clocks if abs(one.ahead) > one.error]
    if not off:
        return
    canvas.heading("CLOCKS", "by how much they were ahead of the reference")
    shown = off
    if len(off) > MOST_CLOCKS and not verbose:  # those of the nodes that are named, then those that are off by most
        named = [one for one in off if one.node in incident.culprit.nodes]
        others = sorted((one for one in off if one not in named), key=lambda one: -abs(one.ahead))
        shown = (named + others)[:MOST_CLOCKS]
    for one in shown:
        canvas.write(f"{since(one.ahead)} ± {one.error:.3g} s, from {one.markers} markers", indent=2,
                     first=f"{clean(one.node)}  ")  # fmt: skip
    if len(shown) < len(off):
        most = max(abs(one.ahead) for one in off if one not in shown)
        canvas.write(f"and {len(off) - len(shown)} more, within {since(most)} of it either way ({canvas.rest_or_json})",
                     indent=2)  # fmt: skip


def _loss(canvas: Canvas, loss: Loss) -> None:
    told = list(loss.arithmetic)
    if not told and loss.reason is None:
        return
    canvas.heading("WHAT IT COST")
    for line in told or [f"not known: {loss.reason}"]:
        canvas.write(one_line(line), indent=2, first="- ")


def _caught(canvas: Canvas, incident: Incident) -> None:
    if incident.caught_by:
        canvas.heading("WHAT WOULD HAVE TOLD IT BEFORE")
        for one in incident.caught_by:
            canvas.write(f"{one.kind} {clean(one.id)}: {one_line(one.text)}", indent=2, first="- ")
