"""What recording costs where steps are tiny: rollouts, evaluations and closures of small networks, as ratios.

    python benchmarks/monitor/tiny_steps.py [--programs ppo dqn ...] [--rounds 30] [--warm 20]

Each program (`tiny_turns.py`) runs without the recorder, with it at `--budget 2`, and with two hooks on all modules that do
nothing, which is what any tool costs that hears of forward passes. They take turns, a turn being so many updates that it
takes some tenths of a second, and told is what `overhead.py` tells: medians of ratios of CPU time; and, since recording
pauses there and a few turns are dear, all turns together.
The turns that are left out have more than the first hundred updates, and what a young run is recorded in every detail
for.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

from overhead import Child, Cost, _recorded, show

PROGRAM = Path(__file__).resolve().parent / "tiny_turns.py"
UPDATES = {"ppo": 32, "dqn": 100, "reinforce": 8, "evaluated": 20, "gan": 50, "lbfgs": 10, "maml": 6}
"""Of each program, the updates of a turn."""
MODE = {"detail_young": 500, "grace": 0.0}


def measure(program: str, warm: int, rounds: int) -> None:
    """Run one program in all ways in turns, and print what came of it."""
    own = {**os.environ, "TINY_PROGRAM": program, "TINY_UPDATES": str(UPDATES[program])}
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        recorded = {**own, **_recorded(folder / "budget.trace", MODE, 3)}
        ways = {"plain": own, "budget": {**recorded, **{k: own[k] for k in ("TINY_PROGRAM", "TINY_UPDATES")}}}
        ways["hooks"] = {**own, "TINY_HOOKS": "1"}
        children = {name: Child([sys.executable, str(PROGRAM)], folder / name, ways[name]) for name in ways}
        costs: dict[str, list[Cost]] = {name: [] for name in children}
        order = random.Random(0)
        for number in range(warm + rounds):
            for name, child in order.sample(list(children.items()), len(children)):
                cost = child.turn()
                if number >= warm:
                    costs[name].append(cost)
        losses = {name: child.end() for name, child in children.items()}
        size = sum(file.stat().st_size for file in (folder / "budget.trace").iterdir())
    print(f"{(warm + rounds) * UPDATES[program]} updates, of which {warm * UPDATES[program]} are left out;", end=" ")
    show(program, costs, losses, {})
    for name in ways:
        if name != "plain":
            print(f"{name:10} in the mean of all turns: " + _mean(costs[name], costs["plain"]), end="; ")
    print(f"{size / 1e6:.2f} MB in all", flush=True)


def _mean(costs: list[Cost], plain: list[Cost]) -> str:
    """What all turns together took, beside those without the recorder: where it pauses, few turns are dear."""
    return ", ".join(
        f"{key} x{sum(one[key] for one in costs) / sum(one[key] for one in plain):.3f}" for key in ("main", "process")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="*", choices=list(UPDATES), default=list(UPDATES))
    parser.add_argument("--warm", type=int, default=20, help="turns before those that count")
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    for program in given.programs:
        measure(program, given.warm, given.rounds)


if __name__ == "__main__":
    main()
