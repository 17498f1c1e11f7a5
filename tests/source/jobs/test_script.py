"""What a job script starts, with what, on how many nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.errors import InputError
from preflight.source.jobs.resources import directives, options_of, resources
from preflight.source.jobs.script import Start, is_job_script, read_job
from preflight.source.launcher import parse_launch


def _started(tmp_path: Path, text: str, *arguments: str, **files: str) -> Start:
    job = tmp_path / "job.sh"
    job.write_text(text)
    for name, content in files.items():
        (tmp_path / f"{name}.sh").write_text(content)
    (start,) = read_job(str(job), arguments).starts
    return start


@pytest.mark.parametrize(
    ("lines", "nodes", "tasks", "gpus", "gpu"),
    [
        (["-N 4", "--ntasks-per-node=8", "--gres=gpu:8"], 4, 8, 8, None),
        (["--nodes=2", "--gpus-per-node=a100:4"], 2, 1, 4, "a100"),
        (["--nodes 2", "-G 16"], 2, 1, 8, None),
        (["-n 16", "--ntasks-per-node 8", "--gpus-per-task=1"], 2, 8, 8, None),
        (["--nodes=1-3", "--gres=gpu:h100:2,lustre"], 3, 1, 2, "h100"),
        (["--gres=gpu", "-C a100&80gb"], 1, 1, 1, "a100&80gb"),
        (["-N2", "-n8"], 2, 4, None, None),
        (["--time=10"], 1, 1, None, None),
    ],
)
def test_resources(lines: list[str], nodes: int, tasks: int, gpus: int | None, gpu: str | None) -> None:
    options, late = directives("#!/bin/bash\n" + "".join(f"#SBATCH {line}  # said so\n" for line in lines) + "srun x\n")
    have = resources(options)
    assert (have.nodes, have.tasks_per_node, have.gpus_per_node, have.gpu) == (nodes, tasks, gpus, gpu)
    assert not late


def test_options_below_the_first_command_are_not_read() -> None:
    options, late = directives(
        "#!/bin/sh\n# a comment\n\n#SBATCH -N 2\nmodule load cuda\n#SBATCH -N 4\n##SBATCH -N 8\n"
    )
    assert options == {"nodes": "2"}
    assert [(one.line, one.text) for one in late] == [(6, "#SBATCH -N 4")]


def test_options_of_a_command_line() -> None:
    words = ["--exclusive", "-N", "4", "--time=1:00", "-p", "gpu", "job.sh", "-x"]
    assert options_of(words) == ({"exclusive": "", "nodes": "4", "time": "1:00", "partition": "gpu"}, 6)


def test_srun_takes_its_numbers_from_the_job(tmp_path: Path) -> None:
    start = _started(
        tmp_path, "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks-per-node 4\nsrun -l python -u train.py --lr 1\n"
    )
    assert start.launch == "srun --nodes=2 --ntasks-per-node=4 python -u train.py --lr 1"
    assert parse_launch(start.launch).world_size == 8
    assert (start.line, start.through_srun) == (4, True)


def test_a_launcher_in_pieces(tmp_path: Path) -> None:
    text = """#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gres=gpu:8
GPUS=${SLURM_GPUS_ON_NODE:-1}
MASTER=$(hostname)
export LAUNCHER="python -u -m torch.distributed.run \\
    --nproc_per_node $GPUS --nnodes $SLURM_NNODES \\
    --rdzv_endpoint $MASTER:6000 "
ARGS=( --layers 24
       --save "$SAVE/ckpt" )
cd code
srun --jobid $SLURM_JOBID bash -c "$LAUNCHER --node_rank \\$SLURM_PROCID pretrain.py ${ARGS[*]} --bf16" 2>&1 | tee log
"""
    start = _started(tmp_path, text)
    assert start.script == "pretrain.py"
    assert start.folder == "code"
    assert start.arguments == ("--layers", "24", "--bf16")
    assert "--save" in start.unknown
    assert parse_launch(start.launch).world_size == 32


def test_scripts_that_call_scripts(tmp_path: Path) -> None:
    start = _started(
        tmp_path, "#!/bin/bash\n#SBATCH -N 2\nsource env.sh\nsrun bash inner.sh 8 tiny\n",
        env="WIDTH=64\n", inner='torchrun --nnodes 2 --nproc-per-node $1 train.py --width $WIDTH "${@:2}"\n',
    )  # fmt: skip
    assert start.arguments == ("--width", "64", "tiny")
    assert start.path.endswith("inner.sh")
    assert parse_launch(start.launch).world_size == 16


@pytest.mark.parametrize(
    "line",
    [
        "timeout 2h python train.py",
        "singularity exec --nv image.sif python train.py",
        "conda run -n env --no-capture-output python train.py",
        "CUDA_VISIBLE_DEVICES=0 nohup python train.py > out.txt 2>&1 &",
        "if [ -f x ]; then python train.py; fi",
        "time uv run train.py",
        "python $ROOT/train.py",
        "for lr in 1 2; do python train.py; done",
        "(python train.py)",
        "python train.py && echo done || exit 1",
    ],
)
def test_what_stands_around_a_command(tmp_path: Path, line: str) -> None:
    assert _started(tmp_path, f"#!/bin/bash\n{line}\n").script == "train.py"


@pytest.mark.parametrize(
    "line",
    [
        "echo python train.py",
        "# python train.py",
        "pip install x.py",
        "python -c 'train.py'",
        "cat <<E\npython train.py\nE",
    ],
)
def test_what_starts_nothing(tmp_path: Path, line: str) -> None:
    job = tmp_path / "job.sh"
    job.write_text(f"#!/bin/bash\n{line}\n")
    assert read_job(str(job)).starts == ()


@pytest.mark.parametrize(
    ("words", "given", "made"),
    [
        ('"$@"', (), []),
        ('"${@}" --x "$@"', (), ["--x"]),
        ('"${NONE[@]}"', (), []),
        ('"$@"', ("1", "two words", ""), ["1", "two words", ""]),
        ('""', (), [""]),
        ("''", (), [""]),
        ('"$*"', (), [""]),
        ('"a$@"', (), ["a"]),
    ],
)
def test_no_arguments_are_no_words(tmp_path: Path, words: str, given: tuple[str, ...], made: list[str]) -> None:
    (start,) = read_job(_written(tmp_path, f"#!/bin/bash\nNONE=()\npython train.py {words}\n"), given).starts
    assert list(start.words[2:]) == made


def _written(folder: Path, text: str) -> str:
    job = folder / "job.sh"
    job.write_text(text)
    return str(job)


def test_arguments_of_the_job_name_the_script(tmp_path: Path) -> None:
    start = _started(
        tmp_path, '#!/bin/bash\nsrun torchrun --nproc_per_node=$SLURM_GPUS_PER_NODE "$@"\n', "train.py", "--lr", "1"
    )
    assert (start.script, start.arguments) == ("train.py", ("--lr", "1"))
    assert start.unknown == ("--nproc_per_node=...",)


def test_scripts_that_call_each_other_end(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("bash b.sh\npython train.py\n")
    (tmp_path / "b.sh").write_text("bash a.sh\n")
    assert {start.script for start in read_job(str(tmp_path / "a.sh")).starts} == {"train.py"}


def test_options_of_a_script_are_not_those_of_its_shell(tmp_path: Path) -> None:
    start = _started(
        tmp_path, "bash inner.sh -g 8 -c tiny\n", inner="torchrun --nproc-per-node $2 train.py --name $4\n"
    )
    assert (parse_launch(start.launch).world_size, start.arguments) == (8, ("--name", "tiny"))


def test_a_command_in_one_word_is_evaluated(tmp_path: Path) -> None:
    start = _started(tmp_path, 'COMMAND="torchrun --nproc-per-node 8 train.py"\neval "$COMMAND"\n')
    assert (start.script, parse_launch(start.launch).world_size) == ("train.py", 8)


def test_a_number_that_only_the_job_knows_is_that_of_its_gpus(tmp_path: Path) -> None:
    text = (
        "#SBATCH --gres=gpu:4\npython -u -m torch.distributed.run --nproc_per_node $(nvidia-smi -L | wc -l) train.py\n"
    )
    assert parse_launch(_started(tmp_path, "#!/bin/bash\n" + text).launch).world_size == 4
    unknown = _started(tmp_path, "torchrun --nproc_per_node=$N train.py\n")
    assert parse_launch(unknown.launch).world_size is None


HOSTILE = {
    "blank lines before the end of a document": "cat <<EOF\n" + "\n" * 50_000,
    "a value that doubles": "A=aaaaaaaa\n" + "A=$A$A\n" * 60 + "python train.py\n",
    "an array that doubles": "A=(a b c d)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 40,
    "a number that grows": "A=9\n" + "A=$((A*A))\n" * 40,
    "a sum of many": "A=$((" + "1+" * 5000 + "1))\n",
    "brackets": "A=$((" + "(" * 3000 + "1" + ")" * 3000 + "))\n",
    "odd numbers": "echo ${00} ${9999999999999} ${A[99999999999]}\nshift ²\nshift -1\n#SBATCH -N ²\n",
    "scripts that call themselves": "bash job.sh\n" * 100 + "source job.sh\n" * 100,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_scripts_end(text: str, tmp_path: Path) -> None:
    job = tmp_path / "job.sh"
    job.write_text(text)
    assert len(read_job(str(job)).starts) <= 1


def test_called_scripts_that_cannot_be_read_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "installer.sh").write_bytes(b"#" * 2_000_000)
    assert _started(tmp_path, "bash installer.sh -b\npython train.py\n").script == "train.py"


def test_what_is_a_job_script(tmp_path: Path) -> None:
    (tmp_path / "submit").write_text("#!/usr/bin/env bash\n")
    (tmp_path / "train").write_text("#!/usr/bin/env python\n")
    assert is_job_script(str(tmp_path / "submit"))
    assert is_job_script("anything.slurm")
    assert not is_job_script(str(tmp_path / "train"))
    assert not is_job_script("train.py")
    with pytest.raises(InputError, match="cannot be read"):
        read_job(str(tmp_path / "gone.sh"))
