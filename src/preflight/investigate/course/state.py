"""In what state the run is, since when, how far it reaches; the headline, and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from preflight.investigate.case.case import Case, Event
from preflight.investigate.case.unexplained import any_trouble
from preflight.investigate.cause.category import Decided
from preflight.investigate.cause.excerpt import without_a_word
from preflight.investigate.culprit.silence import having_lines
from preflight.investigate.culprit.vote import Scene, before, from_dump, is_wait
from preflight.investigate.hypotheses import experiments_for
from preflight.vocabulary.incident import Culprit, Hypothesis, NextStep, Onset, RunState, Scope

# Steps within which compilers, caches and allocators still settle.
WARM_UP = 10
_MANY_LINES = 40  # without a line that looks like trouble: of shorter texts the words are looked at


def state_of(scene: Scene) -> RunState:
    """Return whether the run goes on, has ended, crashed or hangs."""
    case = scene.case
    if not scene.failing:
        if scene.progress.ended or _all_zero(scene):
            return "ended"
        if case.steps or (
            any(event.role in ("recovered", "progress") for event in case.events)
            and not any_trouble(case.reading.unknown)
        ):
            return "running"
        return "hung" if case.reading.flights or case.reading.stacks else "unknown"
    roots = [event for event in scene.failing if event.role == "root" and not event.id.startswith("exit.")]
    told = [event for event in scene.failing if event.role == "cascade" and not from_dump(event)]
    told = [event for event in told if not event.id.startswith(("exit.", "end.", "elastic."))]
    if told and all(from_dump(event) for event in roots) and any(map(is_wait, told)) and not _broke(scene, told):
        return "hung"
    if all(from_dump(event) for event in scene.failing):
        return "hung"
    if _only_numbers(scene):
        return "ended" if scene.progress.ended else "running"
    if not _of_programs(case) and not any(map(_ends, scene.failing)):
        return "unknown"
    return "crashed"


def _only_numbers(scene: Scene) -> bool:
    """Return whether nothing failed but the numbers, and the run went on with them."""
    if any(event.category != "numerical" for event in scene.failing) or any(one.code for one in scene.case.endings):
        return False
    steps = {(one.file, one.line) for one in scene.case.steps}
    return scene.progress.ended or all(
        event.id.startswith("series.") or event.place in steps or scene.progress.behind(event) > 0
        for event in scene.failing
    )


def _of_programs(case: Case) -> bool:
    """Return whether anything was read that a program of the run printed or left behind as it died."""
    return any(file.kind in ("text", "exit") for file in case.reading.files)


def _ends(event: Event) -> bool:
    """Return whether what a node or a scheduler says tells of an end, and not of trouble alone."""
    return event.id.startswith("exit.") or event.category in ("oom", "preemption", "other")


def _broke(scene: Scene, told: list[Event]) -> bool:
    """Return whether a call failed before anybody had waited for long: what waits after that waits for a run that is dead."""
    first = next((event for event in told if not is_wait(event)), None)
    if first is None:
        return False
    return not any(is_wait(event) and not before(first, event) for event in told)


def has_many_lines(scene: Scene) -> bool:
    """Return whether so many lines were read that a trouble would have left one of its known forms in them."""
    return scene.case.reading.lines_read >= _MANY_LINES


def is_quiet(scene: Scene) -> bool:
    """Return whether none of many lines tells of trouble, explained or not, or no word of a few."""
    reading = scene.case.reading
    if scene.failing or any_trouble(scene.case.reading.unknown):
        return False
    texts = [file for file in reading.files if file.kind == "text"]
    if has_many_lines(scene) or not texts:
        return has_many_lines(scene)
    return all(without_a_word(file, _harmless(scene.case, file.index)) for file in texts)


def _harmless(case: Case, file: int) -> set[int]:
    """Return the numbers of the lines of a file that a signature took for harmless."""
    return {event.hit.line for event in case.events if event.hit.file == file and event.role == "benign"}


def _all_zero(scene: Scene) -> bool:
    codes = [ending.code for ending in scene.case.endings]
    return bool(codes) and all(code == 0 for code in codes)


def onset_of(scene: Scene) -> Onset | None:
    """Return whether it happened at the start, while warming up, or later; None where nothing failed."""
    if not scene.failing:
        return None
    first, last = scene.progress.first_step, scene.progress.last_step
    if last is None or first is None:
        return _by_lines(scene.case) if _of_programs(scene.case) else None
    return "warm-up" if last - first < WARM_UP else "running"


def _by_lines(case: Case) -> Onset:
    """Return when it happened, by how many steps a writer told of that bear no number."""
    told = Counter((one.file, one.who) for one in case.steps if one.values)
    most = max(told.values(), default=0)
    if not most:
        return "start"
    return "running" if most > WARM_UP else "warm-up"


def scope_of(scene: Scene, culprit: Culprit) -> Scope | None:
    """Return whether one rank, one node or all of them were hit at first."""
    people = scene.case.people
    if len(culprit.ranks) == 1:
        return "rank"
    if culprit.ranks:
        nodes = {people.node_of.get(rank) for rank in culprit.ranks}
        if len(nodes) == 1 and None not in nodes:
            return "node"
        return "rank" if len(culprit.ranks) < (people.world or 0) else "all"
    if culprit.nodes:
        return "node" if len(culprit.nodes) == 1 else "all"
    if any(reason.weight > 0 for reason in culprit.reasons) and not culprit.suspects[:0]:
        return "all" if culprit.reason and culprit.reason.startswith("nobody") else None
    return None


def named(culprit: Culprit) -> str:
    """Return who it was, in words; empty where nobody is named."""
    who = ""
    if culprit.ranks:
        ranks = ", ".join(map(str, culprit.ranks[:8])) + (" ..." if len(culprit.ranks) > 8 else "")
        who = f"rank {ranks}" if len(culprit.ranks) == 1 else f"{'one of ' if culprit.one_of else ''}ranks {ranks}"
    if culprit.nodes:
        nodes = ", ".join(culprit.nodes[:4])
        who = f"{who} on {nodes}" if who else f"node {nodes}"
    return who


def headline_of(scene: Scene, culprit: Culprit, decided: Decided, state: RunState) -> str:
    """Return the incident in one line."""
    leading = decided.leading
    step = leading.step if scene.failing and leading is not None else None
    step = scene.progress.last_step if step is None else step
    when = f" at step {step:,}" if step is not None else ""
    if not scene.failing:
        if state == "running":
            return f"the run goes on{when}; nothing in it is a failure"
        if state == "ended":
            return f"the run has ended as it should{when}"
        if is_quiet(scene):
            trouble = any(event.role in ("root", "cascade") for event in scene.case.events)
            what = "nothing that ended the run" if trouble else "no word of trouble"
            return f"{what} in {scene.case.reading.lines_read:,} lines, which do not tell how far the run came"
        return "what was given does not tell how the run is"
    who = named(culprit)
    what = decided.leading.title if decided.leading is not None else "it failed, and no line says why"
    if decided.leading is not None and decided.leading.role == "cascade" and not decided.root:
        what = f"{what}; this is the symptom, its cause is not in these lines"
    if when and when.removeprefix(" at ") in what:
        when = ""
    return f"{who}{when}: {what}" if who else f"{what}{when}"


def dearness(name: str) -> int:
    """Return how dear it is to look at something: 0 for what was collected, 2 for another run, also where it is not known."""
    from preflight.catalog.observation_names import looked_for

    known = looked_for().get(name)
    return 2 if known is None else known.rank


def observation(name: str, tells: tuple[str, ...]) -> NextStep:
    """Return the step that looks at something which tells causes apart."""
    from preflight.catalog.observation_names import looked_for

    known = looked_for().get(name)
    look = name.replace("-", " ").replace(".", " ") if known is None else known.look
    return NextStep(
        text=f"look at {look}", kind="observe", command=known.command if known is not None else None, tells=tells
    )


def in_words(hypotheses: Sequence[Hypothesis]) -> tuple[Hypothesis, ...]:
    """Return the hypotheses with what tells them apart in words, for those who have no catalogue at hand."""
    from preflight.catalog.observation_names import looked_for

    known = looked_for()
    return tuple(
        msgspec.structs.replace(
            one, look_at=tuple(known[name].look if name in known else name for name in one.discriminated_by)
        )
        for one in hypotheses
    )


def next_steps(scene: Scene, culprit: Culprit, decided: Decided, state: RunState) -> tuple[NextStep, ...]:
    """Return what to do now, and what to observe where something cannot be told."""
    if not scene.failing:
        return ()
    found: dict[str, NextStep] = {}
    event = decided.leading
    if event is not None and event.signature is not None:
        for text in event.signature.next:
            found.setdefault(text, NextStep(text=text, kind="act"))
    doubtful = [one for one in decided.hypotheses if one.probability >= 0.1 and one.discriminated_by]
    if len(doubtful) > 1:
        names = dict.fromkeys(name for one in doubtful for name in one.discriminated_by)
        for name in sorted(names, key=dearness):
            tells = tuple(other.cause for other in doubtful if name in other.discriminated_by)
            found.setdefault(name, observation(name, tells))
    people = scene.case.people
    world = people.world or 1
    if not culprit.ranks and not culprit.nodes and world > 1 and len(having_lines(scene)) < world:
        text = (
            "collect the log of every rank (torchrun --log-dir --redirects 3): what is here does not tell who began it"
        )
        found.setdefault(text, NextStep(text=text, kind="observe", tells=("culprit",)))
    looked = {cause for one in found.values() if one.kind == "observe" for cause in one.tells}
    # Another run costs more than a look, and is not worth it for causes that a look tells apart.
    experiments = [
        one
        for one in experiments_for(decided.hypotheses, gpus=scene.case.people.world or 1)
        if not set(one.tells) <= looked
    ]
    return (*found.values(), *experiments)
