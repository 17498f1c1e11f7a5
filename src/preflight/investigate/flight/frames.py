"""Which frame of a stack is the person's own, and how a frame is written."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

from preflight.vocabulary.log import Frame

# Folders and files of what a program is built on; the first frame outside them is where the program made the call.
_LIBRARIES = (
    "/site-packages/",
    "/dist-packages/",
    "/lib/python3",
    "<frozen",
    "<string>",
    "<__array_function__",
    "torch/distributed/",
    "/torch/csrc/",
    "??",
)
# py-spy leaves out where a library is installed: its files begin with the library's name, those of Python with the module's.
_PACKAGES = frozenset(
    """torch torchvision torchaudio numpy transformers accelerate deepspeed lightning pytorch_lightning lightning_fabric datasets
    tokenizers safetensors triton apex transformer_engine flash_attn xformers peft trl timm ray fsspec aiohttp urllib3 requests
    wandb tensorboard webdataset PIL cv2 scipy sklearn pandas pyarrow""".split()
)

# What pip makes for a command, such as torchrun: it only calls the library.
_INSTALLED = re.compile(r"/(?:bin|Scripts)/(?:[^/.]+$|[^/]+\.exe/)")


def is_own(frame: Frame) -> bool:
    """Tell whether a frame is of the program and not of a library."""
    path = frame.path.replace("\\", "/")
    native = path.endswith((".cpp", ".h", ".hpp", ".cu", ".cc", ".c", ".so")) or ".so." in path
    if not path or native or _INSTALLED.search(path) or any(part in path for part in _LIBRARIES):
        return False
    first = path.partition("/")[0].removesuffix(".py")
    return path[0] == "/" or ":" in path or (first not in _PACKAGES and first not in sys.stdlib_module_names)


def own_frame(frames: Iterable[Frame]) -> Frame | None:
    """Return the innermost frame of the program; frames come innermost first."""
    return next((frame for frame in frames if is_own(frame)), None)


def written(frame: Frame | None) -> str:
    """Write a frame as ``function (path:line)``."""
    if frame is None:
        return "an unknown place"
    place = frame.path if frame.line is None else f"{frame.path}:{frame.line}"
    return f"{frame.function} ({place})" if frame.function else place
