"""The best model is to be loaded, but saving and evaluation do not match.

## What it does
Looks for `load_best_model_at_end=True` with an evaluation strategy that differs from the save strategy, or with save steps that are no multiple of the evaluation steps.

## Why
The trainer can only load a checkpoint whose metric it knows, so it raises ValueError when the arguments are made.
By default it saves every 500 steps and never evaluates.

## Fix
Give the same strategy to both, and save at multiples of the evaluation steps.

## When to ignore
Never: the arguments cannot be made with these values.

## References
- Hugging Face documentation, transformers.TrainingArguments, load_best_model_at_end
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.trainer_settings import argument_objects, explicit, known, strategy
from preflight.check.rule import Rule
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="best-model-not-comparable",
    code="TRN002",
    severity="error",
    confidence="certain",
    layer="C",
    tags=("transformers", "checkpoint"),
)

BAD = (
    """
from transformers import TrainingArguments
args = TrainingArguments("out", load_best_model_at_end=True)
""",
    """
import argparse
import transformers as hf
def arguments(args):
    return hf.TrainingArguments("out", evaluation_strategy="epoch", save_strategy=args.save, load_best_model_at_end=True)
p = argparse.ArgumentParser()
p.add_argument("--save", default="steps")
args = arguments(p.parse_args())
""",
    """
from dataclasses import dataclass
from transformers import Seq2SeqTrainingArguments as Arguments
@dataclass
class Steps:
    evaluate: int = 200
    save: int = 500
steps = Steps()
args = Arguments("out", eval_strategy="steps", save_strategy="steps", eval_steps=steps.evaluate, save_steps=steps.save, load_best_model_at_end=True)
""",
)

GOOD = (
    """
from transformers import TrainingArguments, IntervalStrategy
a = TrainingArguments("out", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True)
b = TrainingArguments("out", eval_strategy="steps", eval_steps=100, save_steps=500, load_best_model_at_end=True)
c = TrainingArguments("out", eval_strategy="epoch", save_strategy="steps")
d = TrainingArguments("out", eval_strategy=IntervalStrategy.STEPS, load_best_model_at_end=True)
e = TrainingArguments("out", eval_strategy="steps", save_strategy="best", load_best_model_at_end=True)
""",
    """
from transformers import TrainingArguments
args = TrainingArguments("out", load_best_model_at_end=True, **options)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find arguments that the trainer refuses."""
    for made in argument_objects(context):
        if made.open_args or known(context, made, False, "load_best_model_at_end") not in (True, 1):
            continue
        evaluation = strategy(context, made, "no", "eval_strategy", "evaluation_strategy")
        saving = strategy(context, made, "steps", "save_strategy")
        if evaluation is None or saving is None or saving == "best":
            continue
        if explicit(made, "evaluate_during_training") is not None:
            continue  # the versions that know this argument have other rules
        if evaluation != saving:
            yield _finding(
                context,
                made,
                f"the evaluation strategy is {evaluation!r} and the save strategy {saving!r}",
                [Evidence("evaluation strategy", evaluation), Evidence("save strategy", saving)],
            )
        elif evaluation == "steps":
            logging = known(context, made, 500, "logging_steps")
            every, save = known(context, made, logging, "eval_steps"), known(context, made, 500, "save_steps")
            if isinstance(every, int) and isinstance(save, int) and every > 0 and save % every:
                yield _finding(
                    context,
                    made,
                    f"save_steps={save} is no multiple of eval_steps={every}",
                    [
                        Evidence("save_steps", save),
                        Evidence("eval_steps", every, arithmetic=f"{save} mod {every} = {save % every}"),
                    ],
                )


def _finding(context: Context, made: Obj, what: str, evidence: list[Evidence]) -> Finding:
    return context.finding(
        RULE,
        made,
        f"load_best_model_at_end=True, but {what}: the trainer raises ValueError when its arguments are made",
        evidence=evidence,
        fix=Fix(
            title="save when the model is evaluated",
            instruction="give the same strategy to eval_strategy and save_strategy, and make save_steps a multiple of eval_steps",
            expected="every checkpoint has a metric",
        ),
    )
