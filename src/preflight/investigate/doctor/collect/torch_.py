"""What torch finds: devices, CUDA, NCCL; in a process of its own, since a driver may hang it."""

from __future__ import annotations

import json

from preflight.investigate.doctor.asking import NoAnswer, ask
from preflight.investigate.doctor.wanted import Wanted
from preflight.vocabulary.finding import Scalar

ASK = """\
import json
import torch
found = {"torch.version": torch.__version__, "torch.cuda": torch.version.cuda, "torch.hip": torch.version.hip,
         "torch.threads": torch.get_num_threads(), "torch.deterministic": torch.are_deterministic_algorithms_enabled()}
import torch.distributed as dist
if dist.is_available():
    found["torch.backends"] = ",".join(name for name in ("gloo", "nccl", "mpi", "ucc")
                                       if getattr(dist, f"is_{name}_available")())
if torch.cuda.is_available():
    found["torch.devices"] = torch.cuda.device_count()
    found["torch.cudnn"] = torch.backends.cudnn.version()
    found["torch.matmul_tf32"] = torch.backends.cuda.matmul.allow_tf32
    if dist.is_nccl_available():
        found["torch.nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    for index in range(torch.cuda.device_count()):
        one = torch.cuda.get_device_properties(index)
        found[f"torch.device.{index}.name"] = one.name
        found[f"torch.device.{index}.bytes"] = one.total_memory
        found[f"torch.device.{index}.capability"] = f"{one.major}.{one.minor}"
    torch.zeros(1, device="cuda")
else:
    found["torch.devices"] = 0
try:
    with open("/proc/self/maps") as file:
        loaded = {line.split()[-1] for line in file if "/libnccl" in line or "/librccl" in line}
    if loaded:
        found["nccl.loaded"] = ",".join(sorted(loaded))
except OSError:
    pass
print(json.dumps({key: value for key, value in found.items() if value is not None}))
"""


def collect(wanted: Wanted) -> dict[str, Scalar]:
    """Return what torch says; ``torch.problem`` where it cannot be imported, or does not come back."""
    try:
        found: dict[str, Scalar] = json.loads(ask([wanted.python, "-c", ASK], max(wanted.seconds, 60.0)))
    except (NoAnswer, ValueError) as error:
        return {"torch.problem": str(error).replace(ASK, "")}
    return found
