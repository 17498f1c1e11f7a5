"""The job has several nodes, and the training is started on the first one only.

## What it does
Reports a job script that asks for more than one node and starts its training without `srun` or `mpirun`.

## Why
The commands of a job script run once, on the first node.
A launcher that was told of all nodes waits for the others until it times out; one that was not trains on one node while
the others are paid for and idle.

## Fix
Start the launcher through `srun`, one task per node: `srun --ntasks-per-node=1 torchrun ...`.

## When to ignore
When the program itself starts processes on the other nodes.

## References
- The manual of sbatch: the script is run once, on the first node of the allocation
"""

from __future__ import annotations

from preflight.check.rule import Rule
from preflight.source.jobs.resources import Resources
from preflight.source.jobs.script import Start
from preflight.source.launcher import Launch
from preflight.vocabulary.finding import Evidence, Finding, Fix, Location

RULE = Rule(name="job-nodes-idle", code="JOB001", severity="error", confidence="likely", layer="C", tags=("slurm",))

BAD = ("#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8\ntorchrun --nnodes 4 --nproc-per-node 8 train.py\n",)
GOOD = (
    "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=8\n"
    "srun torchrun --nnodes 4 --nproc-per-node 8 train.py\n",
)


def finding_for(start: Start, have: Resources, launch: Launch) -> Finding:
    """Report a training that is started once for several nodes."""
    waits = launch.nodes is not None and launch.nodes > 1
    effect = (
        f"the launcher there waits for {launch.nodes} nodes until it gives up" if waits else "the others do nothing"
    )
    return Finding(
        rule=RULE.name, code=RULE.code, severity=RULE.severity, confidence=RULE.confidence,
        message=f"the job has {have.nodes} nodes, and {start.script} is started without srun, on the first one only: {effect}",
        location=Location(path=start.path, line=start.line),
        evidence=(
            Evidence("nodes of the job", have.nodes, "nodes", source="measured"),
            Evidence("started by", start.launch, source="measured"),
        ),
        fix=Fix(
            title="start it through srun, one task per node",
            instruction="put srun --ntasks-per-node=1 in front of the launcher",
            expected="every node takes part",
        ),
    )  # fmt: skip
