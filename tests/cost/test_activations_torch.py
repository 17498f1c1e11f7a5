"""The activation formulas against what autograd saves for the model classes of transformers, on CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from preflight.cost import saved
from preflight.cost.activation_layout import layout_of
from preflight.cost.activations import block_bytes
from preflight.cost.logits import loss_bytes
from preflight.cost.parameters import count_parameters
from preflight.cost.recipe import recipe_of
from preflight.cost.saved import activations_of
from preflight.cost.shares import share_of
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, Precision, RunSpec

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

BATCH, LENGTH, VOCAB, HIDDEN, HEADS, WIDTH, LAYERS = 2, 64, 512, 64, 4, 256, 3
TOLERANCE = 0.05

GPT2 = ModelSpec(
    family="transformer_decoder", layers=LAYERS, hidden=HIDDEN, heads=HEADS, ffn=WIDTH, vocab=VOCAB, norm="layernorm",
    max_positions=LENGTH, learned_positions=True, tied_embeddings=True, activation="gelu_new", fused_qkv=True,
)  # fmt: skip
LLAMA = ModelSpec(
    family="transformer_decoder", layers=LAYERS, hidden=HIDDEN, heads=HEADS, kv_heads=2, ffn=WIDTH, vocab=VOCAB,
    norm="rmsnorm", gated=True, activation="silu", tied_embeddings=False,
)  # fmt: skip
BERT = ModelSpec(
    family="transformer_encoder", layers=LAYERS, hidden=HIDDEN, heads=HEADS, ffn=WIDTH, vocab=VOCAB, norm="layernorm",
    max_positions=LENGTH, activation="gelu", head="mlm",
)  # fmt: skip
VIT = ModelSpec(
    family="vision_transformer", layers=LAYERS, hidden=HIDDEN, heads=HEADS, ffn=WIDTH, patch_size=4, image_size=32,
    norm="layernorm", activation="gelu", classes=2,
)  # fmt: skip
T5 = ModelSpec(
    family="encoder_decoder", layers=LAYERS, decoder_layers=LAYERS, hidden=HIDDEN, heads=HEADS, head_dim=16, ffn=WIDTH,
    vocab=VOCAB, norm="rmsnorm", activation="relu", bias=False, tied_embeddings=True,
)  # fmt: skip
SPECS = {"gpt2": GPT2, "llama": LLAMA, "bert": BERT, "vit": VIT, "t5": T5}


def build(name: str, attention: str, dropout: float) -> Any:
    """Return the model of transformers that the specification describes."""
    t = transformers
    common = {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "hidden_size": HIDDEN}
    common |= {"intermediate_size": WIDTH}
    hidden_dropout = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    if name == "gpt2":
        config = t.GPT2Config(
            vocab_size=VOCAB, n_positions=LENGTH, n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS, n_inner=WIDTH,
            attn_pdrop=dropout, resid_pdrop=dropout, embd_pdrop=dropout, bos_token_id=0, eos_token_id=0,
        )  # fmt: skip
        model = t.GPT2LMHeadModel._from_config(config, attn_implementation=attention)
    elif name == "llama":
        config = t.LlamaConfig(vocab_size=VOCAB, num_key_value_heads=2, max_position_embeddings=LENGTH, **common)
        model = t.LlamaForCausalLM._from_config(config, attn_implementation=attention)
    elif name == "bert":
        config = t.BertConfig(vocab_size=VOCAB, max_position_embeddings=LENGTH, **common, **hidden_dropout)
        model = t.BertForMaskedLM._from_config(config, attn_implementation=attention)
    elif name == "vit":
        config = t.ViTConfig(image_size=32, patch_size=4, **common, **hidden_dropout)
        model = t.ViTForImageClassification._from_config(config, attn_implementation=attention)
    else:
        config = t.T5Config(
            vocab_size=VOCAB, d_model=HIDDEN, d_kv=16, d_ff=WIDTH, num_layers=LAYERS, num_decoder_layers=LAYERS,
            num_heads=HEADS, dropout_rate=dropout, decoder_start_token_id=0, pad_token_id=0,
        )  # fmt: skip
        model = t.T5ForConditionalGeneration._from_config(config, attn_implementation=attention)
    return model.train()


def forward(name: str) -> Callable[[Any], Any]:
    """Return a function that computes the loss of a model."""

    def call(model: Any) -> Any:
        if name == "vit":
            pixels = torch.randn(BATCH, 3, 32, 32)
            return model(pixel_values=pixels, labels=torch.zeros(BATCH, dtype=torch.long)).loss
        tokens = torch.randint(0, VOCAB, (BATCH, LENGTH))
        options = {} if name == "bert" else {"use_cache": False}
        return model(input_ids=tokens, labels=tokens, **options).loss

    return call


def saved_bytes(model: Any, call: Callable[[Any], Any], precision: Precision) -> float:
    """Return the bytes of all storages that autograd saves, parameters and buffers excluded."""
    own = {tensor.untyped_storage().data_ptr() for tensor in [*model.parameters(), *model.buffers()]}
    sizes: dict[int, int] = {}
    alive = []

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own and storage.data_ptr() not in sizes:
            sizes[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    autocast = torch.autocast("cpu", torch.bfloat16) if precision.startswith("autocast") else contextlib.nullcontext()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), autocast:
        call(model)
    return float(sum(sizes.values()))


def predicted_bytes(spec: ModelSpec, run: RunSpec) -> float:
    """Return what the formulas give: activations, the kept log-softmax, autocast's weight copies."""
    parallel = ParallelDims()
    recipe, count = recipe_of(run, parallel), count_parameters(spec)
    assert count is not None
    share = share_of(spec, run, count, parallel, 0)
    acts = activations_of(spec, run, parallel, share, recipe, 1)
    loss = loss_bytes(spec, run, parallel, recipe, acts.tokens)
    # Log-softmax is what autograd keeps of the forward bytes: the last term of (w + copy + wide).
    wide = 4.0 if run.logits_upcast or recipe.cast else recipe.matmul
    kept = wide * acts.tokens * float(spec.vocab or 0)
    assert kept <= loss.forward
    casts = recipe.cast * share.matrices
    return acts.saved + kept + casts


CASES = [(name, attention) for name in SPECS for attention in ("sdpa", "eager") if (name, attention) != ("t5", "sdpa")]


@pytest.mark.parametrize("precision", ["fp32", "autocast-bf16", "pure-bf16"])
@pytest.mark.parametrize(("name", "attention"), CASES)
def test_saved_bytes_agree_with_autograd(
    name: str, attention: str, precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = SPECS[name]
    kind = "flash" if attention == "sdpa" else "eager"
    run = RunSpec(
        micro_batch=BATCH, sequence_length=None if name == "vit" else LENGTH, precision=precision, attention=kind,
        optimizer="adamw", logits_upcast=name in ("gpt2", "llama"),
    )  # fmt: skip
    if name == "bert":
        # BERT asks for no fp32 softmax; CUDA's autocast takes it in fp32 all the same, the CPU's does not.
        cpu = lambda *given: msgspec.structs.replace(layout_of(*given), upcast_softmax=False)  # noqa: E731
        monkeypatch.setattr(saved, "layout_of", cpu)
    model = build(name, attention, 0.0)
    call = forward(name)
    if precision == "pure-bf16":
        model = model.to(torch.bfloat16)
        if name == "vit":
            pixels = torch.randn(BATCH, 3, 32, 32, dtype=torch.bfloat16)
            labels = torch.zeros(BATCH, dtype=torch.long)
            call = lambda net: net(pixel_values=pixels, labels=labels).loss  # noqa: E731
    measured = saved_bytes(model, call, precision)
    assert predicted_bytes(spec, run) == pytest.approx(measured, rel=TOLERANCE)


@pytest.mark.parametrize("name", ["gpt2", "bert", "vit"])
def test_dropout_keeps_masks_and_outputs(name: str) -> None:
    spec = msgspec.structs.replace(SPECS[name], dropout=0.1)
    run = RunSpec(micro_batch=BATCH, sequence_length=LENGTH, precision="fp32", attention="eager", optimizer="adamw")
    layout = layout_of(spec, run, recipe_of(run, ParallelDims()))
    # On CPU a dropout mask has the type of its input; on CUDA it is one byte.
    on_cpu = block_bytes(spec, msgspec.structs.replace(layout, mask=4.0))
    plain = block_bytes(SPECS[name], msgspec.structs.replace(layout, dropout=False))
    tokens = 65 if name == "vit" else LENGTH
    grown = (on_cpu.saved - plain.saved + (on_cpu.square - plain.square) * tokens) * tokens * BATCH * LAYERS
    grown += 4.0 * HIDDEN * tokens * BATCH  # the mask behind the embedding
    call = forward(name)
    measured = saved_bytes(build(name, "eager", 0.1), call, "fp32")
    without = saved_bytes(build(name, "eager", 0.0), call, "fp32")
    assert grown == pytest.approx(measured - without, rel=TOLERANCE)
