"""Parameter counts against published ones, which come from the checkpoints."""

from __future__ import annotations

import msgspec
import pytest

from preflight.cost.parameters import count_parameters
from preflight.vocabulary.model import ModelSpec

GPT2 = ModelSpec(
    family="transformer_decoder", layers=12, hidden=768, heads=12, ffn=3072, vocab=50257, max_positions=1024,
    learned_positions=True, tied_embeddings=True, norm="layernorm",
)  # fmt: skip
LLAMA2_7B = ModelSpec(
    family="transformer_decoder", layers=32, hidden=4096, heads=32, ffn=11008, gated=True, vocab=32000,
    tied_embeddings=False, norm="rmsnorm",
)  # fmt: skip
QWEN2_05B = ModelSpec(
    family="transformer_decoder", layers=24, hidden=896, heads=14, kv_heads=2, ffn=4864, gated=True, vocab=151936,
    tied_embeddings=True, norm="rmsnorm", qkv_bias=True,
)  # fmt: skip
QWEN3_06B = ModelSpec(
    family="transformer_decoder", layers=28, hidden=1024, heads=16, kv_heads=8, head_dim=128, ffn=3072, gated=True,
    vocab=151936, tied_embeddings=True, norm="rmsnorm", qk_norm=True,
)  # fmt: skip
MIXTRAL = ModelSpec(
    family="moe", layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, gated=True, vocab=32000,
    tied_embeddings=False, norm="rmsnorm", experts=8, experts_per_token=2, expert_ffn=14336,
)  # fmt: skip
BERT = ModelSpec(
    family="transformer_encoder", layers=12, hidden=768, heads=12, ffn=3072, vocab=30522, max_positions=512,
    head="none", norm="layernorm",
)  # fmt: skip
T5_SMALL = ModelSpec(
    family="encoder_decoder", layers=6, decoder_layers=6, hidden=512, heads=8, head_dim=64, ffn=2048, vocab=32128,
    tied_embeddings=True, norm="rmsnorm", bias=False,
)  # fmt: skip
BART_BASE = ModelSpec(
    family="encoder_decoder", layers=6, decoder_layers=6, hidden=768, heads=12, ffn=3072, vocab=50265,
    max_positions=1024, learned_positions=True, tied_embeddings=True,
)  # fmt: skip
VIT_BASE = ModelSpec(
    family="vision_transformer", layers=12, hidden=768, heads=12, ffn=3072, patch_size=16, image_size=224, classes=1000
)


@pytest.mark.parametrize(
    ("model", "published"),
    [
        (GPT2, 124_439_808),
        (LLAMA2_7B, 6_738_415_616),
        (QWEN2_05B, 494_032_768),
        (QWEN3_06B, 596_049_920),
        (MIXTRAL, 46_702_792_704),
        (BERT, 109_482_240),
        (T5_SMALL, 60_506_624),
        (BART_BASE, 139_420_416),
        (VIT_BASE, 86_567_656),
    ],
)
def test_formula_is_exact(model: ModelSpec, published: int) -> None:
    count = count_parameters(model)
    assert count is not None
    assert count.total == published


def test_unknown_tying_gives_no_count() -> None:
    assert count_parameters(msgspec.structs.replace(GPT2, tied_embeddings=None)) is None


def test_total_tells_that_the_output_is_tied() -> None:
    model = msgspec.structs.replace(GPT2, tied_embeddings=None, parameters=124_439_808)
    count = count_parameters(model)
    assert count is not None
    assert count.head == 0.0
    assert count.total == 124_439_808


@pytest.mark.parametrize("total", [100_000_000, 124_439_808, 130_000_000])
def test_split_adds_up_to_a_given_total(total: int) -> None:
    count = count_parameters(msgspec.structs.replace(GPT2, parameters=total))
    assert count is not None
    assert count.total == pytest.approx(total)


def test_network_without_architecture_keeps_its_total() -> None:
    count = count_parameters(ModelSpec(family="cnn", parameters=25_557_032, largest_layer_parameters=2_359_296))
    assert count is not None
    assert (count.total, count.block, count.exact) == (25_557_032, 2_359_296, False)
