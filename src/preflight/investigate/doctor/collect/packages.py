"""The interpreter that trains, and the packages it has; asked, not imported."""

from __future__ import annotations

import json

from preflight.investigate.doctor.asking import NoAnswer, ask
from preflight.investigate.doctor.wanted import Wanted
from preflight.vocabulary.finding import Scalar

PACKAGES = (
    "torch", "torchvision", "torchaudio", "triton", "numpy", "transformers", "accelerate", "deepspeed", "datasets",
    "tokenizers", "peft", "lightning", "pytorch-lightning", "megatron-core", "transformer-engine", "flash-attn", "apex",
    "xformers", "bitsandbytes", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-cudnn-cu12", "nvidia-cublas-cu12", "timm",
    "safetensors", "webdataset", "ray", "mpi4py", "vllm", "trl",
)  # fmt: skip
ASK = """\
import json, platform, sys
from importlib import metadata
found = {"python.version": platform.python_version(), "python.path": sys.executable, "python.prefix": sys.prefix}
for name in json.loads(sys.argv[1]):
    try:
        found["package." + name] = metadata.version(name)
    except Exception:
        pass
print(json.dumps(found))
"""


def collect(wanted: Wanted) -> dict[str, Scalar]:
    """Return versions."""
    try:
        found: dict[str, Scalar] = json.loads(ask([wanted.python, "-c", ASK, json.dumps(PACKAGES)], wanted.seconds))
    except (NoAnswer, ValueError) as error:
        return {"python.problem": str(error)}
    return found
