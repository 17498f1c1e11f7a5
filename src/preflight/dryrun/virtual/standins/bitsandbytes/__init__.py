"""Stand-in for bitsandbytes: its optimizers, with the states that they keep on the GPU."""

from __future__ import annotations

from . import optim

__version__ = "0.45.0"
__all__ = ["optim"]
