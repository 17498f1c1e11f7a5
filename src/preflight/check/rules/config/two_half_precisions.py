"""fp16 and bf16 are both set.

## What it does
Looks for `TrainingArguments(fp16=True, bf16=True)` and the same in the configurations of trl.

## Why
The trainer raises ValueError when the arguments are made: one run has one half precision.

## Fix
Keep `bf16=True` on GPUs from Ampere on, `fp16=True` on older ones.

## When to ignore
Never: the arguments cannot be made with these values.

## References
- Hugging Face documentation, transformers.TrainingArguments
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.trainer_settings import argument_objects, known
from preflight.check.rule import Example, Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="two-half-precisions",
    code="TRN001",
    severity="error",
    confidence="certain",
    layer="C",
    tags=("transformers", "precision"),
)

BAD = (
    """
from transformers import TrainingArguments
args = TrainingArguments("out", fp16=True, bf16=True)
""",
    """
import argparse
import transformers as hf
def arguments(half):
    return hf.Seq2SeqTrainingArguments("out", fp16=half, bf16=True)
p = argparse.ArgumentParser()
p.add_argument("--half", type=int, default=True)
args = arguments(p.parse_args().half)
""",
    Example(
        """
from dataclasses import dataclass, field
from transformers import HfArgumentParser, TrainingArguments
@dataclass
class Arguments(TrainingArguments):
    bf16: bool = field(default=True)
    fp16: bool = field(default=True)
(args,) = HfArgumentParser(Arguments).parse_args_into_dataclasses()
"""
    ),
)

GOOD = (
    """
import torch
from transformers import TrainingArguments
bf16 = torch.cuda.is_bf16_supported()
args = TrainingArguments("out", fp16=not bf16, bf16=bf16)
""",
    """
from transformers import TrainingArguments
args = TrainingArguments("out", fp16=True, bf16=False, bf16_full_eval=False)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find arguments with both."""
    for made in argument_objects(context):
        if known(context, made, False, "fp16") not in (True, 1) or known(context, made, False, "bf16") not in (True, 1):
            continue
        node = made.site.node if made.site is not None else None
        keyword = next((k for k in getattr(node, "keywords", []) if k.arg == "fp16"), None)
        edit = (
            context.replace((made.site.script, keyword.value), "False")
            if keyword is not None and made.site is not None
            else None
        )
        yield context.finding(
            RULE,
            made,
            "fp16 and bf16 are both set: the trainer raises ValueError when its arguments are made",
            evidence=[Evidence("fp16", True), Evidence("bf16", True)],
            fix=Fix(
                title="keep one half precision",
                edits=edits(edit) if edit is not None else (),
                instruction="keep bf16 on Ampere and newer GPUs, fp16 on older ones",
                expected="the arguments can be made",
            ),
        )
