"""Functions of PyTorch that others have already taken: replaced wherever they are held."""

from __future__ import annotations

import sys
from typing import Any


def replace_everywhere(function: Any, answer: Any) -> None:
    """Put another function in the place of one wherever PyTorch's modules have taken it to."""
    name = function.__name__
    for module in [module for path, module in sys.modules.items() if path.startswith("torch.")]:
        if module.__dict__.get(name) is function:
            setattr(module, name, answer)
