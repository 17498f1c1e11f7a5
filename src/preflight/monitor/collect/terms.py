"""Losses that torch computes: what each is worth, whether gradients came to it, and what a total is added up from.

A loss that no backward pass comes to is a number that somebody wanted to see, or a term that was forgotten. Looked at are,
in detailed iterations, losses of ``torch.nn.functional`` that are reduced to one number. Nothing of their graphs is held:
a hook notes that gradients came.
"""

from __future__ import annotations

import functools
from typing import Any

from .backward import read_later
from .entry import Entry
from .functionals import watch
from .graph import name_of
from .patching import Patches
from .places import from_program, here
from .plain import impossible, plain_types
from .recorder import Recorder

VALUE, REACHED, ENDS = "term.value", "term.reached", "term.ends"
_LOSSES = (
    *("binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy", "ctc_loss"),
    *("gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss"),
    *("mse_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss"),
    *("poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss"),
)
_MOST_TERMS = 16  # of an iteration
_MOST_PLACES = 64
_MOST_ENDS = 40
_ADDING = (
    "Add",
    "Sub",
    "Rsub",
    "Mul",
    "Div",
    "Neg",
    "Sum",
    "Mean",
    "Stack",
    "Cat",
    "View",
    "Squeeze",
    "Unsqueeze",
    "ToCopy",
)
"""Operations that make one loss of several."""


class _Term:
    """A loss of this iteration; its graph is not held."""

    __slots__ = ("reached", "word")

    def __init__(self, word: str) -> None:
        self.word = word
        self.reached = False

    def came(self, gradients: Any) -> None:
        """Gradients have come to it."""
        self.reached = True


class Terms:
    """Watches losses that are reduced to one number."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._open: list[_Term] = []
        self._orders: dict[str, int] = {}  # by place, how many there were in this iteration
        plain_types(recorder.torch)

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        if self.recorder.wants(REACHED):
            for name in _LOSSES:
                watch(self.recorder, patches, name, None, functools.partial(self._made, name))

    def _made(self, name: str, output: Any) -> None:
        """A loss was computed."""
        recorder = self.recorder
        if recorder.backward_depth or type(output) not in plain_types(recorder.torch) or impossible(recorder.torch):
            return  # what is computed once more within a backward pass is another one's
        node = output.grad_fn
        if output.dim() or len(self._open) >= _MOST_TERMS or not recorder.torch.is_grad_enabled():
            return
        place = from_program(here())
        if place not in self._orders and len(self._orders) >= _MOST_PLACES:
            return
        order = self._orders[place] = self._orders.get(place, -1) + 1
        term = _Term(f"{place}#{order}#{name}#{name_of(node) if node is not None else ''}")
        if node is not None:  # otherwise what it compares was made to numbers before
            node.register_prehook(term.came)
        self._open.append(term)
        head = recorder.head()
        word = term.word
        recorder.later(read_later(output), lambda values: [("scalar", (*head, VALUE, word, values[0]))])

    def begins(self, entry: Entry, loss: Any) -> None:
        """A backward pass begins: tell what its loss is added up from, where it is added up from few things."""
        root = getattr(loss, "grad_fn", None)
        if self._open and root is not None:
            names = _ends(root)
            if names:
                self.recorder.scalar(ENDS, f"{from_program(entry.place)}#{'+'.join(sorted(names))}", float(len(names)))

    def boundary(self) -> None:
        """An iteration ends."""
        recorder = self.recorder
        terms, self._open = self._open, []
        self._orders.clear()
        if not recorder.backwards:
            return
        for term in terms:
            recorder.scalar(REACHED, term.word, float(term.reached))


def _ends(root: Any) -> list[str]:
    """Names of what a loss is added up from by arithmetic alone; nothing where that is too much."""
    nodes, seen, names = [root], {id(root)}, []
    for count, node in enumerate(nodes):  # grows as it goes
        if count >= _MOST_ENDS:
            return []
        name = name_of(node)
        if name not in _ADDING:
            names.append(name)
            continue
        for below, _ in node.next_functions:
            if below is not None and id(below) not in seen:
                seen.add(id(below))
                nodes.append(below)
    return names
