"""Where and how the weights of a model lie, where the script leaves that to something that nobody has read."""

from __future__ import annotations

from preflight.source.reading import Reading
from preflight.source.values import Dict, Known, Value, settle
from preflight.vocabulary.run import RunSpec

_QUANTISED = ("quantization_config", "load_in_4bit", "load_in_8bit")
_SPREAD = ("device_map", "max_memory", "offload_folder")


def why_less(reading: Reading, run: RunSpec) -> str | None:
    """Return why the weights may take less of the GPU than their number says; None where they lie on it whole.

    Weights that are quantised take a quarter or an eighth of what they take otherwise, and those that a map lays on several
    devices, on the processor or on disk take what the map leaves here: that they do not fit is certain of neither. Weights
    of four bits under adapters are counted as such.
    """
    for model in reading.made("model"):
        if not model.name.endswith(".from_pretrained"):
            continue
        given = {name: settle(value) for name, value in model.kwargs.items()}
        quantised = next((name for name in _QUANTISED if name in given and not _is_off(given[name])), None)
        if quantised is not None and run.finetune != "qlora":
            return f"how many bits the weights take is not counted ({quantised})"
        spread = next((name for name in _SPREAD if name in given and not _is_one_device(given[name])), None)
        if spread is not None:
            return f"how much of the weights lies on this GPU is left to {spread}"
        if model.open_args:
            return "what is handed to from_pretrained is not known as a whole, and may quantise or spread the weights"
    return None


def _is_off(value: Value) -> bool:
    return isinstance(value, Known) and value.value in (None, False)


def _is_one_device(value: Value) -> bool:
    """Whether nothing is spread: no map, one device, or one for everything (``{"": 0}``)."""
    if isinstance(value, Dict):
        return not value.open and len(value.entries) == 1
    return _is_off(value) or (isinstance(value, Known) and (value.value == 0 or str(value.value).startswith("cuda")))
