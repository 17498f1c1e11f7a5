"""Trace folders of small trainings, written without running anything."""

from __future__ import annotations

from pathlib import Path

from ..rows import begin, end
from ..traces import Row, row, write


def training(folder: Path, seed: int = 0, world: int = 1, iterations: int = 12, apart_at: int | None = None) -> Path:
    """A training of one weight on some ranks, which hold the same unless they part at an iteration."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(world):
        blocks: list[list[Row]] = [[("begin", begin(0, rank, world, 100 + rank, wall=1000.0 + seed)), _variable(world)]]
        for i in range(iterations):
            apart = apart_at is not None and i >= apart_at and rank > 0
            blocks.append(_iteration(i, seed + 1000 * apart))
        blocks.append([("end", end(100 * iterations + 99, iterations))])
        write(folder, f"rank-{rank:05d}.{100 + rank}.trace", *blocks)
    return folder


def _variable(world: int) -> Row:
    spread = {"kind": "replicated", "ranks": list(range(world))} if world > 1 else None
    what = (1, 0, 0, "model.weight", "parameter", "model", "Linear", "float32", [4, 4], "cpu", True, 16, 0, 0, -1)
    return "variable", (*what, spread)


def _iteration(i: int, seed: int) -> list[Row]:
    q = 100 * i + 10
    calls = ((1, "zero_grad", "optimizer0:SGD"), (2, "forward", "model"), (3, "backward", ""))
    rows = [_call(q + at, i, name, subject) for at, name, subject in calls]
    rows.append(_state(q + 4, i, "before_step", "gradient", 0.5, None))
    rows.append(_state(q + 5, i, "before_step", "parameter", 1.0 + seed + i, 7 * seed + i))
    rows.append(_call(q + 6, i, "step", "optimizer0:SGD", q + 7))
    rows.append(_state(q + 8, i, "after_step", "parameter", 2.0 + seed + i, 7 * seed + i + 1))
    rows.append(row("iteration", q=q + 9, t=q + 9, i=i, s=i + 1))
    return rows


def _state(q: int, i: int, moment: str, what: str, norm: float, bits: int | None) -> Row:
    level = "norm" if bits is None else "exact"
    held = {"ids": [0], "norm": [norm], "bits": None if bits is None else [bits]}
    return row("state", q=q, t=q, i=i, s=i, moment=moment, what=what, level=level, **held)


def _call(q: int, i: int, name: str, subject: str, e: int | None = None) -> Row:
    times = {"q": q, "e": q if e is None else e, "t": q, "d": 1, "i": i, "s": i}
    return "call", (*times.values(), name, subject, -1, 1, "train.py:9", "train,grad", None, None, None)
