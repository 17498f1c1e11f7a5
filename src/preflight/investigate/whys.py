"""Five whys, from evidence: each level is observed, inferred or unknown, and none is invented."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from preflight.investigate.cause.category import SOMETHING_ELSE, Decided
from preflight.investigate.course.state import named
from preflight.investigate.culprit.vote import Scene
from preflight.vocabulary.incident import Culprit, Hypothesis, Incident, RunState, Why

SURE = 0.75
_BETWEEN = "it may be: "


def whys_of(scene: Scene, culprit: Culprit, decided: Decided, state: RunState) -> tuple[Why, ...]:
    """Return the chain from the symptom to what is known of its cause; the first level that is unknown is the last."""
    case = scene.case
    found: list[Why] = []
    leading = decided.leading
    symptom = next((event for event in scene.failing if event.role == "cascade"), None)
    who = named(culprit)
    what = {"hung": "Why did the run hang?", "crashed": "Why did the run end?"}.get(state, "Why did the run fail?")
    if symptom is not None and symptom is not leading:
        on = f" on rank {symptom.rank}" if symptom.rank is not None else ""
        found.append(Why(question=what, answer=f"{symptom.title}{on}", known="observed",
                         quotes=(case.quote(symptom.hit),)))  # fmt: skip
        what = "Why that?"
        if who and culprit.reasons:
            quotes = tuple(quote for reason in culprit.reasons for quote in reason.quotes)[:3]
            found.append(Why(question=what, answer=f"{who} began it: {culprit.reasons[0].text}", known="inferred",
                             quotes=quotes, reason=f"probability {culprit.confidence:.2f}"))  # fmt: skip
            what = f"Why did {who} fail?"
    if leading is not None:
        found.append(Why(question=what, answer=leading.title, known="observed", quotes=(case.quote(leading.hit),)))
    causes = [
        one
        for one in decided.hypotheses
        if one.cause != SOMETHING_ELSE and (leading is None or one.cause != leading.id)
    ]
    return (*found, *_behind(causes))


def _behind(causes: Sequence[Hypothesis], said: Sequence[str | None] = ()) -> tuple[Why, ...]:
    """Return the last levels: the cause, where one is likely enough, and the question that stays open."""
    if causes and causes[0].probability < SURE:
        between = "; ".join(f"{one.title} ({one.probability:.2f})" for one in causes[:3])
        return (Why(question="Why that?", answer=None, known="unknown", reason=f"{_BETWEEN}{between}"),)
    rest = Why(question="Why was that possible?", answer=None, known="unknown",
               reason="nothing that was read tells; add what you know with: preflight investigate why")  # fmt: skip
    if not causes:
        return (rest,)
    told = next((reason for reason in causes[0].reasons if reason.weight > 1 and reason.text not in said), None)
    cause = Why(question="Why that?", answer=causes[0].title + (f": {told.text}" if told else ""), known="inferred",
                quotes=told.quotes if told else (), reason=f"probability {causes[0].probability:.2f}")  # fmt: skip
    return cause, rest


def weighed_again(whys: Sequence[Why], after: Sequence[Hypothesis]) -> tuple[Why, ...]:
    """Return the levels with the causes as probable as they are now, where the last one names several."""
    last = whys[-1] if whys else None
    if last is None or last.answer is not None or not (last.reason or "").startswith(_BETWEEN):
        return tuple(whys)
    named = [one for one in after if one.cause != SOMETHING_ELSE and f"{one.title} (" in (last.reason or "")]
    return (*whys[:-1], *_behind(named, [one.answer for one in whys]))


def with_answers(incident: Incident, answers: Sequence[str]) -> Incident:
    """Return an incident with what a person knows of its causes: each answer to the question that is open, in order.

    The levels say that they were told, and a further question stands open behind the last of them.
    """
    whys = list(incident.five_whys)
    for answer in answers:
        if whys and whys[-1].answer is None:
            open_ = whys.pop()
            whys.append(Why(question=open_.question, answer=answer, known="told", reason=open_.reason))
        else:
            whys.append(Why(question="Why did it happen?", answer=answer, known="told"))
        whys.append(Why(question=f"Why: {answer}?", answer=None, known="unknown", reason="nobody has said"))
    return msgspec.structs.replace(incident, five_whys=tuple(whys))
