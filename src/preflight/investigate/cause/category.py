"""What kind of failure it is: the category of the cause, apart from that of the symptom."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from preflight.investigate.case.case import Event
from preflight.investigate.cause.aftermath import DIED, without_aftermath, without_shell_words
from preflight.investigate.cause.exceptions import tells_of
from preflight.investigate.cause.frames import at_import, category_of_frames, in_loader, state_does_not_fit
from preflight.investigate.cause.keys import (
    innermost_own,
    lacks_for_a_library,
    looked_up,
    of_another_version,
    of_its_own_package,
)
from preflight.investigate.cause.options import of_a_launcher
from preflight.investigate.cause.pickling import wanted_for
from preflight.investigate.cause.refusals import refused
from preflight.investigate.cause.wanted import of_missing
from preflight.investigate.cause.words import category_of_file
from preflight.investigate.course.interrupted import interrupts_in, without_broken_off, without_warned
from preflight.investigate.culprit.exit_code import killed_with_its_step, stopped
from preflight.investigate.culprit.vote import Scene, before, compares
from preflight.investigate.observations.weighing import observed_in, weighed
from preflight.vocabulary.incident import Culprit, Hypothesis, Reason
from preflight.vocabulary.log import Raised
from preflight.vocabulary.signature import Category

# What a storage says in the same words whatever is read from it or written to it.
_OF_STORAGE = ("checkpoint.stale-handle", "checkpoint.no-space", "checkpoint.quota")
_SAMPLES = re.compile(
    r"(?:^|[\s/\\])(?:lmdb|h5py|webdataset|pyarrow|datasets|torchvision|PIL|cv2)(?:\.\w*Error|[/\\]\w+)|/data_?sets?/"
)
_SHARED = re.compile(
    r"/multiprocessing/(?:context|queues|synchronize|heap|shared_memory|connection)\.py$|/pandarallel/|/joblib/"
)
_NEAREST = 3
"""So many innermost frames tell what storage was wanted for."""
_WRITES = re.compile(r"\bmodel\.save\w*\(|save_(?:model|weights|checkpoint)|\btorch\.save\(|save_pretrained")
_NAMED_ALONE = re.compile(r"(?:^|[\s:\]])(KeyError|TypeError): (.+)$")
_LOCAL_FOLDER = re.compile(r"found in directory|OSError: (?:\.{0,2}/|\S*(?:checkpoint|ckpt|outputs?/|results?/))")
"""A folder of one's own that holds no weights is a checkpoint that is not there; a name of the hub is a setting."""
_MOVED = re.compile(r"Can't get attribute '[^']+' on <module '(?!__main__|__mp_main__)")
"""A class that its module bears no more: it was pickled into a file by another version."""
_KEYWORD = "usercode.keyword-argument"
_READ = ("network.object-gather-size", "data.text-decode")
"""What is said of whatever is read, a checkpoint as well."""
_NAME = "environment.import-name"
_SIZES = "usercode.sizes-do-not-divide"
_LENGTHS = "usercode.inconsistent-lengths"
_METRICS = re.compile(r"/(?:sklearn/metrics|torchmetrics)/")
"""Where predictions are held against what is right: that they are not as many is the work of the program."""
_OPTIONS = "usercode.unrecognized-arguments"
_OF_A_CLASS = "environment.class-of-another-version"
_ATTRIBUTE = "usercode.attribute"
_MISSING = ("data.missing-file", "checkpoint.weights-missing")
SOMETHING_ELSE = "something-else"
# What is left for a cause that nothing in the catalogue names: where a signature took the line, and where none did.
_REST = {True: 0.1, False: 0.35}
_OFTEN = 8
_PATIENCE = 25.0
"""So many seconds, at least, torchrun waits for a process that it has asked to end before it kills it (30, in whole seconds)."""


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """What kind of failure it is.

    Attributes:
        leading: The event that decides; None where nothing does.
        probability: Of the category, before calibration.
        inferred: The root is only what such a symptom usually comes from: no line names it.
    """

    leading: Event | None
    root: Category | None
    symptom: Category | None
    hypotheses: tuple[Hypothesis, ...]
    probability: float
    inferred: bool = False

    @property
    def category(self) -> Category:
        """The root's where it is known, else the symptom's."""
        if self.inferred and self.symptom is not None and self.symptom not in ("other", "none"):
            return self.symptom
        return self.root or self.symptom or "cannot-tell"


def decide(scene: Scene, culprit: Culprit) -> Decided:
    """Return the category of the root and of the symptom, and the causes that may be behind them."""
    roots = [event for event in scene.failing if event.role in ("root", "confirmation") and not _by_agent(scene, event)]
    interrupts = interrupts_in(scene.failing)
    roots = without_warned(roots, interrupts)
    roots = without_broken_off(without_shell_words(without_aftermath(roots)), interrupts) or (
        [] if interrupts else _mute(scene, culprit)
    )
    symptoms = without_broken_off([event for event in scene.failing if event.role == "cascade"], interrupts)
    if roots and all(_only_failed(scene, event) for event in roots) and _named(symptoms):
        roots = []
    if interrupts:  # a launcher that saw its processes end says no more than they do
        symptoms = [event for event in symptoms if event.category != "other"]
        stopped = {event.rank for event in interrupts}
        if culprit.ranks and stopped >= set(culprit.ranks):  # the others lost the one that was interrupted
            symptoms = [event for event in symptoms if event.rank in stopped]
    observed = observed_in(scene)
    told = [event for event in scene.failing if not _by_agent(scene, event)] or list(scene.failing)
    symptom = _symptom(scene, culprit, symptoms or (list(interrupts) if not roots else []) or told)
    if not roots:
        # That tensors or calls of two ranks differ says more than that a connection broke, whoever of the two began it.
        differing = [event for event in symptoms if compares(event)]
        leading = _leading(differing or _of_ranks(symptoms), culprit) or next(iter(interrupts), None)
        hypotheses = weighed(_causes([leading] if leading else [], scene), observed)
        rooted = _category_of(hypotheses)
        if leading is None:
            leading = next(iter(scene.failing), None)
        known = leading.category if leading else None
        root = rooted[0] if rooted[1] >= 0.5 and rooted[0] not in (known, "other", "cannot-tell") else None
        return Decided(leading=leading, root=root, symptom=symptom, hypotheses=hypotheses, probability=rooted[1],
                       inferred=True)  # fmt: skip
    leading = _leading(roots, culprit)
    hypotheses = weighed(_causes(_together(roots, leading, culprit), scene), observed)
    category, probability = _category_of(hypotheses)
    if leading is not None:
        category = _by_place(scene, leading, category)
    if category == "other" and leading is not None and leading.category not in ("other", "none"):
        # A cause of no category says less than the line itself.
        category = leading.category
    return Decided(leading=leading, root=category, symptom=symptom or category, hypotheses=hypotheses,
                   probability=probability)  # fmt: skip


def _by_place(scene: Scene, event: Event, category: Category) -> Category:
    """Return the category by where it was raised and by which file is missing, where that says more than the message."""
    path = event.hit.fields.get("path") if event.id in _MISSING else None
    if isinstance(path, str):
        raised = _raised_at(scene, event) if event.id == _MISSING[0] else None
        return (of_missing(raised, path) if event.id == _MISSING[0] else category_of_file(path)) or category
    if event.id == "data.pickle" and _MOVED.search(event.hit.text):
        return "checkpoint"
    if event.id == "data.pickle" and (given := _raised_at(scene, event)) is not None:
        return wanted_for(given) or category
    if event.id == _OPTIONS:
        return "environment" if of_a_launcher(event.hit.text) else category
    if event.id == "environment.not-a-model" and _LOCAL_FOLDER.search(event.hit.text):
        return "checkpoint"
    if event.id in _READ and (read := _raised_at(scene, event)) is not None:
        return "checkpoint" if category_of_frames(read) == "checkpoint" else category
    if event.id == _NAME and (asks := _raised_at(scene, event)) is not None:
        return "usercode" if of_its_own_package(asks) else category
    if event.id == _LENGTHS and (compares := _raised_at(scene, event)) is not None:
        return "usercode" if _compares_predictions(compares) else category
    if event.id in (_OF_A_CLASS, _ATTRIBUTE) and _of_its_own(_raised_at(scene, event)):
        return "usercode"  # in a class that gives samples, too
    if event.id == _SIZES and (made := _raised_at(scene, event)) is not None:
        return refused(made) or category
    if event.hit.fields.get("wrapper"):  # what DDP or FSDP wraps is reached through it
        return "usercode"
    stored = category == "checkpoint" and event.id in _OF_STORAGE
    counted = event.id == "numerical.nan-to-integer"
    if category != "usercode" and not stored and not counted:
        return category
    raised = _raised_at(scene, event) or _alone(event)
    if counted:  # a table that lacks values, and no loss
        return "data" if raised is not None and category_of_frames(raised) == "data" else category
    if stored:
        return "data" if any(_of_samples(scene, one) for one in scene.failing if one.id == event.id) else category
    if raised is None:
        return category
    # Whatever the error: raised in the loader it is about the data, raised while a library is imported about what is installed.
    if in_loader(raised):
        return "data"
    if state_does_not_fit(raised):
        return "checkpoint"
    if at_import(raised) or lacks_for_a_library(raised) or (event.id == _KEYWORD and of_another_version(raised)):
        return "environment"
    return looked_up(raised) or category


def _compares_predictions(raised: Raised) -> bool:
    """Return whether a metric was raised in."""
    return any(_METRICS.search(frame.path.replace("\\", "/")) for frame in raised.frames)


def _of_its_own(raised: Raised | None) -> bool:
    """Return whether a class of the program itself, called as a library's is, lacks what it wants from itself."""
    if raised is None or not raised.frames or raised.frames[-1] is not innermost_own(raised):
        return False
    wanted = raised.message.rpartition("attribute ")[2].strip("'\"")
    return re.search(rf"\bself\.{re.escape(wanted)}\b", raised.frames[-1].code) is not None


def _alone(event: Event) -> Raised | None:
    """Return the exception that a line names without a traceback; None where it names none."""
    found = _NAMED_ALONE.search(event.hit.text)
    return Raised(exception=found[1], message=found[2], frames=(), hit=event.hit) if found is not None else None


def _of_samples(scene: Scene, event: Event) -> bool:
    """Return whether storage failed under samples: where they are fetched, or in a library or a folder that holds nothing else."""
    raised = _raised_at(scene, event)
    frames = raised.frames if raised is not None else ()
    if any(_WRITES.search(f"{frame.code} {frame.function}") for frame in frames):
        return False
    told = _SAMPLES.search(event.hit.text) is not None or any(_SAMPLES.search(frame.path) for frame in frames[-3:])
    if not told and any(_SHARED.search(frame.path.replace("\\", "/")) for frame in frames[-_NEAREST:]):
        return True  # what processes hand over to each other, mostly samples, goes through memory that they share
    return told or (raised is not None and (in_loader(raised) or category_of_frames(raised) == "data"))


def _raised_at(scene: Scene, event: Event) -> Raised | None:
    if event.raised is not None:
        return event.raised
    at = next((one for one in scene.case.raised if (one.hit.file, one.hit.line) == event.place), None)
    # A search over trials, a logger: what they tell of an exception that stands below with its frames.
    told = (one for one in scene.case.raised if one.hit.file == event.place[0] and tells_of(event.hit.text, one))
    return at if at is not None else next(told, None)


def _by_agent(scene: Scene, event: Event) -> bool:
    """Return whether a process was killed because it did not stop when asked: others had waited in vain, or one of its step had failed."""
    if event.id not in ("exit.killed", "end.killed"):
        return False
    return scene.waited or _killed_late(scene, event) or _with_its_step(scene, event)


def _with_its_step(scene: Scene, event: Event) -> bool:
    """Return whether the line that tells of a kill is a scheduler's of a task whose step was over already."""
    told = (one for one in scene.case.endings if one.code and (one.file, one.line) == event.place)
    return any(killed_with_its_step(scene, one) for one in told)


def _killed_late(scene: Scene, event: Event) -> bool:
    """Return whether a launcher's table tells that a process was killed when another one had ended as long before as it waits."""
    ends = [one for one in scene.case.endings if one.teller == "torchrun" and one.time is not None]
    own = [one.time for one in ends if one.code == -9 and one.about.rank == event.rank]
    first = min((one.time or 0.0 for one in ends if one.code != -9), default=None)
    return bool(own) and first is not None and min(time or 0.0 for time in own) - first >= _PATIENCE


def _mute(scene: Scene, culprit: Culprit) -> list[Event]:
    """Return the end of a culprit that says nothing itself and ended with a code of its own: what it was is not known."""
    own = {
        event.rank
        for event in scene.failing
        if event.role == "cascade" and (event.hit.about is None or event.id.startswith("network."))
    }
    ends = ("exit.error",) if scene.waited or scene.differed else ("exit.error", "exit.terminated")
    asked = stopped(scene)  # one that a launcher stopped with the rest had begun it in another way
    return [
        event
        for event in scene.failing
        if event.id in ends
        and event.rank in culprit.ranks
        and event.rank not in own
        and not (event.id == "exit.terminated" and event.rank in asked)
    ]


def _only_failed(scene: Scene, event: Event) -> bool:
    """Return whether all that is known of a rank is the code that Python gives to whatever was raised, so that others say more."""
    told = [
        one for one in scene.case.endings if one.code and scene.case.people.rank_of(one.about, one.file) == event.rank
    ]
    return event.id == "exit.error" and bool(told) and all(one.code == 1 for one in told)


def _of_ranks(symptoms: Sequence[Event]) -> Sequence[Event]:
    """Return the symptoms without a launcher's word that something ended, where others tell of what: it is nobody's own."""
    told = [event for event in symptoms if event.rank is not None or event.category not in ("other", "none")]
    return told if _named(told) else symptoms


def _named(symptoms: Sequence[Event]) -> bool:
    return any(event.category not in ("other", "none") for event in symptoms)


def _symptom(scene: Scene, culprit: Culprit, events: Sequence[Event]) -> Category | None:
    """Return the category that most ranks complain of."""
    counts: dict[Category, int] = {}
    for event in events:
        if event.category not in ("none", "other"):
            counts[event.category] = counts.get(event.category, 0) + 1
    if not counts:
        return "other" if events else None
    return max(counts, key=lambda category: counts[category])


def rank_in_order(event: Event, culprit: Culprit) -> tuple[bool, ...]:
    """Return how much an event decides: on the culprit, by more than its end, by a signature; False comes first.

    Of exceptions that no signature took, memory that ran out decides: what lacks it breaks in other ways as well.
    """
    return (
        bool(culprit.ranks) and event.rank not in culprit.ranks and event.rank is not None,
        event.id in DIED and event.category in ("other", "none"),
        not event.specific,
        not event.specific and event.category != "oom",
        event.category in ("other", "none"),
        event.id.startswith(("end.", "exit.")),
    )


def _leading(events: Sequence[Event], culprit: Culprit) -> Event | None:
    """Return the event that decides: a specific one on the culprit, the earliest of those."""
    found: Event | None = None
    for event in events:
        if found is None:
            found = event
            continue
        mine, theirs = rank_in_order(event, culprit), rank_in_order(found, culprit)
        if _supersedes(found, event) and found.rank != event.rank:
            continue
        if mine < theirs or _supersedes(event, found) or (mine == theirs and before(event, found)):
            found = event
    return found


def _supersedes(one: Event, other: Event) -> bool:
    """Return whether one says all that the other does, of the same rank or of one that its line does not name."""
    return (
        one.signature is not None
        and other.id in one.signature.supersedes
        and (other.rank == one.rank or other.rank is None)
    )


def _together(roots: Sequence[Event], leading: Event | None, culprit: Culprit) -> list[Event]:
    """Return the root events that count: the leading one, and others that nothing sets aside."""
    if leading is None:
        return []
    kept = [leading]
    for event in roots:
        if len(kept) >= _OFTEN or event is leading or event.id in {one.id for one in kept}:
            continue
        if rank_in_order(event, culprit) <= rank_in_order(leading, culprit) and not _supersedes(leading, event):
            kept.append(event)
    return kept


def _causes(events: Sequence[Event], scene: Scene) -> tuple[Hypothesis, ...]:
    """Return the causes of the events as hypotheses that add up to 1 with something else."""
    if not events:
        return ()
    chances: dict[str, float] = {}
    about: dict[str, tuple[str, Category, tuple[str, ...], list[Reason]]] = {}
    for index, event in enumerate(events):
        share = 0.5**index * (1.0 if event.specific else 0.4)
        reason = Reason(text=event.title, weight=round(share, 3), quotes=(scene.case.quote(event.hit),))
        for cause, title, prior, category, tells in _of(event):
            chances[cause] = chances.get(cause, 0.0) + share * prior
            about.setdefault(cause, (title, category, tells, []))[3].append(reason)
    total = sum(chances.values())
    left = _REST[events[0].specific]
    found = [
        Hypothesis(cause=cause, title=about[cause][0], category=about[cause][1], reasons=tuple(about[cause][3]),
                   probability=(1 - left) * chance / total, discriminated_by=about[cause][2])
        for cause, chance in chances.items()
    ]  # fmt: skip
    found.sort(key=lambda one: -one.probability)
    rest = Hypothesis(cause=SOMETHING_ELSE, title="something that no signature names", category="other",
                      probability=left)  # fmt: skip
    return (*found, rest)


def _of(event: Event) -> list[tuple[str, str, float, Category, tuple[str, ...]]]:
    """Return the causes of an event: id, title, prior, category, what tells them from each other."""
    signature = event.signature
    if signature is None or not signature.causes:
        return [(event.id, event.title, 1.0, event.category, ())]
    known = sum(cause.prior for cause in signature.causes)
    found = [
        (cause.id, cause.title, cause.prior, cause.category or event.category, cause.discriminated_by)
        for cause in signature.causes
    ]
    if known < 0.999:
        found.append((event.id, f"{event.title}, for another reason", 1.0 - known, event.category, ()))
    return found


def _category_of(hypotheses: Sequence[Hypothesis]) -> tuple[Category, float]:
    """Return the likeliest category and its probability."""
    sums: dict[Category, float] = {}
    for one in hypotheses:
        if one.cause != SOMETHING_ELSE:
            sums[one.category] = sums.get(one.category, 0.0) + one.probability
    if not sums:
        return "cannot-tell", 0.0
    category = max(sums, key=lambda name: sums[name])
    return category, sums[category]
