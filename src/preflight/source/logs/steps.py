"""Reads steps of training out of lines, by what all dialects have in common: names, numbers, and which of them is the step."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

LITERALS = (
    b"loss", b"Loss", b"LOSS", b"it/s", b"s/it", b"iteration ", b"Iteration: ", b"iters/sec", b"step:", b"step=", b"Step ", b"step ", b"Step:", b"Iter ", b"iter ",
    b"Iter:", b"global_step", b"grad_norm", b"grad norm", b"tokens/s", b"tok/s", b"samples/s", b"tflops", b"TFLOP", b"throughput",
    b"SamplesPerSec", b"num_updates", b"forward-compute", b"fwd_microstep", b"perplexity", b"Perplexity", b"[batch=", b"[step=",
    b"time across ranks (ms)", b"learning rate", b"learning_rate", b"loss_scale",
)  # fmt: skip
"""A line that tells of a step holds one of these."""

_NUMBER = r"[-+]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d[\d_]*)\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\bnan\b|\binf(?:inity)?\b)"
_SPLIT = re.compile(r"([0-9]+(?:_[0-9]+)*(?:,[0-9]{3})*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)")
"""A number as a line bears it, without its sign: ``re.split`` gives the words of the line and its numbers in turn."""
_NAMED = re.compile(
    rf"(?<![\w/.])(?P<key>[A-Za-z_][A-Za-z0-9_./@-]*(?:[ ][A-Za-z(][A-Za-z0-9_./()-]*){{0,5}})['\"]?\s*"
    rf"(?:(?:\.{{2,}})?\s*[:=]\s*[\[('\"]{{0,2}}|(?<=loss) |(?<=time) |(?<=norm) |(?<=lr) |(?<=mfu) |(?<=[a-z]) (?=\d+(?:\.\d+)?(?:ms|us|s)\b))"
    rf"(?P<number>{_NUMBER})(?P<unit>\s?(?:ms\b|us\b|secs?\b|s\b(?!/)|min\b|[KMG]i?B?\b|%|[KMkG]\b|tok/s|s/it|it/s|samples/s|tokens/s))?",
    re.IGNORECASE,
)
_ALL_MS = re.compile(r"^\W*(?:\([^)]*\) )?times? (?:across ranks )?\(ms\)")
"""A heading that says that all times behind it are milliseconds."""
_EVALUATION = re.compile(r"\W*(?:(?i:eval|valid|val|test)[a-z]*)\b")
_SIGNED = re.compile(_NUMBER, re.IGNORECASE)
_BARE = re.compile(
    rf"(?P<number>{_NUMBER})(?P<unit>\s?(?:ms|tok/s|tokens/s|samples/s|it/s|s/it|TFLOPs?/?s?|% bf16 MFU|% MFU))\b",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r"\[\s*(\d+)/(\d+)\s*(?:\([^)]*\))?\]")
_STEP = (
    re.compile(
        r"(?:^|[\s\[({|,/'\"])(?:global[_ ]?)?(?:train(?:ing)?[_ /]?)?(?:iteration|iter|step|num_updates|update|batch)s?['\"]?\s?[:=]?\s*\[?\s*#?(\d[\d,]*)(?:\s*/\s*(\d[\d,]*))?(?![\d.]*[A-Za-z])",
        re.IGNORECASE,
    ),
    re.compile(r"\bepoch\s?:?\s?\[?\d+\]?[^|\]]{0,16}?[\s:\[]+(\d+)\s*/\s*(\d+)", re.IGNORECASE),
    _BRACKETS,
    re.compile(r"\[\s*\d+,\s*(\d+)(?:\s*/\s*(\d+))?\]"),
)
_BAR = re.compile(
    r"(?P<percent>\d{1,3})%\|[^|]*\|\s*(?P<done>[\d.]+[kM]?)/(?P<total>[\d.]+[kM]?)\s*\[(?P<spent>[\d:]+)<[^,\]]*,\s*(?P<rate>[\d.]+|\?)\s?(?P<unit>it/s|s/it|\w+/s|s/\w+)"
)
_DRAWN = re.compile(
    r"[━╸╺─]{3,}\s*(?P<done>\d+)/(?P<total>\d+)\s+(?:(?P<first>[\d.]+)\s?(?P<unit_first>it/s|s/it)\s+)?"
    r"(?P<spent>\d[\d:]*)\s*(?:•\s*|<)(?:\d+ days?, )?[-\d:]+(?:\s+(?P<last>[\d.]+)\s?(?P<unit_last>it/s|s/it))?"
)
"""A bar of rich or of a detector's trainer: heavy lines, what is done of how much, times."""
_COUNT = re.compile(r"(?P<done>\d+)it \[(?P<spent>[\d:]+),\s*(?P<rate>[\d.]+|\?)\s?(?P<unit>it/s|s/it)")
_NOT_TRAINING = re.compile(
    r"\b(?:load|download|map\b|filter|token|generat|resolv|fetch|extract|process|sav|read|creat|cast|cach|preprocess|pack|group|convert|"
    r"comput|eval|valid|val\b|test|infer|predict|sampl|pars|scan|index|build|decod|encod|collat|fold|upload|copy|merg|quantiz|capturing|"
    r"shard|import|verif|mAP|class\b|complet|dequant|unpack|unzip|inferenc)",
    re.IGNORECASE,
)
"""What a bar of something else than training steps says before it."""
_CODE = re.compile(r"\.(?:py|cpp|cc|cu|h|c|ipynb|sh|json|yaml)\b")
_SPOKEN = re.compile(
    r"[.!?]\s*$|\b(?:if|when|becomes?|because|assert|raise|return|print|warn(?:ing)?)\b", re.IGNORECASE
)
"""Words of a sentence or of a program: a loss that is named there is none of a step."""
_EPOCH = re.compile(r"\bepoch['\"]?\s*[:=]?\s*\[?\s*(\d+(?:\.\d+)?)", re.IGNORECASE)

_NAMES = {
    "loss": "loss lm-loss train-loss training-loss total-loss reduced-train-loss train/loss train_loss running-loss loss-train lm-loss-value"
    " train/crossentropyloss loss/train/total ce-loss crossentropyloss train/ce-loss actor/loss loss-train/total",
    "val_loss": "val-loss validation-loss eval-loss valid-loss eval/loss val/loss lm-loss-validation test-loss loss-val",
    "grad_norm": "grad-norm gradient-norm gnorm grad/norm norm total-grad-norm optim/total-grad-norm gradnorm global-grad-norm actor/grad-norm"
    " train/grad-norm gradient-norm-total",
    "lr": "lr learning-rate train/lr optim/learning-rate-group0 learning-rate-group0 lr-0 actor/lr train/learning-rate",
    "seconds": "elapsed-time-per-iteration time/iter iter-time step-time train-step-timing-in-s step-timing-in-s time-per-step time-per-iteration"
    " iteration-time batch-time seconds-per-step sec/step step-avg train-step-time time dt duration elapsed-time-per-step timing-s/step step-duration"
    " iter-duration perf/time-per-step time/step",
    "loss_scale": "loss-scale scale grad-scale amp-scale",
    "tokens_per_second": "tps wps tokens-per-second tokens-per-sec tokens/sec tokens/s tok/s tokens-per-second-per-gpu tok/sec"
    " throughput/device/tokens-per-sec throughput/total-tokens-per-sec tgs train-tokens-per-second",
    "samples_per_second": "samples-per-second samples/s samples/sec train-samples-per-second currsamplespersec samplespersec images/sec img/s"
    " throughput/samples-per-sec samples-per-sec runningavgsamplespersec",
    "steps_per_second": "it/s iters/sec iters-per-sec steps-per-second iter/s ups train-steps-per-second steps/s steps/sec",
    "memory_bytes": "memory mem max-mem max-memory gpu-mem mem-allocated memallocated max-memory-allocated peak-memory memory-allocated cuda-mem",
    "memory_reserved_bytes": "memory-reserved max-memory-reserved mem-reserved maxmemallocated reserved",
    "data_seconds": "data-time data dataload-time data-loading-time time/data-loading data-wait batch-generator dataloader-time fetch-time"
    " time/data-loading-s timing-s/data data-load-time",
    "forward_seconds": "forward forward-time fwd fwd-time fwd-microstep forward-compute fwd-inner",
    "backward_seconds": "backward backward-time bwd bwd-time bwd-microstep backward-compute bwd-inner",
    "compute_seconds": "compute compute-time forward-backward forward-backward-time fwd-bwd",
    "communication_seconds": "comm communication-time allreduce bwd-allreduce bwd-allreduce-microstep comm-time communication grads-reduce-scatter all-grads-sync"
    " grads-all-reduce params-all-gather layernorm-grads-all-reduce embedding-grads-all-reduce reduce-time",
    "optimizer_seconds": "optimizer step-microstep optimizer-time optim-time optimizer-step optimizer-inner-step",
    "checkpoint_seconds": "save-checkpoint checkpoint-time save-time checkpoint",
    "mfu": "mfu train/mfu throughput/device/mfu",
    "tflops": "tflops throughput-per-gpu tflop/s/gpu tflops-per-gpu tflops/gpu throughput throughput-tflop/s/gpu",
    "skipped": "number-of-skipped-iterations skipped",
    "nan_iterations": "number-of-nan-iterations",
    "consumed_samples": "consumed-samples",
    "perplexity": "ppl perplexity train/perplexity lm-loss-ppl",
    "epoch": "epoch",
    "step": "step global-step iteration iter num-updates trainer/global-step train-step",
}  # fmt: skip
_NORMAL = {alias: name for name, aliases in _NAMES.items() for alias in aliases.replace("_", "-").split()}
_SECONDS = {name for name in _NAMES if name.endswith("seconds")}
_PER = {"ms": 1e-3, "us": 1e-6, "s": 1.0, "sec": 1.0, "secs": 1.0, "min": 60.0}
_BYTES = {f"{letter}{ending}": 1024.0**power for power, letter in enumerate("kmg", 1) for ending in ("", "b", "ib")}
_MEGABYTE = 1048576.0
"""Memory without a unit is printed in megabytes: by torchvision's loggers, mmengine and what was made after them."""
_DECORATION = re.compile(r"\(([^)]*)\)")
_PROGRAMS = re.compile(r"^(?:training|train|epoch|step|iter|info|average|avg|mean|current|at|the)[ -]+(?=\S)")
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
_IDLE = ("eta", "train", "v_num", "elapsed", "remaining")
MOST_VALUES = 64


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
    if "%|" in text:
        bar = _BAR.search(text)
        if bar:
            return None if _of_other_work(text[: bar.start()]) else _of_bar(bar, text)
    elif "━" in text or "───" in text:
        drawn = _DRAWN.search(text)
        if drawn:
            return None if _of_other_work(text[: drawn.start()]) else _of_drawn(drawn, text)
    elif "it [" in text:
        bars = [*_COUNT.finditer(text)]
        if bars:
            return None if _of_other_work(text[: bars[0].start()]) else _of_bar(bars[-1], text)
    parts = _SPLIT.split(text)
    form = _form_of(text, tuple(parts[::2]))
    if form is _NO_STEP:
        return None
    numbers = parts[1::2]
    values = {name: _float(numbers[place]) * factor for name, place, factor in form.values}
    values.update(form.fixed)
    step = int(_float(numbers[form.step])) if form.step is not None else None
    return Step(step, values, False, int(_float(numbers[form.total])) if form.total is not None else None)


@lru_cache(maxsize=1024)
def _of_other_work(before: str) -> bool:
    """Whether what a bar says before it tells that it is none of training."""
    return _NOT_TRAINING.search(before) is not None


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


class Form(NamedTuple):
    """Which of the numbers of a line is what: (name, number of the number, factor); and what is no number (nan, inf)."""

    values: tuple[tuple[str, int, float], ...]
    fixed: dict[str, float]
    step: int | None
    total: int | None


_NO_STEP = Form((), {}, None, None)
_forms: dict[tuple[str, ...], Form] = {}
_MOST_FORMS = 5000
_behind_bars: dict[bytes, tuple[tuple[str, int, int, float], ...]] = {}
_NOUGHTS = bytes.maketrans(b"123456789", b"000000000")


def _form(text: str) -> Form:
    places = {match.start(1): number for number, match in enumerate(_SPLIT.finditer(text))}
    found = _found(text)
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
    known = sum(name in values for name in _CERTAIN)
    return known >= 2 or (known == 1 and (len(values) > 1 or text.lstrip().startswith("{")))


def _of_bar(bar: re.Match[str], text: str) -> Step:
    done = _counted(bar["done"])
    total = _counted(bar["total"]) if "total" in bar.re.groupindex else None
    rest = text[bar.end() :]
    values = {name: _float(rest[begin:end]) * factor for name, begin, end, factor in _behind(rest)}
    rate = float(bar["rate"]) if bar["rate"] != "?" else 0.0
    if rate > 0:
        unit = bar["unit"]
        if unit.startswith("s/"):
            values.setdefault("seconds", rate)
        elif unit == "it/s":
            values.setdefault("seconds", 1 / rate)
    step = values.pop("step", None)
    return Step(int(step) if step is not None and math.isfinite(step) else done, values, True, total)


def _of_drawn(bar: re.Match[str], text: str) -> Step:
    values = {
        name: _float(text[bar.end() :][begin:end]) * factor for name, begin, end, factor in _behind(text[bar.end() :])
    }
    rate = float(bar["first"] or bar["last"] or 0.0)
    if rate > 0:
        per_second = (bar["unit_first"] or bar["unit_last"]) == "it/s"
        values.setdefault("seconds", 1 / rate if per_second else rate)
    return Step(int(bar["done"]), values, True, int(bar["total"]))


def _behind(rest: str) -> tuple[tuple[str, int, int, float], ...]:
    """Return where the numbers behind a bar are; they are at the same places in all that differ in their digits alone."""
    key = rest.encode(errors="replace").translate(_NOUGHTS) if rest.isascii() else None
    places = _behind_bars.get(key) if key is not None else None
    if places is None:
        found = ((name, _SIGNED.match(rest, place), factor) for name, (place, factor) in _found(rest).items())
        places = tuple((name, *match.span(), factor) for name, match, factor in found if match)
        if key is not None:
            if len(_behind_bars) >= _MOST_FORMS:
                _behind_bars.clear()
            _behind_bars[key] = places
    return places


def _counted(text: str) -> int:
    if text.isdecimal():
        return int(text)
    factor = {"k": 1000, "M": 1000000}.get(text[-1], 1)
    return int(float(text.rstrip("kM")) * factor)


def _number_of_step(text: str) -> tuple[int | None, int | None]:
    """Return where the number of the step and the number of steps to be done begin."""
    for pattern in _STEP:
        for match in pattern.finditer(text):
            if text[: match.start()].rstrip(" :").lower().endswith("epoch") and pattern is _BRACKETS:
                continue
            return match.start(1), match.start(2) if match[2] else None
    return None, None


def _found(text: str) -> dict[str, tuple[int, float]]:
    """Return, by normalised name, where each number begins, and what it is to be multiplied with."""
    values: dict[str, tuple[int, float]] = {}
    milliseconds = 1e-3 if _ALL_MS.search(text) else 1.0
    for match in _NAMED.finditer(text):
        if len(values) >= MOST_VALUES:
            break
        name, factor = _normal(match["key"], (match["unit"] or "").strip().lower())
        if name and name not in values and name not in _IDLE and "/" not in name[:1] and not _CODE.search(name):
            values[name] = (
                match.start("number"),
                factor if match["unit"] or name not in _SECONDS else factor * milliseconds,
            )
    for match in _BARE.finditer(text):
        unit = match["unit"].strip().lower()
        name = "seconds" if unit in ("ms", "s/it") else "mfu" if "mfu" in unit else _NORMAL.get(unit, "")
        if name:
            values.setdefault(name, (match.start("number"), 1e-3 if unit == "ms" else 1.0))
    if "epoch" not in values:
        epoch = _EPOCH.search(text)
        if epoch:
            values["epoch"] = (epoch.start(1), 1.0)
    return values


def _float(text: str) -> float:
    return float(text.replace(",", "") if "," in text else text)


def _normal(key: str, unit: str) -> tuple[str, float]:
    """Return the normalised name of a value and what its number is to be multiplied with."""
    lower = key.lower().strip(" -./")
    inside = _DECORATION.search(lower)
    if inside:
        unit = unit or inside[1]
        lower = _DECORATION.sub("", lower).strip(" -./")
    dashed = re.sub(r"[\s_]+", "-", lower)
    name = _NORMAL.get(dashed)
    while name is None:
        shorter = _PROGRAMS.sub("", dashed)
        if shorter == dashed or shorter == "time":  # the time of a whole training is not that of a step
            break
        dashed = shorter
        name = _NORMAL.get(dashed)
    name = name or lower.replace(" ", "_")
    if name == "step" and unit in _PER:  # 0.06s is no number of a step
        name = "seconds"
    if name in _SECONDS or name.endswith(("_time", "_ms")):
        factor = _PER.get(unit, 1.0)
        return name, factor
    if name.endswith("_bytes"):
        return name, _BYTES.get(unit, _MEGABYTE)
    if unit in ("k", "m") and name in ("tokens_per_second", "samples_per_second"):
        return name, 1e3 if unit == "k" else 1e6
    return name, 1.0
