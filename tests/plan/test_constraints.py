"""Every constraint holds what its own examples say, for numbers and for columns."""

from __future__ import annotations

import importlib
from typing import Any

import msgspec
import numpy
import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.plan.constraint import Example, Layout, Loaded, load_constraints, violated
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec

_DEGREES = ("dp_replicate", "dp_shard", "cp", "tp", "pp", "vp", "ep")


def _layout(example: Example) -> Layout:
    model: dict[str, Any] = {
        "family": "transformer_decoder",
        "layers": 32,
        "hidden": 4096,
        "heads": 32,
        "ffn": 11008,
        "vocab": 32000,
        "gated": True,
        "activation": "silu",
        "norm": "rmsnorm",
        "bias": False,
        "tied_embeddings": False,
        **example.model,
    }
    run: dict[str, Any] = {"global_batch": 64, "micro_batch": 1, "sequence_length": 4096, **example.run}
    parallel = ParallelDims(**example.parallel)
    cluster = Cluster(gpu=resolve_gpu("h100"), num_gpus=parallel.world_size, gpus_per_node=example.gpus_per_node)
    return Layout(model=ModelSpec(**model), run=RunSpec(**run), parallel=parallel, cluster=cluster)


def _examples(kind: str) -> list[tuple[Loaded, Example]]:
    return [(c, e) for c in load_constraints() for e in getattr(importlib.import_module(c.module), kind)]


def _name(value: object) -> str:
    return value.constraint.name if isinstance(value, Loaded) else ""


@pytest.mark.parametrize(("loaded", "example"), _examples("GOOD"), ids=_name)
def test_a_good_example_holds(loaded: Loaded, example: Example) -> None:
    assert loaded.holds(_layout(example))


@pytest.mark.parametrize(("loaded", "example"), _examples("BAD"), ids=_name)
def test_a_bad_example_is_refused_with_its_numbers(loaded: Loaded, example: Example) -> None:
    layout = _layout(example)
    assert not loaded.holds(layout)
    said = loaded.reason(layout)
    assert any(letter.isdigit() for letter in said)
    assert said[0].islower() or said[0].isdigit() or said.startswith("DeepSpeed")
    assert not said.endswith(".")
    hint = loaded.hint(layout)
    assert hint is None or hint


@pytest.mark.parametrize(("loaded", "example"), [*_examples("GOOD"), *_examples("BAD")], ids=_name)
def test_columns_say_what_numbers_say(loaded: Loaded, example: Example) -> None:
    one = _layout(example)
    degrees = {name: numpy.array([1.0, float(getattr(one.parallel, name))])[:, None] for name in _DEGREES}
    micro = numpy.array([[1.0, float(one.run.micro_batch or 1)]])
    many = msgspec.structs.replace(
        one,
        parallel=msgspec.structs.replace(one.parallel, **degrees),
        run=msgspec.structs.replace(one.run, micro_batch=micro),
    )
    held = numpy.broadcast_to(loaded.holds(many), (2, 2))
    assert bool(held[1, 1]) == bool(loaded.holds(one))


@pytest.mark.parametrize("loaded", load_constraints(), ids=_name)
def test_a_constraint_has_a_page_a_sentence_and_three_examples_of_each_kind(loaded: Loaded) -> None:
    module = importlib.import_module(loaded.module)
    title, _, page = (module.__doc__ or "").partition("\n")
    assert title.endswith(".")
    assert len(page) > 100
    assert loaded.constraint.sentence
    assert len(module.GOOD) >= 3
    assert len(module.BAD) >= 3


def test_names_are_different() -> None:
    names = [loaded.constraint.name for loaded in load_constraints()]
    assert len(set(names)) == len(names) > 10


def test_what_is_unwise_is_no_error_of_a_plan() -> None:
    layout = _layout(Example(parallel={"tp": 2, "cp": 1, "dp_shard": 12, "pp": 1}, gpus_per_node=3))
    layout = msgspec.structs.replace(layout, run=msgspec.structs.replace(layout.run, global_batch=48))
    assert violated(layout) is None
    found = violated(layout, ("impossible", "unwise"))
    assert found is not None
    assert found.constraint.name == "groups-astride-nodes"
