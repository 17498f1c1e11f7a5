"""From a Hugging Face ``config.json`` to a ModelSpec with exact counts.

The arithmetic is in ``families``, one module for each kin; here the kin is found by ``model_type``,
and the head by the class that the configuration (or the script) names.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from preflight.vocabulary.model import ModelSpec

if TYPE_CHECKING:
    from preflight.catalog.families.counted import Builder, Counted

# The same head under another name.
SYNONYMS = {
    "conditional-generation": "seq2seq-lm",
    "speech-seq2-seq": "seq2seq-lm",
    "seq2-seq-lm": "seq2seq-lm",
    "audio-classification": "sequence-classification",
    "lm-head": "causal-lm",
    "generation": "causal-lm",
}
# Configurations that wrap a text model and something else (an image tower) that is not counted here.
WRAPPED = "text_config"


@lru_cache(maxsize=1)
def _kins() -> dict[str, str]:
    """Return the modules of ``families`` and their text, by the files that are there."""
    import os

    from preflight.catalog import families

    folder = os.path.dirname(os.path.abspath(families.__file__))
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py") and name not in ("__init__.py", "counted.py"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found[name[:-3]] = file.read()
    return found


@cache
def _builder(model_type: str) -> Builder | None:
    """Return the function that counts a type; only modules whose text names the type are imported."""
    for kin, text in _kins().items():
        if f'"{model_type}"' not in text:
            continue
        builders: Mapping[str, Builder] = importlib.import_module(f"preflight.catalog.families.{kin}").BUILDERS
        if model_type in builders:
            return builders[model_type]
    return None


def model_types() -> tuple[str, ...]:
    """Return every ``model_type`` that can be counted, sorted."""
    found: set[str] = set()
    for kin in _kins():
        found.update(importlib.import_module(f"preflight.catalog.families.{kin}").BUILDERS)
    return tuple(sorted(found))


def head_of(class_name: str) -> str | None:
    """Return the head that a class name tells: "BertForMaskedLM" has "masked-lm", "BertModel" has "none".

    None for a name that tells nothing.
    """
    name = class_name.rpartition(".")[2]
    if name.endswith("ModelWithProjection"):
        return "with-projection"
    if name.endswith("LMHeadModel"):
        return "causal-lm"
    _, found, after = name.partition("For")
    while found and after and not after[0].isupper():  # the "For" of "Former" or "Format" is none
        _, found, after = after.partition("For")
    if not found or not after:
        return "none" if name.endswith("Model") else None
    words = _kebab(after)
    return SYNONYMS.get(words, words)


def _kebab(name: str) -> str:
    """Return "SequenceClassification" as "sequence-classification" and "CausalLM" as "causal-lm"."""
    out = ""
    for index, letter in enumerate(name):
        before = name[index - 1] if index else ""
        if letter.isupper() and index and not before.isupper():
            out += "-"
        out += letter.lower()
    return out


def spec_from_config(config: Mapping[str, Any], class_name: str | None = None) -> ModelSpec | None:
    """Return the architecture that a ``config.json`` describes, with exact parameter counts.

    Args:
        config: The parsed file. Absent keys have the defaults of the library's configuration class.
        class_name: The class that is built from it ("BertForSequenceClassification", "AutoModelForCausalLM");
            when None, the first of ``architectures``, and when there is none either, the usual one of the type.

    Returns:
        None when neither ``model_type`` nor ``_class_name`` (diffusers) is one that can be counted. ``parameters`` is None, with ``parameters_reason``,
        when the architecture is known and the class is not.

    Raises:
        InputError: A value cannot be (a width that is no whole number, a patch larger than the image).
    """
    model_type = config.get("model_type")
    builder = _builder(model_type) if isinstance(model_type, str) else None
    if builder is None:
        return _diffusers(config, class_name) or _wrapped(config, class_name)
    from preflight.catalog.families.counted import Config

    return _with_head(builder(Config(config)), class_name or _architecture(config))


def _diffusers(config: Mapping[str, Any], class_name: str | None) -> ModelSpec | None:
    """Return the network of a configuration of diffusers; its form is exact, and its parameters follow from it."""
    if not isinstance(config.get("_class_name"), str):
        return None
    from preflight.catalog.diffusers import diffusers_spec

    spec = diffusers_spec(config)
    if spec is None or class_name in (None, spec.class_name):
        return spec
    return msgspec.structs.replace(spec, class_name=class_name)


def _architecture(config: Mapping[str, Any]) -> str | None:
    names = config.get("architectures")
    first = names[0] if isinstance(names, list | tuple) and names else None
    return first if isinstance(first, str) else None


def _wrapped(config: Mapping[str, Any], class_name: str | None) -> ModelSpec | None:
    """Return the text model inside a configuration that wraps one; the whole is not counted."""
    inner = config.get(WRAPPED)
    if not isinstance(inner, Mapping) or WRAPPED in inner:
        return None
    spec = spec_from_config(inner)
    if spec is None:
        return None
    reason = f"the text model of '{config.get('model_type')}' is counted, what stands beside it is not"
    return msgspec.structs.replace(
        spec,
        class_name=class_name or _architecture(config),
        head=None,
        parameters=None,
        base_parameters=None,
        active_parameters=None,
        parameters_reason=reason,
    )


def _output(head: str | None) -> Literal["lm", "mlm", "classification", "none"] | None:
    """Return the vocabulary's word for what a head puts out."""
    if head is None or head in ("ctc", "with-projection"):
        return None
    if head == "none":
        return "none"
    if head in ("masked-lm", "pre-training"):
        return "mlm"
    return "lm" if head.endswith("-lm") else "classification"


def _with_head(counted: Counted, class_name: str | None) -> ModelSpec:
    """Return the architecture with the counts of one class."""
    head = head_of(class_name) if class_name else counted.default_head
    reason = None
    total: int | None = None
    if head in counted.heads:
        total = counted.base + counted.heads[head]
    else:
        reason = f"class {class_name} is not counted; the base model is"
    return msgspec.structs.replace(
        counted.spec,
        library="transformers",
        class_name=class_name,
        head=_output(head),
        parameters=total,
        base_parameters=counted.base,
        active_parameters=total - counted.idle if total is not None and counted.idle else None,
        largest_layer_parameters=counted.block,
        parameters_reason=reason,
    )
