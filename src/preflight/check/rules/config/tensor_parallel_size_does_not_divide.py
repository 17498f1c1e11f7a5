"""The tensor-parallel size does not divide the model.

## What it does
Compares the number of ranks that layers are cut over with the heads of the model: the mesh given to `parallelize_module`, `tp_size` of a library, `tensor_model_parallel_size` of Megatron.
Where Megatron's own configuration is given, its hidden and feed-forward widths are compared as well.

## Why
Each rank computes whole heads: the projection of 12 heads of 64 over 8 ranks leaves 96 columns per rank, 1.5 heads, and the first reshape fails.
With grouped queries the few key and value heads are the limit: 2 of them cannot be cut over 4 ranks.
Megatron asserts the same when the model is built.

## Fix
Choose a size that divides the heads and the key-value heads, usually a power of two up to the GPUs of one node.

## When to ignore
When the plan keeps keys and values whole on every rank.

## References
- PyTorch tutorial, "Large Scale Transformer model training with Tensor Parallel"
- Shoeybi et al., "Megatron-LM", 2019
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, Place
from preflight.check.queries.meshes import size_of
from preflight.check.rule import Example, Rule
from preflight.source.trace import Event
from preflight.source.values import Dict, Known, settle
from preflight.vocabulary.finding import Confidence, Finding

RULE = Rule(
    name="tensor-parallel-size-does-not-divide",
    code="CFG003",
    severity="error",
    confidence="likely",
    layer="C",
    tags=("distributed", "configuration"),
)

_LOOP = """
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for batch in loader:
    optimizer.zero_grad()
    model(batch, labels=batch).loss.backward()
    optimizer.step()
"""
_PLAN = """
plan = {"self_attn.q_proj": ColwiseParallel(), "self_attn.k_proj": ColwiseParallel(), "self_attn.v_proj": ColwiseParallel(),
        "self_attn.o_proj": RowwiseParallel()}
"""
_TORCH = """
import argparse, torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from transformers import AutoModelForCausalLM
parser = argparse.ArgumentParser()
parser.add_argument("--tp", type=int, default=%d)
args = parser.parse_args()
"""
_CUT = """
mesh = init_device_mesh("cuda", (2, args.tp), mesh_dim_names=("dp", "tp"))
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
for block in model.model.layers:
    parallelize_module(block, mesh["tp"], plan)
"""
BAD = (
    _TORCH % 4 + _PLAN + _CUT + _LOOP,
    Example(
        """
import torch
from transformers import AutoModelForCausalLM as Auto
def build():
    return Auto.from_pretrained("openai-community/gpt2", tp_plan="auto")
model = build()
"""
        + _LOOP,
        launch="torchrun --nproc_per_node 8 train.py",
    ),
    """
from dataclasses import dataclass
from megatron.core import parallel_state as state
from megatron.core.transformer.transformer_config import TransformerConfig
@dataclass
class Cut:
    tensors: int = 8
cut = Cut()
state.initialize_model_parallel(tensor_model_parallel_size=cut.tensors)
config = TransformerConfig(num_layers=12, hidden_size=768, num_attention_heads=12)
""",
    """
from nemo.collections import llm
import nemo.lightning as nl
strategy = nl.MegatronStrategy(tensor_model_parallel_size=4)
config = llm.GPTConfig(num_layers=32, hidden_size=3072, num_attention_heads=24, num_query_groups=6)
""",
)

GOOD = (
    _TORCH % 2 + _PLAN + _CUT + _LOOP,
    _TORCH % 4
    + 'plan = {"mlp.up_proj": ColwiseParallel(), "mlp.gate_proj": ColwiseParallel(), "mlp.down_proj": RowwiseParallel()}'
    + _CUT
    + _LOOP,
    """
from megatron.core import parallel_state
from megatron.core.transformer.transformer_config import TransformerConfig
parallel_state.initialize_model_parallel(tensor_model_parallel_size=4, pipeline_model_parallel_size=3)
config = TransformerConfig(num_layers=12, hidden_size=768, num_attention_heads=12)
""",
)

_ATTENTION = r"att|(^|\.)(w?[qkv]|[qkv]_proj|query|key|value|qkv\w*)$"
_KEYS = r"(^|\.)(w?[kv]|[kv]_proj|key|value|kv\w*|qkv\w*)$"
_FAMILIES = ("megatron.", "nemo.", "megatron_core.")


def check(context: Context) -> Iterator[Finding]:
    """Find sizes that the heads cannot be cut by."""
    yield from _of_modules(context)
    yield from _of_libraries(context)
    yield from _of_megatron(context)


def _of_modules(context: Context) -> Iterator[Finding]:
    seen: set[int] = set()
    for event in context.trace.calls("torch.distributed.tensor.parallel.parallelize_module"):
        size = size_of(event.argument(1, "device_mesh"))
        if size is None or event.context.shadow or size in seen:
            continue
        plan = event.argument(2, "parallelize_plan")
        paths = settle(plan) if plan is not None else None
        keys = [str(k) for k in paths.entries] if isinstance(paths, Dict) else None
        if keys is not None and not any(re.search(_ATTENTION, k) for k in keys):
            continue
        seen.add(size)
        grouped = keys is None or any(re.search(_KEYS, k) for k in keys)
        yield from _heads(context, event, size, grouped, "likely" if keys is not None else "possible")


def _of_libraries(context: Context) -> Iterator[Finding]:
    """``from_pretrained(tp_plan="auto")`` cuts over all ranks, or over ``tp_size`` of them."""
    for event in context.trace.calls_under("transformers.", "accelerate."):
        if event.context.shadow or not event.name.endswith((".from_pretrained", "Config")):
            continue
        named = event.kwargs.get("tp_size")
        asked = context.value(event.kwargs.get("tp_plan"))
        if named is None and asked != "auto":
            continue
        size = context.value(named) if named is not None else context.fact("world_size")
        if isinstance(size, int) and not isinstance(size, bool) and "device_mesh" not in event.kwargs:
            yield from _heads(context, event, size, True, "likely")


def _heads(context: Context, event: Event, size: int, grouped: bool, confidence: Confidence) -> Iterator[Finding]:
    model = context.model
    if model is None or model.heads is None or len(context.reading.models) != 1:
        return
    if model.heads % size:
        yield _finding(context, event, size, "heads", model.heads, confidence)
    elif grouped and model.kv_heads and model.kv_heads % size:
        yield _finding(context, event, size, "key and value heads", model.kv_heads, confidence)


def _of_megatron(context: Context) -> Iterator[Finding]:
    """The size and the shape may be given to one configuration, or to two that are used together."""
    events = [e for e in context.trace.calls_under(*_FAMILIES) if not e.context.shadow]
    cuts = [e for e in events if "tensor_model_parallel_size" in e.kwargs]
    shapes = [e for e in events if "num_attention_heads" in e.kwargs]
    sizes = {context.value(e.kwargs["tensor_model_parallel_size"]) for e in cuts}
    if len(sizes) != 1 or len(shapes) != 1:
        return
    size, shape = sizes.pop(), shapes[0]
    if not isinstance(size, int) or size < 2:
        return
    for key in ("num_attention_heads", "num_query_groups", "hidden_size", "ffn_hidden_size"):
        given = shape.kwargs.get(key)
        worth = settle(given) if given is not None else None
        number = worth.value if isinstance(worth, Known) else None
        if isinstance(number, int) and number > 0 and number % size:
            if key == "num_query_groups" and size % number == 0:
                continue  # newer versions repeat the groups
            yield _finding(context, cuts[0], size, key, number, "likely", shape)
            return


def _finding(
    context: Context,
    place: Event,
    size: int,
    what: str,
    number: int,
    confidence: Confidence,
    shape: Place | None = None,
) -> Finding:
    fitting = [n for n in (2, 4, 8, 3, 6, 5, 7) if number % n == 0]
    return context.finding(
        RULE,
        place,
        f"the model is cut over {size} ranks, but has {number} {what}: {number} / {size} is not a whole number per rank",
        confidence=confidence,
        evidence=[
            Evidence("tensor-parallel size", size),
            Evidence(what, number, arithmetic=f"{number} / {size} = {number / size:.4g}"),
        ],
        related=[(shape, "the shape of the model")] if shape is not None else [],
        fix=Fix(
            title=f"choose a tensor-parallel size that divides {number}",
            instruction="use " + (", ".join(map(str, sorted(fitting))) if fitting else "1") + " ranks",
            expected="each rank computes whole heads",
        ),
    )
