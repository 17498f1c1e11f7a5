"""Gradients that another loss leaves in a network have come through it."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import ORDER, Call, State, Window

_ROUNDS = 2
_MOST_LATE = 8


class PassesHaveAnEnd(Relation):
    """A network that is part of another optimizer's loss hands its gradients on to what that optimizer trains.

    The loss of a generator runs through the discriminator, whose own gradients of that pass are thrown away; it is there
    to tell the generator what to change. Where its input was detached, the gradients end in the discriminator: the loss is
    computed and printed, and trains nobody.
    Judged where the gradients of an optimizer are cleared: those of a backward pass since its last step are thrown away,
    another optimizer has stepped on that pass, and none of the inputs of its network took a gradient. It must happen twice.
    A network that a further optimizer holds too, as one for an auxiliary loss of both, is that one's own as well.
    Passes whose inputs may have been given by name, which is not seen, are left out, and so are those with weights that
    were computed, as in meta-learning, through which the gradients go on.
    A network that feeds the optimizer's own is reached through it, also where the same loss calls it once more.
    A network that is compared with others on the same data, and leaves gradients of it behind, looks the same: a leak that
    does no harm.
    """

    name = "passes-have-an-end"
    needs = frozenset({"step", "backward", "zero_grad", "forward", "tensor", "state"})
    wakes = frozenset({"step", "forward", "gradient at before_clear"})
    repeats = 2
    looks = frozenset({"step", "forward", "backward", "tensors"})  # what the last step used is known after a sleep
    reads = frozenset({"gradient at before_clear"})
    severity = "warning"
    priority = 18
    cause = "what goes into the network is detached, or was computed under no_grad"
    advice = "detach for the network's own loss only, not for the loss of what comes before it"

    def __init__(self) -> None:
        self._fed: dict[str, bool] = {}  # since the last step of its optimizer: whether an input took a gradient
        self._first: dict[str, int] = {}  # the first of the forward passes that were not passed back yet
        self._passed: dict[str, tuple[Call, bool, int]] = {}  # the backward pass, whether fed, and that first one
        self._other: set[str] = set()  # roots for which another optimizer has stepped on such a pass
        self._used: dict[int, float | None] = {}
        self._late: list[State] = []  # the gradients that the last steps used, which stand above these
        self._at: dict[str, int] = {}  # the last forward pass of a root
        self._told: set[str] = set()  # roots whose gradients were told since their last step
        self._unknown: set[str] = set()  # and those of whose last step they were not: what is left may be of it
        self._rounds: dict[str, int] = {}
        self._of: tuple[list[int], int, set[str]] = [], -1, set()  # variables, and their roots
        self._held: dict[int, set[str]] = {}  # the roots that an optimizer was seen with, others' too

    def slept(self, window: Window, times: int) -> None:
        """Know the gradients that the last step used."""
        for _ in self.see(window):
            pass

    def see(self, window: Window) -> Iterator[Example]:
        passes = [call for call in window.named("forward") if call.context.startswith("grad")]
        inputs: dict[int, list[bool]] = {call.q: [] for call in passes}
        if passes:
            for seen in window.tensors:
                if seen.call in inputs and seen.position.startswith("in"):
                    inputs[seen.call].append(seen.requires_grad)
        events: list[Call | State] = [*window.named("step"), *window.named("backward"), *passes]
        events += [
            one for one in window.states if one.what == "gradient" and one.moment in ("before_clear", "before_step")
        ]
        for event in sorted(events, key=ORDER):
            if isinstance(event, State):
                self._held.setdefault((event.extra or {}).get("optimizer", -1), set()).update(
                    self._roots(event.ids, window)
                )
                if event.moment == "before_step":
                    self._late = [one for one in self._late if one.ids != event.ids] + [event]
                    if len(self._late) > _MOST_LATE:
                        self._gradients()
                    self._told |= self._roots(event.ids, window)
                else:
                    yield from self._cleared(event, window)
            elif event.name == "forward":
                root = event.object.partition(".")[0]
                self._at[root] = event.q
                self._first.setdefault(root, event.q)
                args = event.args or {}
                unseen = args.get("by_name", False) or args.get("computed", False)
                self._fed[root] = self._fed.get(root, False) or unseen or any(inputs[event.q] or (True,))
            elif event.name == "backward":
                for root, fed in self._fed.items():
                    before = self._passed.get(root)
                    first = self._first.get(root, event.q)
                    if before is not None:
                        fed, first = fed or before[1], min(first, before[2])
                    self._passed[root] = event, fed, first
                self._fed.clear()
                self._first.clear()
            else:
                self._stepped(event, window)

    def _roots(self, ids: list[int], window: Window) -> set[str]:
        """The roots of variables, which are the same at each step."""
        known = window.run.variables
        if self._of[0] != ids or self._of[1] != known.changes:
            self._of = ids, known.changes, {known[ident].root for ident in ids if ident in known}
        return self._of[2]

    def _stepped(self, step: Call, window: Window) -> None:
        number = _number(step)
        own = window.run.roots(number) | self._held.get(number, set())
        if not own:  # all that it holds is counted as another's, and none of it was told: any may be its own
            self._passed.clear()
            self._other.clear()
            self._fed.clear()
            return
        last = max((self._at.get(root, -1) for root in own), default=-1)
        led = any(self._passed[root][1] for root in own if root in self._passed)  # something before it takes gradients
        for root in list(self._passed):
            if root in own:
                self._passed.pop(root)
                self._other.discard(root)
            elif self._at.get(root, -1) > last and not (led and self._passed[root][2] < last):
                self._other.add(root)  # what comes before the optimizer's own is led there by its own loss
        for root in own:
            self._fed.pop(root, None)
            self._first.pop(root, None)
        self._unknown = (self._unknown | own) - self._told
        self._told -= own

    def _gradients(self) -> dict[int, float | None]:
        """The norm of the gradient that the last step of each variable used."""
        for state in self._late:
            self._used.update(zip(state.ids, state.norm, strict=True))
        self._late.clear()
        return self._used

    def _cleared(self, state: State, window: Window) -> Iterator[Example]:
        known = window.run.variables
        used = self._gradients()
        held: dict[str, list[tuple[int, float | None]]] = {}
        owners: dict[str, set[int]] = {}
        for ident, norm in zip(state.ids, state.norm, strict=True):
            one = known.get(ident)
            if one is not None:
                held.setdefault(one.root, []).append((ident, norm))
                owners.setdefault(one.root, set()).add(one.optimizer)
        for root, pairs in held.items():
            passed = self._passed.pop(root, None)
            stepped = root in self._other
            self._other.discard(root)
            if passed is None or not stepped or root in self._unknown or len(owners[root]) != 1 or -1 in owners[root]:
                continue
            made = [ident for ident, norm in pairs if norm and norm != used.get(ident)]
            wrong = bool(made) and not passed[1]
            self._rounds[root] = self._rounds.get(root, 0) + 1 if wrong else 0
            wrong = self._rounds[root] >= _ROUNDS
            yield Example(
                (),
                not wrong,
                {},
                variables=(root, *map(window.run.name, made)) if wrong else (),
                expected="an input that takes the gradient on",
                seen=f"gradients that end in {root} and are thrown away" if wrong else None,
                call=passed[0],
                detail=f"A loss runs through {root} and trains nothing: its input takes no gradient" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _game(detached=False)
        yield _game(detached=True, more="by_name")
        yield _game(detached=True, more="computed")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _game(detached=True)


def _number(call: Call) -> int:
    word = call.object.split(":")[0]
    return int(word[9:]) if word.startswith("optimizer") and word[9:].isdigit() else -1


def _game(detached: bool, more: str = "") -> list[Window]:
    mini = Mini({"judge.weight": {}, "maker.weight": {"optimizer": 1}})
    windows = []
    for number in range(4):
        thrown = [("thrown", {"judge.weight": 0.9 + number}, {"optimizer": 0})] if number else []
        window = mini.window(
            "forward judge",
            *thrown,
            "zero_grad optimizer0:Adam",
            "backward",
            ("gradients", {"judge.weight": 0.5}, {"optimizer": 0}),
            "step optimizer0:Adam",
            ("forward judge", {"args": {"training": True, **({more: True} if more else {})}}),
            "zero_grad optimizer1:Adam",
            "backward",
            "step optimizer1:Adam",
        )
        own, others = (call.q for call in window.named("forward"))
        for call, grad in ((own, False), (others, not detached)):
            row = ("tensor", {"object": "judge", "position": "in0", "requires_grad": grad, "call": call})
            window.tensors += [one._replace(i=window.iteration) for one in mini.window(row).tensors]
        windows.append(window)
    return windows
