"""Evaluation is requested, but there is no evaluation set.

## What it does
Looks for a trainer whose arguments ask for evaluation (`eval_strategy` other than "no", `do_eval` excepted) and that gets no `eval_dataset`.

## Why
The trainer raises ValueError when it is made, or, in older versions, at the first evaluation after hours of training.

## Fix
Give `eval_dataset`, or set `eval_strategy="no"`.

## When to ignore
When a subclass of the trainer makes its own evaluation loader; such trainers are not reported.

## References
- Hugging Face documentation, transformers.Trainer
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.trainer_settings import argument_objects, is_none, strategy, trainers_of
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="evaluation-without-data",
    code="TRN003",
    severity="error",
    confidence="certain",
    layer="C",
    tags=("transformers", "evaluation"),
)

BAD = (
    """
from transformers import Trainer, TrainingArguments
args = TrainingArguments("out", eval_strategy="epoch")
trainer = Trainer(model, args, train_dataset=train)
""",
    """
import argparse
import transformers as hf
def build(model, args):
    settings = hf.TrainingArguments("out", evaluation_strategy=args.evaluate)
    return hf.Trainer(model=model, args=settings, train_dataset=train, eval_dataset=None)
p = argparse.ArgumentParser()
p.add_argument("--evaluate", default="steps")
trainer = build(model, p.parse_args())
""",
    """
from trl import SFTConfig, SFTTrainer as Trainer
class Run:
    def __init__(self):
        self.config = SFTConfig(output_dir="out", eval_strategy="steps", eval_steps=10)
        self.trainer = Trainer("gpt2", args=self.config, train_dataset=data)
Run()
""",
)

GOOD = (
    """
from transformers import Trainer, TrainingArguments
args = TrainingArguments("out", eval_strategy="epoch")
trainer = Trainer(model, args, collate, train, valid)
other = Trainer(model, TrainingArguments("out", eval_strategy="no"), train_dataset=train)
""",
    """
from transformers import HfArgumentParser, Trainer, TrainingArguments
(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
trainer = Trainer(model, args, train_dataset=train, eval_dataset=valid if args.do_eval else None)
class Own(Trainer):
    def get_eval_dataloader(self, eval_dataset=None):
        return loader
own = Own(model, TrainingArguments("out", eval_strategy="steps"), train_dataset=train)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find trainers that are asked to evaluate on nothing."""
    for made in argument_objects(context):
        wanted = strategy(context, made, "no", "eval_strategy", "evaluation_strategy")
        if wanted is None or wanted == "no" or made.open_args:
            continue
        for trainer in trainers_of(context, made):
            given = trainer.argument(4, "eval_dataset")
            if trainer.cls is not None or trainer.open_args or (given is not None and not is_none(given)):
                continue
            yield context.finding(
                RULE,
                trainer,
                f"the arguments ask for evaluation ({wanted!r}), but this trainer gets no eval_dataset: it raises ValueError",
                evidence=[Evidence("evaluation strategy", wanted), Evidence("eval_dataset", None)],
                fix=Fix(
                    title="give the trainer an eval_dataset",
                    instruction='pass eval_dataset, or set eval_strategy="no"',
                    expected="the trainer can be made",
                ),
                related=[(made, "evaluation is asked for here")],
            )
