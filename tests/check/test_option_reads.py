"""Whether a namespace of options leaves the code that was followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.check.context import Context
from preflight.check.queries.option_reads import handed_on
from preflight.source.reading import read
from preflight.source.script import parse
from preflight.source.values import Obj, settle

START = """
import argparse, json
import torch, wandb
from elsewhere import build
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
def inside(options):
    return options.lr
"""
USES = {
    "print(args)": False,
    "print(json.dumps(vars(args)))": False,
    "wandb.init(config=args)": False,
    "inside(args)": False,
    "torch.save({'options': args}, 'a.pt')": False,
    "getattr(args, 'lr')": False,
    "build(args)": True,
    "build(options=[args])": True,
    "build(**vars(args))": True,
    "getattr(args, name)": True,
}


@pytest.mark.parametrize("use", USES)
def test_namespaces_that_are_handed_on(use: str) -> None:
    reading = read(parse(f"{START}{use}\n".encode(), "train.py", Path("train.py")))
    result = reading.trace.calls(".parse_args")[0].result
    holder = settle(result) if result is not None else None
    assert isinstance(holder, Obj)
    assert handed_on(Context(reading, {}), holder) is USES[use]
