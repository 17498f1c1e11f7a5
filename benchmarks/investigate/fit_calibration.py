"""Fits how sure an answer is to labelled logs: for each ground of an answer, pooled adjacent violators, drawn to its middle.

    python benchmarks/investigate/fit_calibration.py FOLDER...

The signatures were widened on the same logs, so that their share of right answers is too good: each pool counts as if it
held ``CAUTION`` further answers, of which ``PLAIN`` were right.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import judge_logs

import preflight.investigate.judge as judging

CAUTION = 16.0
PLAIN = 0.65
# What a signal that nobody explains is labelled is a convention, and does not tell how often it holds: the priors stand.
UNFITTED = ("nothing", "signal")
WRITTEN = Path(judging.__file__).parent / "calibration.toml"
HEAD = (
    "# benchmarks/investigate/fit_calibration.py wrote these points: probability of the judgement, and the share that was right.\n"
    'sources = ["benchmarks/investigate/corpus.json, split development"]\n\n'
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


def main(arguments: Sequence[str]) -> int:
    """Fit to a folder of labelled logs, and write the points."""
    if not arguments:
        print("give folders of labelled logs", file=sys.stderr)
        return 2
    found: list[tuple[str, float]] = []

    def kept(ground: str, probability: float) -> float:
        found.append((ground, probability))
        return probability

    judging.calibrated = kept  # type: ignore[assignment]
    told: dict[str, list[tuple[float, bool]]] = {}
    for case in [case for folder in arguments for case in judge_logs.cases_of(Path(folder))]:
        found.clear()
        answer = judge_logs.answer_of(case)
        if found and found[-1][0] not in UNFITTED:
            ground, probability = found[-1]
            told.setdefault(ground, []).append((probability, answer.category == case.category))
    lines = []
    for ground, answers in sorted(told.items()):
        points = ", ".join(f"[{before}, {after}]" for before, after in pooled(answers))
        lines.append(f"# {sum(right for _, right in answers)} of {len(answers)} were right.\n{ground} = [{points}]\n")
    WRITTEN.write_text(HEAD + "".join(lines), encoding="utf-8")
    print("".join(lines), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
