"""Sees clipping of gradients that are still multiplied by the scale of the loss."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.numerics.clip_of_scaled_gradients import RULE
from preflight.vocabulary.finding import Evidence, Finding

SETTLES = True
_FIRST_SCALE = 65_536
_SCALED_LIMIT = 4_096
"""A limit above this is meant for scaled gradients."""

BAD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
scaler = torch.amp.GradScaler("cuda")
def limit(model):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
for _ in range(8):
    opt.zero_grad()
    with torch.autocast("cuda"):
        loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    limit(net)
    scaler.step(opt)
    scaler.update()
""",
    """
import torch
class Scaler:
    def __init__(self):
        self.inner = torch.cuda.amp.GradScaler()
    def __call__(self, loss, optimizer, parameters, clip=None, unscale=False):
        self.inner.scale(loss).backward()
        if unscale:
            self.inner.unscale_(optimizer)
        if clip is not None:
            torch.nn.utils.clip_grad_value_(parameters, clip)
        self.inner.step(optimizer)
        self.inner.update()
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = Scaler()
for _ in range(8):
    opt.zero_grad()
    with torch.autocast("cuda"):
        loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    scaler(loss, opt, net.parameters(), clip=0.1)
""",
    """
import torch
a, b = torch.nn.Linear(8, 4).cuda(), torch.nn.Linear(4, 2).cuda()
one, two = torch.optim.Adam(a.parameters()), torch.optim.Adam(b.parameters())
scaler = torch.amp.GradScaler("cuda")
for _ in range(8):
    a.zero_grad(), b.zero_grad()
    with torch.autocast("cuda"):
        loss = b(a(torch.randn(4, 8, device="cuda"))).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(one)
    torch.nn.utils.clip_grad_norm_(b.parameters(), 1.0)
    for optimizer in (one, two):
        scaler.step(optimizer)
    scaler.update()
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
scaler = torch.amp.GradScaler("cuda")
for _ in range(8):
    opt.zero_grad()
    with torch.autocast("cuda"):
        loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
scaler = torch.amp.GradScaler("cuda")
for _ in range(8):
    opt.zero_grad()
    with torch.autocast("cuda"):
        loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0 * scaler.get_scale())
    scaler.step(opt)
    scaler.update()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find clippings of new gradients that are scaled, with a limit that is not."""
    places: dict[str, list[dict[str, object]]] = {}
    for item in run.seen("clip"):
        limit = item.data["limit"]
        if item.data["scaled"] and item.data["fresh"] and (limit is None or limit < _SCALED_LIMIT):
            places.setdefault(item.line, []).append(item.data)
    for line, clips in places.items():
        limit = clips[0]["limit"]
        evidence = [seen("clippings of scaled gradients", len(clips)), seen("gradients in them", clips[0]["scaled"])]
        if isinstance(limit, float):
            evidence.append(
                Evidence("limit in effect at first", limit / _FIRST_SCALE, arithmetic=f"{limit:g} / {_FIRST_SCALE:,}")
            )
        yield run.finding(
            RULE,
            line,
            f"{clips[0]['scaled']} gradients are clipped while they are still multiplied by the loss scale: the limit is far lower "
            "than it says",
            evidence=evidence,
            fix=Fix(
                title="call unscale_ before clipping",
                instruction="call scaler.unscale_(optimizer) right before the clipping, for each optimizer whose gradients it clips",
                expected="the limit is the one that is written",
            ),
            confidence="certain",
        )
