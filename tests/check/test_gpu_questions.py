"""What a script asks of the GPU is answered with the one that was named."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight import analyze

SCRIPT = """
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
def supported():
    if not torch.cuda.is_available():
        return False
    try:
        capability = torch.cuda.get_device_capability()
        return {test}
    except:
        return False
half = supported()
model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments("out", bf16=half, fp16=not half, per_device_train_batch_size=2)
Trainer(model, args, train_dataset=data).train()
"""


@pytest.mark.parametrize(
    "test", ["capability[0] >= 8", "capability >= (8, 0)", "torch.cuda.get_device_properties(0).major >= 8"]
)
@pytest.mark.parametrize(("gpu", "precision"), [("a100-80gb", "autocast-bf16"), ("t4", "autocast-fp16"), (None, None)])
def test_the_precision_follows_the_gpu(test: str, gpu: str | None, precision: str | None, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.format(test=test))
    assert analyze(path, gpu=gpu).facts["precision"].value == precision
