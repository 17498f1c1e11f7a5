"""What is raised inside a backward pass reaches the report, and does not end the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.dryrun.launch import Job, dry_run
from preflight.vocabulary.profile import Profile

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

HEAD = """
import torch
from torch import nn

class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        raise KeyError("in the function")

def hook(*_):
    raise KeyError("in the hook")

layer, caught = nn.Linear(4, 4).cuda(), []
x = torch.ones(2, 4, device="cuda")
"""
HOOKS = """
def attempt(prepare):
    y = layer(x)
    handle = prepare(y)
    try:
        y.sum().backward()
    except KeyError as error:
        caught.append(error.args[0])
    handle.remove()

attempt(lambda y: y.register_hook(hook))
attempt(lambda y: layer.weight.register_post_accumulate_grad_hook(hook))
attempt(lambda y: y.grad_fn.register_prehook(hook))
assert caught == ["in the hook"] * 3, caught
y = layer(x)
y.register_hook(hook)
y.sum().backward()
"""
NESTED = """
class Nested(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad():
            inner = layer(x)
            inner.register_hook(hook)
            inner.sum().backward()
        return gradient

table = nn.Embedding(9, 4, sparse=True).cuda()
rows = table(torch.arange(2, device="cuda"))
rows.sum().backward()
assert table.weight.grad.is_sparse
Nested.apply(layer(x)).sum().backward()
"""


def _run(folder: Path, text: str) -> Profile:
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    gpu = resolve_gpu("a100-80gb")
    return dry_run(Job(script=str(script), root=str(folder), gpu=gpu, capacity_bytes=80 << 30, seconds=150))


@pytest.mark.parametrize("text", [HEAD + HOOKS, HEAD + NESTED])
def test_hooks_that_raise_end_the_script_with_their_line(tmp_path: Path, text: str) -> None:
    seen = _run(tmp_path, text)
    assert (seen.outcome, seen.error, seen.message) == ("failed", "KeyError", "'in the hook'")
    assert seen.frames[-1].text == 'raise KeyError("in the hook")'
    assert seen.frames[0].function == "<module>"
