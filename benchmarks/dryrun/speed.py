"""How long the dry run takes for a step of GPT-2 124M and of a model of Llama-3-8B's shape, on one core.

Usage: python speed.py [--profile NAME]
Each model runs for one and for two steps; the difference is the cost of a step, the rest is start and construction.
CPU seconds of the process are taken, so that other work on the machine counts less. --profile prints the most expensive
functions of a model's run instead.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import resource
import sys
import tempfile
from pathlib import Path

from preflight.catalog.hardware import resolve_gpu

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "programs" / "language.py"


def job(name: str, steps: int, folder: str) -> dict[str, object]:
    """Return what the child process is told."""
    gpu = resolve_gpu("h100")
    os.makedirs(os.path.join(folder, "tmp"), exist_ok=True)
    return {
        "script": str(PROGRAM),
        "root": str(PROGRAM.parent),
        "arguments": [name, str(steps)],
        "steps": 10,
        "capacity": 1 << 45,
        "scratch": folder,
        "result": os.path.join(folder, "result.json"),
        "card": {
            "name": gpu.title,
            "memory_bytes": 1 << 45,
            "capability": list(gpu.compute_capability or (9, 0)),
            "multiprocessors": gpu.sms,
        },
    }


def seconds(name: str, steps: int) -> tuple[float, int, int]:
    """Return CPU seconds, operators and the resident peak in MiB of a run, made in a child of its own."""
    with tempfile.TemporaryDirectory() as folder:
        told = os.path.join(folder, "told")
        child = os.fork()
        if child == 0:
            from preflight.dryrun.virtual.run import run

            seen = run(job(name, steps, folder))
            used = resource.getrusage(resource.RUSAGE_SELF)
            answer = {
                "seconds": used.ru_utime + used.ru_stime,
                "operators": seen["operators"],
                "outcome": [seen["outcome"], seen.get("error"), seen.get("message")],
                "resident": used.ru_maxrss >> 10,
            }
            with open(os.path.join(folder, "told"), "w", encoding="utf-8") as file:
                json.dump(answer, file)
            os._exit(0)
        os.waitpid(child, 0)
        answer = json.loads(Path(told).read_text(encoding="utf-8"))
    if answer["outcome"][0] == "failed":
        raise SystemExit(f"{name}: {answer['outcome']}")
    return answer["seconds"], answer["operators"], answer["resident"]


def profile(name: str) -> None:
    """Print where the time goes."""
    from preflight.dryrun.virtual.run import run

    with tempfile.TemporaryDirectory() as folder:
        profiler = cProfile.Profile()
        told = job(name, 1, folder)
        profiler.enable()
        seen = run(told)
        profiler.disable()
        print(seen["outcome"], seen["operators"], file=sys.stderr)
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(45)
        os._exit(0)


def main() -> int:
    """Measure both models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile")
    given = parser.parse_args()
    if given.profile:
        profile(given.profile)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in ("gpt2", "llama3-8b"):
        (first, few, _), (second, many, resident) = seconds(name, 1), seconds(name, 2)
        print(
            f"{name}: {second - first:.1f} s for a step of {many - few:,} operators; "
            f"{first:.1f} s for start, construction and the first step; {resident:,} MiB resident"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
