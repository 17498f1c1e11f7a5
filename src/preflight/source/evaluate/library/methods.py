"""Methods whose meaning does not depend on the exact type of the object."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model
from preflight.source.values import (
    Bound,
    Class,
    Dict,
    Ext,
    Func,
    Known,
    Obj,
    Partial,
    Seq,
    Unknown,
    Value,
    options_of,
    plain,
    settle,
)

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()
_BASES = (
    "torch.nn.",
    "torch.jit.ScriptModule",
    "torchvision.models.",
    "timm.",
    "lightning.pytorch.LightningModule",
    "diffusers.",
)
_NOT_MODULES = (
    r"Tokenizer|Config(uration)?\b|Processor|FeatureExtractor|Scheduler|ImageProcessor"
    r"|Pipeline|\.Generation|Trainer|Arguments|Callback|Collator|Dataset|Optimizer"
)
_HELPERS = r"Tokenizer|Config\b|Processor|FeatureExtractor|Scheduler|Pipeline"
# What makes a module, by the library: a pattern is only compiled when a script uses it.
_MODULES = {
    "torch": r"torch\.(nn\.(?!functional|utils|init|parameter|Parameter|grad|Buffer)(\w+\.)*[A-Z]\w*|hub\.load)$",
    "torchvision": r"torchvision\.(models\.(\w+\.)*\w+|ops\.(\w+\.)*[A-Z]\w*)$",
    "timm": r"timm\.((models\.)?create_model|(\w+\.)+[A-Z]\w*)$",
    "lightning": r"lightning\.pytorch\.LightningModule$",
    "segmentation_models_pytorch": r"segmentation_models_pytorch\.[A-Z]\w*$",
    "efficientnet_pytorch": r"efficientnet_pytorch\.\w+(\.\w+)?$",
    "monai": r"monai\.networks\.nets\.\w+$",
    "open_clip": r"open_clip\.create_model\w*$",
    "torch_geometric": r"torch_geometric\.nn\.(\w+\.)*[A-Z]\w*$",
    "peft": r"peft\.get_peft_model$",
    "sentence_transformers": r"sentence_transformers\.SentenceTransformer$",
    "transformers": r"transformers\.[A-Z]\w*(Model|LMHeadModel|For[A-Z]\w+)$",
    "diffusers": r"diffusers\.(\w+\.)*(UNet|Autoencoder|DiT|VQ|Transformer|ControlNet|SD3|Flux)\w*$",
}
_PRETRAINED = {
    library: rf"{library}\.(\w+\.)*[A-Z]\w*\.(from_pretrained|from_config|_from_config|get_peft_model)$"
    for library in ("transformers", "diffusers", "peft", "timm", "optimum", "unsloth")
}


@lru_cache(maxsize=4096)
def is_module_name(name: str) -> bool:
    """Whether calling this library name makes a module."""
    library = name.partition(".")[0]
    if library in _PRETRAINED and re.match(_PRETRAINED[library], name):
        return not re.search(_HELPERS, name)
    return library in _MODULES and bool(re.match(_MODULES[library], name)) and not re.search(_NOT_MODULES, name)


@lru_cache(maxsize=64)  # each keeps its script
def _makes_modules(cls: Class) -> bool | None:
    """Whether a class of the project is a module by its bases; None where they do not say."""
    bases = cls.external_bases()
    if any(n.startswith(_BASES) or n.endswith("PreTrainedModel") or is_module_name(n) for n in bases):
        return not any(n.startswith(("torch.nn.utils", "torch.nn.Parameter")) for n in bases)
    return None


def is_module(value: Value | None) -> bool:
    """Whether a thing is a neural-network module: by its class, or by how it was made."""
    for option in options_of(value, limit=3):
        if isinstance(option, Obj):
            if option.cls is not None:
                of_class = _makes_modules(option.cls)
                if of_class is not None:
                    return of_class
                continue
            if option.kind in {"call", "param", "copy"} and is_module_name(option.name):
                return True
    return False


@MODEL.call(
    ".to",
    ".cuda",
    ".cpu",
    ".half",
    ".float",
    ".double",
    ".bfloat16",
    ".train",
    ".eval",
    ".requires_grad_",
    ".apply",
    ".to_empty",
    ".share_memory",
    ".type",
)
def _self(m: Machine, c: Call) -> Value | None:
    """Module methods return the module itself (tensors get a new value)."""
    return c.receiver if c.receiver is not None and is_module(c.receiver) else None


@MODEL.call(".step")
def _step(m: Machine, c: Call) -> Value | None:
    """``optimizer.step(closure)`` calls the closure, which computes the loss and its gradients."""
    given = c.argument(0, "closure")
    closure = settle(given) if given is not None else None
    if isinstance(closure, (Func, Bound, Partial)):
        from preflight.source.evaluate.calls import call

        return call(m, closure, [], {}, c.node)
    return None


@MODEL.call(".add_module", ".register_module", ".register_parameter")
def _add_module(m: Machine, c: Call) -> Value | None:
    """``self.add_module("conv1", layer)`` sets an attribute, when the name is known."""
    from preflight.source.evaluate.assign import set_attribute

    base = settle(c.receiver) if c.receiver is not None else None
    name = settle(c.args[0]) if len(c.args) == 2 else None
    if isinstance(base, Obj) and is_module(base) and isinstance(name, Known) and isinstance(name.value, str):
        set_attribute(m, base, name.value, c.args[1], c.node)
        return Known(None)
    return None


@MODEL.call(".save_hyperparameters", ".super.save_hyperparameters")
def _save_hyperparameters(m: Machine, c: Call) -> Value | None:
    """Lightning keeps the arguments of ``__init__`` under ``self.hparams``, or one object that it is given."""
    base = settle(c.receiver) if c.receiver is not None else None
    if not isinstance(base, Obj) or base.cls is None:
        return None
    first = settle(c.args[0]) if c.args else None
    if first is not None and not (isinstance(first, Known) and isinstance(first.value, str)):
        base.attrs["hparams"] = c.args[0]
        return Known(None)
    func, frame = m.frame.func, m.frame
    if func is None or not func.qualname.endswith("__init__"):
        return None
    names = {plain(arg) for arg in c.args}
    left_out = plain(c.kwargs.get("ignore"))
    ignored = {left_out} if isinstance(left_out, str) else set(left_out or ())
    arguments = func.node.args  # of a function with a name
    given = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)][1:]
    kept = {n: frame.locals[n] for n in given if n in frame.locals and n not in ignored and (not names or n in names)}
    known = settle(base.attrs["hparams"]) if "hparams" in base.attrs else None
    before = known.entries if isinstance(known, Dict) else {}  # those of a class below, whose __init__ came first
    base.attrs["hparams"] = Dict({**before, **kept}, m.site(c.node), arguments.kwarg is not None, name="namespace")
    return Known(None)


@MODEL.call(".children", ".named_children")
def _children(m: Machine, c: Call) -> Value | None:
    """The layers that a module holds itself, in their order, where all are known."""
    base = settle(c.receiver) if c.receiver is not None else None
    held = _layers_of(m, base) if isinstance(base, Obj) else None
    if held is None:
        return None
    if c.name == ".children":
        return Seq([layer for _, layer in held], "list", m.site(c.node))
    rows: list[Value] = [Seq([Known(name), layer], "tuple") for name, layer in held]
    return Seq(rows, "list", m.site(c.node))


def _layers_of(m: Machine, base: Obj) -> list[tuple[str, Value]] | None:
    """The layers of a module by name; None where not all are known."""
    from preflight.source.evaluate.drawings import drawing_of
    from preflight.source.evaluate.library.torch import module_items

    base = drawing_of(m, base) or base
    if base.name in ("torch.nn.Sequential", "torch.nn.ModuleList") and (base.cls is None or "<items>" in base.attrs):
        parts = module_items(m, base)
        return [(str(i), part) for i, part in enumerate(parts)] if parts is not None else None
    if base.cls is None or base.cls.external_bases() != ["torch.nn.Module"]:
        return None
    found: list[tuple[str, Value]] = []
    for name, value in base.attrs.items():
        held = settle(value)
        if isinstance(held, Obj) and is_module(held):
            if not name.startswith("<") and not any(held is settle(layer) for _, layer in found):
                found.append((name, value))
        elif not isinstance(held, (Known, Seq, Dict, Obj, Func, Bound, Partial, Class, Ext)):
            return None  # what may be a layer; a function or a class is none
    return found


@MODEL.call(".__setattr__", ".super.__setattr__")
def _setattr(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.assign import set_attribute

    name = settle(c.args[0]) if len(c.args) == 2 else None
    if c.receiver is not None and isinstance(name, Known) and isinstance(name.value, str):
        set_attribute(m, c.receiver, name.value, c.args[1], c.node)
    return Known(None)


@MODEL.call(".super.__init__")
def _super_init(m: Machine, c: Call) -> Value | None:
    """``super().__init__(...)`` of a library base: arguments of a record become its fields."""
    base = settle(c.receiver) if c.receiver is not None else None
    if isinstance(base, Obj):
        if base.cls is not None and any(n.endswith("Config") for n in base.cls.external_bases()):
            base.attrs.update(c.kwargs)
        if base.cls is not None and "torch.nn.Sequential" in base.cls.external_bases() and not c.open:
            base.attrs.setdefault("<items>", _sequence(c.args))
        base.attrs.setdefault("<super>", c.event.result or Known(True))
    return Known(None)


def _sequence(args: list[Value]) -> Seq:
    """The parts that a Sequential is made of: its arguments, or the values of one dictionary of them."""
    first = settle(args[0]) if len(args) == 1 else None
    if isinstance(first, Dict):
        return Seq(list(first.entries.values()), "list", first.site, first.open)
    return Seq(list(args))


@MODEL.call(".__enter__")
def _enter(m: Machine, c: Call) -> Value | None:
    return c.receiver


@MODEL.call(".size", ".numel", ".dim", ".ndimension")
def _size(m: Machine, c: Call) -> Value | None:
    if isinstance(settle(c.receiver) if c.receiver is not None else None, Unknown):
        return Unknown(
            "a size that is not known before the data is read",
            m.site(c.node),
            (c.receiver,) if c.receiver else (),
            name="size",
        )
    return None
