"""Parts of networks."""

from __future__ import annotations

from typing import Any

from torch import nn


class IntermediateLayerGetter(nn.ModuleDict):
    """The layers of a network up to the last that is asked for; returns what those give that are asked for."""

    def __init__(self, model: Any, return_layers: dict[str, str]) -> None:
        wanted, layers = dict(return_layers), {}
        for name, layer in model.named_children():
            layers[name] = layer
            wanted.pop(name, None)
            if not wanted:
                break
        super().__init__(layers)
        self.return_layers = dict(return_layers)

    def forward(self, x: Any) -> Any:
        """Return outputs by their new names."""
        found = {}
        for name, layer in self.items():
            x = layer(x)
            if name in self.return_layers:
                found[self.return_layers[name]] = x
        return found
