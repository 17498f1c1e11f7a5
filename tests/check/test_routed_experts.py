"""Experts written by hand keep what the tokens that are sent to them keep, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.measured_on_a_gpu import MEASURED_H100, PROGRAMS

from preflight import analyze
from preflight.source.architecture import architecture_of
from preflight.source.reading import read
from preflight.source.script import read_script
from preflight.vocabulary.model import ModelSpec

_MIXTURE = (PROGRAMS / "mixture.py").read_text(encoding="utf-8")
_SENT = """            rows, place = torch.where(chosen == number)
            made = expert(flat[rows]) * shares[rows, place, None]
            out.index_add_(0, rows, made.to(out.dtype))
"""
_ALL = """            out = out + expert(flat) * shares[:, :1]
"""


def _architecture(tmp_path: Path, text: str) -> ModelSpec:
    script = tmp_path / "train.py"
    script.write_text(text, encoding="utf-8")
    reading = read(read_script(script))
    spec, _ = architecture_of(reading, reading.models[0])
    assert spec is not None
    return spec


def test_what_an_h100_measured_of_a_mixture_lies_within_what_is_read() -> None:
    memory = analyze(PROGRAMS / "mixture.py", gpu="h100").memory
    assert memory is not None
    assert memory.peak_bytes is not None
    assert memory.peak_bytes.low <= MEASURED_H100["mixture"]["allocated"] <= memory.peak_bytes.high


def test_a_list_of_experts_is_one_layer_of_a_block(tmp_path: Path) -> None:
    spec = _architecture(tmp_path, _MIXTURE)
    assert (spec.family, spec.layers, spec.dense_layers) == ("moe", 8, 0)
    assert (spec.experts, spec.experts_per_token, spec.expert_ffn, spec.gated) == (8, 2, 2048, True)


@pytest.mark.parametrize(
    ("rows", "number"),
    [
        ("made = expert(flat.index_select(0, rows).to(flat.dtype)) * shares[rows, place, None]", 2),
        ("made = expert(torch.index_select(flat, 0, rows)) * shares[rows, place, None]", 2),
    ],
)
def test_rows_may_be_picked_in_other_ways(tmp_path: Path, rows: str, number: int) -> None:
    text = _MIXTURE.replace("made = expert(flat[rows]) * shares[rows, place, None]", rows)
    assert text != _MIXTURE
    spec = _architecture(tmp_path, text)
    assert (spec.experts, spec.experts_per_token) == (8, number)


def test_a_token_goes_to_the_one_expert_that_is_largest(tmp_path: Path) -> None:
    text = _MIXTURE.replace(".topk(2, dim=-1)\n        shares = shares / shares.sum(dim=-1, keepdim=True)\n", "\n")
    text = text.replace("shares, chosen = F", "shares = F").replace(
        "        out = torch.zeros_like(flat)\n",
        "        out = torch.zeros_like(flat)\n        chosen = shares.argmax(-1)\n",
    )
    text = text.replace("rows, place = torch.where", "(rows,) = torch.where").replace(
        "[rows, place, None]", "[rows, :1]"
    )
    spec = _architecture(tmp_path, text)
    assert (spec.experts, spec.experts_per_token) == (8, 1)


def test_what_every_token_passes_beside_the_experts_is_shared(tmp_path: Path) -> None:
    text = _MIXTURE.replace(
        "        self.experts = nn.ModuleList(Expert()",
        "        self.always = Expert()\n        self.experts = nn.ModuleList(Expert()",
    ).replace("        return out.view_as(x)\n", "        return (out + self.always(flat)).view_as(x)\n")
    spec = _architecture(tmp_path, text)
    assert (spec.layers, spec.experts, spec.shared_experts) == (8, 8, 1)


def test_parts_that_all_tokens_pass_are_no_experts(tmp_path: Path) -> None:
    text = _MIXTURE.replace(_SENT, _ALL)
    assert text != _MIXTURE
    spec = _architecture(tmp_path, text)
    assert (spec.family, spec.layers, spec.experts) == ("transformer_decoder", 64, 0)


def test_blocks_that_are_given_the_rows_that_matter_most_are_no_experts(tmp_path: Path) -> None:
    # Each block attends, and takes some tokens of what the one before it made: how many go through all is another sum.
    text = _MIXTURE.replace("self.experts = Experts()", "self.experts = Expert()").replace(
        "            x = block(x)\n",
        "            kept = x.mean(-1).mean(0).topk(4).indices\n            x = torch.cat([x, block(x[:, kept])], dim=1)\n",
    )
    spec = _architecture(tmp_path, text)
    assert (spec.family, spec.experts) == ("other", 0)
    assert "given some of the tokens" in (spec.activation_reason or "")


def test_no_figure_is_said_where_nobody_knows_how_many_experts_a_token_passes(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_MIXTURE.replace(".topk(2, dim=-1)", ".topk(int(open('k').read()), dim=-1)"), encoding="utf-8")
    memory = analyze(script, gpu="h100").memory
    assert memory is not None
    assert memory.peak_bytes is None
    assert "into how many experts a token goes is not known" in (memory.reason or "")
