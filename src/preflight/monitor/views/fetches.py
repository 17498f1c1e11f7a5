"""The batches of loaders in the windows of a run: which of them were trained on, and what is known of their loader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from preflight.monitor.window import Batch, Call, Window

_WITHOUT = ("nograd", "inference")
"""How a context begins in which no gradients are recorded."""


class Fetch(NamedTuple):
    """One batch that a loader gave.

    Attributes:
        batch: Its identity.
        call: The fetch.
        facts: What the loader said of itself when it was first used.
        trained: Whether a backward pass followed before the loader gave the next one, and what was computed before it
            was not some other batch's: an evaluation's last batch is not trained on by the step that comes after it, nor
            where the batch of that step had been fetched before, and nothing is trained on that was fetched where
            gradients are switched off.
    """

    batch: Batch
    call: Call | None
    facts: dict[str, Any]
    trained: bool

    @property
    def order(self) -> str:
        """In which order the loader gives its samples; empty where nobody knows."""
        return str(self.facts.get("order") or "")

    @property
    def batches(self) -> float | None:
        """How many batches an epoch has, as far as the sizes tell."""
        samples, size = self.facts.get("samples"), self.facts.get("batch_size")
        return samples / size if samples and size else None


class Fetches:
    """Follows the windows of one rank."""

    def __init__(self) -> None:
        self.facts: dict[str, dict[str, Any]] = {}

    def see(self, window: Window) -> Iterator[Fetch]:
        """The batches of a window, in order."""
        for call in window.named("loader.new"):
            self.facts[call.object] = call.args or {}
        given = [batch for batch in window.batches if not batch.loader.startswith("forward:")]
        if not given:
            return
        given.sort(key=lambda batch: batch.q)
        backwards = sorted(call.q for call in (*window.named("backward"), *window.named("autograd.grad")))
        forwards = [call.q for call in window.named("forward")]
        calls = {
            (call.object, (call.args or {}).get("epoch"), (call.args or {}).get("fetch")): call
            for call in window.named("fetch")
        }
        for position, batch in enumerate(given):
            until = next((one.q for one in given[position + 1 :] if one.loader == batch.loader), None)
            backward = next((q for q in backwards if q > batch.q), None)
            trained = backward is not None and (until is None or backward < until)
            if trained and backward is not None:
                consumed = next((q for q in forwards if q > batch.q), backward)
                trained = not any(consumed < one.q < backward for one in given[position + 1 :])
                trained = trained and not _measured(batch, given[:position], backward, window)
            fetched = calls.get((batch.loader, batch.epoch, batch.fetch))
            trained = trained and not (fetched is not None and (fetched.context or "").startswith(_WITHOUT))
            yield Fetch(batch, fetched, self.facts.get(batch.loader, {}), trained)


def _measured(batch: Batch, before: list[Batch], backward: int, window: Window) -> bool:
    """Whether a batch was only evaluated, between the fetch of another loader's batch and the training on that one.

    So it is where what was computed with it first recorded no gradients, and its loader came to its end after that, or that
    model was put into training mode again, before one trained on the other batch.
    """
    if all(one.loader == batch.loader for one in before):
        return False
    forwards = [call for call in window.named("forward") if batch.q < call.q < backward]
    if not forwards or not forwards[0].context.startswith(_WITHOUT):
        return False
    since = next((call.q for call in forwards if not call.context.startswith(_WITHOUT)), backward)
    ended = any(call.object == batch.loader and forwards[0].q < call.q < since for call in window.named("fetch"))
    back = (call for call in window.named("mode") if (call.args or {}).get("training"))
    measured = forwards[0].object.partition(".")[0]
    return ended or any(forwards[0].q < call.q < since for call in back if call.object.partition(".")[0] == measured)


def fetches_of(window: Window) -> list[Fetch]:
    """The batches of loaders in a window; the windows of a rank must be asked for in order."""
    if window.fetches is None:
        if window.run.fetched is None:
            window.run.fetched = Fetches()
        window.fetches = list(window.run.fetched.see(window))
    found: list[Fetch] = window.fetches
    return found


def content(batch: Batch) -> tuple[Any, ...] | None:
    """What tells one batch from another: fingerprints and shapes; None where a fingerprint is missing or says nothing."""
    if not batch.bits or any(bits is None for bits in batch.bits):
        return None
    if max((numel(shape) for shape in batch.shapes), default=0) < 8:
        return None
    return (tuple(batch.bits), tuple(tuple(shape) for shape in batch.shapes))


def numel(shape: list[int]) -> int:
    """How many elements a shape has."""
    product = 1
    for size in shape:
        product *= size
    return product
