"""The state of the random generators is not in the checkpoint.

## What it does
Looks at scripts that set a seed and go on from a checkpoint in which no generator's state is saved.

## Why
A seed is set so that a run can be repeated.
A resumed run starts its generators from the seed again: it shuffles as in the first epoch and drops the same units.
The resumed run is then not the run that was interrupted.

## Fix
Save `torch.get_rng_state()` (and those of CUDA, NumPy and Python), and set them on resume.

## When to ignore
When a resumed run need not equal an uninterrupted one.

## References
- PyTorch, "Reproducibility"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.randomness import SEEDS
from preflight.check.queries.states import resume
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="random-state-not-saved",
    code="CKP005",
    severity="info",
    confidence="likely",
    needs=("training_loop", "complete"),
    persona="pedantic",
    tags=("checkpoint", "reproducibility"),
)

_STATES = (
    "torch.get_rng_state", "torch.random.get_rng_state", "torch.cuda.get_rng_state", "torch.cuda.get_rng_state_all",
    "random.getstate", "numpy.random.get_state",
)  # fmt: skip
_REST = """
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters())
start = 0
if resume:
    checkpoint = torch.load("last.pt")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    start = checkpoint["epoch"] + 1
for epoch in range(start, 10):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
"""

BAD = (
    f"""
import torch
from torch import nn
torch.manual_seed(0){_REST}
    torch.save(state, "last.pt")
""",
    f"""
import torch, random
from torch import nn, manual_seed as seed
def fix(number):
    random.seed(number)
    seed(number)
fix(1){_REST}
    torch.save(state, "last.pt")
""",
    f"""
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=42)
torch.random.manual_seed(parser.parse_args().seed){_REST}
    torch.save(state, "last.pt")
""",
)

GOOD = (
    f"""
import torch
from torch import nn
torch.manual_seed(0){_REST}
    state["rng"] = torch.get_rng_state()
    torch.save(state, "last.pt")
""",
    f"""
import torch
from torch import nn{_REST}
    torch.save(state, "last.pt")
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find seeded, resumable scripts whose checkpoints hold no generator state."""
    found = resume(context)
    seeds = [e for e in context.trace.calls(*SEEDS) if not e.context.shadow]
    if found.start is None or not found.saves or not seeds or context.trace.calls(*_STATES, ".get_state"):
        return
    event, table = found.saves[0]
    yield context.finding(
        RULE,
        event,
        "the run is seeded and can be resumed, but the state of the random generators is not in the checkpoint: "
        "after a resume they begin anew",
        evidence=[Evidence("entries of the checkpoint", ", ".join(map(str, table.entries)))],
        fix=Fix(
            title="save the states of the random generators",
            instruction="save torch.get_rng_state() (and those of CUDA, NumPy and Python), and set them on resume",
            expected="a resumed run draws the numbers that the whole run would have drawn",
        ),
        related=[(seeds[0], "the seed is set here")],
    )
