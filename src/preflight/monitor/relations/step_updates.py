"""A step changes what it owns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import compress
from math import isfinite
from operator import eq, ne

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import State, Window
from preflight.vocabulary.counted import counted

_ROUNDING = 1e-5
"""Share of the largest gradient norm of a step below which another is taken for rounding: a hundred units of float32."""

_CONVERGED = 1e-4
"""Share of what its gradient was in the first steps below which a parameter has arrived: its updates leave no trace."""
_FALLEN, _SMALL = 0.05, 1e-6
"""Share and root mean square below which that is so by both: Adam divides by what gradients were in a thousand steps."""
_NOTHING = 1e-8
"""Root mean square of a gradient that moves nothing: at a rate of 0.1, a weight of a tenth keeps all of its bits."""
_FIRST = 3
_UNIT = 2.0**-24
"""Share of a number in float32 below which what is added to it leaves no trace."""

_AS_LARGE_AS_THE_RATE = frozenset({"Adam", "AdamW", "Adamax", "NAdam", "RAdam"})
"""Optimizers that change a weight by about the rate, however large its gradient is."""

_ANNEALED = 1e-3
"""Share of the largest rate so far below which one has come to its end: its updates are lost beside the weights."""

_HALVES = frozenset({"bfloat16", "float16"})
_NEARLY = 0.9
"""The share of the weights in half precision that must all stay as they are; one that is all zero needs no others."""

Variables = set[int] | frozenset[int]

_OF_TORCH = frozenset(
    {
        *("Adadelta", "Adafactor", "Adagrad", "Adam", "Adamax", "AdamW", "ASGD", "LBFGS", "Muon", "NAdam", "RAdam"),
        *("RMSprop", "SGD", "SparseAdam"),
    }
)
"""Those that change whatever has a gradient in each step. Rprop is none: a weight whose gradient has turned rests in it."""
_ALWAYS, _IN_A_ROW = 5, 3
_TURNS = 16
"""Steps in which a parameter may wait for its turn in an optimizer of the program's own."""


class StepUpdates(Relation):
    """A step changes every parameter of the optimizer that has a gradient other than zero.

    Judged by fingerprints for each parameter where they were taken, and by norms for all together in every step.
    Steps with a rate of zero are left out, or of less than a thousandth of what it was, as at the end of a schedule, and so
    are gradients that are mere rounding beside the others of the step: the bias of a layer in front of a normalisation has one, and an update of its size leaves no trace.
    So does that of a loss that has come to its end, and that of layers which hardly any gradient reaches; SGD at its largest
    rate, which tells how large its update is, may have one that is too small even for the whole precision of its weights.
    Adam and its kin change a weight by about the rate: where even the largest rate so far is less than float32 tells
    beside the weights of a layer, as one of 4e-8 beside the ones of a normalisation, this layer may rest while others move.
    What is not finite any more stays so whatever is added to it, and is not judged either: other relations tell of it.
    Nor is a step with gradients that are not finite: a fused optimizer is called for it, and leaves all as it is where a
    scaler of losses tells it to.
    A parameter that stays as it is although it has a gradient is not the one that the optimizer updates, its update is
    smaller than the resolution of its dtype, or something puts the old value back.
    Of weights in half precision many keep their value for long where all is well: a scale of one does not move at a rate of
    a thousandth. Of these nearly all must stay as they are, several times in a row, or one must be all zero, which any
    update moves.
    Rprop rests where a gradient has turned, and an optimizer of the program's own may gather gradients over several steps,
    take turns among its parameters, or hold them within bounds: of these a parameter must never have changed, over several steps, or all of them must rest several times
    in a row although some changed in each step before.
    """

    name = "step-updates"
    needs = frozenset({"step", "state"})
    wakes = frozenset({"scalar lr", "parameters after a step"})
    priority = 20
    cause = (
        "the optimizer holds other tensors than the model (made before the model was moved, wrapped or replaced), "
        "the update is lost in a low precision, or the weights are written back"
    )
    advice = (
        "make the optimizer after the model has its final parameters, and keep fp32 master weights for low precision"
    )

    def __init__(self) -> None:
        self._norms: dict[int, tuple[list[int], list[float | None]]] = {}
        self._largest: dict[str, float] = {}
        self._begun: dict[int, int] = {}  # by optimizer: steps whose gradients were taken for its first ones
        self._at_first: dict[int, float] = {}  # by variable: the largest norm of its gradient in those
        self._rates: dict[str, float] = {}  # in force
        self._ended: set[str] = set()  # rates that are next to nothing, by what they were
        self._all: tuple[list[int], frozenset[int]] = [], frozenset()  # the variables of a step, as a set
        self._patience: dict[
            int, int
        ] = {}  # by variable of the program's own optimizers: steps without a change so far
        self._changed: set[int] = set()  # such as have changed
        self._everyone: Variables = set()  # the parameters with a gradient in the step that is judged
        self._lost: dict[int, int] = {}  # by optimizer: looks in a row at which nearly all in half precision had stayed
        self._rows: dict[int, tuple[int, int]] = {}  # by such an optimizer: steps with a change in a row, then without

    def see(self, window: Window) -> Iterator[Example]:
        # A rate is told when it changes: the last one told is in force.
        for one in window.numbers:
            if one.name == "lr":
                self._take(one.object, one.value)
        for step in steps_of(window):
            if step.after is None:
                continue
            before = self._norms.get(step.optimizer)
            self._norms[step.optimizer] = (step.after.ids, step.after.norm)
            if step.gradients is None:
                continue
            if self._begun.get(step.optimizer, 0) < _FIRST:
                self._begin(step.optimizer, step.gradients)
            with_gradient = self._worth_a_change(step.gradients)
            if not step.after.sound and (gone := _not_finite(step.after)):
                with_gradient = with_gradient - gone
            if not with_gradient or (self._ended and self._rests(step)):
                continue
            context = {"optimizer": step.kind, "closure": step.closure}
            self._everyone = with_gradient
            if step.kind not in _OF_TORCH:
                with_gradient = with_gradient & self._waited(step, before)
            if step.before is not None and step.before.bits is not None and step.after.bits is not None:
                yield self._exact(step, with_gradient, window, context)
            if before is not None and before[0] == step.after.ids:
                together = self._together(step, with_gradient, before[1], window, context)
                if together is not None:
                    yield together

    def _waited(self, step: Step, before: tuple[list[int], list[float | None]] | None) -> set[int]:
        """The parameters that have not changed in any step, of several."""
        assert step.after is not None
        known = before if step.before is None else (step.before.ids, step.before.norm)
        old = dict(zip(*known, strict=True)) if known is not None else {}
        moved = {one for one, norm in zip(step.after.ids, step.after.norm, strict=True) if norm != old.get(one, norm)}
        self._changed |= moved
        for ident in old:
            self._patience[ident] = self._patience.get(ident, 0) + 1
        worked, rested = self._rows.get(step.optimizer, (0, 0))
        if old:
            worked, rested = (worked, rested + 1) if not moved else (-_ALWAYS if rested else worked + 1, 0)
            self._rows[step.optimizer] = worked, rested
        if worked >= _ALWAYS and rested >= _IN_A_ROW:
            return set(old)
        return {ident for ident, steps in self._patience.items() if steps >= _TURNS and ident not in self._changed}

    def _take(self, name: str, rate: float | None) -> None:
        """Take in a rate: whether it is zero, or nothing beside the largest one so far."""
        if rate is None or not isfinite(rate):
            return
        self._rates[name] = rate
        largest = self._largest[name] = max(rate, self._largest.get(name, 0.0))
        if rate == 0 or rate < _ANNEALED * largest:
            self._ended.add(name)
        else:
            self._ended.discard(name)

    def _rests(self, step: Step) -> bool:
        """Whether a rate of the step is zero, or next to nothing."""
        own = step.call.object + "."
        return any(name.startswith(own) for name in self._ended)

    def _begin(self, optimizer: int, gradients: State) -> None:
        """Keep how large the gradients of the first steps are."""
        self._begun[optimizer] = self._begun.get(optimizer, 0) + 1
        for ident, norm in zip(gradients.ids, gradients.norm, strict=True):
            if norm is not None and isfinite(norm):
                self._at_first[ident] = max(norm, self._at_first.get(ident, 0.0))

    def _arrived(self, step: Step, gradients: State, window: Window) -> set[int]:
        """The variables whose gradient is next to nothing: by itself, beside what it was in the first steps, or as an update."""
        found = set()
        own = step.call.object + "."
        rate = max((one for name, one in self._rates.items() if name.startswith(own)), default=0.0)
        if any(one > rate for name, one in self._largest.items() if name.startswith(own)):
            rate = 0.0  # it is the schedule that made the updates so small
        sizes = dict(zip(step.after.ids, step.after.norm, strict=True)) if step.kind == "SGD" and step.after else {}
        for ident, norm in zip(gradients.ids, gradients.norm, strict=True):
            about = window.run.variables.get(ident)
            if norm is None or about is None:
                continue
            first = self._at_first.get(ident, 0.0)
            mean = norm / max(about.numel, 1) ** 0.5
            lost = rate > 0 and about.dtype == "float32" and norm * rate < _UNIT * (sizes.get(ident) or 0.0)
            if lost or mean < _NOTHING or norm < _CONVERGED * first or (mean < _SMALL and norm < _FALLEN * first):
                found.add(ident)
        return found

    def _beyond(self, step: Step, still: set[int], window: Window) -> set[int]:
        """The variables in float32 beside whose weights even the largest rate so far leaves no trace."""
        assert step.after is not None
        own = step.call.object + "."
        rate = max((one for name, one in self._largest.items() if name.startswith(own)), default=0.0)
        sizes = dict(zip(step.after.ids, step.after.norm, strict=True))
        found = set()
        for ident in still:
            about = window.run.variables.get(ident)
            if about is None or about.dtype != "float32" or not rate:
                continue
            if rate * about.numel**0.5 < _UNIT * (sizes.get(ident) or 0.0):
                found.add(ident)
        return found

    def _worth_a_change(self, gradients: State) -> Variables:
        """The variables whose gradient is more than rounding beside the largest of the step."""
        ids, norms = gradients.ids, gradients.norm
        if gradients.sound and min(norms) > _ROUNDING * max(norms):  # type: ignore[type-var, operator]
            if self._all[0] != ids:
                self._all = ids, frozenset(ids)
            return self._all[1]
        if any(norm is not None and not isfinite(norm) for norm in norms):
            return frozenset()
        least = _ROUNDING * max((norm for norm in norms if norm is not None), default=0.0)
        pairs = zip(ids, norms, strict=True)
        return {ident for ident, norm in pairs if norm is not None and norm > least}

    def _exact(self, step: Step, with_gradient: Variables, window: Window, context: Mapping[str, object]) -> Example:
        assert step.before is not None
        assert step.before.bits is not None
        assert step.after is not None
        assert step.after.bits is not None
        still: tuple[str, ...] = ()
        arrived: Variables = set()
        if step.before.ids != step.after.ids or any(map(eq, step.before.bits, step.after.bits)):
            old = dict(zip(step.before.ids, step.before.bits, strict=True))
            pairs = zip(step.after.ids, step.after.bits, strict=True)
            stayed = {one for one, bits in pairs if one in self._everyone and bits is not None and old.get(one) == bits}
            if stayed and step.gradients is not None:
                arrived = self._arrived(step, step.gradients, window)
            stayed -= arrived
            if stayed and step.kind in _AS_LARGE_AS_THE_RATE and any(map(ne, step.before.bits, step.after.bits)):
                stayed -= self._beyond(step, stayed, window)
            same = (stayed & with_gradient) - self._too_coarse(step, stayed, arrived, window)
            still = tuple(window.run.name(one) for one in step.after.ids if one in same)
        else:
            self._lost.pop(step.optimizer, None)
        return Example(
            (),
            not still,
            {**context, "judged": "each"},
            variables=still,
            expected="a change of every parameter with a gradient",
            seen=f"no change in {len(still)} of {counted(len(with_gradient), 'parameter')} with a gradient"
            if still
            else None,
            call=step.call,
            detail="The step left parameters as they were although they have gradients" if still else "",
        )

    def _too_coarse(
        self, step: Step, stayed: Variables, arrived: Variables, window: Window, counted: bool = False
    ) -> set[int]:
        """Of parameters that stayed as they are, those of which half precision may be the whole reason.

        ``arrived`` are those whose gradient is next to nothing; ``counted`` is whether it was asked of this step before.
        """
        known = window.run.variables
        halves = {one for one in self._everyone - arrived if one in known and known[one].dtype in _HALVES}
        if not halves:
            return set()
        rest = halves & stayed
        if not counted:
            nearly = len(rest) >= _NEARLY * len(halves)
            self._lost[step.optimizer] = self._lost.get(step.optimizer, 0) + 1 if nearly else 0
        if self._lost.get(step.optimizer, 0) >= _IN_A_ROW or step.after is None:
            return set()
        return rest - {one for one, norm in zip(step.after.ids, step.after.norm, strict=True) if norm == 0}

    def _together(
        self,
        step: Step,
        with_gradient: Variables,
        before: list[float | None],
        window: Window,
        context: Mapping[str, object],
    ) -> Example | None:
        assert step.after is not None
        ids, known = self._all
        own = known if with_gradient is known and ids == step.after.ids else with_gradient.intersection(step.after.ids)
        if len(own) < 2:  # a single norm may stay the same by chance
            return None
        others = compress(step.after.ids, map(ne, before, step.after.norm))
        moved = any(map(with_gradient.__contains__, others))
        if not moved and step.gradients is not None and len(own - self._arrived(step, step.gradients, window)) < 2:
            return None
        counted = step.before is not None and step.before.bits is not None and step.after.bits is not None
        if moved and not counted:
            self._lost.pop(step.optimizer, None)
        if not moved:
            moved = own <= self._too_coarse(step, self._everyone, set(), window, counted)
        return Example(
            (),
            moved,
            {**context, "judged": "together"},
            variables=() if moved else tuple(window.run.name(one) for one in step.after.ids if one in with_gradient),
            expected="a change of the parameters with a gradient",
            seen=None if moved else "no norm of a parameter changed",
            call=step.call,
            detail="" if moved else "The step changed none of the parameters although they have gradients",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}, "model.frozen": {"trainable": False}})
        yield [
            mini.window(
                ("gradients", {"model.weight": 0.5}),
                ("before", {"model.weight": (1.0, 11), "model.frozen": (2.0, 22)}),
                "step optimizer0:SGD",
                ("after", {"model.weight": (0.9, 12), "model.frozen": (2.0, 22)}),
            )
        ]

        mini = Mini({"model.a": {}, "model.b": {}})
        rests = {"model.a": (1.0, 11), "model.b": (2.0, 22)}
        told = ("gradients", {"model.a": float("nan"), "model.b": 0.1})
        yield [
            mini.window(told, ("before", rests), "step optimizer0:AdamW", ("after", rests)),  # skipped by a scaler
            mini.window(
                ("gradients", {"model.a": 0.5, "model.b": 0.1}),
                ("before", rests),
                "step optimizer0:AdamW",
                ("after", {"model.a": (0.9, 12), "model.b": (1.9, 23)}),
            ),
        ]

        mini = Mini({"model.a": {}, "model.b": {}})
        still = (("gradients", {"model.a": 0.5, "model.b": 0.1}), "step optimizer0:SGD")
        after = ("after", {"model.a": 1.0, "model.b": 2.0})
        first = ("after", {"model.a": 1.1, "model.b": 2.1})
        yield [
            mini.window(("scalar", "lr", "optimizer0:SGD.0", 0.1), *still, first),
            mini.window(("scalar", "lr", "optimizer0:SGD.0", 0.01), *still, after),
            mini.window(("scalar", "lr", "optimizer0:SGD.0", 4e-7), *still, after),  # the end of a schedule
        ]

        mini = Mini({"model.a": {}, "model.b": {}})
        arrived = ("gradients", {"model.a": 5e-6, "model.b": 1e-6})
        bits = {"model.a": (1.0, 11), "model.b": (2.0, 22)}
        yield [  # what is left of the loss moves nothing
            mini.window(("before", {"model.a": (1.1, 10), "model.b": (2.1, 20)}), *still, ("after", bits)),
            mini.window(("before", bits), arrived, still[1], ("after", bits)),
        ]

        yield _lost("float32") * _IN_A_ROW
        yield _halves(4.0, 12)  # what moves less than half precision can tell, beside what moves
        yield _tiny(scale=4.0)

        mini = Mini({"model.weight": {}, "model.bias": {}})
        turned = (("gradients", {"model.weight": 0.5, "model.bias": 0.1}), "step optimizer0:Rprop")
        yield [  # the gradient of all of the bias has turned
            mini.window(
                ("before", {"model.weight": (1.0, 11), "model.bias": (2.0, 22)}),
                *turned,
                ("after", {"model.weight": (0.9, 12), "model.bias": (2.0, 22)}),
            )
        ]

        mini = Mini({"model.weight": {}, "model.frozen": {"trainable": False}})
        gone = float("nan")
        yield [
            mini.window(
                ("gradients", {"model.weight": 0.5, "model.frozen": 0.5}),
                ("before", {"model.weight": (gone, 11), "model.frozen": (1.9, 21)}),
                "step optimizer0:SGD",
                ("after", {"model.weight": (gone, 11), "model.frozen": (2.0, 22)}),
            ),
            mini.window(
                ("gradients", {"model.weight": gone, "model.frozen": 0.5}),
                ("before", {"model.weight": (gone, 11), "model.frozen": (2.0, 22)}),
                "step optimizer0:SGD",
                ("after", {"model.weight": (gone, 11), "model.frozen": (2.1, 23)}),
            ),
        ]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [
            mini.window(
                ("gradients", {"model.weight": 0.5}),
                ("before", {"model.weight": (1.0, 11)}),
                "step optimizer0:SGD",
                ("after", {"model.weight": (1.0, 11)}),
            )
        ]
        mini = Mini({"model.a": {}, "model.b": {}})
        rows = (
            ("gradients", {"model.a": 0.5, "model.b": 0.1}),
            "step optimizer0:SGD",
            ("after", {"model.a": 1.0, "model.b": 2.0}),
        )
        yield [mini.window(*rows), mini.window(*rows)]
        yield _lost("bfloat16") * _IN_A_ROW
        yield _halves(4.0, 11) * _IN_A_ROW
        yield _halves(0.0, 12)
        yield _tiny(scale=0.04)
        yield _tiny(scale=4.0, moved=False)


def _tiny(scale: float, moved: bool = True) -> list[Window]:
    """A step of Adam at a rate of 4e-8, after which a layer is as it was, and perhaps all are."""
    mini = Mini({"model.weight": {}, "model.scale": {}})
    before = {"model.weight": (0.02, 11), "model.scale": (scale, 22)}
    return [
        mini.window(
            ("scalar", "lr", "optimizer0:Adam.0", 4e-8),
            ("gradients", {"model.weight": 0.5, "model.scale": 0.1}),
            ("before", before),
            "step optimizer0:Adam",
            ("after", {**before, "model.weight": (0.02, 12)} if moved else before),
        )
    ]


def _lost(dtype: str) -> list[Window]:
    """A step whose update is smaller than the weights can tell."""
    mini = Mini({"model.scale": {"dtype": dtype}})
    same = {"model.scale": (1.0, 11)}
    rate = ("scalar", "lr", "optimizer0:SGD.0", 1e-4)
    return [
        mini.window(
            rate, ("gradients", {"model.scale": 5e-4}), ("before", same), "step optimizer0:SGD", ("after", same)
        )
    ]


def _halves(norm: float, bits: int) -> list[Window]:
    """A step in half precision that leaves a scale as it was, and gives the other weights these fingerprints."""
    mini = Mini({"model.scale": {"dtype": "bfloat16"}, "model.weight": {"dtype": "bfloat16"}})
    before = {"model.scale": (norm, 22), "model.weight": (1.0, 11)}
    gradients = ("gradients", {"model.scale": 0.1, "model.weight": 0.5})
    after = {"model.scale": (norm, 22), "model.weight": (1.1, bits)}
    return [mini.window(gradients, ("before", before), "step optimizer0:AdamW", ("after", after))]


def _not_finite(state: State) -> set[int]:
    """The variables that hold numbers which are none."""
    try:
        if isfinite(sum(state.norm)):  # type: ignore[arg-type]
            return set()
    except TypeError:  # one that is not known
        pass
    return {ident for ident, norm in zip(state.ids, state.norm, strict=True) if norm is not None and not isfinite(norm)}
