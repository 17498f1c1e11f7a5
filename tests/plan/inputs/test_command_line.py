from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from preflight.cli.main import main

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "plan"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["plan", *words])
    seen = capsys.readouterr()
    return status, seen.out, seen.err


def report(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    status, out, err = run(capsys, *words, "--format", "json")
    assert status in (0, 1, 3), err
    found: dict[str, Any] = json.loads(out)
    return found


LINES = """
transformer 7.0 32 --gpu-type "NVIDIA H100"
transformer 7.0 16 --sequence-length 8192 --gpu-type "NVIDIA H100"
transformer 70.0 16 --gpus 8 --strategy tensor_parallel
transformer 13.0 32 --sequence-length 2048 --bottlenecks --verbose
transformer 13.0 32 --sequence-length 4096 --gpu-type "NVIDIA H100"
transformer 13.0 32 --sequence-length 4096 --gpu-type "NVIDIA H100" --bottlenecks
13.0 32 --sequence-length 4096 --gpus 4 --strategy data_parallel --bottlenecks
transformer 13.0 32 --sequence-length 4096 --gpus 4 --strategy tensor_parallel --bottlenecks
transformer 7.0 32
transformer 7.0 32 --gpus 4 --strategy data_parallel
transformer 175.0 16 --gpus 8 --strategy pipeline_parallel
transformer 7.0 16 --sequence-length 8192 --bottlenecks
"""


@pytest.mark.parametrize("line", LINES.strip().splitlines())
def test_the_lines_of_the_readme_of_planning_are_answered(capsys: pytest.CaptureFixture[str], line: str) -> None:
    import shlex

    found = report(capsys, *shlex.split(line))
    assert found["command"] == "plan"
    assert found["memory"]["peak_bytes"]["mid"] > 0
    assert found["step"]["seconds"]["mid"] > 0


def test_a_first_word_that_is_no_subcommand_is_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    with_type = report(capsys, "transformer", "7.0", "32", "--gpus", "4")
    without = report(capsys, "--gpus", "4", "7.0", "32")
    assert with_type["memory"] == without["memory"]


@pytest.mark.parametrize("ending", ["json", "csv", "txt", "html", "md"])
def test_the_format_follows_the_ending(capsys: pytest.CaptureFixture[str], tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"results.{ending}"
    status, out, _ = run(capsys, "7", "8", "--gpus", "8", "--output", str(target))
    assert status in (0, 1)
    assert out == ""
    text = target.read_text(encoding="utf-8")
    assert text.strip()
    if ending == "json":
        assert json.loads(text)["schema"] == "preflight.report/1"


def test_the_line_wins_over_the_file_and_the_file_over_the_project(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.preflight]\ngpu = "A100 40GB"\ngpus = 2\n')
    (tmp_path / "plan.yaml").write_text("model: {size_billions: 1.0, batch_size: 8}\ncluster: {num_gpus: 4}\n")
    monkeypatch.chdir(tmp_path)
    alone = report(capsys, "1.0", "8")["inputs"]
    assert (alone["gpu"], alone["gpus"]) == ("a100_40gb_sxm", 2)
    filed = report(capsys, "--config", "plan.yaml")["inputs"]
    assert (filed["gpu"], filed["gpus"]) == ("a100_40gb_sxm", 4)
    lined = report(capsys, "--config", "plan.yaml", "--gpus", "8", "--gpu", "h200", "--batch", "16")["inputs"]
    assert (lined["gpu"], lined["gpus"], lined["batch"]) == ("h200", 8, 16)


def test_a_model_of_the_line_replaces_that_of_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("model: {name: gpt2, batch_size: 8}\nrun: {precision: fp16}\n")
    assert report(capsys, "--config", str(file), "--model", "llama-3-8b")["inputs"]["model"] == "llama-3-8b"
    sized = report(capsys, "--config", str(file), "1.5", "4")
    assert sized["inputs"]["model"] == "1.5B decoder"
    assert sized["inputs"]["batch"] == 4
    assert sized["plan"]["chosen"]["run"]["precision"] == "fp16"


@pytest.mark.parametrize("size", [400_000_000_000, 500_000_000_000])
def test_a_user_catalog_is_looked_up_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    # Twice, in two projects whose folders have one name: what was read of the first must not answer for the second.
    (tmp_path / "pyproject.toml").write_text('[tool.preflight]\ncatalog = ["mine"]\n')
    gpus = tmp_path / "mine" / "gpus"
    gpus.mkdir(parents=True)
    (gpus / "big_one.toml").write_text(
        f'title = "Big One"\nvendor = "nvidia"\nmemory_bytes = {size}\nsold_as_gb = 400\nbandwidth_gb_per_s = 8000\n'
        'architecture = "hopper"\nsources = ["ours"]\n[peak_tflops]\nbf16 = 1000\nfp32 = 60\n'
    )
    monkeypatch.chdir(tmp_path)
    found = report(capsys, "7", "8", "--gpu", "big_one")
    assert found["memory"]["capacity_bytes"] == size


def test_help_shows_its_groups_at_eighty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--help")
    assert status == 0
    assert out.startswith("Usage: preflight plan [OPTIONS] [[MODEL_TYPE] SIZE_BILLIONS | MODEL] [BATCH]")
    for group in ("Model:", "Run:", "Cluster:", "Spreading:", "Analysis:", "Output:"):
        assert f"\n{group}\n" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_model_a_script_or_a_file_stands_in_place_of_a_size(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def model(*line: str) -> Any:
        chosen = report(capsys, *line)["plan"]["chosen"]
        return chosen["run"]["global_batch"], chosen["memory"]

    assert model("gpt2", "8") == model("--model", "gpt2", "8")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2}))
    assert model(str(tmp_path), "8") == model("--model", str(tmp_path / "config.json"), "8")
    (tmp_path / "plan.yaml").write_text("model: {name: gpt2, batch_size: 8}\n")
    assert model(str(tmp_path / "plan.yaml")) == model("--model", "gpt2", "8")
    script = str(Path(__file__).parents[3] / "examples" / "good_model.py")
    assert model(script) == model("--script", script)


@pytest.mark.parametrize(
    ("line", "micro", "batch"),
    [
        ("7 64 --gpus 4 --accumulate 4", 4, 64),
        ("7 --gpus 4 --accumulate 4 --micro-batch 2", 2, 32),
        ("7 64 --gpus 4 --accumulate 8 --micro-batch 2", 2, 64),
        ("7 64 --gpus 4", 16, 64),
        ("7 64 --gpus 4 --pp 4", 1, 64),
    ],
)
def test_the_passes_of_a_step(capsys: pytest.CaptureFixture[str], line: str, micro: int, batch: int) -> None:
    found = report(capsys, *line.split())["plan"]
    assert (found["chosen"]["run"]["micro_batch"], found["chosen"]["run"]["global_batch"]) == (micro, batch)
    assert any("in a forward pass of a GPU" in said for said in found["assumptions"]) == ("--acc" not in line)


def test_memory_alone_says_nothing_of_time(capsys: pytest.CaptureFixture[str]) -> None:
    found = report(capsys, "7", "8", "--basic")
    assert "step" not in found
    assert found["plan"]["duration"] is None


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("", "no model: a plan needs a size in billions, a name, a config.json or an architecture", "--model llama-3-8b"),
        ("transfomer 7 32", "no model and no type of models is called 'transfomer'", "did you mean transformer?"),
        ("lama-3-8b 32", "no model and no type of models is called 'lama-3-8b'", "did you mean llama-3-8b?"),
        ("gpt2 --model llama-3-8b", "gpt2 and --model llama-3-8b: two subjects", "leave one of them out"),
        ("nothere.py", "nothere.py", None),
        ("gpt2 7 8", "a size and --model: two models", "leave one of them out"),
        ("transformer", "transformer of which size?", "preflight plan transformer 7.0 32"),
        ("7 32 5", "3 numbers", "preflight plan transformer 7.0 32"),
        ("7 eight", "'eight' is not a number", "a size in billions"),
        ("-7 32", "-7 is negative", None),
        ("7 32 -- --lr 3", "arguments of a script, and no script", "--script train.py"),
        ("--script nothere.py", "nothere.py", None),
        ("0 32", "SIZE_BILLIONS is '0', which is too small", "more than 0"),
        ("7 0", "BATCH is '0', which is too small", "at least 1"),
        ("7 2.5", "BATCH is '2.5', which is not a whole number", "2 is"),
        ("nan 8", "SIZE_BILLIONS is 'nan', which is not a number", None),
        ("9999 8", "SIZE_BILLIONS: a model of 9999 billion parameters", "at most 2000"),
        ("7 8 --batch 4", "--batch and '8' both say the batch", "say it once"),
        ("7 8 --model gpt2", "a size and --model: two models", "leave one of them out"),
        ("--model lama-3-8b", "--model: unknown model 'lama-3-8b'", "did you mean"),
        ("--model nothere.json", "nothere.json is not there", "config.json"),
        ("7 8 --gpu h1000", "--gpu: unknown GPU 'h1000'", "did you mean 'h100"),
        ("7 8 --gpus 0", "--gpus is '0', which is too small", "at least 1"),
        ("7 8 --gpus eight", "--gpus is 'eight', which is not a whole number", None),
        ("7 8 --strategy tensor", "--strategy: no strategy is called 'tensor'", "did you mean tensor_parallel?"),
        ("7 8 --precision bf61", "--precision is 'bf61', which there is not", "did you mean"),
        ("7 8 --optimizer adamx", "--optimizer: no optimizer is called 'adamx'", "did you mean"),
        ("7 8 --recompute partial", "--recompute is 'partial', which there is not", "one of none, full"),
        ("7 8 --recompute full:99", "--recompute: 99 blocks are to be recomputed, but the model has 32", "at most 32"),
        ("7 8 --gpus 8 --strategy tensor_parallel --tp 3", "tensor 3 x pipeline 1 x context 1 x data", None),
        ("7 8 --gpus 6 --tp 6", "32 attention heads cannot be divided by tensor_parallel 6", "2 divides them"),
        ("7 64 --gpus 64 --tp 64", "tensor_parallel is 64, but the model has 32 attention heads", "at most 32"),
        ("7 64 --gpus 64 --pp 64", "pipeline_parallel is 64, but the model has 32 layers", "at most 32"),
        ("7 6 --gpus 4", "a global batch of 6 cannot be divided over 4 data-parallel ranks", "8 can"),
        ("7 8 --gpus 8 --nodes 3", "--nodes: 8 GPUs cannot be dealt out over 3 nodes", "2 can"),
        ("7 8 --gpus 8 --nodes 2 --gpus-per-node 8", "--gpus: 2 nodes of 8 GPUs are 16 GPUs, not 8", "num_gpus: 16"),
        ("7 13 --gpus 13", "--gpus: 13 GPUs do not fill nodes of 8", "8 or 16 do"),
        ("7 8 --gpus 8 --interconnect ib_ndr", "--interconnect: InfiniBand NDR", "inter_node: ib_ndr"),
        ("7 8 --gpus 8 --inter-node nvlink_4", "--inter-node: NVLink 4", "ib_ndr"),
        ("7 8 --gpus 8 --interconnect nvlnk4", "--interconnect: unknown link 'nvlnk4'", "did you mean"),
        ("7 8 --ep 2 --gpus 2", "expert_parallel is 2, but the model has no experts", "leave it out"),
        ("7 8 --tokens 1e9 --train-steps 5", "tokens (--tokens) and steps are both given", "say one"),
        ("--model gpt2 8 --sequence-length 4096", "has a table of 1024 positions", "at most 1024"),
        ("7 64 --gpus 4 --accumulate 4 --micro-batch 2", "4 forward passes of 2 samples on 4 data-parallel ranks are 32 samples, not 64", "a batch of 32"),
        ("cnn 0.03 8 --recompute full:2", "but the model has no blocks that are known", "full"),
        ("7 8 --zero-stage 4", "--zero-stage is '4', which is too large", "at most 3"),
        ("7 8 --micro-bacth 2", "no such option: --micro-bacth", "did you mean --micro-batch?"),
        ("--config nothere.yaml", "nothere.yaml is not there", None),
        ("vision_transformer 0.3 8 --image-size 225", "patches of 16 pixels do not fill 225 pixels", "224 can"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_error(
    capsys: pytest.CaptureFixture[str], line: str, message: str, hint: str | None
) -> None:
    status, out, err = run(capsys, *line.split())
    assert (status, out) == (2, "")
    first, *rest = err.splitlines()
    assert first.startswith("preflight: error: ")
    assert message in first
    if hint is not None:
        assert hint in "\n".join(rest)


def test_a_model_larger_than_the_cluster_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "175", "16", "--gpus", "8", "--strategy", "pipeline_parallel")
    assert status == 1
    assert "does not fit" in out


def test_what_lies_beside_a_model_is_in_its_memory(capsys: pytest.CaptureFixture[str]) -> None:
    line = "--model dit-xl-2 --batch 8 --gpu a100-80gb --precision autocast-fp16".split()
    plain, averaged = report(capsys, *line), report(capsys, *line, "--ema", "--frozen-beside", "84e6")
    added = averaged["memory"]["breakdown"]["model_parameters"] - plain["memory"]["breakdown"]["model_parameters"]
    parameters = plain["memory"]["breakdown"]["model_parameters"] / 4
    assert added == pytest.approx(4 * (parameters + 84e6), rel=1e-3)


def test_compiling_a_network_that_is_counted_says_that_it_is_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    line = "--model dit-xl-2 --batch 8 --gpu a100-80gb --stack".split()
    eager, compiled = report(capsys, *line, "eager"), report(capsys, *line, "compile")
    assert compiled["step"]["seconds"] == eager["step"]["seconds"]
    assert any("not compiled" in said and "torch.compile" in said for said in compiled["plan"]["assumptions"])
    assert not any("torch.compile" in said for said in eager["plan"]["assumptions"])
