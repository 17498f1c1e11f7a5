"""Linear layers whose weights are held in 4 or 8 bits, with the bytes and the temporary copies of bitsandbytes.

Four bits: two weights in a byte, one fp32 scale for 64 weights; with nested quantisation the scales take one byte each and
one fp32 for 256 of them. Every product makes the whole weight anew, forward and backward: in the type that it had before it
was quantised, and once more in that of the input where this is another (``MatMul4Bit`` of bitsandbytes 0.41 to 0.49).
Eight bits: a byte for each weight, one fp32 scale for each row; the product is made in int32 of an input in int8.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

_BLOCK, _NESTED = 64, 256


class _Four(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, layer: Any) -> Any:
        """Multiply with the weight as it is in the type of the input."""
        ctx.layer, ctx.kind = layer, x.dtype
        return nn.functional.linear(x, layer.whole(x.dtype))

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Make the weight again."""
        return torch.matmul(gradient, ctx.layer.whole(ctx.kind)), None


class _Eight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, layer: Any) -> Any:
        """Multiply whole numbers, and scale the result."""
        ctx.layer, ctx.kind = layer, x.dtype
        whole = x.new_empty(x.shape, dtype=torch.int8)
        product = x.new_empty((*x.shape[:-1], layer.out_features), dtype=torch.int32)
        del whole
        return product.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Make the weight in the type of the gradient."""
        return torch.matmul(gradient, ctx.layer.whole(ctx.kind)), None


class Params4bit(nn.Parameter):
    """Two weights in a byte; the name is what libraries look for."""


class Int8Params(nn.Parameter):
    """A weight in a byte; the name is what libraries look for."""


class _Quantised(nn.Linear):
    kind: Any = None

    def __init__(
        self,
        input_features: int,
        output_features: int,
        bias: bool = True,
        compute_dtype: Any = None,
        *_: Any,
        **more: Any,
    ) -> None:
        super().__init__(input_features, output_features, bias, device="meta")
        self.compute_dtype = compute_dtype
        self.given_dtype: Any = None
        where = more.get("device") or "cpu"
        if bias:
            self.bias = nn.Parameter(torch.zeros(output_features, device=where, dtype=more.get("dtype")))

    def whole(self, dtype: Any) -> Any:
        """Return the weight in a type, on its device: made in that which was quantised, then turned."""
        made = self.given_dtype or dtype
        return torch.empty(self.out_features, self.in_features, dtype=made, device=self.weight.device).to(dtype)

    def forward(self, x: Any) -> Any:
        """Multiply, and add the bias."""
        given = x.dtype
        if self.compute_dtype is not None:
            x = x.to(self.compute_dtype)
        made = self.kind.apply(x, self)
        if self.bias is not None:
            made = made + self.bias.to(made.dtype)
        return made.to(given)


class Linear4bit(_Quantised):
    """A linear layer in four bits."""

    kind = _Four

    def __init__(
        self,
        input_features: int,
        output_features: int,
        bias: bool = True,
        compute_dtype: Any = None,
        compress_statistics: bool = True,
        quant_type: str = "fp4",
        **more: Any,
    ) -> None:
        super().__init__(input_features, output_features, bias, compute_dtype, **more)
        self.given_dtype = more.get("dtype")
        where, count = more.get("device") or "cpu", input_features * output_features
        packed = torch.empty((count + 1) // 2, 1, dtype=torch.uint8, device=where)
        self.weight = Params4bit(packed, requires_grad=False)
        blocks = -(-count // _BLOCK)
        if compress_statistics:
            self.register_buffer("absmax", torch.empty(blocks, dtype=torch.uint8, device=where), persistent=False)
            nested = torch.empty(-(-blocks // _NESTED), dtype=torch.float32, device=where)
            self.register_buffer("nested_absmax", nested, persistent=False)
        else:
            self.register_buffer("absmax", torch.empty(blocks, dtype=torch.float32, device=where), persistent=False)


class Linear8bitLt(_Quantised):
    """A linear layer in eight bits."""

    kind = _Eight

    def __init__(
        self, input_features: int, output_features: int, bias: bool = True, has_fp16_weights: bool = False, **more: Any
    ) -> None:
        super().__init__(input_features, output_features, bias, None, **more)
        where = more.get("device") or "cpu"
        held = torch.empty(output_features, input_features, dtype=torch.int8, device=where)
        self.weight = Int8Params(held, requires_grad=False)
        self.register_buffer("SCB", torch.empty(output_features, device=where), persistent=False)


def quantise(model: nn.Module, bits: int, nested: bool, compute: Any, kept: tuple[str, ...]) -> None:
    """Hold the linear layers of a model in fewer bits, but for its head.

    Args:
        model: The model.
        bits: 4 or 8.
        nested: Whether scales are quantised in turn.
        compute: The type of products; None is that of the input.
        kept: Names of layers that stay as they are.
    """
    head = getattr(model, "get_output_embeddings", lambda: None)()
    for path, layer in list(model.named_modules()):
        for name, child in list(layer.named_children()):
            whole = f"{path}.{name}" if path else name
            if type(child) is not nn.Linear or child is head or any(part in whole.split(".") for part in kept):
                continue
            more = {"device": child.weight.device, "dtype": child.weight.dtype}
            sizes = (child.in_features, child.out_features, child.bias is not None)
            made = Linear4bit(*sizes, compute, nested, **more) if bits == 4 else Linear8bitLt(*sizes, **more)
            setattr(layer, name, made)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    setattr(model, f"is_loaded_in_{bits}bit", True)


def asked(given: dict[str, Any]) -> dict[str, Any] | None:
    """Return what the arguments of ``from_pretrained`` ask for, or None.

    Args:
        given: The arguments by name.
    """
    wanted = given.get("quantization_config")
    told: Any = (
        (lambda name: wanted.get(name)) if isinstance(wanted, dict) else lambda name: getattr(wanted, name, None)
    )
    four = given.get("load_in_4bit") or told("load_in_4bit")
    eight = given.get("load_in_8bit") or told("load_in_8bit")
    if not (four or eight):
        return None
    compute = told("bnb_4bit_compute_dtype")
    return {
        "bits": 4 if four else 8,
        "nested": bool(told("bnb_4bit_use_double_quant")),
        "compute": getattr(torch, compute, None) if isinstance(compute, str) else compute,
        "kept": tuple(told("llm_int8_skip_modules") or ("lm_head",)),
    }
