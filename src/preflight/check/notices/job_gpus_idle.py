"""The job's GPUs and its processes are not as many.

## What it does
Compares the GPUs of a node (`--gres`, `--gpus-per-node`, `--gpus`, `--gpus-per-task`) with the processes that are started
on it.

## Why
A process per GPU is the rule.
With fewer processes GPUs are paid for and idle; with more, two processes share one GPU, or fail with an invalid device.

## Fix
Ask for as many GPUs as processes are started: `torchrun --nproc-per-node $SLURM_GPUS_ON_NODE`.

## When to ignore
When one process uses several GPUs in a way that the script does not show.

## References
- The manual of sbatch: --gpus-per-node
"""

from __future__ import annotations

from preflight.check.rule import Rule
from preflight.source.jobs.script import Start
from preflight.vocabulary.finding import Evidence, Finding, Fix, Location, Severity

RULE = Rule(name="job-gpus-idle", code="JOB003", severity="warning", confidence="likely", layer="C", tags=("slurm",))

BAD = ("#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:8\ntorchrun --nproc-per-node 4 train.py\n",)
GOOD = (BAD[0].replace("--nproc-per-node 4", "--nproc-per-node 8"),)


def finding_for(start: Start, gpus: int, processes: int) -> Finding:
    """Report a node whose GPUs and processes are not as many."""
    severity: Severity = "error" if processes > gpus else RULE.severity
    effect = "two processes share a GPU" if processes > gpus else f"{gpus - processes} of them do nothing"
    started = f"{processes} {'process is' if processes == 1 else 'processes are'} started"
    have = f"{gpus} GPU" if gpus == 1 else f"{gpus} GPUs"
    return Finding(
        rule=RULE.name, code=RULE.code, severity=severity, confidence=RULE.confidence,
        message=f"a node of the job has {have}, and {started} on it: {effect}",
        location=Location(path=start.path, line=start.line),
        evidence=(
            Evidence("GPUs of a node", gpus, "GPUs", source="measured"),
            Evidence("processes on it", processes, "processes", source="measured"),
        ),
        fix=Fix(
            title="as many processes as GPUs",
            instruction="torchrun --nproc-per-node $SLURM_GPUS_ON_NODE takes all that the job has",
            expected="every GPU has one process",
        ),
    )  # fmt: skip
