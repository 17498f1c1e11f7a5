"""Scopes: whose habits a learnt statement tells, so that another program is not held to them.

How often a loop clips, or in which mode it calls its model, is a habit of one program. What was learnt of it is said of
the models that it trains: by the classes of the modules that the program calls, and of the layers in them. Names of
variables would not do, because half of all programs call theirs ``model``; sizes and seeds do not count, so that the
same program with another width, length or seed is in the same scope.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from preflight.monitor.window import Run, Window

MODEL = "model"
"""The field of a subject that holds the scope."""
_OWN = frozenset(
    "Sequential Linear Module ModuleList ModuleDict Embedding EmbeddingBag RNN LSTM GRU Transformer OptimizedModule "
    "DistributedDataParallel DataParallel FullyShardedDataParallel".split()
)
"""Classes of PyTorch's own, which say little about a program; of these the layers are counted, too."""


def scope_of(window: Window) -> str:
    """The models that are trained, in words; the windows of a rank must be asked for in order."""
    run = window.run
    for name in ("root", "forward"):
        for call in window.named(name):
            kind = (call.args or {}).get("type")
            if kind and run.classes.get(call.object) != kind:
                run.classes[call.object] = kind
                run.variables.scope = None
    if run.variables.scope is None:
        run.variables.scope = _scope(run)
    return run.variables.scope


def precision_of(window: Window) -> str:
    """The dtypes of the parameters that are trained, in words."""
    variables = window.run.variables
    if variables.precision is None:
        found = {one.dtype for one in variables.values() if one.kind == "parameter" and one.optimizer >= 0}
        variables.precision = " and ".join(sorted(found)) or "none"
    return variables.precision


def _scope(run: Run) -> str:
    layers: dict[str, Counter[str]] = {}
    for one in run.variables.values():
        if one.kind == "parameter" and one.optimizer >= 0:
            layers.setdefault(one.root, Counter())[one.module or "tensor"] += 1
    if not layers:  # no optimizer: the program makes its steps by hand, and of its models the classes are known
        return " + ".join(sorted(set(run.classes.values()))) or "nothing"
    told = {_model(run.classes.get(root) or "", tuple(sorted(found.items()))) for root, found in layers.items()}
    return " + ".join(sorted(told)) or "nothing"


@lru_cache(maxsize=256)
def _model(kind: str, layers: tuple[tuple[str, int], ...]) -> str:
    if kind and kind not in _OWN:
        return f"{kind} of {', '.join(name for name, _ in layers)}"
    return f"{kind or 'a model'} of {', '.join(f'{count} {name}' for name, count in layers)}"
