"""The page of a model of the catalog: what it is made of, how large, and a plan of it."""

from __future__ import annotations

from typing import Any

from preflight.cli.parts.documents import Document, Entry, Section, render
from preflight.cli.parts.writing import Writing

Catalog = tuple[str, ...]
_MADE_OF = {
    "layers": "blocks", "decoder_layers": "blocks of the decoder", "hidden": "width", "heads": "attention heads",
    "kv_heads": "heads of keys and values", "head_dim": "width of a head", "ffn": "width of the feed-forward layer",
    "activation": "activation", "norm": "normalisation", "experts": "experts of a layer",
    "experts_per_token": "experts of a token", "shared_experts": "shared experts", "expert_ffn": "width of an expert",
    "vocab": "vocabulary", "max_positions": "longest sequence", "image_size": "side of an image",
    "patch_size": "side of a patch", "tokens_per_image": "tokens of an image",
}  # fmt: skip
"""Fields of a ModelSpec that say what a network is made of, as a person calls them."""


def model_page(name: str, catalog: Catalog, look: Writing) -> str | None:
    """Return the page of the model that bears this name in the catalog; None where none does."""
    from preflight.catalog.architectures import load_model, model_file, model_names
    from preflight.cli.parts.tables import rows

    known = next((one for one in model_names(catalog) if one.lower() == name), None)
    if known is None:
        return None
    spec, file = load_model(known, extra=catalog), model_file(known, catalog)
    row = next(row for row in rows("models", (), catalog) if row["name"] == known)
    made = {field: getattr(spec, field, None) for field in _MADE_OF}
    made = {field: value for field, value in made.items() if value not in (None, 0, "")}
    sizes = {
        "parameters": spec.parameters,
        "without its head": spec.base_parameters,
        "for one token": spec.active_parameters,
    }
    document = Document(
        known,
        (f"{spec.class_name} of {spec.library}", f"a model of the catalog; {spec.family.replace('_', ' ')}"),
        sections=(
            Section("Parameters", tuple(_entry(what, value) for what, value in sizes.items() if value)),
            Section("What it is made of", tuple(_entry(_MADE_OF[field], value) for field, value in made.items())),
            Section("Also called", tuple(Entry(alias) for alias in file.aliases)),
            Section("Where its numbers were read", tuple(Entry(source) for source in file.sources)),
            Section(
                "To plan with it",
                (Entry("64 samples a step on eight GPUs", command=f"preflight plan {known} 64 --gpus 8"),),
            ),
        ),
    )
    values = {
        "schema": "preflight.row/1",
        "kind": "models",
        **row,
        "made_of": made,
        "aliases": file.aliases,
        "sources": file.sources,
    }
    return render(document, values, look)


def _entry(what: str, value: Any) -> Entry:
    """Return a line of a figure or a word."""
    return Entry(f"{what}: {value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{what}: {value}")
