"""A network on a GPU is given a batch that was left on the CPU, or the other way round.

## What it does
Follows what a network is called with back to the batch of a loader over a known data set, and compares where both lie: which of them was moved to a GPU.

## Why
The first layer raises `RuntimeError: Expected all tensors to be on the same device`.
`x.to(device)` returns a moved tensor and leaves `x` where it was, unlike `model.to(device)`, which moves the model itself.

## Fix
`x = x.to(device)`, and `model.to(device)`, with the same device.

## When to ignore
When something that is not part of the script moves the batch.

## References
- PyTorch, `torch.Tensor.to`, `torch.nn.Module.to`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.batches import library_parts, loader_of
from preflight.check.queries.placement import gpu_device
from preflight.check.queries.steps import moves_to_gpu
from preflight.check.queries.tensors import operand, operation, origin, within_forward
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Event, provenance
from preflight.source.values import Obj, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(name="batch-left-on-cpu", code="DEV004", severity="error", confidence="likely", layer="D", tags=("device",))

BAD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
device = "cuda"
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
for x, y in DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64):
    nn.functional.cross_entropy(model(x), y.to(device)).backward()
""",
    """
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 2)
    def forward(self, x):
        return self.fc(x)
net = Net()
net.cuda()
rows = TensorDataset(torch.randn(100, 8), torch.randint(0, 2, (100,)))
for x, y in DataLoader(rows, batch_size=10, shuffle=True):
    x.cuda(), y.cuda()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
""",
    """
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import CIFAR10
from torchvision.transforms import ToTensor
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))
for x, y in DataLoader(CIFAR10("data", transform=ToTensor()), batch_size=32):
    x, y = x.to(device), y.to(device)
    torch.nn.functional.cross_entropy(net(x), y).backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
for x, y in DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64):
    x, y = x.to(device), y.to(device)
    nn.functional.cross_entropy(model(x), y).backward()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
for x, y in DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64):
    nn.functional.cross_entropy(model(x), y).backward()
""",
    """
import torch
from torch import nn
from accelerate import Accelerator
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
accelerator = Accelerator()
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to("cuda")
loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64)
model, loader = accelerator.prepare(model, loader)
for x, y in loader:
    accelerator.backward(nn.functional.cross_entropy(model(x), y))
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
torch.set_default_device("cuda")
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
for x, y in DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64):
    x, y = x.to("cuda"), y.to("cuda")
    nn.functional.cross_entropy(model(x), y).backward()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
model = nn.DataParallel(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda())
for x, y in DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64):
    nn.functional.cross_entropy(model(x), y.cuda()).backward()
""",
)

# What puts tensors elsewhere, or moves what a network is given: wrappers that know their devices do.
_ELSEWHERE = (
    "torch.set_default_device", "torch.set_default_tensor_type", ".prepare", ".setup", ".setup_dataloaders",
    "deepspeed.initialize", "torch.nn.DataParallel", "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.DistributedDataParallel",
)  # fmt: skip
_SAME = frozenset(
    {"float", "double", "half", "bfloat16", "view", "reshape", "flatten", "squeeze", "unsqueeze", "contiguous"}
)


def check(context: Context) -> Iterator[Finding]:
    """Compare where networks lie with where the batches lie that they are called with."""
    if context.trace.calls(*_ELSEWHERE):
        return
    told: set[int] = set()
    for event in context.trace.calls("()"):
        network = settle(event.receiver) if event.receiver is not None else None
        if not isinstance(network, Obj) or context.roles.of(network) != "model" or id(network) in told:
            continue
        if not event.args or event.context.shadow or within_forward(event.context):
            continue
        batch_on_gpu = _batch_on_gpu(event.args[0])
        network_on_gpu = _moved(context, network) if batch_on_gpu is not None else None
        if network_on_gpu is None or network_on_gpu == batch_on_gpu:
            continue
        told.add(id(network))
        yield _finding(context, event, network_on_gpu)


def _finding(context: Context, event: Event, network_on_gpu: bool) -> Finding:
    left, moved = ("batch", "network") if network_on_gpu else ("network", "batch")
    return context.finding(
        RULE,
        event,
        f"the {moved} is on the GPU and the {left} was left on the CPU: the first layer raises an error",
        evidence=[Evidence(moved, "GPU"), Evidence(left, "CPU")],
        fix=Fix(
            title=f"move the {left}",
            safe=False,
            instruction="write x = x.to(device): a tensor is not moved in place"
            if network_on_gpu
            else "call model.to(device)",
            expected="both lie on the same device",
        ),
    )


def _moved(context: Context, network: Obj) -> bool | None:
    """Whether a network is moved to a GPU; None where that is not known."""
    if not is_module(network) or network.kind not in ("call", "instance"):
        return None
    moves = [event for event in context.trace.on(network, "to", "cuda") if not event.context.shadow]
    verdicts = {moves_to_gpu(event) for event in moves}
    if verdicts:
        return verdicts.pop() if len(verdicts) == 1 else None
    # It may be moved as a part of something, or by code that is not seen.
    for event in context.trace.events:
        if event.inlined or event.name.startswith(("torch.optim.", "torch.save", "builtins.print")):
            continue
        values = (*event.args, *event.kwargs.values(), *((event.receiver,) if event.name in (".to", ".cuda") else ()))
        if any(part is network for value in values for option in options_of(value) for part in provenance(option, 12)):
            return None
    return False


def _batch_on_gpu(given: Value) -> bool | None:
    """Whether a batch of a loader over a known data set was moved to a GPU; None for everything else."""
    moved, value = False, given
    for _ in range(12):
        found = origin(value, _SAME)
        name = operation(found)
        if found is None:
            return None
        if name == "cuda":
            moved = True
        elif name == "to":
            if not gpu_device(found.argument(0, "device")):
                return None
            moved = True
        else:
            return moved if _plain_batch(found) else None
        value = operand(found) or value
    return None


def _plain_batch(item: Obj) -> bool:
    """Whether a value is a tensor of a loader's batch, as PyTorch's own loader and a known data set give it."""
    parts = library_parts(loader_of(item))
    if parts is None or any(operation(part) in ("to", "cuda") or "device" in part.kwargs for part in parts):
        return False
    return any(part.name.startswith("torchvision.datasets.") or part.name.endswith(".TensorDataset") for part in parts)
