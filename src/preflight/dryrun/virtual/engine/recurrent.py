"""LSTM, GRU and plain recurrent layers, sent to cuDNN's kernel as on CUDA instead of being taken apart step by step.

Cells are sent to the kernels of CUDA as well: before 2.10, C++ does not see that their tensors lie on a GPU.
"""

from __future__ import annotations

from typing import Any

import torch

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.engine.operators import SPECIAL
from preflight.dryrun.virtual.reserve import reserved_values

MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
_NAMES = {mode: name for name, mode in MODES.items()}

_kept: list[Any] = []


def install() -> None:
    """Register the layers for the virtual GPU, and cuDNN's kernel with its backward pass."""
    private.keep_recurrent_weights()
    library = torch.library.Library("aten", "IMPL")
    _kept.append(library)
    for name, mode in MODES.items():
        library.impl(f"{name}.input", _layers(mode), "AutogradPrivateUse1")
        library.impl(f"{name}.data", _packed(mode), "AutogradPrivateUse1")
    library.impl("lstm_cell", _lstm_cell, "AutogradPrivateUse1")
    library.impl("gru_cell", _gru_cell, "AutogradPrivateUse1")
    SPECIAL["_pack_padded_sequence"] = _pack
    SPECIAL["_cudnn_rnn"] = _forward
    SPECIAL["_cudnn_rnn_backward"] = _backward
    SPECIAL["_thnn_fused_gru_cell"] = _cell
    SPECIAL["_thnn_fused_gru_cell_backward"] = _cell_backward


def _run(mode: int, x: Any, hx: Any, weights: Any, biases: bool, layers: int, dropout: float, train: bool,
         both: bool, batch_first: bool, sizes: list[int]) -> Any:  # fmt: skip
    state, cell = (hx[0], hx[1]) if mode == MODES["lstm"] else (hx, None)
    hidden, projected = state.shape[2], 0
    if cell is not None and cell.shape[2] != hidden:
        hidden, projected = cell.shape[2], hidden
    stride = 2 + 2 * biases + bool(projected)
    if torch.is_autocast_enabled("cuda"):
        # Weights are turned anew in every call (aten/src/ATen/cudnn/AutocastRNN.cpp).
        dtype = torch.get_autocast_dtype("cuda")
        x, state, weights = x.to(dtype), state.to(dtype), [weight.to(dtype) for weight in weights]
        cell = None if cell is None else cell.to(dtype)
    out, hy, cy, _, _ = torch.ops.aten._cudnn_rnn(
        x, weights, stride, None, state, cell, mode, hidden, projected, layers, batch_first, dropout, train, both,
        sizes, None,
    )  # fmt: skip
    return (out, hy, cy) if cell is not None else (out, hy)


def _layers(mode: int) -> Any:
    def run(x: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
            bidirectional: bool, batch_first: bool) -> Any:  # fmt: skip
        return _run(mode, x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, [])

    return run


def _packed(mode: int) -> Any:
    def run(data: Any, batch_sizes: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float,
            train: bool, bidirectional: bool) -> Any:  # fmt: skip
        sizes = batch_sizes.tolist()
        return _run(mode, data, hx, params, has_biases, num_layers, dropout, train, bidirectional, False, sizes)

    return run


def _lstm_cell(x: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """One product each for input and state, then one kernel (aten/src/ATen/native/RNN.cpp, where the device is CUDA)."""
    gates = torch.nn.functional.linear(x, w_ih), torch.nn.functional.linear(hx[0], w_hh)
    return torch.ops.aten._thnn_fused_lstm_cell(*gates, hx[1], b_ih, b_hh)[:2]


def _gru_cell(x: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    gates = torch.nn.functional.linear(x, w_ih), torch.nn.functional.linear(hx, w_hh)
    return torch.ops.aten._thnn_fused_gru_cell(*gates, hx, b_ih, b_hh)[0]


def _pack(gpu: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Lengths lie on the host, with their numbers."""
    x, lengths = args[0], args[1].tolist()
    sizes = [sum(length > at for length in lengths) for at in range(max(lengths))]
    with gpu.fake:
        data = x.new_empty((sum(lengths), *x.shape[2:]))
    return data, torch.tensor(sizes)


def _forward(gpu: Any, func: Any, args: Any, kwargs: Any) -> Any:
    x, _, _, _, hx, cx, mode, hidden, projected, layers, _, _, train, both = args[:14]
    directions, width = 1 + both, projected or hidden
    tokens = x.numel() // x.shape[-1]
    kept = reserved_values(_NAMES[mode], layers, directions, hidden, width)
    with gpu.fake:
        out = x.new_empty((*x.shape[:-1], directions * width))
        hy = hx.new_empty(tuple(hx.shape))
        cy = x.new_empty((0,)) if cx is None else cx.new_empty(tuple(cx.shape))
        reserve = torch.empty((tokens * kept * x.element_size() if train else 0,), dtype=torch.uint8, device=gpu.device)
        return out, hy, cy, reserve, x.new_empty((0,))


def _backward(gpu: Any, func: Any, args: Any, kwargs: Any) -> Any:
    x, weights, _, _, hx, cx = args[:6]
    wanted = args[-1]
    with gpu.fake:
        # The gradients of all weights lie in one buffer, as the weights do.
        flat = x.new_empty((sum(weight.numel() for weight in weights),))
        parts, at = [], 0
        for weight in weights:
            parts.append(flat[at : at + weight.numel()].view(weight.shape))
            at += weight.numel()
        return (
            x.new_empty(tuple(x.shape)) if wanted[0] else None,
            hx.new_empty(tuple(hx.shape)) if wanted[1] else None,
            cx.new_empty(tuple(cx.shape)) if wanted[2] and cx is not None else None,
            parts if wanted[3] else [],
        )


def _cell(gpu: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """A GRU cell; it keeps five values of a hidden unit (aten/src/ATen/native/cuda/RNN.cu, GRU_WORKSPACE_MULTIPLIER)."""
    state = args[2]
    with gpu.fake:
        return state.new_empty(tuple(state.shape)), state.new_empty((state.shape[0], 5 * state.shape[1]))


def _cell_backward(gpu: Any, func: Any, args: Any, kwargs: Any) -> Any:
    gradient, biased = args[0], args[2]
    rows, hidden = gradient.shape
    with gpu.fake:
        gates = [gradient.new_empty((rows, 3 * hidden)) for _ in range(2)]
        biases = [gradient.new_empty((3 * hidden,)) if biased else None for _ in range(2)]
        return (*gates, gradient.new_empty((rows, hidden)), *biases)
