"""Updates of bfloat16 weights are below their resolution.

## What it does
Compares the learning rate of Adam with the spacing of the bfloat16 weights that it changes, where no copy of them in float32 is kept: in a plain loop, and in the trainer of transformers.

## Why
bfloat16 has 8 significant bits: a change of less than 2^-9 of a weight is always rounded away.
Adam changes a weight by about the learning rate in each step, so with 1e-5 no weight above 0.005 ever moves: four fifths of those of a language model, whose standard deviation is about 0.02.
Nothing fails; the loss just falls less than it should.

## Fix
Keep the weights in float32 and compute under autocast in bfloat16, train adapters, or use an optimizer that keeps a float32 copy or rounds stochastically.

## When to ignore
When the optimizer compensates the rounding in a way that is not seen.

## References
- Zamirai et al., "Revisiting BFloat16 Training" (2021)
- Gopher (Rae et al., 2021), appendix C: bfloat16 parameters with float32 copies in the optimizer
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.learning_rates import rates
from preflight.check.queries.trainer_settings import argument_objects, explicit, known, trainers_of
from preflight.check.queries.updates import managed, updates
from preflight.check.queries.weight_types import loaded_as, weights_of
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="updates-below-resolution",
    code="NUM012",
    severity="warning",
    confidence="likely",
    needs=("complete",),
    layer="C",
    tags=("numerics", "precision"),
)

BAD = (
    """
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", torch_dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
model.train()
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    """
import argparse, torch
from torch import nn
from torch.optim import Adam as Opt
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, default=5e-6)
p.add_argument("--dtype", default="bf16")
args = p.parse_args()
kinds = {"bf16": torch.bfloat16, "fp32": torch.float32}
class Trainer:
    def __init__(self, net):
        self.net = net.to(kinds[args.dtype])
        self.opt = Opt(self.net.parameters(), lr=args.lr)
    def step(self, x):
        self.opt.zero_grad()
        self.net(x).mean().backward()
        self.opt.step()
trainer = Trainer(nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1)))
for x in loader:
    trainer.step(x)
""",
    """
import torch
from transformers import AutoModelForCausalLM as Auto, Trainer, TrainingArguments
model = Auto.from_pretrained("meta-llama/Llama-2-7b-hf", dtype="bfloat16")
arguments = TrainingArguments("out", learning_rate=2e-5, bf16=True, num_train_epochs=1)
trainer = Trainer(model=model, args=arguments, train_dataset=data)
trainer.train()
""",
    """
import torch
net = torch.nn.Linear(8, 1).bfloat16()
optimizer = torch.optim.AdamW(params=[{"params": net.parameters(), "lr": 1e-5}])
for x in loader:
    optimizer.zero_grad()
    net(x).mean().backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Linear(8, 8)
frozen = nn.Linear(8, 8).to(torch.bfloat16)
opt = torch.optim.AdamW(net.parameters(), lr=1e-5)
fast = nn.Linear(8, 8).bfloat16()
second = torch.optim.AdamW(fast.parameters(), lr=3e-4)
for x in loader:
    opt.zero_grad()
    second.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = net(frozen(x)).mean() + fast(x).mean()
    loss.backward()
    opt.step()
    second.step()
""",
    """
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
base = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf", torch_dtype=torch.bfloat16)
model = get_peft_model(base, LoraConfig(r=8))
Trainer(model=model, args=TrainingArguments("out", learning_rate=1e-5), train_dataset=data).train()
""",
    """
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
full = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf")
half = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf", torch_dtype=torch.bfloat16)
Trainer(model=full, args=TrainingArguments("a", learning_rate=1e-5, bf16=True), train_dataset=data).train()
Trainer(model=half, args=TrainingArguments("b", learning_rate=1e-5, deepspeed="zero3.json"), train_dataset=data).train()
""",
)

# Libraries whose optimizers or engines keep a float32 copy, or train something else than the weights.
_KEEPERS = frozenset(
    "apex deepspeed fairscale fairseq colossalai megatron peft loralib torchao optimi unsloth schedulefree".split()
)
_ADAMS = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax")
_TYPICAL = 0.02  # the standard deviation that GPT-2, BERT and Llama are initialised with


def check(context: Context) -> Iterator[Finding]:
    """Compare rates with the spacing of the weights."""
    if context.reading.imports & _KEEPERS:
        return
    if not managed(context):
        yield from _loops(context)
    for arguments in argument_objects(context):
        rate = known(context, arguments, None, "learning_rate")
        method = known(context, arguments, "adamw_torch", "optim")
        if explicit(arguments, "deepspeed", "fsdp", "fsdp_config") is not None or not isinstance(rate, float):
            continue
        for trainer in trainers_of(context, arguments):
            model = trainer.argument(0, "model")
            if "peft_config" in trainer.kwargs or "optimizers" in trainer.kwargs or not str(method).startswith("adamw"):
                continue
            base = settle(model) if model is not None else None
            if loaded_as(base) == "bfloat16" and isinstance(base, Obj) and _stuck(rate) > 1 / 3:
                yield _report(context, arguments, "AdamW", rate, base)


def _loops(context: Context) -> Iterator[Finding]:
    for update in updates(context):
        kind = update.optimizer.name.rpartition(".")[2]
        step = update.steps[0]
        if not update.optimizer.name.startswith("torch.optim.") or kind not in _ADAMS or step.context.shadow:
            continue
        weights = weights_of(context, update.optimizer, step)
        highest = max((rate.value for rate in rates(context, update.optimizer)), default=None)
        if weights is not None and weights[0] == "bfloat16" and highest and _stuck(highest) > 1 / 3:
            yield _report(context, context.reading.event_of(update.optimizer) or step, kind, highest, weights[1])


def _stuck(rate: float) -> float:
    """The share of normally distributed weights that are too large for an update to change."""
    return math.erfc(rate * 2**9 / (_TYPICAL * math.sqrt(2)))


def _report(context: Context, place: Event | Obj, kind: str, rate: float, source: Event | Obj) -> Finding:
    limit = rate * 2**9
    return context.finding(
        RULE,
        place,
        f"{kind} changes a weight by about {rate:g} in a step, and bfloat16 rounds away what is below 2^-9 of it: "
        f"weights above {limit:.2g} never move",
        evidence=[
            Evidence("highest learning rate", rate),
            Evidence("largest weight that moves", limit, source="derived", arithmetic=f"{rate:g} x 2^9 = {limit:.2g}"),
            Evidence(
                "weights that never move",
                round(100 * _stuck(rate)),
                "%",
                "derived",
                f"normal with a standard deviation of {_TYPICAL:g}: erfc({limit:.2g} / ({_TYPICAL:g} x sqrt 2))",
            ),
        ],
        related=[(source, "the weights are bfloat16 from here on")],
        fix=Fix(
            title="keep the weights in float32",
            instruction="load the model in float32 and compute under torch.autocast with bfloat16 (bf16=True), "
            "or use an optimizer with float32 copies or stochastic rounding",
            expected="small updates add up",
        ),
    )
