"""Answers to the questions of decision trees, each with what says so; None where nothing does.

A function here is the ``ask`` of a question: it gets what is known and returns an answer and its reason. What is known is
an incident, the reading that it came from, and facts that were observed live or said by a person, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

import msgspec

from preflight.vocabulary.finding import Scalar
from preflight.vocabulary.incident import Incident, Quote
from preflight.vocabulary.log import Reading
from preflight.vocabulary.quantity import format_share

BUSY = 0.6
"""Share of the time above which a card counts as busy."""
LARGE = 0.25
"""Share of the card above which optimizer states count as large."""
_LEAST = 20
_PHASES = ("data", "forward", "backward", "communication", "optimizer", "checkpoint")
_SLOW = ("slowdown", "straggler", "periodic")
_OF_COLLECTIVES = {"collective-mismatch", "collective-skipped", "rank-dependent-branch", "uneven-data"}
_ON_DEVICE = {
    "index-out-of-range",
    "label-out-of-range",
    "illegal-access",
    "kernel-bug",
    "int32-overflow",
    "device-assert",
}
_NOT_LOSS_FALLING = ("plateau", "divergence", "nonfinite", "scale-collapse")


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known.

    Attributes:
        incident: What an investigation found. reading: What it read.
        observed: Facts by name, from live checks: ``processes`` (bool), ``gpu_utilisation`` (0 to 1), ``clocks_fine``,
            ``extra_synchronisation``, ``communication_overlaps`` (bool), ``optimizer_share`` (of the card, 0 to 1),
            ``slow_phase``, ``step_time_steady``, ``loss_falls`` ...
    """

    incident: Incident | None = None
    reading: Reading | None = None
    observed: Mapping[str, Scalar] = {}


class Answer(msgspec.Struct, frozen=True):
    """An answer and what says so."""

    answer: str | None
    because: str
    quotes: tuple[Quote, ...] = ()


Ask = Callable[[Facts], Answer]
UNKNOWN = Answer(None, "nothing that was read or observed tells")


def _yes(value: bool, because: str, quotes: Sequence[Quote] = ()) -> Answer:
    return Answer("yes" if value else "no", because, tuple(quotes))


def _observed(facts: Facts, name: str, because: str) -> Answer | None:
    value = facts.observed.get(name)
    return _yes(value, because) if isinstance(value, bool) else None


def _quotes(incident: Incident) -> tuple[Quote, ...]:
    first = incident.first_failure
    if first is None or first.path is None or first.line is None:
        return ()
    return (Quote(path=first.path, line=first.line, text=first.text or ""),)


def running(facts: Facts) -> Answer:
    """Whether there are processes that train."""
    seen = _observed(facts, "processes", "its processes were looked for")
    if seen is not None:
        return seen
    state = facts.incident.state if facts.incident is not None else "unknown"
    if state == "unknown":
        return UNKNOWN
    if _given_up(facts):
        return _yes(
            False, "it hung, and its processes ended after that", _quotes(facts.incident) if facts.incident else ()
        )
    because = {
        "running": "the logs go on to their end", "slow": "the logs go on, slower than before", "hung": "no process ended and no step is made",
        "stalled": "steps are made", "ended": "the processes ended", "crashed": "processes ended with an error",
    }[state]  # fmt: skip
    return _yes(
        state in ("running", "slow", "hung", "stalled"), because, _quotes(facts.incident) if facts.incident else ()
    )


def _given_up(facts: Facts) -> bool:
    """Return whether a run that hung is over: those who waited gave up, or somebody ended it."""
    hung = facts.incident is not None and facts.incident.state == "hung"
    return hung and facts.reading is not None and any(ending.code for ending in facts.reading.endings)


def ended_as_planned(facts: Facts) -> Answer:
    """Whether a run that is over ended without a failure."""
    incident = facts.incident
    if incident is None or (incident.state not in ("ended", "crashed") and not _given_up(facts)):
        return UNKNOWN
    well = incident.state == "ended" and incident.category == "none"
    return _yes(well, "no failure is in the logs" if well else incident.headline, _quotes(incident))


def was_slow(facts: Facts) -> Answer:
    """Whether a run that went well was slowed down, as far as its steps tell."""
    for one in facts.incident.series if facts.incident is not None else ():
        if one.kind in _SLOW and one.series not in ("loss", "grad_norm"):
            return _yes(True, one.text, (one.quote,) if one.quote else ())
    return _yes(False, "nothing in the logs says so")


def cause_beside_environment(facts: Facts) -> Answer:
    """Whether an error names a cause, and it is not the environment."""
    incident = facts.incident
    if incident is None:
        return UNKNOWN
    named = incident.category not in ("environment", "none", "cannot-tell")
    because = f"{incident.signature or incident.headline}: {incident.category}" if named else "no other cause is named"
    return _yes(named, because, _quotes(incident))


def kind_of_mistake(facts: Facts) -> Answer:
    """Whether the code's mistake lies in its collectives, on the device, or elsewhere."""
    incident = facts.incident
    if incident is None or not (incident.signature or incident.hypotheses):
        return UNKNOWN
    causes = {one.cause for one in incident.hypotheses[:2]}
    name = incident.signature or ""
    if causes & _OF_COLLECTIVES or name.startswith(("flight.", "network.")):
        return Answer("collectives", f"the error is {name}", _quotes(incident))
    device = bool(causes & _ON_DEVICE) or any(word in name for word in ("assert", "illegal", "launch-failure"))
    return Answer("device" if device else "other", f"the error is {name or incident.headline}", _quotes(incident))


def made_a_step(facts: Facts) -> Answer:
    """Whether a step was ever made."""
    if facts.reading is not None and any(line.step is not None for line in facts.reading.steps):
        last = max(line.step for line in facts.reading.steps if line.step is not None)
        return _yes(True, f"the last step that is logged is {last}")
    incident = facts.incident
    if incident is None or incident.onset is None:
        return UNKNOWN
    if any(attempt.last_step is not None for attempt in incident.attempts):
        return _yes(True, "steps are logged")
    return _yes(incident.onset != "start", f"it failed {_onset_words(incident.onset)}")


def _onset_words(onset: str) -> str:
    return {
        "start": "before the first step",
        "warm-up": "within the first steps",
        "running": "in the middle of training",
    }[onset]


def makes_steps(facts: Facts) -> Answer:
    """Whether steps are being made now."""
    seen = _observed(facts, "makes_steps", "the steps that the ranks tell of were looked at")
    if seen is not None:
        return seen
    incident = facts.incident
    if incident is None or incident.state == "unknown":
        return UNKNOWN
    stopped = next((one for one in incident.series if one.kind == "stopped"), None)
    if incident.state == "hung" or stopped is not None:
        return _yes(False, stopped.text if stopped is not None else incident.headline, _quotes(incident))
    return _yes(True, "step lines go on to the end of the logs")


def onset(facts: Facts) -> Answer:
    """When it failed."""
    incident = facts.incident
    if incident is None or incident.onset is None:
        return UNKNOWN
    step = incident.first_failure.step if incident.first_failure is not None else None
    return Answer(
        incident.onset,
        _onset_words(incident.onset) + (f", at step {step}" if step is not None else ""),
        _quotes(incident),
    )


def scope(facts: Facts) -> Answer:
    """Who failed: a rank, a node, all."""
    incident = facts.incident
    if incident is None or incident.scope is None:
        return UNKNOWN
    culprit = incident.culprit
    who = (
        f"{'one of ranks' if culprit.one_of else 'rank'} {', '.join(map(str, culprit.ranks))}"
        if culprit.ranks
        else ", ".join(culprit.nodes) or "nobody in particular"
    )
    return Answer(incident.scope, f"{who} began it ({format_share(culprit.confidence)})", _quotes(incident))


def category(facts: Facts) -> Answer:
    """The category of the root, else of the symptom."""
    incident = facts.incident
    if incident is None or incident.category in ("none", "cannot-tell"):
        return UNKNOWN
    how = "the first error that names a cause" if incident.root_category is not None else "only a symptom is known"
    return Answer(incident.category, f"{how}: {incident.signature or incident.headline}", _quotes(incident))


def which_memory(facts: Facts) -> Answer:
    """Whether the memory of a card or of a host ran out."""
    incident = facts.incident
    if incident is None or not incident.signature:
        return UNKNOWN
    name = incident.signature
    host = any(word in name for word in ("host", "kill", "cgroup", "k8s", "errno", "cpu", "memory-limit", "pod", "ray"))
    causes = [one.cause for one in incident.hypotheses[:1]]
    host = host or any(cause.startswith(("host-", "cgroup-", "fork-", "loader-")) for cause in causes)
    return Answer("host" if host else "device", f"the error is {name}", _quotes(incident))


def culprit_known(facts: Facts) -> Answer:
    """Whether a rank or node is named as the beginning."""
    incident = facts.incident
    if incident is None:
        return UNKNOWN
    culprit = incident.culprit
    if culprit.ranks or culprit.nodes:
        return _yes(True, culprit.reasons[0].text if culprit.reasons else "the evidence names it", _quotes(incident))
    return _yes(False, culprit.reason or "no rank is behind the others in what was read")


def loss_falls(facts: Facts) -> Answer:
    """Whether the loss falls, or stands, rises or is not finite."""
    seen = _observed(facts, "loss_falls", "the losses were looked at")
    if seen is not None:
        return seen
    for one in facts.incident.series if facts.incident is not None else ():
        if one.kind in _NOT_LOSS_FALLING and (one.series == "loss" or one.kind in ("nonfinite", "scale-collapse")):
            return _yes(False, one.text, (one.quote,) if one.quote else ())
    losses = _values(facts, "loss")
    if len(losses) < _LEAST:
        return UNKNOWN
    return _yes(True, f"no plateau and no divergence in {len(losses)} losses")


def loss_ever_fell(facts: Facts) -> Answer:
    """Whether the loss was ever clearly below what it began with."""
    seen = _observed(facts, "loss_ever_fell", "the losses were looked at")
    if seen is not None:
        return seen
    losses = [value for value in _values(facts, "loss") if value == value and abs(value) != float("inf")]
    if len(losses) < _LEAST:
        return UNKNOWN
    part = max(len(losses) // 10, 5)
    begin = losses[:part]
    level = median(begin)
    spread = 1.4826 * median(abs(value - level) for value in begin)
    lowest = (
        min(median(losses[at : at + part]) for at in range(part, len(losses) - part + 1))
        if len(losses) >= 2 * part
        else level
    )
    # Medians of `part` values scatter by about 1.25 spread / sqrt(part); the lowest of
    # many against the first: six of these are beyond chance.
    fell = lowest < level - max(6 * 1.25 * spread / part**0.5, 0.01 * abs(level))
    return _yes(fell, f"it began at {level:.4g}, and its lowest level is {lowest:.4g}")


def step_time_steady(facts: Facts) -> Answer:
    """Whether the time of a step is what it was."""
    seen = _observed(facts, "step_time_steady", "step times were looked at")
    if seen is not None:
        return seen
    for one in facts.incident.series if facts.incident is not None else ():
        if one.kind in _SLOW and one.series not in ("loss", "grad_norm"):
            return _yes(False, one.text, (one.quote,) if one.quote else ())
    count = len(_values(facts, "seconds"))
    return _yes(True, f"no change in {count} step times") if count >= _LEAST else UNKNOWN


def slow_phase(facts: Facts) -> Answer:
    """Which part of the step takes longer."""
    said = facts.observed.get("slow_phase")
    if isinstance(said, str):
        return Answer(said, "the phases were measured")
    for one in facts.incident.series if facts.incident is not None else ():
        if one.phase is not None:
            return Answer(one.phase, one.text, (one.quote,) if one.quote else ())
    grown: list[tuple[float, str]] = []
    for phase in _PHASES:
        values = _values(facts, f"{phase}_seconds")
        if len(values) >= _LEAST:
            part = max(len(values) // 4, 5)
            grown.append((median(values[-part:]) - median(values[:part]), phase))
    if not grown or max(grown)[0] <= 0.0:
        return UNKNOWN
    longest, phase = max(grown)
    return Answer(phase, f"its median grew by {longest:.3g} s, more than that of the others")


def device_busy(facts: Facts) -> Answer:
    """Whether the card is busy."""
    value = facts.observed.get("gpu_utilisation")
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return UNKNOWN
    return _yes(value >= BUSY, f"the card is busy {format_share(value)} of the time")


def clocks_fine(facts: Facts) -> Answer:
    """Whether no card is slowed down."""
    seen = _observed(facts, "clocks_fine", "the clocks were read")
    if seen is not None:
        return seen
    for event in facts.reading.events if facts.reading is not None else ():
        if event.kind == "throttle":
            return _yes(False, f"{event.node or 'a node'}: {event.meaning or event.hit.text.strip()}")
    return UNKNOWN


def extra_synchronisation(facts: Facts) -> Answer:
    """Whether something waits for the device within a step."""
    return _observed(facts, "extra_synchronisation", "a profile or preflight check says so") or UNKNOWN


def communication_overlaps(facts: Facts) -> Answer:
    """Whether communication runs beside computing."""
    return _observed(facts, "communication_overlaps", "a profile says so") or UNKNOWN


def states_large(facts: Facts) -> Answer:
    """Whether optimizer states take a large part of the card."""
    value = facts.observed.get("optimizer_share")
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return UNKNOWN
    return _yes(value >= LARGE, f"optimizer states are {format_share(value)} of the card")


def _values(facts: Facts, name: str) -> list[float]:
    """Values of one series in the order of steps; those of the rank that logged most of them."""
    if facts.reading is None:
        return []
    by_rank: dict[int | None, list[tuple[int, float]]] = {}
    for place, line in enumerate(facts.reading.steps):
        if name in line.values:
            by_rank.setdefault(line.who.rank, []).append(
                (line.step if line.step is not None else place, line.values[name])
            )
    if not by_rank:
        return []
    longest = max(by_rank.values(), key=len)
    return [value for _, value in sorted(longest, key=lambda one: one[0])]
