"""What an exception means that no signature took: by where it was raised, then by its class.

It is the last resort, and weighs little: the class alone says more of the symptom than of the cause.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from preflight.vocabulary.log import Hit, Raised
from preflight.vocabulary.signature import Category, Role


class Meaning(NamedTuple):
    """What it is taken for."""

    title: str
    category: Category
    role: Role


# Where it was raised, the innermost frame that one of these takes decides.
_PLACES: tuple[tuple[str, Category], ...] = (
    (r"torch/_(dynamo|inductor)/|triton/(compiler|backends|runtime)/", "compile"),
    (r"torch/utils/data/|/datasets/|webdataset|/data/|data_?loader|/dataset|tokeniz|collat", "data"),
    (r"torch/serialization|distributed/checkpoint|safetensors|checkpoint(ing|er)?\.py|/checkpoint", "checkpoint"),
)
# A launcher raises when one of its processes has failed; what it raises says no more than that.
_LAUNCHERS = re.compile(
    r"torch/distributed/(run|launch|launcher/api|elastic/.+)\.py$|accelerate/commands/|deepspeed/launcher/|(^|/)runpy\.py$"
    r"|/bin/(torchrun|accelerate|deepspeed)$|^<frozen runpy>$"
)
_FUNCTIONS: tuple[tuple[str, Category], ...] = (
    (r"(load|save)_(checkpoint|state_dict|pretrained_state)|load_state_dict|torch_save|torch_load", "checkpoint"),
    (r"__getitem__|collate|_fetch|default_collate|_try_get_data|decode_image|worker_loop", "data"),
)
_CLASSES: tuple[tuple[str, Category, Role], ...] = (
    (r"(CUDA)?OutOfMemoryError|MemoryError", "oom", "root"),
    (r"ImportError|ModuleNotFoundError|EnvironmentError|VersionConflict|PackageNotFoundError", "environment", "root"),
    (r"Dist(Network|Store|Backend)?Error|NCCLError|ConnectionError|ConnectionResetError|BrokenPipeError"
     r"|ConnectionRefusedError|TimeoutError|RendezvousError\w*", "network", "cascade"),
    (r"ChildFailedError|ProcessRaisedException|ProcessExitedException|RayTaskError|CalledProcessError", "other", "teardown"),
    (r"SignalException|KeyboardInterrupt|Preempted\w*", "preemption", "teardown"),
    (r"FloatingPointError|ZeroDivisionError|OverflowError|LinAlgError|\w*(Nan|NaN|Inf)\w*(Error|Exception)", "numerical", "root"),
    (r"UnicodeDecodeError|JSONDecodeError|StopIteration|EOFError|UnpicklingError|PicklingError|ArrowInvalid", "data", "root"),
    (r"PermissionError|FileNotFoundError|OSError|IOError|ArgumentError|ConfigError|\w*ConfigurationError", "environment", "root"),
)  # fmt: skip
_WORDS: tuple[tuple[str, Category], ...] = (
    (r"out of memory|cannot allocate memory", "oom"),
    (r"\bnan\b|\bNaN\b|non-?finite|\binf\b", "numerical"),
    (r"checkpoint|state_dict", "checkpoint"),
    (r"No space left|Disk quota|Stale file handle|Input/output error", "checkpoint"),
    (r"\bNCCL\b|gloo|rendezvous|TCPStore|timed out", "network"),
)


_ORPHAN = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)): (\S.*)$")


def orphan_of(hit: Hit) -> Raised | None:
    """Return the exception that a line is the last one of, where its traceback was not kept."""
    found = _ORPHAN.match(hit.text)
    if found is None:
        return None
    return Raised(exception=found[1], message=found[2], frames=(), hit=hit)


def meaning_of(raised: Raised) -> Meaning:
    """Return what an exception that no signature took is taken for."""
    name = raised.exception.rpartition(".")[2]
    if not name:
        launched = bool(raised.frames) and _LAUNCHERS.search(raised.frames[-1].path) is not None
        return Meaning(
            "a traceback that is cut off before its exception", "other", "teardown" if launched else "cascade"
        )
    title = f"{name}: {raised.message}" if raised.message else name
    title = title.split("\n", 1)[0][:200]
    for pattern, category, role in _CLASSES:
        if re.fullmatch(pattern, name):
            if role == "root" and category in ("environment", "data"):
                return Meaning(title, _of_frames(raised) or category, role)
            return Meaning(title, category, role)
    for pattern, category in _WORDS:
        if re.search(pattern, raised.message):
            return Meaning(title, category, "root")
    return Meaning(title, _of_frames(raised) or "usercode", "root")


def _of_frames(raised: Raised) -> Category | None:
    for frame in reversed(raised.frames):
        for pattern, category in _FUNCTIONS:
            if re.search(pattern, frame.function):
                return category
        for pattern, category in _PLACES:
            if re.search(pattern, frame.path):
                return category
    return None
