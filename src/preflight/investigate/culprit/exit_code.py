"""How the processes ended: a signal from the kernel tells of a cause, one from the launcher of a victim."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from preflight.investigate.course.endings import died, signal_of
from preflight.investigate.course.interrupted import interrupts_in
from preflight.investigate.culprit.left_early import said_its_end
from preflight.investigate.culprit.vote import Scene, Vote, speaks_for_itself, tells_of_others
from preflight.vocabulary.incident import Quote
from preflight.vocabulary.log import Ending

_FATAL = {9: "killed", 11: "segmentation fault", 7: "bus error", 4: "illegal instruction", 8: "arithmetic fault"}
_OF_ITS_OWN = {
    5: "trap",
    14: "its alarm clock",
    24: "its limit of processor time",
    25: "its limit of file size",
    31: "bad system call",
}
_ABORTED = 6
# Watchdogs of collectives end their process this way, too, as a rule after they have said for whom they waited.
_OF_AN_ABORT = 0.5
_FAULTS = (4, 7, 8, 11)
_ASKED = (15, 2, 1)
_NUMBERS = {"SIGTERM": 15, "SIGINT": 2, "SIGHUP": 1}
_OF_STEPS = (
    "elastic.slurm-task-failure",
    "preemption.slurm-cancelled",
    "preemption.slurm-preempted",
    "preemption.slurm-time-limit",
    "preemption.srun-terminating",
)
"""What Slurm says where it ends a whole step."""
FEWEST = 3
FEW = 2
AT_ONCE = 1.0
# These say of the first process that they see end with an error that it did, and then stop the others.
_TELL_THE_FIRST = ("torchrun", "composer", "spawn", "mpi", "engine", "ray", "paddle")
# Where calls did not fit together, the one whose call it was is, now and then, still alive and is stopped with the rest.
_OF_DIFFERING = 0.25
_OF_A_VICTIM = 0.25


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote by exit code: against those that were asked to stop, for those that the kernel or their own error ended."""
    firsts = first_seen(scene)
    closed = _closed(scene)
    in_vain = scene.waited
    # The one for which others waited until a limit is alive, and is always stopped with the rest.
    spared = 0.0 if in_vain else _OF_DIFFERING if scene.differed else 1.0
    innocent = {event.rank for event in scene.roots() if speaks_for_itself(event)}
    victims = {event.rank for event in scene.failing if tells_of_others(event) and event.hit.about is None} - innocent
    interrupted = len({event.rank for event in interrupts_in(scene.failing) if event.rank is not None})
    asked: dict[int, tuple[str, tuple[Quote, ...]]] = {}
    crashed = crashed_alike(scene)
    for rank, ending in _codes(scene).items():
        if rank in crashed:
            continue  # all of them did: none is told from the others by it
        code, quotes = ending.code or 0, _quote(scene, ending)
        signal = signal_of(code)
        if signal == 9 and killed_with_its_step(scene, ending):
            asked[rank] = ("was killed with its step, behind a task that had ended by itself", quotes)
        elif signal in _FATAL and not (signal == 9 and in_vain):
            text = f"ended by signal {signal} ({_FATAL[signal]}), which no launcher sends first" if signal != 9 else (
                "killed by signal 9: out of host memory, or by hand or scheduler"
            )  # fmt: skip
            yield Vote(kind="exit-signal", rank=rank, text=text, quotes=quotes)
        elif signal == _ABORTED and _alone(ending, rank, firsts) and not (rank in victims or in_vain or scene.differed):
            text = "aborted itself (signal 6), and tells of no other rank"
            yield Vote(kind="exit-signal", rank=rank, strength=_OF_AN_ABORT, text=text, quotes=quotes)
        elif signal in _OF_ITS_OWN:
            text = f"ended by signal {signal} ({_OF_ITS_OWN[signal]}), which no launcher sends"
            yield Vote(kind="exit-signal", rank=rank, text=text, quotes=quotes)
        elif signal in _ASKED and interrupted > 1:
            continue  # several were: who sent it sent it to all of them
        elif (
            signal in _ASKED
            and rank not in closed
            and (rank in firsts or not _sent_by_launcher(scene, signal) or _ended_before_others(scene, ending))
        ):
            text = f"was ended by signal {signal}, which its launcher had not sent"
            yield Vote(kind="exit-signal", rank=rank, text=text, quotes=quotes)
        elif signal in _ASKED:
            asked[rank] = ("was asked to stop by its launcher", quotes)
        elif signal is None and code > 0:
            # Who only tells of others ends with an error as well.
            unsaid = code == 1 and scene.differed  # calls did not fit together: one of them says so, and both end so
            if rank in victims and in_vain:
                continue  # who gave up waiting first had waited for longest
            if ending.teller == "process" and code == 1:
                continue  # so ends each that raises something, and what it raised says more
            strength = _OF_A_VICTIM if rank in victims or unsaid else 1.0
            yield Vote(
                kind="exit-error", rank=rank, strength=strength, text=f"ended with exit code {code}", quotes=quotes
            )
    yield from _of_a_node(scene)
    for rank, quotes in closed.items():
        asked.setdefault(rank, ("was still alive when its launcher stopped it", quotes))
    yield from _left_over(scene, asked)
    gone = said_its_end(scene) if asked else {}  # it had left the others before its process was asked to stop
    for rank, (text, quotes) in asked.items():
        if rank not in innocent and rank not in gone and spared:
            yield Vote(kind="exit-asked", rank=rank, strength=spared, text=text, quotes=quotes)
    for rank, ending in firsts.items():
        if rank not in closed and not in_vain and not scene.differed and rank not in crashed:
            text = "is the first of its node whose end its agent saw"
            # Where several name causes, what they say counts, and not in which order an agent looked at them; and one that
            # only tells of others was the first to be seen, not the first to fail.
            less = len(innocent) > 1 or rank in victims or _at_once(scene, rank, ending)
            strength = (0.25 if less else 1.0) / len(firsts)
            yield Vote(kind="agent-first", rank=rank, strength=strength, text=text, quotes=_quote(scene, ending))


def _of_a_node(scene: Scene) -> Iterator[Vote]:
    """Vote for the only node of which a process was ended by a signal that no launcher sends first, where nothing tells its rank."""
    people = scene.case.people
    struck: dict[str, tuple[int, Ending]] = {}
    for ending in scene.case.endings:
        signal, node = signal_of(ending.code or 0), ending.about.node
        nameless = node is not None and people.rank_of(ending.about, ending.file) is None
        if nameless and signal in _FATAL and not (signal == 9 and scene.waited):
            struck.setdefault(str(node), (signal, ending))
    others = {one.about.node for one in scene.case.endings if one.code} - {None, *struck}
    if len(struck) == 1 and others:
        node, (signal, ending) = struck.popitem()
        yield Vote(kind="exit-signal", node=node, quotes=_quote(scene, ending),
                   text=f"a process of it was ended by signal {signal} ({_FATAL[signal]}), and those of other nodes by an error")  # fmt: skip


def _sent_by_launcher(scene: Scene, signal: int) -> bool:
    """Return whether a launcher may have sent a signal: where it names the one that it sends, it sent no other one."""
    named = [event.hit.fields.get("signal") for event in scene.failing if event.id == "elastic.closing"]
    return not named or any(not isinstance(name, str) or _NUMBERS.get(name, signal) == signal for name in named)


def _ended_before_others(scene: Scene, ending: Ending) -> bool:
    """Return whether a scheduler tells of an end before it tells of any other, and of others that failed by themselves behind it.

    One that stops tasks because another one failed tells of that one first, and says that it ends the step.
    """
    if ending.teller != "slurm" or any(event.id in _OF_STEPS for event in scene.case.events):
        return False
    others = [one for one in scene.case.endings if one.teller == "slurm" and one.about != ending.about]
    behind = all(one.file == ending.file and (one.line or 0) > (ending.line or 0) for one in others)
    return behind and any((one.code or 0) > 0 for one in others)


def _alone(ending: Ending, rank: int, firsts: Mapping[int, Ending]) -> bool:
    """Return whether an abort is a word of its own: an agent that names the first to end has said so, and MPI names no other.

    Who aborted long behind another that did so has it from that one.
    """
    behind = any(
        first.file == ending.file
        and None not in (first.time, ending.time)
        and (ending.time or 0.0) - (first.time or 0.0) > AT_ONCE
        and signal_of(first.code or 0) == _ABORTED
        for first in firsts.values()
    )
    return (rank not in firsts and not behind) or ending.teller == "mpi"


def killed_with_its_step(scene: Scene, ending: Ending) -> bool:
    """Return whether a scheduler killed a task that did not stop when asked, after another one of its step had ended with an error."""
    return ending.teller == "slurm" and any(
        one.teller == "slurm"
        and one.file == ending.file
        and (one.code or 0) > 0
        and (one.line or 0) < (ending.line or 0)
        for one in scene.case.endings
    )


def crashed_alike(scene: Scene) -> frozenset[int]:
    """Return all ranks where each of them was ended by the same fault in native code: what they run is at fault, and none of them.

    An abort counts as one where they ended at once and none of them says why: who waits for others aborts as well, and says so.
    """
    by: dict[int, set[int]] = {}
    codes = _codes(scene)
    for rank, ending in codes.items():
        by.setdefault(signal_of(ending.code or 0) or 0, set()).add(rank)
    everybody = set(scene.case.people.ranks())
    alike = (_ABORTED, *_FAULTS) if _mute_at_once(scene, codes) else _FAULTS
    return next((frozenset(ranks) for signal, ranks in by.items() if signal in alike and len(ranks) > 1 and ranks >= everybody),
                frozenset())  # fmt: skip


def aborted(scene: Scene, ranks: Collection[int]) -> bool:
    """Return whether any of some ranks is known to have aborted itself."""
    return any(signal_of(ending.code or 0) == _ABORTED for rank, ending in _codes(scene).items() if rank in ranks)


def _mute_at_once(scene: Scene, codes: Mapping[int, Ending]) -> bool:
    """Return whether ranks ended in the same second, as far as it is told, and none of them says a word of its own of a failure."""
    times = [ending.time for ending in codes.values() if ending.time is not None]
    own = any(event.rank is not None and event.hit.about is None and event.role in ("root", "cascade")
              and not event.id.startswith(("exit.", "end.")) for event in scene.failing)  # fmt: skip
    return not own and max(times, default=0.0) - min(times, default=0.0) < AT_ONCE


def _left_over(scene: Scene, asked: Mapping[int, tuple[str, tuple[Quote, ...]]]) -> Iterator[Vote]:
    """Vote for the one or two of a step that its scheduler did not have to stop, where it says so of all the others."""
    failed = any(event.id == "elastic.slurm-task-failure" for event in scene.case.events)
    if not failed and any(event.category == "preemption" and event.role != "cascade" for event in scene.failing):
        return  # the time was up for all of them, and who is not named had stopped by itself
    told = {ending.about.rank for ending in scene.case.endings if ending.teller == "slurm" and ending.code is not None}
    left = [rank for rank in scene.case.people.ranks() if rank not in told]
    if len(asked) < FEWEST or not set(asked) <= told or not 0 < len(left) <= FEW:
        return
    for rank in left:
        yield Vote(kind="accused", rank=rank, strength=1.0 / len(left), quotes=next(iter(asked.values()))[1],
                   text=f"is not among the {len(asked)} that its scheduler had to stop")  # fmt: skip


def _at_once(scene: Scene, rank: int, first: Ending) -> bool:
    """Return whether several ended alike by the time an agent looked, which then names the lowest of them as the first."""
    codes = _codes(scene)
    alike = [
        other
        for other, ending in codes.items()
        if ending.file == first.file and ending.code == first.code and _same_second(ending.time, first.time)
    ]
    return len(alike) > 1 and rank == min(alike)


def _same_second(one: float | None, other: float | None) -> bool:
    # The one that a table names as the first is read as half a second earlier than those beside it.
    return one == other if one is None or other is None else abs(one - other) < 1.0


def _codes(scene: Scene) -> dict[int, Ending]:
    people = scene.case.people
    codes: dict[int, Ending] = {}
    for ending in scene.case.endings:
        rank = people.rank_of(ending.about, ending.file)
        if rank is not None and ending.code is not None and (rank not in codes or codes[rank].code == 0):
            codes[rank] = ending
    return codes


def by_themselves(scene: Scene) -> list[int]:
    """Return the tasks that a scheduler saw end with an error of their own, in the order in which it tells of them."""
    people = scene.case.people
    told = [one for one in scene.case.endings if one.teller == "slurm" and (one.code or 0) > 0]
    ranks = (
        people.rank_of(one.about, one.file) for one in sorted(told, key=lambda one: (one.file or 0, one.line or 0))
    )
    return [rank for rank in ranks if rank is not None]


def first_seen(scene: Scene) -> dict[int, Ending]:
    """Return the rank that each agent says it saw fail first, with what it says."""
    firsts: dict[int | None, Ending] = {}
    for ending in scene.case.endings:
        if ending.teller not in _TELL_THE_FIRST or not (ending.code or died(ending)):
            continue
        known = firsts.get(ending.file)
        if known is None or _sooner(ending, known):
            firsts[ending.file] = ending
    people = scene.case.people
    found = {people.rank_of(ending.about, ending.file): ending for ending in firsts.values()}
    return {rank: ending for rank, ending in found.items() if rank is not None}


def _sooner(ending: Ending, known: Ending) -> bool:
    if ending.time is not None and known.time is not None and ending.time != known.time:
        return ending.time < known.time
    of_tables = ending.teller == "torchrun" and None not in (ending.about.rank, known.about.rank)
    if of_tables and (ending.time is None) != (known.time is None):
        return ending.time is not None  # a table names none as the first of whose entry a cut left the end alone
    # The table is printed last, its root cause behind the others.
    return ending.line == known.line or (ending.line or 0) < (known.line or 0)


def _closed(scene: Scene) -> dict[int, tuple[Quote, ...]]:
    """Return the ranks that a launcher says it is stopping; where it names processes alone, all of its node may be meant."""
    found: dict[int, tuple[Quote, ...]] = {}
    nameless: dict[str, list[Quote]] = {}
    for event in scene.failing:
        if event.role != "teardown" or "clos" not in event.id:
            continue
        quote = scene.case.quote(event.hit)
        if event.rank is not None:
            found[event.rank] = (quote,)
        elif event.node is not None:
            nameless.setdefault(event.node, []).append(quote)
    for node, quotes in nameless.items():
        ranks = scene.case.people.of_node(node)
        if ranks and len(quotes) >= len(ranks):
            found.update(dict.fromkeys(ranks, (quotes[0],)))
    return found


def stopped(scene: Scene) -> set[int]:
    """Return the ranks that a launcher says it is stopping."""
    return set(_closed(scene))


def _quote(scene: Scene, ending: Ending) -> tuple[Quote, ...]:
    if ending.file is None or ending.line is None:
        return ()
    text = (ending.message or "").split("\n", 1)[0] or f"exit code {ending.code} ({ending.teller})"
    return (Quote(scene.case.path(ending.file), ending.line, text),)
