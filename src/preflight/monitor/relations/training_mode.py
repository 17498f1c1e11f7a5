"""Training happens in training mode."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import ORDER, Call, Window


class TrainingMode(Relation):
    """A model that was put into evaluation mode to be evaluated is back in training mode when it is trained.

    Judged at each step of an optimizer, for each model of which it owns parameters and that has parts with a mode
    (dropout, running statistics): at least one of the forward passes before the step must have had such parts in
    training mode. It is broken where none had, and the mode was set to evaluation for passes without gradients that
    came before: ``model.eval()`` with nobody to say ``model.train()`` again.
    An evaluation may also record gradients that nobody wants: passes in evaluation mode at a place where none was made in
    training mode, after which steps follow passes at a place where some were.
    Without an evaluation it is broken where dropout was active in the steps before and has been switched off with the
    mode of the whole model.
    A program that put a model with dropout into training mode itself means it: then it does not count that evaluation
    mode is set once more before the passes that train.
    A model that a library put into evaluation mode on its way, as those do that load pretrained weights, and for which the
    program itself never set a mode, has a dropout that was meant and does nothing: it is broken from the second step on.
    Where only parts of a model are put back into training mode after an evaluation of the whole, the dropout of the others is
    still off: it is broken where more of it was active in the steps before, and all of its parameters are trained.
    A model may also be wrapped by what computes its loss, and be put into evaluation mode alone: it is broken where all
    dropout of the whole is off since then, passes without gradients came before the next step, and all parameters are
    trained.
    A model that the program itself trains in evaluation mode from its beginning is left alone, and so is one without
    dropout whose running statistics are frozen later on.
    """

    name = "training-mode"
    midway = True
    needs = frozenset({"mode", "forward", "step"})
    wakes = frozenset({"step", "mode", "forward"})
    repeats = 3
    looks = frozenset({"root", "mode", "forward", "step"})
    whole = False
    priority = 12
    cause = (
        "model.eval() was called for an evaluation, or by what loaded the weights, and nothing called model.train() "
        "afterwards"
    )
    advice = "call model.train() at the beginning of every epoch of training, and after every evaluation"

    def __init__(self) -> None:
        self._evaluating: dict[str, Call] = {}
        self._evaluated: set[str] = set()
        self._trained_at: dict[str, set[str | None]] = {}  # by model: where it ran in training mode, with gradients
        self._between: set[str] = set()  # models in evaluation mode, since when something ran without gradients
        self._chosen: set[str] = set()  # parts that were trained in evaluation mode as soon as they were put into it
        self._looked: set[str] = set()  # models that ran elsewhere in evaluation mode, with gradients
        self._meant: set[str] = set()  # models that the program put into training mode
        self._read: set[str] = set()  # of these, models that ran without gradients in evaluation mode
        self._dropped_out: dict[str, int] = {}  # by model: the most layers whose dropout was active in a step before
        self._came: dict[str, bool] = {}  # models that came in evaluation mode, and if a step was made so
        self._seen = -1
        self._parts: dict[str, tuple[str, ...]] = {}  # by model: its parts that have a mode

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("root"):
            told = call.args or {}
            self._parts[call.object] = *told.get("dropout", ()), *told.get("norm", ())
        for step in steps_of(window):
            self._follow(step.named("mode"), step.named("forward"))
            yield from self._judge(step, window)
        self._follow(window.named("mode"), window.named("forward"))

    def _follow(self, modes: list[Call], passes: list[Call]) -> None:
        """Which roots were put into evaluation mode, and which of them then ran without gradients."""
        calls = passes if not modes else sorted([*modes, *passes], key=ORDER)
        for call in calls:
            if call.q <= self._seen:
                continue
            self._seen = call.q
            if call.name == "mode" and call.object:
                self._comes(call)
                if (call.args or {}).get("training"):
                    self._meant.add(call.object)
                    self._read.discard(call.object)
                    self._evaluating = {
                        name: one for name, one in self._evaluating.items() if not _within(name, call.object)
                    }
                else:
                    self._evaluating[call.object] = call
                self._evaluated = {name for name in self._evaluated if not _within(name, call.object)}
                self._looked = {name for name in self._looked if not _within(name, call.object)}
                self._between -= {name for name in self._between if _within(name, call.object)}
                self._chosen -= {name for name in self._chosen if _within(name, call.object)}
            elif call.name == "forward" and not (call.context or "").startswith("grad"):
                self._evaluated.add(call.object)
                self._between.update(self._evaluating)
                if call.object in self._meant and call.object in self._evaluating:
                    self._read.add(call.object)
            elif call.name == "forward" and call.place is not None:
                places = self._trained_at.setdefault(call.object, set())
                if (call.args or {}).get("training"):
                    places.add(call.place)
                elif places and call.place not in places and call.object in self._evaluating:
                    self._looked.add(call.object)

    def _comes(self, call: Call) -> None:
        """A mode was set: whether by a library, to evaluation, on a model for which the program has set none."""
        told = call.args or {}
        if not told.get("training") and told.get("user") is False:
            if call.object not in self._meant:
                self._came.setdefault(call.object, False)
        else:
            self._came = {name: one for name, one in self._came.items() if not _within(name, call.object)}

    def _still(self, name: str, drops: bool) -> bool:
        """Whether a model was stepped before in the mode in which it came, and is again."""
        if name not in self._came or not drops:
            return False
        again, self._came[name] = self._came[name], True
        return again

    def _judge(self, step: Step, window: Window) -> Iterator[Example]:
        roots = window.run.trainable(step.optimizer)
        passes: dict[str, list[Call]] = {}
        for call in step.named("forward"):
            if (call.context or "").startswith("grad") and call.object.split(".")[0] in roots:
                passes.setdefault(call.object, []).append(call)
        for name, calls in passes.items():
            told = [call.args or {} for call in calls]
            parts = max(one.get("dropouts", 0) + one.get("norms", 0) for one in told)
            if not parts:
                continue
            active = max(one.get("dropout", 0) + one.get("norm", 0) for one in told)
            switched = None
            if not active:
                switched = next((one for root, one in self._evaluating.items() if _within(name, root)), None)
            left = False
            dropping = max(one.get("dropout", 0) for one in told)
            if 0 < dropping < self._dropped_out.get(name, 0):
                switched = self._evaluating.get(name)
                left = switched is not None and name in self._evaluated and not _frozen(name, window)
            elif not active and switched is not None:
                read = name in self._read and max(one.get("dropouts", 0) for one in told) > 0
                still = self._still(name, max(one.get("dropouts", 0) for one in told) > 0)
                looked = name in self._looked and calls[-1].place in self._trained_at[name]
                left = name in self._evaluated or self._dropped_out.get(name, 0) > 0 or read or still or looked
            elif not active and self._dropped_out.get(name, 0) > 0:
                inner = {part: one for part, one in self._evaluating.items() if _within(part, name)}
                self._chosen |= inner.keys() - self._between
                switched = next((one for part, one in inner.items() if part not in self._chosen), None)
                left = switched is not None and not _frozen(name, window)
            self._dropped_out[name] = max(dropping, self._dropped_out.get(name, 0))
            yield Example(
                (),
                not left,
                {"model": name, "optimizer": step.call.object.split(":")[-1]},
                variables=(name, *self._parts.get(name, ())) if left else (),
                expected="training mode in the forward passes of a step",
                seen=_off(parts, dropping) if left else None,
                call=calls[-1],
                detail=_sentence(name, switched) if left else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        on = {"args": {"training": True, "dropouts": 1, "dropout": 1}}
        off = {"args": {"training": False, "dropouts": 1, "dropout": 0}, "context": "nograd"}
        train = (("mode model", {"args": {"training": True}}), ("forward model", on), "backward", "step optimizer0:SGD")
        evaluate = (("mode model", {"args": {"training": False}}), ("forward model", off))
        yield [mini.window(*train, *evaluate), mini.window(*train)]
        still = {"args": {"training": False, "dropouts": 1, "dropout": 0}}
        mini = Mini({"model.weight": {}})
        on_purpose = (evaluate[0], ("forward model", still), "backward", "step optimizer0:SGD")
        yield [mini.window(*on_purpose), mini.window(*on_purpose)]
        mini = Mini({"model.weight": {}})  # a part is put into evaluation mode on purpose, after the whole was trained
        whole, part = ({"args": {"training": True, "dropouts": 2, "dropout": count}} for count in (2, 1))
        frozen = ("mode model.encoder", {"args": {"training": False}})
        yield [
            mini.window(train[0], ("forward model", whole), *train[2:], *evaluate),
            mini.window(train[0], frozen, ("forward model", part), *train[2:]),
        ]
        mini = Mini({"model.encoder.weight": {}, "model.head.weight": {}})  # its head alone is trained on
        encoder = ("variable", "model.encoder.weight", {"trainable": False})
        head = (encoder, ("mode model.head", {"args": {"training": True}}))
        yield [
            mini.window(train[0], ("forward model", whole), *train[2:], *evaluate),
            mini.window(*head, ("forward model", part), *train[2:]),
        ]
        yield _normalised("stage_2.py:5", "stage_2.py:5")  # statistics that rest in a second stage
        yield _normalised("train.py:5", "train.py:5")
        yield _wrapped(frozen=True)
        yield _wrapped(sampled=False)
        yield _wrapped(chosen=True)
        for user in (True, False):  # a mode that the program sets itself, and one that is set again by it
            mini = Mini({"model.weight": {}})
            came = ("mode model", {"args": {"training": False, "user": user}})
            chosen = () if user else (("mode model", {"args": {"training": False, "user": True}}),)
            yield [mini.window(came, *chosen, *on_purpose[1:]), mini.window(*on_purpose[1:])]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _normalised("evaluate.py:5", "train.py:5")
        yield _wrapped()
        mini = Mini({"model.weight": {}})
        on = {"args": {"training": True, "dropouts": 1, "dropout": 1}}
        off = {"training": False, "dropouts": 1, "dropout": 0}
        first = mini.window(
            ("forward model", on),
            "backward",
            "step optimizer0:SGD",
            ("mode model", {"args": {"training": False}, "place": "train.py:3"}),
            ("forward model", {"args": off, "context": "nograd"}),
        )
        yield [first, mini.window(("forward model", {"args": off}), "backward", "step optimizer0:SGD")]
        again = ("mode model", {"args": {"training": False}, "place": "train.py:3"})
        read = (again, ("forward model", {"args": off, "context": "nograd"}))
        mini = Mini({"model.weight": {}})
        meant = ("mode model", {"args": {"training": True}})
        yield [mini.window(meant, *read, again, ("forward model", {"args": off}), "backward", "step optimizer0:SGD")]
        mini = Mini({"model.weight": {}})
        came = ("mode model", {"args": {"training": False, "user": False}, "place": "train.py:2"})
        train = (("forward model", {"args": off}), "backward", "step optimizer0:SGD")
        yield [mini.window(came, *train), mini.window(*train)]
        mini = Mini({"model.weight": {}})
        whole, part = ({"args": {"training": True, "dropouts": 2, "dropout": count}} for count in (2, 1))
        evaluate = (again, ("forward model", {"args": {**off, "dropouts": 2}, "context": "nograd"}))
        encoder = ("mode model.encoder", {"args": {"training": True}})
        yield [
            mini.window(meant, ("forward model", whole), "backward", "step optimizer0:SGD", *evaluate),
            mini.window(encoder, ("forward model", part), "backward", "step optimizer0:SGD"),
        ]


def _normalised(evaluated: str, trained: str) -> list[Window]:
    """A model with running statistics is trained, put into evaluation mode, run somewhere, and trained at a place."""
    mini = Mini({"model.weight": {}})
    on = {"args": {"training": True, "norms": 1, "norm": 1}, "place": "train.py:5"}
    off = {"training": False, "norms": 1, "norm": 0}
    return [
        mini.window(
            ("forward model", on),
            "backward",
            "step optimizer0:SGD",
            ("mode model", {"args": {"training": False}}),
            ("forward model", {"args": off, "place": evaluated}),
        ),
        mini.window(("forward model", {"args": off, "place": trained}), "backward", "step optimizer0:SGD"),
    ]


def _wrapped(frozen: bool = False, sampled: bool = True, chosen: bool = False) -> list[Window]:
    """A network within what computes its loss is put into evaluation mode for samples of an average, and trained on."""
    mini = Mini({"loss.network.weight": {}, "loss.scale": {}})
    on, off = ({"args": {"training": True, "dropouts": 1, "dropout": count}} for count in (1, 0))
    sample = (("forward average", {**off, "context": "nograd"}),) if sampled else ()
    rest = (("variable", "loss.network.weight", {"trainable": False}),) if frozen else ()
    still = ("mode loss.network", {"args": {"training": False}})
    windows = [mini.window(("forward loss", on), "backward", "step optimizer0:SGD")]
    if chosen:  # it is trained so before anything is sampled
        windows.append(mini.window(still, ("forward loss", off), "backward", "step optimizer0:SGD"))
    return [
        *windows,
        mini.window(*(() if chosen else (still,)), *sample),
        mini.window(*rest, ("forward loss", off), "backward", "step optimizer0:SGD"),
    ]


def _within(name: str, outer: str) -> bool:
    return name == outer or name.startswith(outer + ".")


def _frozen(name: str, window: Window) -> bool:
    """Whether parameters of a model are not trained: what holds them may be left in evaluation mode on purpose."""
    held = (one for one in window.run.variables.values() if one.kind == "parameter" and _within(one.name, name))
    return any(not one.trainable for one in held)


def _off(parts: int, dropping: int) -> str:
    if dropping:
        return f"dropout in {dropping} of its parts, and in more of them in the steps before the evaluation"
    return "its only part with a mode in evaluation" if parts == 1 else f"all {parts} parts with a mode in evaluation"


def _sentence(name: str, switched: Call | None) -> str:
    where = f" at {switched.place.rsplit('/', 1)[-1]}" if switched is not None and switched.place else ""
    return f"{name} is trained in the evaluation mode that was set{where}"
