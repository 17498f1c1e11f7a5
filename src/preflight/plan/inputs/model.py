"""From what was said about the model to its numbers: an architecture, a configuration, a name or a size."""

from __future__ import annotations

import os
from typing import Any, cast

import msgspec

from preflight.catalog.architectures import resolve_model
from preflight.catalog.files import Folders
from preflight.cost.parameters import count_parameters
from preflight.errors import InputError, UsageError
from preflight.plan.inputs.architecture import architecture_in
from preflight.plan.inputs.settings import Settings
from preflight.plan.inputs.sizes import model_of_size
from preflight.vocabulary.model import ModelFamily, ModelSpec, architecture_in_words

# From the strongest to the weakest: what is said twice is taken from the first.
SOURCES = ("model.architecture", "model.config", "model.name", "model.size_billions")
_TRANSFORMERS = ("transformer_decoder", "transformer_encoder", "encoder_decoder", "moe", "vision_transformer")
MOST_BYTES = 10_000_000


class Chosen(msgspec.Struct, frozen=True):
    """A model, how the report calls it, and what was taken for granted."""

    model: ModelSpec
    title: str
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def model_of(settings: Settings, catalog: Folders = ()) -> Chosen:
    """Return the model that was described.

    Raises:
        UsageError: Nothing describes it, or the description cannot be.
        InputError: Its configuration cannot be read.
    """
    said = [path for path in SOURCES if path in settings]
    if not said:
        raise UsageError(
            "no model: a plan needs a size in billions, a name, a config.json or an architecture",
            "preflight plan transformer 7.0 32, or preflight plan --model llama-3-8b",
        )
    chosen = _from(said[0], settings, catalog)
    unused = tuple(f"{said[0]} describes the model; {path} ({settings.where(path)}) is not used" for path in said[1:])
    kind = settings.get("model.type")
    family = chosen.model.family
    if kind not in (None, family) and not (kind == "transformer" and family in _TRANSFORMERS):
        raise settings.error("model.type", f"{chosen.title} is a {family}, not a {kind}", f"type: {family}")
    return msgspec.structs.replace(chosen, notes=(*chosen.notes, *unused))


def _family(kind: str | None) -> ModelFamily:
    return cast(ModelFamily, "transformer_decoder" if kind in (None, "transformer") else kind)


def _from(path: str, settings: Settings, catalog: Folders) -> Chosen:
    kind, value = settings.get("model.type"), settings.get(path)
    if path == "model.architecture":
        where = settings.where(path)
        model, assumptions = architecture_in(value, None if kind in (None, "transformer") else kind, where)
        return Chosen(model, f"{model.family} of {architecture_in_words(model)}", assumptions)
    if path == "model.size_billions":
        try:
            sized = model_of_size(value, _family(kind))
        except UsageError as error:
            raise settings.error(path, str(error), error.hint) from None
        return Chosen(sized.model, f"{value:g}B {_family(kind).removeprefix('transformer_')}", (sized.assumption,))
    if path == "model.config":
        file = os.path.expanduser(value)
        said_in = settings.where(path).rpartition(":")[0]
        beside = os.path.join(os.path.dirname(said_in), file) if said_in and not os.path.isabs(file) else file
        return configured(beside if os.path.exists(beside) else file, catalog)
    try:
        model = resolve_model(value, extra=tuple(catalog))
    except UsageError as error:
        raise settings.error(path, str(error), error.hint) from None
    return Chosen(model, model.name or value, *_counted(model))


def _counted(model: ModelSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (assumptions, notes) about the count of a model."""
    return (), (f"parameters: {model.parameters_reason}",) if model.parameters_reason else ()


def _with_parameters(model: ModelSpec) -> ModelSpec:
    """Return a network with the count that its form has."""
    count = count_parameters(model) if model.network is not None else None
    return msgspec.structs.replace(model, parameters=round(count.total)) if count is not None else model


def configured(path: str, catalog: Folders = ()) -> Chosen:
    """Return the model of a ``config.json``, or of the folder that has one.

    Raises:
        InputError: It is missing, not JSON, or of an architecture that is not counted.
    """
    from preflight.catalog.configurations import model_types, spec_from_config
    from preflight.catalog.diffusers import diffusers_classes

    file = os.path.join(path, "config.json") if os.path.isdir(path) else path
    content = _read(file)
    try:
        spec = spec_from_config(content)
    except InputError as error:
        raise InputError(f"{file}: {str(error).removeprefix('model configuration: ')}", error.hint) from None
    if spec is not None:
        spec = _with_parameters(spec)
        return Chosen(spec, path, *_counted(spec))
    named = content.get("architecture")
    if isinstance(named, str):  # timm's config.json names its own factory
        spec = resolve_model(named, extra=tuple(catalog))
        return Chosen(_with_classes(spec, content.get("num_classes")), named)
    said = content.get("model_type") or content.get("_class_name")
    what = f"the type {said!r} is not counted" if said else "it names no model_type"
    known = ", ".join((*diffusers_classes(), *model_types()))
    raise InputError(
        f"{file}: {what}",
        f"describe it with model.architecture in a YAML file, or let --script train.py --dry-run measure it; known: {known}",
    )


def _read(file: str) -> dict[str, Any]:
    import json

    try:
        if os.path.getsize(file) > MOST_BYTES:
            raise InputError(f"{file} is too large for a configuration")
        with open(file, encoding="utf-8") as opened:
            content = json.load(opened)
    except FileNotFoundError:
        raise InputError(f"{file} is not there", "name a config.json, or the folder that has one") from None
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: not JSON: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{file}: not the configuration of a model")
    return content


def _with_classes(spec: ModelSpec, classes: object) -> ModelSpec:
    """Return a vision model with another number of classes: a head of (features + 1) for each."""
    if not isinstance(classes, int) or classes == spec.classes or not spec.base_parameters or not spec.parameters:
        return spec
    each = (spec.parameters - spec.base_parameters) // spec.classes if spec.classes else 0
    return msgspec.structs.replace(spec, classes=classes, parameters=spec.base_parameters + each * classes)
