"""Decision trees: questions, what may be answered, and where each answer leads; and a way through one."""

from __future__ import annotations

import msgspec

from preflight.vocabulary.incident import Quote


class Branch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer and the question or leaf to which it leads."""

    answer: str
    to: str


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A question of a tree.

    Attributes:
        id: Its name in the tree. text: The question. ask: What answers it: a function of ``investigate.answers``.
        branches: Its answers. find_out: What to look at where nothing answers it.
    """

    id: str
    text: str
    ask: str
    branches: tuple[Branch, ...]
    find_out: str


class Leaf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a tree ends.

    Attributes:
        id: Its name in the tree. text: What it means. next: What to do, the first first.
        remedies: Names of remedies. tree: The tree that goes on from here.
    """

    id: str
    text: str
    next: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    tree: str | None = None


class Tree(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A decision tree; ``questions[0]`` is asked first. ``note``: where it differs from what is usually taught, and why."""

    id: str
    title: str
    questions: tuple[Question, ...]
    leaves: tuple[Leaf, ...]
    note: str = ""
    sources: tuple[str, ...]


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question that was asked on the way, its answer, and what says so; ``by_person``: somebody answered it."""

    tree: str
    question: str
    text: str
    answer: str | None
    because: str
    quotes: tuple[Quote, ...] = ()
    by_person: bool = False

    @property
    def said(self) -> str:
        """The answer, or that there is none."""
        return self.answer or "not known"


class Walk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A way through the trees.

    Attributes:
        steps: The questions, in their order. leaf: Where it ended; None where a question has no answer.
        open: What to look at to go on, where it did not end.
    """

    steps: tuple[Step, ...]
    leaf: Leaf | None = None
    open: str | None = None
