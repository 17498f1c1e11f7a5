"""Width of the model is not a multiple of its heads.

## What it does
Compares the width and the number of heads of attention layers and of Hugging Face configurations.

## Why
Attention splits the width evenly between its heads.
`nn.MultiheadAttention(100, 8)` fails an assertion when it is made; a configuration such as `GPT2Config(n_embd=100, n_head=8)` fails when the model is built.
Key and value heads have to divide the query heads as well.

## Fix
Choose a width that is a multiple of the number of heads, with 64 or 128 per head.

## When to ignore
When the architecture gives the size of a head on its own (`head_dim`, as Gemma and Qwen 3 do by default); such configurations are not reported.

## References
- PyTorch documentation, torch.nn.MultiheadAttention
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.catalog.configurations import spec_from_config
from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.errors import InputError
from preflight.source.known_models import config_type
from preflight.source.trace import Event
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="heads-do-not-divide-width",
    code="CFG001",
    severity="error",
    confidence="certain",
    layer="C",
    tags=("configuration", "attention"),
)

BAD = (
    """
import torch
layer = torch.nn.MultiheadAttention(100, 8)
""",
    """
import argparse
from torch import nn
from torch.nn import TransformerEncoderLayer as Layer
class Net(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.encoder = nn.TransformerEncoder(Layer(d_model=args.width, nhead=args.heads), 6)
p = argparse.ArgumentParser()
p.add_argument("--width", type=int, default=512)
p.add_argument("--heads", type=int, default=12)
net = Net(p.parse_args())
""",
    """
from dataclasses import dataclass
import transformers
@dataclass
class Shape:
    width: int = 700
    heads: int = 12
def build(shape):
    return transformers.GPT2Config(n_embd=shape.width, n_head=shape.heads)
config = build(Shape())
""",
    """
from transformers import LlamaConfig
config = LlamaConfig(hidden_size=1024, num_attention_heads=16, num_key_value_heads=3)
""",
)

GOOD = (
    """
import torch, transformers
layer = torch.nn.MultiheadAttention(96, 8)
other = torch.nn.MultiheadAttention(embed_dim=width, num_heads=7)
config = transformers.GPT2Config(n_embd=96)
llama = transformers.LlamaConfig(hidden_size=1000, num_attention_heads=7, head_dim=128)
qwen = transformers.Qwen3Config(hidden_size=1000, num_attention_heads=16, num_key_value_heads=8)
gemma = transformers.GemmaConfig(hidden_size=1000, num_attention_heads=16)
""",
)

_LAYERS = {
    "torch.nn.MultiheadAttention": (0, "embed_dim", 1, "num_heads"),
    "torch.nn.TransformerEncoderLayer": (0, "d_model", 1, "nhead"),
    "torch.nn.TransformerDecoderLayer": (0, "d_model", 1, "nhead"),
    "torch.nn.Transformer": (0, "d_model", 1, "nhead"),
}
_DEFAULTS = {"torch.nn.Transformer": (512, 8)}


def check(context: Context) -> Iterator[Finding]:
    """Find widths that heads do not divide."""
    for event in context.trace.calls(*_LAYERS):
        i, width_name, j, heads_name = _LAYERS[event.name]
        default = _DEFAULTS.get(event.name, (None, None))
        width = context.value(
            event.argument(i, width_name), default[0] if event.argument(i, width_name) is None else None
        )
        heads = context.value(
            event.argument(j, heads_name), default[1] if event.argument(j, heads_name) is None else None
        )
        yield from _compare(context, event, width, heads, width_name, heads_name)
    for event in context.trace.calls_under("transformers."):
        kind = config_type(event.name)
        if kind is None:
            continue
        for names in _NAMES:
            if names[0] in event.kwargs and names[1] in event.kwargs:
                width, heads = (context.value(event.kwargs[n]) for n in names)
                if _is_split(kind, dict(zip(names, (width, heads), strict=True)), event):
                    yield from _compare(context, event, width, heads, *names)
        heads, groups = (context.value(event.kwargs.get(n)) for n in ("num_attention_heads", "num_key_value_heads"))
        if isinstance(heads, int) and isinstance(groups, int) and groups > 0:
            yield from _compare(context, event, heads, groups, "num_attention_heads", "num_key_value_heads")


_NAMES = (("hidden_size", "num_attention_heads"), ("n_embd", "n_head"), ("d_model", "num_heads"), ("dim", "n_heads"))
_OWN_SIZES = frozenset(("head_dim", "d_kv"))


def _is_split(kind: str, given: dict[str, object], event: Event) -> bool:
    """Whether a head is a part of the width: several families have a size of their own for it (Gemma, Qwen 3, T5)."""
    if _OWN_SIZES & event.kwargs.keys() or not all(isinstance(v, int) and v > 0 for v in given.values()):
        return False
    try:
        spec = spec_from_config({"model_type": kind, **given})
    except InputError:
        return True
    if spec is None or not spec.hidden or not spec.heads:
        return False
    return spec.head_dim in (None, spec.hidden // spec.heads)


def _compare(
    context: Context, event: Event, width: object, heads: object, width_name: str, heads_name: str
) -> Iterator[Finding]:
    if not isinstance(width, int) or not isinstance(heads, int) or heads <= 0 or width % heads == 0:
        return
    lower, upper = width // heads * heads, (width // heads + 1) * heads
    yield context.finding(
        RULE,
        event,
        f"{width_name}={width} is not a multiple of {heads_name}={heads}: it cannot be split evenly between them",
        evidence=[
            Evidence(width_name, width),
            Evidence(heads_name, heads, arithmetic=f"{width} = {width // heads} x {heads} + {width % heads}"),
        ],
        fix=Fix(
            title=f"choose {width_name}={upper}" if lower == 0 else f"choose {width_name}={lower} or {upper}",
            instruction=f"make {width_name} a multiple of {heads_name}",
            expected="the layer can be built",
        ),
    )
