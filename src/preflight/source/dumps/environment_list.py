"""What a process ran with: ``torch.utils.collect_env``, ``env``, ``pip freeze``/``pip list``, ``/proc/PID/environ``."""

from __future__ import annotations

import re

import msgspec

from preflight.source.dumps.part import Part
from preflight.vocabulary.log import Environment, LogFile, Who

KIND = "environment"

_VARIABLE = re.compile(rb"^(?:export |declare -x )?[A-Za-z_][A-Za-z0-9_]*=(?!=)")
_PINNED = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:==| @ )(\S.*)$")
_LISTED = re.compile(r"^([A-Za-z0-9][\w.-]*)\s+(\d\S*)(?:\s.*)?$")
_COLLECTED = {
    "PyTorch version": "torch",
    "Is debug build": "debug_build",
    "CUDA used to build PyTorch": "cuda_build",
    "ROCM used to build PyTorch": "rocm_build",
    "OS": "os",
    "GCC version": "gcc",
    "Libc version": "libc",
    "Python version": "python",
    "Python platform": "platform",
    "Is CUDA available": "cuda_available",
    "CUDA runtime version": "cuda",
    "Nvidia driver version": "driver",
    "cuDNN version": "cudnn",
}
_CARD = re.compile(r"^GPU (\d+): (.+)$")
_PACKAGE = re.compile(r"^\[(?:pip\d?|conda)\] ([\w.-]+?)(?:==|\s+)(\S+)")
# Variables that tell whose environment it is.
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_NODES = ("SLURMD_NODENAME", "HOSTNAME", "NODE_NAME")
_MOST = 20_000
_SECRET = re.compile(r"(?i)token|secret|passw|api_?key|credential|private|auth")


def looks_like(name: str, head: bytes) -> bool:
    """Tell by most of the first lines: variables, pinned packages, or the report of torch."""
    if b"PyTorch version:" in head[:400] and b"Is CUDA available:" in head and b"Traceback (most recent" not in head:
        return True
    if head.count(b"\0") > 5 and all(_VARIABLE.match(part) for part in head.split(b"\0")[:5]):
        return True
    first = head[:400].lstrip().split(b"\n", 1)[0]
    if not (_VARIABLE.match(first) or first.startswith(b"Package") or _PINNED.match(first.decode("utf-8", "replace"))):
        return False
    lines = [line for line in head.splitlines()[:60] if line.strip()]
    if len(lines) < 4:
        return False
    lines = lines[:-1] if len(head) >= 8192 else lines
    variables = sum(1 for line in lines if _VARIABLE.match(line))
    if variables >= 0.8 * len(lines) and any(
        line.startswith((b"PATH=", b"HOME=", b"PWD=", b"export ", b"declare -x ")) for line in lines
    ):
        return True
    pinned = sum(1 for line in lines if _PINNED.match(line.decode("utf-8", "replace")))
    return pinned >= 0.8 * len(lines) or (lines[0].split() == [b"Package", b"Version"] and set(lines[1]) <= set(b"- "))


def read(content: bytes, file: LogFile) -> Part:
    """Read versions, packages or variables; the values of those that look secret are left out."""
    text = content.decode("utf-8", "replace")
    if "PyTorch version:" in text:
        source, values = "collect_env", _collected(text)
    elif "\0" in text or _VARIABLE.match(content.lstrip()):
        source, values = "env", _variables(text)
    else:
        source, values = "pip", _packages(text)
    who = file.who
    if source == "env":
        who = _owner(values, who)
    environment = Environment(who=who, file=file.index, source=source, values=values)
    world = values.get("env.WORLD_SIZE", "")
    return Part(
        who=who,
        lines=text.count("\n") + 1,
        world_size=int(world) if world.isdigit() and len(world) < 8 else None,
        environments=(environment,) if values else (),
        problem=None if values else "nothing in it",
    )


def _owner(values: dict[str, str], who: Who) -> Who:
    rank = next((int(values[f"env.{name}"]) for name in _RANKS if values.get(f"env.{name}", "").isdigit()), who.rank)
    node = next((values[f"env.{name}"] for name in _NODES if values.get(f"env.{name}")), who.node)
    local = values.get("env.LOCAL_RANK", values.get("env.SLURM_LOCALID", ""))
    return msgspec.structs.replace(
        who, rank=rank, node=node, local_rank=int(local) if local.isdigit() else who.local_rank
    )


def _collected(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in text.splitlines():
        package, card = _PACKAGE.match(line), _CARD.match(line)
        key, _, value = line.partition(":")
        if package:
            values[f"package.{package.group(1)}"] = package.group(2)
        elif card:
            values[f"gpu.{card.group(1)}.name"] = card.group(2)
        elif key.strip() in _COLLECTED and value.strip():
            values.setdefault(_COLLECTED[key.strip()], value.strip())
    return values


def _variables(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    name = ""
    for part in text.split("\0") if "\0" in text else text.splitlines():
        plain = part.removeprefix("export ").removeprefix("declare -x ")
        if _VARIABLE.match(plain.encode("utf-8", "replace")):
            name, _, value = plain.partition("=")
            values[f"env.{name}"] = "(left out)" if _SECRET.search(name) else value.strip("'\"")[:2000]
        elif name and not _SECRET.search(name) and "\0" not in text:
            values[f"env.{name}"] = f"{values[f'env.{name}']}\n{part}"[:2000]  # a value of several lines
        if len(values) >= _MOST:
            break
    return values


def _packages(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in text.splitlines()[:_MOST]:
        found = _PINNED.match(line) or _LISTED.match(line)
        if found and found.group(1) != "Package":
            values[f"package.{found.group(1).lower()}"] = found.group(2).strip()
    return values
