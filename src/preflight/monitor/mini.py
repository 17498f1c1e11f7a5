"""Small traces written by hand: what a relation's page shows and its tests run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from preflight.monitor.window import Batch, Call, Memory, Number, Run, Seen, State, Variable, Window

_MOMENTS = {
    "gradients": ("before_step", "gradient"),
    "before": ("before_step", "parameter"),
    "after": ("after_step", "parameter"),
    "buffers": ("after_step", "buffer"),
    "left": ("before_backward", "gradient"),
    "amidst": ("accumulating", "parameter"),
    "added": ("accumulating", "gradient"),
    "made": ("after_backward", "gradient"),
    "local": ("before_exchange", "gradient"),
    "unscaling": ("before_unscale", "gradient"),
    "thrown": ("before_clear", "gradient"),
    "waiting": ("waiting", "parameter"),
    "loaded": ("loaded", "parameter"),
    "states": ("after_step", "optimizer"),
}


class Mini:
    """Makes the windows of one rank.

    A call is written as ``"name object"`` or as a tuple of that and a dictionary with ``args``, ``result``, ``context``,
    ``place``, ``error``, ``inside`` (calls within it). A state is written as one of the words below with a dictionary
    from names of variables to norms, or to pairs of norm and fingerprint::

        mini = Mini({"model.fc.weight": {}})
        mini.window("zero_grad optimizer0:SGD", "forward model", "backward", ("gradients", {"model.fc.weight": 0.5}),
                    "step optimizer0:SGD", ("after", {"model.fc.weight": (1.0, 17)}))

    Words of states: gradients, before, after (a step), buffers, left (gradients as a backward pass begins), made (by one),
    amidst and added (parameters and gradients as another pass begins before the step),
    unscaling, local (gradients before the program exchanges them), thrown (gradients that are cleared unused), waiting (what
    an optimizer holds that has never stepped), loaded, states.
    ``("loss", 0.5)`` and other numbers are ``("scalar", name, object, value)``; ``("memory", peak)`` is what the
    allocator of ``cuda:0`` tells.
    """

    def __init__(
        self, variables: Mapping[str, Mapping[str, Any]] | None = None, rank: int = 0, world: int = 1, done: int = 0
    ) -> None:
        """Take the variables: names with what differs from a trainable float32 parameter of optimizer 0.

        ``done`` steps were made before the first window.
        """
        self.run = Run(rank, world)
        self._number = 0
        self._step = done
        self._iteration = 0
        self._idents: dict[str, int] = {}
        for name, more in (variables or {}).items():
            ident = self._idents[name] = len(self._idents)
            self.run.variables[ident] = _variable(ident, name, more)

    def window(self, *rows: Any, complete: bool = True) -> Window:
        """One iteration with the rows in this order; each ``step`` of optimizer 0 counts as a step."""
        window = Window(self.run, self._iteration)
        window.step = self._step
        window.complete = complete
        for row in rows:
            self._row(window, row, -1)
        window.calls.sort(key=lambda call: call.q)
        self._iteration += 1
        return window

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _row(self, window: Window, row: Any, parent: int) -> None:
        word = row if isinstance(row, str) else row[0]
        if word in _MOMENTS and not isinstance(row, str):
            window.states.append(self._state(word, row[1], row[2] if len(row) > 2 else None))
        elif word == "scalar":
            window.numbers.append(Number(self._next(), 0, self._iteration, self._step, row[1], row[2], row[3]))
        elif word == "loss":
            window.numbers.append(Number(self._next(), 0, self._iteration, self._step, "loss", "train.py:9", row[1]))
        elif word == "memory":
            window.memory.append(self._memory(row[1], row[2] if len(row) > 2 else "cuda:0"))
        elif word == "batch":
            window.batches.append(self._batch(**row[1]))
        elif word == "tensor":
            window.tensors.append(self._tensor(**row[1]))
        elif word == "note":
            window.notes.setdefault(row[1], []).append(row[2])
        elif word == "variable":
            self._change(window, row[1], row[2])
        else:
            self._call(window, word, row[1] if not isinstance(row, str) else {}, parent)

    def _call(self, window: Window, word: str, more: Mapping[str, Any], parent: int) -> None:
        name, _, subject = word.partition(" ")
        begun, step = self._next(), self._step
        for inner in more.get("inside", ()):
            self._row(window, inner, begun)
        if name == "step" and subject.startswith("optimizer0"):
            self._step += 1
        window.calls.append(
            Call(
                begun,
                self._next(),
                begun * 1000,
                1000,
                self._iteration,
                step,
                name,
                subject,
                parent,
                1,
                more.get("place", "train.py:9"),
                more.get("context", "grad"),
                more.get("args"),
                more.get("result"),
                more.get("error"),
            )
        )

    def _state(self, word: str, held: Mapping[str, Any], extra: dict[str, Any] | None) -> State:
        moment, what = _MOMENTS[word]
        pairs = [value if isinstance(value, tuple) else (value, None) for value in held.values()]
        exact = any(bits is not None for _, bits in pairs)
        return State(
            self._next(),
            0,
            self._iteration,
            self._step,
            moment,
            what,
            "exact" if exact else "norm",
            [self._idents[name] for name in held],
            [norm for norm, _ in pairs],
            [bits for _, bits in pairs] if exact else None,
            extra,
        )

    def _memory(self, peak: int | None, device: str) -> Memory:
        head = (self._next(), 0, self._iteration, self._step, device)
        resident = 1 << 30 if peak is None else None
        return Memory(*head, peak, peak, peak, peak, None if peak is None else 80 << 30, resident)

    def _batch(
        self,
        loader: str = "loader0",
        fetch: int | None = None,
        epoch: int | None = 0,
        indices: Sequence[int] | None = None,
        bits: Sequence[int] = (),
        shapes: Sequence[Sequence[int]] = (),
        dtypes: Sequence[str] = (),
    ) -> Batch:
        number = self._iteration if fetch is None else fetch
        size = len(indices) if indices else None
        held = [list(shape) for shape in shapes]
        rows = (self._next(), self._iteration, self._step, loader, number, epoch, size)
        return Batch(*rows, list(indices) if indices else None, list(bits), held, list(dtypes))

    def _tensor(
        self,
        object: str,
        position: str = "out0",
        dtype: str = "float32",
        shape: Sequence[int] = (2, 2),
        norm: float | None = 1.0,
        requires_grad: bool = True,
        call: int = -1,
    ) -> Seen:
        head = (self._next(), self._iteration, self._step, call, object, position, dtype)
        return Seen(*head, list(shape), "cpu", norm, requires_grad)

    def _change(self, window: Window, name: str, more: Mapping[str, Any]) -> None:
        ident = self._idents.setdefault(name, len(self._idents))
        known = self.run.variables.get(ident)
        row = known._replace(**more) if known is not None else _variable(ident, name, more)
        window.changed.append(row)
        self.run.variables[ident] = row


def _variable(ident: int, name: str, more: Mapping[str, Any]) -> Variable:
    plain: dict[str, Any] = {
        "q": 0,
        "i": 0,
        "id": ident,
        "name": name,
        "kind": "parameter",
        "root": name.split(".")[0],
        "module": "Linear",
        "dtype": "float32",
        "shape": [4, 4],
        "device": "cpu",
        "trainable": True,
        "numel": 16,
        "optimizer": 0,
        "group": 0,
        "shared": -1,
        "spread": None,
    }
    return Variable(**{**plain, **more})
