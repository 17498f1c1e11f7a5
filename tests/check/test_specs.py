"""From what a script says of its run to the numbers of the memory formulas."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.check.specs import run_spec
from preflight.source.facts.gather import gather
from preflight.source.launcher import Launch
from preflight.source.reading import read
from preflight.source.script import read_script

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
