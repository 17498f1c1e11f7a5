"""What optimizers keep per parameter."""

from __future__ import annotations

import msgspec


class OptimizerState(msgspec.Struct, frozen=True, kw_only=True):
    """States of an optimizer, per parameter.

    Attributes:
        full: Tensors of the size of the parameters in the state's dtype.
        bytes: Bytes per parameter on top, whatever the dtype (quantised states with their scales).
        factored: Whether a matrix keeps one row and one column instead of itself.
        at_construction: Whether the states exist before the first step.
        temporaries: Tensors of the size of the parameters that a multi-tensor step allocates.
        unpacked: Bytes per element of the largest parameter that its own step takes for a moment.
        paged: Whether the states lie in managed memory, which torch's allocator does not count.
    """

    full: float = 0.0
    bytes: float = 0.0
    factored: bool = False
    at_construction: bool = False
    temporaries: float = 0.0
    unpacked: float = 0.0
    paged: bool = False


# Blocks of 256 elements carry one fp32 scale in bitsandbytes and torchao: 1 + 4/256 bytes per 8-bit state.
_EIGHT_BIT = 1 + 4 / 256
# Blocks of 128 elements in torchao's 4-bit states: 0.5 + 4/128 bytes per state.
_FOUR_BIT = 0.5 + 4 / 128
_TWO = OptimizerState(full=2, temporaries=1)
_ONE = OptimizerState(full=1)

# torchao steps one parameter after the other, with the weight and both moments unpacked to fp32 (torchao/optim/adam.py).
_UNPACKED = 3 * 4.0

# torch.optim: the tensors that each class puts into ``self.state``; others: their published implementations.
_STATES = {
    "none": OptimizerState(),
    "sgd": OptimizerState(),
    "adam": _TWO,
    "adamw": _TWO,
    "nadam": _TWO,
    "radam": _TWO,
    "adamax": _TWO,
    "adabelief": _TWO,
    "amsgrad": OptimizerState(full=3, temporaries=1),
    "adan": OptimizerState(full=4, temporaries=1),
    "ademamix": OptimizerState(full=3, temporaries=1),
    "adadelta": _TWO,
    "adagrad": OptimizerState(full=1, at_construction=True, temporaries=1),
    "asgd": _ONE,
    "rprop": OptimizerState(full=2),
    "rmsprop": OptimizerState(full=1, temporaries=1),
    "lamb": OptimizerState(full=2, temporaries=2),
    "lars": _ONE,
    "lion": _ONE,
    "muon": _ONE,
    "novograd": _ONE,
    "signum": _ONE,
    "sophia": _TWO,
    "sophiag": _TWO,
    "adafactor": OptimizerState(factored=True, temporaries=1),
    "came": OptimizerState(full=1, factored=True, temporaries=1),
    "schedulefreeadamw": _TWO,
    "adamwschedulefree": _TWO,
    "schedulefreesgd": _ONE,
    "sgdschedulefree": _ONE,
    "adamwfp8": OptimizerState(bytes=2 * _EIGHT_BIT),
    "adam4bit": OptimizerState(bytes=2 * _FOUR_BIT),
    "adamw4bit": OptimizerState(bytes=2 * _FOUR_BIT),
    # torch.optim.LBFGS keeps history_size (100) pairs, the direction, the last gradient and the flat one.
    "lbfgs": OptimizerState(full=203, temporaries=2),
}

# bitsandbytes: how many states each of its optimizers keeps, in 8 bits, in fp32, or paged.
_BITSANDBYTES = {"adam": 2, "adamw": 2, "lion": 1, "rmsprop": 1, "adagrad": 1, "ademamix": 3}
for _name, _count in _BITSANDBYTES.items():
    for _bits, _bytes in (("8bit", _EIGHT_BIT), ("32bit", 4.0)):
        _STATES[f"{_name}{_bits}"] = OptimizerState(bytes=_count * _bytes)
        _STATES[f"paged{_name}{_bits}"] = OptimizerState(bytes=_count * _bytes, paged=True)
    _STATES[f"paged{_name}"] = OptimizerState(full=_count, paged=True)

# What says who wrote an optimizer or how its step is computed, not what it keeps.
_WORDS = ("fused", "torch", "apex", "deepspeed", "bnb", "hf", "ao", "_", "-", " ")
_ALIASES = {
    "adam8": "adam8bit",
    "adamw8": "adamw8bit",
    "bertadam": "adamw",
    "cpuadam": "adam",
    "momentum": "sgd",
    "nesterov": "sgd",
    "zeroredundancyoptimizer": "adam",
}


def known_optimizers() -> tuple[str, ...]:
    """Return the names whose states are known."""
    return tuple(sorted(_STATES))


def optimizer_key(name: str) -> str:
    """Return the one spelling of an optimizer's name: that of the known ones, where it is one of them.

    ``torch.optim.AdamW``, ``adamw_torch_fused``, ``adamw_hf`` and ``AdamW`` are all ``adamw``.

    Args:
        name: Name of a class, of an option of TrainingArguments or of timm.
    """
    key = name.lower().rpartition(".")[2]
    for word in _WORDS:
        key = key.replace(word, "")
    return _ALIASES.get(key, key)


def optimizer_state(name: str, momentum: float | None = None) -> OptimizerState | None:
    """Return what an optimizer keeps, or None when the name is not known.

    Args:
        name: Its name, in any spelling that ``optimizer_key`` takes.
        momentum: Momentum of SGD or RMSprop; one more state where it is not zero.
    """
    key = optimizer_key(name)
    state = _STATES.get(key)
    if state is not None and key in ("sgd", "rmsprop") and momentum:
        return msgspec.structs.replace(state, full=state.full + 1)
    if state is not None and state.bytes and not state.paged and "torchao" in name.lower():
        return msgspec.structs.replace(state, unpacked=_UNPACKED)
    return state
