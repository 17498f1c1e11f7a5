"""Fits how sure an answer is to answers at first sight: for each ground, pooled adjacent violators, drawn to the middle.

    python benchmarks/investigate/fit_calibration.py
    python benchmarks/investigate/fit_calibration.py --record FILE

Logs that were mended for say little of how sure an answer is on one that nobody has seen: only what was said of a log before
anything was mended for it counts. Those answers stand in ``first_sight.json``; ``--record`` adds what ``judge_logs.py --json``
wrote when it saw logs for the first time, with the ground and the probability of that moment. A pool of few answers counts as
if it held ``CAUTION`` further ones, of which ``PLAIN`` were right: the share of all.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import preflight.investigate.judge as judging

CAUTION = 4.0
PLAIN = 0.8
# What a signal that nobody explains is labelled is a convention, and does not tell how often it holds: the priors stand.
UNFITTED = ("nothing", "signal")
SEEN = Path(__file__).resolve().parent / "first_sight.json"
WRITTEN = Path(judging.__file__).parent / "calibration.toml"
HEAD = (
    "# benchmarks/investigate/fit_calibration.py wrote these points: probability of the judgement, and the share that was right.\n"
    'sources = ["benchmarks/investigate/first_sight.json"]\n\n'
    "[points]\n"
)


def pooled(told: Sequence[tuple[float, bool]]) -> list[tuple[float, float]]:
    """Return points that never fall: middle of the probabilities of a pool, and its cautious share of right answers."""
    alike: dict[float, list[bool]] = {}
    for probability, right in told:
        alike.setdefault(round(probability, 3), []).append(right)
    pools: list[tuple[float, float, float]] = []
    for probability, rights in sorted(alike.items()):
        pools.append((probability * len(rights), float(sum(rights)), float(len(rights))))
        while len(pools) > 1 and pools[-2][1] / pools[-2][2] >= pools[-1][1] / pools[-1][2]:
            above, below = pools.pop(), pools.pop()
            pools.append((below[0] + above[0], below[1] + above[1], below[2] + above[2]))
    points = [(total / size, (hits + CAUTION * PLAIN) / (size + CAUTION)) for total, hits, size in pools]
    rising: list[tuple[float, float]] = []
    for point in points:
        low = max((share for _, share in rising), default=0.0)
        rising.append((round(point[0], 3), round(max(low, point[1]), 3)))
    return rising


def rows_of(answers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what counts of answers as ``judge_logs.py --json`` wrote them: ground, probability, and whether it was right."""
    return [
        {"name": one["name"], "ground": one["ground"], "probability": round(one["probability"], 4),
         "right": one["answer"] == one["label"]}
        for one in answers
        if one["ground"] is not None
    ]  # fmt: skip


def record(answers: Path) -> None:
    """Add answers to those at first sight; what was said of a log first stays."""
    rows = {row["name"]: row for row in rows_of(json.loads(answers.read_text(encoding="utf-8")))}
    rows.update((row["name"], row) for row in (json.loads(SEEN.read_text(encoding="utf-8")) if SEEN.exists() else []))
    lines = ",\n ".join(json.dumps(row) for _, row in sorted(rows.items()))
    SEEN.write_text(f"[\n {lines}\n]\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Record answers, or fit to those recorded and write the points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=Path, metavar="FILE")
    given = parser.parse_args(arguments)
    if given.record is not None:
        record(given.record)
        return 0
    told: dict[str, list[tuple[float, bool]]] = {}
    for row in json.loads(SEEN.read_text(encoding="utf-8")):
        if row["ground"] not in UNFITTED:
            told.setdefault(row["ground"], []).append((row["probability"], row["right"]))
    lines = []
    for ground, answers in sorted(told.items()):
        points = ", ".join(f"[{before}, {after}]" for before, after in pooled(answers))
        lines.append(f"# {sum(right for _, right in answers)} of {len(answers)} were right.\n{ground} = [{points}]\n")
    WRITTEN.write_text(HEAD + "".join(lines), encoding="utf-8")
    print("".join(lines), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
