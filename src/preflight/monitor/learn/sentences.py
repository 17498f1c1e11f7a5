"""Sentences: an invariant as a person reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from preflight.monitor.learn.preconditions import in_words
from preflight.monitor.relation import Relation
from preflight.monitor.scope import MODEL
from preflight.vocabulary.invariant import Clause


def sentence(kind: type[Relation], subject: Mapping[str, Any], precondition: tuple[tuple[Clause, ...], ...]) -> str:
    """What must hold of a subject, and when."""
    said = kind.sentence(dict(subject)).strip().rstrip(".")
    when = in_words(precondition)
    whose = f" (in the training of {subject[MODEL]})" if MODEL in subject else ""
    return f"{said}{f', when {when}' if when else ''}{whose}."
