"""Sees parameters that get gradients and that no optimizer holds."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import elements, named, plain_updates
from preflight.check.rules.correctness.parameters_without_optimizer import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.seen import ParameterSeen

BAD = (
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 10))
opt = torch.optim.Adam(net.parameters())
def adapt(model, classes):
    last = [name for name, _ in model.named_children()][-1]
    setattr(model, last, torch.nn.Linear(8, classes))
    return model.cuda()
net = adapt(net, 3)
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    opt.step()
""",
    """
import torch
from torch import nn
class CentreLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(3, 8))
    def forward(self, x, y):
        return (x - self.centres[y]).square().mean()
net, criterion = nn.Linear(8, 8).cuda(), CentreLoss().cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    opt.zero_grad()
    criterion(net(torch.randn(4, 8, device="cuda")), torch.zeros(4, dtype=torch.long, device="cuda")).backward()
    opt.step()
""",
    """
import torch
parts = {"encoder": torch.nn.Linear(8, 4).cuda(), "decoder": torch.nn.Linear(4, 8).cuda()}
opt = torch.optim.AdamW([p for name, part in parts.items() if name[0] == "d" for p in part.parameters()])
for _ in range(8):
    x = torch.randn(4, 8, device="cuda")
    opt.zero_grad()
    for part in parts.values():
        x = part(x)
    x.square().mean().backward()
    opt.step()
""",
)

GOOD = (
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 10)).cuda()
opt = torch.optim.Adam(net.parameters())
net.add_module("new", torch.nn.Linear(10, 3).cuda())
opt.add_param_group({"params": net.new.parameters()})
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    opt.step()
""",
    """
import torch
eye = torch.nn.Linear(8, 8)
eye.load_state_dict(torch.nn.Linear(8, 8).state_dict())
eye.cuda()
image = torch.randn(1, 8, device="cuda", requires_grad=True)
opt = torch.optim.Adam([image], lr=0.1)
for _ in range(8):  # the image is trained, and what looks at it is not
    opt.zero_grad()
    eye(image).square().mean().backward()
    opt.step()
""",
    """
import torch
maker, judge = torch.nn.Linear(4, 8).cuda(), torch.nn.Linear(8, 1).cuda()
one, two = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
for step in range(8):
    one.zero_grad()
    two.zero_grad()
    judge(maker(torch.randn(4, 4, device="cuda"))).mean().backward()
    (one if step % 2 else two).step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find fresh parameters outside of all optimizers, in networks and losses that a backward pass goes through."""
    trained = plain_updates(run)
    if not run.complete or not any(item.data["live"] for _, _, steps in trained for item in steps):
        return
    if any(item.data["by_hand"] for item in run.seen("update")):
        return
    loose: dict[int, list[ParameterSeen]] = {}
    for p in run.profile.parameters:
        fresh = not p.loaded and not p.written and p.made_after is not None
        if p.network is not None and p.trainable and p.gradients > 1 and not p.optimizers and fresh:
            loose.setdefault(p.network, []).append(p)
    for network, found in loose.items():
        number, optimizer, _ = trained[0]
        late = [p for p in found if (p.made_after or 0) > number and any(q.optimizers for q in run.parameters(network))]
        if not late and (run.profile.outcome not in ("ended", "exited") or _stand_ins(run)):
            continue  # an optimizer for them may have come later; or they stand for weights that were trained before
        kind = next((m.kind for m in run.modules(network)), "")
        said = late or found
        text = (
            f"{len(late)} parameters came into {kind} after {optimizer.kind} was made"
            if late
            else f"{len(found)} parameters of {kind} get gradients and are in no optimizer"
        )
        yield run.finding(
            RULE,
            optimizer.line,
            f"{text}: they are never updated ({named(said)})",
            evidence=[
                seen("elements that are never updated", elements(said)),
                seen("backward passes that gave them a gradient", max(p.gradients for p in said)),
                seen("optimizers", len(run.optimizers)),
            ],
            fix=Fix(
                title="give them to the optimizer",
                instruction="make the optimizer after them, from all parameters that are to be trained, or call add_param_group; "
                "where they are meant to stay as they are, requires_grad_(False)",
                expected="they are trained with the rest",
            ),
            severity="error" if late else "warning",
            confidence="certain" if late else "likely",
        )


def _stand_ins(run: Run) -> bool:
    """Whether weights that could not be read were left as they were made."""
    return any("weights" in text for text in run.profile.assumptions)
