"""Wrong input to ``preflight plan``, line by line: one error that names the thing, the nearest choice, exit code 2."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from preflight.cli.main import main

FILES = {
    "binary.yaml": b"\xff\xfe\x00\x81", "empty.yaml": b"", "binary.json": b"\x00\x01\x02", "list.json": b"[1]",
    "nothing.json": b"{}", "odd.json": b'{"model_type": "zzz"}', "broken.yaml": b"model: {size_billions: 7\n",
    "notrain.py": b"print(1)\n", "syntax.py": b"def (\n",
}  # fmt: skip
_LLAMA = '{"model_type": "llama", "hidden_size": %s, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 9}'


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of files that are wrong in some way."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "textual.json").write_text(_LLAMA % '"x"')
    (tmp_path / "negative.json").write_text(_LLAMA % "-64")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)


LINES = [
        ('', 'no model: a plan needs a size in billions, a name, a config.json or an architecture', 'preflight plan transformer 7.0 32, or'),
        ('transformer', 'transformer of which size?', 'preflight plan transformer 7.0 32'),
        ('transformer 7 32 5', '3 numbers: a plan has a size in billions and a batch', 'preflight plan transformer 7.0 32'),
        ('transfomer 7 32', "no model and no type of models is called 'transfomer'", 'did you mean transformer?'),
        ('seven 32', "no model and no type of models is called 'seven'", 'a type (transformer'),
        ('0 32', "SIZE_BILLIONS is '0', which is too small", 'more than 0'),
        ('-7 32', '-7 is negative', 'sizes, batches and lengths are above 0'),
        ('7 0', "BATCH is '0', which is too small", 'at least 1'),
        ('7 -3', '-3 is negative', 'sizes, batches and lengths are above 0'),
        ('7 3.5', "BATCH is '3.5', which is not a whole number", '4 is'),
        ('nan 32', "SIZE_BILLIONS is 'nan', which is not a number", 'for example 7 or 0.5'),
        ('inf 32', "SIZE_BILLIONS is 'inf', which is not a number", 'for example 7 or 0.5'),
        ('1e9 32', 'SIZE_BILLIONS: a model of 1e+09 billion parameters', 'more than 0 and at most 2000'),
        ('7 1e12', "BATCH is '1e12', which is too large", 'at most 1e+09'),
        ('7 32 --gpus 0', "--gpus is '0', which is too small", 'at least 1'),
        ('7 32 --gpus -4', '--gpus -4 is negative', 'sizes, batches and lengths are above 0'),
        ('7 32 --gpus two', "--gpus is 'two', which is not a whole number", 'for example 8'),
        ('7 32 --gpus 2.5', "--gpus is '2.5', which is not a whole number", '2 is'),
        ('7 32 --gpus 9999999999', "--gpus is '9999999999', which is too large", 'at most 1e+06'),
        ('7 32 --gpus 13', '--gpus: 13 GPUs do not fill nodes of 8', '8 or 16 do; or say gpus_per_node'),
        ('7 32 --gpus 100', 'a global batch of 32 cannot be divided over 100 data-parallel ranks', '100 can'),
        ('7 32 --gpu H1000', "--gpu: unknown GPU 'H1000'", "did you mean 'h100' (h100_sxm)?"),
        ('7 32 --gpu ""', "--gpu: unknown GPU ''", "'preflight list gpus' names them all"),
        ('7 32 --gpu rtx9090', "--gpu: unknown GPU 'rtx9090'", "did you mean 'rtx_5090' (rtx_5090)?"),
        ('7 32 --gpu-memory -80', '--gpu-memory -80 is negative', 'sizes, batches and lengths are above 0'),
        ('7 32 --gpu-memory 0', "--gpu-memory is '0', which is too small", 'more than 0'),
        ('7 32 --gpu-memory lots', "--gpu-memory is 'lots', which is not a number", 'for example 7 or 0.5'),
        ('7 32 --gpus 8 --strategy tensorparallel', "--strategy: no strategy is called 'tensorparallel'", 'did you mean tensor_parallel?'),
        ('7 32 --gpus 8 --strategy everything', "--strategy: no strategy is called 'everything'", 'one of data_parallel, tensor_parallel'),
        ('7 32 --gpus 8 --tp 3', 'tensor 3 x pipeline 1 x context 1 x data 2 = 6, but there are 8 GPUs', '3 does not divide 8; 2 does'),
        ('7 32 --gpus 8 --tp 16', 'tensor 16 x pipeline 1 x context 1 x data 1 = 16, but there are 8 GPUs', '16 does not divide 8; 8 does'),
        ('7 32 --gpus 8 --tp 0', "--tensor-parallel is '0', which is too small", 'at least 1'),
        ('7 33 --gpus 8', 'a global batch of 33 cannot be divided over 8 data-parallel ranks', '40 can'),
        ('7 4 --gpus 8', 'a global batch of 4 cannot be divided over 8 data-parallel ranks', '8 can'),
        ('7 96 --gpus 96 --tp 12', '32 attention heads cannot be divided by tensor_parallel 12', '8 divides them'),
        ('7 240 --gpus 48 --tp 48', 'tensor_parallel is 48, but the model has 32 attention heads', 'at most 32'),
        ('--model llama-3-8b 48 --gpus 24 --tp 3', '32 attention heads cannot be divided by tensor_parallel 3', '2 divides them'),
        ('7 32 --gpus 64 --pp 64', 'pipeline_parallel is 64, but the model has 32 layers', 'at most 32'),
        ('7 32 --gpus 24 --pp 3 --dp 8', '32 layers cannot be divided by pipeline_parallel 3', '2 divides them'),
        ('7 32 --gpus 8 --pp 8 --vp 3', '32 layers cannot be divided by pipeline_parallel x virtual_pipeline 24', 'virtual_pipeline 2 divides them'),
        ('7 4 --gpus 8 --pp 4 --vp 2', '2 micro-batches are no multiple of the 4 stages that virtual_pipeline 2 interleaves', '4 micro-batches are, or virtual_pipeline 1'),
        ('7 32 --vp 2', 'virtual_pipeline is 2, but there is one pipeline stage', 'leave it out'),
        ('7 32 --ep 4', 'expert_parallel is 4, but the model has no experts', 'leave it out'),
        ('moe 47 64 --gpus 8 --ep 3', 'the 8 data-parallel and context-parallel ranks cannot be divided by expert_parallel 3', '2 divides them'),
        ('moe 47 64 --gpus 8 --ep 16', 'expert_parallel is 16, but only 8 data-parallel and context-parallel ranks hold experts', '8 divides them'),
        ('7 32 --gpus 8 --cp 3', 'tensor 1 x pipeline 1 x context 3 x data 2 = 6, but there are 8 GPUs', '3 does not divide 8; 2 does'),
        ('7 32 --gpus 8 --cp 8 --sequence-length 1001', 'a sequence of 1001 tokens cannot be divided by 2 x context_parallel 8', '1008 tokens can'),
        ('7 32 --gpus 8 --zero-stage 4', "--zero-stage is '4', which is too large", 'at most 3'),
        ('7 32 --gpus 8 --zero-stage two', "--zero-stage is 'two', which is not a whole number", 'for example 8'),
        ('7 32 --gpus 8 --shard-size 3', 'shard_size 3 does not divide the 8 data-parallel ranks', '2 does'),
        ('7 32 --gpus 8 --strategy hsdp --shard-size 3', 'shard_size 3 does not divide the 8 data-parallel ranks', '2 does'),
        ('7 32 --gpus 8 --dp 4', 'tensor 1 x pipeline 1 x context 1 x data 4 = 4, but there are 8 GPUs', 'data_parallel: 8 makes it 8'),
        ('7 32 --micro-batch 5', 'micro_batch 5 does not divide the 32 samples of a rank', '4 does'),
        ('7 32 --gpus 8 --micro-batch 8', 'micro_batch 8 does not divide the 4 samples of a rank', '4 does'),
        ('7 32 --accumulate 3', 'the 32 samples of a rank cannot be taken in 3 forward passes', 'in 2 they can; or say the micro-batch'),
        ('7 32 --micro-batch 0', "--micro-batch is '0', which is too small", 'at least 1'),
        ('7 32 --precision bf17', "--precision is 'bf17', which there is not", 'did you mean bf16? one of fp32, tf32'),
        ('7 32 --precision int8', "--precision is 'int8', which there is not", 'one of fp32, tf32, autocast-fp16'),
        ('7 32 --optimizer adamx', "--optimizer: no optimizer is called 'adamx'", 'did you mean adamax?'),
        ('7 32 --optimizer ""', "--optimizer: no optimizer is called ''", 'adabelief, adadelta, adafactor'),
        ('7 32 --attention flsh', "--attention is 'flsh', which there is not", 'did you mean flash? one of flash'),
        ('7 32 --recompute some', "--recompute is 'some', which there is not", 'did you mean none? one of none, full'),
        ('7 32 --recompute full:99', '--recompute: 99 blocks are to be recomputed, but the model has 32', 'at most 32'),
        ('7 32 --recompute full:-1', "--recompute is 'full:-1', which names no number of blocks", 'for example full:12, or full for all of them'),
        ('7 32 --recompute full:K', "--recompute is 'full:K', which names no number of blocks", 'for example full:12, or full for all of them'),
        ('7 32 --stack jax', "--stack is 'jax', which there is not", 'one of eager, compile, megatron'),
        ('7 32 --cross-entropy fast', "--cross-entropy is 'fast', which there is not", 'one of eager, fused, chunked, parallel'),
        ('7 32 --finetune loar', "--finetune is 'loar', which there is not", 'did you mean lora? one of full, lora'),
        ('7 32 --offload gradients', "--offload is 'gradients', which there is not", 'did you mean parameters? one of none'),
        ('7 32 --schedule dualpipe', "--schedule is 'dualpipe', which there is not", 'did you mean gpipe? one of 1f1b, gpipe'),
        ('7 32 --sequence-length 0', "--sequence-length is '0', which is too small", 'at least 1'),
        ('7 32 --sequence-length -2048', '--sequence-length -2048 is negative', 'sizes, batches and lengths are above 0'),
        ('7 32 --sequence-length long', "--sequence-length is 'long', which is not a whole number", 'for example 8'),
        ('7 32 --tokens 0', "--tokens is '0', which is too small", 'more than 0'),
        ('7 32 --tokens -1e9', '--tokens -1e9 is negative', 'sizes, batches and lengths are above 0'),
        ('7 32 --tokens 1e9 --train-steps 10', '--train-steps: tokens (--tokens) and steps are both given', 'say one of the two'),
        ('7 32 --nodes 3 --gpus 8', '--nodes: 8 GPUs cannot be dealt out over 3 nodes', '2 can'),
        ('7 32 --nodes 0', "--nodes is '0', which is too small", 'at least 1'),
        ('7 32 --nodes 2 --gpus-per-node 8 --gpus 8', '--gpus: 2 nodes of 8 GPUs are 16 GPUs, not 8', 'num_gpus: 16, or gpus_per_node: 4'),
        ('7 32 --gpus 16 --gpus-per-node 5', '--gpus-per-node: 16 GPUs do not fill nodes of 5', '4 does'),
        ('7 32 --interconnect nvlink_9', "--interconnect: unknown link 'nvlink_9'", "did you mean 'nvlink_5' (nvlink_5)?"),
        ('7 32 --gpus 16 --interconnect ib_ndr', '--interconnect: InfiniBand NDR, one 400 Gbit/s port per GPU is a link between nodes', 'say inter_node: ib_ndr'),
        ('7 32 --gpus 16 --inter-node nvlink_4', '--inter-node: NVLink 4 (H100, H200, GH200) does not lead from node to node', 'for example ib_ndr or roce_400'),
        ('7 32 --gpus 16 --inter-node infiniband9', "--inter-node: unknown link 'infiniband9'", "did you mean 'infiniband' (ib_ndr)?"),
        ('--model llama-9-7b --batch 4', "--model: unknown model 'llama-9-7b'", "did you mean 'llama-2-7b'?"),
        ('--model nowhere/config.json --batch 4', 'nowhere/config.json is not there', 'name a config.json, or the folder that'),
        ('--model folder --batch 4', "--model: unknown model 'folder'", ''),
        ('--model binary.json --batch 4', 'binary.json: not JSON: Expecting value: line 1 column 1 (char 0)', ''),
        ('--model list.json --batch 4', 'list.json: not the configuration of a model', ''),
        ('--model nothing.json --batch 4', 'nothing.json: it names no model_type', '--script train.py --dry-run measure it'),
        ('--model odd.json --batch 4', "odd.json: the type 'zzz' is not counted", '--script train.py --dry-run measure it'),
        ('--model textual.json --batch 4', "textual.json: hidden_size is not a whole number: 'x'", ''),
        ('--model negative.json --batch 4', 'negative.json: hidden_size is not a whole number: -64', ''),
        ('--model gpt2 7 32', 'a size and --model: two models', 'leave one of them out'),
        ('--model gpt2 --batch 8 8', "--batch and '8' both say the batch", 'say it once'),
        ('--model gpt2 8 --sequence-length 4096', '--sequence-length: 4096 tokens, but gpt2 has a table of 1024 positions', 'at most 1024'),
        ('vision_transformer 0.3 64 --image-size 225', '--image-size: patches of 16 pixels do not fill 225 pixels', '224 can'),
        ('vision_transformer 500 64', 'SIZE_BILLIONS: a vision_transformer of 500 billion parameters: the largest published', 'describe it with model.architecture, or'),
        ('cnn 0.03 64 --tp 2 --gpus 2', 'tensor x pipeline x context is 2 x 1 x 1, but a model of kind cnn has no equal blocks', 'data_parallel or fsdp'),
        ('cnn 0.03 64 --pp 2 --gpus 2', 'tensor x pipeline x context is 1 x 2 x 1, but a model of kind cnn has no equal blocks', 'data_parallel or fsdp'),
        ('--config nowhere.yaml', 'nowhere.yaml is not there', 'did you mean broken.yaml?'),
        ('--config folder', 'folder is a folder', 'name a YAML file'),
        ('--config binary.yaml', 'binary.yaml is not text in UTF-8', 'name a YAML file with the settings of a plan'),
        ('--config empty.yaml', 'empty.yaml: no settings of a plan', 'it has the sections model, run'),
        ('--config broken.yaml', "broken.yaml:2:1: not YAML: expected ',' or '}', but got '<stream end>'", 'a file looks like: model:'),
        ('--config binary.json', 'binary.json: not YAML: special characters are not allowed', 'a file looks like: model:'),
        ('--script nowhere.py', 'nowhere.py: no such file', 'did you mean notrain.py?'),
        ('--script notrain.py', 'notrain.py: no training was recognised', 'preflight check says what it sees in'),
        ('--script syntax.py', 'syntax.py:1:5: syntax error: invalid syntax: def (', ''),
        ('--script folder', '--script folder: is a folder', 'name the script that trains'),
        ('7 32 --dry-run', '--dry-run belongs to --script', 'name the script: --script train.py --dry-run'),
        ('7 32 -- --lr 1', 'arguments of a script, and no script', 'name it: --script train.py -- --batch-size 8'),
        ('7 32 --calibration nowhere.json', 'no calibration file nowhere.json', 'write one with: preflight plan'),
        ('7 32 --calibration binary.json', 'binary.json is no calibration: JSON is malformed: invalid character (byte 0)', 'preflight plan calibrate writes them'),
        ('7 32 --calibration list.json', 'list.json is no calibration: Expected `object`, got `array`', 'preflight plan calibrate writes them'),
        ('7 32 --format xls', "unknown format 'xls'", 'one of csv, github, gitlab, html, json, junit, markdown, sarif, text'),
        ('7 32 -o nowhere/out.json', '-o nowhere/out.json: there is no folder nowhere', ''),
        ('7 32 -o out.xls', '-o out.xls: no format belongs to this ending', 'say which one: --format json'),
        ('7 32 -o folder', '-o folder: is a folder', 'name a file'),
        ('7 32 --width 3', "invalid value for '--width': 3 is not in the range 60<=x<=1000", 'preflight plan --help shows what there is'),
        ('7 32 --json', 'no such option: --json', 'did you mean --format json?'),
        ('7 32 --gpuz 8', 'no such option: --gpuz', 'did you mean --gpu?'),
        ('7 32 --strategi fsdp', 'no such option: --strategi', 'did you mean --strategy?'),
        ('7 32 --batch 8', "--batch and '32' both say the batch", 'say it once'),
        ('compare h100', 'a comparison needs at least two clusters', 'preflight plan compare h100 b200'),
        ('compare h100 h1000 7 32', "CLUSTER: unknown GPU 'h1000'", "did you mean 'h100' (h100_sxm)?"),
        ('compare h100 nowhere.yaml 7 32', 'nowhere.yaml is not there', 'did you mean broken.yaml?'),
        ('calibrate nowhere.log 7 32', 'no file nowhere.log', 'a log, a trace folder, rows in a .json file, or'),
        ('calibrate binary.json 7 32', 'binary.json is not JSON: JSON is malformed: invalid character (byte 0)', ''),
        ('calibrate empty.yaml 7 32', 'no model: a plan needs a size in billions, a name, a config.json or an architecture', 'preflight plan transformer 7.0 32, or'),
        ('7 32 --search --gpus 8 --tp 3', 'tensor 3 x pipeline 1 x context 1 x data 2 = 6, but there are 8 GPUs', '3 does not divide 8; 2 does'),
        ('7 33 --search --gpus 8 --dp 8', 'a global batch of 33 cannot be divided over 8 data-parallel ranks', '40 can'),
        ('7 32 --search --gpus 8 --ep 2', 'expert_parallel is 2, but the model has no experts', 'leave it out'),
        ('7 32 --expert-tensor-parallel 3 --gpus 8', 'expert_tensor_parallel is 3, but the model has no experts', 'leave it out'),
        ('7 32 --fp 8', 'no such option: --fp', 'did you mean --fp8-weights?'),
        ('7 32 --seq-len 8', 'no such option: --seq-len', 'did you mean --sequence-length?'),
        ('7 32 --global-batch-size 8', 'no such option: --global-batch-size', 'did you mean --batch?'),
        ('7 32 --num-gpus 8', 'no such option: --num-gpus', 'did you mean --gpus?'),
        ('7 32 --model', "option '--model' requires an argument", ''),
        ('7 32 --gpus', "option '--gpus' requires an argument", ''),
        ('7 32 --gpus 8 --strategy data_parallel --tp 4', 'strategy data_parallel, but tensor_parallel is 4', 'strategy: hybrid has both'),
        ('7 32 --gpus 8 --strategy tensor_parallel --tp 1', 'strategy tensor_parallel, but tensor_parallel is 1', 'leave tensor_parallel out, or say'),
        ('7 32 --strategy tensor_parallel', 'strategy tensor_parallel on one GPU divides nothing', 'say how many: --gpus 8 (num_gpus: 8)'),
        ('7 32 --strategy pipeline_parallel --gpus 2 --tp 2', 'strategy pipeline_parallel, but the other degrees leave no GPU', 'strategy: hybrid'),
        ('7 32 --strategy pipeline_parallel --gpus 8 --pp 1', 'strategy pipeline_parallel, but pipeline_parallel is 1', 'leave pipeline_parallel out, or say'),
        ('7 32 --gpus 8 --strategy fsdp --zero-stage 1', 'strategy fsdp is zero_stage 3, not 1', 'say one of the two'),
        ('7 32 --gpus 8 --strategy zero2 --zero-stage 3', 'strategy zero2 is zero_stage 2, not 3', 'say one of the two'),
        ('7 32 --gpus 8 --strategy hybrid --shard-size 4 --zero-stage 0', 'sharding groups, but zero_stage 0 shards nothing', 'zero_stage: 3, or leave shard_size out'),
        ('7 32 --schedule gpipe', 'schedule is gpipe, but there is one pipeline stage', 'pipeline_parallel: 2, or leave it out'),
        ('7 32 --sequence-parallel', 'sequence_parallel divides what tensor_parallel leaves whole, and tensor_parallel is 1', 'tensor_parallel: 2, or leave it out'),
        ('cnn 0.03 64 --tokens 1e9', '--tokens: a cnn reads no tokens', 'steps (--train-steps) say how long'),
        ('7 32 --search --gpus 1 --micro-batch 5', 'micro_batch 5 does not divide the 32 samples of a rank', '4 does'),
        ('7 32 --etp 2', 'expert_tensor_parallel is 2, but the model has no experts', 'leave it out'),
        ('moe 47 64 --gpus 8 --etp 3', '8 ranks of a stage cannot be divided by expert_tensor_parallel x expert_parallel 3 x 1', 'expert_tensor_parallel 2 can'),
        ('moe 47 64 --gpus 8 --tp 4 --ep 4 --etp 2', 'expert_parallel is 4, but only 2 data-parallel and context-parallel ranks hold experts', '2 divides them'),
        ('7 32 --config empty.yaml', 'empty.yaml: no settings of a plan', 'it has the sections model, run'),
        ('7 32 --gpus 7', 'a global batch of 32 cannot be divided over 7 data-parallel ranks', '35 can'),
        ('transformer_encoder 0.34 32 --sequence-length 4096', '--sequence-length: 4096 tokens, but the model has a table of 512 positions', 'at most 512'),
        ('7 32 --gpus 1000000', 'a global batch of 32 cannot be divided over 1000000 data-parallel ranks', '1000000 can'),
        ('7 32 --model gpt2 --script notrain.py', 'a size and --model: two models', 'leave one of them out'),
        ('7 32 --etp 3 --gpus 8', 'expert_tensor_parallel is 3, but the model has no experts', 'leave it out'),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said", "hint"), LINES, ids=[line for line, _, _ in LINES])
def test_a_wrong_line_is_one_error_with_the_nearest_choice(
    capsys: pytest.CaptureFixture[str], line: str, said: str, hint: str
) -> None:
    assert main(["plan", *shlex.split(line)]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "Traceback" not in seen.err
    error, *advice = seen.err.strip().split("\n")
    assert error.startswith("preflight: error: ")
    assert said in error
    assert hint in "".join(advice)
    assert len(advice) <= 1


@pytest.mark.parametrize(
    "line",
    [
        "2000 8 --gpus 1 --gpu h100",
        "405 8 --gpus 2 --strategy fsdp --gpu h100",
        "7 32 --gpus 2 --gpu-memory 1 --strategy fsdp",
    ],
)
def test_what_just_does_not_fit_is_an_answer(capsys: pytest.CaptureFixture[str], line: str) -> None:
    assert main(["plan", *line.split()]) == 1
    seen = capsys.readouterr()
    assert "does not fit" in seen.out
    assert seen.err == ""


YAML = [
    ("model: {size_billions: 7X}", "plan.yaml:1: model.size_billions is '7X', which is not a number", "for example 7"),
    ("model: {size_billions: 7}\nrun: {torch: 2.10}", "plan.yaml:2: run.torch", "in quotes"),
    ("model: {size_billions: 7}\nrun: {torch: newest}", "plan.yaml:2: 'newest' is no version of PyTorch", "2.11"),
    ("model: {size_billions: true}", "plan.yaml:1: model.size_billions is true, which is not a number", "for example"),
    ("model: {size_billions: 7, batch_size: 2.5}", "model.batch_size is 2.5, which is not a whole number", "2 is"),
    ("model: {size_billions: 7, batch_size: {a: 1}}", "model.batch_size holds one value", "for example batch_size: 8"),
    ("model: {type: 7}", "plan.yaml:1: model.type is 7, which is not a name", "one of transformer"),
    ("model: {size_billions: 7}\ncluster: {num_gpus: -8}", "plan.yaml:2: cluster.num_gpus is -8, which is too small", "at least 1"),
    ("model: {size_billions: 7}\ncluster: [8]", "plan.yaml:2: cluster holds no keys", "known: num_gpus"),
    ("model: {size_billions: 7}\nrun: {precison: bf16}", "plan.yaml:2: unknown key of run 'precison'", "did you mean precision?"),
    ("model: {size_billions: 7}\nrun: {deterministic: 1}", "plan.yaml:2: run.deterministic is 1, which is not true or false", "true or false"),
    ("model: {size_billions: 7}\nrun: {checkpoint_stepps: 60}", "unknown key of run 'checkpoint_stepps'", "did you mean checkpoint_steps"),
    ("model: {size_billions: 7}\ncluster: {num_gpus: 8, host_memory: little}", "plan.yaml:2: cluster.host_memory is 'little'", "for example"),
    ("model: {size_billions: 7}\nrun: {expert_capacity: 1.25}", "plan.yaml:2: expert_capacity, but the model has no experts", "leave it out"),
    ("model: {name: mixtral-8x7b}\nrun: {expert_imbalance: 0.5}", "plan.yaml:2: run.expert_imbalance is 0.5, which is too small", "at least 1"),
    ("model: {size_billions: 7}\nrun: {fp8_weights: true}", "plan.yaml:2: weights of 8 bits, but precision is bf16", "precision: fp8"),
    ("model: {size_billions: 7}\ndistribution: {strategy: fsdp, zero_stage: 1}\ncluster: {num_gpus: 8}", "strategy fsdp is zero_stage 3, not 1", "say one"),
    ("model: {size_billions: 7}\nanalysis: {basic_mode: 'yes'}", "analysis.basic_mode is 'yes', which is not true or false", "without quotes"),
    ("model: {size_billions: 7}\nhardware: {gpu_type: H100}\nhardware: {gpu_type: A100}", "plan.yaml:3: hardware is there twice", "line 2"),
    ("just some text", "plan.yaml: no settings of a plan", "sections model"),
    ("model:\n\tsize_billions: 7", "plan.yaml:2:1: not YAML", "a file looks like"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said", "hint"), YAML, ids=[text.replace("\n", "; ") for text, _, _ in YAML])
def test_a_wrong_file_names_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, said: str, hint: str
) -> None:
    (tmp_path / "plan.yaml").write_text(text + "\n")
    assert main(["plan", "--config", "plan.yaml"]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    error, *advice = seen.err.strip().split("\n")
    assert said in error
    assert hint in "".join([error, *advice])
