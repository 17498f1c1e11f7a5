"""Sizes of device meshes, as scripts write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.check.queries.meshes import size_of
from preflight.source.reading import read
from preflight.source.script import parse

START = "from torch.distributed.device_mesh import init_device_mesh\nfrom torch.distributed.tensor.parallel import parallelize_module\n"
MESHES = {
    'init_device_mesh("cuda", (8,))': 8,
    'init_device_mesh("cuda", (2, 4))': None,
    'init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "tp"))["tp"]': 4,
    'init_device_mesh("cuda", (ranks // 4, 4), mesh_dim_names=("dp", "tp"))["tp"]': 4,
    'init_device_mesh("cuda", (ranks // 4, 4), mesh_dim_names=("dp", "tp"))["dp"]': None,
    'init_device_mesh("cuda", mesh_shape=(2, 4)).get_group(1)': 4,
    'init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "tp"))["pp"]': None,
    "something()": None,
}


@pytest.mark.parametrize("mesh", MESHES)
def test_sizes_of_meshes(mesh: str) -> None:
    text = f"{START}parallelize_module(model, {mesh}, plan)\n"
    reading = read(parse(text.encode(), "train.py", Path("train.py")))
    event = reading.trace.calls("torch.distributed.tensor.parallel.parallelize_module")[0]
    assert size_of(event.args[1]) == MESHES[mesh]
