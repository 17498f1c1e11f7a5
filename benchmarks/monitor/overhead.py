"""What recording costs: the same training with and without the recorder, interleaved, as ratios.

    python benchmarks/monitor/overhead.py [--repeats 5] [--iterations 40] [--model gpt|gpt-long]

``gpt`` is the benchmark model of four layers and 0.8 M parameters on batches of 8 x 64 (steps of some 40 ms);
``gpt-long`` the same on batches of 24 x 64 (steps above 100 ms).
Main-thread CPU time is what the training waits for; process CPU time has the writer's thread too; wall time is shown
as the median. The first five iterations and the two slowest are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
WARM = 5
MODES = {
    "default": {},
    "sampled": {"detail_first": 0, "detail_every": 10, "budget": 0},
    "unsampled": {"detail_every": 1, "detail_first": 10**9, "budget": 0},
    "api": {"detail_every": 1, "detail_first": 10**9, "budget": 0, "api": True},
}


def train(model_name: str, iterations: int) -> None:
    """Train and print the mean cost of an iteration."""
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
    costs = []
    begun_process = time.process_time()
    for number in range(iterations):
        if number == WARM:
            begun_process = time.process_time()
        wall, main = time.perf_counter(), time.thread_time()
        x, y = gpt.get_batch(data)
        optimizer.zero_grad(set_to_none=True)
        _, loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        costs.append((time.thread_time() - main, time.perf_counter() - wall))
    process = (time.process_time() - begun_process) / (iterations - WARM)
    kept = sorted(costs[WARM:])[:-2]
    told = {
        "main": statistics.mean(main for main, _ in kept),
        "process": process,
        "wall": statistics.median(wall for _, wall in kept),
        "loss": loss.item(),
    }
    print(json.dumps(told))


def run(arguments: list[str], mode: str | None) -> tuple[dict[str, float], int]:
    """Run the training once in a process of its own; with a mode, recorded. Returns its costs and the trace's bytes."""
    command = [sys.executable, str(Path(__file__).resolve()), "--train", *arguments]
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if mode is not None:
            from preflight.monitor.collect.settings import Settings
            from preflight.monitor.launch import environment as recorded

            environment = recorded(Settings(folder, **MODES[mode]))  # type: ignore[arg-type]
        told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
    return json.loads(told.stdout.splitlines()[-1]), size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--model", choices=["gpt", "gpt-long"], default="gpt")
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--modes", nargs="*", choices=list(MODES), default=["default", "sampled", "unsampled"])
    given = parser.parse_args()
    if given.train:
        train(given.model, given.iterations)
        return
    arguments = ["--model", given.model, "--iterations", str(given.iterations)]
    plain: list[dict[str, float]] = []
    recorded: dict[str, list[dict[str, float]]] = {mode: [] for mode in given.modes}
    sizes: dict[str, int] = {}
    for _ in range(given.repeats):
        plain.append(run(arguments, None)[0])
        for mode in given.modes:
            told, sizes[mode] = run(arguments, mode)
            recorded[mode].append(told)
    base = {key: statistics.median(one[key] for one in plain) for key in plain[0]}
    print(f"{given.model}, {given.iterations} iterations, {given.repeats} repeats, medians")
    print(
        f"plain      main {base['main'] * 1e3:7.2f} ms  process {base['process'] * 1e3:7.2f} ms  wall {base['wall'] * 1e3:7.2f} ms"
    )
    for mode, many in recorded.items():
        ratios = {
            key: statistics.median(one[key] / other[key] for one, other in zip(many, plain, strict=True))
            for key in ("main", "process", "wall")
        }
        same = all(one["loss"] == plain[0]["loss"] for one in many)
        print(
            f"{mode:10} main x{ratios['main']:.3f}   process x{ratios['process']:.3f}   wall x{ratios['wall']:.3f}"
            f"   trace {sizes[mode] / 1e6:.2f} MB   {'same loss' if same else 'LOSS DIFFERS'}"
        )


if __name__ == "__main__":
    main()
