"""Reading runs on a cluster gives what reading them here gives, also when a machine is lost meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from preflight.errors import UsageError
from preflight.monitor.learn import spread
from preflight.monitor.learn.infer import infer

from .recorded import training

ON_A_CLUSTER = """\
import json, sys, time
import ray
from ray.cluster_utils import Cluster
from preflight.monitor.learn import infer

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
second = cluster.add_node(num_cpus=1)
ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
nodes = [sum(node["Alive"] for node in ray.nodes())]
busy = []


def tell(done, of):
    # The first part is done; the second machine has one in hand, or is about to.
    if done == 1:
        busy.append(of)
        cluster.remove_node(second, allow_graceful=False)


learnt = infer.infer(sys.argv[2:], engine="ray", tell=tell)
deadline = time.monotonic() + 60
while sum(node["Alive"] for node in ray.nodes()) > 1 and time.monotonic() < deadline:
    time.sleep(0.2)
nodes.append(sum(node["Alive"] for node in ray.nodes()))
with open(sys.argv[1], "w") as out:
    json.dump({"nodes": nodes, "parts": busy[0], "learnt": repr(learnt)}, out)
ray.shutdown()
cluster.shutdown()
"""


@pytest.mark.ray
@pytest.mark.slow
def test_a_machine_that_is_lost_changes_nothing(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray has no build for this Python")
    folders = [training(tmp_path / f"run{seed}", seed, world=3, iterations=60, apart_at=50) for seed in range(3)]
    script = tmp_path / "on_a_cluster.py"
    script.write_text(ON_A_CLUSTER)
    source = Path(__file__).parents[3] / "src"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])}
    environment |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    out = tmp_path / "out.json"
    command = [sys.executable, str(script), str(out), *map(str, folders)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(out.read_text())
    assert told["nodes"] == [2, 1]
    assert told["parts"] == 3 * 4
    here = infer(folders)
    assert told["learnt"] == repr(here)
    assert here.invariants
    assert here.broken["replicas-equal"] == 3 * 10


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="ray is not installed"):
        spread.reduce_all([])
