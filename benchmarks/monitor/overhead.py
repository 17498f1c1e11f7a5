"""What recording costs: the same training with and without the recorder, taking turns, as ratios.

    python benchmarks/monitor/overhead.py [--rounds 60] [--model gpt|gpt-long|gpt-large] [--device cpu|cuda]
        [--modes default sampled unsampled api]

``gpt`` is the benchmark model of four layers and 0.8 M parameters on batches of 8 x 64 (steps of some 40 ms on a CPU);
``gpt-long`` the same on batches of 24 x 64 (steps above 100 ms); ``gpt-large`` has 24 layers and 302 M parameters on
batches of 8 x 512, for a GPU. An iteration on a GPU ends when the GPU has done it.
Two processes train without the recorder and one in each mode; in each round every one of them trains one iteration
while the others wait, so that what else the machine does meets all of them alike.
Told is the median over the rounds of a process's CPU time over the mean of the two plain ones in the same round, and the
plain ones are told as well: by as much as they differ from 1, runs that are the same differ on this machine, and no
smaller cost can be told from none.
Main-thread CPU time is what the training waits for; process CPU time has the writer's thread too; wall time is shown
as well. The first rounds are left out: they warm up, and in the default mode every detail is recorded in them.
What a process waits for its turn is no training: the cost controller does not see it, nor what reads the memory, and rows
are written at intervals that are as many times longer as there are processes, so that as many iterations share a block as
in a run by itself.

``--watch NAME COMMAND`` adds a run that another tool watches: the command that runs the training program ``{}``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "turns.py"
SIZES: dict[str, dict[str, int]] = {
    "gpt": {"BATCH": 8},
    "gpt-long": {"BATCH": 24},
    "gpt-large": {"BATCH": 8, "BLOCK": 512, "WIDTH": 1024, "HEADS": 16, "LAYERS": 24},
}
MODES: dict[str, dict[str, Any]] = {
    "default": {"detail_young": 500},
    "sampled": {"detail_first": 0, "detail_every": 10, "budget": 0},
    "unsampled": {"detail_every": 1, "detail_first": 10**9, "budget": 0},
    "api": {"detail_every": 1, "detail_first": 10**9, "budget": 0, "api": True},
}
PLAIN = ("plain", "again")
Cost = dict[str, float]


class Child:
    """A process that trains when it is asked to."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        folder.mkdir(parents=True)
        asked, answers = folder / "asked", folder / "answers"
        os.mkfifo(asked)
        os.mkfifo(answers)
        known = {**environment, "TURNS_IN": str(asked), "TURNS_OUT": str(answers)}
        self._log = open(folder / "log", "w+")  # noqa: SIM115
        self.process = subprocess.Popen(command, env=known, cwd=folder, stdout=self._log, stderr=subprocess.STDOUT)
        # Open at both ends, so that nobody waits for a program that has ended.
        self._answers = open(os.open(answers, os.O_RDWR))  # noqa: SIM115
        self._ask = open(os.open(asked, os.O_RDWR), "w")  # noqa: SIM115
        self._process = 0.0

    def turn(self) -> Cost:
        """Let it train for an iteration and return what that cost."""
        print("go", file=self._ask, flush=True)
        cost: Cost = json.loads(self._line())
        cost["process"], self._process = cost["process"] - self._process, cost["process"]
        return cost

    def end(self) -> str:
        """Let it end and return its last loss."""
        self._ask.close()
        loss = str(json.loads(self._line())["loss"])
        self.process.wait()
        return loss

    def _line(self) -> str:
        while not select.select([self._answers], [], [], 1.0)[0]:
            if self.process.poll() is not None:
                self._log.seek(0)
                raise SystemExit(f"a program ended early, with code {self.process.poll()}:\n{self._log.read()[-2000:]}")
        return self._answers.readline()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=list(SIZES), default="gpt")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--warm", type=int, default=10, help="rounds before those that count")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no round is begun")
    parser.add_argument("--modes", nargs="*", choices=list(MODES), default=list(MODES))
    parser.add_argument("--watch", nargs=2, action="append", default=[], metavar=("NAME", "COMMAND"))
    given = parser.parse_args()
    os.environ |= {"TURNS_DEVICE": given.device, "TURNS_SIZES": json.dumps(SIZES[given.model])}
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        children = {name: Child([sys.executable, str(PROGRAM)], folder / name, dict(os.environ)) for name in PLAIN}
        together = len(PLAIN) + len(given.modes) + len(given.watch)
        for mode in given.modes:
            environment = _recorded(folder / f"{mode}.trace", MODES[mode], together)
            children[mode] = Child([sys.executable, str(PROGRAM)], folder / mode, environment)
        for name, command in given.watch:
            watching = shlex.split(command.replace("{}", str(PROGRAM)))
            children[name] = Child(watching, folder / name, dict(os.environ))
        costs: dict[str, list[Cost]] = {name: [] for name in children}
        until = time.monotonic() + given.seconds
        order = random.Random(0)
        for number in range(given.warm + given.rounds):
            if time.monotonic() > until and number > given.warm + 2:
                break
            # Who goes after whom changes, so that none always finds the caches as the same other one left them.
            for name, child in order.sample(list(children.items()), len(children)):
                cost = child.turn()
                if number >= given.warm:
                    costs[name].append(cost)
        losses = {name: child.end() for name, child in children.items()}
        sizes = {
            mode: sum(file.stat().st_size for file in (folder / f"{mode}.trace").iterdir()) for mode in given.modes
        }
    trained = given.warm + len(costs["plain"])
    sizes = {mode: size * 30 / trained for mode, size in sizes.items()}
    show(given.model, costs, losses, sizes)


def _recorded(folder: Path, settings: dict[str, Any], together: int) -> dict[str, str]:
    """The environment in which a program is recorded into a folder, one of so many processes that take turns."""
    from preflight.monitor.collect.settings import Settings
    from preflight.monitor.live.launch import environment

    folder.mkdir()
    return environment(Settings(str(folder), flush=together * Settings.flush, **settings))


def show(model: str, costs: dict[str, list[Cost]], losses: dict[str, str], sizes: dict[str, float]) -> None:
    """Print the ratios, with the quartiles of the first, and the size of a trace of 30 iterations."""
    plain = [
        {key: statistics.mean(cost[key] for cost in costs_then) for key in costs_then[0]}
        for costs_then in zip(*(costs[name] for name in PLAIN), strict=True)
    ]
    print(f"{model}, {len(plain)} iterations")
    base = {key: statistics.median(cost[key] for cost in plain) * 1e3 for key in ("main", "process", "wall")}
    print("without    " + "  ".join(f"{key} {value:.1f} ms" for key, value in base.items()))
    for name, many in costs.items():
        ratios = {
            key: [cost[key] / other[key] for cost, other in zip(many, plain, strict=True)]
            for key in ("main", "process", "wall")
        }
        low, _, high = statistics.quantiles(ratios["main"], n=4)
        told = "  ".join(f"{key} x{statistics.median(values):.3f}" for key, values in ratios.items())
        share = sizes.get(name, 0) / 1e6
        size = f"  {share:.2f} MB for 30 iterations" if name in sizes else ""
        same = "same loss" if losses[name] == losses["plain"] else "LOSS DIFFERS"
        print(f"{name:10} {told}  (main {low:.3f} to {high:.3f}){size}  {same}")


if __name__ == "__main__":
    main()
