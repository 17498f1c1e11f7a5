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
_EIGHT_BIT = 2 * (1 + 4 / 256)
# Blocks of 128 elements in torchao's 4-bit states: 0.5 + 4/128 bytes per state.
_FOUR_BIT = 2 * (0.5 + 4 / 128)
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
    "lion8bit": OptimizerState(bytes=_EIGHT_BIT / 2),
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
    "adam8bit": OptimizerState(bytes=_EIGHT_BIT),
    "adamw8bit": OptimizerState(bytes=_EIGHT_BIT),
    "adamwfp8": OptimizerState(bytes=_EIGHT_BIT),
    "adam4bit": OptimizerState(bytes=_FOUR_BIT),
    "adamw4bit": OptimizerState(bytes=_FOUR_BIT),
    "pagedadam": OptimizerState(full=2, paged=True),
    "pagedadamw": OptimizerState(full=2, paged=True),
    "pagedadam8bit": OptimizerState(bytes=_EIGHT_BIT, paged=True),
    "pagedadamw8bit": OptimizerState(bytes=_EIGHT_BIT, paged=True),
    "pagedlion": OptimizerState(full=1, paged=True),
    # torch.optim.LBFGS keeps history_size (100) pairs, the direction, the last gradient and the flat one.
    "lbfgs": OptimizerState(full=203, temporaries=2),
}

_WORDS = ("bnb.", "bitsandbytes.", "torch.optim.", "apex.", "deepspeed.", "fused", "torch", "hf", "ao", "_", "-", " ")


def known_optimizers() -> tuple[str, ...]:
    """Return the names whose states are known."""
    return tuple(sorted(_STATES))


def optimizer_state(name: str, momentum: float | None = None) -> OptimizerState | None:
    """Return what an optimizer keeps, or None when the name is not known.

    Spelling does not matter: ``torch.optim.AdamW``, ``adamw_torch_fused`` and ``AdamW`` are the same.

    Args:
        name: Name of the class or of the Trainer's option.
        momentum: Momentum of SGD or RMSprop; one more state where it is not zero.
    """
    key = name.lower().rpartition(".")[2]
    for word in _WORDS:
        key = key.replace(word, "")
    key = {"adamwbnb8bit": "adamw8bit", "adam8": "adam8bit", "adamw8": "adamw8bit", "adamwbnb": "adamw"}.get(key, key)
    state = _STATES.get(key)
    if state is not None and key in ("sgd", "rmsprop") and momentum:
        return msgspec.structs.replace(state, full=state.full + 1)
    if state is not None and state.bytes and not state.paged and "torchao" in name.lower():
        return msgspec.structs.replace(state, unpacked=_UNPACKED)
    return state
