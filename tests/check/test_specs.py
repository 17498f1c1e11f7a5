"""From what a script says of its run to the numbers of the memory formulas."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from preflight import analyze
from preflight.check.asked import Device
from preflight.check.memory import memory_of
from preflight.check.specs import model_spec, run_spec
from preflight.source.facts.gather import gather
from preflight.source.launcher import Launch
from preflight.source.reading import read
from preflight.source.script import read_script
from preflight.vocabulary.memory import MemoryEstimate
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec

_SCRIPT = """
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

model = get_peft_model(AutoModelForCausalLM.from_pretrained("gpt2"), LoraConfig(r=64, target_modules={targets}))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
"""


@pytest.mark.parametrize(
    ("targets", "matrices"),
    [
        ('["c_attn"]', ("k", "q", "v")),
        ('["attn.query_key_value", "dense_h_to_4h"]', ("k", "mlp", "q", "v")),
        ('["q_proj", "v_proj", "out_proj"]', ("o", "q", "v")),
        ('["q", "k", "v", "o"]', ("k", "o", "q", "v")),
        ('"all-linear"', ("k", "mlp", "o", "q", "v")),
    ],
)
def test_adapters_are_those_of_the_matrices_that_are_named(
    tmp_path: Path, targets: str, matrices: tuple[str, ...]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(_SCRIPT.replace("{targets}", targets))
    reading = read(read_script(path), None, Launch().variables(), tmp_path)
    run = run_spec(reading, gather(reading, Launch(), None), None)
    assert (run.finetune, run.lora_rank, run.lora_targets) == ("lora", 64, matrices)


_QUANTISED = """
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, Trainer

model = AutoModelForCausalLM.from_pretrained("{name}", load_in_4bit=True)
model = prepare_model_for_kbit_training(model{options})
model = get_peft_model(model, LoraConfig(r=8))
Trainer(model=model).train()
"""


@pytest.mark.parametrize(("options", "recompute"), [("", "full"), (", use_gradient_checkpointing=False", "none")])
def test_a_prepared_model_is_the_model_and_recomputes_unless_told_otherwise(
    tmp_path: Path, options: str, recompute: str
) -> None:
    path = tmp_path / "train.py"
    path.write_text(_QUANTISED.format(name="mistralai/Mistral-7B-v0.1", options=options))
    reading = read(read_script(path), None, Launch().variables(), tmp_path)
    facts = gather(reading, Launch(), None)
    model = model_spec(reading, facts)
    assert model is not None
    assert model.parameters == 7_241_732_096
    run = run_spec(reading, facts, model)
    assert (run.finetune, run.recompute) == ("qlora", recompute)


def test_a_model_that_the_catalog_does_not_hold_is_named(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(_QUANTISED.format(name="someone/their-model", options=""))
    reading = read(read_script(path), None, Launch().variables(), tmp_path)
    told = gather(reading, Launch(), None)["model.parameters"]
    assert told.value is None
    assert told.reason == "the model is someone/their-model, which the catalog does not hold; a dry run would tell"


_OF_ANY_LENGTH = """
import torch
from transformers import AutoModelForSequenceClassification

model = AutoModelForSequenceClassification.from_pretrained("{name}", num_labels=2)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in torch.utils.data.DataLoader(load(), batch_size=8):
    loss = model(**batch).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def _memory_of(tmp_path: Path, script: str, capacity: int) -> MemoryEstimate:
    path = tmp_path / "train.py"
    path.write_text(script)
    reading = read(read_script(path), None, Launch().variables(), tmp_path)
    facts = gather(reading, Launch(), None)
    model = model_spec(reading, facts)
    found = memory_of(facts, model, run_spec(reading, facts, model), ParallelDims(), Device(None, capacity, None))
    assert found is not None
    return found


def test_where_the_longest_input_fits_every_length_does(tmp_path: Path) -> None:
    found = _memory_of(tmp_path, _OF_ANY_LENGTH.format(name="bert-base-uncased"), 80 << 30)
    assert (found.fits, found.assumed) == ("yes", "the longest input that the model takes, 512 tokens")


def test_where_the_longest_input_does_not_fit_it_is_said_how_long_it_may_be(tmp_path: Path) -> None:
    found = _memory_of(tmp_path, _OF_ANY_LENGTH.format(name="bert-base-uncased"), 4 << 30)
    assert found.fits == "unknown"
    told = re.search(r"is not known; up to ([\d,]+) tokens a sample fit;", found.reason or "")
    assert told is not None
    assert 64 < int(told[1].replace(",", "")) < 512


def test_where_the_batch_is_not_known_it_is_said_how_large_it_may_be(tmp_path: Path) -> None:
    script = _PLAIN.format(call="model(x)").replace("batch_size=10", "batch_size=load()")
    found = _memory_of(tmp_path, script, 8 << 30)
    assert found.fits == "unknown"
    assert re.search(r"^batch.micro is not known: .*; up to [\d,]+ samples fit;", found.reason or "")


_PLAIN = """
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters())
for x, y in DataLoader(TensorDataset(torch.rand(100, 20), torch.rand(100, 1)), batch_size=10):
    loss = nn.functional.mse_loss({call}, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_a_plain_network_keeps_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(_PLAIN.format(call="model(x)"))
    reading = read(read_script(path), None, Launch().variables(), tmp_path)
    model = model_spec(reading, gather(reading, Launch(), None))
    assert model is not None
    # The input of the first product; what tanh gives, which the second is given; the prediction, which the loss compares.
    assert model.activation_elements == 20 + 32 + 1
    assert model.compared_elements == 1


def test_where_a_network_cannot_be_followed_the_place_is_told(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(_PLAIN.format(call="model(x)").replace("nn.Tanh()", "nn.Fold((4, 8), 1)"))
    reading = read(read_script(path), None, Launch().variables(), tmp_path)
    model = model_spec(reading, gather(reading, Launch(), None))
    assert model is not None
    assert (model.activation_elements, model.activation_reason) == (None, "the shape that Fold makes is not known")


_STACKS = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.into, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(x, x, x)[0]
        return x + self.out(self.into(x).relu())

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Linear(256, 64)
        self.wide = nn.ModuleList(Block(64) for _ in range(3))
        self.between = nn.Linear(64, {narrow})
        self.narrow = nn.ModuleList(Block({narrow}) for _ in range(2))

    def forward(self, x):
        x = self.patches(x)
        for block in self.wide:
            x = block(x)
        x = self.between(x)
        for block in self.narrow:
            x = block(x)
        return x

model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("narrow", "layers"), [(32, None), (64, 5)])
def test_two_stacks_of_different_widths_have_no_single_width(tmp_path: Path, narrow: int, layers: int | None) -> None:
    path = tmp_path / "train.py"
    path.write_text(_STACKS.replace("{narrow}", str(narrow)))
    reading = read(read_script(path), None, Launch().variables(), tmp_path)
    spec = model_spec(reading, gather(reading, Launch(), None))
    assert spec is not None
    assert (spec.family, spec.layers) == (("other", None) if layers is None else ("transformer_encoder", layers))


_TRAINED_BY_TRL = """
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.1", {options})
config = SFTConfig(output_dir="out", bf16=True, per_device_train_batch_size=1, max_length=512)
SFTTrainer(model=model, args=config, train_dataset=data{adapters}).train()
"""


@pytest.mark.parametrize(
    ("options", "adapters", "expected"),
    [
        (
            "quantization_config=BitsAndBytesConfig(load_in_4bit=True)",
            ", peft_config=LoraConfig(r=4)",
            ("qlora", 4, "autocast-bf16"),
        ),
        ("torch_dtype=torch.bfloat16", ", peft_config=LoraConfig(r=4)", ("lora", 4, "pure-bf16")),
        ("torch_dtype=torch.bfloat16", ", peft_config=None", ("full", None, "pure-bf16")),
        ("torch_dtype=torch.float16", "", ("full", None, "autocast-bf16")),
        ("use_cache=False", "", ("full", None, "autocast-bf16")),
    ],
)
def test_what_a_trainer_of_trl_trains(
    tmp_path: Path, options: str, adapters: str, expected: tuple[str, int | None, str]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(_TRAINED_BY_TRL.replace("{options}", options).replace("{adapters}", adapters))
    reading = read(read_script(path), None, Launch().variables(), tmp_path)
    facts = gather(reading, Launch(), None)
    run = run_spec(reading, facts, None)
    assert (run.finetune, run.lora_rank, run.precision) == expected
    assert facts["model.trainable_parameters"].known is (expected[0] == "full")


_SPLIT = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = ({split} for part in self.qkv(x).chunk(3, -1))
        x = x + self.out((torch.softmax(q @ k.transpose(-2, -1), -1) @ v).transpose(1, 2).reshape(b, t, width))
        return x + self.mlp(x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(65, 128)
        self.blocks = nn.Sequential(*(Block(128, 4) for _ in range(3)))
        self.head = nn.Linear(128, 65)

    def forward(self, tokens):
        return self.head(self.blocks(self.embed(tokens)))

model = Net()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(100):
    tokens = torch.randint(0, 65, (8, 33))
    loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def _specs(tmp_path: Path, script: str) -> tuple[ModelSpec, RunSpec]:
    path = tmp_path / "train.py"
    path.write_text(script)
    reading = read(read_script(path), None, Launch().variables(), tmp_path)
    facts = gather(reading, Launch(), None)
    model = model_spec(reading, facts)
    assert model is not None
    return model, run_spec(reading, facts, model)


def test_the_width_of_a_head_may_be_what_is_left(tmp_path: Path) -> None:
    model, _ = _specs(tmp_path, _SPLIT.format(split="part.view(b, t, self.heads, -1).transpose(1, 2)"))
    assert (model.family, model.layers, model.heads, model.activation_reason) == ("transformer_decoder", 3, 4, None)


def test_where_nothing_tells_how_many_heads_there_are_that_is_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("import other\n" + _SPLIT.format(split="other.split(part)"))
    memory = analyze(path, gpu="t4").memory
    assert memory is not None
    assert "not known: no place tells into how many heads the attention is split" in (memory.reason or "")


_TYPED = """
import torch
from torch import nn
{before}
model = nn.Linear(64, 64)
{behind}
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(100):
    loss = model(torch.randn(8, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_BF16, _FP32 = (f"torch.set_default_dtype(torch.{name})" for name in ("bfloat16", "float32"))


@pytest.mark.parametrize(
    ("before", "behind", "precision"),
    [
        (_BF16, "", "pure-bf16"),
        (_BF16, _FP32, "pure-bf16"),
        ("torch.set_default_dtype(d=torch.float64)", "", "fp64"),
        (f"{_BF16}\n{_FP32}", "", "fp32"),
        ("", _BF16, "fp32"),
        (_BF16, "model.float()", "fp32"),
        (_BF16, "model = model.to(torch.float32)", "fp32"),
    ],
)
def test_weights_are_of_the_type_that_tensors_have_as_they_are_made(
    tmp_path: Path, before: str, behind: str, precision: str
) -> None:
    _, run = _specs(tmp_path, _TYPED.format(before=before, behind=behind))
    assert run.precision == precision


_NAMED = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(20, 32)

    def forward(self, features, mask, labels):
        return nn.functional.mse_loss(self.layer(features * mask), labels)

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(100):
    loss = model(mask=torch.rand(1, 20), labels=torch.randn(8, 32), features=torch.randn(8, 20))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_labels_and_masks_that_are_named_are_not_the_input(tmp_path: Path) -> None:
    model, run = _specs(tmp_path, _NAMED)
    assert run.micro_batch == 8
    assert model.compared_elements == 32
