"""Decides where arithmetic tells whether a signature takes a line; a signature names the function in ``predicate``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from preflight.errors import CatalogError
from preflight.source.logs.bars import not_begun
from preflight.source.logs.lettered import lettered

Predicate = Callable[[Mapping[str, object], str], bool]


def named(name: str | None) -> Predicate | None:
    """Return the predicate of that name; None for None.

    Raises:
        CatalogError: There is none.
    """
    if name is None:
        return None
    found: Any = globals().get(name)
    own = callable(found) and getattr(found, "__module__", None) == __name__
    if name.startswith("_") or name == "named" or not own:
        raise CatalogError(f"there is no predicate '{name}'", f"those of {__name__} can be named")
    predicate: Predicate = found
    return predicate


def nonzero(fields: Mapping[str, object], text: str) -> bool:
    """A counter counts only when it is not nought: every field that is a number is looked at."""
    numbers = [value for value in fields.values() if isinstance(value, (int, float)) and not isinstance(value, bool)]
    return any(number != 0 for number in numbers)


def killed(fields: Mapping[str, object], text: str) -> bool:
    """The exit code is that of SIGKILL: -9, or 137 where a shell tells it."""
    return fields.get("code") in (-9, 137)


def failed(fields: Mapping[str, object], text: str) -> bool:
    """The exit code is neither nought nor that of a process that was asked to stop."""
    return fields.get("code") not in (None, 0, -15, 143)


_LOSS = re.compile(r"[Ll]oss['\"]?\s*[:=]\s*(?:tensor\()?[-+]?\d")
_OF_NOTHING = re.compile(r"samples_per_second['\"]?: 0\.0\b|\(0 (?:samples|batches|examples|images)\)")
"""How an evaluation tells that it had nothing to evaluate."""
_TO_BEAT = re.compile(
    r"(?i)\b(?:best|min(?:imum|imal)?|lowest|smallest|prev(?:ious)?|last|old|initial|improved|decreased|from)(?:\b|_).{0,60}\binf\b"
)
"""A loss that others are held against: infinite as long as there is none."""
_NORM = re.compile(r"[Gg]rad\w{0,20}?[ _-]?norm\w{0,20}['\"]?\s{0,20}[:=]\s{0,20}[-+]?\d")


def not_of_an_average(fields: Mapping[str, object], text: str) -> bool:
    """A loss that is no number counts unless the same line holds one that is, and a gradient norm that is: then it is an average.

    The bar of a training that waits for its first step shows an average of nothing, and so does an evaluation without a sample.
    The best one so far is infinite before there is any.
    """
    average = (_LOSS.search(text) and _NORM.search(text)) or _OF_NOTHING.search(text)
    return not average and not not_begun(text) and not _TO_BEAT.search(text)


_TOLD = re.compile(
    r"torch\._(?:dynamo|inductor)\.[\w.]{1,100}: \[(?:ERROR|WARNING|INFO|DEBUG)\]"
    r"|(?:^|[\s:\]])[WIEV]\d{4} .{0,40}torch/_(?:dynamo|inductor)/[\w/]{1,100}\.py:\d{1,7}\]"
)
"""What stands before each of their lines: until torch 2.2, and as its own logger writes it since."""


def not_told_by_the_compiler(fields: Mapping[str, object], text: str) -> bool:
    """What the compiler's own loggers tell, it has caught, and goes on without."""
    return _TOLD.search(text) is None


def not_for_a_task(fields: Mapping[str, object], text: str) -> bool:
    """A step that is ended because a task of it failed was ended by that task, and not from outside."""
    return fields.get("why") != "TASK FAILURE"


_BEGINS = re.compile(
    r"(?:^|[\s/])(?:\.(?:bash|z|k|tc)?(?:rc|_?profile|_login|env)|etc/(?:profile|bashrc|bash\.bashrc|zshrc)[\w./-]{0,100}): (?:line )?\d"
)


def not_as_a_shell_begins(fields: Mapping[str, object], text: str) -> bool:
    """What a shell does not find as it reads the files of its user, it goes on without."""
    return _BEGINS.search(text) is None


_BUILT_IN = "0000:00:02.0"
"""Where the graphics of an Intel processor sit, in every machine."""


def not_of_a_screen(fields: Mapping[str, object], text: str) -> bool:
    """What the graphics of a processor do, which draw the screen of a machine, is none of a card that trains."""
    return fields.get("device") != _BUILT_IN


_LAYOUT = re.compile(
    r"(?i)parallel|world|\branks?\b|gpu|device|\bprocesses\b|num_process|pipeline|replica|shard|batch|\b[tpdce]p\b|[tpdce]p_size"
)


def not_of_a_layout(fields: Mapping[str, object], text: str) -> bool:
    """A size that does not divide is the model's own unless a number is named of how it is spread, or of its batches."""
    return not any(isinstance(value, str) and _LAYOUT.search(value) for value in fields.values())


_WARNS = re.compile(r"\.py:\d{1,7}: \w{0,60}Warning: ")


def not_a_warning(fields: Mapping[str, object], text: str) -> bool:
    """What a library warns of, it has caught, and does without."""
    return _WARNS.search(text) is None


_LOOKS = re.compile(r"\bfailed call to cuInit\b")


def not_looked_for(fields: Mapping[str, object], text: str) -> bool:
    """TensorFlow looks for cards as it starts, and computes on the processor where it sees none; where it cannot, an error follows."""
    return _LOOKS.search(text) is None


_PLANNED = re.compile(
    r"(?i)\bearl(?:y|ier)[\s_-]?stop|\bpatience\b|(?<!not )(?<!never )(?<!n't )\bconverged\b|\bplateau|\bno (?:\w+ )?improve|\b(?:not|stopped) improv|\boverfit"
    r"|\b(?:target|goal|budget|limit|max(?:imum)?|threshold|desired)\b.{0,60}\b(?:reached|met|attained|achieved|exceeded|used|spent|up)\b"
    r"|\b(?:reached|met|attained|achieved|exceeded|hit)\b.{0,60}\b(?:target|goal|budget|limit|max(?:imum)?|threshold|desired)\b"
)
_TROUBLED = re.compile(
    r"(?i)\bnan\b|\binf\b|error|fail|exception|\bbad\b|invalid|corrupt|missing|memory|\boom\b|retr(?:y|ies)|skip|diverg"
)


def not_as_planned(fields: Mapping[str, object], text: str) -> bool:
    """A training that ends as it no longer gets better, or as its aim or its time is reached, was meant to end so."""
    return _PLANNED.search(text) is None or _TROUBLED.search(text) is not None


_CALM = re.compile(rf"\bNCCL INFO\b|\b(?:INFO|WARN(?:ING)?|DEBUG)\b|{lettered('IW')}|(?:^|\s)\[[IWD]\]\s")


def not_told_for_information(fields: Mapping[str, object], text: str) -> bool:
    """What a library tells as information or a warning it goes on without; where it cannot, an error follows."""
    return _CALM.search(text[:_BEFORE]) is None


_BEFORE = 200
"""The level stands within so many letters from the beginning of a line."""
