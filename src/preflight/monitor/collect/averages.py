"""How much went into an average of weights that is called without gradients, as torch's own class counts it."""

from __future__ import annotations

import sys
from typing import Any

from .backward import read_later
from .plain import impossible, plain_types
from .recorder import Recorder

NAME = "averaged"


def look(recorder: Recorder, module: Any, name: str) -> None:
    """Tell how often an average was updated; nothing of other modules, nor of one with an update of its own."""
    kind: Any = getattr(sys.modules.get("torch.optim.swa_utils"), "AveragedModel", None)
    if kind is None or not isinstance(module, kind) or type(module).update_parameters is not kind.update_parameters:
        return
    count: Any = getattr(module, "n_averaged", None)
    if type(count) not in plain_types(recorder.torch) or count.numel() != 1 or impossible(recorder.torch):
        return
    head = recorder.head()
    recorder.later(read_later(count.reshape(())), lambda values: [("scalar", (*head, NAME, name, values[0]))])
