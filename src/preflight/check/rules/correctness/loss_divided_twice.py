"""The loss is divided by the accumulation steps, and the library divides it again.

## What it does
Finds a loss that the script divides by as many accumulation steps as `Accelerator(gradient_accumulation_steps=...)` or the DeepSpeed configuration has, before it gives it to their `backward`.

## Why
`accelerator.backward` and `engine.backward` divide by the accumulation steps themselves.
Divided twice, the gradient of a step is too small by that factor: plain SGD and gradient clipping see it at once, and Adam through its epsilon and the clipping threshold.

## Fix
Give the undivided loss to `backward`.

## When to ignore
Never with these settings.

## References
- Hugging Face documentation, accelerate, "Performing gradient accumulation"
- DeepSpeed, engine.py: `backward` scales the loss by the accumulation steps
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.tensors import operation
from preflight.check.queries.terms import number, operands
from preflight.check.rule import Rule
from preflight.source.facts.settings import deepspeed_config
from preflight.source.trace import Event
from preflight.source.values import Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="loss-divided-twice",
    code="ACC009",
    severity="error",
    confidence="certain",
    needs=("training_loop",),
    layer="D",
    tags=("accelerate", "deepspeed", "accumulation"),
)

_MAIN = """
import torch
from accelerate import Accelerator
from torch import nn
accelerator = Accelerator(gradient_accumulation_steps=4)
model = nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    with accelerator.accumulate(model):
        loss = nn.functional.cross_entropy(model(x), y)
        accelerator.backward(loss / 4)
        optimizer.step()
        optimizer.zero_grad()
"""

BAD = (
    _MAIN,
    _MAIN.replace(
        "from accelerate import Accelerator",
        "import argparse\nimport accelerate as hf\np = argparse.ArgumentParser()\n"
        'p.add_argument("--accumulate", type=int, default=8)\nargs = p.parse_args()',
    )
    .replace(
        "Accelerator(gradient_accumulation_steps=4)", "hf.Accelerator(gradient_accumulation_steps=args.accumulate)"
    )
    .replace("accelerator.backward(loss / 4)", "loss = loss / args.accumulate\n        accelerator.backward(loss)"),
    """
import deepspeed
from torch import nn
config = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8, "optimizer": {"type": "Adam"}}
model = nn.Linear(4, 2)
engine, optimizer, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
def step(loss):
    engine.backward(loss)
    engine.step()
for x, y in loader:
    step(nn.functional.cross_entropy(engine(x), y) / config["gradient_accumulation_steps"])
""",
)

GOOD = (
    _MAIN.replace("loss / 4", "loss"),
    _MAIN.replace("loss / 4", "loss / 2"),
    _MAIN.replace("gradient_accumulation_steps=4", "gradient_accumulation_steps=1").replace("loss / 4", "loss / 1"),
)


def check(context: Context) -> Iterator[Finding]:
    """Look at what is given to the libraries' backward."""
    told: set[int] = set()
    for loop in context.reading.loops:
        for event in loop.backwards:
            steps = _steps(context, event)
            if steps is None or steps <= 1 or event.context.shadow or id(event.node) in told:
                continue
            loss = settle(event.args[0]) if event.args else None
            pair = operands(loss) if isinstance(loss, Obj) and operation(loss) in ("/", "div") else None
            if pair is None or number(pair[1]) != steps:
                continue
            told.add(id(event.node))
            yield _finding(context, event, steps)


def _steps(context: Context, event: Event) -> int | None:
    """The accumulation steps by which the library of a backward divides the loss."""
    role = context.roles.of(event.receiver)
    if role == "accelerator":
        base = settle(event.receiver) if event.receiver is not None else None
        given = base.kwargs.get("gradient_accumulation_steps") if isinstance(base, Obj) else None
        found = context.value(given)
    elif role == "engine":
        found = (deepspeed_config(context.reading) or {}).get("gradient_accumulation_steps")
    else:
        return None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _finding(context: Context, event: Event, steps: int) -> Finding:
    return context.finding(
        RULE,
        event,
        f"the loss is divided by {steps} here and by {steps} again in backward(): gradients are {steps} times too small",
        evidence=[
            Evidence("accumulation steps", steps, arithmetic=f"1/{steps} x 1/{steps} = 1/{steps * steps} of each loss")
        ],
        fix=Fix(
            title="give the undivided loss to backward",
            safe=False,
            instruction=f"leave out the division by {steps}",
            expected="a step uses the mean gradient of its batches",
        ),
    )
