"""What is read in another shape keeps together what belongs together."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Number, Window

_NAME = "views.torn"
_AXES = {
    "samples": "the samples, which lie in its second axis, each in a row of its own",
    "rows": "the samples, which lie in its first axis, in the rows, where they are",
    "channels": "the channels, which lie in its second axis, in the last one",
    "classes": "the classes, which lie in its last axis, in the second one",
    "heads": "the positions, which lie in its second axis, there still, and exchanged with the heads afterwards",
    "steps": "the first two axes exchanged, not read with each other's size",
}


class ViewsKeepAxes(Relation):
    """A tensor that is read in another shape has its axes in the order in which they lie.

    ``view`` and ``reshape`` exchange no axes: they only say anew where a row ends. The last hidden states of a recurrent
    layer lie layers first, and ``h.view(batch, -1)`` gives each sample the state of others. The output of a convolution
    lies channels first, and ``x.view(batch, -1, channels)`` puts neighbours of one channel in the place of the channels of
    one pixel. ``q.view(batch, heads, length, -1)`` of what a linear layer gave makes each head a stretch of positions, and
    ``x.view(length, batch, -1)`` before a layer that reads sequences mixes the steps of several samples. All sizes fit, and the loss falls to what can be learnt from the mixture.
    Judged is what goes into the parts of a model that is trained, and into ``cross_entropy``, where it is a view of a whole
    tensor that lies in one piece. It is broken where the first axis has as many rows as the model was given samples while
    these were the second axis of what was made; where the last axis has as many as a convolution has channels, behind an
    axis for all places or in the rows of a loss; and where the classes of a loss are the last axis of what a linear layer
    gave; where queries or keys with an axis for heads were read from what has positions before features, with no exchange of
    axes in between; where samples that came first were cut into columns, which were turned round to be the samples
    (``x.view(-1, batch).t()``); and where a layer that reads sequences is given the whole of a tensor with the sizes of its first two
    axes exchanged, one of them that of the samples.
    """

    name = "views-keep-axes"
    midway = True
    needs = frozenset({_NAME, "scalar"})
    wakes = frozenset({f"scalar {_NAME}"})
    whole = False
    priority = 6
    cause = "view or reshape stands where axes are to be exchanged"
    advice = "exchange the axes first with transpose or permute, and then flatten"

    def see(self, window: Window) -> Iterator[Example]:
        for number in window.numbers:
            if number.name == _NAME and number.value is not None:
                yield self._judge(number, bool(number.value), window)

    @staticmethod
    def _judge(number: Number, wrong: bool, window: Window) -> Example:
        name, kind, before, after = number.object.rsplit("#", 3)
        calls = [call for call in window.named("forward") if call.q < number.q]
        return Example(
            (),
            not wrong,
            {"kind": kind},
            variables=(name,) if wrong else (),
            expected=_AXES[kind] if wrong else None,
            seen=f"a tensor of {before} read as {after}" if wrong else None,
            call=calls[-1] if calls else None,
            detail=f"What {name} is given was made as {before} and is read as {after}, which tears the {kind} apart"
            if wrong
            else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _read("model.head#samples#2x8x24#16x24", 0.0)
        yield _read("model.head#channels#8x6x7x7#8x6x49", 0.0)
        yield _read("cross_entropy#classes#8x105#8x7x15", 0.0)
        yield _read("attention#heads#8x12x32#8x12x4x8", 0.0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _read("model.head#samples#2x8x24#8x48", 1.0)
        yield _read("model.head#rows#8x6x7x7#8x294", 1.0)
        yield _read("model.head#channels#8x6x7x7#8x49x6", 1.0)
        yield _read("cross_entropy#classes#120x7#8x7x15", 1.0)
        yield _read("attention#heads#8x12x32#8x4x12x8", 1.0)
        yield _read("model.lstm#steps#16x9x5#9x16x5", 1.0)


def _read(subject: str, torn: float) -> list[Window]:
    rows = ("forward model", ("scalar", _NAME, subject, torn), "backward", "step optimizer0:SGD")
    return [Mini({"model.weight": {}}).window(*rows)]
