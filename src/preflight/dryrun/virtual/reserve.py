"""What cuDNN keeps for the backward pass of recurrent layers, beside their input and result."""

from __future__ import annotations

_RESERVED = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 5, "gru": 6}
"""Values of a hidden unit that cuDNN's reserve space holds of a step, beside what goes from layer to layer.

cuDNN does not document it. For four layers of 320 units and 25,000 tokens in fp32 it asked for 736,000,000 bytes (LSTM)
and 864,000,000 (GRU) (github.com/pytorch/pytorch/issues/2895): 4 * 320 * 5 + 3 * 320 and 4 * 320 * 6 + 3 * 320 values a token.
The tokens are inferred: no other number of them gives whole values. A plain layer cannot have less than its result."""


def reserved_values(mode: str, layers: int, directions: int, hidden: int, width: int) -> int:
    """Return how many values of a token cuDNN's reserve space holds.

    Args:
        mode: ``rnn_relu``, ``rnn_tanh``, ``lstm`` or ``gru``.
        layers: Layers on top of each other.
        directions: 2 where both directions are read, else 1.
        hidden: Hidden units of a direction.
        width: Values that a direction hands on: ``hidden``, or what they are projected to.
    """
    return layers * directions * _RESERVED[mode] * hidden + (layers - 1) * directions * width
