"""Losses that torch computes: what each is worth, whether gradients came to it, and which parameters it alone could teach.

A loss that no backward pass comes to is a number that somebody wanted to see, or a term that was forgotten. Looked at are,
in detailed iterations, losses of ``torch.nn.functional`` that are reduced to one number. Nothing of their graphs is held:
a hook notes that gradients came, and what a loss is computed from is asked while it is made, once it is in doubt.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from .backward import read_later
from .entry import Entry
from .functionals import watch
from .graph import name_of
from .patching import Patches
from .places import from_program, here
from .plain import impossible, plain_types
from .recorder import Recorder
from .variables import Variable, Variables

VALUE, REACHED, UNDER, ENDS = "term.value", "term.reached", "term.under", "term.ends"
_LOSSES = (
    *("binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy", "ctc_loss"),
    *("gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss"),
    *("mse_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss"),
    *("poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss"),
)
_MOST_TERMS = 16  # of an iteration
_MOST_PLACES = 64
_MOST_WALKS = 4  # for each place
_MOST_NODES = 2000
_MOST_UNDER = 16
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

    __slots__ = ("reached", "under", "word")

    def __init__(self, word: str) -> None:
        self.word = word
        self.reached = False
        self.under: list[Variable] = []

    def came(self, gradients: Any) -> None:
        """Gradients have come to it."""
        self.reached = True


class Terms:
    """Watches losses that are reduced to one number."""

    def __init__(self, recorder: Recorder, variables: Variables) -> None:
        self.recorder = recorder
        self.variables = variables
        self._open: list[_Term] = []
        self._orders: dict[str, int] = {}  # by place, how many there were in this iteration
        self._doubted: dict[str, int] = {}  # terms to which no gradients came once, and how often they were walked
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
        if node is None or output.dim() or len(self._open) >= _MOST_TERMS:
            return
        place = from_program(here())
        if place not in self._orders and len(self._orders) >= _MOST_PLACES:
            return
        order = self._orders[place] = self._orders.get(place, -1) + 1
        term = _Term(f"{place}#{order}#{name}#{name_of(node)}")
        node.register_prehook(term.came)
        self._open.append(term)
        walks = self._doubted.get(term.word)
        if walks is not None and walks < _MOST_WALKS and not self.variables.stale:
            self._doubted[term.word] = walks + 1
            known = (self.variables.of(tensor) for tensor in _leaves(node))
            term.under = [one for one in known if one is not None and one.optimizer >= 0]
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

    def passed(self) -> None:
        """A backward pass has ended: what has gradients now is taught by another loss."""
        for term in self._open:
            if term.under:
                term.under = [one for one in term.under if _bare(one)]

    def boundary(self) -> None:
        """An iteration ends."""
        recorder = self.recorder
        terms, self._open = self._open, []
        self._orders.clear()
        if not recorder.backwards:
            return
        for term in terms:
            recorder.scalar(REACHED, term.word, float(term.reached))
            if term.reached:
                continue
            if len(self._doubted) < _MOST_PLACES:
                self._doubted.setdefault(term.word, 0)
            for one in term.under[:_MOST_UNDER]:
                recorder.scalar(UNDER, term.word, float(one.ident))


def _bare(variable: Variable) -> bool:
    """Whether a parameter has no gradient."""
    tensor = variable.tensor() if variable.tensor is not None else None
    return tensor is not None and tensor.is_leaf and tensor.grad is None


def _below(root: Any, most: int, ends: Callable[[Any], bool]) -> Iterator[Any]:
    """The operations of a graph, down to those that ``ends`` tells of, and these; one more than the most where it is cut."""
    nodes, seen = [root], {id(root)}
    for node in nodes:  # grows as it goes
        yield node
        if ends(node):
            continue
        for below, _ in node.next_functions:
            if below is not None and id(below) not in seen and len(nodes) <= most:
                seen.add(id(below))
                nodes.append(below)


def _leaves(root: Any) -> Iterator[Any]:
    """The parameters that a loss is computed from."""
    for node in _below(root, _MOST_NODES, lambda node: False):
        tensor = getattr(node, "variable", None)
        if tensor is not None:
            yield tensor


def _ends(root: Any) -> list[str]:
    """Names of what a loss is added up from by arithmetic alone; nothing where that is too much."""
    names = []
    for count, node in enumerate(_below(root, _MOST_ENDS, lambda node: name_of(node) not in _ADDING)):
        if count >= _MOST_ENDS:
            return []
        if name_of(node) not in _ADDING:
            names.append(name_of(node))
    return names
