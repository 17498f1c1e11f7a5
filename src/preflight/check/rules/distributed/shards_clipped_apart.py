"""Each rank clips its shard of the gradients by the norm of that shard.

## What it does
Looks for a function, or a script, that takes norms of local shards (`grad.to_local()`) and multiplies gradients, where nothing in the script adds numbers up over ranks.

## Why
The norm of all gradients is the root of the sum of squares over all shards.
A rank knows only its own: each one shortens by another factor, and the gradient that is stepped with points elsewhere than the one that was computed.

## Fix
Call `torch.nn.utils.clip_grad_norm_`, which knows of shards, or add the squares up with `all_reduce` before the root is taken.

## When to ignore
When each shard is meant to be clipped by itself.

## References
- PyTorch documentation, "torch.distributed.fsdp.fully_shard"; PyTorch issue 170862
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.names_in_text import words_in
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="shards-clipped-apart",
    code="DST026",
    severity="error",
    confidence="likely",
    needs=("training_loop", "complete"),
    layer="S",
    tags=("fsdp",),
)

_HEAD = """
import torch
from torch import nn
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
dist.init_process_group("nccl")
model = fully_shard(nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
BAD = (
    f"""{_HEAD}
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    grads = [p.grad.to_local() for p in model.parameters()]
    norm = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_((1.0 / (norm + 1e-6)).clamp(max=1.0))
    optimizer.step()
""",
    f"""{_HEAD}
def clip(parameters, most):
    parameters = list(parameters)
    total = sum(p.grad.to_local().pow(2).sum() for p in parameters) ** 0.5
    factor = min(1.0, most / (float(total) + 1e-6))
    for p in parameters:
        p.grad.to_local().mul_(factor)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    clip(model.parameters(), 1.0)
    optimizer.step()
""",
    f"""{_HEAD}
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    grads = [p.grad.to_local() for p in model.parameters() if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    torch._foreach_mul_(grads, min(1.0, 0.5 / norm.item()))
    optimizer.step()
""",
)
GOOD = (
    f"""{_HEAD}
average = [p.detach().clone() for p in model.parameters()]
def update(parameters, states, beta=0.999):
    for p, state in zip(parameters, states):
        g = p.grad.to_local()
        state.mul_(beta).add_(g.pow(2), alpha=1 - beta)
        p.data.to_local().addcdiv_(g, state.sqrt().add(1e-8), value=-0.01)
def shards(network):
    return {{name: p.to_local().cpu() for name, p in network.named_parameters()}}
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    print(model.weight.grad.norm())
    optimizer.step()
    for a, p in zip(average, model.parameters()):
        a.mul_(0.99).add_(p.detach(), alpha=0.01)
torch.save(shards(model), "last.pt")
""",
    f"""{_HEAD}
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    grads = [p.grad.to_local() for p in model.parameters()]
    square = sum(g.square().sum() for g in grads)
    dist.all_reduce(square)
    for g in grads:
        g.mul_((1.0 / (square.sqrt() + 1e-6)).clamp(max=1.0))
    optimizer.step()
""",
    f"""{_HEAD}
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    print(model.weight.grad.to_local().norm())
    optimizer.step()
""",
    f"""{_HEAD}
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    norms = [p.grad.norm().full_tensor() for p in model.parameters()]
    for p in model.parameters():
        p.grad.to_local().mul_(1.0 / torch.stack(norms).norm())
    optimizer.step()
""",
    f"""{_HEAD}
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    norms = [p.grad.to_local().norm().item() for p in model.parameters()]
    for p in model.parameters():
        p.grad.div_(2)
    print(sum(norms))
    optimizer.step()
""",
)
_NORMS = frozenset({"norm", "vector_norm", "_foreach_norm", "square", "pow", "get_total_norm"})
_SCALES = frozenset({"mul_", "div_", "_foreach_mul_", "_foreach_div_"})
_TOGETHER = frozenset(
    {
        "all_reduce",
        "reduce",
        "all_gather",
        "all_gather_into_tensor",
        "all_gather_object",
        "full_tensor",
        "all_gather_tensor",
    }
    | {"redistribute", "get_total_norm", "reduce_scatter", "all_reduce_coalesced", "clip_grad_norm_", "gather"}
)


def check(context: Context) -> Iterator[Finding]:
    """Look for scopes in which norms of shards scale gradients, in scripts that add nothing up over ranks."""
    scripts = context.reading.scripts
    if any(words_in(script.tree) & _TOGETHER for script in scripts):
        return
    for script in scripts:
        functions = list(script.nodes(ast.FunctionDef))
        within = {id(part) for one in functions for part in ast.walk(one) if part is not one}
        loops = [one for one in (*script.nodes(ast.For), *script.nodes(ast.While)) if id(one) not in within]
        for scope in (*functions, *loops):
            words = words_in(scope)
            shards = [one for one in ast.walk(scope) if isinstance(one, ast.Attribute) and one.attr == "to_local"]
            graded = [one for one in shards if "grad" in words_in(one.value) or isinstance(one.value, ast.Name)]
            if not graded or "grad" not in words or not words & _NORMS or not _scales_by_norm(scope):
                continue
            yield context.finding(
                RULE,
                (script, graded[0]),
                "gradients are shortened by the norm of a rank's own shard: each rank shortens by another factor",
                evidence=[Evidence("sums over ranks", 0)],
                fix=Fix(
                    title="clip by the norm of all shards",
                    instruction="call torch.nn.utils.clip_grad_norm_, or add the squares up over the ranks before the root is taken",
                    expected="all ranks shorten by the same factor",
                ),
            )
            return


def _scales_by_norm(scope: ast.AST) -> bool:
    """Whether something is multiplied in place by a number that was computed of a norm."""
    known: set[str] = set()
    made = [one for one in ast.walk(scope) if isinstance(one, (ast.Assign, ast.AugAssign))]
    for _ in made:
        for one in made:
            if words_in(one.value) & (known | _NORMS):
                targets = one.targets if isinstance(one, ast.Assign) else [one.target]
                known |= {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    calls = (one for one in ast.walk(scope) if isinstance(one, ast.Call) and getattr(one.func, "attr", "") in _SCALES)
    return any(words_in(given) & (known | _NORMS) for one in calls for given in one.args)
