"""Five whys, from evidence: each level is observed, inferred or unknown, and none is invented."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from preflight.investigate.case.case import Event
from preflight.investigate.cause.category import SOMETHING_ELSE, Decided
from preflight.investigate.course.state import named
from preflight.investigate.culprit.vote import Scene, from_dump, is_wait
from preflight.investigate.rank_evidence import ranks_written
from preflight.vocabulary.incident import Culprit, Hypothesis, Incident, RunState, Why
from preflight.vocabulary.quantity import format_share

SURE = 0.75
_BETWEEN = "it may be: "


def whys_of(scene: Scene, culprit: Culprit, decided: Decided, state: RunState) -> tuple[Why, ...]:
    """Return the chain from the symptom to what is known of its cause; the first level that is unknown is the last.

    What others say of the one that began it is the symptom, and no answer to what happened to it.
    """
    case = scene.case
    found: list[Why] = []
    leading = decided.leading
    who = named(culprit)
    asked = {"hung": "Why did the run hang?", "crashed": "Why did the run end?", "unknown": "What is wrong?"}.get(
        state, "Why did the run fail?"
    )
    complaint = leading is not None and leading.role == "cascade" and leading.rank not in (None, *culprit.ranks)
    symptom = leading if complaint and who else _symptom(scene, state)
    if symptom is not None:
        told = symptom.title if from_dump(symptom) else f"{symptom.title}{_on(scene, symptom)}"
        found.append(Why(question=asked, answer=told, known="observed", quotes=(case.quote(symptom.hit),)))
        asked = "Why that?"
        if who and culprit.reasons and (symptom is not leading or complaint or from_dump(symptom)):
            quotes = tuple(quote for reason in culprit.reasons for quote in reason.quotes)[:3]
            found.append(Why(question=asked, answer=f"{who} began it: {culprit.reasons[0].text}", known="inferred",
                             quotes=quotes, reason=f"probability {culprit.confidence:.2f}"))  # fmt: skip
            asked = f"What happened to {who}?" if symptom is leading else f"Why did {who} fail?"
    if leading is not None and leading is not symptom:
        found.append(Why(question=asked, answer=leading.title, known="observed", quotes=(case.quote(leading.hit),)))
        asked = "Why that?"
    causes = [
        one
        for one in decided.hypotheses
        if one.cause != SOMETHING_ELSE and (leading is None or one.cause != leading.id)
    ]
    return (*found, *_behind(causes, asked=asked))


def _symptom(scene: Scene, state: RunState) -> Event | None:
    """Return what was seen first of all: of a run that hung that somebody waited, and no end of a process that followed."""
    cascades = [event for event in scene.failing if event.role == "cascade"]
    waits = [event for event in cascades if is_wait(event)] if state == "hung" else []
    return next(iter(waits or cascades), None)


def _on(scene: Scene, symptom: Event) -> str:
    """Return on which ranks a symptom was seen."""
    alike = {event.rank for event in scene.failing if event.id == symptom.id and event.rank is not None}
    return f" on {ranks_written(sorted(alike))}" if alike else ""


def _behind(causes: Sequence[Hypothesis], said: Sequence[str | None] = (), asked: str = "Why that?") -> tuple[Why, ...]:
    """Return the last levels: the cause, where one is likely enough, and the question that stays open."""
    if causes and causes[0].probability < SURE:
        between = "; ".join(f"{one.title} ({format_share(one.probability)})" for one in causes[:3])
        return (Why(question=asked, answer=None, known="unknown", reason=f"{_BETWEEN}{between}"),)
    rest = Why(question="Why was that possible?" if asked == "Why that?" or causes else asked, answer=None, known="unknown",
               reason="nothing that was read tells; add what you know with: preflight investigate why")  # fmt: skip
    if not causes:
        return (rest,)
    told = next((reason for reason in causes[0].reasons if reason.weight > 1 and reason.text not in said), None)
    cause = Why(question=asked, answer=causes[0].title + (f": {told.text}" if told else ""), known="inferred",
                quotes=told.quotes if told else (), reason=f"{format_share(causes[0].probability)} probable")  # fmt: skip
    return cause, rest


def weighed_again(whys: Sequence[Why], after: Sequence[Hypothesis]) -> tuple[Why, ...]:
    """Return the levels with the causes as probable as they are now, where the last one names several."""
    last = whys[-1] if whys else None
    if last is None or last.answer is not None or not (last.reason or "").startswith(_BETWEEN):
        return tuple(whys)
    named = [one for one in after if one.cause != SOMETHING_ELSE and f"{one.title} (" in (last.reason or "")]
    return (*whys[:-1], *_behind(named, [one.answer for one in whys], last.question))


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
