"""Fits how sure a culprit is to how often culprits like it were right; the points stand in ``culprit/weights.toml``.

    python benchmarks/investigate/calibrate.py --seeds 1000 1120

Monotone regression (pool adjacent violators) with a prior of two answers, one of them wrong, in each
block, so that no block claims certainty.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import incidents

from preflight.investigate.culprit import posterior
from preflight.investigate.diagnose import diagnose

Pairs = list[tuple[float, bool]]


def monotone(pairs: Sequence[tuple[float, bool]], fewest: int = 8) -> list[tuple[float, float, int]]:
    """Return blocks of rising confidence: its mean, how often it was right, and how many answers."""
    blocks: list[list[float]] = []
    for raw, right in sorted(pairs):
        blocks.append([raw, float(right), 1.0])
        while len(blocks) > 1 and (
            blocks[-2][2] < fewest or blocks[-2][1] / blocks[-2][2] >= blocks[-1][1] / blocks[-1][2]
        ):
            raw_sum, rights, count = blocks.pop()
            blocks[-1] = [blocks[-1][0] + raw_sum, blocks[-1][1] + rights, blocks[-1][2] + count]
    return [(raw / count, (rights + 1.0) / (count + 2.0), int(count)) for raw, rights, count in blocks]


def of_seeds(first: int, last: int) -> Pairs:
    """Return confidence and rightness of the culprit for each made incident that names one."""
    pairs = []
    for seed in range(first, last):
        with tempfile.TemporaryDirectory() as folder:
            truth = incidents.make(seed, Path(folder))
            incident = diagnose(folder).incident
        if incident is not None and incident.culprit.ranks:
            pairs.append((incident.culprit.confidence, set(incident.culprit.ranks) == set(truth.culprits)))
    return pairs


def error(pairs: Sequence[tuple[float, bool]], bins: int = 10) -> float:
    """Return the expected calibration error."""
    found = 0.0
    for number in range(bins):
        inside = [
            (p, r) for p, r in pairs if number / bins <= p < (number + 1) / bins or (p == 1.0 and number == bins - 1)
        ]
        if inside:
            found += abs(sum(p - r for p, r in inside)) / len(pairs)
    return found


def main() -> None:
    """Print the points, or the error of those in force."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs=2, default=(1000, 1120))
    parser.add_argument("--as-it-is", action="store_true", help="judge the points in force instead of fitting new ones")
    given = parser.parse_args()
    if not given.as_it_is:
        posterior.sure = lambda probability: probability
    pairs = of_seeds(*given.seeds)
    print(f"{len(pairs)} answers, {sum(right for _, right in pairs)} right, error {error(pairs):.3f}")
    for before, right, count in monotone(pairs):
        print(f"  [{before:.3f}, {right:.3f}]  # {count}")


if __name__ == "__main__":
    main()
