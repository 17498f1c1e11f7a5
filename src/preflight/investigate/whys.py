"""Five whys, from evidence: each level is observed, inferred or unknown, and none is invented."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from preflight.investigate.cause.category import SOMETHING_ELSE, Decided
from preflight.investigate.course.state import named
from preflight.investigate.culprit.vote import Scene
from preflight.vocabulary.incident import Culprit, Incident, RunState, Why

SURE = 0.75


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
    if causes and causes[0].probability >= SURE:
        told = next((reason for reason in causes[0].reasons if reason.weight > 1), None)
        found.append(Why(question="Why that?", answer=causes[0].title + (f": {told.text}" if told else ""), known="inferred",
                         quotes=told.quotes if told else (), reason=f"probability {causes[0].probability:.2f}"))  # fmt: skip
    if causes and causes[0].probability < SURE:
        between = "; ".join(f"{one.title} ({one.probability:.2f})" for one in causes[:3])
        found.append(Why(question="Why that?", answer=None, known="unknown", reason=f"it may be: {between}"))
    else:
        found.append(Why(question="Why was that possible?", answer=None, known="unknown",
                         reason="nothing that was read tells; add what you know with: preflight investigate why"))  # fmt: skip
    return tuple(found)


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
