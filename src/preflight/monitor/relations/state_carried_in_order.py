"""A state that is carried on goes to what follows."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import fetches_of
from preflight.monitor.window import Call, Window

_IN_A_ROW = 2
_SHUFFLED = ("random", "distributed random", "drawn")
_RECURRENT = frozenset({"LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"})


class StateCarriedInOrder(Relation):
    """The state of a recurrent network is carried from batch to batch only where the loader keeps the order.

    Truncated backpropagation hands the state at the end of one piece of a sequence to the next piece. Where the loader
    shuffles, the next batch continues other sequences: the network begins each with the memory of another one.
    Judged are models with a recurrent layer that were given back what they gave out at the pass before, for as many
    samples, in two steps in a row, with a batch of a shuffling loader for each. Of a step the first pass of a model is
    judged: at those after it a decoder that is called for one position after another goes on within the same batch.
    """

    name = "state-carried-in-order"
    category = "data"
    needs = frozenset({"forward", "module", "backward", "fetch", "batch", "carried"})
    follows = (fetches_of,)
    wakes = frozenset({"carried"})
    whole = False
    priority = 8
    cause = "shuffle=True in the loader of a network whose state is carried over batches"
    advice = "load the pieces in order (a batch sampler that keeps each sequence in its row), or begin each batch without a state"

    def __init__(self) -> None:
        self._count: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        passes = [call for call in window.named("forward") if (call.args or {}).get("carried") is not None]
        if not passes or not window.named("backward"):
            return
        shuffled = any(fetch.trained and fetch.order in _SHUFFLED for fetch in fetches_of(window))
        first: dict[str, Call] = {}
        for call in passes:
            first.setdefault(call.object, call)
        for name, call in first.items():
            carried = bool((call.args or {}).get("carried")) and shuffled and _recurrent(call, window)
            count = self._count[name] = self._count.get(name, 0) + 1 if carried else 0
            wrong = count >= _IN_A_ROW
            yield Example(
                (),
                not wrong,
                {},
                variables=(name,) if wrong else (),
                expected="batches that go on where the ones before ended",
                seen="batches of a shuffling loader" if wrong else None,
                call=call,
                detail=f"{name} goes on with the state of other sequences" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run("sequential", True)
        yield _run("random", False)
        yield _run("random", False, within=True)  # a decoder, called for one position after another

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run("random", True)
        yield _run("random", True, within=True)


def _recurrent(call: Call, window: Window) -> bool:
    """Whether a model has a recurrent layer, or is one."""
    root = call.object.split(".")[0]
    within = (one for one in window.named("module") if one.object.split(".")[0] == root)
    return any(_type(one.args) in _RECURRENT for one in (call, *within))


def _type(args: dict[str, object] | None) -> object:
    return (args or {}).get("type")


def _run(order: str, carried: bool, within: bool = False) -> list[Window]:
    """Four steps of a recurrent model; ``within`` with a second pass in each, which goes on where the first ended."""
    mini = Mini({"model.rnn.weight_ih_l0": {}})
    windows = []
    for number in range(4):
        new = [("loader.new loader0", {"args": {"order": order}})] if not number else []
        fetch = ("fetch loader0", {"args": {"epoch": 0, "fetch": number}})
        given = ("forward model", {"args": {"carried": carried and number > 0, "training": True}})
        layer = ("module model.rnn", {"args": {"type": "LSTM", "training": True}})
        again = [("forward model", {"args": {"carried": True, "training": True}}), layer] if within else []
        rows = (fetch, ("batch", {"fetch": number}), given, layer, *again, "backward", "step optimizer0:SGD")
        windows.append(mini.window(*new, *rows))
    return windows
