"""All facts of a reading, by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.facts import batch, data, network, optimization, parallel, precision
from preflight.source.launcher import Launch
from preflight.vocabulary.fact import Fact

if TYPE_CHECKING:
    from preflight.source.reading import Reading

KEYS = (
    "framework",
    "model.family",
    "model.parameters",
    "model.trainable_parameters",
    "optimizer.name",
    "optimizer.lr",
    "precision",
    "batch.micro",
    "batch.global",
    "sequence_length",
    "image_size",
    "gradient_accumulation",
    "distributed.strategy",
    "world_size",
    "scheduler",
    "gradient_clipping",
    "dataloader.num_workers",
    "steps",
)


def gather(reading: Reading, launch: Launch, gpus: int | None) -> dict[str, Fact]:
    """Tell the facts; each key of ``KEYS`` is there, known or with its reason."""
    facts: dict[str, Fact] = {}
    for module in (network, optimization, precision, parallel, data, batch):
        facts.update(module.facts(reading, launch, gpus, facts))
    return {key: facts.get(key) or Fact(reason="not found in the script") for key in KEYS} | {
        key: fact for key, fact in facts.items() if key not in KEYS
    }
