"""Encoder-decoders whose sides differ in heads and feed-forward width, and encoders that read audio frames."""

from __future__ import annotations

import msgspec
import pytest

from preflight.catalog.families.counted import Config
from preflight.catalog.families.seq2seq import bart
from preflight.catalog.hardware import resolve_gpu
from preflight.cost.flops import flops_per_sample
from preflight.cost.ledger import ledger_of
from preflight.cost.optimizers import optimizer_state
from preflight.cost.parameters import count_parameters
from preflight.cost.shares import adapter_parameters
from preflight.cost.stage_time import block_tokens, depth_of
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec

ALIKE = ModelSpec(
    family="encoder_decoder", layers=4, decoder_layers=4, hidden=256, heads=4, kv_heads=4, head_dim=64, ffn=512,
    decoder_heads=4, decoder_ffn=512, vocab=1000, max_positions=128, learned_positions=True, tied_embeddings=True,
    bias=True, norm="layernorm", activation="gelu",
)  # fmt: skip
RUN = RunSpec(micro_batch=4, sequence_length=64, target_length=32, precision="fp32", optimizer="sgd", attention="eager")


def _saved(model: ModelSpec, run: RunSpec = RUN) -> float:
    count, optimizer = count_parameters(model), optimizer_state("sgd")
    assert count is not None
    assert optimizer is not None
    return ledger_of(model, run, ParallelDims(), resolve_gpu("H100"), count, optimizer, 0).activations.saved


def _with(**sizes: int) -> ModelSpec:
    return msgspec.structs.replace(ALIKE, **sizes)


def test_a_decoder_of_another_width_is_counted_as_the_library_has_it() -> None:
    config = {
        "d_model": 256, "encoder_layers": 4, "decoder_layers": 3, "encoder_attention_heads": 4,
        "decoder_attention_heads": 8, "encoder_ffn_dim": 512, "decoder_ffn_dim": 2048, "vocab_size": 1000,
        "max_position_embeddings": 128,
    }  # fmt: skip
    counted = bart(Config(config))
    count = count_parameters(counted.spec)
    assert count is not None
    assert count.total == counted.base


def test_flop_and_activations_of_a_side_follow_its_own_width() -> None:
    # What the encoder's layers add for their width, the decoder's add for theirs: both together, no more and no less.
    wide_behind, wide = _with(decoder_ffn=2048), _with(ffn=2048, decoder_ffn=2048)
    wide_ahead = _with(ffn=2048)
    run = msgspec.structs.replace(RUN, target_length=64)
    assert _saved(wide_behind, run) > _saved(ALIKE, run)
    assert _saved(wide_behind, run) + _saved(wide_ahead, run) == pytest.approx(_saved(wide, run) + _saved(ALIKE, run))
    work = [flops_per_sample(model, 64, target_length=32) for model in (ALIKE, wide_behind)]
    assert work[0] is not None
    assert work[1] is not None
    # Two matrices of 256 x 1536 more in each of 4 blocks, for 32 tokens.
    assert work[1].forward - work[0].forward == pytest.approx(2 * 2 * 256 * 1536 * 4 * 32)


def test_the_scores_of_a_decoder_are_as_many_as_its_heads() -> None:
    # Softmax of 4 more heads: itself, in fp32, over the target's own 32 keys and the source's 64.
    more = _saved(_with(decoder_heads=8)) - _saved(ALIKE)
    assert more == pytest.approx(4 * 4 * 4 * 32 * (32 + 64) * 4)


def test_adapters_lie_on_cross_attention_too() -> None:
    run = msgspec.structs.replace(RUN, finetune="lora", lora_rank=8, lora_targets=("q", "v"))
    # q and v of 256 x 256 once in each block of the encoder, twice in each of the decoder.
    assert adapter_parameters(ALIKE, run) == 8 * (4 + 2 * 4) * 2 * (256 + 256)


def test_an_encoder_of_audio_works_on_its_frames() -> None:
    audio = msgspec.structs.replace(ALIKE, source_positions=1500)
    short = msgspec.structs.replace(RUN, sequence_length=32, target_length=None)
    assert block_tokens(audio, short) == 1500
    # The decoder sees 32 tokens: its blocks are worth little beside those of the encoder.
    assert 4 < depth_of(audio, short) < 6
    work, text = flops_per_sample(audio, 32), flops_per_sample(ALIKE, 1500, target_length=32)
    assert work is not None
    assert work == text
