"""The weights that are trained are float16.

## What it does
Looks for a model that is cast to float16 (`.half()`, `.to(torch.float16)`) and whose parameters an optimizer of PyTorch holds; and for one that is loaded in float16 and trained with a gradient scaler.

## Why
`scaler.step` refuses such gradients: `ValueError: Attempting to unscale FP16 gradients`.
Without a scaler, Adam's `eps` of 1e-8 is 0 in float16 and the step divides by 0; and an update smaller than 1/2,048 of a weight is rounded away.

## Fix
Keep the weights in float32 and compute under `torch.autocast`; or cast to bfloat16.

## When to ignore
When a library (DeepSpeed, Apex, Megatron) keeps float32 copies of the weights.

## References
- PyTorch documentation, "Automatic Mixed Precision package": do not call `half()` on the model
- Micikevicius et al., "Mixed Precision Training" (2018)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.precision import enabled, scalers
from preflight.check.queries.updates import managed, updates
from preflight.check.queries.weight_types import weights_of
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Obj, options_of
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="fp16-weights-with-optimizer",
    code="AMP007",
    severity="error",
    confidence="likely",
    needs=("training_loop", "optimizer", "complete"),
    layer="D",
    tags=("precision",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda().half()
optimizer = torch.optim.Adam(model.parameters())
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
    """
import torch as t
from torch.amp import GradScaler as Scaler
class Trainer:
    def __init__(self):
        self.net = t.nn.Linear(4, 4)
        self.net.to("cuda", dtype=t.float16)
        self.opt = t.optim.SGD(self.net.parameters(), lr=0.1)
        self.scaler = Scaler("cuda")
    def update(self, x):
        self.opt.zero_grad()
        self.scaler.scale(self.net(x).mean()).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
trainer = Trainer()
for x in data:
    trainer.update(x)
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--dtype", default="fp16")
args = parser.parse_args()
dtype = {"fp16": torch.float16, "fp32": torch.float32}[args.dtype]
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
net = net.to(dtype)
opt = torch.optim.AdamW(net.parameters())
for x in data:
    opt.zero_grad()
    net(x).mean().backward()
    opt.step()
""",
    """
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16).cuda()
model.train()
optimizer, scaler = torch.optim.AdamW(model.parameters(), lr=1e-5), torch.amp.GradScaler()
for batch in loader:
    optimizer.zero_grad()
    scaler.scale(model(**batch).loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
)

GOOD = (
    """
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--train", action="store_true")
args = parser.parse_args()
model = nn.Linear(10, 2).cuda()
if not args.train:
    model = model.half()
optimizer = torch.optim.AdamW(model.parameters())
if args.train:
    for x, y in data:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
""",
    """
import torch
from torch import nn
model, teacher = nn.Linear(10, 2).cuda(), nn.Linear(10, 2).cuda().half()
optimizer = torch.optim.Adam(model.parameters())
for x, y in data:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), teacher(x).float()).backward()
    optimizer.step()
model.half()
torch.save(model.state_dict(), "model.pt")
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2).half()
model.load_state_dict(torch.load("half.pt", weights_only=True))
model.float()
optimizer = torch.optim.Adam(model.parameters())
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
    """
import copy, torch
from torch import nn
model = nn.Linear(10, 2).to(torch.bfloat16)
light = copy.deepcopy(model).half()
optimizer = torch.optim.Adam(model.parameters())
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x.to(torch.float16)), y).backward()
    optimizer.step()
""",
    """
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16).float().cuda()
model.train()
optimizer, scaler = torch.optim.AdamW(model.parameters(), lr=1e-5), torch.amp.GradScaler()
for batch in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(**batch).loss
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    """
import argparse, torch
from transformers import AutoModelForCausalLM
p = argparse.ArgumentParser()
p.add_argument("--amp", action="store_true")
args = p.parse_args()
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16).cuda()
model.train()
optimizer, scaler = torch.optim.SGD(model.parameters(), lr=1e-5), torch.amp.GradScaler(enabled=args.amp)
for batch in loader:
    optimizer.zero_grad()
    scaler.scale(model(**batch).loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    """
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16).cuda()
for parameter in model.parameters():
    parameter.requires_grad = parameter.dim() == 1
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
model.train()
optimizer, scaler = torch.optim.AdamW(model.parameters(), lr=1e-5), torch.amp.GradScaler()
for batch in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(**batch).loss
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)).half()
for parameter in net[0].parameters():
    parameter.requires_grad = False
net[1].float()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(net[1](net[0](x.half()).float()), y).backward()
    optimizer.step()
""",
)

_MASTERS = (
    "apex",
    "deepspeed",
    "fairscale",
    "bitsandbytes",
    "fairseq",
    "colossalai",
    "megatron",
    "peft",
    "torchao",
    "optimi",
)


def check(context: Context) -> Iterator[Finding]:
    """Find casts to float16 of what an optimizer holds as a whole, before its loop."""
    if managed(context) or context.reading.imports & set(_MASTERS):
        return
    for update in updates(context):
        if not update.optimizer.name.startswith("torch.optim.") or update.steps[0].context.shadow:
            continue
        found = weights_of(context, update.optimizer, update.steps[0])
        if found is None or found[0] != "float16":
            continue
        made_so = found[1]
        loaded = isinstance(made_so, Obj)
        scaled = [
            s
            for s in scalers(context)
            if enabled(s) in ((True,) if loaded else (True, None))
            and any(s in options_of(e.receiver) for e in update.steps)
        ]
        kind = update.optimizer.name.rpartition(".")[2]
        why = (
            "the scaler refuses to unscale float16 gradients"
            if scaled
            else f"{kind} has no float32 copy of them, so small updates are rounded away"
        )
        if not scaled and (loaded or kind not in ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop")):
            continue
        edit = _to_bfloat16(context, made_so) if isinstance(made_so, Event) and not scaled else None
        yield context.finding(
            RULE,
            made_so,
            f"the weights that {kind} trains are {'loaded in' if loaded else 'cast to'} float16: {why}",
            evidence=[
                Evidence("dtype of the weights", "float16"),
                Evidence("smallest relative update", 2**-11, arithmetic="2^-11 = 1/2,048"),
                Evidence("scaler", bool(scaled)),
            ],
            fix=Fix(
                title="keep the weights in float32 and use autocast, or cast to bfloat16",
                safe=False,
                edits=edits(edit) if edit is not None else (),
                instruction=f"{'load the model in float32' if loaded else 'remove the cast'} and run the forward pass under torch.autocast",
                expected="updates reach the weights",
            ),
            related=[(update.optimizer, "the optimizer is made here")],
        )


def _to_bfloat16(context: Context, cast: Event) -> Edit | None:
    """``model.half()`` as ``model.bfloat16()``."""
    node = cast.node
    if cast.name != ".half" or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    return context.replace((cast.script, node), f"{cast.script.segment(node.func.value)}.bfloat16()")
