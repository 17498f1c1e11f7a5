from __future__ import annotations

import pytest

from preflight.source.dumps import environment_list
from preflight.source.dumps.opening import format_of, read_dump
from preflight.vocabulary.log import Environment, LogFile, Who

COLLECTED = """Collecting environment information...
PyTorch version: 2.4.0+cu121
Is debug build: False
CUDA used to build PyTorch: 12.1
Python version: 3.11.7 (64-bit runtime)
Is CUDA available: True
CUDA runtime version: 12.1.105
GPU models and configuration:
GPU 0: NVIDIA H100 80GB HBM3
GPU 1: NVIDIA H100 80GB HBM3
Nvidia driver version: 535.104.05
Versions of relevant libraries:
[pip3] numpy==1.26.4
[pip3] torch==2.4.0+cu121
"""
VARIABLES = "PATH=/usr/bin\nRANK=3\nLOCAL_RANK=1\nWORLD_SIZE=8\nHOSTNAME=n1\nHF_TOKEN=hf_abc\nNCCL_DEBUG=INFO\n"
FROZEN = "numpy==1.26.4\ntorch==2.4.0\nmine @ file:///job/mine\nclick==8.1.7\n"
LISTED = "Package    Version\n---------- -------\nnumpy      1.26.4\ntorch      2.4.0\nclick      8.1.7\n"


def environment_of(text: str) -> Environment:
    content = text.encode()
    assert format_of("x.txt", content) is environment_list
    part = read_dump(environment_list, content, LogFile(index=0, path="x.txt", kind="environment"))
    assert part.problem is None
    return part.environments[0]


def test_torch_s_report_tells_versions_cards_and_packages() -> None:
    values = environment_of(COLLECTED).values
    assert (values["torch"], values["driver"], values["gpu.1.name"]) == (
        "2.4.0+cu121",
        "535.104.05",
        "NVIDIA H100 80GB HBM3",
    )
    assert values["package.numpy"] == "1.26.4"


@pytest.mark.parametrize("separator", ["\n", "\0"])
def test_variables_tell_whose_they_are_and_no_secret(separator: str) -> None:
    environment = environment_of(VARIABLES.replace("\n", separator))
    assert environment.who == Who(rank=3, node="n1", local_rank=1)
    assert environment.values["env.NCCL_DEBUG"] == "INFO"
    assert environment.values["env.HF_TOKEN"] == "(left out)"


@pytest.mark.parametrize("text", [FROZEN, LISTED])
def test_packages_are_read(text: str) -> None:
    values = environment_of(text).values
    assert (values["package.numpy"], values["package.torch"]) == ("1.26.4", "2.4.0")


@pytest.mark.parametrize("text", ["step=1 loss=2\n" * 9, "a=1\nb=2\n", "loss==2\n", "x\n" * 9])
def test_logs_are_no_environment(text: str) -> None:
    assert format_of("x.txt", text.encode()) is not environment_list
