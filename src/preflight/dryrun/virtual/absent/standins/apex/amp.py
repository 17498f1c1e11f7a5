"""apex.amp, which its makers have given up for ``torch.amp``: what a script needs that does not switch it on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


def initialize(models: Any, optimizers: Any = None, enabled: bool = True, opt_level: str = "O1", **more: Any) -> Any:
    """Hand back what is given, in single precision; other levels change types in ways of their own and are refused."""
    if enabled and opt_level != "O0":
        raise RuntimeError(
            f"apex.amp is not installed, and a stand-in has no {opt_level}: torch.amp takes its place today"
        )
    return models if optimizers is None else (models, optimizers)


@contextlib.contextmanager
def scale_loss(loss: Any, optimizers: Any, **more: Any) -> Iterator[Any]:
    """Yield the loss as it is."""
    yield loss


def master_params(optimizer: Any) -> Iterator[Any]:
    """Yield what an optimizer holds."""
    for group in optimizer.param_groups:
        yield from group["params"]


def state_dict(destination: Any = None) -> dict[str, Any]:
    """Return an empty state: nothing is scaled."""
    return {}


def load_state_dict(state: Any) -> None:
    """Take such a state."""
