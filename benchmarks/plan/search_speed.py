"""How fast a search is, beside two public planners on the same core in the same run; what it holds; what one answer costs.

    python benchmarks/plan/search_speed.py
    python benchmarks/plan/search_speed.py --python PEERS/bin/python --calculon FOLDER --llm-analysis FOLDER

FOLDER is a checkout of github.com/calculon-ai/calculon or github.com/cli99/llm-analysis; PEERS an environment with what they
import (fire, pandas, psutil). All are asked for GPT-3 175B on 1,024 A100 with 1,536 samples of 2,048 tokens. Preflight
searches its whole space; the others are given configurations of theirs at random for some seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CALCULON_SPACE = 11_698_528
"""Configurations that Calculon's own search counts for this model, these GPUs and this batch ("-d")."""
MODEL = {
    "layers": 96, "hidden": 12288, "heads": 96, "ffn": 49152, "vocab": 51200, "activation": "gelu", "norm": "layernorm",
    "bias": True, "tied_embeddings": True, "learned_positions": True, "max_positions": 2048,
}  # fmt: skip


def searched() -> dict[str, float]:
    """Search the whole space in this process."""
    from preflight.catalog.hardware import resolve_gpu
    from preflight.plan.columns.search import search
    from preflight.plan.inputs.cluster import cluster_of
    from preflight.plan.request import Request
    from preflight.vocabulary.model import ModelSpec
    from preflight.vocabulary.run import RunSpec

    run = RunSpec(global_batch=1536, sequence_length=2048, precision="bf16", optimizer="adamw", foreach=False)
    model = ModelSpec(family="transformer_decoder", **MODEL)  # type: ignore[arg-type]
    request = Request(model=model, run=run, cluster=cluster_of(resolve_gpu("a100-80gb"), 1024), search=True)
    begun, wall = time.process_time(), time.perf_counter()
    found = search(request)
    spent = time.process_time() - begun
    return {
        "configurations": found.searched, "ruled_out": sum(ruled.count for ruled in found.ruled.values()), "seconds": spent,
        "wall": time.perf_counter() - wall, "rate": found.searched / spent,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }  # fmt: skip


def child(command: list[str]) -> dict[str, float]:
    """Run a program and read the line of JSON at the end of what it prints."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def one_answer(runs: int = 5) -> float:
    """Return the least process time of ``preflight plan transformer 7.0 32``, start-up included."""
    code = "import sys; from preflight.cli.main import main; sys.exit(main(['plan', 'transformer', '7.0', '32']))"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    times = []
    for _ in range(runs):
        before = os.times()
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, env=environment, check=False)
        after = os.times()
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return min(times)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--calculon")
    parser.add_argument("--llm-analysis")
    parser.add_argument("--seconds", default="10")
    parser.add_argument("--search", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.search:
        print(json.dumps(searched()))
        return
    own = child([sys.executable, str(Path(__file__).resolve()), "--search"])
    print(f"preflight     {own['rate']:>10,.0f} configurations per CPU second")
    for name, folder in (("calculon", given.calculon), ("llm-analysis", given.llm_analysis)):
        if folder:
            rate = child([given.python, str(HERE / "peer_rates.py"), name, folder, given.seconds])["rate"]
            print(
                f"{name:13} {rate:>10,.0f} configurations per CPU second: preflight works out {own['rate'] / rate:,.0f} times as many"
            )
    every = own["configurations"] + own["ruled_out"]
    print(
        f"whole space   {own['configurations']:,.0f} worked out, {every:,.0f} with those ruled out (Calculon's: {CALCULON_SPACE:,})"
    )
    print(
        f"              {own['seconds']:.1f} s of one core, {own['wall']:.1f} s by the clock, peak memory {own['peak_mb']:.0f} MB"
    )
    print(f"one answer    {one_answer():.2f} s of process time: preflight plan transformer 7.0 32")


if __name__ == "__main__":
    main()
