"""What a run was set to: on its command line, in its configuration, and by the constants of its files.

A number that somebody chose is a setting, and another one in another run is no mistake. And some options turn a habit on or
off, so that what was learnt with them is not asked of a run without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from math import isclose
from typing import Any

from preflight.monitor.window import Run, Window

_HABITS = tuple(
    "amp augment autocast bf16 clip dtype ema fp16 freeze half lora loss precision sched share shuffle tie tying warmup".split()
)
"""What the names of options hold that decide over habits rather than over sizes."""
_ADVANCES = frozenset({"scheduler.step", "scheduler.new"})
_SEEN_BY: Mapping[str, Set[str]] = {
    "clip": frozenset({"clip_grad_norm", "clip_grad_value"}),
    "ema": frozenset({"state", "forward", "save"}),
    "sched": _ADVANCES,
    "shuffle": frozenset({"fetch", "loop", "batch"}),
    "warmup": _ADVANCES,
}
"""Of habits that only some relations can see, what these look at: others say the same with the option and without it."""
_COMPUTED = frozenset({"flow", "scalar"})
"""What those look at who see how a loss is computed, which any other switch or word may decide over."""
_OF_TERMS = _COMPUTED | {"autograd.grad"}
"""What those look at who see whether a term is there: a penalty of gradients asks for these."""
_ASIDE = tuple(
    "adam benchmark checkpoint compile cpu cuda data debug deterministic device dir download eval fast file folder fused gpu id jit "
    "log name opt out path pin plot print profile progress project quiet resume rmsprop root run save sgd tag test title track "
    "tqdm train verbose wandb worker".split()
)
"""What the names of switches and words begin with that decide over no computation."""
_COUNTS = ("seed", "step", "epoch", "batch", "worker", "size")
"""What the names of options hold that count something: their numbers are those of other things by chance alone."""
_SIZES = tuple(
    "anneal channel class count depth dim eval every freq head hidden interval iter layer len level log num patience period "
    "port rank sample save sync token vocab warmup width world".split()
)
"""The same for whole numbers that nobody typed, of which there are many."""
_NO_TERMS = tuple(
    "b1 b2 beta1 beta2 betas bias decay drop eps index lr max min momentum offset pad rate start time total wd".split()
)
"""What the names of numbers hold that leave no term out where they are zero."""
_OF_GRADIENTS = frozenset("clip gradient gradients grad grads norm max value val by on off".split())
ZERO = "zero"
"""What is told of a number that may be the weight of a term."""
_OFF = frozenset("0 false no none off".split())
_OPTION = re.compile(r"(?P<name>-*[a-zA-Z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_RATE_WORDS = frozenset("lr lrs rate rates".split())
_FACTOR_WORDS = frozenset("mult multiplier factor scale ratio decay times".split())
_LEAST_LETTERS = 3
_WORD = re.compile(r"[a-z][a-z0-9_-]{0,23}")


def options_of(argv: Sequence[str], known: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The options that decide over habits, with what they are: on, off, or a word.

    Of a number it is told whether it is zero, because how large it is, is a setting.

    Args:
        argv: The command line.
        known: What options came to be, by their names, where that was recorded: of these only what is on is told, since one
            that is off is the same as none, and of a number that may be the weight of a term that it is zero.
    """
    found = dict(_typed(argv))
    for name, value in (known or {}).items():
        told = name.lower().replace("_", "-")
        if decides(told) or (_may_decide(told) and (value is True or isinstance(value, str))):
            found.pop(told, None)
            word = "on" if value is True else str(value).strip().lower()
            chosen = _chosen(word)
            if chosen == "on" or (chosen != "off" and _WORD.fullmatch(chosen)):
                found[told] = chosen
        if type(value) in (int, float) and value == 0 and _may_weigh(told):
            found[told] = ZERO
    return tuple(f"{name} {value}" for name, value in sorted(found.items()))


def _typed(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    words = [str(one) for one in argv]
    for place, word in enumerate(words):
        option = _OPTION.fullmatch(word)
        if option is None or not (word.startswith("-") or option["value"] is not None):
            continue
        name = option["name"].lstrip("-").lower().replace("_", "-")
        switch = option["value"] is None and (place + 1 == len(words) or words[place + 1].startswith("-"))
        if decides(name) or (switch and _may_decide(name)):
            after = words[place + 1] if place + 1 < len(words) else "-"
            value = option["value"] if option["value"] is not None else "on" if after.startswith("-") else after
            yield name, _chosen(value.strip().lower())


def decides(name: str) -> bool:
    """Whether an option decides over habits, as far as its name tells."""
    return any(part.startswith(_HABITS) for part in re.split(r"[-.]", name))


def _may_decide(name: str) -> bool:
    """Whether a switch or a word may decide over what is computed, as far as its name tells."""
    parts = re.split(r"[-.]", name.removeprefix("no-").removeprefix("use-"))
    return len(parts[-1]) > 1 and not any(part.startswith(_ASIDE) for part in parts)


def _may_weigh(name: str) -> bool:
    """Whether a number may be the weight of a term, which is not there where that is zero."""
    return _may_decide(name) and not decides(name) and not any(part in name for part in (*_COUNTS, *_SIZES, *_NO_TERMS))


def matters(option: str, needs: Set[str]) -> bool:
    """Whether an option that decides over habits may change what somebody sees who looks at these calls and rows.

    Args:
        option: Its name, perhaps with what it is.
        needs: What is looked at.
    """
    parts = re.split(r"[-. ]", option)
    if parts[-1] == ZERO:
        return not needs.isdisjoint(_OF_TERMS)
    seen = [needed for part in parts for habit, needed in _SEEN_BY.items() if part.startswith(habit)]
    if "clip" in parts and not _OF_GRADIENTS.issuperset(part for part in parts if part.isalpha()):
        seen.append(_COMPUTED)  # of a ratio, of values or of what is drawn
    seen += [] if decides(option.partition(" ")[0]) else [_COMPUTED]
    return not seen or any(not needs.isdisjoint(needed) for needed in seen)


def _chosen(value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        return "off" if value in _OFF else "on" if value in ("true", "yes") else value
    return "off" if number == 0 else "on"


def settings_of(run: Run) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What the options of a run came to be, by their names, and its constants; nothing where that was not recorded."""
    options: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    for row in run.notes.get("settings", ()):
        options.update(row.get("options") or {})
        constants.update(row.get("constants") or {})
    return options, constants


def numbers_of(window: Window) -> set[float]:
    """The numbers that somebody chose, which are settings, and what lies as far from one; seeds and counts left out."""
    run = window.run
    if run.numbers is None or run.numbers[0] != len(run.notes.get("settings", ())):
        found = {derived for number in _numbers(run) for derived in _derived(number)}
        run.numbers = len(run.notes.get("settings", ())), found
    numbers: set[float] = run.numbers[1]
    return numbers


def zero_was_chosen(run: Run) -> bool:
    """Whether somebody chose a zero, on the command line or as a constant of a file; seeds and counts left out."""
    constants = settings_of(run)[1]
    chosen = (value for name, value in constants.items() if not any(part in name.lower() for part in _COUNTS))
    return 0.0 in _of_line(run) or any(type(value) in (int, float) and value == 0 for value in chosen)


def same_rates_were_chosen(run: Run, rate: float) -> bool:
    """Whether somebody chose this rate more than once, as two options are that may be set alike, or a factor of one."""
    options, constants = settings_of(run)
    chosen = 0
    for name, value in [*constants.items(), *options.items()]:
        words = set(re.split(r"[^a-z0-9]", name.lower()))
        if type(value) not in (int, float) or words.isdisjoint(_RATE_WORDS):
            continue
        if words.isdisjoint(_FACTOR_WORDS):
            chosen += isclose(value, rate)
        elif value == 1:
            return True
    return chosen > 1


def overfits(run: Run) -> bool:
    """Whether somebody chose to train on a few samples until they are known, and to look at these."""
    options, constants = settings_of(run)
    chosen = [name for name, value in [*options.items(), *constants.items()] if value]
    return any("overfit" in word.lower() for word in [*chosen, *map(str, run.begin.get("argv") or ())])


def is_named(kind: str, run: Run) -> bool:
    """Whether somebody chose a kind of something by its name: as what an option is, or by a switch that is called so.

    Args:
        kind: The name of a class, such as ``AdamW``.
        run: The run.
    """
    options, constants = settings_of(run)
    given = [*options.items(), *constants.items()]
    words = [name.rpartition(".")[2] if value is True else value for name, value in given]
    words += [part for word in map(str, run.begin.get("argv") or ()) for part in word.split("=")]
    return any(_alike(kind.lower(), word.lower().lstrip("-")) for word in words if isinstance(word, str))


def _alike(kind: str, word: str) -> bool:
    short = re.split(r"[^a-z0-9]", word, maxsplit=1)[0]
    return len(short) >= _LEAST_LETTERS and (kind == short or (kind.startswith(short) and len(kind) <= len(short) + 1))


def _derived(number: float) -> Iterator[float]:
    yield number
    if 0 < number < 1:
        yield round(1 - number, 6)
    if number not in (0, 1):
        yield round(1 / number, 6)


def _of_line(run: Run) -> Iterator[float]:
    option = ""
    for word in map(str, run.begin.get("argv") or ()):
        name, _, value = word.rpartition("=")
        try:
            number = abs(float(value))
        except ValueError:
            option = value
            continue
        if not any(part in (name or option).lower() for part in _COUNTS):
            yield number


def _numbers(run: Run) -> Iterator[float]:
    yield from _of_line(run)
    for held in settings_of(run):
        for name, value in held.items():
            left_out = (*_COUNTS, *_SIZES) if isinstance(value, int) else _COUNTS
            if type(value) in (int, float) and not any(part in name.lower() for part in left_out):
                yield abs(value)
