"""The best checkpoint is chosen by a metric that is read the wrong way round.

## What it does
Where `load_best_model_at_end=True`, compares `metric_for_best_model` with `greater_is_better`: a loss, an error rate or a perplexity is better when it is smaller, an accuracy or a score when it is greater.
Without `greater_is_better` the trainer takes greater for better unless the metric's name ends in `loss`, so `wer`, `mae` and `perplexity` are read the wrong way round too.

## Why
The trainer keeps and reloads the worst checkpoint it has seen, and early stopping ends the run when the model becomes better.

## Fix
Set `greater_is_better` to what the metric is.

## When to ignore
When the metric of that name is not what its name says.

## References
- Hugging Face documentation, transformers.TrainingArguments: greater_is_better "will default to True if metric_for_best_model is set to a value that doesn't end in loss"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.trainer_settings import argument_objects, explicit, known
from preflight.check.rule import Rule
from preflight.source.values import Known, Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="best-metric-wrong-way",
    code="TRN007",
    severity="error",
    confidence="likely",
    layer="C",
    tags=("transformers", "checkpoint"),
)

BAD = (
    """
from transformers import TrainingArguments
args = TrainingArguments("out", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True,
                         metric_for_best_model="eval_loss", greater_is_better=True)
""",
    """
import argparse
import transformers as hf
p = argparse.ArgumentParser()
p.add_argument("--metric", default="wer")
def arguments(o):
    return hf.Seq2SeqTrainingArguments("out", eval_strategy="steps", load_best_model_at_end=True, metric_for_best_model=o.metric)
args = arguments(p.parse_args())
""",
    """
from dataclasses import dataclass
from transformers import TrainingArguments as Arguments
@dataclass
class Best:
    metric: str = "accuracy"
    greater: bool = False
best = Best()
args = Arguments("out", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True,
                 metric_for_best_model=best.metric, greater_is_better=best.greater)
""",
)

GOOD = (
    """
from transformers import TrainingArguments
a = TrainingArguments("out", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, metric_for_best_model="eval_loss")
b = TrainingArguments("out", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, metric_for_best_model="f1")
c = TrainingArguments("out", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, metric_for_best_model="wer", greater_is_better=False)
d = TrainingArguments("out", metric_for_best_model="wer")
e = TrainingArguments("out", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True)
f = TrainingArguments("out", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, metric_for_best_model="my_score", greater_is_better=False)
""",
)

_SMALLER = frozenset({"wer", "cer", "mae", "mse", "rmse", "perplexity", "ppl", "eer", "ter"})
_GREATER = frozenset({
    "accuracy", "acc", "f1", "precision", "recall", "auc", "roc_auc", "bleu", "sacrebleu", "meteor", "exact_match",
    "matthews_correlation", "pearson", "spearmanr", "rouge1", "rouge2", "rougel", "rougelsum", "mean_iou", "f1_macro",
    "macro_f1", "f1_micro", "micro_f1", "f1_weighted", "weighted_f1",
})  # fmt: skip


def check(context: Context) -> Iterator[Finding]:
    """Compare the metric with the direction in which it is read."""
    for made in argument_objects(context):
        metric = known(context, made, None, "metric_for_best_model")
        if not isinstance(metric, str) or known(context, made, False, "load_best_model_at_end") not in (True, 1):
            continue
        smaller = _smaller(metric)
        given = explicit(made, "greater_is_better")
        if smaller is None or (given is None and made.open_args):
            continue
        greater = context.value(given) if given is not None and not _none(given) else not metric.endswith("loss")
        if isinstance(greater, bool) and greater is smaller:
            yield _finding(context, made, metric, greater, given is None)


def _none(value: object) -> bool:
    return isinstance(value, Known) and settle(value) is value and value.value is None


def _smaller(metric: str) -> bool | None:
    """Whether a metric is better when it is smaller; None for names that do not tell."""
    name = metric.lower().removeprefix("eval_")
    if name in _SMALLER or name == "loss" or name.endswith("_loss"):
        return True
    return False if name in _GREATER else None


def _finding(context: Context, made: Obj, metric: str, greater: bool, default: bool) -> Finding:
    how = "which is the default for this name" if default else "as it is set"
    better = "smaller" if greater else "greater"
    return context.finding(
        RULE,
        made,
        f"{metric!r} is better when it is {better}, and greater_is_better is {greater}, {how}: the worst checkpoint is loaded at the end",
        evidence=[Evidence("metric_for_best_model", metric), Evidence("greater_is_better", greater)],
        fix=Fix(
            title=f"set greater_is_better={not greater}",
            instruction=f"give greater_is_better={not greater} to the training arguments",
            expected="the best checkpoint is kept and loaded",
        ),
    )
