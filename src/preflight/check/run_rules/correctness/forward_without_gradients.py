"""Sees a backward pass from a loss for which no network was called with gradients on."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.graph import NO_GRAPH, calls_before_error
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.forward_without_gradients import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True


BAD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
class Predict:
    def __enter__(self):
        self.inner = torch.no_grad()
        self.inner.__enter__()
    def __exit__(self, *args):
        self.inner.__exit__(*args)
for _ in range(8):
    opt.zero_grad()
    with Predict():
        loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    loss.backward()
    opt.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def evaluate():
    torch.set_grad_enabled(False)
    return net(torch.randn(4, 8, device="cuda")).argmax(1)
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    opt.step()
    evaluate()
""",
    """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)
    def forward(self, x):
        return self.layer(x)
net = Net().cuda()
opt = torch.optim.Adam(net.parameters())
predict = torch.no_grad()(lambda x: net(x))
for _ in range(8):
    opt.zero_grad()
    torch.nn.functional.mse_loss(predict(torch.randn(4, 8, device="cuda")), torch.zeros(4, 2, device="cuda")).backward()
    opt.step()
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    with torch.no_grad():
        target = net(torch.randn(4, 8, device="cuda"))
    opt.zero_grad()
    torch.nn.functional.mse_loss(net(torch.randn(4, 8, device="cuda")), target).backward()
    opt.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Explain the exception, where no network was called with gradients on since the last step."""
    calls = calls_before_error(run)
    if not run.raised(NO_GRAPH) or not calls or any(item.data["graph"] for item in calls):
        return
    yield run.finding(
        RULE,
        run.raised_at,
        f"the loss was computed without gradients: {calls[-1].data['kind']} was called under no_grad, and backward() raises an error",
        evidence=[
            seen("calls of networks since the last step", len(calls)),
            seen("of them with gradients", 0),
        ],
        fix=Fix(
            title="compute the training loss with gradients on",
            instruction="take the training forward out of no_grad() or inference_mode(), and switch gradients on again after an "
            "evaluation: with torch.no_grad(): instead of torch.set_grad_enabled(False)",
            expected="the loss leads back to the parameters",
        ),
        related=[(calls[-1].line, "the network is called here")],
        confidence="certain",
    )
