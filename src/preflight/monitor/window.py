"""What checks see: one iteration of one rank, and what is known of the run around it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from math import isfinite
from operator import itemgetter
from typing import Any, NamedTuple


class Call(NamedTuple):
    """A call that was recorded; times in nanoseconds of the process's clock."""

    q: int
    e: int
    t: int
    d: int
    i: int
    s: int
    name: str
    object: str
    parent: int
    thread: int
    place: str | None
    context: str
    args: dict[str, Any] | None
    result: dict[str, Any] | None
    error: str | None

    @property
    def line(self) -> str:
        """The name and object in one word, as people read it."""
        return f"{self.name} {self.object}".rstrip()


class _StateRow(NamedTuple):
    q: int
    t: int
    i: int
    s: int
    moment: str
    what: str
    level: str
    ids: list[int]
    norm: list[float | None]
    bits: list[int | None] | None
    extra: dict[str, Any] | None


class State(_StateRow):
    """Variables at a moment of a step; the lists run parallel to ``ids``."""

    _sound: bool | None = None

    @property
    def sound(self) -> bool:
        """Whether each norm is known, finite and other than zero, as in most states; looked at once for all who ask."""
        if self._sound is None:
            self._sound = all(self.norm) and isfinite(sum(self.norm))  # type: ignore[arg-type]
        return self._sound

    @property
    def fingerprints(self) -> dict[int, int]:
        """The fingerprints that were taken, by the number of the variable."""
        return {one: bits for one, bits in zip(self.ids, self.bits or (), strict=False) if bits is not None}


class Seen(NamedTuple):
    """A tensor that went into a module or came out of it."""

    q: int
    i: int
    s: int
    call: int
    object: str
    position: str
    dtype: str
    shape: list[int]
    device: str
    norm: float | None
    requires_grad: bool


class Number(NamedTuple):
    """A number of the training: loss, learning rate, gradient norm ..."""

    q: int
    t: int
    i: int
    s: int
    name: str
    object: str
    value: float | None


class Batch(NamedTuple):
    """A batch, by the fingerprints of its tensors and, where known, the indices of its samples."""

    q: int
    i: int
    s: int
    loader: str
    fetch: int | None
    epoch: int | None
    size: int | None
    indices: list[int] | None
    bits: list[int | None]
    shapes: list[list[int]]
    dtypes: list[str]


class Memory(NamedTuple):
    """What a process held at the end of an iteration, in bytes: of a device, or of the ``host``.

    Peaks are those of the program so far, as its allocator counts them; ``resident`` is known of the host alone.
    """

    q: int
    t: int
    i: int
    s: int
    device: str
    allocated: int | None
    reserved: int | None
    peak: int | None
    peak_reserved: int | None
    capacity: int | None
    resident: int | None


class Variable(NamedTuple):
    """A parameter or buffer, as it is known from a moment on."""

    q: int
    i: int
    id: int
    name: str
    kind: str
    root: str
    module: str
    dtype: str
    shape: list[int]
    device: str
    trainable: bool
    numel: int
    optimizer: int
    group: int
    shared: int
    spread: dict[str, Any] | None


ROWS: dict[str, type[Any]] = {
    "call": Call,
    "state": State,
    "tensor": Seen,
    "scalar": Number,
    "batch": Batch,
    "memory": Memory,
    "variable": Variable,
}
"""The kinds of rows that belong to an iteration and are looked at one by one."""


ORDER = itemgetter(0)
"""The key by which rows of whatever kind are put in order: the number of each stands first."""


_MOST_ROOTS = 256


class Variables(dict[int, Variable]):
    """Variables by their number; what was worked out of them is forgotten when one changes."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0
        self.roots: dict[Any, set[str]] = {}
        self.alike: dict[str, str | None] = {}
        self.scopes: dict[Any, str] = {}  # by what is looked at, see scope.py
        self.precision: str | None = None
        self.layers: tuple[str, int] | None = None  # see depth.py

    def __setitem__(self, ident: int, variable: Variable) -> None:
        super().__setitem__(ident, variable)
        self.changes += 1
        self.roots.clear()
        self.alike.clear()
        self.scopes.clear()
        self.precision = self.layers = None


class Run:
    """What is known of one rank's run up to the window that is looked at.

    Attributes:
        rank: The rank.
        world: How many ranks there are.
        variables: Parameters and buffers by their number.
        groups: The ranks of process groups by the group's number.
        begin: The first row of the process: program, versions, host.
        notes: Rows without an iteration and notices: ``seed``, ``warning``, ``thinned``, ``trouble``, ``end``.
        workers: Rows ``seed`` of this rank's loader workers.
    """

    def __init__(self, rank: int, world: int) -> None:
        self.rank = rank
        self.world = world
        self.variables = Variables()
        self.groups: dict[int, list[int]] = {}
        self.begin: dict[str, Any] = {}
        self.notes: dict[str, list[dict[str, Any]]] = {}
        self.follower: Any = None  # what follows the steps of optimizers, see steps.py
        self.schedules: Any = None  # and those of schedulers, see schedules.py
        self.fetched: Any = None  # and the batches of loaders, see fetches.py
        self.flow: Any = None  # and the forward passes, see flow.py
        self.fingerprints: Any = None  # and the fingerprints of parameters, see fingerprints.py
        self.classes: dict[str, str] = {}  # of the modules that the program calls, see scope.py
        self.wrappers: dict[str, str] = {}  # of those of which one holds another, the class of the outer one
        self.librarys: set[str] = set()  # those of them that come from an installed library
        self.optimizers: set[str] = set()  # classes of those that stepped, see scope.py
        self.numbers: Any = None  # those that somebody chose, see options.py
        self.losses: str | None = None  # the functions of the first loss of which they are told, see scope.py
        self.resumed: bool | None = None  # whether an earlier run goes on, see resumed.py; None before a backward pass

    def forget(self) -> None:
        """Iterations were not recorded: what follows from window to window begins anew, in the middle of a run."""
        self.follower = self.schedules = self.fetched = self.flow = self.fingerprints = None
        self.resumed = True

    def roots(self, optimizer: int) -> set[str]:
        """Names of the roots of the variables of an optimizer; not to be changed."""
        known = self.variables.roots.get(optimizer)
        if known is None:
            known = {one.root for one in self.variables.values() if one.optimizer == optimizer}
            self.variables.roots[optimizer] = known
        return known

    def trained(self) -> set[str]:
        """Names of the roots of the variables that some optimizer has; not to be changed."""
        known = self.variables.roots.get("trained")
        if known is None:
            known = {one.root for one in self.variables.values() if one.optimizer >= 0}
            self.variables.roots["trained"] = known
        return known

    def trainable(self, optimizer: int | None = None) -> set[str]:
        """Names of the roots of the trainable variables of an optimizer, or of all; not to be changed."""
        known = self.variables.roots.get(("trainable", optimizer))
        if known is None:
            held = (one for one in self.variables.values() if one.trainable)
            known = {
                one.root for one in held if (one.optimizer >= 0 if optimizer is None else one.optimizer == optimizer)
            }
            self.variables.roots["trainable", optimizer] = known
        return known

    def alike(self, root: str) -> str | None:
        """A model some of whose parameters are trained, and whose parameters have the names and shapes of another's.

        Returns:
            Its root; an empty word where there is none, and None while no parameter of the other one is known.
        """
        known = self.variables.alike
        if root not in known:
            shapes: dict[str, dict[str, tuple[int, ...]]] = {}
            for one in self.variables.values():
                if one.kind == "parameter":
                    shapes.setdefault(one.root, {})[one.name.partition(".")[2]] = tuple(one.shape)
            own = shapes.get(root)
            found = (other for other in sorted(self.trainable()) if shapes.get(other) == own)
            known[root] = next(found, "") if own else None
        return known[root]

    def roots_of(self, idents: list[int]) -> set[str]:
        """Names of the roots of some variables, those that are not known apart; not to be changed."""
        known = self.variables.roots
        key = "of", *idents
        if key not in known:
            if len(known) >= _MOST_ROOTS:
                known.clear()
            variables = (self.variables.get(ident) for ident in idents)
            known[key] = {one.root for one in variables if one is not None}
        return known[key]

    def name(self, ident: int) -> str:
        """The name of a variable."""
        known = self.variables.get(ident)
        return known.name if known is not None else f"variable {ident}"


class Window:
    """One iteration of one rank.

    Attributes:
        rank: The rank.
        iteration: Its number, from 0.
        step: How many optimizer steps were done when it began.
        complete: False for the last one of a run, which may have been cut short.
        run: What is known of the run.
        calls: The recorded calls in the order in which they began.
        states, tensors, numbers, batches, memory: The other rows.
        changed: Variables that became known or changed in this iteration.
        notes: Rows of kinds without a class of their own (``seed``, ``warning``, ``thinned`` ...) as dictionaries.
    """

    __slots__ = (
        *("batches", "calls", "changed", "complete", "iteration", "memory", "notes", "numbers", "states", "tensors"),
        *(
            "_by_name",
            "_layers",
            "_passes",
            "_plain",
            "advances",
            "fetches",
            "flow",
            "looks",
            "made",
            "rank",
            "run",
            "signs",
            "step",
            "steps",
        ),
    )

    def __init__(self, run: Run, iteration: int) -> None:
        self.run = run
        self.rank = run.rank
        self.iteration = iteration
        self.step = 0
        self.complete = True
        self.calls: list[Call] = []
        self.states: list[State] = []
        self.tensors: list[Seen] = []
        self.numbers: list[Number] = []
        self.batches: list[Batch] = []
        self.memory: list[Memory] = []
        self.changed: list[Variable] = []
        self.notes: dict[str, list[dict[str, Any]]] = {}
        self.steps: list[Any] | None = None  # the steps of optimizers, once steps.py has found them
        self.made = 0  # how many steps of all optimizers were made before it, found with them
        self.advances: list[Any] | None = None  # the steps of schedulers, once schedules.py has found them
        self.fetches: list[Any] | None = None  # the batches of loaders, once fetches.py has found them
        self.flow: Any = None  # which modules have taken part up to it, once flow.py has found that
        self.looks: list[Any] | None = None  # how its parameters went on, once fingerprints.py has found that
        self.signs: frozenset[str] | None = None  # what is in it, once signs.py has found that
        self._by_name: dict[str, list[Call]] | None = None
        self._layers: dict[str, list[Call]] | None = None
        self._plain: list[Call] | None = None
        self._passes: dict[int, list[Call]] | None = None  # by thread: forward passes that lie in no other

    @property
    def rows(self) -> int:
        """How many rows it was made of, those apart that come by the clock."""
        own = len(self.calls) + len(self.states) + len(self.tensors) + len(self.numbers) + len(self.batches)
        return own + len(self.changed) + sum(map(len, self.notes.values()))

    @property
    def plain(self) -> list[Call]:
        """The calls without those of submodules, of which there are many and only in detailed iterations."""
        if self._plain is None:
            self._plain = [call for call in self.calls if call.name != "module"]
        return self._plain

    def named(self, name: str) -> list[Call]:
        """The calls of a name, in order."""
        known = self._by_name
        return (self.names() if known is None else known).get(name, [])

    def names(self) -> dict[str, list[Call]]:
        """All calls by their names."""
        if self._by_name is None:
            found: dict[str, list[Call]] = {}
            for call in self.calls:
                found.setdefault(call.name, []).append(call)
            self._by_name = found
        return self._by_name

    def layers(self) -> dict[str, list[Call]]:
        """The calls of submodules by the class of each, and by the one of torch's that it is made from."""
        if self._layers is None:
            found: dict[str, list[Call]] = {}
            for call in self.named("module"):
                told = call.args or {}
                kind, base = told.get("type"), told.get("base")
                if kind:
                    found.setdefault(kind, []).append(call)
                if base and base != kind:
                    found.setdefault(base, []).append(call)
            self._layers = found
        return self._layers

    def state(self, moment: str, what: str, exact: bool = False) -> list[State]:
        """The states of a moment; with ``exact``, those with fingerprints."""
        return [
            one
            for one in self.states
            if one.moment == moment and one.what == what and (not exact or one.level == "exact")
        ]

    def pass_of(self, call: Call) -> Call:
        """The forward pass of a root that a call of one of its modules belongs to; the call itself where none is."""
        if self._passes is None:
            self._passes = {}
            for one in self.named("forward"):
                own = self._passes.setdefault(one.thread, [])
                if not own or own[-1].e <= one.q:  # else it lies within another
                    own.append(one)
        own = self._passes.get(call.thread, [])
        at = bisect_left(own, call.q, key=ORDER) - 1
        return own[at] if at >= 0 and call.q < own[at].e else call

    def inside(self, outer: Call) -> list[Call]:
        """The calls within another, by time and thread."""
        return [call for call in self.calls if outer.q < call.q and call.e < outer.e and call.thread == outer.thread]


def within(calls: list[Call], outer: Call) -> list[Call]:
    """Those of calls in order that begin within another one, on whatever thread: there may be thousands of both."""
    low = bisect_right(calls, outer.q, key=ORDER)
    return calls[low : bisect_left(calls, outer.e, low, key=ORDER)]
