"""What a loss over tokens is learnt from: how its targets lie to the inputs, and what attention lets through.

The graph that leads to the loss still holds the targets, the rows that were looked up in tables, and the masks of
attention. They are compared where they lie, in the first few backward passes of each place; a handful of numbers is
read when they have come. Nothing is kept, and nothing is read once the program had hooks on what a graph saves: reading
would run them, and behind them may stand a whole forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from .bounded import BoundedLooks
from .graph import Attention, Graph
from .patching import Patches
from .pending import Pending, to_host
from .plain import Outside, impossible
from .positions import LEAST_SAMPLES, MOST_READ, Table, crossed, lost, placed
from .stepwise import stepwise
from .unpacking import Hooks
from .ways import straight as straight_way

_MOST_LOOKS = 4
_MOST_PLACES = 32
_MOST = 4  # tables, and losses, that are looked at
_LEAST_LENGTH = 8
_LEAST_POSITIONS = 16
_LEAST_PADS = 8
_ALMOST = 0.99
_OTHER = 0.8  # a share below which targets certainly are not what they were compared with
NAMES = (
    *("same", "next", "second", "future", "attended", "learnt", "row", "picked"),
    *("straight", "forward", "turned", "crossed", "crosswise", "swapped", "jumbled"),
)


class _Targets(NamedTuple):
    """What a loss is to find at each position.

    Attributes:
        values: The targets.
        ignored: The number that says that nothing is to be found.
        weights: What the losses of the positions are multiplied with, where that is something constant.
        known: Whether that is all that decides which of them count.
    """

    values: Any
    ignored: int
    weights: Any = None
    known: bool = True

    def counted(self, torch: Any) -> _Targets:
        """The same without those whose losses are multiplied with nought."""
        if self.weights is None:
            return self
        none = self.weights.reshape(self.values.shape) == 0
        return self._replace(values=torch.where(none, self.ignored, self.values), weights=None)


def _put(told: Any, name: str, value: Any) -> None:
    """Set one of the numbers. A plain number is filled in: to assign it would make the host wait for the GPU."""
    place = told[NAMES.index(name)]
    if isinstance(value, (int, float)):
        place.fill_(value)
    else:
        place.copy_(value)


class Sequences:
    """Looks at graphs, a few times for each place."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self._looks = BoundedLooks(_MOST_LOOKS, _MOST_PLACES)
        self.hooks = Hooks(torch)
        self.seen: Callable[[Graph], None] = lambda graph: None  # is shown each graph that is looked at

    @property
    def packed(self) -> bool:
        """Whether hooks on what graphs save were ever in force."""
        return self.hooks.ever

    def install(self, patches: Patches) -> None:
        """Notice from now on when the program sets hooks on what graphs save."""
        self.hooks.install(patches)

    def of(self, place: str, loss: Any) -> Pending | None:
        """Numbers of each table of tokens, in the order of ``NAMES``; None where there is nothing to tell.

        Without a table, what is known of attentions among as many things as they go over, and of tokens that are read one by
        one, is told in a row of its own.
        """
        if not self._looks.take(place):
            return None
        self.hooks.look()
        if self.packed or getattr(loss, "grad_fn", None) is None or impossible(self.torch):
            return None
        graph = Graph(loss.grad_fn)
        self.seen(graph)
        targets = list(islice(_targets(graph), _MOST))
        tables = list(islice(_tables(graph), _MOST))
        if not targets:
            tables = [one for one in tables if _attended(graph, one) or placed(self.torch, graph, one)]
        if not tables or len({one.values.device for one in targets} | {one.ids.device for one in tables}) != 1:
            return self._alone(graph)
        with Outside(self.torch):
            across = graph.crosswise()
            told = self.torch.stack([self._numbers(graph, table, targets, across) for table in tables])
            return Pending([to_host(self.torch, told)], lambda read: read[0])

    def _alone(self, graph: Graph) -> Pending | None:
        torch = self.torch
        with Outside(torch):
            across, steps = graph.crosswise(square=True), stepwise(torch, graph)
            if across is None and steps is None:
                return None
            told = torch.full((1, len(NAMES)), -1.0, device=None if steps is None else steps.ids.device)
            if across is not None:
                _put(told[0], "crosswise", across)
            if steps is not None:
                for by, name in enumerate(NAMES[:3]):
                    _put(told[0], name, _moved(torch, steps.ids, steps.goal, steps.ignored, by))
                for name in ("straight", "forward"):
                    _put(told[0], name, 1.0)
            return Pending([to_host(torch, told)], lambda read: read[0])

    def _numbers(self, graph: Graph, table: Table, targets: list[_Targets], across: float | None) -> Any:
        torch = self.torch
        counted = [target.counted(torch) for target in targets]
        found = [one for one in (self._against(graph, table, target) for target in counted) if one is not None]
        if not found:
            told = self._hidden(graph, table)
        else:
            # Of several losses one belongs to the table: what holds for it stands out.
            told = torch.stack(found).amax(0)
            way = straight_way(graph, table.place, table.ids.shape[1])
            for name, so in zip(("straight", "forward", "turned"), way[:3], strict=True):
                _put(told, name, float(so))
            if len(targets) == 1:
                if way[3]:
                    _put(told, "swapped", _swapped(torch, table.ids, targets[0]))
                if _in_their_order(targets[0].values, table.ids):
                    laid = straight_way(graph, table.place, table.ids.shape[1], both=True)
                    _put(told, "jumbled", float(laid[2]) if laid[0] else -1.0)
        first = lost(graph, table)
        if first is not None:
            _put(told, "row", torch.maximum(told[NAMES.index("row")], first))
        across_batch = crossed(torch, graph, table)
        for name, value in (("crossed", across_batch), ("crosswise", across)):
            if value is not None:
                _put(told, name, value)
        return told

    def _hidden(self, graph: Graph, table: Table) -> Any:
        """What is known where targets are not of tokens: whether a mask hides the padding.

        Where none is given, only what the table itself has as its padding is taken for it.
        """
        torch, ids = self.torch, table.ids
        told = torch.full((len(NAMES),), -1.0, device=ids.device)
        attention = graph.attention(table.place)
        if attention is None or not (attention.masked or (attention.bare and table.padding >= 0)):
            return told
        length = ids.shape[1]
        for side in (1, -1):
            pads, _, strict = _padding(torch, ids, ids, -1, table.padding, side, alone=not attention.masked)
            last = (length - 1 - pads.sum(1)).clamp(min=0) if side == 1 else torch.full_like(ids[:, 0], length - 1)
            row = attention.row(torch, last, length)
            if row is not None:
                share = (row & pads).sum() / pads.sum().clamp(min=1)
                at = NAMES.index("attended")
                told[at] = torch.maximum(told[at], torch.where(strict, share, told[at]))
        return told

    def _against(self, graph: Graph, table: Table, targets: _Targets) -> Any:
        torch, ids = self.torch, table.ids
        batch, length = ids.shape
        missing = torch.full((), -1.0, device=ids.device)
        straight = _aligned(targets.values, batch, length)
        across = _aligned_across(targets.values, batch, length)
        if straight is None and across is None:
            return None
        shifts, picked = [missing] * 3, missing
        for rows, goal in ((ids, straight), (ids.T, across)):
            if goal is not None:
                moved = [_moved(torch, rows, goal, targets.ignored, by) for by in range(3)]
                shifts = [torch.maximum(old, new) for old, new in zip(shifts, moved, strict=True)]
                picked = torch.maximum(picked, torch.where(_scattered(goal != targets.ignored), moved[0], missing))
        more = [missing] * 4
        attention = graph.attention(table.place)
        if straight is not None:
            more = self._seen(attention, table, straight, targets.ignored)
        if across is not None:
            # Which positions a mask is for is not certain here, unlike what the loss counts.
            turned = self._seen(None, table._replace(ids=ids.T), across, targets.ignored)
            more[2] = torch.maximum(more[2], turned[2])
            if attention is not None:
                more[0] = torch.maximum(more[0], _future(torch, attention, ids.T, across != targets.ignored, missing))
        more[2] = more[2] if targets.known else missing
        return torch.stack([*shifts, *more, picked, *[missing] * (len(NAMES) - 8)])

    def _seen(self, attention: Attention | None, table: Table, goal: Any, ignored: int) -> list[Any]:
        torch, ids = self.torch, table.ids
        length = ids.shape[1]
        missing = torch.full((), -1.0, device=ids.device)
        counted = goal != ignored
        future = attended = missing
        if attention is not None:
            future = _future(torch, attention, ids, counted, missing)
        # The labels that lie at the places of the inputs, whether they are moved before the loss or in the data.
        lies = goal if goal.shape[1] == length else torch.nn.functional.pad(goal, (length - goal.shape[1], 0))
        learnt = missing
        # Labels that were moved end with one that is never counted.
        kept = torch.ones_like(lies, dtype=torch.bool)
        kept[:, -1] = (lies[:, -1] != ignored).any()
        for side in (1, -1):
            pads, certain, strict = _padding(torch, ids, lies, ignored, table.padding, side)
            if attention is not None:
                last = (length - 1 - pads.sum(1)).clamp(min=0) if side == 1 else torch.full_like(ids[:, 0], length - 1)
                row = attention.row(torch, last, length)
                if row is not None:
                    share = (row & pads).sum() / pads.sum().clamp(min=1)
                    attended = torch.maximum(attended, torch.where(certain, share, missing))
            inner = (pads & pads.roll(side, 1) if side == 1 else pads & pads.roll(-1, 1)) & kept
            share = ((lies != ignored) & (lies == ids) & inner).sum() / inner.sum().clamp(min=1)
            learnt = torch.maximum(learnt, torch.where(strict, share, missing))
        one = missing
        if table.rows >= length:
            width = goal.shape[1]
            rows, big = ids[:, :width], table.rows + 1
            low = torch.where(counted, rows, big).amin()
            high = torch.where(counted, rows, -1).amax()
            enough = counted.sum() >= _LEAST_POSITIONS
            # Numbers of masked tokens are one row, too. Positions that a mask has cut are zero there, and rise elsewhere.
            cut = (low == 0) & ((ids == 0) | (ids == ids.cummax(1).values)).all()
            one = torch.where(enough, ((low == high) & (cut | (ids == low).all())).float(), missing)
        return [future, attended, learnt, one]


def _attended(graph: Graph, table: Table) -> bool:
    """Whether the attention over a table is given a mask, or over one that has a padding is known to have none."""
    found = graph.attention(table.place)
    return found is not None and (found.masked or (found.bare and table.padding >= 0))


def _future(torch: Any, attention: Attention, ids: Any, counted: Any, missing: Any) -> Any:
    """Of the positions that have a target, the share that sees the next one."""
    ahead = attention.ahead(torch, ids)
    if ahead is None:
        return missing
    width = min(counted.shape[1], ids.shape[1] - 1)
    counted = counted[:, :width]
    return (ahead[:, :width] & counted).sum() / counted.sum().clamp(min=1)


def _targets(graph: Graph) -> Iterator[_Targets]:
    for node, name in islice(graph.named("NllLoss", "NllLoss2D", "Gather"), MOST_READ):
        values = graph.held(node, "_saved_index" if name == "Gather" else "_saved_target")
        if (
            values is None
            or values.is_floating_point()
            or (name == "Gather" and (values.dim() != 3 or values.shape[2] != 1))
        ):
            continue
        ignored = graph.number(node, "_saved_ignore_index", -100) if name != "Gather" else -100
        single = name == "Gather" or graph.number(node, "_saved_reduction", 1) == 0
        weights, known = graph.multiplied(node) if single else (None, True)
        if weights is not None and (weights.numel() != values.numel() or weights.device != values.device):
            weights, known = None, False
        yield _Targets(values, ignored, weights, known)


def _tables(graph: Graph) -> Iterator[Table]:
    for node, _ in islice(graph.named("Embedding"), MOST_READ):
        ids = graph.held(node, "_saved_indices")
        if ids is None or ids.dim() != 2 or min(ids.shape) < 1 or ids.shape[1] < _LEAST_LENGTH:
            continue
        rows = graph.number(node, "_saved_weight_sym_argsize_0", 0)
        yield Table(node, ids, rows, graph.number(node, "_saved_padding_idx", -1))


def _aligned(values: Any, batch: int, length: int) -> Any:
    """Targets as a row for each sequence, or None where they are not one for each position."""
    count, left = divmod(values.numel(), batch)
    return values.reshape(batch, count) if not left and length - 2 <= count <= length else None


def _aligned_across(values: Any, batch: int, length: int) -> Any:
    """The same where the first dimension goes along the sequences."""
    count, left = divmod(values.numel(), length)
    if left or batch < _LEAST_LENGTH or not batch - 2 <= count <= batch:
        return None
    return values.reshape(count, length).T


def _swapped(torch: Any, ids: Any, targets: _Targets) -> Any:
    """Of targets in one row, the share that is the next input if positions come first in it; -1 where samples may do."""
    batch, length = ids.shape
    count, left = divmod(targets.values.numel(), batch)
    if targets.values.dim() != 1 or left or not length - 2 <= count <= length or batch < LEAST_SAMPLES:
        return -1.0
    first, last = (targets.values.reshape(count, batch).T, targets.values.reshape(batch, count))
    turned, straight = (_moved(torch, ids, one, targets.ignored, 1) for one in (first, last))
    return torch.where(straight < _OTHER, turned, -1.0)


def _in_their_order(values: Any, ids: Any) -> bool:
    """Whether targets in one row are all of a table as it lies, which has the samples of the inputs and then positions."""
    whole = getattr(values, "_base", None)
    if whole is None or values.dim() != 1 or whole.dim() != 2 or whole.numel() != values.numel():
        return False
    (batch, length), (samples, count) = ids.shape, whole.shape
    laid = whole.is_contiguous() and values.is_contiguous() and values.data_ptr() == whole.data_ptr()
    return bool(laid and samples == batch != count and length - 2 <= count <= length)


def _moved(torch: Any, ids: Any, goal: Any, ignored: int, by: int) -> Any:
    """Of the targets that count, the share that is the input so many places on."""
    width = min(goal.shape[1], ids.shape[1] - by)
    goal = goal[:, :width]
    counted = goal != ignored
    total = counted.sum()
    share = ((goal == ids[:, by : by + width]) & counted).sum() / total.clamp(min=1)
    return torch.where(total >= _LEAST_POSITIONS, share, -1.0)


def _scattered(counted: Any) -> Any:
    """Whether the targets that count are few and lie apart, as masked tokens do: most have none before them."""
    total = counted.sum()
    first = counted.clone()
    first[:, 1:] &= ~counted[:, :-1]
    return (2 * first.sum() > total) & (2 * total <= counted.numel())


def _padding(
    torch: Any, ids: Any, lies: Any, ignored: int, padding: int, side: int, alone: bool = False
) -> tuple[Any, Any, Any]:
    """Cells that are padding at one end of the sequences; whether they certainly are; whether it shows without labels.

    With ``alone`` it shows by the table's own padding alone.
    """
    turned = ids.flip(1) if side == 1 else ids
    filler = turned[:, 0].mode().values
    run = (turned == filler).cumprod(1).bool()
    pads = run.flip(1) if side == 1 else run
    long = pads.sum(1)
    total = long.sum()
    varied = (long.amax() >= 3) & (long.amin() < long.amax()) & (total >= _LEAST_PADS)
    meant = filler == padding
    masked = ((lies == ignored) & pads).sum() >= _ALMOST * total
    some = (lies != ignored).any()
    # A number that fills long ends and is found nowhere else is no token of a text.
    filling = (long.amax() >= 4) & (4 * total >= ids.numel()) & ((ids == filler).sum() == total)
    return pads, varied & (meant | (masked & some)), varied & (meant if alone else meant | filling)
