"""Sees optimizers of PyTorch that step on float16 weights."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import held_by, plain_updates
from preflight.check.rules.numerics.fp16_weights_with_optimizer import RULE
from preflight.vocabulary.finding import Evidence, Finding

SETTLES = True
_DIVIDING = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop")
_SMALLEST = 2**-24

BAD = (
    """
import torch
def cast(module, name):
    return getattr(module, name)()
net = cast(torch.nn.Linear(8, 2).cuda(), "half")
opt = torch.optim.Adam(net.parameters())
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda").half()).float().square().mean().backward()
    opt.step()
""",
    """
import torch
torch.set_default_dtype(torch.float16)
net = torch.nn.Linear(8, 2).cuda()
torch.set_default_dtype(torch.float32)
opt = torch.optim.AdamW(net.parameters(), lr=1e-5)
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda", dtype=torch.float16)).float().square().mean().backward()
    opt.step()
""",
    """
import torch
class Trainer:
    def __init__(self, dtype):
        self.net = torch.nn.Linear(8, 2).to("cuda", **dtype)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")
    def update(self, x):
        self.opt.zero_grad()
        self.scaler.scale(self.net(x.to(self.net.weight.dtype)).float().square().mean()).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
trainer = Trainer({"dtype": torch.float16})
for _ in range(8):
    trainer.update(torch.randn(4, 8, device="cuda"))
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda().bfloat16()
opt = torch.optim.AdamW(net.parameters())
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda").bfloat16()).float().square().mean().backward()
    opt.step()
""",
    """
import torch
body, head = torch.nn.Linear(8, 8).cuda().half().requires_grad_(False), torch.nn.Linear(8, 2).cuda()
opt = torch.optim.AdamW(head.parameters())
for _ in range(8):
    opt.zero_grad()
    head(body(torch.randn(4, 8, device="cuda").half()).float()).square().mean().backward()
    opt.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find float16 parameters with gradients in an optimizer that divides, and a scaler that refused them."""
    refused = run.raised("attempting to unscale fp16 gradients")
    if refused and run.optimizers:
        number = next((at for at in range(len(run.optimizers)) if _holds_half(run, at)), 0)
        yield _finding(run, number, run.raised_at, "the scaler refuses to unscale their gradients", None)
        return
    for number, optimizer, steps in plain_updates(run):
        half = max((item.data["half"] for item in steps if item.data["live"]), default=0)
        if not half or optimizer.kind not in _DIVIDING:
            continue
        eps = optimizer.defaults.get("eps")
        gone = isinstance(eps, float) and eps < _SMALLEST
        why = (
            "its eps is 0 in float16, and a gradient of 0 is divided by 0" if gone else "small updates are rounded away"
        )
        yield _finding(run, number, steps[0].line, why, half)


def _holds_half(run: Run, number: int) -> bool:
    return any(p.dtype == "float16" and p.trainable for p in held_by(run, number))


def _finding(run: Run, number: int, line: str, why: str, half: int | None) -> Finding:
    optimizer = run.optimizers[number]
    eps = optimizer.defaults.get("eps")
    return run.finding(
        RULE,
        optimizer.line,
        f"{f'{half} of {optimizer.parameters}' if half else 'the'} parameters that {optimizer.kind} trains are float16: {why}",
        evidence=[
            seen("dtype of the weights", "float16"),
            *([seen("eps", eps)] if isinstance(eps, float) else []),
            Evidence("smallest relative update", 2**-11, arithmetic="2^-11 = 1/2,048"),
        ],
        fix=Fix(
            title="keep the weights in float32 and use autocast, or cast to bfloat16",
            instruction="remove the cast and run the forward pass under torch.autocast",
            expected="updates reach the weights",
        ),
        related=[(line, "the optimizer steps here" if half else "the scaler refuses them here")],
        confidence="certain",
    )
