"""The launcher is started several times on each node.

## What it does
Reports `srun` with more than one task per node in front of a launcher that starts a process per GPU by itself
(`torchrun`, `accelerate launch`, `deepspeed`).

## Why
Each task is a launcher of its own: they fight for the same port, join one rendezvous with too many members, or train the
same model several times on the same GPUs.

## Fix
One task per node: `#SBATCH --ntasks-per-node=1`, or `srun --ntasks-per-node=1`.
Without a launcher, `srun python train.py` with one task per GPU is right.

## References
- torchrun's documentation: one launcher per node, which starts nproc-per-node processes
"""

from __future__ import annotations

from preflight.check.rule import Rule
from preflight.source.jobs.script import Start
from preflight.source.launcher import Launch
from preflight.vocabulary.finding import Evidence, Finding, Fix, Location

RULE = Rule(
    name="job-launcher-repeated", code="JOB004", severity="error", confidence="likely", layer="C", tags=("slurm",)
)

BAD = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\n#SBATCH --gres=gpu:8\n"
    "srun torchrun --nnodes 2 --nproc-per-node 8 train.py\n",
)
GOOD = (BAD[0].replace("--ntasks-per-node=8", "--ntasks-per-node=1"),)


def finding_for(start: Start, tasks: int, launch: Launch) -> Finding:
    """Report a launcher that runs more than once on a node."""
    each = launch.gpus_per_node
    arithmetic = f"{tasks} x {each} = {tasks * each} processes on a node" if each else None
    return Finding(
        rule=RULE.name, code=RULE.code, severity=RULE.severity, confidence=RULE.confidence,
        message=f"srun starts {launch.framework} {tasks} times on each node"
        + (f", and each starts {each} {'process' if each == 1 else 'processes'}" if each else ""),
        location=Location(path=start.path, line=start.line),
        evidence=(Evidence("tasks per node", tasks, "tasks", source="measured", arithmetic=arithmetic),),
        fix=Fix(
            title="one task per node",
            instruction="set --ntasks-per-node=1 in the job script, or behind srun",
            expected="one launcher per node, one process per GPU",
        ),
    )  # fmt: skip
