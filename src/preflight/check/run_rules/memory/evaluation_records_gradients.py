"""Sees a network called in evaluation mode with gradients on, and no gradient asked for before it is called again."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.memory.evaluation_records_gradients import RULE
from preflight.vocabulary.finding import Finding

_NET = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Dropout(0.1), torch.nn.Linear(64, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def batches():
    for _ in range(6):
        yield torch.randn(8, 16).cuda()
def train():
    model.train()
    for x in batches():
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
"""

BAD = (
    _NET
    + """
def evaluate():
    model.eval()
    return sum(model(x).sum().item() for x in batches())
train()
evaluate()
""",
    _NET
    + """
class Tester:
    def __init__(self, net):
        self.net = net.train(False)
    def run(self):
        total = 0.0
        for x in batches():
            total += self.net(x).mean().item()
        return total
for epoch in range(2):
    train()
    Tester(model).run()
""",
    _NET
    + """
def evaluate(grad=True):
    model.eval()
    with torch.set_grad_enabled(grad):
        for x in batches():
            model(x)
train()
evaluate()
""",
)

GOOD = (
    _NET
    + """
@torch.no_grad()
def evaluate():
    model.eval()
    return sum(model(x).sum().item() for x in batches())
train()
evaluate()
""",
    _NET
    + """
train()
model.eval()
for x in batches():
    x.requires_grad_()
    (slope,) = torch.autograd.grad(model(x).sum(), x)
""",
    _NET.replace("model.train()", "model.eval()") + "train()\n",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find lines that call a trained network in evaluation mode and never use the graph."""
    calls = run.seen("call", "backward", "autograd.grad")
    trained = {
        item.data["kind"] for item in calls if item.what == "call" and item.data["training"] and item.data["graph"]
    }
    used: dict[str, int] = {}
    unused: dict[str, int] = {}
    for at, item in enumerate(calls):
        then = calls[at + 1] if at + 1 < len(calls) else None
        if item.what != "call" or item.data["training"] or not item.data["graph"] or item.data["kind"] not in trained:
            continue
        side = unused if then is None or (then.what == "call" and then.line == item.line) else used
        side[item.line] = side.get(item.line, 0) + 1
    for line, count in unused.items():
        # The last of several calls in a row may be followed by the next training step.
        if count < 2 or used.get(line, 0) > 1:
            continue
        yield run.finding(
            RULE,
            line,
            f"the network is called in evaluation mode with gradients on, {count} times without a backward pass: each batch "
            "keeps the activations of all layers although nothing uses them",
            evidence=[seen("calls with gradients on", count), seen("gradients asked for", used.get(line, 0))],
            fix=Fix(
                title="turn gradients off in the evaluation",
                instruction="put it under `with torch.no_grad():` or decorate the function with @torch.no_grad()",
                expected="activations are freed layer by layer",
            ),
        )


def disproves(run: Run, finding: Finding) -> bool:
    """Whether each call at this place was seen to record nothing, or a gradient was asked for right after it."""
    calls = run.seen("call", "backward", "autograd.grad")
    here = {item.order for item in run.seen_at(finding.location, "call")}
    recording = [at for at, item in enumerate(calls) if item.order in here and item.data["graph"]]
    return bool(here) and all(at + 1 < len(calls) and calls[at + 1].what != "call" for at in recording)
