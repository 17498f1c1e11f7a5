"""Sees the GPU synchronised, or its cache emptied, in every step."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.steps import in_every_step
from preflight.check.rules.efficiency.device_synchronised_each_step import RULE
from preflight.vocabulary.finding import Finding

_NET = """
import torch
model = torch.nn.Linear(16, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(after, steps=4):
    for i in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 16, device="cuda")).sum().backward()
        optimizer.step()
        after(i)
"""

BAD = (
    _NET + "train(lambda i: torch.cuda.empty_cache())\n",
    _NET + "import gc\ndef clean(i):\n    gc.collect()\n    getattr(torch.cuda, 'empty_' + 'cache')()\ntrain(clean)\n",
    _NET + "from torch.cuda import synchronize as wait\ntrain(lambda i: wait())\n",
)

GOOD = (
    _NET + "train(lambda i: torch.cuda.empty_cache() if i % 100 == 99 else None)\n",
    _NET + "import time\ndef timed(i):\n    torch.cuda.synchronize()\n    print(time.perf_counter())\ntrain(timed)\n",
)

_CALLS = {
    "torch.cuda.synchronize": "makes the host wait until the GPU is idle",
    "torch.accelerator.synchronize": "makes the host wait until the GPU is idle",
    "torch.cuda.empty_cache": "gives memory back that the next step asks for again",
}
_CLOCKS = ("perf_counter", "time(", "monotonic", "elapsed_time", "default_timer", ".record(")


def observe(run: Run) -> Iterator[Finding]:
    """Find the calls that were made in every step, clocks around them excepted."""
    for kind, effect in _CALLS.items():
        waits = [i for i in run.seen("wait") if i.data["kind"] == kind and i.data["direct"] and i.phase != "eval"]
        for line, count in in_every_step(run, waits).items():
            if kind.endswith("synchronize") and _timed(run, line):
                continue
            yield run.finding(
                RULE,
                line,
                f"{kind}() is called in each step, {count} times: it {effect}",
                evidence=[seen("calls per step", count)],
                fix=Fix(
                    title=f"call {kind.rpartition('.')[2]}() rarely, or not at all",
                    instruction="remove the call; PyTorch orders work on the GPU and reuses its memory by itself",
                    expected="the GPU has always work queued",
                ),
            )


def _timed(run: Run, line: str) -> bool:
    """Whether a clock is read beside it: then the wait is what makes the time right."""
    name, _, number = line.rpartition(":")
    near = range(int(number) - 3, int(number) + 4) if number.isdigit() else ()
    return any(clock in run.text(f"{name}:{at}") for at in near for clock in _CLOCKS)
