"""From votes to probabilities: who began it, and whether anybody in particular did."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from math import exp, log

from preflight.investigate.calibration import between
from preflight.investigate.culprit.exit_code import stopped
from preflight.investigate.culprit.groups import groups_of
from preflight.investigate.culprit.pairs import TELLS, cannot_be_told
from preflight.investigate.culprit.silence import missing_ranks, silent_ranks
from preflight.investigate.culprit.vote import Scene, Vote, before
from preflight.listing import modules_beside
from preflight.vocabulary.incident import Culprit, Reason, Suspect

_NOT_EVIDENCE = ("__init__.py", "vote.py", "groups.py", "pairs.py", "posterior.py")
NOBODY = None
# Below this the likeliest ranks are told as suspects and nobody is named.
NAMED = 0.4
# One that leads by so many times is named below that, too: ranks of which no line is there are many, and nothing points to them.
AHEAD = 5.0
AT_LEAST = 0.25
# What speaks for a rank no more than that, speaks for anybody: that it ended with an error, as those do who only tell of others.
LEAST = 0.25
# Ranks that are nearly as likely as the first one are named with it.
BESIDE = 0.6
# An exit code that those who only tell of others have as well.
_OF_ANYBODY = ("exit-error",)
# What a launcher alone tells: torchrun's first observed failure began it in 33 of 65 logs of several ranks that hold its table
# (benchmarks/investigate/README.md, and the made ones of incidents.md).
_OF_THE_AGENT = ("exit-error", "agent-first")
SEEN_FIRST = 0.51
# What the sizes of a ring alone tell, beside that: of two neighbours it was the named one in 3 of 7 made runs (same place).
_OF_A_RING = ("size-differs", *_OF_THE_AGENT)
OF_TWO_NEIGHBOURS = 0.5
# Ranks of a node that fail as one are named together, though one of them was seen first.
TOGETHER = 0.1
USUAL = 8
_SEVERAL = 3
# The weight from which the Flight Recorder alone says that a rank stopped.
SINK = 1.5
MOST_SUSPECTS = 16
# A hint that weighs less than this share of another takes nothing of what the other says, at however many ranks it points.
NEARLY = 0.5


def kinds() -> tuple[str, ...]:
    """Return the kinds of evidence: the files of this folder."""
    return modules_beside(__file__, but=_NOT_EVIDENCE)


@cache
def weights() -> dict[str, float]:
    """Return what each kind of vote weighs."""
    from preflight.catalog.files import parse

    content = parse(os.path.join(os.path.dirname(os.path.abspath(__file__)), "weights.toml"))
    return {name: float(value) for name, value in content["weights"].items()}


@cache
def _levels() -> tuple[tuple[float, float], ...]:
    from preflight.catalog.files import parse

    content = parse(os.path.join(os.path.dirname(os.path.abspath(__file__)), "weights.toml"))
    return tuple((float(before), float(after)) for before, after in content["confidence"]["points"])


def sure(probability: float) -> float:
    """Return how often a culprit of this probability was the right one, in made incidents."""
    return between(_levels(), probability)


def votes_of(scene: Scene) -> tuple[Vote, ...]:
    """Return the votes of all kinds of evidence."""
    return tuple(vote for kind in kinds() for vote in _of_kind(kind, scene))


def _of_kind(kind: str, scene: Scene) -> Iterator[Vote]:
    found: Iterable[Vote] = import_module(f"preflight.investigate.culprit.{kind}").votes(scene)
    yield from found


def _points(vote: Vote, table: Mapping[str, float]) -> bool:
    """Return whether a vote points to a rank."""
    return vote.rank is not None and table[vote.kind] * vote.strength > 0


def _pointed(votes: Sequence[Vote], table: Mapping[str, float]) -> dict[str, list[float]]:
    """Return the strengths of the votes of each kind that point to ranks, in order."""
    found: dict[str, list[float]] = {}
    for vote in votes:
        if _points(vote, table):
            found.setdefault(vote.kind, []).append(abs(vote.strength))
    return {kind: sorted(strengths) for kind, strengths in found.items()}


def posterior(scene: Scene, votes: Sequence[Vote]) -> dict[int | str | None, float]:
    """Return the probability that it was each rank, a node of which no rank is known, or nobody in particular (None)."""
    people, table = scene.case.people, weights()
    scores: dict[int | str | None, float] = dict.fromkeys(people.ranks(), 0.0)
    scores |= {node: 0.0 for node in people.nodes if not people.of_node(node)}
    # The weights are those of runs of eight ranks: what points to one of many says more, and as much more as there are ranks.
    more = log(max(len(scores), USUAL) / USUAL)
    scores[NOBODY] = table["nobody"] + more
    pointed = _pointed(votes, table)
    for vote in votes:
        weight = table[vote.kind] * vote.strength
        if _points(vote, table):
            beside = len(pointed[vote.kind]) - bisect_left(pointed[vote.kind], NEARLY * abs(vote.strength))
            weight += max(more - log(beside), 0.0) * min(abs(vote.strength), 1.0)
        if vote.rank is None and vote.node is None:
            scores[NOBODY] += weight
        elif vote.rank is not None:
            scores[vote.rank] = scores.get(vote.rank, 0.0) + weight
        else:
            for one in people.of_node(vote.node or "") or (vote.node,):
                scores[one] = scores.get(one, 0.0) + weight
    top = max(scores.values())
    likely = {who: exp(score - top) for who, score in scores.items()}
    total = sum(likely.values())
    return {who: one / total for who, one in likely.items()}


def culprit_of(scene: Scene) -> Culprit:
    """Return who began it, with the reasons."""
    votes = votes_of(scene)
    if not scene.failing and not votes:
        return Culprit(reason="nothing failed")
    chances = posterior(scene, votes)
    ordered = sorted(((p, who) for who, p in chances.items() if who is not NOBODY), key=lambda one: -one[0])
    suspects = tuple(_suspect(scene, votes, who, p) for p, who in ordered[:MOST_SUSPECTS] if p >= 0.01)
    nobody = chances.get(NOBODY, 0.0)
    common = tuple(_reason(vote) for vote in votes if vote.rank is None and vote.node is None)
    if not ordered:
        return Culprit(reason="the logs name no rank", reasons=common)
    if common and nobody >= ordered[0][0]:
        return Culprit(confidence=sure(nobody), suspects=suspects, reasons=common,
                       reason="nobody in particular: all ranks were hit by the same cause")  # fmt: skip
    if cannot_be_told(scene, [vote for vote in votes if _points(vote, weights())]):
        return Culprit(reason=TELLS, reasons=common)
    for_it = _for_it(votes, scene.case.people.ranks())
    named = [who for p, who in ordered if p >= BESIDE * ordered[0][0] and for_it.get(who, 1.0) > LEAST]
    beside = {
        *named,
        *_sinks(votes, chances, ordered),
        *_alike(scene, chances, ordered),
        *_struck(scene, votes, ordered),
    }
    named = _whole(scene, votes, chances, ordered[0][1]) or sorted(beside, key=str)
    share = sum(chances[who] for who in named)
    if not suspects or not named or not any(reason.weight > 0 for reason in suspects[0].reasons):
        return Culprit(suspects=suspects, reason="nothing in the logs points to a rank", reasons=common)
    leads = (share >= NAMED and share > nobody) or _leads(chances, ordered)
    if not leads or (
        len(_apart(scene, named, ordered[0][1])) > max(len(ordered) // 2, 1) and not _at_once(scene, named)
    ):
        return Culprit(confidence=share, suspects=suspects, reasons=suspects[0].reasons,
                       reason="several ranks are as likely as each other")  # fmt: skip
    ranks = tuple(sorted(who for who in named if isinstance(who, int)))
    nodes = {scene.case.people.node_of.get(rank) for rank in ranks} | {who for who in named if isinstance(who, str)}
    return Culprit(ranks=ranks, nodes=tuple(sorted(node for node in nodes if node)),
                   confidence=min(sure(share), _at_most(votes, named)),
                   one_of=_one_of(votes, ranks),
                   reasons=suspects[0].reasons, suspects=suspects)  # fmt: skip


def _at_most(votes: Sequence[Vote], named: Sequence[int | str]) -> float:
    """Return how sure one can be at most of those who are named, by the kinds of evidence that point to them.

    That a launcher saw them end with an error, and first, is little; so is that one of two neighbours in a ring got too much.
    """
    table = weights()
    pointing = {vote.kind for vote in votes if vote.rank in named and _points(vote, table)}
    if pointing and pointing <= set(_OF_THE_AGENT):
        return SEEN_FIRST
    return OF_TWO_NEIGHBOURS if pointing and pointing <= set(_OF_A_RING) and len(named) == 1 else 1.0


def _for_it(votes: Sequence[Vote], ranks: Sequence[int]) -> dict[int | str, float]:
    """Return how much speaks for each rank in all: one of which more speaks against it than for it is not named.

    That a rank only tells of others tells it from none where most ranks do so.
    """
    table = weights()
    found: dict[int | str, float] = {}
    for vote in votes:
        if vote.rank is not None:
            found[vote.rank] = found.get(vote.rank, 0.0) + table[vote.kind] * vote.strength
    victims = {vote.rank for vote in votes if vote.kind == "victim"}
    most = len(ranks) >= _SEVERAL and 2 * len(victims & set(ranks)) > len(ranks)
    return {who: weight - table["victim"] * (most and who in victims) for who, weight in found.items()}


def _one_of(votes: Sequence[Vote], ranks: Sequence[int]) -> bool:
    """Return whether it is one of several ranks: all that tells them from the others was seen of all of them alike.

    Where a rank ends, those beside it tell of it, and one that is farther away is stopped before it could say a word.
    """
    table = weights()
    telling = [vote for vote in votes if vote.rank in ranks and _points(vote, table) and vote.kind not in _OF_ANYBODY]
    return len(ranks) > 1 and bool(telling) and all(vote.shared for vote in telling)


def _leads(chances: Mapping[int | str | None, float], ordered: Sequence[tuple[float, int | str]]) -> bool:
    """Return whether one rank is likelier by far than every other one, and than that it was nobody in particular."""
    first = ordered[0][0]
    second = max(ordered[1][0] if len(ordered) > 1 else 0.0, chances.get(NOBODY, 0.0))
    return first >= AT_LEAST and first >= AHEAD * second


def _apart(scene: Scene, named: Sequence[int | str], first: int | str) -> list[int | str]:
    """Return who is told from the others: a rank of which no node is known may be on the one node that is named before it."""
    if isinstance(first, int) or sum(isinstance(who, str) for who in named) != 1:
        return list(named)
    return [who for who in named if isinstance(who, str) or who in scene.case.people.node_of]


def _at_once(scene: Scene, named: Sequence[int | str]) -> bool:
    """Return whether one line names all of these, as missing or as ended, and it is not one of them that printed it."""
    ended: dict[tuple[int | None, int | None], set[int | str]] = {}
    for ending in scene.case.endings:
        rank = scene.case.people.rank_of(ending.about, ending.file) if ending.code else None
        if rank is not None:
            ended.setdefault((ending.file, ending.line), set()).add(rank)
    return any(len(ranks) > 1 and ranks == set(named) for ranks in ended.values()) or any(
        len(event.accused) > 1 and set(event.accused) == set(named) and event.rank not in event.accused
        for event in scene.failing
    )


def _sinks(
    votes: Sequence[Vote], chances: Mapping[int | str | None, float], ordered: Sequence[tuple[float, int | str]]
) -> list[int | str]:
    """Return the ranks at which the waiting of others ends: more than one may have stopped at the same time."""
    ends: list[int | str] = [
        vote.rank for vote in votes if vote.kind == "flight" and vote.strength >= SINK and vote.rank is not None
    ]
    return [rank for rank in ends if chances.get(rank, 0.0) >= TOGETHER * ordered[0][0]]


def _struck(scene: Scene, votes: Sequence[Vote], ordered: Sequence[tuple[float, int | str]]) -> list[int | str]:
    """Return the few ranks that a signal ended which no launcher had sent, where the first suspect is one of them: all were struck."""
    struck = {vote.rank for vote in votes if vote.kind == "exit-signal" and vote.rank is not None} - stopped(scene)
    few = len(struck) * 2 <= len(scene.case.people.ranks())
    return sorted(struck) if few and ordered[0][1] in struck else []


def _alike(
    scene: Scene, chances: Mapping[int | str | None, float], ordered: Sequence[tuple[float, int | str]]
) -> list[int | str]:
    """Return the ranks that name the cause of the first suspect, as early as it: whose end was seen first is chance."""
    top, first = ordered[0]
    found: list[int | str] = []
    for group in groups_of(scene):
        mine = next((event for event in group.events if event.rank == first), None)
        if mine is None or not mine.specific or group.everybody:
            continue
        if mine.category == "environment":  # nobody has from another one what is not installed or set on its machine
            return [event.rank for event in group.events if event.rank is not None]
        beside = (event.rank for event in group.events if event.rank is not None and not before(mine, event))
        found += [rank for rank in beside if chances.get(rank, 0.0) >= TOGETHER * top]
    return found


def _whole(
    scene: Scene, votes: Sequence[Vote], chances: Mapping[int | str | None, float], first: int | str
) -> list[int | str]:
    """Return all ranks of the node of the first suspect where they fail, or fall silent, as one."""
    block = scene.case.people.block(first) if isinstance(first, int) else ()
    as_one = [set(scene.case.people.of_node(node)) for group in groups_of(scene) for node in group.nodes]
    as_one += [
        set(scene.case.people.of_node(vote.node))
        for vote in votes
        if vote.node and vote.rank is None and vote.kind == "accused"
    ]
    silent = set(silent_ranks(scene))
    if len(block) < 2 or not (set(block) in as_one or set(block) in (silent, set(missing_ranks(scene)))):
        return []
    return list(block) if all(chances.get(rank, 0.0) >= TOGETHER * chances[first] for rank in block) else []


def _suspect(scene: Scene, votes: Sequence[Vote], who: int | str | None, probability: float) -> Suspect:
    people = scene.case.people
    rank = who if isinstance(who, int) else None
    node = people.node_of.get(rank) if rank is not None else str(who)
    mine = [
        vote
        for vote in votes
        if (rank is not None and vote.rank == rank) or (vote.rank is None and vote.node and vote.node == node)
    ]
    reasons = sorted((_reason(vote) for vote in mine), key=lambda reason: -abs(reason.weight))
    return Suspect(rank=rank, node=node, probability=probability, reasons=tuple(reasons))


def _reason(vote: Vote) -> Reason:
    return Reason(text=vote.text, weight=round(weights()[vote.kind] * vote.strength, 3), quotes=vote.quotes)
