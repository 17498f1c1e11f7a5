"""A module that a program looks for in a folder of its own, told apart from a package that is not installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from preflight.investigate.case.case import Event, by_file
from preflight.investigate.cause.exceptions import tells_of
from preflight.investigate.cause.keys import lacks_its_own_module
from preflight.vocabulary.log import Place, Raised
from preflight.vocabulary.signature import Cause, Signature

_MISSING = "environment.missing-module"
OWN_MODULE = "usercode.own-module-missing"
_OWN = Signature(
    id=OWN_MODULE,
    title="The program imports a module that a folder of its own does not have",
    category="usercode",
    role="root",
    literals=("No module named",),
    causes=(
        Cause("module-left-out", "The file was moved, renamed or not put under version control", 0.7, "usercode"),
        Cause("folder-shadowed", "Another folder of that name comes first on the path of Python", 0.3, "usercode"),
    ),
    next=(
        "Look for the file in the folder of the program, and whether git ignores it (`git check-ignore -v FILE`).",
        "Print `__path__` of the folder that is named: it may be another one of the same name.",
    ),
    match=("No module named",),
    no_match=("",),
)


def lacking_in(raised: Iterable[Raised]) -> dict[int, list[Raised]]:
    """Return the exceptions of programs that lack a module of their own, by file."""
    return by_file((one for one in raised if lacks_its_own_module(one)), lambda one: one.hit.file)


def of_own_module(event: Event, raised: Mapping[Place, Raised], lacking: Mapping[int, Sequence[Raised]]) -> Event:
    """Return an event as what it is where a program lacks a module of its own: nothing that is to be installed.

    Args:
        event: A line that a signature took.
        raised: What was raised, by the place of the line that names it.
        lacking: What ``lacking_in`` found: a logger's line may tell of an exception whose frames stand elsewhere.
    """
    if event.id != _MISSING:
        return event
    one, others = raised.get(event.place), lacking.get(event.hit.file, ())
    own = lacks_its_own_module(one) if one is not None else any(tells_of(event.hit.text, other) for other in others)
    if not own:
        return event
    return msgspec.structs.replace(event, id=OWN_MODULE, title=_OWN.title, category=_OWN.category, signature=_OWN)
