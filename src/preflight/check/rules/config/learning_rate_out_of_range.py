"""The learning rate is far outside what is usual for the optimizer.

## What it does
Compares the highest learning rate of each optimizer with the range that is usual for it.
The optimizer that a trainer makes from its `learning_rate` and `optim` counts as well.
The schedule is taken into account: of a one-cycle schedule its peak is compared.

## Why
Adam moves every weight by about the learning rate in each step, whatever the gradient.
With a rate of 0.1 a weight of 0.02 is replaced, not adjusted: a deep network explodes within a few steps.
With a rate of 0 nothing is trained at all.

## Fix
Begin in the usual range (Adam: 1e-3 from scratch, 2e-5 for fine-tuning; SGD: 0.1) and search from there.

## When to ignore
When the rate is the result of a search, or the loss is scaled down.

## References
- Kingma and Ba, "Adam", 2015; Goyal et al., "Accurate, Large Minibatch SGD", 2017
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.learning_rates import USUAL, Rate, Usual, is_adapted, optimizers, rates, schedule_of, short
from preflight.check.queries.parameters import Holding, holding_of, parts_of
from preflight.check.queries.schedules import kind_of, optimizer_of
from preflight.check.queries.trainer_settings import (
    argument_objects,
    explicit,
    known,
    loaded_model,
    trainers_of,
)
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.values import Known, Obj, settle
from preflight.vocabulary.finding import Confidence, Finding

RULE = Rule(
    name="learning-rate-out-of-range",
    code="LR001",
    severity="warning",
    confidence="likely",
    layer="C",
    tags=("optimizer",),
)
_WEIGHTS = ("Linear", "Conv", "LSTM", "GRU", "RNN", "Multihead", "Transformer")

BAD = (
    """
import torch
from torch import nn
layers = []
for _ in range(50):
    layers += [nn.Linear(64, 64), nn.ReLU()]
model = nn.Sequential(*layers)
optimizer = torch.optim.Adam(model.parameters(), lr=1.0)
""",
    """
import argparse
from torch import nn
from torch.optim import AdamW as Opt
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 10)
        self.second = nn.Linear(10, 2)
    def forward(self, x):
        return self.second(self.first(x).relu())
def make(net, lr):
    return Opt(net.parameters(), lr)
make(Net(), args.lr)
""",
    """
import torch
import torchvision
from dataclasses import dataclass
@dataclass
class Config:
    peak: float = 0.5
config = Config()
net = torchvision.models.resnet18()
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=config.peak, total_steps=1000)
""",
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
""",
    """
import argparse
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments as Arguments
parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, default=5e-2)
options = parser.parse_args()
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
Trainer(model, Arguments("out", learning_rate=options.rate), train_dataset=data).train()
""",
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=-0.1)
""",
    """
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
model = AutoModelForSequenceClassification.from_pretrained("roberta-base", num_labels=3)
Trainer(model=model, args=TrainingArguments("out", learning_rate=2e-2), train_dataset=data).train()
""",
    """
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer
model = AutoModelForCausalLM.from_pretrained("gpt2")
SFTTrainer(model=model, args=SFTConfig("out", learning_rate=2.0), train_dataset=data, peft_config=LoraConfig(r=8))
""",
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
optimizer = torch.optim.AdamW(net.parameters(), lr=0)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
""",
)

GOOD = (
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.0)
args = parser.parse_args()
model = torch.nn.Linear(4, 2)
if args.lr > 0:
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
a = torch.optim.Adadelta(model.parameters(), lr=1.0)
b = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
c = torch.optim.LBFGS(model.parameters(), lr=1)
d = torch.optim.Muon(model.parameters(), lr=0.02)
e = torch.optim.Adam(model.parameters(), lr=1e-3)
""",
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
noam = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min((s + 1) ** -0.5, (s + 1) * 4000 ** -1.5))
""",
    """
import torch
image = torch.randn(1, 3, 64, 64, requires_grad=True)
optimizer = torch.optim.Adam([image], lr=0.1)
""",
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0)
for step in range(1000):
    for group in optimizer.param_groups:
        group["lr"] = 1e-3 * min(1, step / 100)
    model(next(data)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    """
import torch
from torch import nn
probe = nn.Linear(2048, 1000)
optimizer = torch.optim.SGD(probe.parameters(), lr=30.0)
""",
    """
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2")
Trainer(model, TrainingArguments("out", learning_rate=5e-4), train_dataset=data).train()
Trainer(model, TrainingArguments("out", learning_rate=0.1, optim="sgd"), train_dataset=data).train()
Trainer(model, TrainingArguments("out", learning_rate=0.5), train_dataset=data, optimizers=(mine, None)).train()
""",
    """
from peft import PromptTuningConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments
model = get_peft_model(AutoModelForCausalLM.from_pretrained("gpt2"), PromptTuningConfig(num_virtual_tokens=8))
Trainer(model, TrainingArguments("out", learning_rate=0.1), train_dataset=data).train()
fresh = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained("gpt2"))
""",
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0)
saved = torch.load("checkpoint.pth", weights_only=True)
net.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the rates with the table."""
    for optimizer in optimizers(context):
        usual = USUAL.get(short(optimizer))
        if usual is None:
            continue
        held = holding_of(context.reading, optimizer)
        for rate in rates(context, optimizer):
            if rate.value < 0:
                yield _finding(context, optimizer, rate, usual, "certain", "PyTorch raises ValueError")
            elif rate.value == 0 and rate.how == "lr" and _stays_zero(context, optimizer):
                yield _finding(context, optimizer, rate, usual, "likely", "nothing is trained")
            elif rate.value >= usual.odd and _deep(held) and not is_adapted(context):
                effect = (
                    "each step changes the weights by more than they are"
                    if short(optimizer) != "SGD"
                    else "the loss diverges"
                )
                yield _finding(
                    context, optimizer, rate, usual, _confidence(context, optimizer, rate, usual, held), effect
                )
    yield from _trainers(context)


def _stays_zero(context: Context, optimizer: Obj) -> bool:
    """Whether no schedule lifts a rate of 0: there is none, or it multiplies the rate that it finds; a saved state brings its own."""
    if context.trace.on(optimizer, "load_state_dict"):
        return False
    schedule = schedule_of(context, optimizer)
    if schedule is None:
        return True
    kind = kind_of(schedule)
    lowest = context.value(schedule.argument(2, "eta_min")) if kind == "CosineAnnealingLR" else None
    return optimizer_of(context, schedule) is optimizer and (
        kind in _MULTIPLIES or (kind == "CosineAnnealingLR" and not lowest)
    )


_MULTIPLIES = frozenset(
    {"StepLR", "MultiStepLR", "ExponentialLR", "LambdaLR", "LinearLR", "PolynomialLR", "ConstantLR"}
)
# What TrainingArguments(optim=) makes, by how the text begins; AdamW where nothing is given.
_OPTIMS = {
    "adamw": "AdamW",
    "paged_adamw": "AdamW",
    "adafactor": "Adafactor",
    "sgd": "SGD",
    "lion": "Lion",
    "paged_lion": "Lion",
}


def _trainers(context: Context) -> Iterator[Finding]:
    """The rates of optimizers that trainers make themselves."""
    for arguments in argument_objects(context):
        trainers = trainers_of(context, arguments)
        if any(t.argument(-1, "optimizers") is not None or t.cls is not None for t in trainers):
            continue  # brings its own optimizer, or may make it in a method of its own
        optim = known(context, arguments, "adamw_torch", "optim")
        name = next((n for k, n in _OPTIMS.items() if isinstance(optim, str) and optim.startswith(k)), None)
        given = explicit(arguments, "learning_rate")
        base = settle(given) if given is not None else None
        if name is None or not isinstance(base, Known) or not isinstance(base.value, (int, float)):
            continue
        rate, usual = Rate(float(base.value), base, "learning_rate"), USUAL[name]
        if rate.value >= _odd(context, usual, trainers):
            # A trainer trains a deep network, and mostly a pretrained one.
            effect = "each step changes the weights by more than they are" if name != "SGD" else "the loss diverges"
            yield _finding(context, arguments, rate, usual, "likely", effect, name)


def _odd(context: Context, usual: Usual, trainers: list[Obj]) -> float:
    """From which rate on a trainer's is out of range: adapters bear more than a network, pretrained weights less."""
    if is_adapted(context):
        return max(usual.odd, _FOR_PROMPTS)
    loaded = [loaded_model(trainer.argument(0, "model")) for trainer in trainers]
    pretrained = any(one is not None and one.name.endswith(".from_pretrained") for one in loaded)
    return min(usual.odd, _FOR_PRETRAINED) if pretrained and usual is USUAL["AdamW"] else usual.odd


# Lester et al. 2021 tune prompts with 0.3; of whole pretrained networks, 1e-3 is the highest rate that is published.
_FOR_PROMPTS, _FOR_PRETRAINED = 0.5, 5e-3


def _deep(held: Holding) -> bool:
    """Whether what is trained has at least two layers with weights."""
    for part in held.parts:
        count = 0
        for inner in parts_of(part.owner).values():
            if inner.name.startswith("torch.nn."):
                count += inner.name.rpartition(".")[2].startswith(_WEIGHTS)
                count += inner.open_args and inner.name == "torch.nn.Sequential"  # further layers of a list
            elif inner.cls is None and inner.kind == "call" and is_module(inner):
                count += 2  # a whole network of a library
        if count >= 2:
            return True
    return False


def _confidence(context: Context, optimizer: Obj, rate: Rate, usual: Usual, held: Holding) -> Confidence:
    if rate.value >= usual.high:
        return "likely"
    if short(optimizer) != "SGD":
        return "possible"
    clipped = any(loop.clips for loop in context.reading.loops)
    frozen = any(part.amount != "all" for part in held.parts) or any(
        s.name == "requires_grad" for s in context.trace.stores
    )
    return "possible" if clipped or frozen or not context.reading.loops else "likely"


def _finding(
    context: Context,
    optimizer: Obj,
    rate: Rate,
    usual: Usual,
    confidence: Confidence,
    effect: str,
    name: str | None = None,
) -> Finding:
    said = rate.given.how if isinstance(rate.given, Known) else None
    how = f" ({said})" if said not in (None, "literal", "computed") else ""
    event = context.reading.event_of(optimizer)
    return context.finding(
        RULE,
        event or settle(optimizer),
        f"{name or short(optimizer)} with {rate.how} = {rate.value:g}{how}: usual is {usual.text}; {effect}",
        confidence=confidence,
        evidence=[
            Evidence("learning rate", rate.value, arithmetic=f"{rate.how} = {rate.value:g}"),
            Evidence("usual range", usual.text, source="published", arithmetic=usual.source),
        ],
        fix=Fix(
            title="choose a learning rate in the usual range",
            instruction=f"begin with a rate from {usual.text} and search from there",
            expected="the loss falls instead of diverging",
        ),
    )
