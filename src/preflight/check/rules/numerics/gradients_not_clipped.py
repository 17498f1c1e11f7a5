"""Gradients are not clipped where they usually are.

## What it does
Looks for a loop of the script's own that trains a deep transformer from random weights, a policy by its log-probabilities, or a diffusion model, and in which nothing limits gradients.

## Why
In these three, single batches have gradients far above the usual: rare tokens, rare rewards, small noise.
GPT-3, Llama, PPO and DDPM were all trained with the norm limited (to 1, 1, 0.5 and 1); without it, one batch can undo hours.

## Fix
`torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)` between `backward()` and `step()`.

## When to ignore
When the norm of the gradients is watched and stays near its mean.

## References
- Brown et al., "Language Models are Few-Shot Learners" (2020), appendix B; Touvron et al., "Llama 2" (2023), section 2.2
- Engstrom et al., "Implementation Matters in Deep RL" (2020); Ho et al., "Denoising Diffusion Probabilistic Models" (2020), appendix B
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.clipping import clip_edit, clips
from preflight.check.queries.losses import loss_calls
from preflight.check.queries.parameters import holding_of, parts_of, stepped
from preflight.check.queries.tensors import VIEWS, operation, origin
from preflight.check.queries.updates import managed
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.training import TrainingLoop
from preflight.source.values import Obj, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="gradients-not-clipped",
    code="NUM013",
    severity="info",
    confidence="likely",
    needs=("training_loop", "complete"),
    layer="S",
    tags=("numerics", "gradients"),
)

BAD = (
    """
import torch
from torch import nn
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4), num_layers=12)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
""",
    """
import gymnasium as gym
import torch
from torch.distributions import Categorical
policy = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
env = gym.make("CartPole-v1")
def act(state):
    chances = Categorical(logits=policy(state))
    action = chances.sample()
    return action, chances.log_prob(action)
for episode in range(1000):
    state, done, terms = env.reset(), False, []
    while not done:
        action, term = act(state)
        state, reward, done, _, _ = env.step(action.item())
        terms.append(-term * reward)
    optimizer.zero_grad()
    torch.stack(terms).sum().backward()
    optimizer.step()
""",
    """
import argparse, torch
import torch.nn.functional as F
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, default=2e-4)
args = p.parse_args()
class Task:
    def __init__(self):
        self.net = torch.nn.Conv2d(3, 3, 3, padding=1)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=args.lr)
    def loss(self, x, level):
        noise = torch.randn_like(x)
        noisy = level.sqrt() * x + (1 - level).sqrt() * noise
        return F.mse_loss(self.net(noisy), noise)
task = Task()
for x, level in loader:
    task.opt.zero_grad()
    task.loss(x, level).backward()
    task.opt.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4), num_layers=12)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
small = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4), num_layers=2)
second = torch.optim.AdamW(small.parameters(), lr=3e-4)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
for x, y in loader:
    second.zero_grad()
    nn.functional.mse_loss(small(x), y).backward()
    second.step()
""",
    """
import torch
import torch.nn.functional as F
net = torch.nn.Linear(8, 8)
opt = torch.optim.Adam(net.parameters())
for x in loader:
    noise = torch.randn_like(x)
    opt.zero_grad()
    F.mse_loss(net(x + 0.1 * noise), x).backward()
    opt.step()
""",
)

DEEP = 8
_BLOCKS = (
    "torch.nn.MultiheadAttention",
    "torch.nn.TransformerEncoderLayer",
    "torch.nn.TransformerDecoderLayer",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at loops without clipping for one of the three."""
    if managed(context) or context.trace.calls("torch.autograd.Function.apply", ".load_state_dict"):
        return
    for loop in context.reading.loops:
        if not loop.steps or loop.frame.shadow or clips(context, loop):
            continue
        found = _transformer(context, loop) or _policy(loop) or _diffusion(context, loop)
        if found is None:
            continue
        what, evidence = found
        yield context.finding(
            RULE,
            loop.steps[0],
            f"{what} is trained without a limit on the norm of its gradients: one rare batch can throw the weights far away",
            evidence=[evidence, Evidence("calls that clip gradients", 0)],
            fix=Fix(
                title="clip the gradient norm before the step",
                safe=False,
                edits=edits(clip_edit(context, loop)),
                instruction="call torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) between backward() and step()",
                expected="single batches count no more than others",
            ),
        )
        return


def _transformer(context: Context, loop: TrainingLoop) -> tuple[str, Evidence] | None:
    """A transformer of many blocks with random weights."""
    for step in loop.steps:
        optimizer = stepped(context.reading, step)
        for part in holding_of(context.reading, optimizer).parts if optimizer is not None else ():
            blocks = sum(_count(inner) for inner in parts_of(part.owner).values())
            if blocks >= DEEP and ".from_" not in part.owner.name:
                return f"a transformer of {blocks} blocks", Evidence("blocks with attention", blocks)
    return None


def _count(module: Obj) -> int:
    if module.name in ("torch.nn.TransformerEncoder", "torch.nn.TransformerDecoder"):
        layers = plain(module.argument(1, "num_layers"), 1)
        return layers - 1 if isinstance(layers, int) else 0  # the layer it copies counts itself
    return 1 if module.name in _BLOCKS and module.cls is None else 0


def _policy(loop: TrainingLoop) -> tuple[str, Evidence] | None:
    """A policy that is trained by the log-probabilities of its own actions."""
    for loss in loop.losses():
        for part in provenance(loss):
            if isinstance(part, Obj) and part.name == ".log_prob" and part.receiver is not None:
                made = settle(part.receiver)
                sampled = part.args and origin(part.args[0], VIEWS)
                if (
                    isinstance(made, Obj)
                    and made.name.startswith("torch.distributions.")
                    and isinstance(sampled, Obj)
                    and sampled.name == ".sample"
                ):
                    return "a policy", Evidence("loss", f"log_prob of {made.name.rpartition('.')[2]}")
    return None


def _diffusion(context: Context, loop: TrainingLoop) -> tuple[str, Evidence] | None:
    """A network that predicts the noise that was added to its input."""
    behind = loop.behind_losses
    for call in loss_calls(context, "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        result = settle(call.event.result) if call.event.result is not None else None
        if result is None or id(result) not in behind:
            continue
        for target, output in ((call.target, call.input), (call.input, call.target)):
            noise = origin(target, VIEWS)
            if operation(noise) not in ("randn_like", "randn"):
                continue
            if any(part is noise for part in provenance(output, 400)):
                return "a network that predicts noise", Evidence("target of the loss", operation(noise))
    return None
