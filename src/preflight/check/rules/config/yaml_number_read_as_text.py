"""Number in a YAML file that PyYAML reads as text.

## What it does
Follows values of YAML files to numeric arguments (learning rate, weight decay, eps, schedule lengths, layer sizes) and finds those that arrive as text, such as `1e-4`.

## Why
YAML 1.1 wants a dot and a sign in a number with an exponent: PyYAML reads `1e-4` as the text `"1e-4"`, and `1.0e-4` as a number.
`torch.optim.AdamW(lr="1e-4")` raises a TypeError; code that only formats or compares the value goes on with the text.

## Fix
Write `1.0e-4` in the file, or convert with `float(...)` where the value is read.

## When to ignore
When another YAML library reads the file: ruamel.yaml and OmegaConf read `1e-4` as a number, and are not reported.

## References
- YAML 1.1, float type; PyYAML issue 173
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Example, Rule
from preflight.source.values import Known, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="yaml-number-read-as-text",
    code="CFG019",
    severity="error",
    confidence="certain",
    layer="C",
    tags=("configuration",),
)

BAD = (
    Example(
        """
import yaml, torch
from torch import nn
with open("config.yaml") as f:
    config = yaml.safe_load(f)
model = nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
""",
        files={"config.yaml": "lr: 1e-4\nepochs: 3\n"},
    ),
    Example(
        """
import argparse, yaml
from torch.optim import SGD as Opt
from torch.nn import Linear
def load(path):
    return yaml.load(open(path), Loader=yaml.FullLoader)
def build(model, cfg):
    return Opt(model.parameters(), 0.1, weight_decay=cfg["optim"]["decay"])
parser = argparse.ArgumentParser()
parser.add_argument("--config", default="base.yml")
args = parser.parse_args()
optimizer = build(Linear(4, 2), load(args.config))
""",
        files={"base.yml": "optim:\n  decay: 5E-4\n"},
    ),
    Example(
        """
import yaml, torch
from dataclasses import dataclass
@dataclass
class Config:
    lr: float = 0.1
    eps: float = 1e-8
cfg = Config(**yaml.safe_load(open("c.yaml")))
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr, eps=cfg.eps)
""",
        files={"c.yaml": "lr: 0.1\neps: 1e-6\n"},
    ),
)

GOOD = (
    Example(
        """
import yaml, torch
from torch import nn
config = yaml.safe_load(open("config.yaml"))
model = nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=float(config["lr"]), eps=config["eps"])
""",
        files={"config.yaml": "lr: 1e-4\neps: 1.0e-8\nnote: 1e-4\n"},
    ),
    Example(
        """
import torch, yaml
from typing import Optional
from pydantic import BaseModel, PositiveFloat
class Settings(BaseModel):
    lr: float
    eps: Optional[float] = None
    decay: PositiveFloat
    steps: int = 10
settings = Settings(**yaml.safe_load(open("config.yaml")))
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr, eps=settings.eps, weight_decay=settings.decay)
""",
        files={"config.yaml": "lr: 1e-4\neps: 1e-8\ndecay: 1e-2\nsteps: 20\n"},
    ),
    Example(
        """
from omegaconf import OmegaConf
import torch
config = OmegaConf.load("config.yaml")
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr)
""",
        files={"config.yaml": "lr: 1e-4\n"},
    ),
)

_NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"
_ROLES = ("optimizer", "scheduler")


def check(context: Context) -> Iterator[Finding]:
    """Find numeric arguments of optimizers and schedulers that are text."""
    for role in _ROLES:
        for made in context.reading.made(role):
            event = context.reading.event_of(made)
            arguments = {**{f"argument {i + 1}": v for i, v in enumerate(made.args)}, **made.kwargs}
            for name, value in arguments.items():
                settled = settle(value)
                if (
                    not isinstance(settled, Known)
                    or not isinstance(settled.value, str)
                    or not re.match(_NUMBER, settled.value)
                ):
                    continue
                source = settled.how or ""
                if not source.endswith((".yaml", ".yml")):
                    continue
                yield context.finding(
                    RULE,
                    event or made,
                    f"{name} of {made.name.rpartition('.')[2]} is the text {settled.value!r} ({source}), not a number: this raises a TypeError",
                    evidence=[
                        Evidence(
                            name,
                            settled.value,
                            arithmetic=f"PyYAML reads {settled.value} as text, {_repaired(settled.value)} as a number",
                        )
                    ],
                    fix=Fix(
                        title=f"write {_repaired(settled.value)} in the configuration",
                        instruction="or convert the value with float() where it is read",
                        expected="the value is a number",
                    ),
                )


def _repaired(text: str) -> str:
    mantissa, _, exponent = text.lower().partition("e")
    mantissa = mantissa if "." in mantissa else mantissa + ".0"
    return f"{mantissa}e{exponent if exponent[:1] in '+-' else '+' + exponent}"
