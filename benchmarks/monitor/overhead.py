"""What recording costs: the same training with and without the recorder, taking turns, as ratios.

    python benchmarks/monitor/overhead.py [--rounds 60] [--model gpt|gpt-long] [--modes default sampled unsampled api]

``gpt`` is the benchmark model of four layers and 0.8 M parameters on batches of 8 x 64 (steps of some 40 ms);
``gpt-long`` the same on batches of 24 x 64 (steps above 100 ms).
One process trains without the recorder and one in each mode; in each round every one of them trains a few iterations
while the others wait, so that what else the machine does meets all of them alike.
Told is the median over the rounds of a process's CPU time over that of the plain one in the same round.
Main-thread CPU time is what the training waits for; process CPU time has the writer's thread too; wall time is shown
as well. The first rounds are left out: they warm up, and in the default mode every detail is recorded in them.

``--watch NAME COMMAND`` adds another watched run, of any tool: the command runs the training program, which is given in
its place of ``{}``.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WARM = 10  # rounds
TURN = 1  # iterations of a round
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "sampled": {"detail_first": 0, "detail_every": 10, "budget": 0},
    "unsampled": {"detail_every": 1, "detail_first": 10**9, "budget": 0},
    "api": {"detail_every": 1, "detail_first": 10**9, "budget": 0, "api": True},
}
Cost = dict[str, float]


def turns() -> Iterator[int]:
    """Yield the numbers of the rounds; between two of them the other processes train."""
    with open(int(os.environ["TURNS_IN"])) as asked, open(int(os.environ["TURNS_OUT"]), "w") as answers:
        for number, _ in enumerate(asked):
            before = time.thread_time(), time.perf_counter()
            yield number
            cost = {
                "main": time.thread_time() - before[0],
                "wall": time.perf_counter() - before[1],
                "process": time.process_time(),  # the writer's thread also works between two rounds
            }
            print(json.dumps(cost), file=answers, flush=True)


class Child:
    """A process that trains when it is asked to."""

    def __init__(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        asked, answers = os.pipe(), os.pipe()
        known = {**(environment or os.environ), "TURNS_IN": str(asked[0]), "TURNS_OUT": str(answers[1])}
        self.process = subprocess.Popen(
            command, env=known, pass_fds=(asked[0], answers[1]), stdout=subprocess.PIPE, text=True
        )
        os.close(asked[0])
        os.close(answers[1])
        self._ask = os.fdopen(asked[1], "w")
        self._answers = os.fdopen(answers[0])
        self._process = 0.0

    def turn(self) -> Cost:
        """Let it train for a round and return what that cost."""
        print("go", file=self._ask, flush=True)
        line = self._answers.readline()
        if not line:
            raise SystemExit(f"a program ended early, with code {self.process.wait()}")
        cost: Cost = json.loads(line)
        cost["process"], self._process = cost["process"] - self._process, cost["process"]
        return cost

    def end(self) -> str:
        """Let it end and return the last line of what it said."""
        self._ask.close()
        said, _ = self.process.communicate()
        return said.splitlines()[-1] if said else ""


def train(model_name: str) -> None:
    """Train in turns, and print the last loss."""
    import torch

    sys.path.insert(0, str(HERE))
    import gpt  # type: ignore[import-not-found]

    torch.set_num_threads(1)
    torch.manual_seed(0)
    if model_name == "gpt-long":
        gpt.BATCH = 24
    data, _, vocabulary = gpt.make_text(0)
    model = gpt.GPT(vocabulary)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _ in turns():
        for _ in range(TURN):
            x, y = gpt.get_batch(data)
            optimizer.zero_grad(set_to_none=True)
            _, loss = model(x, y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    print(repr(loss.item()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--model", choices=["gpt", "gpt-long"], default="gpt")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--modes", nargs="*", choices=list(MODES), default=list(MODES))
    parser.add_argument("--watch", nargs=2, action="append", default=[], metavar=("NAME", "COMMAND"))
    given = parser.parse_args()
    if given.train:
        train(given.model)
        return
    script = [str(Path(__file__).resolve()), "--train", "--model", given.model]
    with tempfile.TemporaryDirectory() as folder:
        children = {"plain": Child([sys.executable, *script])}
        for mode in given.modes:
            children[mode] = Child([sys.executable, *script], _recorded(Path(folder) / mode, MODES[mode]))
        for name, command in given.watch:
            words = [script if word == "{}" else [word] for word in shlex.split(command)]
            children[name] = Child([part for word in words for part in word])
        costs: dict[str, list[Cost]] = {name: [] for name in children}
        for number in range(WARM + given.rounds):
            for name, child in children.items():
                cost = child.turn()
                if number >= WARM:
                    costs[name].append(cost)
        losses = {name: child.end() for name, child in children.items()}
        sizes = {mode: sum(file.stat().st_size for file in (Path(folder) / mode).iterdir()) for mode in given.modes}
    show(given.model, costs, losses, sizes)


def _recorded(folder: Path, settings: dict[str, Any]) -> dict[str, str]:
    """The environment in which a program is recorded into a folder."""
    from preflight.monitor.collect.settings import Settings
    from preflight.monitor.launch import environment

    folder.mkdir()
    return environment(Settings(str(folder), **settings))


def show(model: str, costs: dict[str, list[Cost]], losses: dict[str, str], sizes: dict[str, int]) -> None:
    """Print the ratios, with the quartiles of the first, and the size of a trace of so many iterations."""
    plain = costs["plain"]
    rounds = len(plain)
    print(f"{model}, {rounds} rounds of {TURN} iterations after {WARM}")
    base = {key: statistics.median(cost[key] for cost in plain) / TURN * 1e3 for key in ("main", "process", "wall")}
    print("plain      " + "  ".join(f"{key} {value:.1f} ms" for key, value in base.items()))
    for name, many in costs.items():
        if name == "plain":
            continue
        ratios = {
            key: [cost[key] / other[key] for cost, other in zip(many, plain, strict=True)]
            for key in ("main", "process", "wall")
        }
        low, _, high = statistics.quantiles(ratios["main"], n=4)
        told = "  ".join(f"{key} x{statistics.median(values):.3f}" for key, values in ratios.items())
        share = 30 / ((rounds + WARM) * TURN) * sizes.get(name, 0) / 1e6
        size = f"  {share:.2f} MB for 30 iterations" if name in sizes else ""
        same = "same loss" if losses[name] == losses["plain"] else "LOSS DIFFERS"
        print(f"{name:10} {told}  (main {low:.3f} to {high:.3f}){size}  {same}")


if __name__ == "__main__":
    main()
