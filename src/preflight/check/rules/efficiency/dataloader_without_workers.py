"""Training data is prepared in the training process.

## What it does
Looks for the loader of a training loop with `num_workers=0` over a dataset that decodes files or transforms samples on the CPU.

## Why
Without workers a batch is prepared between two steps, while the GPU waits.
Decoding a photograph of 500 x 375 pixels and resizing it takes about 5 ms of one CPU core: a batch of 64 takes 64 x 5 ms = 0.3 s, longer than the training step of most image models.

## Fix
Pass `num_workers`: as a start 4 per GPU, at most the number of CPU cores divided by the number of GPUs.

## When to ignore
When the samples already lie in memory as tensors, or when the run is limited to one CPU core.

## References
- PyTorch documentation, `torch.utils.data`, "Single- and Multi-process Data Loading"
- PyTorch documentation, "Performance tuning guide": "Enable async data loading and augmentation"
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.loaders import dataset_of, given, set_argument, setting, training_loaders
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.trace import provenance
from preflight.source.values import Func, Known, Obj, Value, settle
from preflight.vocabulary.finding import Finding, Severity

RULE = Rule(
    name="dataloader-without-workers",
    code="EFF002",
    severity="warning",
    confidence="likely",
    needs=("loader",),
    layer="S",
    tags=("data",),
)

_LOOP = """
model = torch.nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
BAD = (
    """
import torch
from torch.utils.data import DataLoader as Loader
from torchvision import datasets, transforms as T
data = datasets.ImageFolder("x", T.Compose([T.RandomResizedCrop(224), T.ToTensor()]))
loader = Loader(data, batch_size=64, shuffle=True)
"""
    + _LOOP,
    """
import argparse, torch
from PIL import Image
from torch.utils import data
class Pictures(data.Dataset):
    def load(self, path):
        return Image.open(path).convert("RGB")
    def __getitem__(self, i):
        return self.transform(self.load(self.files[i])), self.labels[i]
    def __len__(self):
        return len(self.files)
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
args = parser.parse_args()
def build():
    return data.DataLoader(Pictures(), 32, True, num_workers=args.workers)
loader = build()
"""
    + _LOOP,
    """
import dataclasses, torch, torchaudio
@dataclasses.dataclass
class Config:
    workers: int = 0
class Clips(torch.utils.data.Dataset):
    def __getitem__(self, i):
        wave, rate = torchaudio.load(self.files[i])
        return wave, 0
    def __len__(self):
        return len(self.files)
loader = torch.utils.data.DataLoader(Clips(), shuffle=True, batch_size=16, num_workers=Config().workers)
"""
    + _LOOP,
)
GOOD = (
    """
import torch
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.zeros(100, 10), torch.zeros(100)), batch_size=8, shuffle=True)
"""
    + _LOOP,
    """
import torch
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, transforms as T
class Rows(Dataset):
    def __init__(self, rows):
        self.rows = torch.tensor(rows)
    def __getitem__(self, i):
        return self.rows[i, :-1], self.rows[i, -1]
    def __len__(self):
        return len(self.rows)
loader = DataLoader(Rows([[1.0, 2.0]]), batch_size=8, shuffle=True)
"""
    + _LOOP
    + """
with torch.no_grad():
    for x, y in DataLoader(datasets.ImageFolder("x", T.ToTensor())):
        model(x)
""",
)

_FILES = re.compile(
    r"^torchvision\.datasets\.(ImageFolder|DatasetFolder|ImageNet|Food101|Flowers102|OxfordIIITPet|StanfordCars|FGVCAircraft|Caltech101"
    r"|Caltech256|CelebA|CocoDetection|CocoCaptions|VOCDetection|VOCSegmentation|DTD|EuroSAT|GTSRB|LSUN|Places365|SUN397|Country211|Cityscapes|Kinetics|UCF101)$"
)
_IN_MEMORY = re.compile(
    r"^torchvision\.datasets\.(MNIST|FashionMNIST|KMNIST|QMNIST|EMNIST|CIFAR10|CIFAR100|SVHN|STL10|USPS)$"
)
# Calls that read or decode a sample; tens of microseconds to tens of milliseconds each.
_WORK = re.compile(
    r"^(PIL\.Image\.open|cv2\.(imread|imdecode|resize|VideoCapture)|imageio\.\w*imread|skimage\.(io\.imread|transform\.\w+)|torchvision\.io\.\w+"
    r"|torchvision\.transforms\.functional\.\w+|torchaudio\.load|librosa\.\w+(\.\w+)*|soundfile\.read|scipy\.io\.wavfile\.read|nibabel\.load"
    r"|pydicom\.dcmread|rasterio\.open|decord\.\w+|av\.open|h5py\.File|numpy\.load|torch\.load|tifffile\.imread|albumentations\.\S+)$"
)


def check(context: Context) -> Iterator[Finding]:
    """Find training loaders without workers whose dataset works on the CPU."""
    for loader in training_loaders(context):
        workers = setting(loader, "num_workers")
        if workers != 0 or isinstance(workers, bool):
            continue
        work = _work(context, dataset_of(loader))
        if work is None:
            continue
        what, severity = work
        batch = setting(loader, "batch_size")
        photo = severity == "warning" and isinstance(batch, int)
        edit = set_argument(context, loader, "num_workers", "4")
        shown = "not given" if given(loader, "num_workers") is None else "0"
        yield context.finding(
            RULE,
            loader,
            f"num_workers is {shown} and the dataset works on the CPU ({what}): the GPU waits while each batch is prepared",
            evidence=[
                Evidence("num_workers", 0),
                Evidence("work on each sample", what),
                *(
                    [
                        Evidence(
                            "a batch of photographs",
                            round(batch * 0.005, 2),
                            "s",
                            "derived",
                            f"{batch} x 5 ms on one core",
                        )
                    ]
                    if photo and isinstance(batch, int)
                    else []
                ),
            ],
            fix=Fix(
                title="prepare batches in worker processes",
                edits=edits(edit) if edit is not None else (),
                instruction="pass num_workers=4 per GPU as a start, at most CPU cores / GPUs",
                expected="batches are prepared while the GPU works; with 4 workers up to 4 times as many per second",
            ),
            severity=severity,
        )


def _work(context: Context, dataset: Value | None) -> tuple[str, Severity] | None:
    """What a dataset does for each sample, and how bad it is without workers; None where it only hands out tensors."""
    for part in provenance(dataset, 80):
        if not isinstance(part, Obj):
            continue
        name = part.name.rpartition(".")[2]
        if part.cls is None and _FILES.match(part.name):
            return f"{name} decodes a file for each sample", "warning"
        if part.cls is None and _IN_MEMORY.match(part.name) and _has_transform(part):
            return f"{name} turns an array into a picture and transforms it for each sample", "info"
        if part.cls is not None and part is _base(dataset):
            found = _in_getitem(context, part)
            if found is not None:
                return f"{found} for each sample", "warning"
    return None


def _base(dataset: Value | None) -> Obj | None:
    """The dataset itself, behind splits."""
    for _ in range(4):
        if not isinstance(dataset, Obj):
            return None
        if dataset.cls is not None:
            return dataset
        inner = dataset.receiver if dataset.kind == "item" else dataset.argument(0, "dataset")
        dataset = settle(inner) if inner is not None else None
    return None


def _has_transform(dataset: Obj) -> bool:
    value = dataset.kwargs.get("transform") or (dataset.args[2] if len(dataset.args) > 2 else None)
    base = settle(value) if value is not None else None
    return base is not None and not (isinstance(base, Known) and base.value is None)


def _in_getitem(context: Context, dataset: Obj) -> str | None:
    """A call in ``__getitem__`` that reads or decodes."""
    assert dataset.cls is not None
    getter = dataset.cls.lookup("__getitem__")
    if not isinstance(getter, Func):
        return None
    for name, events in context.trace.by_name.items():
        if _WORK.match(name):
            for event in events:
                if any(_is(frame, getter) for frame in event.context.frames()):
                    return f"{name} is called"
    return None


def _is(frame: Frame, func: Func) -> bool:
    return isinstance(frame.value, Func) and frame.value.node is func.node
