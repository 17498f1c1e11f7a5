"""The efficiency score: a weighted mean of stated parts, each with its reason; and what would raise it."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.check.context import Context
from preflight.check.verdict import trains
from preflight.vocabulary.finding import Finding, Location
from preflight.vocabulary.measured import Measured
from preflight.vocabulary.report import Efficiency, EfficiencyPart, NotEvaluated, Recommendation

BANDS = (
    (80.0, "Well-optimized configuration"),
    (60.0, "Minor improvements possible"),
    (40.0, "Significant inefficiencies"),
    (0.0, "Severe problems requiring attention"),
)

# The parts of the score: name, weight, and the codes whose findings lower it with the points each takes.
# The weights follow what the part can cost: a GPU that waits for data or computes in fp32 loses most of its speed,
# a missing fused optimizer a few per cent.
_PARTS: tuple[tuple[str, float, dict[str, float]], ...] = (
    (
        "data pipeline",
        25.0,
        {
            "EFF002": 60,
            "EFF003": 20,
            "EFF006": 70,
            "EFF011": 30,
            "EFF016": 25,
            "DAT003": 50,
            "EFF019": 40,
            "EFF020": 10,
        },
    ),
    (
        "arithmetic",
        25.0,
        {
            "EFF009": 50,
            "EFF014": 60,
            "EFF010": 15,
            "EFF013": 10,
            "EFF018": 15,
            "EFF007": 40,
            "EFF008": 30,
            "MEM023": 35,
        },
    ),
    ("synchronisation", 15.0, {"EFF001": 50, "EFF004": 50, "EFF005": 30}),
    ("batch", 20.0, {"EFF024": 60, "ACC004": 30}),
    ("distribution", 10.0, {"DST010": 70, "DST009": 25, "DST018": 40, "DST002": 100, "DST023": 100}),
    ("optimizer", 5.0, {"EFF021": 20, "EFF022": 30, "EFF012": 30}),
)


# Findings about the whole step: their fix belongs to no line.
_DOES_NOT_FIT = "MEM00"


NOT_SCORED = "the efficiency has no score: hardly any of the rules that make it up could be evaluated"
_LEAST_WEIGHT = 25.0
"""Of parts that could be judged, for a score to say something of the whole."""


def score(
    context: Context, findings: list[Finding], shown: Sequence[Finding], missing: Sequence[NotEvaluated] = ()
) -> Efficiency | None:
    """The score, from the findings of all personas; None where no training was recognised, or hardly any part could be judged.

    Args:
        context: What is known of the script.
        findings: All findings, also those that are not shown.
        shown: Those that the report lists; of the others the reason names the rule and the line.
        missing: Rules that could not be evaluated. A part that has more than half of its points from these, and that nothing
            lowers, has no score: that nothing was found says nothing there.
    """
    if not trains(context.facts):
        return None
    listed = {finding.code for finding in shown}
    unseen = {rule.code for rule in missing}
    parts: list[EfficiencyPart] = []
    for name, weight, costs in _PARTS:
        hits = {f.code: f for f in findings if f.code in costs and f.confidence != "possible"}
        if name == "distribution" and not context.distributed and not hits:
            continue
        if not hits and 2 * sum(points for code, points in costs.items() if code in unseen) > sum(costs.values()):
            continue
        left = 100.0
        for code in sorted(hits):
            left *= 1.0 - costs[code] / 100.0
        said = (f"{code} takes {costs[code]:.0f} %{_unlisted(hits[code], listed)}" for code in sorted(hits))
        reason = "; ".join(said) or "nothing found that slows it"
        parts.append(EfficiencyPart(name, round(left, 1), weight, reason))
    weight_of_all = sum(part.weight for part in parts)
    if weight_of_all < _LEAST_WEIGHT:
        return None
    total = sum(p.score * p.weight for p in parts) / weight_of_all
    return Efficiency(round(total, 1), band_of(total), tuple(parts))


def _unlisted(finding: Finding, listed: set[str]) -> str:
    """What a reader needs who cannot look the finding up in the report: the rule and the place."""
    if finding.code in listed:
        return ""
    return f" (not listed: {finding.rule}{_place(finding.location, ', ', path=False)})"


def _place(at: Location, before: str, *, path: bool) -> str:
    """Where a finding is: ``train.py:41``, ``notes.ipynb:cell 5:12``, or without the path ``line 41``."""
    if at.line is None:
        return ""
    if not path:
        return f"{before}line {at.line}" if at.cell is None else f"{before}cell {at.cell} line {at.line}"
    return f"{before}{at.path}:{at.line}" if at.cell is None else f"{before}{at.path}:cell {at.cell}:{at.line}"


def band_of(value: float) -> str:
    """The band of a score in words."""
    return next(text for limit, text in BANDS if value >= limit)


def recommendations(
    context: Context, findings: list[Finding], measured: Measured | None = None
) -> list[Recommendation]:
    """What to change, most urgent first: the fixes of findings, and changes that make the memory fit.

    Args:
        context: What is known of the run.
        findings: What is shown.
        measured: What changes did when the script was run with them; no estimate is made then.
    """
    found: list[Recommendation] = []
    memory = context.memory
    if measured is not None and (advice := _measured(measured)) is not None:
        found += advice
    elif memory is not None and memory.fits == "no" and context.model is not None:
        own = [f.fix for f in findings if f.code.startswith(_DOES_NOT_FIT) and f.fix is not None]
        found += [Recommendation("critical", fix.title, fix.expected or "the run fits") for fix in own]
        found += _to_fit(context)
    for finding in findings:
        change = change_of(finding)
        if finding.fix is None or change is None:
            continue
        priority = {"error": "critical", "warning": "high", "info": "low"}[finding.severity]
        if not any(r.change == change for r in found):
            found.append(Recommendation(priority, change, finding.fix.expected or finding.message))  # type: ignore[arg-type]
    order = {"critical": 0, "high": 1, "medium": 2, "low": 3}
    return sorted(found, key=lambda r: order[r.priority])[:12]


def _measured(measured: Measured) -> list[Recommendation] | None:
    """What changes did when the script was run with them; None where there was no time for any."""
    from preflight.check.dry_run import fit

    return fit.recommendations(measured) if fit.says_something(measured) else None


def change_of(finding: Finding) -> str | None:
    """What a recommendation takes from a finding at a place: the title of its fix, and where; None if it takes nothing.

    What makes the memory fit is advised as long as it does not fit, whether or not the finding is shown.
    """
    if finding.fix is None or finding.confidence == "possible" or finding.code.startswith(_DOES_NOT_FIT):
        return None
    if finding.location.line is None:
        return finding.fix.title
    return f"{finding.fix.title}{_place(finding.location, ' (', path=True)})"


def _to_fit(context: Context) -> list[Recommendation]:
    from preflight.cost.alternatives import alternatives
    from preflight.vocabulary.quantity import format_bytes

    assert context.model is not None
    options = alternatives(context.model, context.run, context.parallel, context.gpu, context.capacity_bytes)
    found: list[Recommendation] = []
    for option in options[:4]:
        fits = {"yes": "fits", "no": "still does not fit", "unknown": "may fit"}[option.fits]
        effect = f"needs {format_bytes(option.device_bytes)}: {fits}"
        found.append(
            Recommendation(
                "critical" if option.fits == "yes" else "high", option.change, effect, option.side_effect or None
            )
        )
    return found
