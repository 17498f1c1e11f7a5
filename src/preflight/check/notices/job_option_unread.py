"""Slurm does not read this line of the job script.

## What it does
Reports lines with `#SBATCH` that stand below the first command of a job script.

## Why
Slurm reads options down to the first line that is neither a comment nor empty, and takes the rest for comments.
The job gets the cluster's defaults instead: another number of nodes, no GPU, a shorter time limit.

## Fix
Move all lines with `#SBATCH` to the top, directly below the first line.

## References
- The manual of sbatch: options may be given with #SBATCH before any executable commands in the script
"""

from __future__ import annotations

from preflight.check.rule import Rule
from preflight.source.jobs.resources import Directive
from preflight.vocabulary.finding import Evidence, Finding, Fix, Location

RULE = Rule(
    name="job-option-unread", code="JOB002", severity="warning", confidence="certain", layer="S", tags=("slurm",)
)

BAD = ("#!/bin/bash\n#SBATCH --nodes=2\nmodule load cuda\n#SBATCH --gres=gpu:8\nsrun python train.py\n",)
GOOD = ("#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:8\nmodule load cuda\nsrun python train.py\n",)


def finding_for(late: Directive, path: str) -> Finding:
    """Report one line that comes too late."""
    return Finding(
        rule=RULE.name, code=RULE.code, severity=RULE.severity, confidence=RULE.confidence,
        message=f"Slurm does not read {late.text!r}: it stands below the first command of the job script",
        location=Location(path=path, line=late.line),
        evidence=(Evidence("line", late.line, source="measured"),),
        fix=Fix(
            title="move the line to the top of the job script",
            instruction="options for sbatch stand above the first command",
            expected="the job gets what the line asks for",
        ),
    )  # fmt: skip
