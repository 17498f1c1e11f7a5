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
