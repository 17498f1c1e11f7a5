"""The model: framework, family, parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.adapters import adapter_config
from preflight.source.architecture import architecture_of, networks_of
from preflight.source.facts.telling import place_of, unknown
from preflight.source.frozen import BY_CALL, Frozen, frozen_layers
from preflight.source.frozen_parts import frozen_parts
from preflight.source.launcher import Launch
from preflight.source.layers import Network
from preflight.source.values import Obj, Value, settle
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.finding import Location

if TYPE_CHECKING:
    from preflight.source.reading import Reading

_FRAMEWORKS = (
    ("trainer", "transformers"),
    ("engine", "deepspeed"),
    ("lightning_trainer", "lightning"),
    ("lightning_module", "lightning"),
    ("fabric", "fabric"),
    ("accelerator", "accelerate"),
)


def facts(reading: Reading, launch: Launch, gpus: int | None, known: dict[str, Fact]) -> dict[str, Fact]:
    """Facts of the network."""
    found = {"framework": framework_of(reading)}
    if not reading.models:
        return found | {
            k: unknown("no model was recognised")
            for k in ("model.family", "model.parameters", "model.trainable_parameters")
        }
    model = reading.models[0]
    place = place_of(model)
    several = networks_of(reading)
    if len(several) > 1:
        return found | _of_several(reading, several, place)
    spec, network = architecture_of(reading, model)
    how = (
        f"catalog {spec.name}"
        if spec is not None and spec.name
        else "layers of the script"
        if network is not None
        else "configuration"
    )
    if spec is not None:
        found["model.family"] = Fact(spec.family, place, how)
        if spec.name:
            found["model.name"] = Fact(spec.name, place, "catalog")
    else:
        found["model.family"] = unknown("the architecture was not recognised")
    total = spec.parameters if spec is not None else None
    if total is None and network is not None:
        total = network.total
    reason: str | None = (spec.parameters_reason if spec is not None else None) or (
        network.reason if network is not None else None
    )
    if total is None:
        reason = reason or f"{model.name} is not in the catalog"
        found["model.parameters"] = unknown(f"{reason}; a dry run would tell")
        found["model.trainable_parameters"] = unknown(f"{reason}; a dry run would tell")
        return found | _of_known_parts(reading, model, network, place)
    found["model.parameters"] = Fact(total, place, how)
    parts = frozen_parts(reading, model, spec) if spec is not None and network is None else None
    if parts is not None and parts.parameters < total:
        how = f"{how}, less the frozen ones"
        found["model.trainable_parameters"] = Fact(total - parts.parameters, place, how)
        found["model.frozen_blocks"] = Fact(parts.blocks, place, "frozen with all that stands before them")
    else:
        found["model.trainable_parameters"] = _trainable(reading, model, total, place, how)
    return found


def _of_known_parts(reading: Reading, model: Obj, network: Network | None, place: Location | None) -> dict[str, Fact]:
    """How many parameters the network has at least: those of the parts whose size is known."""
    least = network.least if network is not None and model.cls is not None else None
    if not least:
        return {}
    how = "layers of the script whose size is known"
    trained = _trainable(reading, None, least, place, how)
    return {"model.parameters_at_least": Fact(least, place, how)} | (
        {"model.trainable_parameters_at_least": trained} if trained.known and _updates_all(reading, model) else {}
    )


def _updates_all(reading: Reading, model: Obj) -> bool:
    """Whether each optimizer is given the parameters of the whole network: none of it is left without states."""
    optimizers = reading.made("optimizer")
    return bool(optimizers) and all(_are_of(one.argument(0, "params"), model) for one in optimizers)


def _are_of(given: Value | None, model: Obj) -> bool:
    """Whether parameters are those that ``model.parameters()`` gives."""
    asked = settle(given) if given is not None else None
    if not isinstance(asked, Obj) or asked.name != ".parameters" or asked.receiver is None:
        return False
    return settle(asked.receiver) is model


def _of_several(reading: Reading, several: list[tuple[Obj, Network]], place: Location | None) -> dict[str, Fact]:
    """Networks that are trained side by side: what they have together."""
    total = sum(network.total or 0 for _, network in several)
    names = dict.fromkeys(one.cls.qualname if one.cls is not None else one.name for one, _ in several)
    how = f"layers of the script, {len(several)} networks ({', '.join(names)})"
    return {
        "model.family": Fact("other", place, how),
        "model.parameters": Fact(total, place, how),
        "model.trainable_parameters": _trainable(reading, None, total, place, how),
    }


def _trainable(reading: Reading, model: Obj | None, total: int, place: Location | None, how: str) -> Fact:
    if any(adapter_config(trainer) is not None for trainer in reading.made("trainer")):
        return unknown("adapters are added; a dry run would tell how many parameters they have")
    if any(store.name == "requires_grad" for store in reading.trace.stores) or reading.trace.calls(
        ".requires_grad_", "peft.get_peft_model", ".freeze", ".freeze_base_model", *BY_CALL
    ):
        network = Network(reading, model) if model is not None else None
        frozen = frozen_layers(reading, network) if network is not None else Frozen(certain=False)
        if network is None or network.total != total or not frozen.certain:
            return unknown("some parameters are frozen or adapters are added; a dry run would tell how many")
        if frozen.parameters >= total:  # what trains is put in out of sight: adapters that a class was exchanged for
            return unknown("all parameters that were seen are frozen, so others are trained; a dry run would tell")
        total, how = total - frozen.parameters, f"{how}, less the frozen ones"
    return Fact(total, place, how)


def framework_of(reading: Reading) -> Fact:
    """Who runs the training loop."""
    for role, name in _FRAMEWORKS:
        made = reading.made(role)
        if made:
            return Fact(name, place_of(made[0]), "constructor")
    other = {
        "tensorflow": "tensorflow",
        "keras": "tensorflow",
        "jax": "jax",
        "flax": "jax",
        "haiku": "jax",
        "mxnet": "mxnet",
        "paddle": "paddle",
    }
    for first, name in other.items():
        if first in reading.imports and "torch" not in reading.imports:
            return Fact(name, None, "imports")
    if reading.loops:
        return Fact(
            "pytorch",
            reading.script.location(reading.loops[0].node) if reading.loops[0].node is not None else None,
            "training loop",
        )
    return unknown("no training was recognised")
