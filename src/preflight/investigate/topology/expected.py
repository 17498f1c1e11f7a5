"""How the cards of a node are connected, as ``nvidia-smi topo -m`` tells it."""

from __future__ import annotations

import re

from preflight.investigate.topology.effects import Pair

BETTER = ("NV", "PIX", "PXB", "PHB", "NODE", "SYS")
"""From the best to the worst: NVLink, one PCIe switch, several, the host bridge, the same NUMA node, across sockets."""


def kinds(text: str) -> dict[Pair, str]:
    """Return the kind of connection between cards, by pair of their numbers, from the matrix."""
    clean = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line.split() for line in clean.splitlines()]
    head = next((line for line in lines if line[:1] == ["GPU0"] and (len(line) < 2 or line[1] != "X")), None)
    if head is None:
        return {}
    columns = [word for word in head if re.fullmatch(r"GPU\d+", word)]
    found = {}
    for line in lines:
        name = re.fullmatch(r"GPU(\d+)", line[0]) if line else None
        if name is None or line is head:
            continue
        for column, cell in zip(columns, line[1:], strict=False):
            a, b = int(name[1]), int(column[3:])
            if a < b and cell.startswith(BETTER):
                found[(a, b)] = cell
    return found


def unequal(found: dict[Pair, str]) -> list[str]:
    """Return cards whose best connection to any other is of a worse kind than that of most, each in a sentence."""
    best: dict[int, int] = {}
    for pair, kind in found.items():
        place = next(index for index, name in enumerate(BETTER) if kind.startswith(name))
        for card in pair:
            best[card] = min(best.get(card, len(BETTER)), place)
    if len(best) < 3:
        return []
    usual = sorted(best.values())[len(best) // 2]
    return [
        f"card {card} reaches no other better than over {BETTER[place]}, the others do over {BETTER[usual]}"
        for card, place in sorted(best.items())
        if place > usual
    ]
