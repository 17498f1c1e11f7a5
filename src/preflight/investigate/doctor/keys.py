"""What a difference of a value between ranks means: nothing, little, or that the run cannot go well."""

from __future__ import annotations

from typing import Literal

import msgspec

Weight = Literal["error", "warning", "info"]
Kind = Literal["same", "own", "amount", "counter"]


class Key(msgspec.Struct, frozen=True):
    """How values of some names are compared.

    Attributes:
        pattern: Names; ``*`` stands for anything.
        kind: ``same``: has to be the same everywhere; ``own``: everybody has another one, not compared;
            ``amount``: a number that differs a little everywhere, told where it is far from the others';
            ``counter``: counts something bad, told where it is above the others'.
        weight: How much a difference matters.
        reason: Why.
    """

    pattern: str
    kind: Kind
    weight: Weight = "warning"
    reason: str = ""


KEYS = (
    Key("host.name", "own"),
    Key("clock.unix", "own"),
    Key("clock.offset_s", "amount", "info", "times in the logs of this node are off by as much"),
    Key("gpu.*.uuid", "own"),
    Key("gpu.*.bus", "same", "info", "cards sit in other slots: their links may be others"),
    Key("gpu.*.temperature_c", "amount", "info", "a card that is hotter than the others lowers its clock"),
    Key("gpu.*.used_mib", "amount", "warning", "somebody else uses the card"),
    Key("gpu.*.throttle", "same", "warning", "a card that is held back makes all ranks wait"),
    Key("gpu.*.ecc_uncorrected", "counter", "error", "memory of this card has failed"),
    Key("gpu.topology", "same", "warning", "collectives take other paths on this node"),
    Key("gpu.count", "same", "error", "a card has fallen off the bus, or is hidden"),
    Key("gpu.*", "same", "warning", "cards that are set up differently run at different speeds"),
    Key("torch.devices", "same", "error", "a rank sees fewer cards than the others"),
    Key("torch.device.*", "same", "warning", "ranks run on different cards"),
    Key("torch.version", "same", "error", "ranks of different versions of torch do not understand each other"),
    Key("torch.nccl", "same", "error", "ranks of different versions of NCCL cannot form a communicator"),
    Key("nccl.loaded", "same", "error", "another libnccl is loaded than on the other ranks"),
    Key("torch.threads", "same", "info", "set by the launcher per rank"),
    Key("torch.*", "same", "warning", "ranks run different programs"),
    Key("package.*", "same", "warning", "ranks run different programs"),
    Key("python.version", "same", "warning", "ranks run different programs"),
    Key("python.*", "same", "info", "another installation"),
    Key("driver.version", "same", "warning", "nodes of different drivers: a frequent reason why one node alone fails"),
    Key("driver.problem", "same", "error", "the driver does not answer here"),
    Key("environment.RANK", "own"),
    Key("environment.LOCAL_RANK", "own"),
    Key("environment.GROUP_RANK", "own"),
    Key("environment.LOCAL_WORLD_SIZE", "same", "warning", "nodes have different numbers of ranks"),
    Key("environment.TORCHELASTIC_ERROR_FILE", "own"),
    Key("environment.CUDA_VISIBLE_DEVICES", "own"),
    Key("environment.WORLD_SIZE", "same", "error", "ranks do not agree on how many they are"),
    Key("environment.MASTER_*", "same", "error", "ranks do not agree on where they meet"),
    Key("environment.NCCL_DEBUG*", "same", "info", "only changes what is printed"),
    Key("environment.NCCL_SOCKET_IFNAME", "same", "warning", "right only where the nodes' interfaces have different names"),
    Key("environment.NCCL_IB_HCA", "same", "warning", "right only where the nodes' adapters have different names"),
    Key("environment.NCCL_*", "same", "error", "NCCL has to be set up in the same way on all ranks, or it hangs or is slow"),
    Key("environment.TORCH_NCCL_*", "same", "warning", "ranks give up at different times"),
    Key("environment.GLOO_*", "same", "warning", "gloo connects over other interfaces here"),
    Key("environment.*", "same", "warning", "ranks run with different settings"),
    Key("interface.*.megabit_per_s", "same", "warning", "a link came up at another speed"),
    Key("interface.*", "same", "warning", "connections over this interface differ from the other nodes'"),
    Key("infiniband.*.link_downed", "counter", "warning", "this link went down"),
    Key("infiniband.*.symbol_errors", "counter", "warning", "a cable or transceiver on its way out"),
    Key("infiniband.*.state", "same", "error", "a port of this node is not active"),
    Key("infiniband.*", "same", "warning", "a port that is set up differently"),
    Key("limit.memlock", "same", "error", "InfiniBand needs locked memory"),
    Key("limit.*", "same", "warning", "a limit that only some ranks run into"),
    Key("memory.available_bytes", "amount", "warning", "somebody else takes memory on this node"),
    Key("memory.group_limit_bytes", "same", "warning", "a limit that only some ranks run into"),
    Key("memory.total_bytes", "amount", "warning", "a memory module may have failed"),
    Key("shm.free_bytes", "amount", "warning", "left-overs in /dev/shm: loaders and NCCL need it"),
    Key("shm.total_bytes", "amount", "warning", "loaders and NCCL need room in /dev/shm"),
    Key("tmp.*", "amount", "info", "less room for temporary files"),
    Key("checkpoints.writable", "same", "error", "this rank cannot save"),
    Key("checkpoints.problem", "same", "error", "this rank cannot save"),
    Key("checkpoints.folder", "same", "warning", "ranks save to different folders"),
    Key("checkpoints.mount", "same", "error", "the folder is not the shared one here: checkpoints of this rank are lost"),
    Key("checkpoints.source", "same", "error", "the folder is not the shared one here: checkpoints of this rank are lost"),
    Key("checkpoints.file_system", "same", "error", "the folder is not the shared one here"),
    Key("checkpoints.write_seconds", "amount", "info", "storage is slower from here"),
    Key("checkpoints.*", "amount", "info", "another amount of room"),
    Key("host.governor", "same", "warning", "processors that save power start kernels late"),
    Key("host.processors_allowed", "same", "warning", "the process may use fewer processors than elsewhere"),
    Key("host.*", "same", "info", "another kind of machine"),
    Key("clock.synchronised", "same", "info", "times in the logs of this node cannot be relied on"),
    Key("clock.*", "same", "info", "times in the logs are shown in another zone"),
    Key("*.problem", "same", "warning", "this could not be looked at here"),
    Key("*", "same", "info", ""),
)  # fmt: skip
"""The first one whose pattern fits counts."""


def key_of(name: str) -> Key:
    """Return how a value is compared."""
    from fnmatch import fnmatchcase

    return next(key for key in KEYS if fnmatchcase(name, key.pattern))
