"""Reads progress bars: how much is done of how much, how fast, and what is printed behind."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import NamedTuple

from preflight.source.logs.named_numbers import NUMBER, as_float, named_numbers

_BAR = re.compile(
    r"(?P<percent>\d{1,3})%\|[^|]*\|\s*(?P<done>[\d.]+[kM]?)/(?P<total>[\d.]+[kM]?)\s*\[(?P<spent>[\d:]+)<[^,\]]*,\s*(?P<rate>[\d.]+|\?)\s?(?P<unit>it/s|s/it|\w+/s|s/\w+)"
)
_DRAWN = re.compile(
    r"[━╸╺─]{3,}\s*(?P<done>\d+)/(?P<total>\d+)\s+(?:(?P<first>[\d.]+)\s?(?P<unit_first>it/s|s/it)\s+)?"
    r"(?P<spent>\d[\d:]*)\s*(?:•\s*|<)(?:\d+ days?, )?[-\d:]+(?:\s+(?P<last>[\d.]+)\s?(?P<unit_last>it/s|s/it))?"
)
"""A bar of rich or of a detector's trainer: heavy lines, what is done of how much, times."""
_NOT_BEGUN = re.compile(r"(?:\bEpoch 0:|\bTraining:|^)\s*0%\|[^|]*\|\s*0/\d+ \[")
_COUNT = re.compile(r"(?P<done>\d+)it \[(?P<spent>[\d:]+),\s*(?P<rate>[\d.]+|\?)\s?(?P<unit>it/s|s/it)")
_EPOCH = re.compile(r"\b[Ee]poch[\s:=\[(#]{0,3}(?P<epoch>\d{1,6})\b|^\s{0,8}(?P<of>\d{1,6})/\d{1,6}\s+[\d.]+[MG]i?B?\s")
"""How a bar says before it of which epoch it is: by name, or first in the row of a detector's trainer, in front of the memory."""
_NOT_TRAINING = re.compile(
    r"\b(?:load|download|map\b|filter|token|generat|resolv|fetch|extract|process|sav|read|creat|cast|cach|preprocess|pack|group|convert|"
    r"comput|eval|valid|val\b|test|infer|predict|sampl|pars|scan|index|build|decod|encod|collat|fold|upload|copy|merg|quantiz|capturing|"
    r"shard|import|verif|mAP|class\b|complet|dequant|unpack|unzip|inferenc)",
    re.IGNORECASE,
)
"""What a bar of something else than training steps says before it."""
_SIGNED = re.compile(NUMBER, re.IGNORECASE)
_behind_bars: dict[bytes, tuple[tuple[str, int, int, float], ...]] = {}
_NOUGHTS = bytes.maketrans(b"123456789", b"000000000")
_MOST_ENDS = 5000


class Bar(NamedTuple):
    """What a progress bar tells.

    Attributes:
        step: How much is done, or the number of the step that stands behind the bar.
        values: By normalised name.
        total: How much there is to be done.
    """

    step: int
    values: dict[str, float]
    total: int | None


def bar_in(text: str) -> Bar | bool:
    """Return the bar of training that a line holds; True: its bar is of other work; False: it holds none."""
    if "%|" in text:
        bar = _BAR.search(text)
        if bar:
            return _of_other_work(text[: bar.start()]) or _of_bar(bar, text)
    elif "━" in text or "───" in text:
        drawn = _DRAWN.search(text)
        if drawn:
            return _of_other_work(text[: drawn.start()]) or _of_drawn(drawn, text)
    elif "it [" in text:
        bars = [*_COUNT.finditer(text)]
        if bars:
            return _of_other_work(text[: bars[0].start()]) or _of_bar(bars[-1], text)
    return False


def not_begun(text: str) -> bool:
    """Return whether a line is the bar of a training before its first step: a loss in it that is no number is none yet."""
    return "0%|" in text and _NOT_BEGUN.search(text) is not None


@lru_cache(maxsize=1024)
def _of_other_work(before: str) -> bool:
    """Whether what a bar says before it tells that it is none of training."""
    return _NOT_TRAINING.search(before) is not None


@lru_cache(maxsize=1024)
def _epoch_of(before: str) -> float | None:
    """Return the number of the epoch that a bar tells before it, which all bars of that epoch do alike."""
    told = _EPOCH.search(before)
    return float(told["epoch"] or told["of"]) if told else None


def _of_bar(bar: re.Match[str], text: str) -> Bar:
    done = _counted(bar["done"])
    total = _counted(bar["total"]) if "total" in bar.re.groupindex else None
    rest = text[bar.end() :]
    values = {name: as_float(rest[begin:end]) * factor for name, begin, end, factor in _behind(rest)}
    if done == 0 and not_begun(text):
        values = {name: value for name, value in values.items() if math.isfinite(value)}
    rate = float(bar["rate"]) if bar["rate"] != "?" else 0.0
    if rate > 0:
        unit = bar["unit"]
        if unit.startswith("s/"):
            values.setdefault("seconds", rate)
        elif unit == "it/s":
            values.setdefault("seconds", 1 / rate)
    epoch = _epoch_of(text[: bar.start()])
    if epoch is not None:
        values.setdefault("epoch", epoch)
    step = values.pop("step", None)
    return Bar(int(step) if step is not None and math.isfinite(step) else done, values, total)


def _of_drawn(bar: re.Match[str], text: str) -> Bar:
    rest = text[bar.end() :]
    values = {name: as_float(rest[begin:end]) * factor for name, begin, end, factor in _behind(rest)}
    rate = float(bar["first"] or bar["last"] or 0.0)
    if rate > 0:
        per_second = (bar["unit_first"] or bar["unit_last"]) == "it/s"
        values.setdefault("seconds", 1 / rate if per_second else rate)
    return Bar(int(bar["done"]), values, int(bar["total"]))


def _behind(rest: str) -> tuple[tuple[str, int, int, float], ...]:
    """Return where the numbers behind a bar are; they are at the same places in all that differ in their digits alone."""
    key = rest.encode(errors="replace").translate(_NOUGHTS) if rest.isascii() else None
    places = _behind_bars.get(key) if key is not None else None
    if places is None:
        found = ((name, _SIGNED.match(rest, place), factor) for name, (place, factor) in named_numbers(rest).items())
        places = tuple((name, *match.span(), factor) for name, match, factor in found if match)
        if key is not None:
            if len(_behind_bars) >= _MOST_ENDS:
                _behind_bars.clear()
            _behind_bars[key] = places
    return places


def _counted(text: str) -> int:
    if text.isdecimal():
        return int(text)
    factor = {"k": 1000, "M": 1000000}.get(text[-1], 1)
    return int(float(text.rstrip("kM")) * factor)
