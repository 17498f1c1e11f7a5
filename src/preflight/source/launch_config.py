"""The configuration file of a launcher: what ``accelerate config`` wrote, read as options that the line left out."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from preflight.errors import InputError
from preflight.source.launcher import Launch, with_counts

MOST_BYTES = 1_000_000
# Keys of the file, and the options of ``accelerate launch`` that say the same.
_OPTIONS = {
    "num_processes": "num-processes",
    "num_machines": "num-machines",
    "mixed_precision": "mixed-precision",
    "gpu_ids": "gpu-ids",
}
_KINDS = {"DEEPSPEED": "use-deepspeed", "FSDP": "use-fsdp", "MULTI_GPU": "multi-gpu", "MEGATRON_LM": "use-megatron-lm"}
_SECTIONS = ("deepspeed_config", "fsdp_config", "parallelism_config")


def with_config(launch: Launch) -> Launch:
    """Fill in what the configuration file of ``accelerate launch`` says; the line itself wins.

    The file is the one that the line names, as the launcher would find it from the current folder.

    Raises:
        InputError: The file is missing, or is not a mapping in YAML or JSON.
        UsageError: A count in it is not a number.
    """
    if launch.framework != "accelerate" or launch.config is None:
        return launch
    content = _read(launch.config)
    options = {_OPTIONS[key]: str(value) for key, value in content.items() if key in _OPTIONS and value is not None}
    kind = _KINDS.get(str(content.get("distributed_type", "")).upper())
    if kind is not None:
        options[kind] = "true"
    for section in _SECTIONS:
        inner = content.get(section)
        for key, value in inner.items() if isinstance(inner, dict) else ():
            if value is not None and not isinstance(value, (dict, list)):
                options[str(key).replace("_", "-")] = str(value)
    return with_counts(msgspec.structs.replace(launch, options=options | launch.options))


def _read(path: str) -> dict[str, Any]:
    said = f"the launch line names {path}"
    try:
        if not os.path.isfile(path):
            raise InputError(f"{said}, which is not there", "it is looked for from the current folder")
        if os.path.getsize(path) > MOST_BYTES:
            raise InputError(f"{said}, which is too large for a configuration")
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{said}, which cannot be read: {getattr(error, 'strerror', None) or error}") from None
    import yaml

    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        raise InputError(f"{said}, which is not YAML or JSON{where}") from None
    if not isinstance(content, dict):
        raise InputError(f"{said}, which holds no settings", "accelerate config writes such a file")
    return content
