"""Changes of files: what is written, what is left as it was, and the way back."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import yaml

from preflight.catalog.remedy_files import load_remedies, load_remedy
from preflight.errors import InputError, UsageError
from preflight.investigate.applying.proposal import propose
from preflight.investigate.applying.reversal import Applied, read_record, record_of, record_path, taken_back

LAUNCH = """\
#!/bin/bash
#SBATCH --nodes=4
set -euo pipefail

# --micro-batch-size 99 is too much
export NCCL_SOCKET_IFNAME=ib9
srun python train.py --micro-batch-size 8 --lr=3e-4 \\
    --tensor-model-parallel-size 2
"""
TRAIN = '''\
"""Trains."""
from __future__ import annotations

import torch
from torch.utils.data import DataLoader, DistributedSampler

batch_size = 7
net = torch.nn.Linear(4, 4)
parser.add_argument("--lr", type=float, default=3e-4)


def main():
    torch.distributed.init_process_group("nccl")
    loader = DataLoader(data, batch_size=batch_size, sampler=DistributedSampler(data))
    for x in loader:
        loss = net(x).sum()  # größer
        loss.backward()
        optimizer.step()
'''
CONFIG = """\
# how we train
train:
  per_device_train_batch_size: 8   # fits 80 GB
  gradient_accumulation_steps: 1
  lr: 3e-4
  fp16: true
"""


def changed(remedy: str, path: str, text: str, value: str | None = None, **given: str) -> str:
    return propose(load_remedy(remedy), path, text, given, value).after


def test_a_variable_is_exported_behind_the_head_of_the_script() -> None:
    after = changed("print-nccl-warnings", "run.sh", LAUNCH)
    lines = after.splitlines()
    assert lines.index("export NCCL_DEBUG=WARN") > lines.index("set -euo pipefail")
    assert lines.index("export NCCL_DEBUG=WARN") < lines.index("export NCCL_SOCKET_IFNAME=ib9")
    assert after.replace("export NCCL_DEBUG=WARN\n", "") == LAUNCH
    assert changed("print-nccl-warnings", "run.sh", after) == after


def test_several_variables_share_one_import_in_a_program() -> None:
    after = changed("record-collectives", "train.py", '"""Train."""\nimport torch\n')
    assert after.count("import os\n") == 1
    assert after.count("os.environ[") == 2
    assert after.index("os.environ[") < after.index("import torch")


def test_a_change_of_another_kind_of_file_is_not_missing_where_one_was_made() -> None:
    text = "loss = net(x).sum()\nloss.backward()\noptimizer.step()\n"
    made = propose(load_remedy("clip-gradients"), "train.py", text, {"model": "net"})
    assert (len(made.made), made.missing) == (1, ())
    none = propose(load_remedy("clip-gradients"), "train.py", "y = net(x)\n", {"model": "net"})
    assert none.missing == none.left != ()


def test_a_variable_that_is_set_is_replaced_and_can_be_removed() -> None:
    assert "NCCL_SOCKET_IFNAME=bond0\n" in changed("set-nccl-interface", "run.sbatch", LAUNCH, "bond0")
    gone = changed("unset-nccl-interface", "run.sh", LAUNCH)
    assert "NCCL_SOCKET_IFNAME" not in gone
    assert "'a b'" in changed("set-nccl-interface", "run.sh", LAUNCH, "a b")
    with pytest.raises(UsageError, match="line break"):
        changed("set-nccl-interface", "run.sh", LAUNCH, "x\nrm -rf y")


def test_a_flag_is_halved_where_it_is_used_and_not_in_a_comment() -> None:
    after = changed("reduce-batch", "run.sh", LAUNCH)
    assert "train.py --micro-batch-size 4 --lr" in after
    assert "# --micro-batch-size 99" in after
    assert "--lr=0.00015 " in changed("lower-learning-rate", "run.sh", LAUNCH)


def test_keys_of_a_configuration_change_and_the_rest_stays_as_written() -> None:
    proposal = propose(load_remedy("reduce-batch"), "c.yaml", CONFIG, {})
    assert proposal.after == CONFIG.replace("size: 8 ", "size: 4 ").replace("steps: 1", "steps: 2")
    assert len(proposal.made) == 2
    assert yaml.safe_load(changed("lower-learning-rate", "c.yml", CONFIG))["train"]["lr"] == 0.00015
    both = yaml.safe_load(changed("bfloat16-instead", "c.yaml", CONFIG))
    assert both == {**yaml.safe_load(CONFIG), "bf16": True, "train": {**yaml.safe_load(CONFIG)["train"], "fp16": False}}


def test_json_stays_json_and_toml_toml() -> None:
    text = json.dumps({"args": {"fp16": True, "learning_rate": 0.001, "name": "x"}}, indent=2)
    after = json.loads(changed("bfloat16-instead", "c.json", text))
    assert after == {"bf16": True, "args": {"fp16": False, "learning_rate": 0.001, "name": "x"}}
    assert json.loads(changed("lower-learning-rate", "c.json", text))["args"]["learning_rate"] == 0.0005
    assert json.loads(changed("bfloat16-instead", "c.json", '{"fp16": true}')) == {"bf16": True, "fp16": False}
    assert changed("reduce-batch", "c.toml", "[a]\nbatch_size = 8 # x\n") == "[a]\nbatch_size = 4 # x\n"


def test_python_keywords_statements_and_defaults() -> None:
    after = changed("clip-gradients", "t.py", TRAIN, model="net")
    assert "        loss.backward()\n        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n" in after
    with pytest.raises(UsageError, match="no variable is called 'model'"):
        changed("clip-gradients", "t.py", TRAIN)
    timeout = changed("raise-collective-timeout", "t.py", TRAIN)
    assert 'init_process_group("nccl", timeout=datetime.timedelta(minutes=30))' in timeout
    assert "import datetime\n" in timeout
    assert timeout.index("import datetime") > timeout.index("from torch.utils.data")
    assert "drop_last=True" in changed("even-data", "t.py", TRAIN)
    assert "batch_size = 3\n" in changed("reduce-batch", "t.py", TRAIN)
    assert "default=0.00015" in changed("lower-learning-rate", "t.py", TRAIN)
    bound = changed("one-process-per-device", "t.py", TRAIN)
    assert '    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n    torch.distributed.init' in bound
    assert bound.count("import torch\n") == 1
    early = changed("locate-failing-kernel", "t.py", TRAIN)
    assert early.index("CUDA_LAUNCH_BLOCKING") < early.index("import torch")
    assert early.index("CUDA_LAUNCH_BLOCKING") > early.index("__future__")


@pytest.mark.parametrize("remedy", [one for one in load_remedies() if one.changes], ids=lambda one: one.id)
def test_every_change_leaves_files_that_can_be_read_and_the_way_back_leads_back(remedy) -> None:  # type: ignore[no-untyped-def]
    for path, text in (("run.sh", LAUNCH), ("c.yaml", CONFIG), ("t.py", TRAIN)):
        proposal = propose(remedy, path, text, {"model": "net"})
        assert bool(proposal.made) == (proposal.after != text)
        assert len(proposal.made) + len(proposal.left) == len(remedy.changes)
        if path == "t.py":
            ast.parse(proposal.after)
        elif path == "c.yaml":
            assert isinstance(yaml.safe_load(proposal.after), dict)
        applied = json.loads(record_of(proposal))
        assert taken_back(Applied(**{**applied, "made": tuple(applied["made"])}), proposal.after) == text


def test_a_file_that_cannot_be_parsed_or_is_of_no_known_kind_is_refused() -> None:
    remedy = load_remedy("reduce-batch")
    with pytest.raises(InputError, match=r"c\.yaml:2"):
        propose(remedy, "c.yaml", "a: [1\n", {})
    with pytest.raises(InputError, match="is not Python"):
        propose(remedy, "t.py", "def (", {})
    with pytest.raises(UsageError, match="not known how"):
        propose(remedy, "notes.txt", "batch_size: 8", {})
    with pytest.raises(UsageError, match="not a change of a file"):
        propose(load_remedy("drain-node"), "run.sh", LAUNCH, {})


def test_what_was_changed_beside_it_since_stays(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    proposal = propose(load_remedy("print-nccl-warnings"), str(path), LAUNCH, {})
    record = Path(record_path(str(path), proposal.remedy))
    record.parent.mkdir(parents=True)
    record.write_text(record_of(proposal))
    applied = read_record(str(path), proposal.remedy)
    later = proposal.after.replace("--lr=3e-4", "--lr=1e-4")
    assert taken_back(applied, later) == LAUNCH.replace("--lr=3e-4", "--lr=1e-4")
    with pytest.raises(InputError, match="changed again"):
        taken_back(applied, proposal.after.replace("NCCL_DEBUG=WARN", "NCCL_DEBUG=INFO"))
    with pytest.raises(InputError, match="was not applied"):
        read_record(str(path), "reduce-batch")


@pytest.mark.parametrize(
    ("remedy", "there"),
    [
        ("clip-gradients", "        nn.utils.clip_grad_norm_(net.parameters(), 5.0)\n"),
        ("clip-gradients", "        net.clip_grad_norm_(1.0)\n"),
        ("one-process-per-device", "        torch.cuda.set_device(rank % 8)\n"),
        ("tensor-float-32", "        torch.set_float32_matmul_precision('medium')\n"),
    ],
)
def test_a_call_that_is_made_already_is_not_made_twice(remedy: str, there: str) -> None:
    text = TRAIN.replace("        optimizer.step()\n", f"{there}        optimizer.step()\n")
    proposal = propose(load_remedy(remedy), "train.py", text, {"model": "net"}, None)
    assert proposal.after == text
    assert any("is called already, in line 18" in why for why in proposal.left)
    assert propose(load_remedy(remedy), "train.py", TRAIN, {"model": "net"}, None).after != TRAIN
