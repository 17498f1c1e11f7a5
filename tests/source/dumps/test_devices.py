from __future__ import annotations

import json
from types import ModuleType

import pytest

from preflight.source.dumps import dcgm, infiniband, nccl_ras, nvidia_smi
from preflight.source.dumps.opening import format_of, read_dump
from preflight.source.dumps.part import Part
from preflight.vocabulary.log import LogFile, Who

QUERY = """
==============NVSMI LOG==============

Timestamp                                 : Tue Sep 23 06:55:05 2025
Driver Version                            : 535.104.05
CUDA Version                              : 12.2

Attached GPUs                             : 2
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    GPU UUID                              : GPU-aa
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 5
            Link Width
                Max                       : 16x
                Current                   : 8x
    Clocks Throttle Reasons
        Idle                              : Not Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
    ECC Errors
        Volatile
            SRAM Correctable              : 3
            SRAM Uncorrectable            : 0
            DRAM Uncorrectable            : 2
        Aggregate
            DRAM Uncorrectable            : 2
    Remapped Rows
        Correctable Error                 : 1
        Uncorrectable Error               : 2
        Pending                           : Yes
        Remapping Failure Occurred        : No
    Processes
        GPU instance ID                   : N/A
            Process ID                    : 4711
            Name                          : python
        Process ID                        : 4712
GPU 00000000:4E:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    ECC Errors
        Volatile
            DRAM Uncorrectable            : 0
    Processes                             : None
"""
TABLE = """+-----------------------------------------------------------------------------+
| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2     |
|-------------------------------+----------------------+----------------------+
|   0  NVIDIA A100-SXM4-80GB          On  | 00000000:07:00.0 Off |                    0 |
| N/A   31C    P0              62W / 400W |      4MiB / 81920MiB |      0%      Default |
|   1  NVIDIA A100-SXM4-80GB          On  | 00000000:0F:00.0 Off |                   17 |
| N/A   ERR!   P0              62W / 400W |      4MiB / 81920MiB |      0%      Default |
+-----------------------------------------------------------------------------+
| Processes:                                                                            |
|    0   N/A  N/A      4711      C   /usr/bin/python3                          71000MiB |
|    0   N/A  N/A      4712      C   /usr/bin/python3                          71000MiB |
"""
TOPOLOGY = """\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV18\tPXB\t0-47\t0
GPU1\tNV18\t X \tSYS\t48-95\t1
NIC0\tPXB\tSYS\t X

NIC Legend:

  NIC0: mlx5_0
"""
IBSTAT = """CA 'mlx5_0'
\tCA type: MT4129
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
CA 'mlx5_1'
\tPort 1:
\t\tState: Down
\t\tPhysical state: Polling
\t\tRate: 40
CA 'mlx5_2'
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 200
CA 'mlx5_3'
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
"""
PERFQUERY = """# Port counters: Lid 7 port 1 (CapMask: 0x5300)
PortSelect:......................1
SymbolErrorCounter:..............65535
LinkErrorRecoveryCounter:........0
LinkDownedCounter:...............4
PortRcvErrors:...................0
PortXmitData:....................4294967295
"""
RAS = """NCCL version 2.24.3 compiled with CUDA 12.6
CUDA runtime version 12060, driver version 12070

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (2.05s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4       7-8        32        32   RUNNING  INCOMPLETE

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 21

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 64
  Rank 7 has launched up to operation 60 -- GPU 3 managed by process 1650386 on node node1
"""
DIAGNOSIS = {
    "DCGM GPU Diagnostic": {
        "test_categories": [
            {"category": "Hardware", "tests": [
                {"name": "GPU Memory", "results": [{"gpu_ids": "0", "status": "PASS"}, {"gpu_ids": "3", "status": "FAIL", "warnings": ["bad row"]}]},
                {"name": "PCIe", "results": [{"gpu_id": "1", "status": "Warn", "warnings": [{"error_id": 1, "warning": "slow"}]}]},
            ]},
        ]
    }
}  # fmt: skip


def part_of(module: ModuleType, text: str, name: str = "out.txt") -> Part:
    content = text.encode()
    assert format_of(name, content) is module
    part = read_dump(module, content, LogFile(index=0, path=name, kind=module.KIND, who=Who(node="n1")))
    assert part.problem is None
    return part


def test_the_full_query_tells_cards_processes_and_what_is_wrong() -> None:
    part = part_of(nvidia_smi, QUERY)
    (environment,) = part.environments
    values = environment.values
    assert (values["driver"], values["gpu.0.bus"], values["gpu.1.bus"]) == (
        "535.104.05",
        "0000:1b:00.0",
        "0000:4e:00.0",
    )
    assert values["gpu.0.pids"] == "4711,4712"
    assert "gpu.1.pids" not in values
    assert {event.device for event in part.events} == {"0000:1b:00.0"}
    assert [(event.kind, event.fatal) for event in part.events] == [
        ("pcie-degraded", False),
        ("throttle", False),
        ("throttle", False),
        ("ecc", True),
        ("ecc", False),
        ("remap", False),
    ]
    assert part.first_time is not None


def test_a_card_that_wants_a_reset_is_told() -> None:
    text = QUERY.replace(
        "    PCI\n", "    GPU Reset Status\n        Reset Required                    : Yes\n    PCI\n"
    )
    assert ("gpu-error", True) in [(event.kind, event.fatal) for event in part_of(nvidia_smi, text).events]


OLD_QUERY = """
==============NVSMI LOG==============

Timestamp                           : Tue Sep 23 06:55:05 2025
Driver Version                      : 418.87.01
Attached GPUs                       : 1
GPU 00000000:06:00.0
    Product Name                    : Tesla V100-SXM2-32GB
    ECC Errors
        Volatile
            Single Bit
                Device Memory       : 4
                Total               : 4
            Double Bit
                Device Memory       : {recent}
                Total               : {recent}
        Aggregate
            Double Bit
                Device Memory       : {ever}
                Total               : {ever}
    Retired Pages
        Double Bit ECC              : {ever}
        Pending Page Blacklist      : {pending}
"""


@pytest.mark.parametrize(
    ("recent", "ever", "pending", "told"),
    [
        (0, 0, "No", []),
        (0, 1, "No", [("ecc", False)]),
        (2, 3, "Yes", [("ecc", True), ("ecc", False), ("remap", False)]),
    ],
)
def test_errors_of_two_bits_are_those_that_could_not_be_corrected(
    recent: int, ever: int, pending: str, told: list[tuple[str, bool]]
) -> None:
    part = part_of(nvidia_smi, OLD_QUERY.format(recent=recent, ever=ever, pending=pending))
    assert [(event.kind, event.fatal) for event in part.events] == told


def test_the_table_tells_cards_processes_and_errors() -> None:
    part = part_of(nvidia_smi, TABLE)
    assert part.environments[0].values["gpu.0.pids"] == "4711,4712"
    assert [(event.kind, event.device) for event in part.events] == [
        ("ecc", "0000:0f:00.0"),
        ("gpu-error", "0000:0f:00.0"),
    ]


def test_the_topology_tells_what_connects_each_pair() -> None:
    (environment,) = part_of(nvidia_smi, TOPOLOGY).environments
    assert environment.source == "topology"
    assert environment.values["GPU0.GPU1"] == "NV18"
    assert environment.values["GPU1.NIC0"] == "SYS"
    assert environment.values["NIC0"] == "mlx5_0"


def test_a_card_that_cannot_be_reached_is_told() -> None:
    part = part_of(
        nvidia_smi,
        "Unable to determine the device handle for GPU 0000:B3:00.0: GPU is lost.  Reboot the system to recover this GPU\n",
    )
    assert [(event.kind, event.device, event.fatal) for event in part.events] == [
        ("fallen-off-the-bus", "0000:b3:00.0", True)
    ]


def test_ports_that_are_down_or_slower_than_the_others_are_told() -> None:
    part = part_of(infiniband, IBSTAT)
    assert [(event.kind, event.device) for event in part.events] == [
        ("link-down", "mlx5_1 port 1"),
        ("link-slow", "mlx5_2 port 1"),
    ]


def test_counters_that_should_be_zero_are_told() -> None:
    part = part_of(infiniband, PERFQUERY)
    assert [(event.values["counter"], event.values["count"]) for event in part.events] == [
        ("SymbolErrorCounter", 65535),
        ("LinkDownedCounter", 4),
    ]


def test_ras_names_who_is_dead_missing_and_behind() -> None:
    part = part_of(nccl_ras, RAS)
    dead, missing, behind = part.events
    assert (dead.kind, dead.node, dead.pid, dead.device, dead.fatal) == (
        "ras-dead",
        "172.16.64.213",
        3487984,
        "gpu 5",
        True,
    )
    assert (missing.kind, missing.values["rank"]) == ("ras-incomplete", 21)
    assert (behind.kind, behind.values["rank"], behind.values["operation"], behind.values["others"]) == (
        "ras-mismatch",
        7,
        60,
        64,
    )
    assert part.world_size == 32
    assert part.flights[0].enqueued == {"27a079b828ff1a75": 60}


def test_a_diagnosis_tells_what_failed() -> None:
    failed, warned = part_of(dcgm, json.dumps(DIAGNOSIS)).events
    assert (failed.device, failed.fatal, failed.values["said"]) == ("gpu 3", True, "bad row")
    assert (warned.device, warned.fatal, warned.values["said"]) == ("gpu 1", False, "slow")


@pytest.mark.parametrize("module", [dcgm, infiniband, nccl_ras, nvidia_smi])
@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\x00" * 50, b"{", b"GPU 00000000:1B:00.0\n  :\n", b"CA '", RAS.encode()[:700], QUERY.encode()[:900]],
)
def test_bad_input_is_named_and_breaks_nothing(module: ModuleType, content: bytes) -> None:
    part = read_dump(module, content, LogFile(index=0, path="x", kind="device"))
    assert part.problem is None or "not readable" not in part.problem
