"""An incident: what happened to a run, who began it, why, and what to do."""

from __future__ import annotations

from typing import Literal

import msgspec

from preflight.vocabulary.finding import Scalar
from preflight.vocabulary.log import Frame
from preflight.vocabulary.signature import Category

RunState = Literal["running", "ended", "crashed", "hung", "stalled", "slow", "unknown"]
Onset = Literal["start", "warm-up", "running"]
Scope = Literal["rank", "node", "all"]
Known = Literal["observed", "inferred", "told", "unknown"]
"""How a level of a chain of causes is known: a line says so, the evidence makes it likely, a person said so, not at all."""


class Quote(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line as it stands in a file."""

    path: str
    line: int
    text: str


class Reason(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Something that speaks for or against.

    Attributes:
        text: What was seen, in one sentence.
        weight: Logarithm of the likelihood ratio, natural; positive speaks for.
        quotes: Where it stands.
    """

    text: str
    weight: float
    quotes: tuple[Quote, ...] = ()


class Suspect(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A rank (or a node) that may have begun it, how probable that is, and why."""

    rank: int | None = None
    node: str | None = None
    probability: float
    reasons: tuple[Reason, ...] = ()


class Culprit(msgspec.Struct, frozen=True, kw_only=True):
    """Who began it.

    Attributes:
        ranks: The ranks; empty where it was nobody in particular or cannot be told.
        nodes: Their nodes, where they are known.
        confidence: Probability that these began it, 0 to 1.
        reasons: For and against, the weightiest first.
        suspects: Everyone who was considered, the likeliest first.
        reason: Why nobody is named, where nobody is.
        one_of: It was one of these ranks, or several of them, and nothing that was read tells which.
    """

    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    confidence: float = 0.0
    reasons: tuple[Reason, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    reason: str | None = None
    one_of: bool = False


class Moment(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One entry of the timeline; time in seconds since 1970 by the reference clock, corrected."""

    text: str
    role: str
    rank: int | None = None
    node: str | None = None
    ranks: tuple[int, ...] = ()
    time: float | None = None
    time_error: float = 0.0
    step: int | None = None
    count: int = 1
    quote: Quote | None = None
    attempt: int | None = None


class Hypothesis(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A cause that may be the one.

    Attributes:
        cause: Its short name.
        title: In one line.
        category: Of the cause.
        probability: 0 to 1; those of an incident and "something else" add up to 1.
        reasons: For and against.
        discriminated_by: What would tell it from the others, the cheapest first.
        look_at: The same in words.
    """

    cause: str
    title: str
    category: Category
    probability: float
    reasons: tuple[Reason, ...] = ()
    discriminated_by: tuple[str, ...] = ()
    look_at: tuple[str, ...] = ()


class Why(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One level of the chain of causes."""

    question: str
    answer: str | None
    known: Known
    quotes: tuple[Quote, ...] = ()
    reason: str | None = None


class Remedied(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A remedy that applies, and why."""

    remedy: str
    title: str
    kind: Literal["immediate", "structural"]
    why: str
    change: str | None = None
    verification: str | None = None


class NextStep(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What to do or observe next; ``cost`` in GPU-minutes where it can be said."""

    text: str
    kind: Literal["act", "observe"]
    command: str | None = None
    cost: str | None = None
    tells: tuple[str, ...] = ()


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """By how much a node's clock was ahead of the reference, in seconds, and how sure that is (half an interval of 95 %)."""

    node: str
    ahead: float
    error: float
    markers: int


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One start of the job; times in seconds since 1970."""

    number: int
    began: float | None = None
    ended: float | None = None
    state: RunState = "unknown"
    first_step: int | None = None
    last_step: int | None = None
    category: Category | None = None
    culprit: tuple[int, ...] = ()
    text: str = ""


class SeriesFinding(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a series of steps shows.

    Attributes:
        kind: ``plateau``, ``divergence``, ``spike``, ``scale-collapse``, ``stopped``, ``slowdown``, ``periodic``, ``straggler``, ``nonfinite``.
        series: The name of the value.
        text: What was seen, with its numbers, in one sentence.
        first_step: Step at which it began.
        ranks: The ranks whose series show it; empty: the run's.
        phase: Which phase slowed: ``data``, ``compute``, ``communication``, ``checkpoint``, ``evaluation``; None where it is not told.
        false_alarms: How often a test of this kind is wrong on a healthy series, 0 to 1.
        values: The numbers.
    """

    kind: str
    series: str
    text: str
    first_step: int | None = None
    last_step: int | None = None
    ranks: tuple[int, ...] = ()
    phase: str | None = None
    false_alarms: float | None = None
    values: dict[str, Scalar] = {}
    quote: Quote | None = None


class FirstFailure(msgspec.Struct, frozen=True, kw_only=True):
    """The earliest line that names a cause.

    Attributes:
        frame: Where the program's own code was, outside of libraries, when that was raised; None where no traceback tells.
    """

    rank: int | None = None
    node: str | None = None
    time: float | None = None
    path: str | None = None
    line: int | None = None
    text: str | None = None
    step: int | None = None
    frame: Frame | None = None


class Loss(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the failures cost; None where the logs do not tell it, with the reason."""

    gpu_hours_lost: float | None = None
    steps_lost: int | None = None
    effective_share: float | None = None
    mean_hours_between_failures: tuple[float, float, float] | None = None
    arithmetic: tuple[str, ...] = ()
    reason: str | None = None


class Pointer(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What would have told it before: a rule, a relation, a check before launch; or a draft of a new one."""

    kind: Literal["rule", "relation", "checklist", "signature", "invariant", "plan"]
    id: str
    text: str
    draft: str | None = None


class UnknownLines(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Lines that look like trouble and that nothing explains; ``warning``: their program only warns."""

    template: str
    count: int
    warning: bool = False
    ranks: tuple[int, ...] = ()
    quote: Quote | None = None


class Activity(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Who spoke when: how many lines that mean something each rank wrote in each span of time.

    Attributes:
        first: When the first span begins, seconds since 1970 by the reference clock; or the first step.
        width: How long a span is, in seconds or steps.
        unit: ``seconds`` or ``steps``.
        rows: For each rank the counts of its spans, the earliest first.
    """

    first: float
    width: float
    unit: Literal["seconds", "steps"] = "seconds"
    rows: dict[int, tuple[int, ...]] = {}


class Job(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One of several jobs whose files were given together, judged by itself.

    Attributes:
        name: As the names of its files tell it.
        files: How many files are its own.
        headline: What happened to it, in one line.
        shown: It is the one that the rest of the incident is about.
    """

    name: str
    files: int
    state: RunState
    category: Category
    confidence: float
    headline: str
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    shown: bool = False


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """What an investigation found; the keys that are there for every incident are never left out."""

    state: RunState
    onset: Onset | None
    scope: Scope | None
    category: Category
    root_category: Category | None
    symptom_category: Category | None
    signature: str | None
    confidence: float
    headline: str
    culprit: Culprit
    first_failure: FirstFailure | None = None
    reasons: tuple[Reason, ...] = ()
    timeline: tuple[Moment, ...] = ()
    hypotheses: tuple[Hypothesis, ...] = ()
    five_whys: tuple[Why, ...] = ()
    remedies: tuple[Remedied, ...] = ()
    next: tuple[NextStep, ...] = ()
    consequences: tuple[Moment, ...] = ()
    recovered: tuple[Moment, ...] = ()
    ruled_out: tuple[Reason, ...] = ()
    series: tuple[SeriesFinding, ...] = ()
    activity: Activity | None = None
    attempts: tuple[Attempt, ...] = ()
    jobs: tuple[Job, ...] = ()
    clocks: tuple[Clock, ...] = ()
    unknown: tuple[UnknownLines, ...] = ()
    caught_by: tuple[Pointer, ...] = ()
    loss: Loss | None = None
    world_size: int | None = None
    ranks_seen: tuple[int, ...] = ()
    nodes_seen: tuple[str, ...] = ()
    reason: str | None = None
