"""A model that is only read does not drop."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fingerprints import looks_of
from preflight.monitor.window import Call, Window

_STEPS = 2
_AGO = 3
"""Iterations since a frozen model was last trained: one that takes turns with another is frozen for its own turn only."""


class ReferenceInEvaluation(Relation):
    """A model that rests and is only read in each step of another one's training is in evaluation mode.

    A reference, a teacher or a reward model that is left in training mode drops: what the trained model is compared with
    is another thing each time, and a divergence that should begin at zero does not.
    Judged are models that drop, that no optimizer has, whose weights stay as they are, and that are called without
    gradients between two steps; a teacher whose weights follow those of the student is left alone. One that the same
    program has trained before is judged once all of it is frozen and was not trained for some iterations. One that is not
    frozen is judged then, too, where its optimizer is gone and it is given what the trained model is given, once in a step.
    So are parts of a model that is trained, where another part of it gives out something of the same shape, and takes
    gradients: what is compared. A frozen encoder whose features go on into the model is left alone.
    A model that normalises by the statistics of each batch instead is judged where the program never trains it and it has
    no parameters of the names and shapes of a trained one: target networks, which may rest for long, are often left so.
    """

    name = "reference-in-evaluation"
    needs = frozenset({"forward", "module", "tensor", "step", "state"})
    follows = (looks_of,)
    wakes = frozenset({"forward", "module", "exact parameter at before_step"})
    repeats = 3
    looks = frozenset({"root", "forward", "step", "backward"})
    reads = frozenset({"exact parameter at before_step", "module"})
    severity = "warning"
    priority = 18
    cause = "the model was made or loaded in training mode, or train() was called on a module that holds both"
    advice = "call eval() on the model that is only read, after every train() on what contains it"

    def __init__(self) -> None:
        self._known: dict[int, int] = {}  # by variable: the iteration in which it was looked at first
        self._rested: set[int] = set()  # variables that a later iteration found as they had been
        self._looks: dict[str, int] = {}  # by root: how often its weights were looked at and had not changed
        self._moving: set[str] = set()
        self._trained: dict[str, int] = {}  # by root: the iteration in which it was called with gradients last
        self._learns: set[str] = set()  # what was called with gradients, by its full name
        self._retired: set[str] = set()  # roots that were trained before, and are frozen
        self._counts: dict[str, int] = {}
        self._batchwise: dict[str, int] = {}  # by model: how often in a row it normalised by the batch
        self._moved: set[int] = set()
        self._dropouts: dict[str, tuple[str, ...]] = {}  # by root: its parts that drop
        self._open = False  # whether a model that drops was read that may have been trained to its end
        self._last: dict[str, tuple[int, int]] = {}  # by root: when it was found as it had been, and when not

    def quiet(self, window: Window) -> bool:
        """Whether nothing is waited for: when a model was trained last does not show in the form of a window."""
        return not self._open

    def slept(self, window: Window, times: int) -> None:
        """Know when each model was trained last."""
        for call in window.named("forward"):
            if (call.context or "").startswith("grad"):
                self._trained[call.object.split(".")[0]] = window.iteration

    def kept(self) -> object:
        """Which models are known to move, and to rest, and of how many variables that is known."""
        rest = {root for root, looks in self._looks.items() if looks >= 1}
        return set(self._moving), rest, len(self._known), len(self._rested), len(self._moved)

    def see(self, window: Window) -> Iterator[Example]:
        self._look(window)
        self._open = False
        for call in window.named("root"):
            self._dropouts[call.object] = tuple((call.args or {}).get("dropout", ()))
        read: dict[str, Call] = {}
        for call in window.named("forward"):
            root = call.object.split(".")[0]
            if (call.context or "").startswith("grad"):
                self._trained[root] = window.iteration
                self._learns.add(call.object)
                self._retired.discard(root)
            elif (call.args or {}).get("dropouts") or _normalises(call):
                read[call.object] = call
        if not window.named("step") or not window.named("backward"):
            return
        yield from self._parts(window)
        held = window.run.trained()
        for name, call in read.items():
            root = name.split(".")[0]
            if "." in name and self._rests(f"{name}.", window):
                wrong = self._drops(name, call) and name not in self._learns
                yield _dropping(name, call) if wrong else Example((), True, {"model": name}, call=call)
                continue
            if (root in self._trained or root in held) and not self._rests_since(root, window):
                self._open = self._open or bool((call.args or {}).get("dropout"))
                wrong = self._drops(name, call) and root not in held and self._is_taught_from(name, window)
                yield _dropping(name, call) if wrong else Example((), True, {"model": name}, call=call)
                continue
            if root in self._moving:
                yield Example((), True, {"model": name})
                continue
            often = self._drops(name, call)
            batchwise = self._normalises(name, call, window)
            wrong = (often or batchwise) and self._looks.get(root, 0) >= 1
            if (self._counts[name] or self._batchwise[name]) and not wrong:
                continue  # not to be told yet
            yield _dropping(name, call) if wrong else Example((), True, {"model": name}, call=call)

    def _drops(self, name: str, call: Call) -> bool:
        """Whether a model that is only read drops, and not for the first time in a row."""
        drops = bool((call.args or {}).get("dropout"))
        self._counts[name] = self._counts.get(name, 0) + 1 if drops else 0
        return self._counts[name] >= _STEPS

    def _normalises(self, name: str, call: Call, window: Window) -> bool:
        """Whether a model that is like no trained one normalises by the batch, and not for the first time in a row."""
        root = name.split(".")[0]
        meant = root in self._retired or name in self._learns or not _normalises(call)
        if not meant:
            meant = bool(window.run.alike(root))
        self._batchwise[name] = 0 if meant else self._batchwise.get(name, 0) + 1
        return self._batchwise[name] >= _STEPS

    def _rests_since(self, root: str, window: Window) -> bool:
        """Whether a model that was trained is frozen since; what is known of its weights is that of the time before."""
        if root in self._retired:
            return True
        held = [one for one in window.run.variables.values() if one.root == root and one.kind == "parameter"]
        ago = window.iteration - self._trained.get(root, window.iteration)
        if ago < _AGO or not held or any(one.trainable for one in held):
            return False
        self._retired.add(root)
        self._moving.discard(root)
        self._looks.pop(root, None)
        return True

    def _is_taught_from(self, name: str, window: Window) -> bool:
        """Whether a model that was trained to its end reads, once, what a trained one is given, and stays as it is."""
        calls = window.named("forward")
        rested, moved = self._last.get(name, (-1, -1))
        trained = self._trained.get(name, window.iteration)
        if window.iteration - trained < _AGO or rested <= max(moved, trained):
            return False
        learning = {call.object for call in calls if (call.context or "").startswith("grad")}
        given: dict[str, list[list[int | None]]] = {}
        for batch in window.batches:
            given.setdefault(batch.loader, []).append(batch.bits)
        read = given.get(f"forward:{name}", [])
        if len(read) != 1 or None in read[0]:
            return False
        return any(read[0] in given.get(f"forward:{one}", ()) for one in learning)

    def _parts(self, window: Window) -> Iterator[Example]:
        """Frozen parts that are read within a pass that is trained."""
        passes = {call.q: call for call in window.named("forward") if (call.context or "").startswith("grad")}
        inner = [call for call in window.named("module") if call.parent in passes]
        read = [
            call for call in inner if not (call.context or "").startswith("grad") and (call.args or {}).get("training")
        ]
        shapes = {seen.call: seen.shape for seen in window.tensors if seen.position == "out0"} if read else {}
        for call in read:
            prefix = f"{call.object}."
            root = passes[call.parent].object
            drops = [name for name in self._dropouts.get(root, ()) if f"{name}.".startswith(prefix)]
            beside = [one for one in inner if one.parent == call.parent and (one.context or "").startswith("grad")]
            compared = any(shapes.get(one.q) == shapes.get(call.q) is not None for one in beside)
            if not drops or not compared or not self._rests(prefix, window):
                continue
            count = self._counts[call.object] = self._counts.get(call.object, 0) + 1
            if count >= _STEPS:
                yield _dropping(call.object, passes[call.parent])

    def _rests(self, prefix: str, window: Window) -> bool:
        """Whether nothing trains the parameters of a part, and they were seen to stay as they are."""
        held = [one for one in window.run.variables.values() if one.kind == "parameter" and one.name.startswith(prefix)]
        if not held or any(one.trainable or one.optimizer >= 0 for one in held):
            return False
        return all(one.id in self._rested and one.id not in self._moved for one in held)

    def _look(self, window: Window) -> None:
        for look in looks_of(window):
            if not self._rested.issuperset(look.ids):
                for ident in look.ids:
                    if self._known.setdefault(ident, window.iteration) < window.iteration:
                        self._rested.add(ident)
            self._moved.update(look.moved)
            moving = window.run.roots_of(look.moved)
            self._moving |= moving
            for root in window.run.roots_of(look.rested):
                self._last[root] = window.iteration, self._last.get(root, (-1, -1))[1]
            for root in moving:
                self._last[root] = self._last.get(root, (-1, -1))[0], window.iteration
            for root in window.run.roots_of([*look.fresh, *look.rested]):
                self._looks[root] = self._looks.get(root, -1) + 1

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(dropout=0, bits=(1, 1, 1))
        yield _run(dropout=1, bits=(1, 2, 3))
        yield _run(dropout=0, bits=(1, 1, 1), norms=2, shape=[4, 4])  # a target that is brought on seldom
        yield _run(dropout=0, bits=(1, 2, 3), norms=2)
        yield _run(dropout=0, bits=(1, 1, 1, 1, 1, 1), before=True)
        yield _handed_on(bits=(1, 1, 1, 1, 1), other=True)
        yield _handed_on(bits=(1, 1, 1, 1, 1), known=False)  # what they are given cannot be compared
        yield _handed_on(bits=(1, 2, 3, 4, 5))  # brought on by its student
        yield _handed_on(bits=(1, 1, 1, 1, 1), gone=False)  # two that take turns

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(dropout=1, bits=(1, 1, 1))
        yield _run(dropout=0, bits=(1, 1, 1), norms=2)
        yield _run(dropout=1, bits=(1, 1, 1, 1, 1, 1, 1), before=True)
        yield _run(dropout=1, bits=(1, 1, 1), name="model.teacher")
        yield _handed_on(bits=(1, 1, 1, 1, 1))


def _normalises(call: Call) -> bool:
    """Whether layers of a called model normalise by the batch, and are not there to estimate its statistics."""
    told = call.args or {}
    return bool(told.get("training")) and told.get("norm", 0) > told.get("estimating", 0)


def _dropping(name: str, call: Call) -> Example:
    drops = bool((call.args or {}).get("dropout"))
    return Example(
        (),
        False,
        {"model": name},
        variables=(name,),
        expected="evaluation mode",
        seen="training mode, with dropout active" if drops else "training mode, normalising by the batch",
        call=call,
        detail=f"{name}, which is only read, is in training mode and {'drops' if drops else 'normalises by the batch'}",
    )


def _run(
    dropout: int,
    bits: tuple[int, ...],
    before: bool = False,
    name: str = "teacher",
    norms: int = 0,
    shape: list[int] | None = None,
) -> list[Window]:
    """Steps of a model, beside which another one is read whose weights have these bits."""
    weight = f"{name}.weight"
    held = {"optimizer": 1 if before else -1, "trainable": False, "shape": shape or [8, 4]}
    mini = Mini({"model.weight": {}, weight: held})
    told = {"dropouts": 1, "dropout": dropout} if not norms else {"norms": norms, "norm": norms}
    read = {"context": "nograd", "args": {"training": bool(dropout or norms), **told}}
    trained = [mini.window(f"forward {name}", "backward", "step optimizer1:SGD")] if before else []
    return trained + [
        mini.window(
            (f"forward {name}", read),
            "backward",
            ("before", {weight: (1.0, one)}, {"optimizer": -1}),
            "step optimizer0:SGD",
        )
        for one in bits
    ]


def _handed_on(bits: tuple[int, ...], other: bool = False, gone: bool = True, known: bool = True) -> list[Window]:
    """A teacher that was trained by an optimizer of its own and then teaches, in training mode."""
    mini = Mini({"model.weight": {}, "teacher.weight": {"optimizer": 1}})
    windows = [mini.window("forward teacher", "backward", "step optimizer1:SGD")]
    read = {"context": "nograd", "args": {"training": True, "dropouts": 1, "dropout": 1}}
    for number, one in enumerate(bits):
        student = number + 50 * other
        before = ("variable", "teacher.weight", {"optimizer": -1}) if gone and not number else ("note", "none", ())
        windows.append(
            mini.window(
                before,
                ("batch", {"loader": "forward:teacher", "bits": [number if known else None], "shapes": [[8, 4]]}),
                ("forward teacher", read),
                ("batch", {"loader": "forward:model", "bits": [student if known else None], "shapes": [[8, 4]]}),
                ("forward model", {"args": {"training": True}}),
                "backward",
                ("before", {"teacher.weight": (1.0, one)}, {"optimizer": -1}),
                "step optimizer0:SGD",
            )
        )
    return windows
