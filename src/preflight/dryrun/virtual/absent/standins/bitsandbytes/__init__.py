"""Stand-in for bitsandbytes: optimizers and layers with the bytes that they keep on the GPU."""

from __future__ import annotations

from . import nn, optim

__version__ = "0.45.0"
__all__ = ["nn", "optim"]
