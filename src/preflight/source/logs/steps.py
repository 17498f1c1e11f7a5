"""Reads steps of training out of lines, by what all dialects have in common: names, numbers, and which of them is the step."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from preflight.source.logs.bars import bar_in
from preflight.source.logs.named_numbers import as_float, named_numbers

LITERALS = (
    b"loss", b"Loss", b"LOSS", b"it/s", b"s/it", b"iteration ", b"Iteration: ", b"iters/sec", b"step:", b"step=", b"Step ", b"step ", b"Step:", b"Iter ", b"iter ", b", iter: ",
    b"Iter:", b"global_step", b"grad_norm", b"grad norm", b"tokens/s", b"tok/s", b"samples/s", b"tflops", b"TFLOP", b"throughput",
    b"SamplesPerSec", b"num_updates", b"forward-compute", b"fwd_microstep", b"perplexity", b"Perplexity", b"[batch=", b"[step=",
    b"time across ranks (ms)", b" train ", b" trl:", b" tel:", b"/batch]", b"learning rate", b"learning_rate", b"loss_scale",
)  # fmt: skip
"""A line that tells of a step holds one of these."""

_SPLIT = re.compile(r"([0-9]+(?:_[0-9]+)*(?:,[0-9]{3})*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)")
"""A number as a line bears it, without its sign: ``re.split`` gives the words of the line and its numbers in turn."""
_EVALUATION = re.compile(r"\W*(?:(?i:eval|valid|val|test)[a-z]*)\b")
_BRACKETS = re.compile(r"\[\s*(\d+)/(\d+)\s*(?:\([^)]*\))?\]")
_STEP = (
    re.compile(r"\[(?:global[ _])?(?:step|iter(?:ation)?)\]\s{1,8}(\d{1,12})(?:\s?/\s?(\d{1,12}))?(?=[\s,;|]|$)", re.I),
    re.compile(r"[|,]\s{1,8}(\d{1,9})/\s{0,8}(\d{1,9}) batches\b"),
    re.compile(
        r"(?:^(?:[A-Za-z_][\w.]{0,60}:)?|[\s\[({|,/'\"])(?:global[_ ]?)?(?:train(?:ing)?[_ /]?)?(?:iteration|iter|step|num_updates|update|batch)s?['\"]?\s?[:=]?\s*\[?\s*#?(\d[\d,]*)(?:\s*/\s*(\d[\d,]*))?(?![\d.]*[A-Za-z])",
        re.IGNORECASE,
    ),
    re.compile(r"\bepoch\s?:?\s?\[?\d+\]?[^|\]]{0,16}?[\s:\[(]+(\d+)\s*/\s*(\d+)", re.IGNORECASE),
    re.compile(r"\bepochs?\s?:?\s?\[\s*\d+\s*/\s*\d+\]\s*\[\s*(\d+)\s*/\s*(\d+)\]", re.IGNORECASE),
    _BRACKETS,
    re.compile(r"\[\s*\d+,\s*(\d+)(?:\s*/\s*(\d+))?\]"),
    re.compile(r"^s:(\d+)()(?= t[er]l:)"),
    re.compile(r"^(\d+)()(?= (?:train|val) [-\dni])"),
)
_SPOKEN = re.compile(
    r"[.!?]\s*$|\b(?:if|when|becomes?|because|assert|raise|return|print|warn(?:ing)?)\b", re.IGNORECASE
)
"""Words of a sentence or of a program: a loss that is named there is none of a step."""
_CERTAIN = (
    "loss",
    "grad_norm",
    "seconds",
    "tokens_per_second",
    "samples_per_second",
    "lr",
    "tflops",
    "forward_seconds",
    "val_loss",
)


class Step(NamedTuple):
    """What a line tells of a step.

    Attributes:
        step: Its number; None where the line does not tell.
        values: By normalised name.
        bar: It is a progress bar, which is drawn again and again.
        total: Number of steps to be done, where the line tells.
    """

    step: int | None
    values: dict[str, float]
    bar: bool = False
    total: int | None = None


class Form(NamedTuple):
    """Which of the numbers of a line is what: (name, number of the number, factor); and what is no number (nan, inf)."""

    values: tuple[tuple[str, int, float], ...]
    fixed: dict[str, float]
    step: int | None
    total: int | None


_NO_STEP = Form((), {}, None, None)
_forms: dict[tuple[str, ...], Form] = {}
_MOST_FORMS = 5000
_A_LOSS = re.compile(r"^loss_?\d$|[a-z]_?loss$")
"""One of several losses that a program names by a number or by what they are of."""


def step_of(text: str) -> Step | None:
    """Read a line without its prefixes; None where it tells of no step.

    What looks like a number and is none (``1..2it/s``, a step of four hundred digits) makes the line tell of none.

    A program prints its steps in one form: the words of a line, without the numbers, are looked at once, and after that
    they tell what each number is.
    """
    try:
        return _step_of(text)
    except (ValueError, OverflowError):
        return None


def _step_of(text: str) -> Step | None:
    bar = bar_in(text)
    if bar is not False:
        return None if bar is True else Step(bar.step, bar.values, True, bar.total)
    parts = _SPLIT.split(text)
    form = _form_of(text, tuple(parts[::2]))
    if form is _NO_STEP:
        return None
    numbers = parts[1::2]
    values = {name: as_float(numbers[place]) * factor for name, place, factor in form.values}
    values.update(form.fixed)
    step = int(as_float(numbers[form.step])) if form.step is not None else None
    return Step(step, values, False, int(as_float(numbers[form.total])) if form.total is not None else None)


def form_of(text: str) -> Form | None:
    """Return which of the numbers of a line that is no progress bar is what; None where it tells of no step."""
    form = _form_of(text, tuple(_SPLIT.split(text)[::2]))
    return None if form is _NO_STEP else form


def numbers_of(text: str) -> list[tuple[int, int]]:
    """Return where each number of a line begins and ends, as ``Form`` counts them."""
    return [match.span(1) for match in _SPLIT.finditer(text)]


def _form_of(text: str, words: tuple[str, ...]) -> Form:
    form = _forms.get(words)
    if form is None:
        form = _form(text)
        if len(_forms) >= _MOST_FORMS:
            _forms.clear()
        _forms[words] = form
    return form


def _form(text: str) -> Form:
    places = {match.start(1): number for number, match in enumerate(_SPLIT.finditer(text))}
    found = named_numbers(text)
    named = found.pop("step", None)
    step, total = _number_of_step(text)
    if step is None and named is not None:
        step = named[0]
    rows: list[tuple[str, int, float]] = []
    fixed: dict[str, float] = {}
    for name, (place, factor) in found.items():
        if text[place] in "+-":
            factor, place = -factor if text[place] == "-" else factor, place + 1
        if text[place] == "." and place + 1 in places:  # .5: its digits begin behind the point, and differ in number
            return _NO_STEP
        if place in places:
            rows.append((name, places[place], factor))
        elif text[place] in "nNiI":
            fixed[name] = float(text[place : place + 3]) * factor
    if _EVALUATION.match(text):
        rows = [("val_loss" if name == "loss" else name, place, factor) for name, place, factor in rows]
    told = {name for name, _, _ in rows} | set(fixed)
    broken = any(name in ("loss", "val_loss") for name in fixed) and not _SPOKEN.search(text)
    if not told - {"epoch", "consumed_samples"} or (step is None and not broken and not _tells(text, told)):
        return _NO_STEP
    return Form(
        tuple(rows),
        fixed,
        places.get(step) if step is not None else None,
        places.get(total) if total is not None else None,
    )


def _tells(text: str, values: Collection[str]) -> bool:
    """Whether a line without a number of a step tells of one all the same: a dict of metrics, or several of them."""
    if (
        "Namespace(" in text
        or "Config(" in text
        or ("loss" not in values and any("batch_size" in name for name in values))
    ):
        return False
    known = sum(name in values for name in _CERTAIN) or int(any(_A_LOSS.search(name) for name in values))
    return known >= 2 or (known == 1 and (len(values) > 1 or text.lstrip().startswith("{")))


def _number_of_step(text: str) -> tuple[int | None, int | None]:
    """Return where the number of the step and the number of steps to be done begin."""
    for pattern in _STEP:
        for match in pattern.finditer(text):
            if text[: match.start()].rstrip(" :").lower().endswith("epoch") and pattern is _BRACKETS:
                continue
            return match.start(1), match.start(2) if match[2] else None
    return None, None
