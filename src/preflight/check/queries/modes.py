"""Train and eval mode: which calls set the mode of a model, and whether the mode changes what the model computes."""

from __future__ import annotations

import ast
import re
from collections.abc import Set
from typing import TYPE_CHECKING

from preflight.check.queries.parameters import holding_of
from preflight.source.evaluate.library.methods import is_module
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.known_models import spec_of
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event
from preflight.source.values import Dict, Known, Obj, Seq, Value, options_of, plain

if TYPE_CHECKING:
    from preflight.check.context import Context

# Layers that compute something else in eval mode.
_MODAL = r"^torch\.nn\.((Alpha|FeatureAlpha)?Dropout\w*|(Lazy|Sync)?BatchNorm\w*|RReLU)$"
# Library layers whose insides are known to hold none.
_PLAIN = (
    r"^torch\.nn\.((Lazy)?(Linear|Conv\w*|ConvTranspose\w*)|Embedding\w*|LayerNorm|RMSNorm|GroupNorm|InstanceNorm\w*|Identity|Flatten|Unflatten"
    r"|ReLU6?|LeakyReLU|GELU|SiLU|ELU|SELU|CELU|Tanh|Sigmoid|Softmax|LogSoftmax|Softplus|Hardtanh|Mish|PReLU|\w*Pool\w*|Upsample\w*|PixelShuffle"
    r"|\w*Pad\w*|\w*Loss|Parameter|Bilinear|Softplus|Hardswish|Hardsigmoid|Threshold|CosineSimilarity|LSTMCell|GRUCell|RNNCell|Fold|Unfold)$"
)
_HOLDERS = ("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict")
_DROPPING = ("torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN", "torch.nn.MultiheadAttention")


def has_modes(value: Value | None) -> bool | None:
    """Whether a model holds dropout or batch norm; None where its parts are not all known."""
    return _search(value, set())


def _search(value: Value | None, seen: set[int]) -> bool | None:
    inner = wrapped(value)
    if inner is None or id(inner) in seen or isinstance(inner, Known):
        return False
    seen.add(id(inner))
    if isinstance(inner, Seq):
        return _any([*(_search(i, seen) for i in inner.items), None if inner.open else False])
    if isinstance(inner, Dict):
        return _any([*(_search(i, seen) for i in inner.entries.values()), None if inner.open else False])
    if not isinstance(inner, Obj):
        return False
    if inner.cls is not None and is_module(inner):
        if "training" in inner.attrs:
            return True  # its own code asks for the mode
        externals = inner.cls.external_bases()
        known = all(n in ("torch.nn.Module", *_HOLDERS, "lightning.pytorch.LightningModule") for n in externals)
        parts = [_search(v, seen) for v in inner.attrs.values()]
        if not any(n == "torch.nn.Module" for n in externals):
            parts.extend(_search(a, seen) for a in inner.args)
        return _any([*parts, False if known else None])
    if re.match(_MODAL, inner.name):
        return not ("Dropout" in inner.name and plain(inner.argument(0, "p"), 0.5) == 0)
    if inner.name in _HOLDERS:
        return _any(
            [*(_search(a, seen) for a in (*inner.args, *inner.attrs.values())), None if inner.open_args else False]
        )
    if inner.name in _DROPPING:
        given = inner.kwargs.get("dropout")
        return given is not None and plain(given, 0.1) != 0
    if not is_module(inner):
        return False
    return False if re.match(_PLAIN, inner.name) else None


# Families of transformers by the dropout that their configuration has where nobody sets it.
_WITH_DROPOUT = frozenset(
    "bert roberta xlm-roberta distilbert electra deberta deberta-v2 gpt2 opt t5 mt5 bart mbart pegasus longformer xlnet".split()
)
_WITHOUT_DROPOUT = frozenset("llama mistral mixtral qwen2 qwen3 gemma gemma2 gemma3 gpt_neox gptj".split())
_FAMILY = r"^transformers\.([A-Z]\w*?)(?:Model|LMHead\w*|For[A-Z]\w+|PreTrainedModel)\.from_pretrained$"


def pretrained_modes(context: Context, model: Obj) -> bool | None:
    """Whether a pretrained transformer holds dropout that is on: by the family that its name or its class is of."""
    found = re.match(_FAMILY, model.name)
    if found is None or model.cls is not None or model.open_args:
        return None
    if any("drop" in name or name == "config" for name in model.kwargs):
        return None
    from preflight.source.known_models import named_config

    family = found.group(1)
    if family.startswith("Auto"):
        name = plain(model.argument(0, "pretrained_model_name_or_path"))
        config = named_config(context.reading, name) if isinstance(name, str) else None
        family = str((config or {}).get("model_type", ""))
        if config is not None and any("drop" in key for key in config):
            return None
    family = family.lower().replace("-", "").replace("_", "")
    if any(family == f.replace("-", "").replace("_", "") for f in _WITH_DROPOUT):
        return True
    return False if any(family == f.replace("_", "") for f in _WITHOUT_DROPOUT) else None


def network_modes(context: Context, model: Obj) -> bool | None:
    """True where a library builds the network with batch norm and all of it is trained; else None.

    Who trains a head on a frozen network may well leave its statistics as they are.
    """
    spec = spec_of(context.reading, model)
    if spec is None or spec.norm != "batchnorm":
        return None
    if context.fact("model.trainable_parameters") != context.fact("model.parameters"):
        return None
    optimizers = (holding_of(context.reading, one) for one in context.reading.made("optimizer"))
    owners = (part.owner for holding in optimizers for part in holding.parts if part.amount != "some")
    return True if any(owner is model or wrapped(owner) is model for owner in owners) else None


def _any(found: list[bool | None]) -> bool | None:
    return True if True in found else (None if None in found else False)


def models_of(value: Value | None) -> list[Value]:
    """The models that a value can be, without their wrappers."""
    found: list[Value] = []
    for option in options_of(value, limit=4):
        # What is wrapped can be one of several models too.
        for inner in options_of(wrapped(option), limit=4):
            model = wrapped(inner)
            if model is not None and not any(model is f for f in found):
                found.append(model)
    return found


def concerns(event: Event, model: Value) -> bool:
    """Whether a method call is on a model, or on its wrapper."""
    return any(m is model for m in models_of(event.receiver))


class Mode:
    """One call that sets the mode of a model.

    Attributes:
        event: The call.
        training: True for train mode, False for eval mode, None where that is not known.
    """

    def __init__(self, event: Event, training: bool | None) -> None:
        """Keep what the call does."""
        self.event = event
        self.training = training


def modes_of(context: Context, model: Value) -> list[Mode]:
    """The calls that set the mode of a model or of something that holds it, in order."""
    found: list[Mode] = []
    # A class with a ``train`` of its own sets the mode where that calls the one it extends.
    for event in context.trace.calls(".train", ".eval", ".super.train", ".super.eval"):
        if not concerns(event, model) and not holds(event.receiver, model):
            continue
        if event.name.endswith(".eval"):
            found.append(Mode(event, False))
            continue
        given = event.argument(0, "mode")
        wanted = plain(given) if given is not None else True
        found.append(Mode(event, wanted if isinstance(wanted, bool) else None))
    for store in context.trace.stores:
        if store.name == "training" and any(m is model for m in models_of(store.target)):
            event = Event(
                store.number, "=training", store.node, store.script, store.context, None, store.target, [], {}
            )
            wanted = plain(store.value)
            found.append(Mode(event, wanted if isinstance(wanted, bool) else None))
    found.sort(key=lambda m: m.event.number)
    return found


def holds(holder: Value | None, model: Value, depth: int = 0) -> bool:
    """Whether a module holds a model among its parts."""
    inner = wrapped(holder)
    if not isinstance(inner, Obj) or depth > 3:
        return False
    if inner.cls is None and inner.name not in _HOLDERS:
        return False
    parts = [*inner.attrs.values(), *(inner.args if inner.name in _HOLDERS else [])]
    for settled in (option for part in parts for option in models_of(part)):
        if settled is model:
            return True
        if isinstance(settled, Obj) and is_module(settled) and holds(settled, model, depth + 1):
            return True
        if isinstance(settled, Seq) and any(wrapped(i) is model for i in settled.items):
            return True
    return False


def uses_of(context: Context, model: Value) -> list[Event]:
    """The calls that compute something with a model: calling it, and methods such as ``generate``."""
    index: dict[int, list[Event]] | None = context.__dict__.get("_uses_of")
    if index is None:
        index = context.__dict__["_uses_of"] = {}
        for event in context.trace.events:
            used = event.name == "()" or (event.name.startswith(".") and event.name not in _SETUP)
            receiver = event.receiver
            if event.name == "?" and isinstance(event.result, Obj):
                used, receiver = True, event.result.receiver  # the call of something that nobody was seen to make
            if used and receiver is not None:
                for found in models_of(receiver):
                    index.setdefault(id(found), []).append(event)
    return index.get(id(model), [])


_SETUP = frozenset({
    ".train", ".eval", ".to", ".cuda", ".cpu", ".half", ".float", ".bfloat16", ".parameters", ".named_parameters",
    ".state_dict", ".load_state_dict", ".modules", ".named_modules", ".children", ".zero_grad", ".apply",
    ".requires_grad_", ".register_forward_hook", ".save_pretrained", ".buffers", ".double", ".type",
    ".named_buffers", ".named_children", ".share_memory", ".super.__init__", ".train_dataloader", ".add_module",
    ".register_buffer", ".register_parameter", ".backward", ".step", ".no_sync",
})  # fmt: skip


def reaches(value: Value | None, wanted: Set[int], depth: int = 0) -> bool:
    """Whether a value, or a part of a tuple or dictionary of them, is among those with the given ids."""
    if value is None or depth > 4:
        return False
    if id(value) in wanted:
        return True
    parts: list[Value] = []
    for option in options_of(value, limit=6):
        if id(option) in wanted:
            return True
        if isinstance(option, Seq):
            parts.extend(option.items)
        elif isinstance(option, Dict):
            parts.extend(option.entries.values())
        elif isinstance(option, Obj) and option.kind == "instance":
            parts.extend(option.attrs.values())
    return any(reaches(p, wanted, depth + 1) for p in parts)


def leaves(event: Event, frame: Frame) -> bool:
    """Whether the branch a call is in leaves the loop ``frame`` afterwards: ``break``, ``return``, ``sys.exit()``."""
    whole = getattr(frame.node, "body", None)
    if isinstance(whole, list) and whole and isinstance(whole[-1], (ast.Break, ast.Return, ast.Raise)):
        return True  # what stands at the end of all of it leaves it whatever is asked before
    for inner in event.context.frames():
        if inner is frame:
            return False
        if inner.kind != "if" or not isinstance(inner.node, ast.If):
            continue
        body = inner.node.body if inner.polarity else inner.node.orelse
        if body and isinstance(body[-1], (ast.Break, ast.Return, ast.Raise)):
            return True
        last = body[-1] if body else None
        called = last.value.func if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) else None
        if called is not None and ast.unparse(called) in ("sys.exit", "exit", "quit", "os._exit"):
            return True
    return False


_HARMLESS = ("builtins.", "torch.", "copy.", "wandb.")


def handed_out(context: Context, model: Value, frame: Frame) -> bool:
    """Whether, inside a frame, code that cannot be seen is given the model and may set its mode."""
    index: dict[int, list[Event]] | None = context.__dict__.get("_handed_out")
    if index is None:
        index = context.__dict__["_handed_out"] = {}
        for event in context.trace.events:
            if event.inlined or event.name == "()" or event.name.startswith(_HARMLESS):
                continue
            if event.name.startswith(".") and context.roles.of(event.receiver) is not None:
                continue
            for given in {id(m) for a in (*event.args, *event.kwargs.values()) for m in models_of(a)}:
                index.setdefault(given, []).append(event)
    return any(event.context.within(frame) for event in index.get(id(model), ()))


__all__ = [
    "Mode",
    "concerns",
    "handed_out",
    "has_modes",
    "leaves",
    "models_of",
    "modes_of",
    "network_modes",
    "pretrained_modes",
    "reaches",
    "uses_of",
]
