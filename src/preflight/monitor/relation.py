"""Relations: what can be said of a training run, judged on every example that a run gives.

A relation turns windows into examples. The learner counts in which contexts they hold; the engine asks the same
relation again and reports the examples of an invariant in force that do not. So the two cannot disagree.
One file of ``relations/`` holds one relation: its docstring is its page, ``holding`` and ``broken`` are small traces
that the tests run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from preflight.errors import UsageError, nearest
from preflight.monitor.window import Call, Window
from preflight.vocabulary.finding import Severity
from preflight.vocabulary.signature import Category

UNSEEN: Any = object()
"""The value of an example that is judged by ``holds`` alone."""


class Example(NamedTuple):
    """One place in a run where a relation could be judged.

    Attributes:
        subject: What it is said of: values for the relation's ``fields``; empty where it has none.
        holds: Whether it held; for an example with a value, the invariant's value decides instead.
        context: What was so at that moment; preconditions are made of these fields. Never a step's number.
        variables: Names of the parameters, modules or calls concerned.
        expected: What should have been.
        seen: What was.
        call: The call at which it was seen, for the place in the code.
        value: For relations that learn a value (a dtype, a count): the value seen.
        detail: A sentence for a person, where the relation's own words are not enough.
        began: The iteration in which it happened, where only what came after it could tell; None where it is this one.
    """

    subject: tuple[Any, ...]
    holds: bool
    context: Mapping[str, Any]
    variables: tuple[str, ...] = ()
    expected: Any = None
    seen: Any = None
    call: Call | None = None
    value: Any = UNSEEN
    detail: str = ""
    began: int | None = None


def values_of(subject: Mapping[str, Any]) -> list[Any]:
    """The values that a learnt statement says are right: the one of it, or each of several; none where it has none."""
    return [subject["value"]] if "value" in subject else [*subject.get("values", ())]


class Premise(NamedTuple):
    """A statement that another one follows from.

    Attributes:
        relation: The name of its relation.
        subject: What it is said of; fields that are left out may be anything, and so may the value.
    """

    relation: str
    subject: Mapping[str, Any]


class Relation:
    """The base of all relations; an instance sees the windows of one rank in order, or of all ranks together.

    Attributes:
        name: Its name, in words with hyphens.
        fields: Names of the parts of a subject.
        across: Whether it compares ranks: then ``see_ranks`` is called instead of ``see``.
        needs: Names of calls and of rows (``state``, ``tensor``, ``batch`` ...) without which it cannot be judged.
        wakes: Signs of a window (see signs.py) without any of which it has nothing to see in it: no example comes of
            it, and none that comes later is another for it. None where it must see every window.
        follows: What must look at every window in order for it (``flow_of`` ...), also at those that it does not see.
        repeats: After how many windows in a row in which what it looks at has the same form (see forms.py), and of which
            all that it said held, it says the same of a further one and needs not see it; 0 where it must see all.
        looks: What it looks at, as far as the form decides: names of calls, or ``calls`` for all of them except those of
            submodules; ``tensors``, ``numbers``, ``rates``, ``batches``; ``WHAT at MOMENT`` of states, and ``exact WHAT at
            MOMENT`` where it matters for it, too, whether they were taken with fingerprints (see forms.py).
        reads: Signs of a window (see signs.py) of which it looks at the numbers too: it sees each window with one of them.
        midway: Whether one that first sees a run in the middle of it says nothing wrong: it is asked again, with nothing
            remembered, after iterations that were not recorded. Others say nothing of the run from there on.
        whole: Whether it needs whole iterations; one that speaks of single calls may also judge the last one of a run,
            which may have been cut short.
        severity: What a violation means: ``error`` where the training is wrong.
        category: What a violation is a failure of, in the words of an investigation: ``numerical`` is a symptom.
        priority: Which of several violations of one cause is the root: the lowest number.
        asked: Fields of a context of which a learnt statement claims nothing for values that were never seen.
        learns: Whether invariants about named subjects are learnt from runs; otherwise only the general statement is.
        least: In how many iterations a named subject was seen at least: what happens once or twice in a run is no rule of it.
        support: On how many examples what is learnt of a named subject rests at least.
        runs: Of how many runs it is learnt at least: one cannot tell how far apart good runs lie.
        predicted: Whether it is in force only where a prediction names what must hold: it is neither general nor learnt.
        bounded: Whether a subject says more of a value than which ones are allowed: then ``expected_of`` is asked.
        unjudged: Why a prediction may be left without an answer, as the end of a sentence.
        cause: What usually causes a violation, in one sentence.
        advice: What to do next, in one sentence.
    """

    name: ClassVar[str] = ""
    fields: ClassVar[tuple[str, ...]] = ()
    across: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset()
    wakes: ClassVar[frozenset[str] | None] = None
    follows: ClassVar[tuple[Callable[[Window], object], ...]] = ()
    repeats: ClassVar[int] = 0
    looks: ClassVar[frozenset[str]] = frozenset({"calls"})
    reads: ClassVar[frozenset[str]] = frozenset()
    midway: ClassVar[bool] = False
    whole: ClassVar[bool] = True
    severity: ClassVar[Severity] = "error"
    category: ClassVar[Category] = "usercode"
    priority: ClassVar[int] = 50
    asked: ClassVar[tuple[str, ...]] = ()
    learns: ClassVar[bool] = False
    least: ClassVar[int] = 3
    support: ClassVar[int] = 4
    runs: ClassVar[int] = 1
    predicted: ClassVar[bool] = False
    bounded: ClassVar[bool] = False
    unjudged: ClassVar[str] = ""
    cause: ClassVar[str] = ""
    advice: ClassVar[str] = ""

    def see(self, window: Window) -> Iterable[Example]:
        """Judge one window of this instance's rank."""
        return ()

    def quiet(self, window: Window) -> bool:
        """Whether the form of a window decides what it says of it; asked of relations with ``repeats``, after ``see``."""
        return True

    def kept(self) -> object:
        """What it keeps of windows that it reads (``reads``), as far as that decides over what it says of others.

        Where it is the same after such a window as before, and the form of what it looks at is, it sleeps on as though
        nothing had been read. None where it cannot tell: then it is asked again, of as many as ``repeats`` tells.
        """
        return None

    def slept(self, window: Window, times: int) -> None:
        """Take in windows that it was not shown, ``times`` of them with the form of the last one, which is given.

        Called before it sees one again, for each form that it missed, the last one last; for relations that keep numbers
        of the window before, or count windows.
        """

    def see_ranks(self, windows: dict[int, Window]) -> Iterable[Example]:
        """Judge the windows of one iteration of all ranks, by rank."""
        return ()

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        """Say what must hold of a subject, as the end of a sentence or a whole one."""
        words = ", ".join(f"{key} {value}" for key, value in subject.items())
        return f"{cls.title()}{f' ({words})' if words else ''}"

    @classmethod
    def words(cls, value: Any) -> Any:
        """A value that was learnt or seen, as an alarm tells it."""
        return value

    @classmethod
    def departure(cls, subject: Mapping[str, Any], value: Any) -> str:
        """How a value departs from what was learnt of a subject: the headline of an alarm; empty to tell what must hold."""
        return ""

    @classmethod
    def expected_of(cls, subject: Mapping[str, Any], value: Any) -> str | None:
        """What a subject says in place of a value; None where it is as it says. Asked of relations with ``bounded``."""
        return None

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        """Whether a learnt statement about a subject says nothing that a person would want to hear."""
        return False

    @classmethod
    def follows_from(cls, subject: Mapping[str, Any]) -> Iterator[tuple[Premise, ...]]:
        """What would imply the statement about a subject: statements of any relation, all of which are needed.

        The statement is left out where the premises of one alternative were learnt, too.
        """
        return iter(())

    @classmethod
    def title(cls) -> str:
        """The first line of the page, without the full stop."""
        return (inspect.getdoc(cls) or cls.name).split("\n")[0].rstrip(".")

    @classmethod
    def explain(cls, example: Example) -> tuple[str, str]:
        """What usually causes a violation and what to do next; may look at the example."""
        return cls.cause, cls.advice

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        """Small traces in which it holds."""
        return iter(())

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        """Small traces in which it does not."""
        return iter(())


@cache
def relations() -> dict[str, type[Relation]]:
    """All relations by name: one for each file of the folder ``relations``."""
    found: dict[str, type[Relation]] = {}
    folder = Path(__file__).resolve().parent / "relations"
    for file in sorted(folder.glob("*.py")):
        if file.stem.startswith("_"):
            continue
        module = import_module(f"preflight.monitor.relations.{file.stem}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Relation) and value.__module__ == module.__name__:
                found[value.name] = value
    return found


def relation(name: str) -> type[Relation]:
    """The relation of a name.

    Raises:
        UsageError: When there is none.
    """
    known = relations()
    if name not in known:
        near = nearest(name, known)
        raise UsageError(f"no relation is called {name!r}", f"did you mean {near}?" if near else None)
    return known[name]
