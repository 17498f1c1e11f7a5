"""Who meets whom, and when: a round-robin tournament by the circle method."""

from __future__ import annotations

from collections.abc import Sequence

Pair = tuple[int, int]


def tournament(players: Sequence[int]) -> list[list[Pair]]:
    """Return rounds in which everybody meets another one, so that after the last all have met all, once.

    Of n players (or n - 1 and somebody who sits out) there are n - 1 rounds of n / 2 pairs: one player stays, the others
    move on by one seat around the table after each round.
    """
    seats: list[int | None] = list(players)
    if len(seats) % 2:
        seats.append(None)
    rounds = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        facing = zip(seats[:half], reversed(seats[half:]), strict=True)
        rounds.append([(min(a, b), max(a, b)) for a, b in facing if a is not None and b is not None])
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return rounds


def sampled(nodes: dict[int, str], most: int) -> list[list[Pair]]:
    """Return rounds for ranks by node: all pairs where that takes at most so many rounds, else so many rounds of them.

    The first rounds left are taken from all over the tournament, evenly, so that each rank still meets as many others.
    """
    rounds = tournament(sorted(nodes))
    if len(rounds) <= most:
        return rounds
    return [rounds[index * len(rounds) // most] for index in range(most)]
