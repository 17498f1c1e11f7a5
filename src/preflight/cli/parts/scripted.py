"""What a training script says about its run, as settings of a plan: the join of reading and planning."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from preflight.cost.saved import missing_inputs
from preflight.errors import InputError, UsageError
from preflight.plan.inputs.model import Chosen
from preflight.plan.inputs.settings import Said, Settings
from preflight.plan.request import Measured
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.quantity import format_parameters
from preflight.vocabulary.run import ParallelDims, RunSpec

if TYPE_CHECKING:
    from preflight.source.reading import Reading

# Fields of a run, the key of the settings that says the same, and the fact that has its place in the script.
_FIELDS = (
    ("micro_batch", "run.micro_batch", "batch.micro"),
    ("gradient_accumulation", "run.gradient_accumulation", "gradient_accumulation"),
    ("sequence_length", "model.sequence_length", "sequence_length"),
    ("image_size", "model.image_size", "image_size"),
    ("precision", "run.precision", "precision"),
    ("optimizer", "run.optimizer", "optimizer.name"),
    ("optimizer_momentum", "run.optimizer_momentum", "optimizer.name"),
    ("trainable_parameters", "run.trainable_parameters", "model.trainable_parameters"),
    ("frozen_beside", "run.frozen_beside", "model.frozen_beside"),
    ("steps", "run.steps", "steps"),
    ("attention", "run.attention", None),
    ("recompute", "run.recompute", None),
    ("stack", "run.stack", None),
    ("finetune", "run.finetune", None),
    ("variable_length", "run.variable_length", None),
    ("logits_upcast", "run.logits_upcast", None),
    ("loss_compiled", "run.loss_compiled", None),
    ("foreach", "run.foreach", None),
    ("clipping", "run.clipping", None),
    ("evaluation_micro_batch", "run.evaluation_micro_batch", None),
)
_STRATEGIES = {"ddp": "data_parallel", "dp": "data_parallel", "fsdp1": "fsdp", "fsdp2": "fsdp"}
_TOLD = {
    "batch.micro": "batch",
    "optimizer.name": "optimizer",
    "sequence_length": "sequence length",
    "image_size": "image size",
}
_WITHOUT_LENGTH = ("cnn", "mlp")
"""Families of networks that take no sequences."""


class Scripted(msgspec.Struct, frozen=True):
    """What a script says: settings with their lines, its model, and what it does not say."""

    settings: Settings
    model: Chosen | None = None
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    measured: Measured | None = None


def told_by(
    path: str,
    arguments: tuple[str, ...] | None,
    gpus: int | None,
    catalog: tuple[str, ...],
    run_for: str | None = None,
    named: bool = False,
) -> Scripted:
    """Read a script as settings of a plan; it is run only where a GPU to run it for is named.

    Args:
        path: The script.
        arguments: Its own command line.
        gpus: How many GPUs are planned for, which the script sees as its world.
        catalog: Folders of the user's own catalog.
        run_for: The GPU that a dry run simulates; None leaves it out.
        named: Whether the model is named beside the script, so that the script need not tell it.

    Raises:
        InputError: The script cannot be read, or no training with a known model was recognised in it.
    """
    from preflight.check.specs import longest, model_spec, parallel_dims, run_spec
    from preflight.source.facts.gather import gather
    from preflight.source.launcher import Launch

    launch = Launch(framework="torchrun", gpus_per_node=gpus) if gpus and gpus > 1 else Launch()
    reading = _read(path, arguments, launch.variables() if gpus and gpus > 1 else {}, catalog)
    facts = gather(reading, launch, gpus)
    model = model_spec(reading, facts)
    facts |= longest(reading, facts, model)
    _refuse_others(path, facts)
    seen = None
    if run_for is not None:
        from preflight.cli.parts.dry_runs import seen_of

        seen = seen_of(path, arguments, run_for, catalog)
        facts, model = {**facts, **seen.facts}, seen.model_for(model)
    if named:
        model, seen = None, None
    elif model is None or model.parameters is None:
        raise _not_known(path, facts)
    run, dims = run_spec(reading, facts, model), parallel_dims(reading, facts)
    said = _run(run, facts, path, model) | _spread(dims, facts, path)
    if seen is not None and seen.micro_batch is not None:
        said.setdefault("run.micro_batch", Said(seen.micro_batch, path))
    missing = _missing(said, facts, path, gpus, model)
    if model is None:
        return Scripted(Settings(said), None, missing)
    title = f"{os.path.basename(path)} ({model.name or model.family}, {format_parameters(model.parameters or 0)})"
    if seen is None:
        return Scripted(Settings(said), Chosen(model, title), missing, _would_tell(model, run))
    return Scripted(Settings(said), Chosen(model, title), missing, seen.notes, seen.measured)


def _refuse_others(path: str, facts: dict[str, Fact]) -> None:
    """Refuse a script that trains nothing, or with another framework."""
    from preflight.check.verdict import OTHER_FRAMEWORKS, framework_of

    framework = framework_of(facts)
    if framework in OTHER_FRAMEWORKS:
        raise InputError(f"{path} trains with {framework}: only PyTorch is planned")
    if framework is None:
        raise InputError(f"{path}: no training was recognised", "preflight check says what it sees in the script")


def _not_known(path: str, facts: dict[str, Fact]) -> InputError:
    reason = facts["model.parameters"].reason or "the size of the model is not known"
    hint = "name the model with --model, give the script its own arguments after --, or add --dry-run"
    return InputError(f"{path}: {reason}", hint)


def _would_tell(model: ModelSpec, run: RunSpec) -> tuple[str, ...]:
    """Return the advice to run the script, where its layers are what is not known."""
    unknown = missing_inputs(model, msgspec.structs.replace(run, micro_batch=run.micro_batch or 1))
    if unknown is None or not unknown.startswith("what the layers keep"):
        return ()
    return (f"{unknown} from reading alone: --dry-run runs the script on a virtual GPU, and tells",)


def _read(
    path: str, arguments: tuple[str, ...] | None, environment: dict[str, Any], catalog: tuple[str, ...]
) -> Reading:
    from pathlib import Path

    from preflight.source.reading import read
    from preflight.source.script import read_script

    if os.path.isdir(path):
        raise UsageError(f"--script {path}: is a folder", "name the script that trains")
    reading = read(read_script(Path(path)), arguments, environment, None)
    reading.project.catalog = catalog
    return reading


def _run(run: RunSpec, facts: dict[str, Fact], path: str, model: ModelSpec | None) -> dict[str, Said]:
    """Return what is known of the run; a default of the formulas is no fact and is left out."""
    found: dict[str, Said] = {}
    for field, key, fact_key in _FIELDS:
        value = getattr(run, field)
        fact = facts.get(fact_key) if fact_key else None
        if value is None or (fact_key and fact is not None and not fact.known):
            continue
        if field == "sequence_length" and model is not None and not model.vocab:
            continue
        if field == "frozen_beside" and not value:
            continue
        if field == "trainable_parameters" and (model is None or value == model.parameters):
            continue
        found[key] = Said(value, _where(fact, path))
    if run.finetune in ("lora", "qlora"):
        table = {"rank": run.lora_rank, "targets": list(run.lora_targets), "dropout": run.lora_dropout}
        inner = {name: Said(value, path) for name, value in table.items() if value is not None}
        found["run.lora"] = Said(inner, path)
    return found


def _spread(dims: ParallelDims, facts: dict[str, Fact], path: str) -> dict[str, Said]:
    """Return how the script spreads itself, where it does."""
    fact = facts["distributed.strategy"]
    name = fact.value
    if not isinstance(name, str):
        return {}
    where = _where(fact, path)
    strategy = _STRATEGIES.get(name, name if name in ("zero1", "zero2", "zero3") else None)
    found = {"distribution.strategy": Said(strategy, where)} if strategy else {}
    if name in ("fsdp1", "fsdp2", "ddp"):
        found["distribution.framework"] = Said(name, where)
    if name in ("fsdp1", "fsdp2") and dims.zero_stage == 2:
        found["distribution.zero_stage"] = Said(2, where)
    return found


def _where(fact: Fact | None, path: str) -> str:
    place = fact.location if fact is not None else None
    return f"{place.path}:{place.line}" if place is not None and place.path and place.line else path


def _missing(
    said: dict[str, Said], facts: dict[str, Fact], path: str, gpus: int | None, model: ModelSpec | None
) -> tuple[str, ...]:
    """Return a sentence for each thing that the script does not say, and that its network asks for."""
    found = []
    for fact_key, word in _TOLD.items():
        if fact_key == "sequence_length" and model is not None and model.family in _WITHOUT_LENGTH:
            continue
        fact = facts[fact_key]
        key = next(key for _, key, other in _FIELDS if other == fact_key)
        if key not in said and fact_key != "image_size" and fact.reason:
            found.append(f"{path} does not tell its {word}: {fact.reason}")
    if (gpus or 1) > 1 and "distribution.strategy" not in said:
        found.append(f"{path} does not spread itself over GPUs: data parallel (DDP) is assumed")
    return tuple(found)
