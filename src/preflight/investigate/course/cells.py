"""Cells of a notebook: its kernel goes on behind what ended one of them, so that the last one that failed decides."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from preflight.investigate.case.case import Case, Event, by_file
from preflight.vocabulary.log import Place, Raised

_CELL = re.compile(r"^<ipython-input-|[/\\]ipykernel_\d+[/\\]\d+\.py$|^(?:Cell|Input) In ?\[\d+\]$|\.ipynb$")
"""How IPython calls the text of a cell in a traceback, and Visual Studio Code, which names the notebook."""
_NAME = re.compile(r"^name '(\w+)' is not defined")
OF_A_CARD = re.compile(r"\bCUDA error: |\bHIP error: |\b(?:CUBLAS|CUDNN)_STATUS_|\bcuDNN error: ")
"""What calls that use a card say, all of them once one has broken what the process holds on it: the kernel has to be started anew."""
_BROKEN = re.compile(r"\b(?:CUDA|HIP) error: (?!out of memory)")
_INSTALLS = ("environment.packages-do-not-resolve",)
"""What a cell that installs packages prints where it fails: no exception, and the cells behind it run all the same."""
_TRAINED = 3
"""So many different steps at least are of a cell that trained."""
_KERNEL = "end.kernel-died"
_NOT_PARSED = "usercode.syntax"
"""A cell that is not valid Python runs not at all; what IPython prints of it has no header."""


def of_a_cell(raised: Raised) -> bool:
    """Return whether an exception went through the whole of a cell of a notebook: it ended the cell, and not the kernel."""
    return bool(raised.frames) and _CELL.search(raised.frames[0].path) is not None


def without_earlier_cells(case: Case, failing: Sequence[Event], recovered: list[Event]) -> list[Event]:
    """Return what failed without what ended a cell before the last one that failed: it was mended, or done without.

    Where a later cell trained, all of them were; where later ones only printed or drew, the last that failed decides.

    A name that is missing because the cell which was to make it had failed is a consequence, and so is what a card says again that
    was broken before: their cells are not the last.
    """
    earlier: list[Event] = []
    for file, chains in by_file(_chains(case), lambda one: one[-1].hit.file).items():
        died = [event.hit.line for event in failing if event.id == _KERNEL and event.hit.file == file]
        place = chains[-1][-1].hit.line
        # A kernel that died had gone on behind all of them; so has one that trained behind them, and what ends that is told itself.
        killed = max(died, default=-1)
        on = killed if killed > place else place + 1 if _trains_behind(case, file, place) else None
        last = len(chains) if on is not None else _last(chains)
        begins = on if on is not None else chains[last][0].begins or chains[last][0].hit.line
        ended = {one.hit.place for chain in chains[:last] for one in chain}
        earlier += [
            event
            for event in failing
            if event.place in ended
            or (
                event.hit.file == file
                and event.hit.line < begins
                and (_of_the_shell(event) or _goes_on(event, failing, ended))
            )
        ]
    recovered += earlier
    return [event for event in failing if event not in earlier]


def _trains_behind(case: Case, file: int, line: int) -> bool:
    """Return whether cells behind a line trained: a bar that is drawn once more tells nothing new."""
    behind = (one for one in case.steps_in.get(file, ()) if one.line > line)
    return len({(one.step, *one.values.items()) for one in behind}) >= _TRAINED


def _of_the_shell(event: Event) -> bool:
    """Return whether an event is what a cell printed that installs packages, or one that was no Python and did not run."""
    return event.raised is None and event.id in (*_INSTALLS, _NOT_PARSED)


def _goes_on(event: Event, failing: Sequence[Event], ended: Collection[Place]) -> bool:
    """Return whether an event is a further line of what ended a cell: a message of many lines, which are indented."""
    if event.raised is not None or not event.hit.text[:1].isspace():
        return False
    return any(
        one.place in ended
        and one.category == event.category
        and one.place[0] == event.hit.file
        and one.place < event.place
        for one in failing
    )


def _chains(case: Case) -> list[list[Raised]]:
    """Return what ended cells, each with what it was raised from, in the order of files and lines."""
    found: list[list[Raised]] = []
    chain: list[Raised] = []
    for one in sorted(case.raised, key=lambda one: one.hit.place):
        chain = [*chain, one] if chain and chain[-1].hit.file == one.hit.file else [one]
        if not one.chained:
            found += [chain] if of_a_cell(one) else []
            chain = []
    return found


def _last(chains: Sequence[Sequence[Raised]]) -> int:
    """Return which cell is the last that failed by itself, of those of a file in their order."""
    cells = [chain[-1] for chain in chains]
    for place in range(len(cells) - 1, 0, -1):
        if not _follows(cells[place], cells[:place]):
            return place
    return 0


def _follows(one: Raised, before: Sequence[Raised]) -> bool:
    """Return whether what ended a cell is a consequence of what had ended one of those before it."""
    lacks = _NAME.match(one.message) if one.exception == "NameError" else None
    if lacks is not None:
        return any(re.search(rf"\b{lacks[1]}\b", other.frames[0].code) for other in before)
    return OF_A_CARD.search(one.message) is not None and any(_BROKEN.search(other.message) for other in before)
