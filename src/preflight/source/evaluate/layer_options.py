"""What layers of ``torch.nn`` tell of themselves: ``layer.in_features`` is what it was made with."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.source.evaluate.library import AttributeHandler, Model
from preflight.source.values import Obj, Value, plain

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

_CONVOLVED = ("in_channels", "out_channels", "kernel_size", "stride", "padding")
_OPTIONS = {
    "Linear": ("in_features", "out_features"),
    "Bilinear": ("in1_features", "in2_features", "out_features"),
    "Embedding": ("num_embeddings", "embedding_dim", "padding_idx"),
    "EmbeddingBag": ("num_embeddings", "embedding_dim"),
    "GroupNorm": ("num_groups", "num_channels"),
    "Dropout": ("p",),
    "MultiheadAttention": ("embed_dim", "num_heads"),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), ("input_size", "hidden_size", "num_layers")),
    **dict.fromkeys(("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"), ("num_features",)),
}
"""The options of a layer that it keeps under their names, in the order of its constructor."""
_DEFAULTS = {"stride": 1, "padding": 0, "num_layers": 1, "p": 0.5}


def register(model: Model) -> None:
    """Enter the options of all layers into the model of PyTorch."""
    for kind, names in _OPTIONS.items():
        for place, name in enumerate(names):
            model.attributes[f"torch.nn.{kind}.{name}"] = _option(place, name)
    for rank in (1, 2, 3):
        for kind in (f"Conv{rank}d", f"ConvTranspose{rank}d"):
            for place, name in enumerate(_CONVOLVED):
                model.attributes[f"torch.nn.{kind}.{name}"] = _option(place, name, 0 if "channels" in name else rank)


def _option(place: int, name: str, rank: int = 0) -> AttributeHandler:
    """What an option is: as it was given, or once for each of so many dimensions."""

    def told(m: Machine, base: Value, attribute: str, node: ast.AST, key: Value | None) -> Value | None:
        if not isinstance(base, Obj) or base.cls is not None:
            return None
        given = base.argument(place, name)
        if given is None:
            found = _DEFAULTS.get(name)
            if found is None or base.open_args:
                return None
            return m.lift((found,) * rank if rank else found, node)
        size = plain(given) if rank else None
        return m.lift((size,) * rank, node) if isinstance(size, int) else given

    return told
