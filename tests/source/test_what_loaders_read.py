"""How long texts and how large pictures are, where a data set or a collate function of the script says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight import analyze

TEXTS = """
import torch
from torch.utils.data import DataLoader
from transformers import AutoTokenizer, T5ForConditionalGeneration

def main():
    tokenizer = AutoTokenizer.from_pretrained("t5-base")
    model = T5ForConditionalGeneration.from_pretrained("t5-base")
    def collate(rows):
        return tokenizer([r["text"] for r in rows], padding="max_length", truncation=True, max_length=384)
    loader = DataLoader(read("a.jsonl"), batch_size=8, shuffle=True, collate_fn=COLLATE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for batch in loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

main()
"""

PICTURES = """
import cv2, torch
import numpy as np
import torch.nn.functional as F
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split

class Scans(Dataset):
    def __init__(self, files, size=64):
        self.files, self.size = files, size
    def __len__(self):
        return len(self.files)
    def __getitem__(self, i):
        image = Image.open(self.files[i]).convert("RGB")
        READ
        return torch.from_numpy(image / 255.0).permute(2, 0, 1).float(), 0

scans = Scans(sorted(names()), size=96)
train, held_out = random_split(scans, [900, 100])
loader = DataLoader(train, batch_size=4, shuffle=True)
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize("collate", ["collate", "lambda rows: collate(rows)"])
def test_a_collate_function_that_pads(tmp_path: Path, collate: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(TEXTS.replace("COLLATE", collate))
    report = analyze(path, gpu="a100-80gb")
    assert report.facts["sequence_length"].value == 384
    assert report.verdict == "GO"


@pytest.mark.parametrize(
    ("read", "side"),
    [
        ("image = np.asarray(image.resize((self.size, self.size)))", 96),
        ("image = cv2.resize(np.asarray(image), dsize=(self.size, 48))", 96),
        ("image = np.asarray(image.resize((200, 200)))\n        image = cv2.resize(image, (80, 80))", 80),
        ("image = np.asarray(image.resize((self.size // scale, self.size // scale)))", None),
        ("image = np.asarray(image)", None),
    ],
)
def test_a_data_set_that_brings_pictures_to_a_size(tmp_path: Path, read: str, side: int | None) -> None:
    path = tmp_path / "train.py"
    path.write_text(PICTURES.replace("READ", read))
    report = analyze(path)
    assert report.facts["image_size"].value == side
    assert report.memory is not None
    assert (report.memory.peak_bytes is not None) is (side is not None)


def test_a_data_set_of_another_module(tmp_path: Path) -> None:
    scans, rest = PICTURES.split("scans = Scans", 1)
    head, _, body = scans.partition("class Scans")
    (tmp_path / "scans.py").write_text(
        head + "class Scans" + body.replace("READ", "image = np.asarray(image.resize((self.size, self.size)))")
    )
    path = tmp_path / "train.py"
    path.write_text(head + "from scans import Scans\nscans = Scans" + rest)
    fact = analyze(path).facts["image_size"]
    assert fact.value == 96


def test_a_transform_of_the_script_under_the_usual_name(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    own = """
class RandomCrop(object):
    def __init__(self, output_size):
        self.output_size = output_size
    def __call__(self, image):
        return image
class Scans"""
    script = PICTURES.replace("class Scans", own, 1).replace("READ", "image = self.cut(image)")
    script = script.replace("def __init__(self, files, size=64)", "def __init__(self, files, size=64, cut=None)")
    script = script.replace("self.files, self.size = files, size", "self.files, self.cut = files, cut")
    script = script.replace("size=96)", "cut=transforms.Compose([RandomCrop(72)]))").replace(
        "import cv2", "from torchvision import transforms\nimport cv2"
    )
    path.write_text(script)
    assert analyze(path).facts["image_size"].value == 72


def test_parts_of_a_batch_are_no_sequences(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "from torch import nn\n"
        "class Field(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.body, self.last = nn.Linear(6, 64), nn.Softplus()\n"
        "    def forward(self, x):\n"
        "        return self.last(self.body(x))\n"
        "def rendered(field, rays):\n"
        "    near = torch.stack([rays[:, 0], rays[:, 1]], -1)\n"
        "    return nn.Softplus()(field(torch.cat([near, rays[:, 2:]], -1)))\n"
        "field = Field().cuda()\n"
        "optimizer = torch.optim.Adam(field.parameters())\n"
        "part = 1024 * 64\n"
        "for rays, colours in torch.utils.data.DataLoader(samples, batch_size=4096, shuffle=True):\n"
        "    found = [rendered(field, rays[i : i + part]) for i in range(0, len(rays), part)]\n"
        "    optimizer.zero_grad()\n"
        "    nn.functional.mse_loss(torch.cat(found), colours).backward()\n"
        "    optimizer.step()\n"
    )
    assert not analyze(script).facts["sequence_length"].known
