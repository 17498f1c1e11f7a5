"""That weights do not fit is said only where they lie on the GPU whole, in numbers of a known width."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.check.api import analyze

SCRIPT = """\
import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from settings import chosen
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-13b-hf", {more})
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def _memory(folder: Path, more: str) -> tuple[str, str | None]:
    path = folder / "train.py"
    path.write_text(SCRIPT.format(more=more))
    memory = analyze(path, gpu_memory=40.0).memory
    assert memory is not None
    return memory.fits, memory.reason


@pytest.mark.parametrize(
    "more",
    ["torch_dtype=torch.float32", 'device_map="cuda:0"', 'device_map={"": 0}', "device_map=None", "load_in_8bit=False"],
)
def test_weights_on_one_gpu_that_are_too_large_do_not_fit(tmp_path: Path, more: str) -> None:
    assert _memory(tmp_path, more)[0] == "no"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("quantization_config=chosen", "quantization_config"),
        ("quantization_config=BitsAndBytesConfig(load_in_8bit=True)", "quantization_config"),
        ("load_in_8bit=True", "load_in_8bit"),
        ('device_map="auto"', "device_map"),
        ('device_map={"": 0, "lm_head": "cpu"}', "device_map"),
        ("**chosen", "from_pretrained"),
    ],
)
def test_what_may_be_quantised_or_spread_is_not_known_to_overflow(tmp_path: Path, more: str, said: str) -> None:
    fits, reason = _memory(tmp_path, more)
    assert fits == "unknown"
    assert reason is not None
    assert said in reason


SPREAD = """\
import lightning as L
import torch
from lightning.fabric.strategies import DDPStrategy, DeepSpeedStrategy, FSDPStrategy
from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel as FSDP, ShardingStrategy
from transformers import AutoModelForCausalLM
from settings import chosen
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf", dtype=torch.float32)
{put}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for batch in loader:
    loss = model(batch, labels=batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def _spread(folder: Path, put: str, gpus: int | None = None) -> tuple[str, str | None]:
    path = folder / "train.py"
    path.write_text(SPREAD.format(put=put))
    memory = analyze(path, gpu_memory=80.0, gpus=gpus).memory  # fp32 states of 7 B parameters: 100 GiB
    assert memory is not None
    return memory.fits, memory.reason


@pytest.mark.parametrize(
    ("put", "gpus"),
    [
        ("model.to('cuda')", None),
        ("fabric = L.Fabric(devices=4, strategy='ddp')", None),
        ("fabric = L.Fabric(devices=4, strategy=DDPStrategy())", None),
        ("fabric = L.Fabric(devices=4, strategy='auto')", None),
        ("fabric = L.Fabric(devices=1, strategy=FSDPStrategy())", None),
        ("fabric = L.Fabric(devices=1, strategy=FSDPStrategy(sharding_strategy=ShardingStrategy.FULL_SHARD))", None),
        ("model = FSDP(model, auto_wrap_policy=chosen)", 1),
        ("model = FSDP(model, auto_wrap_policy=chosen, cpu_offload=CPUOffload(offload_params=False))", 1),
    ],
)
def test_states_that_each_gpu_holds_whole_do_not_fit(tmp_path: Path, put: str, gpus: int | None) -> None:
    assert _spread(tmp_path, put, gpus)[0] == "no"


@pytest.mark.parametrize(
    ("put", "gpus", "said"),
    [
        ("model = FSDP(model, auto_wrap_policy=chosen)", None, "give --gpus or --launch"),
        ("model = FSDP(model, cpu_offload=CPUOffload(offload_params=True))", 1, "cpu_offload"),
        ("fabric = L.Fabric(devices=1, strategy=FSDPStrategy(cpu_offload=True))", None, "cpu_offload"),
        ("fabric = L.Fabric(devices=1, strategy='deepspeed_stage_3_offload')", None, "deepspeed_stage_3_offload"),
        ("fabric = L.Fabric(devices=2, strategy=FSDPStrategy(sharding_strategy='NO_SHARD'))", None, "FULL_SHARD"),
        (
            "fabric = L.Fabric(devices=2, strategy=FSDPStrategy(sharding_strategy=ShardingStrategy.NO_SHARD))",
            None,
            "FULL_SHARD",
        ),
        ("fabric = L.Fabric(devices=1, strategy=DeepSpeedStrategy(stage=chosen))", None, "DeepSpeedStrategy decides"),
        ("fabric = L.Fabric(devices=4, strategy=chosen)", None, "strategy that the trainer is given"),
        ("device = torch.device('cpu')\nmodel.to(device)", None, "trains on the CPU"),
    ],
)
def test_states_that_may_lie_elsewhere_are_not_known_to_overflow(
    tmp_path: Path, put: str, gpus: int | None, said: str
) -> None:
    fits, reason = _spread(tmp_path, put, gpus)
    assert fits == "unknown"
    assert reason is not None
    assert said in reason


@pytest.mark.parametrize("strategy", ["'fsdp'", "FSDPStrategy()", "DeepSpeedStrategy(stage=3)", "'deepspeed_stage_3'"])
def test_sharded_states_are_divided_by_the_devices_of_fabric(tmp_path: Path, strategy: str) -> None:
    fits, reason = _spread(tmp_path, f"fabric = L.Fabric(devices=4, strategy={strategy})")
    assert fits == "unknown"
    assert reason is not None
    assert "need 25.1 GiB" in reason


ENGINE = """\
import deepspeed
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf", torch_dtype="float32")
settings = {{"zero_optimization": {{"stage": 2, "offload_optimizer": {{"device": "{device}"}}}},
             "optimizer": {{"type": "AdamW", "params": {{"lr": 1e-4}}}}, "train_micro_batch_size_per_gpu": 1}}
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
for batch in loader:
    loss = engine(batch, labels=batch).loss
    engine.backward(loss)
    engine.step()
"""


@pytest.mark.parametrize(("device", "fits"), [("none", "no"), ("cpu", "unknown")])
def test_what_deepspeed_is_told_to_offload_is_not_counted(tmp_path: Path, device: str, fits: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(ENGINE.format(device=device))
    memory = analyze(path, gpu_memory=80.0, gpus=1).memory
    assert memory is not None
    assert memory.fits == fits


LOADED = """\
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("{name}"{more}).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for batch in torch.utils.data.DataLoader(data, batch_size=1):
    batch = batch[:, :128].cuda()
    model(batch, labels=batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("more", "asked", "fits"),
    [
        ("", "", "unknown"),  # float32 before Transformers 5: 100 GiB; float16 of the checkpoint since then: 50
        ("", "torch\ntransformers>=4.40\n", "unknown"),
        ("", "transformers==4.44.0\n", "no"),
        ("", "transformers[torch] >= 4.40, < 5\n", "no"),
        ("", "transformers<=4.57.1\n", "no"),
        ("", "sentence-transformers==3.0\n", "unknown"),
        ("", "torch  # transformers==4.44.0 was too old\n", "unknown"),
        ("", f"transformers=={'9' * 5000}\n", "unknown"),
        (", torch_dtype=torch.float32", "", "no"),
        (", dtype=torch.bfloat16", "transformers==5.1\n", "unknown"),
    ],
)
def test_the_width_of_loaded_weights_follows_the_version_that_is_asked_for(
    tmp_path: Path, more: str, asked: str, fits: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "requirements.txt").write_text(asked)
    path = tmp_path / "train.py"
    path.write_text(LOADED.format(name="meta-llama/Llama-2-7b-hf", more=more))
    memory = analyze(path, gpu_memory=80.0).memory
    assert memory is not None
    assert memory.fits == fits
    assert (memory.reason is not None and "give dtype" in memory.reason) is (fits == "unknown" and not more)


def test_what_does_not_fit_in_either_width_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(LOADED.format(name="meta-llama/Llama-2-13b-hf", more=""))
    memory = analyze(path, gpu_memory=40.0).memory
    assert memory is not None
    assert memory.fits == "no"


@pytest.mark.parametrize(
    ("name", "fits"), [("gpt2-xl", "no"), ("google/flan-t5-xl", "no"), ("facebook/opt-1.3b", "unknown")]
)
def test_what_is_published_in_float32_has_one_width(tmp_path: Path, name: str, fits: str) -> None:
    path = tmp_path / "train.py"
    kind = "AutoModelForSeq2SeqLM" if "t5" in name else "AutoModelForCausalLM"
    path.write_text(LOADED.format(name=name, more="").replace("AutoModelForCausalLM", kind))
    memory = analyze(path, gpu_memory=16.0).memory  # 16 bytes a parameter are too much, 8 are not
    assert memory is not None
    assert memory.fits == fits
