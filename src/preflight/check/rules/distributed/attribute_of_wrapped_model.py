"""Method of the model is looked for on its wrapper.

## What it does
Looks for a call of a method of the model's own class on the DistributedDataParallel (or DataParallel) object around it: `model.generate(...)`, `model.encode(...)`.

## Why
The wrapper forwards only `forward`; every other name of the inner class raises AttributeError on the first call.
In an evaluation branch that may be hours into the run.

## Fix
Call it on the inner model: `model.module.generate(...)`.
For training, call the wrapper itself, or gradients are not reduced.

## When to ignore
Never; FSDP and torch.compile forward attributes and are not reported.

## References
- PyTorch documentation, torch.nn.parallel.DistributedDataParallel, attribute `module`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.values import Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="attribute-of-wrapped-model",
    code="DST020",
    severity="error",
    confidence="likely",
    layer="D",
    tags=("distributed",),
)

BAD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
    def forward(self, x):
        return self.fc(x)
    def predict(self, x):
        return self(x).argmax(-1)
torch.distributed.init_process_group("nccl")
model = nn.parallel.DistributedDataParallel(Net().cuda(), device_ids=[0])
print(model.predict(x))
""",
    """
import torch, transformers
from torch.nn.parallel import DistributedDataParallel as DDP
def sample(model, ids):
    return model.generate(ids, max_new_tokens=20)
model = DDP(transformers.AutoModelForCausalLM.from_pretrained("gpt2").cuda(), device_ids=[0])
sample(model, ids)
""",
    """
import argparse, torch
import torch.nn as nn
class Block(nn.Module):
    def encode(self, x):
        return x
    def forward(self, x):
        return self.encode(x)
class Trainer:
    def __init__(self, args):
        self.net = nn.DataParallel(Block()) if args.gpus > 1 else Block()
        self.net = nn.DataParallel(Block())
    def codes(self, x):
        return self.net.encode(x)
p = argparse.ArgumentParser()
p.add_argument("--gpus", type=int, default=2)
Trainer(p.parse_args()).codes(x)
""",
)

GOOD = (
    BAD[0].replace("model.predict(x)", "model.module.predict(x)"),
    BAD[0].replace(
        "model.predict(x)", "model(x), model.parameters(), model.eval(), model.no_sync(), model.state_dict()"
    ),
    """
import argparse, torch
from torch import nn
class Net(nn.Module):
    def predict(self, x):
        return x
p = argparse.ArgumentParser()
p.add_argument("--distributed", action="store_true")
args = p.parse_args()
model = Net()
if args.distributed:
    model = nn.parallel.DistributedDataParallel(model)
inner = model.module if args.distributed else model
inner.predict(x)
compiled = torch.compile(Net())
compiled.predict(x)
""",
)

_WRAPPERS = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.DataParallel")
# The methods that torch.nn.Module and the two wrappers have themselves (PyTorch 2.x).
_OWN = frozenset(
    [
        "add_module",
        "apply",
        "bfloat16",
        "buffers",
        "children",
        "compile",
        "cpu",
        "cuda",
        "double",
        "eval",
        "extra_repr",
        "float",
        "forward",
        "get_buffer",
        "get_extra_state",
        "get_parameter",
        "get_submodule",
        "half",
        "ipu",
        "load_state_dict",
        "modules",
        "mtia",
        "named_buffers",
        "named_children",
        "named_modules",
        "named_parameters",
        "parameters",
        "register_backward_hook",
        "register_buffer",
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
        "register_load_state_dict_post_hook",
        "register_load_state_dict_pre_hook",
        "register_module",
        "register_parameter",
        "register_state_dict_post_hook",
        "register_state_dict_pre_hook",
        "requires_grad_",
        "set_extra_state",
        "set_submodule",
        "share_memory",
        "state_dict",
        "to",
        "to_empty",
        "train",
        "type",
        "xpu",
        "zero_grad",
        "no_sync",
        "join",
        "join_hook",
        "register_comm_hook",
        "will_sync_module_buffers",
        "scatter",
        "gather",
        "replicate",
        "parallel_apply",
        "to_kwargs",
        "scatter_kwargs",
        "prepare_for_backward",
        "reducer",
        "logger",
        "to_kwargs",
    ]
)


def check(context: Context) -> Iterator[Finding]:
    """Find methods on wrappers that neither Module nor the wrapper has."""
    for name, events in context.trace.by_name.items():
        if (
            not name.startswith(".")
            or name[1:] in _OWN
            or name.startswith((".super", "._"))
            or name[1:].startswith("__")
        ):
            continue
        for event in events:
            target = settle(event.receiver) if event.receiver is not None else None
            if (
                not isinstance(target, Obj)
                or target.kind != "call"
                or target.name not in _WRAPPERS
                or name[1:] in target.attrs
            ):
                continue
            if target is not event.receiver and not isinstance(event.receiver, Obj):
                continue  # on other paths it is the bare model
            inner = wrapped(target)
            shown = target.name.rpartition(".")[2]
            node = event.node
            edit = None
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                text = event.script.segment(node.func.value)
                edit = context.replace((event.script, node.func.value), f"{text}.module")
            yield context.finding(
                RULE,
                event,
                f"{shown} has no method {name[1:]}(): this raises AttributeError, for the wrapper forwards only forward()",
                evidence=[
                    Evidence("type of the object", shown),
                    Evidence("type of the wrapped model", _type(inner)),
                ],
                fix=Fix(
                    title=f"call {name[1:]}() on the inner model",
                    edits=edits(edit) if edit is not None else (),
                    instruction=f"write model.module.{name[1:]}(...)",
                    expected="the method is found",
                ),
                related=[(target, "the model is wrapped here")],
            )


def _type(value: object) -> str | None:
    if isinstance(value, Obj):
        return value.cls.qualname if value.cls is not None else value.name.rpartition(".")[2]
    return None
