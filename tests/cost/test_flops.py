"""Work of a step against published figures and torch's own count."""

from __future__ import annotations

import pytest

from preflight.cost.flops import flops_per_sample, minimal_rows, minimal_tokens, ridge_point
from preflight.vocabulary.hardware import Gpu
from preflight.vocabulary.model import ModelSpec

GPT = ModelSpec(
    family="transformer_decoder", layers=2, hidden=64, heads=4, ffn=256, vocab=512, norm="layernorm",
    tied_embeddings=True,
)  # fmt: skip
A100 = Gpu(
    name="a100", title="A100", vendor="nvidia", memory_bytes=1, sold_as_gb=80, bandwidth=2.039e12,
    peak_flops={"bf16": 312e12}, architecture="ampere", sources=("data sheet",),
)  # fmt: skip


def test_matches_the_published_form() -> None:
    # Narayanan et al. 2021: 72 B s l h^2 (1 + s/6h + V/12lh) for forward and backward with full attention.
    work = flops_per_sample(GPT, 128, causal=False)
    assert work is not None
    s, layers, h, vocab = 128, 2, 64, 512
    published = 72 * s * layers * h**2 * (1 + s / (6 * h) + vocab / (12 * layers * h))
    assert work.model == pytest.approx(published)


def test_causal_attention_is_half_and_recomputation_adds_a_forward() -> None:
    full, causal = flops_per_sample(GPT, 128, causal=False), flops_per_sample(GPT, 128)
    again = flops_per_sample(GPT, 128, recompute="full")
    assert full is not None
    assert causal is not None
    assert again is not None
    assert causal.attention == full.attention / 2
    head = 2 * 64 * 512 * 128
    assert again.hardware - again.model == pytest.approx(again.forward - head)


@pytest.mark.torch
def test_matches_the_flop_counter_of_torch() -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from torch.utils.flop_counter import FlopCounterMode

    config = transformers.GPT2Config(
        vocab_size=512, n_positions=128, n_embd=64, n_layer=2, n_head=4, n_inner=256, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel._from_config(config, attn_implementation="eager")
    counter = FlopCounterMode(display=False)
    with counter:
        model(input_ids=torch.randint(0, 512, (1, 128)), use_cache=False)
    work = flops_per_sample(GPT, 128, causal=False)
    assert work is not None
    assert counter.get_total_flops() == pytest.approx(work.forward, rel=1e-6)


def test_minimal_rows_reach_the_ridge() -> None:
    ridge = ridge_point(A100)
    assert ridge == pytest.approx(153.0, rel=0.01)
    rows = minimal_rows(4096, 11008, ridge, 2)
    assert rows is not None
    moved = 2 * (rows * 4096 + 4096 * 11008 + rows * 11008)
    assert 2 * rows * 4096 * 11008 / moved == pytest.approx(ridge)
    assert minimal_tokens(GPT, A100) is None  # 64 columns never reach 153 FLOP per byte


def test_unknown_length_is_none() -> None:
    assert flops_per_sample(GPT) is None
