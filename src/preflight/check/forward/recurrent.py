"""Recurrent layers, as cuDNN runs them: one kernel over all steps, with a reserve for its backward pass."""

from __future__ import annotations

from preflight.check.forward.operation import Operation, rule
from preflight.check.forward.tensors import Result
from preflight.dryrun.virtual.reserve import reserved_values

_MODES = {
    "RNN": "rnn_tanh",
    "LSTM": "lstm",
    "GRU": "gru",
}  # of a plain layer the non-linearity makes no difference here


@rule("nn.LSTM", "nn.GRU", "nn.RNN")
def recurrent(one: Operation) -> Result:
    """The input, the result and the reserve are kept."""
    source, hidden = one.input, one.number(1, "hidden_size")
    layers = one.number(2, "num_layers", 1)
    if source is None or hidden is None or layers is None or one.layer is None or len(source.shape) != 3:
        return None
    kind = one.name[3:]
    later = 1 if kind == "RNN" else 0  # RNN's fourth argument is the non-linearity
    batch_first = one.flag(4 + later, "batch_first")
    directions = 2 if one.flag(6 + later, "bidirectional") else 1
    projected = one.number(7, "proj_size", 0) if kind == "LSTM" else 0
    width = projected or hidden
    tokens, samples = source.shape[0] * source.shape[1], source.shape[0 if batch_first else 1]
    one.keep(one.first)
    out = one.makes((*source.shape[:2], directions * width), graded=True)
    one.keep(out)
    one.keep_more(tokens * reserved_values(_MODES[kind], layers, directions, hidden, width))
    state = one.makes((layers * directions, samples, width), graded=True)
    if kind != "LSTM":
        return out, state
    return out, (state, one.makes((layers * directions, samples, hidden), graded=True))


@rule("nn.LSTMCell", "nn.GRUCell", "nn.RNNCell")
def cell(one: Operation) -> Result:
    """One step: the input, the state and a workspace of as many values as there are gates are kept."""
    source, hidden = one.input, one.number(1, "hidden_size")
    if source is None or hidden is None or not source.shape:
        return None
    gates = {"nn.LSTMCell": 4, "nn.GRUCell": 5, "nn.RNNCell": 1}[one.name]
    one.keep(one.first)
    shape = (*source.shape[:-1], hidden)
    out = one.makes(shape, graded=True)
    one.keep(out)
    one.keep_more(gates * hidden * source.elements / source.shape[-1])
    if one.name != "nn.LSTMCell":
        return out
    state = one.makes(shape, graded=True)
    one.keep(state)
    return out, state
