"""Shapes that an operation cannot combine.

## What it does
Compares the features that a layer is given, as far as the layers before tell them, with those that it was made for: `in_features` of a linear layer, `in_channels` of a convolution, the features of a normalisation.
A dry run explains every exception about shapes: it names the module and what it expects, the tensors of the statement with their shapes, and the line that made each of them.

## Why
The first forward pass stops.
The message of PyTorch names two sizes and an operator deep inside of a layer.
Which layer it was, which tensor had the wrong size, and where that size came from is what has to be known to mend it.

## Fix
Change the layer that expects the other size, or the line that made the tensor.

## When to ignore
When the data of the dry run stood in for data of another shape; the notes of the report say so.

## References
- PyTorch documentation of Linear, Conv2d and BatchNorm2d: shapes; "Broadcasting semantics"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.forward.entry import channels_of
from preflight.check.forward.follow import Forward
from preflight.check.forward.network_calls import calls_of
from preflight.check.queries.known_images import images_of
from preflight.check.queries.shapes import channels, width
from preflight.check.queries.tensors import module_of
from preflight.check.rule import Rule
from preflight.source.layers import Network
from preflight.source.trace import Event, provenance
from preflight.source.values import Obj, Phi, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(name="shapes-do-not-fit", code="SHP006", severity="error", confidence="likely", layer="D", tags=("shapes",))

_IMAGES = """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms as T
steps = T.Compose([T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize((0.5,) * 3, (0.5,) * 3)])
loader = DataLoader(datasets.CIFAR10("data", transform=steps), batch_size=64, shuffle=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(%d, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(%s, 10)
    def forward(self, x):
        return self.head(self.body(x).flatten(1))
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x.cuda()), y.cuda()).backward()
    optimizer.step()
"""

BAD = (
    _IMAGES % (3, "16 * 14 * 14"),
    _IMAGES % (1, "16 * 16 * 16"),
    """
from torch import nn
net = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
for x, y in loader:
    nn.functional.cross_entropy(net(x), y).backward()
""",
    """
import torch.nn as nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.Conv2d(32, 64, 3)
    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.a(x))), 2)
        return self.b(x).mean((2, 3))
net = Net()
for x, y in loader:
    F.cross_entropy(net(x), y).backward()
""",
    """
import argparse
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--hidden", type=int, default=256)
args = p.parse_args()
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.norm = nn.Linear(width, 4 * width), nn.LayerNorm(width)
    def forward(self, x):
        return self.norm(self.up(x))
block = Block(args.hidden)
for x in batches:
    block(x).mean().backward()
""",
    """
import cv2, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
class Scans(Dataset):
    def __init__(self, files, side):
        self.files, self.side = files, side
    def __len__(self):
        return len(self.files)
    def __getitem__(self, i):
        image = cv2.resize(cv2.imread(self.files[i]), (self.side, self.side))
        return torch.from_numpy(image).permute(2, 0, 1).float(), 0.0
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.deep = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.last = nn.Conv2d(16, 1, 1)
    def forward(self, x):
        fine = torch.relu(self.down(x))
        coarse = torch.relu(self.deep(nn.functional.max_pool2d(fine, 2)))
        return self.last(torch.cat([self.up(coarse), fine], dim=1)).mean((1, 2, 3))
net = Net()
for x, y in DataLoader(Scans(names, 128), batch_size=8, shuffle=True):
    nn.functional.mse_loss(net(x), y).backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
from torchvision import transforms
class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(64, 64, 1)
    def forward(self, x):
        return torch.sigmoid(self.conv(x)) * x
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        gate = Gate()
        body = nn.Sequential(nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.ReLU())
        self.gate, self.body, self.pool, self.head = gate, body, nn.AdaptiveAvgPool2d(1), nn.Linear(64, 4)
    def forward(self, x):
        return self.head(self.pool(self.gate(self.body(x))).flatten(1))
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
made = transforms.Compose([transforms.Resize((224, 224)), transforms.ToTensor()])
for x, y in torch.utils.data.DataLoader(Pictures(transform=made), batch_size=8, shuffle=True):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Levels(nn.Module):
    def __init__(self, width=16, factors=[1, 2, 4, 2, 1]):
        super().__init__()
        self.into = nn.ModuleList([nn.Linear(1, width * f) for f in factors[:3]])
        self.out = nn.ModuleList([nn.Linear(width * f, 4) for f in factors])
    def forward(self, x):
        rows = list()
        for layer in self.into:
            rows.append(layer(x))
        rows = rows + rows[1:-1] + [rows[0]]
        back, last = self.out[3:]
        return back(rows[3]) + last(rows[4])
net = Levels()
optimizer = torch.optim.AdamW(net.parameters())
for step in range(1000):
    optimizer.zero_grad()
    net(torch.randn(2, 1)).mean().backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
judge = nn.Sequential(nn.Conv2d(6, 64, 4, 2, 1), nn.InstanceNorm2d(128), nn.LeakyReLU(0.2), nn.Conv2d(64, 1, 4))
optimizer = torch.optim.Adam(judge.parameters())
for pair in pairs:
    optimizer.zero_grad()
    judge(pair).mean().backward()
    optimizer.step()
""",
    _IMAGES % (3, "16 * 16 * 16"),
    _IMAGES.replace("T.ToTensor()", "enlarged, T.ToTensor()") % (3, "16 * 14 * 14"),
    """
import torch
from torch import nn
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.out = nn.Linear(8, 16), nn.Linear(16, 2)
    def forward(self, x):
        return self.out(self.body(x))
net = nn.Sequential(nn.Linear(4, 8), Head())
for y in labels:
    nn.functional.cross_entropy(net(torch.randn(32, 4)), y).backward()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 16), nn.Linear(32, 4), nn.Linear(16, 4)
    def forward(self, x, wide=False):
        h = self.a(x)
        return self.b(torch.cat([h, h], -1)) if wide else self.c(h)
net = Net()
for x, y in loader:
    nn.functional.cross_entropy(net(x), y).backward()
""",
    """
from torch import nn
sizes = [8, 16, 32]
layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
for x in loader:
    for layer in layers:
        x = layer(x).relu()
    x.mean().backward()
""",
    """
from torch import nn
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(7200, 10))
for x, y in loader:
    nn.functional.cross_entropy(net(x), y).backward()
""",
    """
import cv2, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
class Scans(Dataset):
    def __init__(self, files, side):
        self.files, self.side = files, side
    def __len__(self):
        return len(self.files)
    def __getitem__(self, i):
        image = cv2.resize(cv2.imread(self.files[i]), (self.side, self.side))
        return torch.from_numpy(image).permute(2, 0, 1).float(), 0.0
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 16, 3, padding=1), nn.ConvTranspose2d(16, 16, 2, stride=2)
        self.last = nn.Conv2d(32, 1, 1)
    def forward(self, x):
        fine = torch.relu(self.down(x))
        return self.last(torch.cat([self.up(nn.functional.max_pool2d(fine, 2)), fine], dim=1)).mean((1, 2, 3))
net = Net()
for x, y in DataLoader(Scans(names, 128), batch_size=8, shuffle=True):
    nn.functional.mse_loss(net(x), y).backward()
""",
)

_FEATURES = {"Linear": (0, "in_features"), "LayerNorm": (0, "normalized_shape"), "RMSNorm": (0, "normalized_shape")}
_CHANNELS = {
    **{f"Conv{n}d": (0, "in_channels") for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": (0, "in_channels") for n in (1, 2, 3)},
    **{f"BatchNorm{n}d": (0, "num_features") for n in (2, 3)},
    **{f"InstanceNorm{n}d": (0, "num_features") for n in (2, 3)},
    "GroupNorm": (1, "num_channels"),
}


def check(context: Context) -> Iterator[Finding]:
    """Compare what each layer is given with what it was made for."""
    told: set[int] = set()
    for event in context.trace.calls("()"):
        layer = settle(event.receiver) if event.receiver is not None else None
        if not isinstance(layer, Obj) or layer.cls is not None or id(layer) in told:
            continue
        if event.context.shadow or len(event.args) != 1:
            continue
        kind = layer.name.removeprefix("torch.nn.")
        place = _FEATURES.get(kind) or _CHANNELS.get(kind)
        if place is None or layer.open_args:
            continue
        if kind.startswith("InstanceNorm") and not _holds_channels(layer):
            continue  # without weights and statistics the number of channels is not used: PyTorch only warns
        wanted = plain(layer.argument(*place))
        given = event.args[0]
        # What a loop carries has another width in each pass.
        if not isinstance(wanted, int) or any(isinstance(part, Phi) for part in provenance(given, 60)):
            continue
        found = width(given) if kind in _FEATURES else channels(given)
        if found is None or found == wanted:
            continue
        told.add(id(layer))
        yield _finding(context, event, layer, found, wanted)
    if not told:
        yield from _of_images(context)


def _holds_channels(layer: Obj) -> bool:
    """Whether a norm of single samples has something of each channel: by default it has not."""
    switches = (layer.argument(3, "affine"), layer.argument(4, "track_running_stats"))
    return any(switch is not None and plain(switch) is True for switch in switches)


def _of_images(context: Context) -> Iterator[Finding]:
    """Follow images of a known size to the first layer that cannot take what it is given."""
    spec, size = context.model, context.run.micro_batch
    if not context.reading.models or spec is None:
        return
    calls = calls_of(context.reading, context.reading.models[0])
    network = Network(context.reading, context.reading.models[0])
    sure = images_of(calls[0].args[0]) if calls and calls[0].args else None
    image = sure or (_as_read(context, network) if calls else None)
    if image is None:
        return
    if spec.activation_elements is not None and channels_of(network) in (None, image[0]):
        return  # such images were followed to the end
    misfit = Forward(context.reading, calls, image, size or 2).misfit
    layer = module_of(misfit.value) if misfit is not None else None
    if misfit is None or layer is None or misfit.value.context is None or misfit.value.context.shadow:
        return
    if sure is None and layer.name.removeprefix("torch.nn.") not in _CHANNELS:
        return  # how many features are left hangs on the exact size, how many channels does not
    if sure is None and misfit.shape[misfit.dimension] == image[0]:
        return  # it may be the images that have other channels: the first layer that is made need not be the first asked
    shown = [
        Evidence("images", f"{image[0]} x {image[1]} x {image[2]}"),
        Evidence("shape given", str(misfit.shape)),
    ]
    yield _finding(context, misfit.value, layer, misfit.shape[misfit.dimension], misfit.wanted, *shown)


def _as_read(context: Context, network: Network) -> tuple[int, int, int] | None:
    """Images of the size that the data are brought to, with as many channels as the network takes."""
    fact = context.facts.get("image_size")
    size = fact.value if fact is not None else None
    channels = channels_of(network)
    return (channels, size, size) if isinstance(size, int) and channels else None


def _finding(context: Context, place: Event | Obj, layer: Obj, found: int, wanted: int, *more: Evidence) -> Finding:
    kind = layer.name.removeprefix("torch.nn.")
    name = (_FEATURES.get(kind) or _CHANNELS[kind])[1]
    what = "features" if kind in _FEATURES else "channels"
    return context.finding(
        RULE,
        place,
        f"{kind} was made for {wanted} {what} and is given {found}: the first forward pass stops here",
        evidence=[Evidence(f"{what} given", found), Evidence(name, wanted), *more],
        fix=Fix(
            title=f"make the layer for {found} {what}",
            safe=False,
            instruction=f"set {name} to {found}, or change what comes before it",
            expected="the forward pass goes through",
        ),
        related=[(layer, "the layer is made here")],
    )
