"""Data loaders: how they are set, and which loops they feed."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.check.queries.backward_graph import grad_mode
from preflight.check.queries.batches import LOADER
from preflight.check.queries.handed_on import hands_on_optimizer
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event, parents_of
from preflight.source.values import Choice, Class, Func, Known, Obj, Value, options_of, settle

if TYPE_CHECKING:
    from preflight.check.context import Context
    from preflight.vocabulary.finding import Edit

TORCH = LOADER
_POSITIONS = {
    "dataset": 0, "batch_size": 1, "shuffle": 2, "sampler": 3, "batch_sampler": 4, "num_workers": 5, "collate_fn": 6,
    "pin_memory": 7, "drop_last": 8, "timeout": 9, "worker_init_fn": 10, "multiprocessing_context": 11, "generator": 12,
}  # fmt: skip
_DEFAULTS: dict[str, object] = {
    "batch_size": 1, "shuffle": False, "sampler": None, "batch_sampler": None, "num_workers": 0, "collate_fn": None,
    "pin_memory": False, "drop_last": False, "worker_init_fn": None, "multiprocessing_context": None, "generator": None,
    "prefetch_factor": None, "persistent_workers": False,
}  # fmt: skip
UNKNOWN = object()


def given(loader: Obj, name: str) -> Value | None:
    """What a setting of a loader was given, or None when it was not."""
    return loader.argument(_POSITIONS.get(name, -1), name)


def setting(loader: Obj, name: str) -> object:
    """The plain value of a setting: as given, or PyTorch's default; ``UNKNOWN`` where it cannot be known."""
    value = given(loader, name)
    if value is None:
        return UNKNOWN if loader.open_args else _DEFAULTS.get(name, UNKNOWN)
    settled = settle(value)
    return settled.value if isinstance(settled, Known) else UNKNOWN


def torch_loaders(context: Context) -> list[Obj]:
    """The loaders that the script makes itself with ``torch.utils.data.DataLoader``, in order."""
    return [o for o in context.reading.made("loader") if o.name == TORCH and o.cls is None and o.kind == "call"]


def dataset_of(loader: Obj) -> Value | None:
    """The dataset of a loader, on the defaults' path."""
    value = given(loader, "dataset")
    return settle(value) if value is not None else None


def made_within(loader: Obj | None, frame: Frame) -> bool:
    """Whether a loader goes through data that a pass of a loop makes itself: the parts of one sample."""
    data = dataset_of(loader) if loader is not None else None
    return isinstance(data, Obj) and data.context is not None and data.context.within(frame)


def bases(value: Value | None) -> list[str]:
    """Names of the library types that a thing is or derives from."""
    base = settle(value) if value is not None else None
    if isinstance(base, Obj):
        return base.cls.external_bases() if base.cls is not None else [base.name]
    return base.external_bases() if isinstance(base, Class) else []


# Libraries whose datasets yield their samples in an order of their own.
_STREAMS = ("webdataset.", "torchdata.", "torchtext.datasets.", "streaming.", "litdata.", "datasets.IterableDataset")


def is_iterable_dataset(value: Value | None) -> bool:
    """Whether a dataset yields its items itself, so that a loader cannot choose their order."""
    base = settle(value) if value is not None else None
    if isinstance(base, Obj) and base.name == "datasets.load_dataset" and "streaming" in base.kwargs:
        streaming = settle(base.kwargs["streaming"])
        return not (isinstance(streaming, Known) and streaming.value is False)
    names = bases(value)
    return any(n.endswith(("IterableDataset", "IterDataPipe")) or n.startswith(_STREAMS) for n in names)


def source_loaders(context: Context, value: Value | None, whole: bool = False) -> list[Obj]:
    """The loaders that an iterated value goes through: itself, or inside ``enumerate``, ``tqdm``, ``iter`` ...

    The walk does not enter loaders, datasets, networks, or counts such as ``range(len(loader))``.

    Args:
        context: The script.
        value: What is iterated.
        whole: Whether to leave out what is made of batches: loops over the rows of a batch, or over collected answers.
    """
    found: list[Obj] = []
    stack: list[Value] = [value] if value is not None else []
    seen: set[int] = set()
    while stack and len(seen) < 200:
        current = stack.pop()
        if isinstance(current, Choice) and current.preferred is not None:
            stack.append(settle(current))
            continue
        for option in options_of(current):
            if id(option) in seen:
                continue
            seen.add(id(option))
            role = context.roles.of(option)
            if role == "loader" and isinstance(option, Obj):
                found.append(option)
            elif role is None and not is_module(option) and not _ends(option, whole):
                stack.extend(parents_of(option))
    return found


def _ends(value: Value, whole: bool) -> bool:
    """Whether a loop over a value goes through no loader that the value was made of."""
    if not isinstance(value, Obj):
        return False
    return value.name == "builtins.range" or (whole and (value.kind in ("item", "op") or value.name == "()"))


class Feeding:
    """Which loops each loader feeds.

    Attributes:
        frames: Every loop of the trace, each once.
        training: Identities of the loaders whose batches are trained on.
        trained: The loops that train on a loader's batches.
        evaluation: For the identity of each loader that is only evaluated on: the loops.
    """

    def __init__(self, context: Context) -> None:
        """Go through the loops once."""
        self.frames: list[Frame] = []
        seen: set[int] = set()
        self._inside: dict[int, list[Event]] = {}
        for event in context.trace.events:
            for frame in event.context.frames():
                if frame.kind == "loop":
                    if id(frame) not in seen:
                        seen.add(id(frame))
                        self.frames.append(frame)
                    self._inside.setdefault(id(frame), []).append(event)
        self.training: set[int] = set()
        self.trained: list[Frame] = []
        self.evaluation: dict[int, list[Frame]] = {}
        self.ambiguous: set[int] = set()
        self._behind = {part for loop in context.reading.loops for part in loop.behind_losses}
        self._stepping = {id(self.innermost(e)) for e in context.trace.events if _may_step(context, e)}
        for frame in self.frames:
            loaders = self.fed_by(context, frame)
            if not loaders:
                continue
            kind = self._kind(context, frame)
            if kind is None:
                loaders = self.fed_by(context, frame, whole=True)
            if kind == "training":
                self.trained.append(frame)
            for loader in loaders:
                if kind == "training":
                    (self.training if len(loaders) == 1 else self.ambiguous).add(id(loader))
                elif kind == "evaluation" and len(loaders) == 1:
                    self.evaluation.setdefault(id(loader), []).append(frame)
                else:
                    self.ambiguous.add(id(loader))
        for key in self.training | self.ambiguous:
            self.evaluation.pop(key, None)

    def inside(self, frame: Frame) -> list[Event]:
        """The events inside a loop."""
        return self._inside.get(id(frame), [])

    def fed_by(self, context: Context, frame: Frame, whole: bool = False) -> list[Obj]:
        """The loaders whose batches a loop goes through; with ``whole`` without those whose batches it only looks into."""
        loaders = source_loaders(context, frame.value, whole)
        for event in self.inside(frame):
            if event.name == "builtins.next" and event.args and self.innermost(event) is frame:
                loaders += [o for o in source_loaders(context, event.args[0]) if o not in loaders]
        return loaders

    @staticmethod
    def innermost(event: Event) -> Frame | None:
        """The innermost loop around an event."""
        return next((f for f in event.context.frames() if f.kind == "loop"), None)

    def _kind(self, context: Context, frame: Frame) -> str | None:
        """What a loop does with its batches; None where it computes gradients and no step follows, as attacks do."""
        networks = adds_up = False
        for event in self.inside(frame):
            if trains(context, event) or _is_trainers_step(event, frame):
                return "training" if self._steps(context, frame) else None
            if event.name == "()" and is_module(event.receiver):
                networks = True
                # What it adds up may be what a backward pass begins with, after the loop.
                adds_up = adds_up or (id(event.result) in self._behind and grad_mode(event.context) is not False)
        return "training" if adds_up else "evaluation" if networks else None

    def _steps(self, context: Context, frame: Frame) -> bool:
        """Whether a loop, or what follows it in one around, may change weights; any does where no step is seen at all."""
        around = [id(f) for f in frame.frames() if f.kind == "loop"]
        around = around[1:] or [id(None)]
        return (
            not self._stepping
            or any(one in self._stepping for one in around)
            or any(_may_step(context, event) for event in self.inside(frame))
        )


_BACKWARD = ("torch.autograd.backward", "torch.autograd.grad")
_TRAINING = frozenset(
    ("backward", "manual_backward", "training_step", "train_step", "train_batch", "train_on_batch", "update_params")
)
_STEPS = _TRAINING - {"backward", "manual_backward"} | {"step"}
_STEPPED = ("optimizer", "scaler", "engine")


def trains(context: Context, event: Event) -> bool:
    """Whether a call computes gradients or changes weights; of one that was followed its own calls tell, not its name."""
    last = event.name.rpartition(".")[2]
    if last == "step":
        return context.roles.of(event.receiver) in _STEPPED
    if event.name in _BACKWARD or last == "backward":
        return True
    return last in _TRAINING and not event.inlined and grad_mode(event.context) is not False


def _may_step(context: Context, event: Event) -> bool:
    """Whether a call may change weights: a step of anything but a schedule, and what is not followed and given an optimizer."""
    last = event.name.rpartition(".")[2]
    if last in _STEPS:
        return context.roles.of(event.receiver) != "scheduler"
    return hands_on_optimizer(context, event)


def _is_trainers_step(event: Event, frame: Frame) -> bool:
    """Whether a framework's own loop calls the step that it trains on."""
    return isinstance(frame.node, ast.Call) and event.name.endswith(".training_step")


def feeding(context: Context) -> Feeding:
    """Which loops each loader feeds, computed once per script."""
    found = context.__dict__.get("_feeding")
    if found is None:
        found = context.__dict__["_feeding"] = Feeding(context)
    result: Feeding = found
    return result


def training_loaders(context: Context) -> list[Obj]:
    """The script's own DataLoaders whose batches are trained on."""
    feeds = feeding(context)
    found = [o for o in torch_loaders(context) if id(o) in feeds.training]
    for trainer in context.reading.made("lightning_trainer"):
        for event in context.trace.on(trainer, "fit"):
            value = event.argument(1, "train_dataloaders") or event.argument(1, "train_dataloader")
            found += [o for o in source_loaders(context, value) if o.name == TORCH and o not in found]
    for event in context.trace.events:
        if event.inlined and event.name.endswith(".train_dataloader") and _is_lightning(event):
            found += [o for o in source_loaders(context, event.result) if o.name == TORCH and o not in found]
    return found


def evaluation_loaders(context: Context) -> list[Obj]:
    """The script's own DataLoaders whose batches are only evaluated on."""
    feeds = feeding(context)
    found = [o for o in torch_loaders(context) if id(o) in feeds.evaluation]
    for event in context.trace.events:
        if event.inlined and event.name.endswith((".val_dataloader", ".test_dataloader")) and _is_lightning(event):
            found += [o for o in source_loaders(context, event.result) if o.name == TORCH and o not in found]
    trained = {id(o) for o in training_loaders(context)}
    return [o for o in found if id(o) not in trained]


def _is_lightning(event: Event) -> bool:
    func = event.func
    owner = func.owner if isinstance(func, Func) else None
    return owner is not None and any(n.startswith("lightning.") for n in owner.external_bases())


def argument_node(loader: Obj, name: str) -> ast.expr | None:
    """The expression that a setting is given by, where the call itself names it."""
    node = loader.site.node if loader.site is not None else None
    if not isinstance(node, ast.Call):
        return None
    for keyword in node.keywords:
        if keyword.arg == name:
            return keyword.value
    position = _POSITIONS.get(name, -1)
    if 0 <= position < len(node.args) and not any(isinstance(a, ast.Starred) for a in node.args):
        return node.args[position]
    return None


def set_argument(context: Context, loader: Obj, name: str, text: str) -> Edit | None:
    """Give a setting of a loader another value; None where it comes from elsewhere."""
    node = argument_node(loader, name)
    if loader.site is None:
        return None
    if node is None:
        return context.add_argument(loader, f"{name}={text}") if given(loader, name) is None else None
    return context.replace((loader.site.script, node), text) if isinstance(node, ast.Constant) else None
