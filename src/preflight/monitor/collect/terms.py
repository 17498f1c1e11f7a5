"""Losses that torch computes: what each is worth, whether gradients came to it, and what a total is added up from.

A loss that no backward pass comes to is a number that somebody wanted to see, or a term that was forgotten. Looked at are,
in detailed iterations, losses of ``torch.nn.functional`` that are reduced to one number. Nothing of their graphs is held:
a hook notes that gradients came. Of a loss that no backward pass comes to, the nearest parameters are named.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator
from itertools import islice
from typing import Any

from . import sources
from .backward import read_later
from .bounded import BoundedLooks
from .entry import Entry
from .functionals import watch
from .graph import ADDING, name_of
from .patching import Patches
from .places import from_program, here
from .plain import Outside, impossible, plain_types
from .recorder import Recorder
from .variables import Variables

VALUE, REACHED, ENDS, SAME, OVER = "term.value", "term.reached", "term.ends", "term.same", "term.over"
_LOSSES = (
    *("binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy", "ctc_loss"),
    *("gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss"),
    *("mse_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss"),
    *("poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss"),
)
_MOST_TERMS = 16  # of an iteration
_MOST_PLACES = 64
_MOST_ENDS = 40
_MOST_WALKS = 6  # looks at what the losses of one place are computed from
_MARK = "preflight_term"


class _Given:
    """What a loss was given; no tensor is held."""

    __slots__ = ("_diagonal", "_others", "_refs", "_versions")

    def __init__(self, torch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        words = _words(args, kwargs)
        tensors = [(word, one) for word, one in words if isinstance(one, torch.Tensor)]
        self._others = [(word, one) for word, one in words if not isinstance(one, torch.Tensor)]
        self._refs = [(word, weakref.ref(one)) for word, one in tensors]
        self._versions = [one._version for _, one in tensors]
        self._diagonal = _diagonal(torch, [one for _, one in tensors])

    def same(self, other: _Given, torch: Any) -> Any:
        """Whether another one was given the very same tensors, as a number that may have to come from a device, or None.

        The labels of a contrastive loss, of which each sample is its own class, may have been made anew.
        """
        if self._others != other._others or [word for word, _ in self._refs] != [word for word, _ in other._refs]:
            return None
        alike = []
        for (_, one), (_, two), *versions in zip(self._refs, other._refs, self._versions, other._versions, strict=True):
            there = one()
            alike.append(there is not None and there is two() and versions[0] == versions[1])
        if all(alike):
            return True
        if alike == [True, False] and self._diagonal is not None and other._diagonal is not None:
            return self._diagonal & other._diagonal
        return None


class _Term:
    """A loss of this iteration; its graph is not held."""

    __slots__ = ("_terms", "given", "gradient", "number", "over", "reached", "turn", "word")

    def __init__(self, number: int, word: str, given: _Given | None, terms: Terms) -> None:
        self.number = number
        self.over: list[weakref.ref[Any]] = []  # the nearest matrices that it is computed from
        self.word = word
        self.given = given
        self.reached = False
        self.gradient: Any = None  # what came in the last backward pass
        self.turn = -1  # which one that was
        self._terms = terms

    def came(self, gradients: Any) -> None:
        """Gradients have come to it."""
        self.reached = True
        self.turn = self._terms.turn
        one = gradients[0] if gradients else None
        self.gradient = None if one is None or one.requires_grad else one  # one with a graph would keep it


class Terms:
    """Watches losses that are reduced to one number."""

    def __init__(self, recorder: Recorder, variables: Variables) -> None:
        self.recorder = recorder
        self.variables = variables
        self._walks = BoundedLooks(_MOST_WALKS, _MOST_PLACES)
        self._open: list[_Term] = []
        self._orders: dict[str, int] = {}  # by place, how many there were in this iteration
        self._given: dict[str, _Given] = {}  # what functions that are being computed were given
        self._pairs: list[tuple[_Term, _Term, Any]] = []
        self._stand: set[tuple[int, int]] = set()  # backward passes, and numbers of losses that stand in their sums
        self._made_so_far = 0
        self._places: dict[str, str | None] = {}  # by the place of a loss as it is told, the whole one
        self._lost: set[str] = set()  # places of losses that no gradient came to
        self.turn = 0  # backward passes that were looked at
        plain_types(recorder.torch)

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        if self.recorder.wants(REACHED):
            for name in _LOSSES:
                watch(
                    self.recorder,
                    patches,
                    name,
                    functools.partial(self._called, name),
                    functools.partial(self._made, name),
                )

    def _called(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A loss is about to be computed."""
        self._given.pop(name, None)
        torch = self.recorder.torch
        if self.recorder.wants(SAME) and not impossible(torch) and _comparable(torch, args, kwargs):
            with Outside(torch):
                self._given[name] = _Given(torch, args, kwargs)

    def _made(self, name: str, output: Any) -> None:
        """A loss was computed."""
        recorder, given = self.recorder, self._given.pop(name, None)
        if recorder.backward_depth or type(output) not in plain_types(recorder.torch) or impossible(recorder.torch):
            return  # what is computed once more within a backward pass is another one's
        node = output.grad_fn
        if output.dim() or len(self._open) >= _MOST_TERMS or not recorder.torch.is_grad_enabled():
            return
        whole = here()
        place = from_program(whole)
        if place not in self._orders and len(self._orders) >= _MOST_PLACES:
            return
        order = self._orders[place] = self._orders.get(place, -1) + 1
        self._places.setdefault(place, whole)
        self._made_so_far += 1
        term = _Term(self._made_so_far, f"{place}#{order}#{name}#{'+'.join(sorted(_made_by(node)))}", given, self)
        if node is not None:  # otherwise what it compares was made to numbers before
            node.register_prehook(term.came)
            self._pair(term, node)
            if recorder.wants(OVER) and self._walks.take((place, order)):
                term.over = sources.near(node)
        self._open.append(term)
        head = recorder.head()
        word = term.word
        recorder.later(read_later(output), lambda values: [("scalar", (*head, VALUE, word, values[0]))])

    def _pair(self, term: _Term, node: Any) -> None:
        """Find a loss that was given the same before."""
        if term.given is None:
            return
        node.metadata[_MARK] = term.number
        name = term.word.split("#", 2)[2]
        for other in self._open:
            if other.given is not None and other.word.split("#", 2)[2] == name:
                with Outside(self.recorder.torch):
                    same = term.given.same(other.given, self.recorder.torch)
                if same is not None:
                    self._pairs.append((other, term, same))
                    return

    def begins(self, entry: Entry, loss: Any) -> None:
        """A backward pass begins: tell what its loss is added up from, where it is added up from few things."""
        self.turn += 1
        root = getattr(loss, "grad_fn", None)
        if self._pairs and root is not None:
            self._stand.update((self.turn, number) for number in _standing(root))
        if self._open and root is not None:
            names = _ends(root)
            if names:
                self.recorder.scalar(ENDS, f"{from_program(entry.place)}#{'+'.join(sorted(names))}", float(len(names)))

    def lost(self) -> list[str]:
        """The places of losses that no gradient came to, though they were computed from parameters."""
        return [whole for place in sorted(self._lost) if (whole := self._places.get(place)) is not None]

    def boundary(self) -> None:
        """An iteration ends."""
        recorder = self.recorder
        terms, self._open = self._open, []
        self._orders.clear()
        pairs, self._pairs = self._pairs, []
        stand, self._stand = self._stand, set()
        self._given.clear()
        if not recorder.backwards:
            return
        for term in terms:
            recorder.scalar(REACHED, term.word, float(term.reached))
            for name in () if term.reached else sources.names_of(self.variables, term.over):
                recorder.scalar(OVER, f"{term.word}#{name}", 1.0)
                self._lost.add(term.word.partition("#")[0])
        for first, second, same in pairs:
            if {(one.turn, one.number) for one in (first, second)} <= stand:
                self._same(first, second, same)

    def _same(self, first: _Term, second: _Term, same: Any) -> None:
        """Tell of two losses of the same tensors whether one backward pass came to both with gradients that are not zero."""
        recorder, torch = self.recorder, self.recorder.torch
        came = [first.gradient, second.gradient]
        if first.turn != second.turn or first.turn < 0 or any(type(one) not in plain_types(torch) for one in came):
            return
        with Outside(torch):
            both = (came[0] != 0) & (came[1] != 0) & same
            told = read_later(both.to(torch.float32))
        head, word = recorder.head(), f"{first.word.rsplit('#', 1)[0]}+{second.word.rsplit('#', 1)[0]}"
        recorder.later(told, lambda values: [("scalar", (*head, SAME, word, values[0]))])


def _words(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    return [*((str(place), one) for place, one in enumerate(args)), *sorted(kwargs.items())]


def _comparable(torch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether all that a loss is given are plain tensors, whose writes are counted, and single words and numbers."""
    plain = plain_types(torch)
    return all(
        one is None or isinstance(one, (bool, int, float, str)) or (type(one) in plain and not one.is_inference())
        for _, one in _words(args, kwargs)
    )


def _diagonal(torch: Any, tensors: list[Any]) -> Any:
    """Whether each sample is its own class, where there are as many classes as samples; None where there are not."""
    if len(tensors) != 2 or tensors[0].dim() != 2 or tensors[1].dim() != 1 or tensors[1].dtype != torch.int64:
        return None
    scores, labels = tensors
    if scores.shape[0] != scores.shape[1] or len(labels) != len(scores) or len(labels) < 2:
        return None
    return (labels == torch.arange(len(labels), device=labels.device)).all()


def _made_by(node: Any) -> list[str]:
    """Names by which a loss is known in a sum: that of its operation, or of what that adds up where it does no more."""
    if node is None:
        return []
    name = name_of(node)
    return (_ends(node) or [name]) if name in ADDING else [name]


def _standing(root: Any) -> Iterator[int]:
    """The numbers of the losses that a sum is added up from, each with a constant share."""
    nodes, seen = [root], {id(root)}
    for node in islice(nodes, _MOST_ENDS):  # grows as it goes
        mark = node.metadata.get(_MARK)
        if mark is not None:
            yield mark
            continue
        name, below = name_of(node), [one for one, _ in node.next_functions if one is not None]
        if name not in ADDING or (name in ("Mul", "Div") and len(below) > 1):
            continue
        for one in below:
            if id(one) not in seen:
                seen.add(id(one))
                nodes.append(one)


def _ends(root: Any) -> list[str]:
    """Names of what a loss is added up from by arithmetic alone; nothing where that is too much."""
    nodes, seen, names = [root], {id(root)}, []
    for count, node in enumerate(nodes):  # grows as it goes
        if count >= _MOST_ENDS:
            return []
        name = name_of(node)
        if name not in ADDING:
            names.append(name)
            continue
        for below, _ in node.next_functions:
            if below is not None and id(below) not in seen:
                seen.add(id(below))
                nodes.append(below)
    return names
