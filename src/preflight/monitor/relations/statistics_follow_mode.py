"""Running statistics follow the training and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.paths import outer_modules
from preflight.monitor.window import ORDER, Call, State, Window
from preflight.vocabulary.counted import counted

_WORDS = ("running_mean", "running_var")


class StatisticsFollowMode(Relation):
    """Running statistics move in training passes, and stay as they are in evaluation and in frozen parts.

    Three things are judged, by the number of layers that follow statistics and by their fingerprints:

    * once layers of a model followed their statistics in training passes, they still do after passes without gradients
      for which they were paused, unless the program put them into evaluation mode itself (context ``paused``);
    * a layer that was only called in evaluation mode between two steps has the same statistics (context ``still``);
    * a layer that no optimizer owns, inside a part of a trained model whose parameters are all frozen, is in
      evaluation mode in training passes (context ``frozen``): otherwise what was frozen changes all the same. A target
      network, which lies beside the trained one that it is a copy of, is not meant: it follows it in training mode.
    """

    name = "statistics-follow-mode"
    needs = frozenset({"forward", "module", "mode", "step", "state"})
    wakes = frozenset({"mode", "forward", "module", "load_state_dict", "exact buffer at after_step"})
    repeats = 2
    looks = frozenset({"forward", "mode"})
    reads = frozenset({"module", "load_state_dict", "exact buffer at after_step"})
    severity = "warning"
    priority = 30
    cause = "a layer's mode or momentum was set and not set back, or model.train() put frozen layers back into training"
    advice = "put frozen parts into eval() after every model.train(), and restore what an evaluation changes"

    def __init__(self) -> None:
        self._following: dict[str, int] = {}
        self._paused: set[str] = set()
        self._parts_off: set[str] = set()
        self._bits: dict[str, tuple[int | None, ...]] = {}
        self._last = -2
        self._called: set[tuple[str, bool]] = set()  # layers, and whether it was in training mode
        self._loaded = False

    def kept(self) -> object:
        """Nothing: layers and buffers are judged where they are seen alone."""
        return ()

    def see(self, window: Window) -> Iterator[Example]:
        trained = window.run.trained()
        calls = window.named("forward")
        if window.named("mode"):
            calls = sorted([*calls, *window.named("mode")], key=ORDER)
        for call in calls:
            told = call.args or {}
            if call.name == "mode":
                within = {name for name in self._parts_off if name == call.object or name.startswith(call.object + ".")}
                self._parts_off = self._parts_off - within if told.get("training") else self._parts_off | {call.object}
            elif "norms" in told and call.object.split(".")[0] in trained:
                yield from self._pass(call, told)
        if window.named("module"):
            yield from self._frozen(window)
        if window.states or window.named("module") or window.named("load_state_dict"):
            yield from self._still(window)

    def _pass(self, call: Call, told: dict[str, int]) -> Iterator[Example]:
        """A forward pass of a model with running statistics."""
        if not (call.context or "").startswith("grad"):
            if told.get("training") and not told["norm"]:
                self._paused.add(call.object)
            return
        before = self._following.get(call.object, 0)
        off = any(not name or name.split(".")[0] == call.object.split(".")[0] for name in self._parts_off)
        if call.object in self._paused and before and told.get("training") and not off:
            stopped = not told["norm"]
            yield Example(
                (),
                not stopped,
                {"judged": "paused"},
                variables=(call.object,) if stopped else (),
                expected=counted(before, "layer that follows its statistics", "layers that follow their statistics"),
                seen="none" if stopped else None,
                call=call,
                detail=f"Running statistics of {call.object} were paused for passes without gradients, and still are"
                if stopped
                else "",
            )
        if told.get("training") and told["norm"]:
            self._following[call.object] = told["norm"]
            self._paused.discard(call.object)

    @staticmethod
    def _frozen(window: Window) -> Iterator[Example]:
        """Layers of frozen parts that are called in training mode; only detailed iterations tell."""
        found = [
            call
            for kind, calls in window.layers().items()
            if kind.startswith(("BatchNorm", "SyncBatch"))
            for call in calls
            if kind == (call.args or {}).get("base", kind) and (call.context or "").startswith("grad")
        ]
        layers = {call.object: call for call in sorted(found, key=ORDER)}
        if not layers or not window.named("step"):
            return
        parts: dict[str, list[bool]] = {}
        buffers = set()
        for one in window.run.variables.values():
            if one.kind == "buffer":
                buffers.add(one.name)
                continue
            for module in outer_modules(one.name):
                parts.setdefault(module, []).append(one.trainable or one.optimizer >= 0)
        for name, call in layers.items():
            root = name.split(".")[0]
            part = name.rpartition(".")[0]
            flags = parts.get(part, [])
            if (
                f"{name}.running_mean" not in buffers
                or name not in parts
                or part == root
                or not any(parts.get(root, ()))
            ):
                continue
            if len(flags) <= len(parts[name]) or any(flags):
                continue
            moving = bool((call.args or {}).get("training")) and not _is_copy(part, parts, window)
            yield Example(
                (),
                not moving,
                {"judged": "frozen"},
                variables=(name,) if moving else (),
                expected="evaluation mode in a part whose parameters are all frozen",
                seen="training mode" if moving else None,
                call=window.pass_of(call),
                detail=f"The parameters of {part} are frozen, and its running statistics go on changing"
                if moving
                else "",
            )

    def _idle(self, name: str) -> bool:
        """Whether a layer was called in evaluation mode alone."""
        return (name, False) in self._called and (name, True) not in self._called

    def _still(self, window: Window) -> Iterator[Example]:
        """Layers that were only called in evaluation mode between two steps."""
        states = [one for one in window.states if one.moment == "after_step" and one.what == "buffer" and one.bits]
        if not states and not window.named("load_state_dict"):
            self._called |= {(call.object, bool((call.args or {}).get("training"))) for call in window.named("module")}
            return
        events: list[Call | State] = [*window.named("module"), *window.named("load_state_dict"), *states]
        for event in sorted(events, key=ORDER):
            if isinstance(event, Call):
                if event.name == "module":
                    self._called.add((event.object, bool((event.args or {}).get("training"))))
                else:
                    self._loaded = True
                continue
            held: dict[str, tuple[int | None, ...]] = {}
            for ident, bits in zip(event.ids, event.bits or (), strict=False):
                layer, _, word = window.run.name(ident).rpartition(".")
                if word in _WORDS:
                    held[layer] = (*held.get(layer, ()), bits)
            if window.iteration - self._last == 1 and not self._loaded and window.run.world == 1:
                wrong = tuple(
                    name
                    for name, bits in held.items()
                    if self._idle(name) and self._bits.get(name, bits) != bits and _owned(name, window)
                )
                asked = [name for name in held if self._idle(name) and _owned(name, window)]
                if asked:
                    yield Example(
                        (),
                        not wrong,
                        {"judged": "still"},
                        variables=wrong,
                        expected="the same statistics after passes in evaluation mode",
                        seen=counted(len(wrong), "layer with others", "layers with others") if wrong else None,
                        call=window.named("step")[-1] if window.named("step") else None,
                        detail="Running statistics changed although the layers were only called in evaluation mode"
                        if wrong
                        else "",
                    )
            self._bits, self._last, self._called, self._loaded = held, window.iteration, set(), False

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        on = ("forward model", {"args": {"training": True, "norms": 1, "norm": 1}})
        probe = ("forward model", {"args": {"training": True, "norms": 1, "norm": 0}, "context": "nograd"})
        yield [mini.window(on, "backward", "step optimizer0:SGD", probe), mini.window(on)]
        yield _frozen_part(False)
        yield _frozen_part(True, "model.online")  # a target network

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        on = ("forward model", {"args": {"training": True, "norms": 1, "norm": 1}})
        probe = ("forward model", {"args": {"training": True, "norms": 1, "norm": 0}, "context": "nograd"})
        off = ("forward model", {"args": {"training": True, "norms": 1, "norm": 0}})
        yield [mini.window(on, "backward", "step optimizer0:SGD", probe), mini.window(off)]
        yield _frozen_part(True)


def _owned(layer: str, window: Window) -> bool:
    """Whether an optimizer owns parameters of the model that a layer is a part of."""
    root = layer.split(".")[0]
    return any(one.optimizer >= 0 for one in window.run.variables.values() if one.root == root)


def _is_copy(part: str, parts: dict[str, list[bool]], window: Window) -> bool:
    """Whether the frozen part of a model that one belongs to has a trained one of the same layers and sizes beside it."""
    frozen = [one for one in (part, *outer_modules(part)) if not any(parts.get(one, ()))]
    whole = min(frozen, key=len, default=part)
    beside = whole.rpartition(".")[0]
    layouts: dict[str, dict[str, tuple[int, ...]]] = {}
    for one in window.run.variables.values():
        if one.kind == "parameter" and one.name.startswith(beside + "."):
            other, _, rest = one.name[len(beside) + 1 :].partition(".")
            layouts.setdefault(f"{beside}.{other}", {})[rest] = tuple(one.shape)
    own = layouts.get(whole)
    return any(own == layout and all(parts.get(other, (False,))) for other, layout in layouts.items() if other != whole)


def _frozen_part(training: bool, beside: str = "") -> list[Window]:
    frozen = {"trainable": False, "optimizer": -1}
    twin: dict[str, dict[str, object]] = {f"{beside}.{name}": {} for name in ("0.weight", "1.weight") if beside}
    mini = Mini(
        {
            **twin,
            "model.head.weight": {},
            "model.body.0.weight": frozen,
            "model.body.1.weight": frozen,
            "model.body.1.running_mean": {**frozen, "kind": "buffer"},
        }
    )
    layer = ("module model.body.1", {"args": {"type": "BatchNorm1d", "training": training}})
    return [mini.window("forward model", layer, "backward", "step optimizer0:SGD")]
