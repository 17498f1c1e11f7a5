"""Whether a model gives one and the same for all samples of a batch, although these differ."""

from __future__ import annotations

from typing import Any

from .digests import few
from .entry import Entry
from .pending import Pending, to_host
from .plain import DEVICES, Outside, impossible, simple
from .recorder import Recorder

NAME = "outputs.alike"
_LEAST = 8  # samples of a batch
_MOST = 4096  # numbers of each sample that are compared


def look(recorder: Recorder, entry: Entry, args: Any, output: Any) -> None:
    """Tell it of a pass that trains, as 1 or 0, once the numbers have come; nothing is told where it cannot be known."""
    torch = recorder.torch
    told = few(output, torch.Tensor)[:1]
    if not told or not told[0].requires_grad or not _fits(told[0], told[0]) or not told[0].is_floating_point():
        return
    given = next((one for one in few(args, torch.Tensor) if _fits(one, told[0])), None)
    if given is None or impossible(torch):
        return
    with Outside(torch):
        own = _rows(told[0])
        if own.is_cpu and not torch.equal(own[0], own[1]):
            pending = Pending.known([0.0])  # as nearly always; a device would have to be waited for
        else:
            found = to_host(torch, (_alike(own) & ~_alike(_rows(given))).float())
            pending = Pending([found], lambda read: [read[0]])
    head = (*recorder.head(), NAME, entry.object)
    recorder.later(pending, lambda values: [("scalar", (*head, values[0]))])


def _rows(one: Any) -> Any:
    """What is compared of each sample, as a row."""
    return one.reshape(len(one), -1)[:, :_MOST]


def _alike(rows: Any) -> Any:
    """Whether all rows are the first one."""
    return (rows == rows[:1]).all()


def _fits(one: Any, output: Any) -> bool:
    """Whether a tensor holds as many samples as an output, and can be compared with it where it lies."""
    if one.dim() < 2 or one.device != output.device or not simple(one) or one.device.type not in DEVICES:
        return False
    return bool(len(one) == len(output) >= _LEAST and one.numel())
