"""An average of trained weights is not trained itself."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.copies import begun_alike
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.views.values import Value, differ, values_of
from preflight.monitor.window import State, Window
from preflight.vocabulary.counted import counted

_GAPS = 2
_FEWEST = 2
_MOST_LATER = 8


class AveragesRestInSteps(Relation):
    """A copy that the program moves after a trained network, between the steps, is not moved by the optimizer as well.

    The second encoder of momentum contrast, a target network or a teacher is an average of the first network. Where it is
    a part of the same model and was not frozen, ``model.parameters()`` hands it to the optimizer: each step then pulls it
    somewhere else, by gradients where its pass was not detached, or by weight decay.
    Judged are matrices of an optimizer that began as copies of others that are trained, two at least: they change between
    two steps, twice in a row, while their originals do not, and the steps change them too.
    Where both change between the steps, as in averaging over ranks or replicas, nothing is said; nor where the copy is
    made anew in every bit, or loaded, as that of an inner loop.
    """

    name = "averages-rest-in-steps"
    needs = frozenset({"step", "state", "load_state_dict"})
    wakes = frozenset({"step"})
    priority = 12
    cause = "the network that is averaged is among the parameters that the optimizer was given, and needs gradients"
    advice = "call requires_grad_(False) on it before the optimizer is made, and run it under torch.no_grad()"

    def __init__(self) -> None:
        self._first: dict[int, float] = {}
        self._last: dict[int, Value] = {}
        self._later: list[State] = []  # what is still to be taken into these: in most runs nobody asks for them
        self._rested: dict[int, bool] = {}  # by variable, whether it was as it was left when it was last looked at
        self._moved: dict[int, int] = {}  # in how many gaps in a row a copy was moved while its original was not
        self._stepped: set[int] = set()
        self._compared = (0, 0)  # how many norms were compared last, and at which change of the variables
        self._originals: dict[int, list[int]] = {}  # by copy

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            if step.before is not None:
                self._keep(step.before)
                self._begin(step.before)
                self._compare(window)
                if (step.left is not None or not step.done) and not step.named("load_state_dict"):
                    yield self._judge(step, step.left, step.before, window)
                if step.after is not None and self._originals:
                    now, after = values_of(step.before), values_of(step.after)
                    self._stepped.update(one for one in now if one in after and differ(now[one], after[one]))
            if step.after is not None:
                self._keep(step.after)

    def _keep(self, state: State) -> None:
        """Keep the values of a state, over those that were kept of the same variables."""
        if self._later and self._later[-1].ids == state.ids:
            self._later.pop()
        self._later.append(state)
        if len(self._later) >= _MOST_LATER:
            self._take_in()

    def _take_in(self) -> None:
        for state in self._later:
            self._last.update(values_of(state))
        self._later.clear()

    def _begin(self, state: State) -> None:
        """Keep the first norms of variables that have any."""
        if not all(map(self._first.__contains__, state.ids)):
            for ident, norm in zip(state.ids, state.norm, strict=True):
                if norm:
                    self._first.setdefault(ident, norm)

    def _compare(self, window: Window) -> None:
        """Find the originals of each matrix: other trained ones of its last name and shape, and of its norm at the first step.

        Every copy is the original of its own original: a variable that is in no pair is never looked at.
        """
        known = (len(self._first), window.run.variables.changes)
        if self._compared == known:
            return
        self._compared, self._originals = known, {}
        alike: dict[tuple[tuple[int, ...], str], list[int]] = {}
        for ident, one in window.run.variables.items():
            if ident in self._first and one.optimizer >= 0 and len(one.shape) >= 2:
                alike.setdefault((tuple(one.shape), one.name.rpartition(".")[2]), []).append(ident)
        for idents in alike.values():
            for ident in idents:
                found = [one for one in idents if one != ident and begun_alike(self._first[ident], self._first[one])]
                if found:
                    self._originals[ident] = found

    def _judge(self, step: Step, left: State | None, found: State, window: Window) -> Example:
        if not self._originals:
            return Example((), True, {"optimizer": step.kind}, call=step.call)
        self._take_in()
        known, now = values_of(left) if left is not None else {}, values_of(found)
        paired = [ident for ident in now if ident in self._originals]
        changed = {ident for ident in paired if ident in known and differ(known[ident], now[ident])}
        self._rested.update({ident: ident not in changed for ident in paired if ident in known})
        for ident in paired:
            alone = ident in changed and any(self._apart(ident, one) for one in self._originals[ident])
            self._moved[ident] = self._moved.get(ident, 0) + 1 if alone else 0
        wrong = [one for one in paired if self._moved[one] >= _GAPS and one in self._stepped]
        wrong = wrong if len(wrong) >= _FEWEST else []
        return Example(
            (),
            not wrong,
            {"optimizer": step.kind},
            variables=tuple(window.run.name(ident) for ident in wrong),
            expected="an average that no optimizer changes" if wrong else None,
            seen=counted(
                len(wrong),
                "matrix that follows another between the steps and is stepped as well",
                "matrices that follow others between the steps and are stepped as well",
            )
            if wrong
            else None,
            call=step.call,
            detail="An optimizer changes a copy that the program moves after the weights it was made from"
            if wrong
            else "",
        )

    def _apart(self, ident: int, original: int) -> bool:
        """Whether an original rested in the last gap and the copy is not what it is."""
        known = self._last.get(original)
        return self._rested.get(original, False) and known is not None and differ(self._last[ident], known)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(moved=0.0)
        yield _run(moved=0.1, both=True)
        yield _run(moved=0.1, apart=0.2)
        yield _run(moved=-0.01)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(moved=0.1)
        yield _run(moved=0.1, apart=1e-7)


def _run(moved: float, both: bool = False, apart: float = 0.0) -> list[Window]:
    fast, slow = ("model.q.0.weight", "model.q.2.weight"), ("model.k.0.weight", "model.k.2.weight")
    mini = Mini({name: {} for name in (*fast, *slow)})
    values = {name: 1.0 + 0.5 * at for names in (fast, slow) for at, name in enumerate(names)}
    values.update({name: values[name] * (1 + apart) for name in slow})
    windows = []
    for number in range(5):
        for name in (*slow, *(fast if both else ())) if number else ():
            values[name] += moved
        before = dict(values)
        values = {name: value + (0.01 if moved > 0 or name in slow else 0.0) for name, value in values.items()}
        windows.append(mini.window("backward", ("before", before), "step optimizer0:SGD", ("after", dict(values))))
    return windows
