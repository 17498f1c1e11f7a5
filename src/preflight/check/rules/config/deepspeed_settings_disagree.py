"""The DeepSpeed configuration and TrainingArguments give different values for one setting.

## What it does
Compares the optimizer, the schedule and the precision of a DeepSpeed configuration with the `TrainingArguments` that name it: learning rate, weight decay, betas, epsilon, warm-up, fp16 and bf16.

## Why
The same setting stands in two files, and only one of them is changed.
`Trainer` collects every value that differs and raises before the first step ("Please correct the following DeepSpeed config values that mismatch TrainingArguments values").

## Fix
Write "auto" in the DeepSpeed configuration, so that the value of `TrainingArguments` is used.

## When to ignore
Never under `Trainer`: it refuses to start.

## References
- Transformers documentation, "DeepSpeed": values that are shared with TrainingArguments
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Example, Rule
from preflight.source.facts.settings import deepspeed_config, trainer_setting, training_arguments
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

Number = int | float

RULE = Rule(
    name="deepspeed-settings-disagree",
    code="CFG015",
    severity="error",
    confidence="likely",
    needs=("training_arguments",),
    layer="C",
    tags=("distributed", "configuration"),
)

_SCRIPT = """
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments("out", %s, deepspeed="ds.json")
Trainer(model, args, train_dataset=data).train()
"""
BAD = (
    Example(
        _SCRIPT % "learning_rate=2e-5",
        files={"ds.json": '{"optimizer": {"type": "AdamW", "params": {"lr": 5e-5, "weight_decay": "auto"}}}'},
    ),
    Example(
        """
import argparse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments as Arguments
parser = argparse.ArgumentParser()
parser.add_argument("--warmup", type=int, default=100)
options = parser.parse_args()
def arguments(config):
    return Arguments("out", warmup_steps=options.warmup, deepspeed=config)
scheduler = {"type": "WarmupLR", "params": {"warmup_num_steps": 500, "warmup_max_lr": "auto"}}
Trainer(AutoModelForCausalLM.from_pretrained("gpt2"), arguments({"scheduler": scheduler})).train()
"""
    ),
    Example(
        _SCRIPT % "fp16=True",
        files={"ds.json": '{"fp16": {"enabled": false}, "bf16": {"enabled": true}}'},
    ),
)

GOOD = (
    Example(
        _SCRIPT % "learning_rate=2e-5",
        files={"ds.json": '{"optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": 0.0}}}'},
    ),
    Example(_SCRIPT % "learning_rate=2e-5, bf16=True", files={"ds.json": '{"bf16": {"enabled": true}}'}),
    Example(
        _SCRIPT % "warmup_ratio=0.1",
        files={"ds.json": '{"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 500}}}'},
    ),
)

# Path in DeepSpeed's configuration, and the setting of TrainingArguments that Trainer holds against it.
_SHARED = (
    (("optimizer", "params", "lr"), "learning_rate"),
    (("optimizer", "params", "eps"), "adam_epsilon"),
    (("optimizer", "params", "weight_decay"), "weight_decay"),
    (("scheduler", "params", "warmup_max_lr"), "learning_rate"),
    (("scheduler", "params", "warmup_num_steps"), "warmup_steps"),
    (("fp16", "enabled"), "fp16"),
    (("bf16", "enabled"), "bf16"),
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the values that both give."""
    config, arguments = deepspeed_config(context.reading), training_arguments(context.reading)
    if config is None or arguments is None or not context.reading.made("trainer"):
        return
    differing = list(_differing(context, config, arguments))
    if not differing:
        return
    shown = "; ".join(f"{path} = {theirs} against {name} = {ours}" for path, theirs, name, ours in differing)
    first = differing[0][0]
    yield context.finding(
        RULE,
        arguments,
        f"the DeepSpeed configuration and TrainingArguments disagree ({shown}): Trainer refuses to start",
        evidence=[Evidence(path, theirs, arithmetic=f"{name} = {ours}") for path, theirs, name, ours in differing],
        fix=Fix(
            title=f'write "auto" for {first}' + (" and the others" if len(differing) > 1 else ""),
            instruction='write "auto" for these in the DeepSpeed configuration, or give both the same values',
            expected="the run starts, with the values of TrainingArguments",
        ),
    )


def _differing(context: Context, config: dict[str, Any], arguments: Obj) -> Iterator[tuple[str, Number, str, Number]]:
    """What differs: path and value in the configuration, name and value in the arguments."""
    for path, name in _SHARED:
        theirs = _at(config, path)
        ours = context.value(trainer_setting(context.reading, name))
        if name == "warmup_steps" and ("warmup_ratio" in arguments.kwargs or not ours):
            continue  # the steps are worked out from the length of the run
        if name in ("fp16", "bf16") and f"{name}_full_eval" in arguments.kwargs:
            continue  # counts as well
        if isinstance(theirs, (int, float)) and isinstance(ours, (int, float)) and theirs != ours:
            yield ".".join(path), theirs, name, ours


def _at(config: dict[str, Any], path: tuple[str, ...]) -> object:
    found: Any = config
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found
