"""Experiments: tests that tell causes apart, and what each cause lets one expect of them."""

from __future__ import annotations

import msgspec

from preflight.vocabulary.remedy import Change, Danger


class Outcomes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an experiment may show, and how to tell: the name of an outcome and what is seen."""

    name: str
    seen: str


class Experiment(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """A test that tells causes apart.

    Attributes:
        id: Its name: that of its file.
        title: What is done, in one line.
        how: What exactly, and what to look at.
        minutes: Minutes that it takes.
        gpus: Share of the run's GPUs that it needs: 1 all, 0 none.
        danger: What can go wrong, as for remedies.
        changes: What is changed for it, and undone afterwards.
        undo: How it is undone.
        outcomes: What it may show.
        repeats: Whether one outcome is that the failure stays away, so that a failure that comes only now and then needs
            several runs (the name of that outcome).
        expects: By cause, how probable each outcome is, in the order of ``outcomes``; they add up to 1.
        otherwise: The same for every cause that is not named.
        sources: Where it stands.
    """

    id: str
    title: str
    how: str
    minutes: float
    gpus: float
    danger: Danger = "none"
    changes: tuple[Change, ...] = ()
    undo: str = ""
    outcomes: tuple[Outcomes, ...]
    repeats: str | None = None
    expects: dict[str, tuple[float, ...]]
    otherwise: tuple[float, ...]
    sources: tuple[str, ...]
