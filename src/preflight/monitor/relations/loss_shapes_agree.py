"""Predictions and targets of a loss have the same shape."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class LossShapesAgree(Relation):
    """A loss that compares element by element does not stretch its target or its prediction to a third shape.

    PyTorch says so once where it happens, as a warning that is easily lost in a long output: with predictions of
    shape (N, 1) and targets of shape (N,) each prediction is compared with every target.
    """

    name = "loss-shapes-agree"
    needs = frozenset({"warning", "backward"})
    wakes = frozenset({"backward", "note warning"})
    priority = 4
    cause = "predictions have a dimension of size one that the targets lack, so that both are stretched to a square"
    advice = "squeeze the predictions or unsqueeze the targets so that both have the same shape"

    def see(self, window: Window) -> Iterator[Example]:
        told = [
            one
            for one in window.notes.get("warning", ())
            if one["message"].startswith("Using a target size (torch.Size")
        ]
        passes = window.named("backward")
        if not passes and not told:
            return
        yield Example(
            (),
            not told,
            {},
            variables=("loss",) if told else (),
            expected="a target of the size of the input",
            seen=told[0]["message"].partition(". ")[0] if told else None,
            call=passes[0] if passes else None,
            detail="The loss compares tensors of different shapes, which are stretched to a third one" if told else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield [Mini().window("backward")]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        message = "Using a target size (torch.Size([8])) that is different to the input size (torch.Size([8, 1])). This"
        yield [Mini().window(("note", "warning", {"message": message}), "backward")]
