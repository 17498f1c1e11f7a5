"""What a launch line says about world size, script and arguments."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.errors import PreflightError, UsageError
from preflight.source.launcher import parse_launch

LINES = {
    "python train.py --lr 1e-3": ("python", 1, "train.py", ("--lr", "1e-3")),
    "python -u train.py": ("python", 1, "train.py", ()),
    "python3.11 -m torch.distributed.run --nproc_per_node=4 train.py": ("torchrun", 4, "train.py", ()),
    "python -m torch.distributed.launch --nproc_per_node 2 --use_env train.py a": ("torchrun", 2, "train.py", ("a",)),
    "torchrun train.py": ("torchrun", 1, "train.py", ()),
    "torchrun --standalone --nproc-per-node=8 train.py --batch 4": ("torchrun", 8, "train.py", ("--batch", "4")),
    "torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=h:1 train.py": (
        "torchrun",
        16,
        "train.py",
        (),
    ),
    "torchrun --nnodes 1:4 --nproc_per_node 8 train.py": ("torchrun", 32, "train.py", ()),
    "torchrun --nproc_per_node gpu train.py": ("torchrun", None, "train.py", ()),
    "torchrun --nproc_per_node 2 -m pkg.train --x": ("torchrun", 2, "pkg/train.py", ("--x",)),
    "accelerate launch --num_processes 8 train.py": ("accelerate", 8, "train.py", ()),
    "accelerate launch --multi_gpu --num_machines 2 --num_processes 16 train.py --a": (
        "accelerate",
        16,
        "train.py",
        ("--a",),
    ),
    "accelerate launch train.py": ("accelerate", None, "train.py", ()),
    "deepspeed --num_gpus 4 train.py --deepspeed ds.json": ("deepspeed", 4, "train.py", ("--deepspeed", "ds.json")),
    "deepspeed --num_nodes 2 --num_gpus=8 train.py": ("deepspeed", 16, "train.py", ()),
    "deepspeed --include localhost:0,1,3 train.py": ("deepspeed", 3, "train.py", ()),
    "srun --nodes=2 --ntasks-per-node=4 python train.py": ("slurm", 8, "train.py", ()),
    "srun -N 2 --ntasks-per-node 4 torchrun --nnodes 2 --nproc_per_node 8 train.py": ("torchrun", 16, "train.py", ()),
    "srun -n 8 python train.py": ("slurm", 8, "train.py", ()),
    "srun -N2 -n16 python train.py --lr 1": ("slurm", 16, "train.py", ("--lr", "1")),
    "srun -N2 --ntasks-per-node=8 python train.py": ("slurm", 16, "train.py", ()),
    "srun -n8 ./train.py": ("slurm", 8, "./train.py", ()),
    "srun --ntasks 16 --ntasks-per-node 8 python train.py": ("slurm", 16, "train.py", ()),
    "srun --nodes=2 --gpus=16 python train.py": ("slurm", 16, "train.py", ()),
    "mpirun -np 16 -npernode 8 python train.py": ("mpi", 16, "train.py", ()),
    "mpirun -np 16 -N 8 python train.py": ("mpi", 16, "train.py", ()),
    "mpirun -np 4 python train.py -x 1": ("mpi", 4, "train.py", ("-x", "1")),
    "uv run torchrun --nproc_per_node 2 train.py": ("torchrun", 2, "train.py", ()),
    "./train.py --fast": ("python", 1, "./train.py", ("--fast",)),
}


@pytest.mark.parametrize("line", LINES)
def test_launch_lines(line: str) -> None:
    launch = parse_launch(line)
    assert (launch.framework, launch.world_size, launch.script, launch.arguments) == LINES[line]


def test_assignments_in_front_belong_to_the_environment() -> None:
    launch = parse_launch("CUDA_VISIBLE_DEVICES=0,1 OMP_NUM_THREADS=4 torchrun --nproc_per_node 2 train.py")
    assert launch.environment == {"CUDA_VISIBLE_DEVICES": "0,1", "OMP_NUM_THREADS": "4"}
    variables = launch.variables()
    assert variables["WORLD_SIZE"] == "2"
    assert variables["RANK"] is None
    assert variables["OMP_NUM_THREADS"] == "4"
    assert "WORLD_SIZE" not in parse_launch("python train.py").variables()


@pytest.mark.parametrize(
    "line", ["", "   ", "torchrun 'unclosed", "tochrun train.py", "torchrun --nproc_per_node many train.py", "A=1"]
)
def test_lines_that_cannot_be_read(line: str) -> None:
    with pytest.raises(UsageError):
        parse_launch(line)


@given(
    st.lists(
        st.sampled_from(
            [
                "torchrun",
                "python",
                "-m",
                "srun",
                "mpirun",
                "uv",
                "run",
                "accelerate",
                "launch",
                "--",
                "-n",
                "2",
                "--nnodes",
                "0",
                "=",
                "--",
                "a.py",
                "'",
            ]
        )
    ).map(" ".join)
)
def test_any_line_is_read_or_refused(line: str) -> None:
    with contextlib.suppress(PreflightError):
        assert parse_launch(line).world_size != 0
