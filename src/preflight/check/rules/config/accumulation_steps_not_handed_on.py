"""Accelerate is never told how many batches to accumulate.

## What it does
Looks for `with accelerator.accumulate(...)` where the script has an option for accumulation, and `Accelerator(...)` is made without `gradient_accumulation_steps`.

## Why
Without the number, Accelerate accumulates one batch: the option is read, and changes nothing of the step.
The effective batch is as many times smaller as the option says, while the schedule and the learning rate are those of the large one.

## Fix
Hand it on: `Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps)`.

## When to ignore
When the number comes from the configuration of `accelerate launch`.

## References
- Hugging Face documentation, accelerate, "Performing gradient accumulation"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.options import declared
from preflight.check.rule import Rule
from preflight.source.values import Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="accumulation-steps-not-handed-on",
    code="ACL007",
    severity="warning",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("accelerate", "accumulation"),
)

_SCRIPT = """
import argparse, torch
from accelerate import Accelerator
parser = argparse.ArgumentParser()
parser.add_argument("--accum", type=int, default=4)
args = parser.parse_args()
accelerator = Accelerator(SETTINGS)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, data)
for epoch in range(3):
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
"""

BAD = (
    _SCRIPT.replace("SETTINGS", 'mixed_precision="bf16"'),
    _SCRIPT.replace("SETTINGS", "").replace('"--accum"', '"--gradient_accumulation_steps"'),
    """
import argparse, torch
import accelerate
def options():
    p = argparse.ArgumentParser()
    p.add_argument("--grad-accum", type=int, default=8)
    return p.parse_args()
class Job:
    def __init__(self, args):
        self.accelerator = accelerate.Accelerator(log_with="wandb")
        self.net, self.opt, self.loader = self.accelerator.prepare(torch.nn.Linear(4, 2), make(), data)
        self.steps = len(self.loader) // args.grad_accum
    def run(self):
        for x, y in self.loader:
            with self.accelerator.accumulate(self.net):
                self.accelerator.backward(torch.nn.functional.mse_loss(self.net(x), y))
                self.opt.step()
                self.opt.zero_grad()
Job(options()).run()
""",
)

GOOD = (
    _SCRIPT.replace("SETTINGS", "gradient_accumulation_steps=args.accum")
    + _SCRIPT.replace("SETTINGS", "gradient_accumulation_plugin=plugin"),
    _SCRIPT.replace("SETTINGS", "").replace('"--accum"', '"--width"'),
    _SCRIPT.replace("SETTINGS", "").replace('"--accum"', '"--eval_accumulation_steps"'),
    _SCRIPT.replace("SETTINGS", "").replace(
        "model = torch", "accelerator.gradient_accumulation_steps = args.accum\nmodel = torch"
    ),
)

_GIVEN = ("gradient_accumulation_steps", "gradient_accumulation_plugin", "deepspeed_plugin")


def check(context: Context) -> Iterator[Finding]:
    """Look at the accelerators whose ``accumulate`` is entered."""
    labels = ((option, option.label.lower()) for option in declared(context))
    # Predictions are gathered over batches of an evaluation as well.
    named = [option for option, label in labels if "accum" in label and "eval" not in label]
    if not named or any(s.name == "gradient_accumulation_steps" for s in context.trace.stores):
        return
    for event in context.trace.calls(".accumulate"):
        accelerator = settle(event.receiver) if event.receiver is not None else None
        if not isinstance(accelerator, Obj) or accelerator.name != "accelerate.Accelerator" or event.context.shadow:
            continue
        if accelerator.cls is not None or accelerator.open_args or any(k in accelerator.kwargs for k in _GIVEN):
            continue
        if len(accelerator.args) > 3:
            continue  # the fourth argument is the number
        made = context.reading.event_of(accelerator)
        text = f"gradient_accumulation_steps=args.{named[0].dest}"
        yield context.finding(
            RULE,
            made or accelerator,
            f"Accelerator is not told of {named[0].label}: accelerator.accumulate() accumulates one batch",
            evidence=[Evidence("gradient_accumulation_steps", "1 (the default)")],
            related=[(event, "it is to accumulate here"), (named[0].event, "the option")],
            fix=Fix(
                title="hand the number on",
                instruction=f"pass {text} to Accelerator",
                expected="the optimizer steps once for so many batches",
            ),
        )
        return
