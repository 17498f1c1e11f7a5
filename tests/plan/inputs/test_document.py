from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.errors import InputError, PreflightError, UsageError
from preflight.plan.inputs.document import read_settings, settings_in
from preflight.plan.inputs.form import KEYS, sections
from preflight.plan.inputs.requests import request_from
from preflight.plan.request import Request
from preflight.plan.spread import settled
from preflight.vocabulary.run import ParallelDims

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "plan"


def request(text: str) -> Request:
    return request_from(settings_in(text, "plan.yaml"))


def test_the_long_sequences_of_the_example_are_read_as_they_stand() -> None:
    found = request_from(read_settings(str(EXAMPLES / "13b_long_sequence.yaml")))
    assert (found.run.global_batch, found.run.sequence_length) == (32, 4096)
    assert (found.cluster.num_gpus, found.cluster.gpus_per_node, found.cluster.gpu.name) == (4, 4, "h100_sxm")
    assert found.cluster.intra is not None
    assert found.cluster.intra.name == "nvlink_4"
    assert any("not NVLink 5" in note and "nvlink_4 is used" in note for note in found.notes)
    assert found.bottlenecks
    assert not found.basic
    assert settled(found).parallel == ParallelDims(dp_replicate=4, framework="ddp")


def test_the_hybrid_example_is_two_by_two_by_two() -> None:
    dims = settled(request_from(read_settings(str(EXAMPLES / "hybrid_example.yaml")))).parallel
    assert dims is not None
    assert (dims.dp_replicate, dims.tp, dims.pp, dims.world_size) == (2, 2, 2, 8)


def test_degrees_alone_say_how_many_gpus_there_are() -> None:
    found = request(
        "model: {size_billions: 13, batch_size: 32}\n"
        "distribution: {strategy: hybrid, data_parallel: 2, tensor_parallel: 2, pipeline_parallel: 2}\n"
    )
    assert found.cluster.num_gpus == 8
    assert "8 GPUs, as many as the degrees make up" in found.assumptions


def test_seventy_billion_over_eight_nodes() -> None:
    found = settled(request_from(read_settings(str(EXAMPLES / "70b_hybrid_training.yaml"))))
    assert found.model.name == "llama-3-70b"
    assert found.cluster.inter is not None
    assert (found.cluster.nodes, found.cluster.inter.name, found.tokens) == (8, "ib_ndr", 1e12)
    assert found.parallel == ParallelDims(
        dp_shard=4, zero_stage=1, tp=8, pp=2, vp=4, sequence_parallel=True, framework="megatron"
    )
    assert not found.assumptions


def test_numbers_are_read_as_people_write_them() -> None:
    found = request("model: {size_billions: 1e0, batch_size: 1_024}\nrun: {tokens: 300e9}\n")
    assert (found.run.global_batch, found.tokens) == (1024, 300e9)
    assert request("model: {size_billions: 1, batch_size: 8}\nrun: {tokens: 1.5T}\n").tokens == 1.5e12


def test_an_architecture_beats_a_configuration_a_name_and_a_size(tmp_path: Path) -> None:
    small = "architecture: {layers: 2, hidden: 64, heads: 4, ffn: 256, vocab: 1000, tied_embeddings: true}"
    found = request(f"model:\n  {small}\n  config: nowhere.json\n  name: llama-3-8b\n  size_billions: 70\n")
    assert (found.model.layers, found.model.kv_heads) == (2, None)
    assert sum("is not used" in note for note in found.notes) == 3
    named = request("model: {name: llama-3-8b, size_billions: 70}")
    assert named.model.name == "llama-3-8b"
    assert any("model.size_billions (plan.yaml:1) is not used" in note for note in named.notes)


def test_a_configuration_is_looked_for_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, '
                                          '"num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100}')  # fmt: skip
    (tmp_path / "plan.yaml").write_text("model: {config: config.json}\n")
    found = request_from(read_settings(str(tmp_path / "plan.yaml")))
    # 2 x 100 x 64 rows, 2 blocks of 4 x 64^2 + 3 x 64 x 128 + 2 x 64, and the last norm
    assert (found.model.hidden, found.model.parameters) == (64, 12_800 + 2 * (16_384 + 24_576 + 128) + 64)


def test_only_the_recomputed_blocks_are_said() -> None:
    run = request("model: {size_billions: 7}\nrun: {recompute: 'full:12'}").run
    assert (run.recompute, run.recompute_layers) == ("full", 12)
    assert request("model: {size_billions: 7}\nrun: {recompute: full:32}").run.recompute_layers is None


def test_adapters_have_a_table_of_their_own() -> None:
    run = request(
        "model: {name: llama-3-8b, batch_size: 4}\nrun: {finetune: qlora, lora: {rank: 8, targets: [q, v, mlp], dropout: 0.1}}"
    ).run
    assert (run.finetune, run.lora_rank, run.lora_targets, run.lora_dropout) == ("qlora", 8, ("q", "v", "mlp"), 0.1)


def test_sections_and_keys_may_be_empty() -> None:
    assert request("model:\n  size_billions: 7\n  name:\nrun:\ncluster: {}\n").cluster.num_gpus == 1


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("modle: {size_billions: 7}", "plan.yaml:1: unknown section 'modle'", "did you mean model?"),
        ("model:\n  size_bilions: 7\n", "plan.yaml:2: unknown key of model 'size_bilions'", "did you mean size_billions?"),
        ("model: {size_billions: 7}\nrun:\n  sequence_length: 4\n", "plan.yaml:3: run has no key 'sequence_length'", "belongs to model"),
        ("model:\n  size_billions: -7\n", "plan.yaml:2: model.size_billions is -7, which is too small", "more than 0"),
        ("model:\n  size_billions: seven\n", "plan.yaml:2: model.size_billions is 'seven', which is not a number", None),
        ("model:\n  size_billions: [7]\n", "plan.yaml:2: model.size_billions holds one value", None),
        ("model: {size_billions: 7, batch_size: 8}\nrun:\n  global_batch: 16\n", "plan.yaml:3: global_batch is 16, but model.batch_size (plan.yaml:1) is 8", "say it once"),
        ("model: {size_billions: 7}\nmodel: {size_billions: 8}\n", "plan.yaml:2: model is there twice", "line 1"),
        ("model: {size_billions: 7}\nrun:\n  precision: int3\n", "plan.yaml:3: run.precision is 'int3'", "one of fp32"),
        ("model: {size_billions: 7}\nanalysis:\n  basic_mode: maybe\n", "plan.yaml:3: analysis.basic_mode is 'maybe', which is not true or false", None),
        ("model: {size_billions: 7}\ncluster: {num_gpus: 8,\n nodes: 2,\n gpus_per_node: 8}\n", "plan.yaml:2: 2 nodes of 8 GPUs are 16 GPUs, not 8", "gpus_per_node: 4"),
        ("model: {size_billions: 7}\nhardware:\n  gpu_type: H1000\n", "plan.yaml:3: unknown GPU 'H1000'", "did you mean"),
        ("model:\n  architecture: {layers: 2, hidden: 64, heads: 5, vocab: 10}\n", "5 heads do not divide the width 64", "4 do"),
        ("model:\n  architecture: {layers: 2, hiden: 64}\n", "plan.yaml:2: unknown key of architecture 'hiden'", "did you mean hidden?"),
        ("model:\n  architecture: {layers: 2}\n", "plan.yaml:2: architecture lacks hidden, heads, vocab", None),
        ("model:\n  architecture: {layers: 2, hidden: 64, heads: 8, kv_heads: 3, vocab: 10}\n", "8 heads cannot share 3 key-value heads", None),
        ("model: {type: cnn, name: gpt2}\n", "gpt2 is a transformer_decoder, not a cnn", "type: transformer_decoder"),
        ("model: {name: gpt2}\nrun:\n  lora: {rank: 4}\n", "adapters are described, but run.finetune is not lora", None),
        ("model: {name: gpt2}\nrun:\n  finetune: lora\n  lora: {rnk: 4}\n", "plan.yaml:4: unknown key of run.lora 'rnk'", "did you mean rank?"),
        ("model: {framework: jax, size_billions: 7}\n", "model.framework is 'jax'", "pytorch"),
        ("model: 7\n", "plan.yaml:1: model holds no keys", "size_billions"),
        ("- 7\n", "plan.yaml: no settings of a plan", "sections model"),
        ("", "plan.yaml: no settings of a plan", None),
        ("model: {size_billions: 7\n", "plan.yaml:2:1: not YAML", None),
        ("model: &a {size_billions: 7}\nrun: *b\n", "not YAML", None),
        ("{model: {size_billions: 7, ? [1] : 2}}", "plan.yaml:1: a key is a word", None),
    ],
)  # fmt: skip
def test_an_error_names_the_line_and_the_nearest_choice(text: str, message: str, hint: str | None) -> None:
    with pytest.raises(PreflightError) as caught:
        settled(request(text))
    assert caught.value.exit_code == 2
    assert message in str(caught.value)
    if hint is not None:
        assert hint in (caught.value.hint or "")


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(InputError):
        read_settings(str(file))
    with pytest.raises(InputError, match="is a folder"):
        read_settings(str(tmp_path))
    with pytest.raises(InputError, match="is not there") as caught:
        read_settings(str(tmp_path / "plan.yml"))
    assert "plan.yaml" in (caught.value.hint or "")


WORDS = st.sampled_from(
    [
        *KEYS,
        *(key.name for key in KEYS.values()),
        *sections(),
        "lora",
        "rank",
        "fsdp",
        "auto",
        "full:3",
        "h100",
        "7",
        "-1",
        "",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**18) | st.floats() | st.text(max_size=8) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | WORDS, inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(sections()),
        st.dictionaries(st.sampled_from([key.name for key in KEYS.values()]), VALUES, max_size=4),
        max_size=4,
    )
)
def test_whatever_a_file_says_is_planned_or_refused_in_words(content: dict[str, object]) -> None:
    import yaml

    base = {"model": {"size_billions": 7, "batch_size": 8}}
    merged = {name: {**base.get(name, {}), **dict(content.get(name, {}))} for name in {*base, *content}}  # type: ignore[call-overload]
    with contextlib.suppress(PreflightError):  # any other exception is a mistake of ours
        assert settled(request(yaml.safe_dump(merged))).parallel is not None


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="model:size_billions 7{}[]&*!|>-#'\"\n\t%@`,?", max_size=60))
def test_whatever_is_no_yaml_is_refused_in_words(text: str) -> None:
    with contextlib.suppress(PreflightError):
        request(text)


def test_alias_loops_do_not_hang() -> None:
    with pytest.raises((UsageError, InputError)):
        request("model: &m\n  size_billions: *m\n")
