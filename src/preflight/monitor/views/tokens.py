"""How the targets of a loss over tokens lie to its inputs, as the recorder tells it of a few backward passes."""

from __future__ import annotations

from typing import Any, NamedTuple

from preflight.monitor.window import Call, Number, Window

PREFIX = "tokens."
ALMOST = 0.98


class Look(NamedTuple):
    """What was seen of one table of tokens at one backward pass; shares, None where there was nothing to compare.

    Without a table it is what was seen of attentions, and of tokens that a loop of the program reads one by one.

    Attributes:
        place: Where the backward pass is in the code.
        call: The backward pass.
        same: Of the targets that count, the share that is the input at the same position.
        next: That is the next input.
        second: That is the one after the next.
        future: Of the positions that have a target, the share that attention lets see the next position.
        attended: Of the padding, the share that attention lets a real token see.
        learnt: Of the padding behind its first token, the share that is a target.
        row: 1 where all positions that count look up the same row of the table, or that of the positions added to it is read
            at its first row by all.
        straight: 1 where what the table gives for a position goes into what is said at that position.
        forward: 1 where it does so through a recurrent layer that knows what was before.
        picked: As ``same``, where the targets that count are few and lie apart.
        turned: 1 where samples and positions change places on that way.
        crossed: 1 where a table that is added to this one is read at a row for each sample, counted from the first.
        crosswise: 1 where weights of an attention sum to one over another axis than they go over, 0 where none does.
        swapped: Of the targets, the share that is the next input if they lie positions first, where what is said of the
            inputs is known to lie samples first.
        jumbled: Where the targets are a table of samples and positions that is read as it lies, 1 where samples and positions
            of the inputs change places on every way to what is said, through layers that go both ways too; 0 where not.
    """

    place: str
    call: Call | None
    same: float | None = None
    next: float | None = None
    second: float | None = None
    future: float | None = None
    attended: float | None = None
    learnt: float | None = None
    row: float | None = None
    straight: float | None = None
    forward: float | None = None
    turned: float | None = None
    picked: float | None = None
    crossed: float | None = None
    crosswise: float | None = None
    swapped: float | None = None
    jumbled: float | None = None

    @property
    def follows(self) -> bool:
        """Whether the loss teaches to tell the next token."""
        return (self.next or 0.0) >= ALMOST


def looks_of(window: Window) -> list[Look]:
    """What was seen in a window: of each backward pass its tables, in order."""
    found: dict[tuple[int, str], dict[str, Any]] = {}
    passes = window.named("backward")
    for one in window.numbers:
        if one.name.startswith(PREFIX) and one.value is not None:
            call = _pass(one, passes)
            key = (call.q if call is not None else -1, one.object)
            told = found.setdefault(key, {"place": one.object.rpartition("#")[0], "call": call})
            told[one.name[len(PREFIX) :]] = one.value
    return [Look(**told) for told in found.values()]


def _pass(number: Number, passes: list[Call]) -> Call | None:
    """The backward pass during whose beginning a number was taken."""
    return next((call for call in reversed(passes) if call.q < number.q), None)


def together(looks: list[Look]) -> dict[int, list[Look]]:
    """Looks by backward pass: the tables of one model, or of several that a loss compares."""
    found: dict[int, list[Look]] = {}
    for look in looks:
        found.setdefault(look.call.q if look.call is not None else -1, []).append(look)
    return found


def told(place: str, table: int = 0, **shares: float) -> list[tuple[str, str, str, float]]:
    """Rows of a small trace for one table."""
    return [("scalar", f"{PREFIX}{name}", f"{place}#{table}", value) for name, value in shares.items()]
