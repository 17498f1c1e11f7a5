"""Models by name: what a script calls "bert-base-uncased" or "resnet50", in numbers.

A model is found in three steps, each tried only when the one before fails:
1. the spelling as it is, then case and ``_`` or ``-`` aside, with or without the organisation ("meta-llama/");
2. without a timm tag, what follows the last dot when it begins with a letter ("resnet50.a1_in1k");
3. without the endings that name a tuning or a packing of the same network ("-hf", "-instruct", "-bnb-4bit" ...).
A spelling that fits two models ("vit-b-32": torchvision writes ``vit_b_32``, CLIP ``ViT-B-32``) is none of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from preflight.catalog import files
from preflight.catalog.configurations import spec_from_config
from preflight.catalog.files import Folders
from preflight.errors import CatalogError, UsageError, nearest
from preflight.vocabulary.model import ModelSpec

__all__ = ["ModelFile", "find_model", "load_model", "model_file", "model_names", "resolve_model", "spec_from_config"]

KIND = "models"
# Endings that change weights or packing, not the network.
ENDINGS = (
    "-hf", "-chat", "-instruct", "-it", "-pt", "-base", "-bnb-4bit", "-unsloth", "-awq", "-gptq", "-bf16", "-fp16",
    "-v0.1", "-v1.0", "-2407", "-2411", "-sft", "-dpo", "-deduped",
)  # fmt: skip
_PREFIXES = ("torchvision.models.", "timm.", "timm/")


class ModelFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the catalog.

    Attributes:
        sources: Where the numbers were read.
        aliases: Other spellings.
        library: The library that offers the class: transformers, timm, torchvision, diffusers.
        class_name: The class or factory that the counts are for.
        parameters: Its exact count, shared parameters once, frozen ones included.
        base_parameters: The count without the head.
        config: A Hugging Face ``config.json``, as far as it differs from the defaults of its class.
        config_null: Keys of ``config`` that are null in the published file, where absence would mean the default.
        architecture: Fields of ModelSpec, for what no configuration describes.
    """

    sources: list[str]
    parameters: int
    library: str
    class_name: str
    aliases: list[str] = []
    base_parameters: int | None = None
    config: dict[str, Any] | None = None
    config_null: list[str] = []
    architecture: dict[str, Any] | None = None

    def configuration(self) -> dict[str, Any]:
        """Return ``config`` with its null keys; empty where the file holds an architecture instead."""
        return dict.fromkeys(self.config_null) | (self.config or {})


def model_names(extra: Folders = ()) -> tuple[str, ...]:
    """Return the names of all models, sorted."""
    return files.names(KIND, extra)


@lru_cache(maxsize=64)
def model_file(name: str, extra: Folders = ()) -> ModelFile:
    """Return one file of the catalog as it stands.

    Raises:
        CatalogError: There is none of that name, or it is wrong.
    """
    path = files.find(KIND, name, extra)
    if path is None:
        raise CatalogError(f"the catalog has no model '{name}'")
    content = files.convert(files.parse(path), ModelFile, path)
    if (content.config is None) == (content.architecture is None):
        raise CatalogError(f"{path}: give either [config] or [architecture]")
    return content


@lru_cache(maxsize=256)
def load_model(name: str, class_name: str | None = None, extra: Folders = ()) -> ModelSpec:
    """Return a model of the catalog.

    Args:
        name: A name of ``model_names``.
        class_name: The class that the script builds, where it is another than the file's:
            ``parameters`` then belong to it, and are None, with the reason, when it is not counted.
        extra: Folders of the user's own catalog, as a tuple.

    Raises:
        CatalogError: There is none of that name, or its file is wrong.
    """
    content = model_file(name, extra)
    if content.architecture is not None:
        return _explicit(name, content, class_name)
    spec = spec_from_config(content.configuration(), class_name or content.class_name)
    if spec is None:
        raise CatalogError(f"model '{name}': its [config] names no known model_type")
    spec = msgspec.structs.replace(spec, name=name, library=content.library)
    if class_name not in (None, content.class_name):
        return spec
    return msgspec.structs.replace(
        spec,
        parameters=content.parameters,
        base_parameters=content.base_parameters or spec.base_parameters,
        parameters_reason=None,
    )


def _explicit(name: str, content: ModelFile, class_name: str | None) -> ModelSpec:
    """Return a model whose fields stand in its file."""
    fields = dict(content.architecture or {}) | {
        "name": name,
        "library": content.library,
        "class_name": class_name or content.class_name,
    }
    if class_name in (None, content.class_name):
        fields |= {"parameters": content.parameters, "base_parameters": content.base_parameters}
    else:
        fields["parameters_reason"] = f"the catalog counts {content.class_name}, not {class_name}"
    return files.convert(fields, ModelSpec, f"model '{name}'")


def normal(text: str) -> str:
    """Return a spelling without case, outer spaces and the difference of ``_`` and ``-``."""
    return text.strip().lower().replace("_", "-")


class Index(msgspec.Struct, frozen=True):
    """All spellings as one text, so that finding one is a search in it and no file is parsed.

    Attributes:
        exact: '"a" "b"' and a new line for each file: its key, then its aliases.
        loose: The same with case and ``_`` or ``-`` made alike, position for position.
        starts: Where each file begins in the text.
        keys: The key of each file.
    """

    exact: str
    loose: str
    starts: list[int]
    keys: list[str]

    def owner(self, word: str, loose: bool) -> str | None:
        """Return the only model that has the spelling, with any organisation before it; None for none or several."""
        text = self.loose if loose else self.exact
        found: set[str] = set()
        for quoted in (f'"{word}"', f'/{word}"'):
            at = text.find(quoted)
            while at >= 0:
                found.add(self.keys[bisect_right(self.starts, at) - 1])
                at = text.find(quoted, at + 1)
        return found.pop() if len(found) == 1 else None


def _spellings(path: str) -> tuple[str, ...]:
    """Return the aliases of a file; they stand at its beginning, so that one block is read and no more."""
    with open(path, "rb", buffering=0) as file:
        head = file.read(4096)
    if b"\n]" in head or b'"]' in head:
        return files.plain_list(head.decode("utf-8", "ignore"), files.ALIASES)
    return files.aliases_of(path)


@lru_cache(maxsize=4)
def _index(extra: Folders) -> Index:
    parts: list[str] = []
    starts: list[int] = []
    keys: list[str] = []
    position = 0
    for name in model_names(extra):
        path = files.find(KIND, name, extra)
        spellings = (name, *(_spellings(path) if path else ()))
        part = '"' + '" "'.join(spellings) + '"\n'
        starts.append(position)
        keys.append(name)
        parts.append(part)
        position += len(part)
    text = "".join(parts)
    return Index(text, text.lower().replace("_", "-"), starts, keys)


def _candidates(text: str) -> Iterator[str]:
    """Yield the spellings to look for, the likeliest first."""
    word = normal(text).strip("/")
    yield word
    for prefix in _PREFIXES:
        word = word.removeprefix(prefix)
    yield word
    bare = word.rpartition("/")[2]
    yield bare
    before, dot, tag = bare.rpartition(".")
    if dot and tag[:1].isalpha():
        bare = before
        yield bare
    shortened = True
    while shortened:
        shortened = False
        for ending in ENDINGS:
            if bare.endswith(ending) and len(bare) > len(ending):
                bare, shortened = bare[: -len(ending)], True
                yield bare


@lru_cache(maxsize=256)
def find_name(text: str, extra: Folders = ()) -> str | None:
    """Return the catalog's name for a spelling, or None."""
    if not text.strip() or '"' in text or "\n" in text:
        return None
    word = text.strip()
    if files.find(KIND, word, extra):
        return word
    index = _index(extra)
    found = index.owner(word, loose=False)
    if found:
        return found
    for word in _candidates(text):
        found = word if files.find(KIND, word, extra) else index.owner(word, loose=True)
        if found:
            return found
    return None


def find_model(text: str, class_name: str | None = None, extra: Folders = ()) -> ModelSpec | None:
    """Return the model that a spelling means, or None when the catalog has none.

    Args:
        text: "meta-llama/Llama-2-7b-hf", "resnet50", "google-bert/bert-base-uncased" ...
        class_name: The class that the script builds from it, see ``load_model``.
        extra: Folders of the user's own catalog, as a tuple.
    """
    name = find_name(text, extra)
    return load_model(name, class_name, extra) if name else None


def near_name(text: str, extra: Folders = (), alike: float = 0.5) -> str | None:
    """Return the spelling of a model that is nearest to a text, or None where none is as near as ``alike`` (0 to 1)."""
    spellings = sorted({part.rpartition("/")[2] for part in _index(extra).loose.split('"')[1::2]})
    return nearest(normal(text).rpartition("/")[2], spellings, alike)


def resolve_model(text: str, class_name: str | None = None, extra: Folders = ()) -> ModelSpec:
    """Return the model that a spelling means.

    Raises:
        UsageError: The catalog has none; the hint names the nearest spelling.
    """
    spec = find_model(text, class_name, extra)
    if spec is not None:
        return spec
    close = near_name(text, extra)
    hint = f"did you mean '{close}'?" if close else "`preflight list models` shows the names; a config.json works too"
    raise UsageError(f"unknown model '{text}'", hint=hint)
