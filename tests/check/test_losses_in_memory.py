"""What a loss is given is alive beside what the layers keep, and its gradient comes to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.measured_on_a_gpu import MEASURED, MEASURED_H100, PROGRAMS

from preflight import analyze
from preflight.vocabulary.memory import MemoryEstimate

_NAMED = """
import torch
from transformers import BertConfig, BertForMaskedLM

model = BertForMaskedLM(BertConfig()).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cuda")
for step in range(12):
    tokens = torch.randint(0, 30522, (32, 512), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(GIVEN).loss
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def _memory(tmp_path: Path, text: str) -> MemoryEstimate:
    script = tmp_path / "train.py"
    script.write_text(text, encoding="utf-8")
    memory = analyze(script, gpu="H200").memory
    assert memory is not None
    return memory


def test_logits_of_many_words_are_counted_with_their_gradients() -> None:
    # 64 x 128 x 33,000 logits are 1.0 GiB; four tensors of that size are alive as the backward pass begins.
    memory = analyze(PROGRAMS / "lstm.py", gpu="h200").memory
    assert memory is not None
    assert memory.breakdown is not None
    assert memory.breakdown.logits_and_loss == pytest.approx(4 * 4 * 64 * 128 * 33_000, rel=0.002)


@pytest.mark.parametrize("name", [
    "bert_fp16", "gan", "gpt2_autocast", "gpt2_fp32", "gpt2_medium_recomputed", "llama_1b", "lstm", "resnet50",
    "resnet50_channels_last", "small_gpt", "t5_small", "unet", "vit_base", "wide_mlp",
])  # fmt: skip
def test_what_an_h200_measured_lies_within_what_is_read(name: str) -> None:
    memory = analyze(PROGRAMS / f"{name}.py", gpu="h200").memory
    assert memory is not None
    assert memory.peak_bytes is not None
    assert memory.peak_bytes.low <= MEASURED[name]["allocated"] <= memory.peak_bytes.high


@pytest.mark.parametrize("name", [
    "clip", "gpt2_autocast", "neox_momentum", "qwen_half_b", "segmenter", "small_gpt", "torchvision_resnet50",
])  # fmt: skip
def test_what_an_h100_measured_lies_within_what_is_read(name: str) -> None:
    memory = analyze(PROGRAMS / f"{name}.py", gpu="h100").memory
    assert memory is not None
    assert memory.peak_bytes is not None
    assert memory.peak_bytes.low <= MEASURED_H100[name]["allocated"] <= memory.peak_bytes.high


@pytest.mark.parametrize(
    "given",
    ["tokens, labels=tokens", "input_ids=tokens, labels=tokens", "labels=tokens, input_ids=tokens"],
)
def test_the_batch_is_read_of_inputs_that_are_named(tmp_path: Path, given: str) -> None:
    memory = _memory(tmp_path, _NAMED.replace("GIVEN", given))
    assert memory.peak_bytes is not None
    assert memory.peak_bytes.low <= MEASURED["bert_fp16"]["allocated"] <= memory.peak_bytes.high


_NORMED = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(8, 64)
        self.conv = nn.Conv2d(64, 64, 3, padding=1)

    def forward(self, x):
        return x + self.conv(nn.functional.silu(self.norm(x)))

model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), *(Block() for _ in range(20)), nn.Conv2d(64, 3, 3, padding=1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(10):
    x = torch.randn(16, 3, 128, 128, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=ENABLED):
        loss = nn.functional.mse_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_under_autocast_what_is_computed_in_fp32_is_kept_in_fp32(tmp_path: Path) -> None:
    # A picture of 16 x 64 x 128 x 128 elements is 32 MiB in half precision. In a block under autocast the norm keeps a copy
    # in fp32 of what it is given, SiLU what the norm made, in fp32, and the convolution a copy in half precision of what
    # SiLU made: 2 + 2 + 1. Without autocast the three are of one type: 3 x 2.
    half, full = (_memory(tmp_path, _NORMED.replace("ENABLED", enabled)) for enabled in ("True", "False"))
    assert half.breakdown is not None
    assert full.breakdown is not None
    unit = 16 * 64 * 128 * 128 * 2
    kept = [one.timeline[-3].owners["activations"] / unit / 20 for one in (half, full)]
    assert kept[0] == pytest.approx(5, abs=0.5)
    assert kept[1] == pytest.approx(6, abs=0.5)


_PICTURES = """
import torch
from torch import nn
from torchvision.models import resnet50

model = resnet50().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(15):
    pictures = torch.randn(64, CHANNELS, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (64,), device="cuda")
    loss = nn.functional.cross_entropy(model(pictures), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_pictures_that_a_script_makes_tell_their_size(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_PICTURES.replace("CHANNELS", "3"), encoding="utf-8")
    report = analyze(script, gpu="H200")
    assert report.facts["image_size"].value == 224
    # An H200 handed out 5,927,327,232 bytes at most for the same layers of transformers (measured.toml, "resnet50").
    assert report.memory is not None
    assert report.memory.peak_bytes is not None
    assert report.memory.peak_bytes.low <= 5_927_327_232 <= report.memory.peak_bytes.high


def test_what_has_other_channels_than_pictures_tells_no_size(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_PICTURES.replace("CHANNELS", "4"), encoding="utf-8")
    assert not analyze(script).facts["image_size"].known


def test_what_a_decoder_is_given_has_a_length_of_its_own(tmp_path: Path) -> None:
    # 512 tokens are read and 128 are said, in whatever order the two are given.
    text = (PROGRAMS / "t5_small.py").read_text(encoding="utf-8")
    turned = text.replace("model(input_ids=source, labels=target)", "model(labels=target, input_ids=source)")
    assert turned != text
    memory = _memory(tmp_path, turned)
    assert memory.peak_bytes is not None
    assert memory.peak_bytes.low <= MEASURED["t5_small"]["allocated"] <= memory.peak_bytes.high
    longer = _memory(tmp_path, text.replace("(16, 128)", "(16, 512)"))
    assert longer.peak_bytes is not None
    assert longer.peak_bytes.mid > 2 * memory.peak_bytes.mid


def test_the_length_that_a_tokenizer_cuts_targets_to_is_the_decoders(tmp_path: Path) -> None:
    text = (PROGRAMS / "t5_small.py").read_text(encoding="utf-8")
    cut = text.replace(
        '    target = torch.randint(0, 32128, (16, 128), device="cuda")\n',
        '    target = tokenizer(text_target=said[step], max_length=128, truncation=True, padding="max_length").input_ids\n',
    ).replace(
        "torch.manual_seed(0)\n",
        'tokenizer = AutoTokenizer.from_pretrained("t5-small")\nsaid = open("said").readlines()\n',
    )
    cut = cut.replace("import T5Config", "import AutoTokenizer, T5Config")
    memory = _memory(tmp_path, cut)
    assert memory.peak_bytes is not None
    assert memory.peak_bytes.low <= MEASURED["t5_small"]["allocated"] <= memory.peak_bytes.high


_COMPILED = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel

model = GPT2LMHeadModel(GPT2Config()).cuda()
COMPILED
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
tokens = torch.randint(0, 50257, (16, 1024), device="cuda")
for step in range(12):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        LOSS
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
_TRAINED = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

class Own(Trainer):
    def compute_loss(self, model, inputs, **more):
        labels = inputs.pop("labels")
        return torch.nn.functional.cross_entropy(model(**inputs).logits.flatten(0, 1), labels.flatten())

arguments = TrainingArguments("out", per_device_train_batch_size=16, bf16=True, torch_compile=True)
Trainer(GPT2LMHeadModel(GPT2Config()), arguments, train_dataset=texts).train()
"""
_ELEMENTS = 16 * 1024 * 50_257


def _of_logits(tmp_path: Path, text: str) -> float:
    breakdown = _memory(tmp_path, text).breakdown
    assert breakdown is not None
    return breakdown.logits_and_loss / _ELEMENTS


@pytest.mark.parametrize("loss", [
    "loss = model(tokens, labels=tokens).loss",
    "loss = model(tokens, labels=tokens).loss / 4",
    "loss = 0.5 * model(tokens, labels=tokens)[0]",
    'loss = model(tokens, labels=tokens)["loss"]',
])  # fmt: skip
def test_a_loss_that_is_compiled_with_the_model_writes_logits_and_their_gradient(tmp_path: Path, loss: str) -> None:
    text = _COMPILED.replace("COMPILED", "model = torch.compile(model)").replace("LOSS", loss)
    assert _of_logits(tmp_path, text) == pytest.approx(2 + 2, rel=0.01)


@pytest.mark.parametrize(("compiled", "loss"), [
    ("model.transformer = torch.compile(model.transformer)", "loss = model(tokens, labels=tokens).loss"),
    (
        "model = torch.compile(model)",
        "loss = torch.nn.functional.cross_entropy(model(tokens).logits.flatten(0, 1), tokens.flatten())",
    ),
])  # fmt: skip
def test_a_loss_outside_of_what_is_compiled_is_counted_as_ever(tmp_path: Path, compiled: str, loss: str) -> None:
    text = _COMPILED.replace("COMPILED", compiled).replace("LOSS", loss)
    assert _of_logits(tmp_path, text) > 8


@pytest.mark.parametrize(("word", "other"), [
    ("Trainer(GPT2", "Own(GPT2"),
    ("train_dataset=texts", "train_dataset=texts, compute_loss_func=smoothed"),
    ("torch_compile=True", "torch_compile=True, label_smoothing_factor=0.1"),
])  # fmt: skip
def test_a_trainer_that_computes_the_loss_itself_does_so_uncompiled(tmp_path: Path, word: str, other: str) -> None:
    assert _of_logits(tmp_path, _TRAINED.replace(word, other)) > 2 * _of_logits(tmp_path, _TRAINED)
