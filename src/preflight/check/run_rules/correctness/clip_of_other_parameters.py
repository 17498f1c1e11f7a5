"""Sees clipping of parameters that no optimizer holds."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import plain_updates
from preflight.check.rules.correctness.clip_of_other_parameters import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

BAD = (
    """
import copy, torch
net = torch.nn.Linear(8, 2).cuda()
average = copy.deepcopy(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def clip(models):
    torch.nn.utils.clip_grad_norm_(models[-1].parameters(), 1.0)
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    clip([net, average])
    opt.step()
""",
    """
import torch
class Adapted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.adapter = torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)
        self.body.requires_grad_(False)
    def forward(self, x):
        return self.adapter(self.body(x))
net = Adapted().cuda()
opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad])
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    torch.nn.utils.clip_grad_norm_([p for name, p in net.named_parameters() if "body" in name], 1.0)
    opt.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
copies = [p.detach().clone() for p in net.parameters()]
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    torch.nn.utils.clip_grad_norm_(copies, 1.0)
    opt.step()
""",
)

GOOD = (
    """
import torch
a, b = torch.nn.Linear(8, 8).cuda(), torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam([*a.parameters(), *b.parameters()])
for _ in range(8):
    opt.zero_grad()
    b(a(torch.randn(4, 8, device="cuda"))).sum().backward()
    torch.nn.utils.clip_grad_norm_(a.parameters(), 1.0)
    opt.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
delta = torch.zeros(4, 8, device="cuda", requires_grad=True)
for _ in range(8):
    net(torch.randn(4, 8, device="cuda") + delta).sum().backward()
    torch.nn.utils.clip_grad_norm_([delta], 1.0)
    with torch.no_grad():
        delta.add_(delta.grad.sign(), alpha=0.01)
    opt.step()
    opt.zero_grad()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find places that clip two times or more, and never a parameter of an optimizer or a gradient."""
    trained = plain_updates(run)
    places: dict[str, list[dict[str, object]]] = {}
    for item in run.seen("clip"):
        places.setdefault(item.line, []).append(item.data)
    for line, clips in places.items():
        if (
            not trained
            or len(clips) < 2
            or any(c["of_optimizers"] or c["with_gradient"] or not c["parameters"] for c in clips)
        ):
            continue
        optimizer = trained[0][1]
        yield run.finding(
            RULE,
            line,
            f"the {clips[0]['parameters']} tensors that are clipped here have no gradient and are in no optimizer: what "
            f"{optimizer.kind} steps on stays unclipped",
            evidence=[
                seen("clippings", len(clips)),
                seen("gradients in them", 0),
                seen("parameters of the optimizer", optimizer.parameters),
            ],
            fix=Fix(
                title="clip the parameters that the optimizer holds",
                instruction="give clip_grad_norm_ the parameters that the optimizer was made from",
                expected="the limit holds for what is trained",
            ),
            related=[(optimizer.line, "the optimizer is made here")],
        )
