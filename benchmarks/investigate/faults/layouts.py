"""Print what made runs left as other launchers print it: the lines of the ranks in one file, or in files of their own.

    python benchmarks/investigate/faults/layouts.py MADE TARGET [--kinds srun,kubectl,mpirun,ray,rank,bare,files]

MADE is what run.py wrote. Labels that lines bear themselves are taken off first. Lines are put into the order of their
times; what no time follows comes last, rank by rank, as its order is not known. No launcher's table is printed.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d+")
LABEL = re.compile(r"\[rank ?\d+\]:? ?")
KILLED = ("sigkill", "slow-then-killed", "host-oom")
RULE = "-" * 74


class Said(NamedTuple):
    """A line of a rank, with what it is sorted by."""

    at: str
    rank: int
    number: int
    text: str


class Made(NamedTuple):
    """A run: what is true of it, its lines in order, and how many ranks a node has."""

    truth: dict[str, Any]
    said: list[Said]
    per_node: int


def made(folder: Path) -> Made:
    """Read one made run, by what each rank wrote."""
    truth = json.loads((folder / "truth.json").read_text())
    per_node = truth["world_size"] // truth["nodes"]
    found: list[Said] = []
    for path in sorted((folder / "run").rglob("stderr.log")):
        node = int(re.findall(r"node(\d)", str(path))[-1])
        rank = node * per_node + int(path.parent.name)
        found += lines_of(path, rank, folder.name)
    return Made(truth, sorted(found), per_node)


def lines_of(path: Path, rank: int, name: str) -> Iterator[Said]:
    lines = path.read_text().splitlines()
    dated = max((number for number, line in enumerate(lines) if TIME.search(line)), default=-1)
    at = ""
    for number, line in enumerate(lines):
        told = TIME.search(line)
        at = told[0] if told else at
        last = "9999" + sha256(f"{name}{rank}".encode()).hexdigest()
        yield Said(at if number <= dated else last, rank, number, LABEL.sub("", line))


def srun(run: Made) -> dict[str, list[str]]:
    killed = run.truth["culprit"] if run.truth["fault"] in KILLED else []
    ends = [f"srun: error: node{rank // run.per_node}: task {rank}: Killed" for rank in killed]
    ends += [
        f"srun: error: node{rank // run.per_node}: task {rank}: Exited with exit code 1"
        for rank in range(run.truth["world_size"])
        if rank not in killed
    ]
    return {"slurm-4711.out": [*(f"{one.rank}: {one.text}" for one in run.said), *ends]}


def mpirun(run: Made) -> dict[str, list[str]]:
    ends = [
        f"mpirun noticed that process rank {rank} with PID 3217 on node node{rank // run.per_node} exited on signal 9 (Killed)."
        for rank in run.truth["culprit"]
        if run.truth["fault"] in KILLED
    ]
    return {
        "job.log": [*(f"[1,{one.rank}]<stderr>:{one.text}" for one in run.said), *([RULE, *ends, RULE] if ends else ())]
    }


def kubectl(run: Made) -> dict[str, list[str]]:
    return {"kubectl.log": [f"[pod/trainer-worker-{one.rank}/pytorch] {one.text}" for one in run.said]}


def ray(run: Made) -> dict[str, list[str]]:
    who = [
        f"(TorchTrainer pid=4003) - (node_id=8f2c{rank // run.per_node}, ip=10.0.0.{1 + rank // run.per_node}, pid={4100 + rank})"
        f" world_rank={rank}, local_rank={rank % run.per_node}, node_rank={rank // run.per_node}"
        for rank in range(run.truth["world_size"])
    ]
    said = [
        f"(RayTrainWorker pid={4100 + one.rank}, ip=10.0.0.{1 + one.rank // run.per_node}) {one.text}"
        for one in run.said
    ]
    return {"driver.log": ["(TorchTrainer pid=4003) Started distributed worker processes: ", *who, *said]}


def rank(run: Made) -> dict[str, list[str]]:
    return {"run.log": [f"[rank{one.rank}]:{one.text}" for one in run.said]}


def bare(run: Made) -> dict[str, list[str]]:
    return {"train.log": [one.text for one in run.said]}


def files(run: Made) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in run.said:
        found.setdefault(f"log_{one.rank}.txt", []).append(one.text)
    return found


KINDS = {one.__name__: one for one in (srun, kubectl, mpirun, ray, rank, bare, files)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("made", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--kinds", default=",".join(KINDS))
    given = parser.parse_args()
    for truth in sorted(given.made.glob("*/truth.json")):
        run = made(truth.parent)
        for kind in given.kinds.split(",") if run.said else ():
            folder = given.target / f"{truth.parent.name}-{kind}"
            (folder / "run").mkdir(parents=True)
            for name, lines in KINDS[kind](run).items():
                (folder / "run" / name).write_text("\n".join(lines) + "\n")
            (folder / "truth.json").write_text(truth.read_text())


if __name__ == "__main__":
    main()
