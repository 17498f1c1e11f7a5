"""Adapters are made for inference and trained.

## What it does
Looks for `inference_mode=True` in the configuration of adapters whose model is trained.

## Why
In inference mode peft freezes the adapters like the model under them.
Nothing requires a gradient, and the first backward raises RuntimeError.

## Fix
Leave `inference_mode` out, or set it to False.

## When to ignore
When the adapters are unfrozen afterwards.

## References
- Hugging Face documentation, peft.PeftConfig: inference_mode
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.values import Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="adapters-in-inference-mode",
    code="PFT001",
    severity="error",
    confidence="likely",
    layer="C",
    tags=("peft",),
)

BAD = (
    """
from peft import LoraConfig, get_peft_model
from transformers import Trainer, TrainingArguments
model = get_peft_model(base, LoraConfig(r=8, inference_mode=True))
Trainer(model, TrainingArguments("out"), train_dataset=data).train()
""",
    """
import peft, torch
def config(**more):
    return peft.LoraConfig(task_type="CAUSAL_LM", **more)
model = peft.get_peft_model(base, config(inference_mode=True))
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    """
import argparse, torch
from peft import IA3Config as Config, get_peft_model as adapt
p = argparse.ArgumentParser()
p.add_argument("--frozen", type=bool, default=True)
o = p.parse_args()
model = adapt(model=base, peft_config=Config(inference_mode=o.frozen))
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    optimizer.zero_grad()
    model(**batch).loss.backward()
    optimizer.step()
""",
)

GOOD = (
    """
from peft import LoraConfig, get_peft_model
from transformers import Trainer, TrainingArguments
model = get_peft_model(base, LoraConfig(r=8, inference_mode=False))
Trainer(model, TrainingArguments("out"), train_dataset=data).train()
""",
    """
from peft import LoraConfig, get_peft_model
model = get_peft_model(base, LoraConfig(r=8, inference_mode=True))
print(model.generate(ids))
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at the configuration that adapters are made with."""
    if not context.reading.loops and not context.reading.made("trainer"):
        return
    for event in context.trace.calls("peft.get_peft_model"):
        given = event.argument(1, "peft_config")
        config = settle(given) if given is not None else None
        frozen = isinstance(config, Obj) and context.value(config.kwargs.get("inference_mode")) in (True, 1)
        if not frozen or not isinstance(config, Obj) or event.context.shadow or _unfrozen(context):
            continue
        yield context.finding(
            RULE,
            config,
            "inference_mode=True freezes the adapters, and they are trained: nothing requires a gradient, so the first backward raises",
            evidence=[Evidence("inference_mode", True)],
            related=[(event, "the adapters are added here")],
            fix=Fix(
                title="set inference_mode=False",
                instruction="leave inference_mode out of the configuration",
                expected="the adapters are trained",
            ),
        )


def _unfrozen(context: Context) -> bool:
    """Whether gradients are switched on again somewhere."""
    if any(s.name == "requires_grad" and context.value(s.value) in (True, 1) for s in context.trace.stores):
        return True
    return any(not e.args or context.value(e.args[0]) is not False for e in context.trace.calls(".requires_grad_"))
