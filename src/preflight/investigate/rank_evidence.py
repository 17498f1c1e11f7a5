"""What a source of evidence says of one rank, and how ranks are written."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from preflight.vocabulary.incident import Reason


class RankEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What speaks for and against one rank.

    Attributes:
        rank: The rank.
        weight: Sum of the weights of the reasons.
        share: How much of the others' waiting ends at it, 0 to 1; 0 where that was not looked at.
        reasons: The weightiest first; a weight is the natural logarithm of the likelihood ratio of "this rank began it".
        node: Its node, where the source tells it.
    """

    rank: int
    weight: float
    share: float = 0.0
    reasons: tuple[Reason, ...] = ()
    node: str | None = None


def ranks_written(ranks: Sequence[int]) -> str:
    """Write ranks shortly: ``ranks 0-3, 7``."""
    if not ranks:
        return "no rank"
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    words = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"rank{'' if len(ranks) == 1 else 's'} {', '.join(words)}"


def evidence_of(reasons: dict[int, list[Reason]], shares: dict[int, float] | None = None) -> tuple[RankEvidence, ...]:
    """Add the reasons of each rank up, the rank that most speaks for first."""
    evidence = [
        RankEvidence(
            rank=rank,
            weight=round(sum(one.weight for one in of_rank), 3),
            share=round((shares or {}).get(rank, 0.0), 3),
            reasons=tuple(sorted(of_rank, key=lambda one: -abs(one.weight))),
        )
        for rank, of_rank in reasons.items()
        if of_rank
    ]
    return tuple(sorted(evidence, key=lambda one: (-one.weight, one.rank)))
