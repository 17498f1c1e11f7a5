"""A job script in place of a training script: its launch, its GPU, and what in it does not belong together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command_line import HEALTHY, run

from preflight.check.notices import load_notices

NET = HEALTHY
PARALLEL = (
    "import torch\nimport torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel\n"
    "dist.init_process_group('nccl')\n"
) + HEALTHY.replace("optimizer =", "model = DistributedDataParallel(model.cuda())\noptimizer =", 1)


def _codes(tmp_path: Path, job: str, capsys: pytest.CaptureFixture[str], script: str = PARALLEL) -> list[str]:
    report = _report(tmp_path, job, capsys, script)
    return [finding["code"] for finding in report["findings"] if finding["code"].startswith("JOB")]


def _report(tmp_path: Path, job: str, capsys: pytest.CaptureFixture[str], script: str, *more: str) -> dict[str, Any]:
    (tmp_path / "train.py").write_text(script)
    (tmp_path / "job.sh").write_text(job)
    run("check", tmp_path / "job.sh", "--format", "json", *more)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    "notice", [one for one in load_notices() if one.rule.code.startswith("JOB")], ids=lambda one: one.rule.code
)
def test_examples_of_the_pages(notice: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from importlib import import_module

    module = import_module(notice.module)
    for text in module.BAD:
        assert notice.rule.code in _codes(tmp_path, text, capsys)
    for text in module.GOOD:
        assert _codes(tmp_path, text, capsys) == []


HEAD = "#!/bin/bash\n#SBATCH --nodes={nodes}\n#SBATCH --ntasks-per-node={tasks}\n#SBATCH --gres=gpu:{gpus}\n"


@pytest.mark.parametrize(
    ("nodes", "tasks", "gpus", "line", "codes"),
    [
        (2, 8, 8, "srun python train.py", []),
        (2, 1, 8, "srun torchrun --nnodes 2 --nproc-per-node 8 train.py", []),
        (2, 1, 8, "srun torchrun --nnodes $SLURM_NNODES --nproc-per-node gpu train.py", []),
        (1, 8, 8, "torchrun --nproc-per-node 8 train.py", []),
        (2, 8, 8, "srun --ntasks-per-node=1 torchrun --nnodes 2 --nproc-per-node 8 train.py", []),
        (2, 8, 8, "srun --ntasks=2 accelerate launch --num_machines 2 --num_processes 16 train.py", []),
        (
            2,
            1,
            8,
            "for h in $(scontrol show hostnames); do ssh $h torchrun --nnodes 2 --nproc-per-node 8 train.py & done",
            [],
        ),
        (2, 1, 8, "mpirun -np 16 python train.py", []),
        (2, 4, 8, "srun python train.py", ["JOB003"]),
        (1, 8, 4, "srun python train.py", ["JOB003"]),
        (1, 1, 2, "python train.py", ["JOB003"]),
        (4, 1, 8, "accelerate launch --num_machines 4 --num_processes 32 train.py", ["JOB001"]),
        (2, 4, 4, "srun deepspeed --num_nodes 2 --num_gpus 4 train.py", ["JOB004"]),
    ],
)
def test_nodes_tasks_and_gpus(
    nodes: int, tasks: int, gpus: int, line: str, codes: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = HEAD.format(nodes=nodes, tasks=tasks, gpus=gpus) + line + "\n"
    assert _codes(tmp_path, text, capsys, NET if line == "python train.py" else PARALLEL) == codes


@pytest.mark.parametrize(
    "job",
    [
        "#SBATCH --ntasks=8\n#SBATCH --gpus-per-task=1\nsrun python train.py\n",
        "#SBATCH -N2 -n16\n#SBATCH --gpus-per-task=1\nsrun python train.py\n",
        "#SBATCH --nodes=2\n#SBATCH --gres=gpu:4\ndeepspeed --hostfile hosts train.py\n",
        "#SBATCH --nodes=2\nsrun ray start --address head --block &\npython train.py\n",
        "#SBATCH --nodes=2\nibrun python train.py\n",
        "#SBATCH --nodes=2\npython train.py --prepare\nsrun torchrun --nnodes 2 --nproc-per-node 4 -m installed.train\n",
        "#SBATCH --gres=gpu:8\nN=$(nvidia-smi -L | wc -l)\ntorchrun --nproc-per-node=$N train.py\n",
        "#SBATCH --gres=gpu:8\ntorchrun --nproc-per-node $((2*(2+2))) train.py\n",
        "#SBATCH --gres=gpu:8\nA=(--standalone --nproc-per-node 8)\nA+=(--log-dir x)\ntorchrun \"${A[@]}\" train.py\n",
        "#SBATCH --ntasks-per-node=8\n#SBATCH --gres=gpu:8\n"
        "srun --label --ntasks-per-node=1 torchrun --nproc-per-node 8 train.py\n",
        "#SBATCH --ntasks-per-node=8\n#SBATCH --gres=gpu:8\n"
        "srun -l -u --ntasks-per-node=1 bash -c 'NCCL_DEBUG=INFO torchrun --nproc-per-node 8 train.py'\n",
        "#SBATCH -N 2\n#SBATCH --ntasks-per-node=8\n#SBATCH --gres=gpu:8\n"
        "mpirun -np 2 --map-by ppr:1:node torchrun --nnodes 2 --nproc-per-node 8 train.py\n",
        "cat > child.sbatch <<EOF\n#SBATCH --nodes=4\nEOF\npython train.py\n",
    ],
)  # fmt: skip
def test_what_is_right_is_not_told(job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _codes(tmp_path, "#!/bin/bash\n" + job, capsys) == []


def test_one_process_may_use_several_gpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = NET.replace("optimizer =", "model = torch.nn.DataParallel(model.cuda())\noptimizer =", 1)
    assert _codes(tmp_path, HEAD.format(nodes=1, tasks=1, gpus=4) + "python train.py\n", capsys, script) == []


def test_a_script_without_a_scheduler_is_only_a_launch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = _report(tmp_path, "torchrun --nproc-per-node 4 train.py --lr 1\n", capsys, PARALLEL)
    assert report["facts"]["world_size"]["value"] == 4
    assert not [finding for finding in report["findings"] if finding["code"].startswith("JOB")]
    assert any("job.sh:1" in note for note in report["notes"])


def test_the_gpu_of_the_job_is_taken_unless_another_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = "#!/bin/bash\n#SBATCH --gres=gpu:a100:1\nsrun python train.py\n"
    assert _report(tmp_path, job, capsys, NET)["inputs"]["gpu"] == "a100_80gb_sxm"
    assert _report(tmp_path, job, capsys, NET, "--gpu", "h100")["inputs"]["gpu"] == "h100_sxm"
    unknown = job.replace("a100", "pascal")
    assert "gpu" not in _report(tmp_path, unknown, capsys, NET)["inputs"]


def test_the_training_is_found_among_other_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "prepare.py").write_text("print('data')\n")
    job = "#!/bin/bash\npython prepare.py\npython train.py --seed 1\npython train.py --seed 2\n"
    report = _report(tmp_path, job, capsys, NET)
    assert report["inputs"]["path"].endswith("train.py")
    assert report["inputs"]["arguments"] == ["--seed", "1"]
    assert any("2 other lines" in note for note in report["notes"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("job.sh", "train.py"), "other files are named"),
        (("job.sh", "--launch", "python train.py"), "so does --launch"),
        (("empty.sh",), "starts no Python program"),
        (("lost.sh",), "starts gone.py (lost.sh:1), which is not there"),
        (("nowhere.sh",), "nowhere.sh: no such file"),
    ],
)
def test_what_cannot_be_checked(
    arguments: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (
        ("train.py", NET),
        ("job.sh", "python train.py\n"),
        ("empty.sh", "hostname\n"),
        ("lost.sh", "python gone.py\n"),
    ):
        (tmp_path / name).write_text(text)
    assert run("check", *arguments) == 2
    assert said in capsys.readouterr().err
