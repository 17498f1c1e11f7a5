"""Loaders, workers, sequence length, image size."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from preflight.source.facts.lengths import embeds, length_of_cut, schedule_of
from preflight.source.facts.of_sound import of_sound
from preflight.source.facts.settings import trainer_setting, training_arguments
from preflight.source.facts.telling import fact_of, place_of, unknown
from preflight.source.launcher import Launch
from preflight.source.tensor_shapes import shape_of
from preflight.source.trace import parents_of, provenance
from preflight.source.values import Dict, Known, Obj, Seq, Value, options_of, plain, settle
from preflight.vocabulary.fact import Fact

if TYPE_CHECKING:
    from preflight.source.reading import Reading


BY_ENGINE = "deepspeed.DeepSpeedDataLoader"
"""What ``deepspeed.initialize`` makes of its ``training_data``: its configuration tells the batch."""


def facts(reading: Reading, launch: Launch, gpus: int | None, known: dict[str, Fact]) -> dict[str, Fact]:
    """Facts of the data."""
    return {"dataloader.num_workers": _workers(reading), **_sequence(reading), "image_size": _image(reading)}


def training_loader(reading: Reading) -> Obj | None:
    """The loader that the first training loop iterates over; else the first that shuffles or that is made."""
    for loop in reading.loops:
        for frame in [loop.frame, *loop.outer, *([loop.micro] if loop.micro else [])]:
            found = _loader_in(reading, frame.value)
            if found is not None:
                return found
        for event in loop.events:
            if event.name == "builtins.next" and event.args:
                found = _loader_in(reading, event.args[0])
                if found is not None:
                    return found
    for event in reading.trace.calls(".fit"):
        for value in (*event.args, *event.kwargs.values()):
            found = _loader_in(reading, value)
            if found is not None:
                return found
    for event in reading.trace.events:
        if event.inlined and event.name.endswith(".train_dataloader"):
            found = _loader_in(reading, event.result)
            if found is not None:
                return found
    loaders = [o for o in reading.made("loader") if not _off(o)]
    shuffled = [o for o in loaders if plain(o.argument(2, "shuffle")) is True]
    return next(iter(shuffled or loaders), None)


def _loader_in(reading: Reading, value: Value | None) -> Obj | None:
    """The nearest loader behind a value, one that the defaults lead to before one that they do not."""
    passed_by = None
    for option in options_of(value, limit=4):
        for part in provenance(option, 40):
            if isinstance(part, Obj) and part.kind in ("call", "instance") and reading.roles.of(part) == "loader":
                if not _off(part):
                    return part
                passed_by = passed_by or part
    return passed_by


def _off(thing: Obj) -> bool:
    """Whether a thing is made where the defaults do not lead."""
    return thing.context is not None and thing.context.shadow


def _workers(reading: Reading) -> Fact:
    if training_arguments(reading) is not None:
        return fact_of(trainer_setting(reading, "dataloader_num_workers"), None, int)
    loader = training_loader(reading)
    if loader is None:
        return unknown("no data loader was recognised")
    given = loader.argument(5, "num_workers")
    if loader.name == BY_ENGINE:
        return unknown("DeepSpeed makes the loader")
    if given is None:
        if loader.open_args:
            return unknown("the loader's arguments are not all known")
        if not loader.name.endswith("DataLoader"):
            return unknown(f"the default of {loader.name} is not known")
        return Fact(0, place_of(loader), "default of DataLoader")
    return fact_of(given, None, int)


_LENGTHS = ("max_length", "max_seq_length", "max_seq_len", "block_size", "seq_len", "seq_length", "model_max_length")


def _sequence(reading: Reading) -> dict[str, Fact]:
    found = (
        of_sound(reading)
        or _from_cut(reading)
        or _from_windows(reading)
        or _from_tokenizer(reading)
        or _from_trainer(reading)
    )
    if found is None:
        return {"sequence_length": unknown("no length of a sequence was recognised")}
    return found


def _from_cut(reading: Reading) -> dict[str, Fact] | None:
    """What the network is given is cut in the loop, to a length that changes with the step: ``ids[:, :length]``."""
    found = length_of_cut(reading)
    if found is None:
        return None
    stages, place = found
    return {
        "sequence_length": Fact(max(tokens for _, tokens in stages), place, "the longest of its schedule"),
        "sequence_length.schedule": Fact([list(stage) for stage in stages], place, "tests of the step"),
    }


def _from_windows(reading: Reading) -> dict[str, Fact] | None:
    """Windows of a fixed length cut from a long text: ``data[i : i + length]``."""
    seen: set[int] = set()
    for loop in reading.loops[:1]:
        for event in loop.events:
            if event.name != "()" or reading.roles.of(event.receiver) not in ("model", "lightning_module"):
                continue
            if event.context.in_forward or not embeds(reading, event):
                continue
            # What a decoder is to say may be of another length: what it is asked tells first.
            for value in (*event.args, *(event.kwargs[n] for n in sorted(event.kwargs, key=_is_target))):
                found = _window(value, seen)
                if found is not None:
                    return {"sequence_length": found}
    for made in reading.made("dataset"):
        if made.cls is not None:
            for event in reading.trace.calls(made.cls.qualname + ".__getitem__"):
                found = _window(event.result, seen, True)
                if found is not None:
                    return {"sequence_length": found}
    return None


def _is_target(name: str) -> bool:
    return name == "labels" or name.startswith("decoder_")


def _window(value: Value | None, seen: set[int], one: bool = False) -> Fact | None:
    """The length of a window that a value comes from; what was looked at for another value is not looked at again.

    A slice along the first dimension is a window of one sample (``one``) or of one that is stacked with others;
    elsewhere it can be a batch of samples, and is no length.
    Rows that are drawn longer than what the network is given are cut on the way: ``rows[i, :-1]``.
    """
    if value is None or id(value) in seen:
        return None
    seen.add(id(value))
    near = [(value, 0)]
    stacked = one
    for part, taken in near:  # grows while it is gone through
        less = taken + _cut_off(part, one)
        for parent in parents_of(part) if len(near) < 400 else ():
            if id(parent) not in seen:
                seen.add(id(parent))
                near.append((parent, less))
        if isinstance(part, Obj) and part.name.rpartition(".")[2] in ("stack", "vstack"):
            stacked = True
        inner = isinstance(part, Seq) and part.kind == "tuple"  # data[:, i : i + length]
        if inner and any(_is_slice(item) for item in part.items[1:]):  # type: ignore[attr-defined]
            stacked = True
        if stacked and _is_slice(part):
            low, high = settle(part.args[0]), settle(part.args[1])
            # high = low + length: the known operand of the addition is the length
            for sum_ in (high,):
                operands = _operands(sum_)
                if operands and any(o is low or _same_name(o, low) for o in operands):
                    for operand in operands:
                        worth = plain(operand)
                        if isinstance(worth, int) and not isinstance(worth, bool) and worth > 1:
                            return fact_of(operand, None, int)
        if isinstance(part, Obj) and part.name in (".view", ".reshape") and len(part.args) == 2:
            batch, length = plain(part.args[0]), plain(part.args[1])
            if isinstance(batch, int) and isinstance(length, int) and batch > 0 and length > 1:
                return _shorter(part.args[1], taken)
        if isinstance(part, Obj) and part.name == "torch.randint" and len(part.args) >= 2:
            shape = settle(part.argument(2, "size") or part.args[-1])
            if isinstance(shape, Seq) and len(shape.items) == 2 and isinstance(plain(shape.items[1]), int):
                return _shorter(shape.items[1], taken)
    return None


def _cut_off(part: Value, one: bool) -> int:
    """How many tokens an item lacks of what it is cut from: one of ``rows[i, :-1]``, and of ``row[1:]`` in a sample."""
    for key in parents_of(part):
        several = isinstance(key, Seq) and key.kind == "tuple" and len(key.items) > 1
        last = settle(key.items[-1]) if several and isinstance(key, Seq) else settle(key)
        if not _is_slice(last) or not (several or one):
            continue
        low, high = plain(last.args[0]), plain(last.args[1])
        if isinstance(high, int) and high < 0 and low in (None, 0):
            return -high
        if isinstance(low, int) and low > 0 and plain(last.args[1], 0) is None:
            return low
    return 0


def _shorter(length: Value, taken: int) -> Fact:
    told = fact_of(length, None, int)
    if not taken or not isinstance(told.value, int) or told.value <= taken:
        return told
    return Fact(told.value - taken, told.location, f"{told.value} of a row, less {taken} that is cut off")


def _is_slice(value: Value) -> TypeGuard[Obj]:
    return isinstance(value, Obj) and value.kind == "op" and value.name == "slice" and len(value.args) == 3


def _operands(value: Value) -> list[Value]:
    if isinstance(value, Obj) and value.kind == "op" and value.name == "+":
        result: list[Value] = []
        for arg in value.args:
            inner = settle(arg)
            result += _operands(inner) or [arg]
        return result
    parents = getattr(value, "parents", ())
    node = value.site.node if value.site is not None else None
    if len(parents) == 2 and type(getattr(node, "op", None)).__name__ == "Add":
        result = []
        for parent in parents:
            result += _operands(settle(parent)) or [parent]
        return result
    return []


def _same_name(first: Value, second: Value) -> bool:
    return settle(first) is settle(second)


def _from_tokenizer(reading: Reading) -> dict[str, Fact] | None:
    for event in reading.trace.calls("()", ".__call__", ".encode_plus", ".batch_encode_plus", ".pad", "?"):
        given = event.kwargs.get("max_length")
        if given is None or ("truncation" not in event.kwargs and "padding" not in event.kwargs):
            continue
        stages = schedule_of(given)
        if stages:
            longest = max(tokens for _, tokens in stages)
            place = place_of(given)
            return {
                "sequence_length": Fact(longest, place, "the longest of its schedule"),
                "sequence_length.schedule": Fact([list(stage) for stage in stages], place, "tests of the step"),
                "sequence_length.variable": Fact(
                    plain(event.kwargs.get("padding")) != "max_length", place, "padding of the tokenizer"
                ),
            }
        fact = fact_of(given, None, int)
        if fact.known:
            padding = plain(event.kwargs.get("padding"))
            fixed = padding == "max_length"
            return {
                "sequence_length": fact,
                "sequence_length.variable": Fact(not fixed, fact.location, "padding of the tokenizer"),
            }
    return None


def _from_trainer(reading: Reading) -> dict[str, Fact] | None:
    arguments = training_arguments(reading)
    if arguments is not None:
        for name in _LENGTHS:
            given = arguments.kwargs.get(name) or arguments.attrs.get(name)
            if given is not None and isinstance(plain(given), int):
                return {"sequence_length": fact_of(given, None, int)}
    return None


# Sides of the images of data sets whose images all have one size, in pixels.
_DATASETS = {
    "CIFAR10": 32,
    "CIFAR100": 32,
    "MNIST": 28,
    "FashionMNIST": 28,
    "KMNIST": 28,
    "QMNIST": 28,
    "EMNIST": 28,
    "SVHN": 32,
    "STL10": 96,
    "USPS": 16,
}
_RESIZES = (
    "RandomResizedCrop",
    "RandomCrop",
    "CenterCrop",
    "Resize",
    "RandomSizedCrop",
    "Scale",
    "RandomResizedCropAndInterpolation",
)


# What makes a picture of a given size, and where the size stands among its arguments.
_RESIZED = {
    ".resize": (0, "size"),
    "cv2.resize": (1, "dsize"),
    "skimage.transform.resize": (1, "output_shape"),
    "PIL.Image.new": (1, "size"),
    "PIL.ImageOps.fit": (1, "size"),
    "torchvision.transforms.functional.resize": (1, "size"),
    "torchvision.transforms.functional.center_crop": (1, "output_size"),
    "torchvision.transforms.functional.resized_crop": (5, "size"),
    "torch.nn.functional.interpolate": (1, "size"),
}
_PICTURES = ("image", "img", "pixel_values", "x", "input", "inputs")


def _side(given: Value | None, how: str) -> Fact | None:
    """The longer side of a size that is given as one number or as two; None where it is not known."""
    worth = plain(given)
    sides = list(worth) if isinstance(worth, (list, tuple)) else [worth]
    if not sides or not all(isinstance(side, int) and not isinstance(side, bool) and side > 0 for side in sides):
        return None
    return Fact(max(sides), place_of(given), how) if len(sides) > 1 else fact_of(given, None, int)


def _read_size(reading: Reading, dataset: Obj) -> Fact | None:
    """The size to which a data set of the script brings each picture that it reads: what does so last decides."""
    if dataset.cls is None:
        return None
    for event in reading.trace.calls(dataset.cls.qualname + ".__getitem__"):
        result = settle(event.result) if event.result is not None else None
        if isinstance(result, Seq) and result.items:
            result = settle(result.items[0])
        elif isinstance(result, Dict):
            result = next((result.entries[k] for k in _PICTURES if k in result.entries), None)
        for part in provenance(result, 300):
            if isinstance(part, Obj) and part.kind == "call" and part.name in _RESIZED:
                found = _side(part.argument(*_RESIZED[part.name]), "size to which pictures are brought")
                if found is not None:
                    return found
    return None


def _image(reading: Reading) -> Fact:
    loader = training_loader(reading)
    parts = list(provenance(loader, 600)) if loader is not None else []
    # Resize(256) and then CenterCrop(224) makes 224: the transform that was made last decides.
    if loader is not None and not _off(loader):
        parts = [part for part in parts if not (isinstance(part, Obj) and _off(part))]
    made = sorted((p for p in parts if isinstance(p, Obj)), key=lambda p: -p.number)
    for part in made:
        library, _, kind = part.name.rpartition(".")
        own = part.cls is not None and part.cls.node.name in _RESIZES  # of the script, under the name that all know
        if own or (kind in _RESIZES and library.startswith(("torchvision.transforms", "albumentations"))):
            found = _side(part.argument(0, "size") or part.kwargs.get("height"), "transform of the data")
            if found is not None:
                return found
    for part in made:
        found = _read_size(reading, part)
        if found is not None:
            return found
    if loader is not None and loader.name == "timm.data.create_loader":
        size = plain(loader.argument(1, "input_size"))
        if isinstance(size, (list, tuple)) and size and isinstance(size[-1], int):
            return Fact(size[-1], place_of(loader), "input_size of the loader")
    for source in parts:
        if isinstance(source, Obj) and source.name.startswith("torchvision.datasets."):
            kind = source.name.rpartition(".")[2]
            if kind in _DATASETS:
                return Fact(_DATASETS[kind], place_of(source), f"images of {kind}")
            if kind == "FakeData":
                sides = plain(source.argument(1, "image_size"), (3, 224, 224))
                if isinstance(sides, (list, tuple)) and isinstance(sides[-1], int):
                    return Fact(sides[-1], place_of(source), "FakeData")
    return _of_pictures(reading) or unknown("no size of an image was recognised")


def _of_pictures(reading: Reading) -> Fact | None:
    """The longer side of pictures of one or three channels that a script makes itself and gives to its network."""
    for loop in reading.loops[:1]:
        for event in loop.events:
            if event.name != "()" or event.context.shadow or reading.roles.of(event.receiver) != "model":
                continue
            shape = shape_of(event.input)
            if shape is not None and len(shape) == 4 and shape[1] in (1, 3):
                return Fact(max(shape[2:]), place_of(event.input), "shape of the batch")
    return None


__all__ = ["Known", "facts", "training_loader"]
