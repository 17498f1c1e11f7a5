"""Training data is prepared in the training process.

## What it does
Looks for the loader of a training loop with `num_workers=0` over a dataset that reads or decodes files, tokenises text or transforms samples on the CPU.

## Why
Without workers a batch is prepared between two steps, while the GPU waits.
The time of a step becomes preparation + training instead of the larger of the two: where both take as long, the GPU is idle for half of the run.
PyTorch's own tuning guide names worker processes first among its advice.

## Fix
Pass `num_workers`: as a start 4 per GPU, at most the number of CPU cores divided by the number of GPUs.

## When to ignore
When the samples already lie in memory as tensors, or when the run is limited to one CPU core.

## References
- PyTorch documentation, `torch.utils.data`, "Single- and Multi-process Data Loading"
- PyTorch documentation, "Performance tuning guide": "Enable async data loading and augmentation"
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.loaders import dataset_of, given, set_argument, setting, training_loaders
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
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
    """
import json, torch
from torch.utils.data import DataLoader, Dataset
def parse(path):
    with open(path) as file:
        return json.load(file)
class Records(Dataset):
    def __init__(self, files):
        self.files = files
    def __getitem__(self, i):
        record = parse(self.files[i])
        return torch.tensor(record["x"]), record["y"]
    def __len__(self):
        return len(self.files)
loader = DataLoader(Records(paths), 64, shuffle=True)
"""
    + _LOOP,
    """
import torch
from transformers import AutoTokenizer as Tokens
class Reviews(torch.utils.data.Dataset):
    def __init__(self, texts, tokens):
        self.texts, self.tokens = texts, tokens
    def __getitem__(self, i):
        row = self.tokens(self.texts[i], truncation=True, padding="max_length", max_length=128, return_tensors="pt")
        return row["input_ids"][0], 1
    def __len__(self):
        return len(self.texts)
loader = torch.utils.data.DataLoader(Reviews(texts, Tokens.from_pretrained("bert-base-uncased")), 16, shuffle=True)
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
class Lazy(Dataset):
    handle = None
    def __getitem__(self, i):
        if self.handle is None:
            self.handle = open("rows.bin", "rb")
        return torch.zeros(10), 0
    def __len__(self):
        return 10
for x, y in DataLoader(Lazy(), batch_size=8, shuffle=True):
    model(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
with torch.no_grad():
    for x, y in DataLoader(datasets.ImageFolder("x", T.ToTensor())):
        model(x)
""",
)

_FILES = (
    r"^torchvision\.datasets\.(ImageFolder|DatasetFolder|ImageNet|Food101|Flowers102|OxfordIIITPet|StanfordCars|FGVCAircraft|Caltech101"
    r"|Caltech256|CelebA|CocoDetection|CocoCaptions|VOCDetection|VOCSegmentation|DTD|EuroSAT|GTSRB|LSUN|Places365|SUN397|Country211|Cityscapes|Kinetics|UCF101)$"
)
_IN_MEMORY = r"^torchvision\.datasets\.(MNIST|FashionMNIST|KMNIST|QMNIST|EMNIST|CIFAR10|CIFAR100|SVHN|STL10|USPS)$"
# Calls that read or decode a sample.
_WORK = (
    r"^(PIL\.Image\.open|cv2\.(imread|imdecode|resize|VideoCapture)|imageio\.\w*imread|skimage\.(io\.imread|transform\.\w+)|torchvision\.io\.\w+"
    r"|torchvision\.transforms\.functional\.\w+|torchaudio\.load|librosa\.\w+(\.\w+)*|soundfile\.read|scipy\.io\.wavfile\.read|nibabel\.load"
    r"|pydicom\.dcmread|rasterio\.open|builtins\.open|io\.open|gzip\.open|pandas\.read_\w+|decord\.\w+|av\.open|h5py\.File|numpy\.load|torch\.load|tifffile\.imread|albumentations\.\S+)$"
)

_TOKENIZER = (
    r"^(transformers\.(\w*\.)?\w*Tokenizer\w*(\.from_pretrained)?|tokenizers\.Tokenizer\.from_\w+|spacy\.load)$"
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
        edit = set_argument(context, loader, "num_workers", "4")
        shown = "not given" if given(loader, "num_workers") is None else "0"
        yield context.finding(
            RULE,
            loader,
            f"num_workers is {shown} and the dataset works on the CPU ({what}): the GPU waits while each batch is prepared",
            evidence=[
                Evidence("num_workers", 0),
                Evidence("work on each sample", what),
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
        if part.cls is None and re.match(_FILES, part.name):
            return f"{name} decodes a file for each sample", "warning"
        if part.cls is None and re.match(_IN_MEMORY, part.name) and _has_transform(part):
            return f"{name} turns an array into a picture and transforms it for each sample", "info"
        if part.cls is not None and part is _base(dataset):
            found = _in_getitem(context, part)
            if found is not None:
                return f"{found[0]} for each sample", found[1]
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


def _in_getitem(context: Context, dataset: Obj) -> tuple[str, Severity] | None:
    """A call in ``__getitem__`` that reads, decodes or tokenises."""
    assert dataset.cls is not None
    getter = dataset.cls.lookup("__getitem__")
    if not isinstance(getter, Func):
        return None
    for name, events in context.trace.by_name.items():
        if re.match(_WORK, name) and any(_each_time(event, getter) for event in events):
            return f"{name.removeprefix('builtins.')} is called", "warning"
    for event in context.trace.calls("()", ".encode", ".encode_plus", ".tokenize"):
        if _is_tokenizer(event.receiver) and _each_time(event, getter):
            return "a tokenizer is called", "info"
    return None


def _is_tokenizer(value: Value | None) -> bool:
    base = settle(value) if value is not None else None
    return isinstance(base, Obj) and base.cls is None and re.match(_TOKENIZER, base.name) is not None


def _each_time(event: Event, getter: Func) -> bool:
    """Whether a call is made for each sample, and not under a test: a handle that is opened once, or a cache."""
    for frame in event.context.frames():
        if frame.kind in ("if", "except"):
            return False
        if frame.kind == "call" and isinstance(frame.value, Func):
            if _under_test(frame.value.node, event.node):
                return False
            if frame.value.node is getter.node:
                return True
    return False


def _under_test(function: ast.AST, node: ast.AST) -> bool:
    """Whether a node stands under an ``if`` of a function: a test that is decided leaves no frame."""
    return any(
        isinstance(test, ast.If) and any(inner is node for part in test.body for inner in ast.walk(part))
        for test in ast.walk(function)
    )
