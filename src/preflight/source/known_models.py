"""Models known by name or by configuration: what a library call builds, looked up in the catalog."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from preflight.source.evaluate.drawings import drawing_of
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.layer_sizes import SIZES
from preflight.source.values import Dict, Known, Obj, Seq, Value, plain, settle
from preflight.vocabulary.model import ModelSpec

if TYPE_CHECKING:
    from preflight.source.reading import Reading

_FROM = re.compile(
    r"^(?:transformers|diffusers|optimum|unsloth)\.(?:\w+\.)*?(\w+)\.(from_pretrained|from_config|_from_config)$"
)
_CLASS = re.compile(r"^transformers\.(\w+)$")
_CONFIG = re.compile(r"^transformers\.(\w+)Config$")


def spec_of(reading: Reading, model: Value) -> ModelSpec | None:
    """The architecture of a model that a library builds, or None when it is not one that is known."""
    obj = wrapped(model)
    if not isinstance(obj, Obj):
        return None
    if obj.kind == "copy" and isinstance(obj.receiver, Obj):
        return spec_of(reading, obj.receiver)
    if obj.name == "peft.get_peft_model" and obj.args:
        return spec_of(reading, obj.args[0])
    match = _FROM.match(obj.name)
    if match:
        return _from_library(reading, obj, match.group(1), match.group(2))
    if obj.name.startswith("torchvision.models."):
        return _with_parts(reading, _with_classes(_find(reading, obj.name.rpartition(".")[2]), obj, "num_classes"), obj)
    if obj.name in ("timm.create_model", "timm.models.create_model"):
        name = plain(obj.argument(0, "model_name"))
        return (
            _with_parts(reading, _with_classes(_find(reading, name), obj, "num_classes"), obj)
            if isinstance(name, str)
            else None
        )
    if obj.name == "torch.hub.load":
        name = plain(obj.argument(1, "model"))
        return _find(reading, name) if isinstance(name, str) else None
    match = _CLASS.match(obj.name)
    if match and obj.args:
        config = config_of(reading, obj.args[0])
        return _from_config(config, match.group(1)) if config is not None else None
    if obj.name == "sentence_transformers.SentenceTransformer":
        name = plain(obj.argument(0, "model_name_or_path"))
        return _find(reading, name, "AutoModel") if isinstance(name, str) else None
    return None


def _find(reading: Reading, name: str, class_name: str | None = None) -> ModelSpec | None:
    from preflight.catalog.architectures import find_model

    return find_model(name, class_name, reading.project.catalog)


def _from_library(reading: Reading, obj: Obj, class_name: str, how: str) -> ModelSpec | None:
    first = obj.args[0] if obj.args else (obj.kwargs.get("pretrained_model_name_or_path") or obj.kwargs.get("config"))
    if how != "from_pretrained":
        config = config_of(reading, first)
        return _from_config(config, class_name) if config is not None else None
    given = config_of(reading, obj.kwargs["config"]) if "config" in obj.kwargs else None
    if given is not None:
        return _from_config(given, class_name)
    name = plain(first)
    if not isinstance(name, str):
        return None
    overrides = {
        k: plain(v) for k, v in obj.kwargs.items() if k in ("num_labels", "vocab_size", "max_position_embeddings")
    }
    config = named_config(reading, name)
    if config is not None:
        return _from_config({**config, **{k: v for k, v in overrides.items() if v is not None}}, class_name)
    subfolder = plain(obj.kwargs.get("subfolder"))
    return (
        _find(reading, f"{name}/{subfolder}", class_name) or _find(reading, name, class_name)
        if isinstance(subfolder, str)
        else _find(reading, name, class_name)
    )


def _from_config(config: dict[str, Any], class_name: str) -> ModelSpec | None:
    from preflight.catalog.configurations import spec_from_config
    from preflight.errors import InputError

    try:
        return spec_from_config(config, class_name)
    except InputError:
        return None


def named_config(reading: Reading, name: str) -> dict[str, Any] | None:
    """The configuration of a name: a folder of the repository with a ``config.json``, else the catalog's."""
    found = reading.project.read_data(name.rstrip("/") + "/config.json")
    if found is not None:
        try:
            data = msgspec.json.decode(found[0])
        except (msgspec.DecodeError, RecursionError):
            return None
        return data if isinstance(data, dict) else None
    from preflight.catalog.architectures import find_name, model_file

    known = find_name(name, reading.project.catalog)
    content = model_file(known, reading.project.catalog) if known is not None else None
    return content.configuration() if content is not None and content.config is not None else None


def config_of(reading: Reading, value: Value | None) -> dict[str, Any] | None:
    """The configuration that a value stands for: a configuration object of transformers, or one loaded by name."""
    obj = settle(value) if value is not None else None
    if isinstance(obj, Obj) and obj.kind == "copy" and isinstance(obj.receiver, Obj):
        obj = obj.receiver
    if not isinstance(obj, Obj):
        return None
    match = _CONFIG.match(obj.name)
    if match and match.group(1) != "Auto":
        return _made_config(obj)
    if obj.name.startswith("transformers.") and obj.name.endswith("Config.from_pretrained"):
        name = plain(obj.argument(0, "pretrained_model_name_or_path"))
        base = named_config(reading, name) if isinstance(name, str) else None
        return _overridden(base, obj) if base is not None else None
    if obj.name in ("transformers.AutoConfig.for_model",):
        kind = plain(obj.argument(0, "model_type"))
        return _overridden({"model_type": kind}, obj) if isinstance(kind, str) else None
    return None


def config_type(name: str) -> str | None:
    """The ``model_type`` of a configuration class that can be counted: ``transformers.GPT2Config`` is "gpt2"."""
    from preflight.catalog.configurations import model_types

    match = _CONFIG.match(name)
    wanted = match.group(1).lower() if match else None
    return next((t for t in model_types() if t.replace("_", "").replace("-", "") == wanted), None)


def _made_config(obj: Obj) -> dict[str, Any] | None:
    kind = config_type(obj.name)
    if kind is None or obj.open_args:
        return None
    return _overridden({"model_type": kind}, obj)


def _overridden(base: dict[str, Any], obj: Obj) -> dict[str, Any] | None:
    """A configuration with the arguments and later assignments of the script; None where one is not known."""
    result = dict(base)
    for name, value in {**obj.kwargs, **{k: v for k, v in obj.attrs.items() if not k.startswith(("<", "["))}}.items():
        settled = settle(value)
        if isinstance(settled, (Known, Seq, Dict)):
            found = plain(settled)
            result[name] = found
        elif isinstance(settled, Obj) and settled.kind == "attr":
            continue  # read, not assigned
        elif name in _SIZES:
            return None
    return result


_SIZES = frozenset(
    "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size n_embd n_layer n_head n_positions d_model "
    "num_layers num_heads d_ff num_key_value_heads max_position_embeddings".split()
)


def _with_parts(reading: Reading, spec: ModelSpec | None, obj: Obj) -> ModelSpec | None:
    """Adjust the count to parts that the script puts in the place of the library's: ``model.fc = Linear(...)``."""
    from preflight.source.layers import Network

    if spec is None:
        return None
    touched = id(obj) in reading.machine.drawings or any(not name.startswith(("<", "[")) for name in obj.attrs)
    if touched and drawing_of(reading.machine, obj) is not None:
        network = Network(reading, obj)
        return msgspec.structs.replace(spec, parameters=network.total, parameters_reason=network.reason)
    return _with_head(spec, obj)


def _with_head(spec: ModelSpec, obj: Obj) -> ModelSpec:
    """Adjust the count to a head, where nothing is known of the network but its size with and without one."""
    placed = {name: settle(v) for name, v in obj.attrs.items() if not name.startswith(("<", "["))}
    heads = [v for v in placed.values() if isinstance(v, Obj) and v.kind == "call" and v.name.startswith("torch.nn.")]
    if not heads:
        return spec
    sizes = [SIZES[head.name](head) if head.name in SIZES else None for head in heads]
    if len(heads) != 1 or sizes[0] is None or spec.base_parameters is None:
        return msgspec.structs.replace(
            spec, parameters=None, parameters_reason="the script replaces layers of the model"
        )
    return msgspec.structs.replace(spec, parameters=spec.base_parameters + sizes[0])


def _with_classes(spec: ModelSpec | None, obj: Obj, keyword: str) -> ModelSpec | None:
    """Adjust the count to another number of classes: a head of w inputs has (w + 1) parameters per class."""
    given = obj.kwargs.get(keyword)
    if spec is None or given is None:
        return spec
    classes = plain(given)
    if classes is None and isinstance(settle(given), Known):
        return spec
    if classes == spec.classes:
        return spec
    if not isinstance(classes, int) or not spec.classes or not spec.parameters or not spec.base_parameters:
        return msgspec.structs.replace(
            spec, parameters=None, parameters_reason="the number of classes differs from the catalog's"
        )
    head = spec.parameters - spec.base_parameters
    if head <= 0 or head % spec.classes:
        return msgspec.structs.replace(
            spec, parameters=None, parameters_reason="the number of classes differs from the catalog's"
        )
    return msgspec.structs.replace(
        spec, parameters=spec.base_parameters + head // spec.classes * classes, classes=classes
    )
