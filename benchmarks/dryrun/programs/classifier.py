"""BERT-large on sequences of 512 tokens, as the transformers documentation of 2022 trained it: python classifier.py JSON.

What that time's versions did otherwise is written out: the library's own AdamW, gradients that are set to zero and kept,
attention out of elementary operators with a softmax that keeps its input (PyTorch before 1.11), reentrant checkpointing.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import torch
import transformers
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class AdamW(torch.optim.Optimizer):
    """AdamW of transformers 4, parameter by parameter."""

    def __init__(self, params: Any, lr: float = 5e-5) -> None:
        super().__init__(params, {"lr": lr, "betas": (0.9, 0.999), "eps": 1e-8})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Do one update."""
        for group in self.param_groups:
            first, second = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["step"] = 0
                    state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
                state["step"] += 1
                state["mean"].mul_(first).add_(parameter.grad, alpha=1 - first)
                state["square"].mul_(second).addcmul_(parameter.grad, parameter.grad, value=1 - second)
                size = state["square"].sqrt().add_(group["eps"])
                rate = group["lr"] * math.sqrt(1 - second ** state["step"]) / (1 - first ** state["step"])
                parameter.addcdiv_(state["mean"], size, value=-rate)


class Softmax(torch.autograd.Function):
    """The softmax whose backward pass was given the input, of which it read the type alone."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor) -> torch.Tensor:
        """Keep the input and the result."""
        result = torch.softmax(scores, -1)
        ctx.save_for_backward(scores, result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Return the gradient of the scores."""
        scores, result = ctx.saved_tensors
        return torch._softmax_backward_data(gradient, result, -1, scores.dtype)


def attention(
    module: nn.Module, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, dropout: float = 0.0, **_: Any
) -> tuple[torch.Tensor, None]:
    """Return what the attention of 2022 mixes."""
    scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(q.shape[-1])
    # The mask was always made, in the type of the weights: with autocast the scores became fp32.
    scores = scores + torch.zeros(q.shape[0], 1, 1, k.shape[2], device=q.device)
    probabilities = nn.functional.dropout(Softmax.apply(scores), dropout, module.training)
    return torch.matmul(probabilities, v).transpose(1, 2).contiguous(), None


def optimizer_of(name: str, model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer that a row names."""
    if name == "Adafactor":
        return transformers.optimization.Adafactor(
            model.parameters(), lr=5e-5, scale_parameter=False, relative_step=False
        )
    if name == "bnb Adam8bit":
        import bitsandbytes

        return bitsandbytes.optim.Adam8bit(model.parameters(), lr=5e-5)
    return AdamW(model.parameters())


def main(told: dict[str, Any]) -> None:
    """Train for two steps."""
    config = transformers.BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
    )
    transformers.AttentionInterface.register("elementary", attention)
    config._attn_implementation = "elementary"
    model = transformers.BertForSequenceClassification(config).to(DEVICE)
    if told["recompute"]:
        model.gradient_checkpointing_enable({"use_reentrant": True})
    model.train()
    optimizer = optimizer_of(told["optimizer"], model)
    scaler = torch.amp.GradScaler(DEVICE, enabled=told["half"])
    for number in range(2 * told["accumulate"]):
        tokens = torch.randint(100, 30000, (told["batch"], 512)).to(DEVICE)
        labels = torch.randint(0, 2, (told["batch"],)).to(DEVICE)
        with torch.autocast(DEVICE, dtype=torch.float16, enabled=told["half"]):
            loss = model(input_ids=tokens, labels=labels).loss / told["accumulate"]
        scaler.scale(loss).backward()
        if (number + 1) % told["accumulate"] == 0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            model.zero_grad(set_to_none=False)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
