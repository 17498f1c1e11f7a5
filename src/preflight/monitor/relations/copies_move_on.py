"""A copy of the weights of the start that answers for the trained network is brought on."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.copies import Copies, is_trained
from preflight.monitor.views.fingerprints import looks_of
from preflight.monitor.window import ORDER, Batch, Call, Variable, Window
from preflight.vocabulary.counted import counted

_STEPS = 20_000
"""Steps in which a target or an average is brought on at least once: where that is seldom, it is after ten thousand, and a run
that is only tried out ends before."""
_SURELY = 50
"""The same where the text of the program has no other way to bring a copy on than those that were taken at the start."""
_LATE = 0.8
"""The share of the steps after which it was looked at once more at the least."""
_RESTS = 3
_BESIDE = 4
"""Steps before which a copy was called beside the trained network, on other samples each time."""
_MOST_CALLS = 2
"""Calls of a copy before such a step: an opponent answers once for every move."""
_NEARLY = 0.9
"""The share of the steps before which it was called: of several opponents each has its turn."""
_PHASES = 2
"""Steps before which it was called otherwise."""


class _Given(NamedTuple):
    """The first tensor that a network was given: its fingerprint, shape and kind."""

    bits: int
    shape: list[int]
    kind: str

    def like(self, others: Sequence[_Given]) -> bool:
        """Whether it is a batch of numbers with the shape of another one."""
        several = len(self.shape) > 1 and self.shape[0] > 1 and "float" in self.kind
        return several and any(self.shape == one.shape for one in others)


class _Use(NamedTuple):
    """A call of a network: whether it was to learn, and what it was given where that is known."""

    name: str
    learns: bool
    given: _Given | None


class CopiesMoveOn(Relation):
    """A copy of the weights of the start that is called for the trained network is brought on before the training is over.

    A target network answers for the samples that come next, an average is what is evaluated. Where the update of the copy is
    never reached, both go on to answer as the untrained network did.
    Judged at the end of a program that ended by itself, after twenty thousand steps and more: a trial ends before a target
    is brought on for the first time, or before an average begins. Fifty steps are enough where the program's own text has
    nothing by which weights are written to (``load_state_dict``, ``copy_``, ``lerp_``, ``.data``, a copy made again, functions
    that are called like an average or an update) but what ran before the first step. Meant are networks that no optimizer
    steps, that began as exact copies of a trained one and are the same in every bit at each look since, up to the last fifth
    of the steps, while all of the trained one's matrices have moved. Such a copy is either called once or twice before nearly
    each step, on batches of numbers of the same shape as those that the trained network learns from and never on these
    themselves; or before a few of the steps alone, while the trained network is never called but to learn, as often before each.
    A reference, a teacher or a model that is distilled is given the samples that the trained one learns from; a baseline is
    evaluated beside it, and of several opponents each has its turn. One opponent that never changes and answers once or twice
    for each step, and a reference that is given other views of the samples, look the same as a target that no line brings on. Nothing is said where a file was loaded, or the network
    is a library's: a copy of what was trained before may be meant to rest.
    """

    name = "copies-move-on"
    needs = frozenset({"step", "state", "forward", "batch", "load", "load_state_dict", "ways"})
    follows = (looks_of,)
    wakes = frozenset({"exact parameter at before_step", "forward", "load", "load_state_dict", "ways", "note end"})
    repeats = 2
    looks = frozenset({"forward", "step"})
    reads = frozenset({"exact parameter at before_step", "load", "load_state_dict", "ways", "note end"})
    whole = False
    severity = "warning"
    priority = 17
    cause = "the update of the target or the average stands in a branch that is never taken, or is never called"
    advice = "load the trained weights into the copy every so many steps, or move it a little with each"

    def __init__(self) -> None:
        self._copies = Copies()
        self._moved: set[int] = set()
        self._rested: Counter[int] = Counter()
        self._last: dict[int, int] = {}  # by variable, the step before which it was seen last
        self._names: dict[str, int] = {}
        self._taken: set[str] = set()  # names that several variables have had
        self._loaded: set[str] = set()
        self._steps = 0
        self._looked_at: set[str] = set()  # networks that were called otherwise than to learn
        self._calls: dict[str, Call] = {}
        self._open: dict[int, list[_Use]] = {}  # by the steps before them, calls of an interval that is not over
        self._whole = 0  # the first interval of which all calls were seen
        self._gap = False
        self._intervals = 0
        # By network: how often it was called in the intervals in which it was, how often to learn, and before which steps
        # it was seen to be called, a few of them.
        self._often: dict[str, Counter[int]] = {}
        self._learnt: dict[str, set[int]] = {}
        self._before: dict[str, set[int]] = {}
        # By copy and network: intervals in which that learnt from others than the copy was given, and whether from the same.
        self._apart: Counter[tuple[str, str]] = Counter()
        self._shared: set[tuple[str, str]] = set()
        self._taken_at: set[str] = set()  # places at which weights were loaded before the first step
        self._ways: set[str] | None = (
            None  # places at which the program's text may write to weights, where that is known
        )
        self._files: set[str] = set()  # the files of that text

    def kept(self) -> object:
        """Nothing: it speaks at the end alone."""
        return ()

    def see(self, window: Window) -> Iterator[Example]:
        for look in looks_of(window):
            self._copies.see(look.state)
            self._moved.update(look.moved)
            self._rested.update(look.rested)
            self._last.update(dict.fromkeys(look.ids, look.state.s))
            for ident in look.fresh:
                name = window.run.name(ident)
                if self._names.setdefault(name, ident) != ident:
                    self._taken.add(name)
        if window.named("load"):
            self._loaded.add("")
        if not self._steps:
            self._loaded.update(call.object for call in window.named("load_state_dict"))
            self._taken_at.update(_place(call) for call in window.named("load_state_dict"))
        for call in window.named("ways"):
            self._ways = set((call.args or {})["places"])
            self._files = set((call.args or {})["files"])
        self._called(window)
        enough = _SURELY if self._no_way() else _STEPS
        for note in window.notes.get("end", ()) if self._steps >= enough and "" not in self._loaded else ():
            for name in self._calls:
                yield from self._judge(name, window, note.get("how") == "exit")

    def _no_way(self) -> bool:
        """Whether the text of the program, all of which is known, has no way to bring a copy on but those of its start."""
        known = {_place(call).rpartition(":")[0] for call in self._calls.values()} <= self._files
        return self._ways is not None and known and self._ways <= self._taken_at

    def slept(self, window: Window, times: int) -> None:
        """Windows were missed, and what is open is not whole."""
        self._gap = True

    def _called(self, window: Window) -> None:
        """Take in who was called between two steps, to learn or not, and on what."""
        calls = window.named("forward")
        steps = window.named("step")
        if self._gap and (calls or steps):
            self._open.clear()
            self._whole = min(call.s for call in (*calls, *steps)) + 1
            self._gap = False
        self._steps = max([self._steps, *(call.s + 1 for call in steps)])
        inputs = _inputs(calls, window.batches)
        for call in calls:
            self._calls[call.object] = call
            before = self._before.setdefault(call.object, set())
            before.update([call.s] if len(before) < _PHASES else [])
            learns = call.context.startswith("grad") and bool((call.args or {}).get("training", True))
            self._looked_at.update([] if learns else [call.object])
            self._open.setdefault(call.s, []).append(_Use(call.object, learns, inputs.get(call.q)))
        for number in [one for one in self._open if one < self._steps]:
            uses = self._open.pop(number)
            if number >= self._whole:
                self._close(uses)

    def _close(self, uses: list[_Use]) -> None:
        """All calls before a step are known."""
        self._intervals += 1
        learnt = [one for one in uses if one.learns]
        for name, count in Counter(one.name for one in learnt).items():
            self._learnt.setdefault(name, set()).add(count)
        for name, count in Counter(one.name for one in uses).items():
            self._often.setdefault(name, Counter())[count] += 1
            given = [one.given for one in uses if one.name == name]
            for other in {one.name for one in learnt} - {name}:
                theirs = [one.given for one in learnt if one.name == other and one.given is not None]
                if any(one is not None and one.bits in [two.bits for two in theirs] for one in given):
                    self._shared.add((name, other))
                elif all(one is not None and one.like(theirs) for one in given):
                    self._apart[name, other] += 1

    def _judge(self, name: str, window: Window, ended: bool) -> Iterator[Example]:
        known = [one for one in window.run.variables.values() if one.name.startswith(name + ".")]
        matrices = [one for one in known if one.kind == "parameter" and len(one.shape) > 1]
        origin = self._origin(name, matrices, window)
        if not origin or window.run.classes.get(name) in window.run.librarys:
            return
        trained = [window.run.name(self._names[origin + one.name.removeprefix(name)]) for one in matrices]
        if not all(self._names[one] in self._moved for one in trained):
            return
        rests = not any(one.id in self._moved for one in matrices) and all(map(self._still, matrices))
        if not rests and not all(one.id in self._moved for one in matrices):
            return
        meant = not ended or (name, origin) in self._shared
        used = self._answers(name, origin) or self._is_evaluated(name, origin, window)
        wrong = rests and used and not meant
        yield Example(
            (),
            not wrong,
            {},
            variables=(name, *(one.name for one in matrices)) if wrong else (),
            expected=f"weights that follow those of {origin}" if wrong else None,
            seen=f"the weights of the start, after {counted(self._steps, 'step')}" if wrong else None,
            call=self._calls[name],
            detail=f"{name} began as a copy of {origin} and was never brought on" if wrong else "",
        )

    def _origin(self, name: str, matrices: list[Variable], window: Window) -> str:
        """The trained network that one began as a copy of."""
        if not matrices or any(one.name in self._taken for one in matrices):
            return ""
        found: set[str] | None = None
        for one in matrices:
            end = one.name.removeprefix(name)
            originals = [
                other
                for other in self._copies.originals(one.id, window, exact=True)
                if other.name.endswith(end) and is_trained(other) and self._names.get(other.name) == other.id
            ]
            of = {other.name.removesuffix(end) for other in originals if other.name not in self._taken}
            found = of if found is None else found & of
        return min(found) if found and not found & self._loaded else ""

    def _still(self, one: Variable) -> bool:
        """Whether a matrix was seen to rest up to the end."""
        return self._rested[one.id] >= _RESTS and self._last[one.id] >= _LATE * (self._steps - 1)

    def _answers(self, name: str, origin: str) -> bool:
        """Whether a copy is called before each step beside the trained network, on other samples of the same form."""
        often = self._often.get(name, Counter())
        always = len(often) == 1 and max(often) <= _MOST_CALLS and often.total() >= _NEARLY * self._intervals
        return always and self._apart[name, origin] >= _BESIDE

    def _is_evaluated(self, name: str, origin: str, window: Window) -> bool:
        """Whether a copy alone is called now and then, and the trained network never but to learn, as often each time."""
        own = _matrices(name, window)
        if any(_matrices(one, window) == own for one in self._calls if one not in (name, origin)):
            return False  # one of several opponents
        seldom = self._often.get(name, Counter()).total() <= self._intervals / 2
        ended = any(one.name == origin for one in self._open.get(self._steps, []))
        alone = not ended and origin not in self._looked_at and len(self._learnt.get(origin, ())) == 1
        return seldom and alone and len(self._before.get(name, ())) >= _PHASES

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _targets(every=40)
        yield _targets(same=True)  # a reference
        yield _targets(seldom=True)  # an opponent among others
        yield _targets(every=0, how="signal")
        yield _evaluated(moves=True)
        yield _evaluated(beside=True)  # a baseline

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _targets()
        yield _evaluated()
        yield _targets(done=0, ways=[])


def _place(call: Call) -> str:
    """Where a call stands, by the name of the file and the line."""
    return (call.place or "").replace("\\", "/").rpartition("/")[2]


def _matrices(name: str, window: Window) -> set[tuple[str, tuple[int, ...]]]:
    """The matrices of a network, by their names within it and their shapes."""
    known = (one for one in window.run.variables.values() if one.name.startswith(name + "."))
    return {(one.name.removeprefix(name), tuple(one.shape)) for one in known if len(one.shape) > 1}


def _inputs(calls: Sequence[Call], batches: Sequence[Batch]) -> dict[int, _Given]:
    """By call, the first tensor that went into it."""
    found: dict[int, _Given] = {}
    numbers: dict[str, list[int]] = {}
    for call in sorted(calls, key=ORDER):
        numbers.setdefault(f"forward:{call.object}", []).append(call.q)
    for batch in batches:
        own = numbers.get(batch.loader, [])
        at = bisect_left(own, batch.q) - 1
        first = next(zip(batch.bits, batch.shapes, batch.dtypes, strict=False), None)
        if at >= 0 and first is not None and first[0] is not None:
            found[own[at]] = _Given(first[0], first[1], first[2])
    return found


_NAMES = ("0.weight", "2.weight")
_SHOWN = 50


def _rows(step: int, slow: int) -> list[Any]:
    """Looks at a trained network and at a copy that is as the trained one was before some step."""
    own = {f"net.{name}": (1.0, 100 * at + step) for at, name in enumerate(_NAMES)}
    copied = {f"copy.{name}": (1.0, 100 * at + slow) for at, name in enumerate(_NAMES)}
    return [("before", own, {"optimizer": 0}), ("before", copied, {"optimizer": -1})]


def _mini(done: int = _STEPS - _SHOWN) -> Mini:
    """Windows after so many steps; else with which the training is just long enough."""
    unheld = {f"{root}.{name}": {"optimizer": -1} for root in ("copy", "second") for name in _NAMES}
    return Mini({**{f"net.{name}": {} for name in _NAMES}, **unheld}, done=done)


def _targets(
    every: int = 0,
    same: bool = False,
    how: str = "exit",
    seldom: bool = False,
    done: int = _STEPS - _SHOWN,
    ways: Sequence[str] = (),
    files: Sequence[str] = ("train.py",),
) -> list[Window]:
    mini, windows = _mini(done), []
    text = ("ways", {"args": {"files": list(files), "places": list(ways)}})
    given = {"shapes": [[8, 4]], "dtypes": ["float32"]}
    for step in range(_SHOWN):
        other = 1 if seldom and step % 3 else 0
        windows.append(
            mini.window(
                *("forward net", ("batch", {"loader": "forward:net", "bits": [step], **given})),
                (f"forward {('copy', 'second')[other]}", {"context": "nograd"}),
                (
                    "batch",
                    {
                        "loader": f"forward:{('copy', 'second')[other]}",
                        "bits": [step if same else 1000 + step],
                        **given,
                    },
                ),
                *("backward", *_rows(step, step // every * every if every else 0), "step optimizer0:Adam"),
                *([text, ("note", "end", {"how": how})] if step == _SHOWN - 1 else []),
            )
        )
    return windows


def _evaluated(moves: bool = False, beside: bool = False) -> list[Window]:
    mini, windows = _mini(), []
    for step in range(_SHOWN):
        own = [("forward net", {"context": "nograd"})] if beside else []
        phase = [("forward copy", {"context": "nograd"}), *own] if step % 20 == 19 else []
        rows = _rows(step, step if moves else 0)
        end = [("note", "end", {"how": "exit"})] if step == _SHOWN - 1 else []
        windows.append(mini.window("forward net", "backward", *rows, "step optimizer0:Adam", *phase, *end))
    return windows
