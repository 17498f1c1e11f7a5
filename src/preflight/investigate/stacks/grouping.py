"""Groups the stacks of all ranks: most wait in the same call, and whoever does something else is looked at first.

``votes_of_stacks(stacks, groups=...)`` returns a ``StackEvidence``: the groups, the largest first, ranks outside the dominant one, what
they have in common, and ``ranks``: reasons with weights, as natural logarithms of likelihood ratios, like those of the
Flight Recorder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from preflight.investigate.flight.frames import is_own, own_frame, written
from preflight.investigate.rank_evidence import RankEvidence, evidence_of, ranks_written
from preflight.vocabulary.incident import Quote, Reason
from preflight.vocabulary.log import Frame, LogFile, Stack

# A rank that does not communicate while most do: 0.8 against 0.05.
NOT_COMMUNICATING = 2.8
# A rank in another call than most: 0.4 against 0.1; more of them share it.
ELSEWHERE = 1.4
# A rank outside of the backward pass while most are in it: they compute there, or wait for the gradients of others, which a stack
# of Python's frames does not tell apart.
OUT_OF_BACKWARD = 2.2
# A rank that alone printed where it stands, in no call of others: whoever had it print so may have done so on any rank.
ALONE = 1.8
WITH_MOST = -0.7
# So many ranks of all have to do the same before the others are outliers.
DOMINANT = 0.5

# Names of functions in which a rank waits for others; of torch, of NCCL and of what runs them.
_WAITING = frozenset(
    """all_reduce all_gather all_gather_into_tensor _all_gather_base reduce_scatter reduce_scatter_tensor _reduce_scatter_base broadcast
    reduce gather scatter all_to_all all_to_all_single barrier monitored_barrier send recv isend irecv batch_isend_irecv all_gather_object
    broadcast_object_list gather_object scatter_object_list synchronize wait wait_tensor item _wait_for_computation
    ncclAllReduce ncclAllGather ncclReduceScatter ncclBroadcast ncclGroupEnd ncclSend ncclRecv cudaStreamSynchronize cudaEventSynchronize
    cudaDeviceSynchronize cuStreamSynchronize cuEventSynchronize _sync_params_and_buffers allreduce allgather reducescatter
    _verify_param_shape_across_processes init_process_group new_group _store_based_barrier rendezvous""".split()
)
_WAITING_PATHS = (
    "distributed_c10d",
    "torch/cuda/",
    "libnccl",
    "libcuda",
    "c10d",
    "gloo",
    "torch/distributed/",
    "torch/_ops",
    "functional",
)


class StackGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Processes whose main threads do the same.

    Attributes:
        ranks: Their ranks; ``names`` has all of them, also those whose rank is not known.
        names: As a person would call them: ``rank 3``, ``pid 12``, a path.
        frames: The stack of the first one, innermost first.
        place: Where in the program.
        communicating: It waits in a call that others take part in, or for a device.
        backward: It is in the backward pass, where gradients are reduced without a frame that says so.
    """

    ranks: tuple[int, ...]
    names: tuple[str, ...]
    frames: tuple[Frame, ...]
    place: str
    communicating: bool
    backward: bool = False


class StackEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What all stacks say together."""

    groups: tuple[StackGroup, ...] = ()
    dominant: StackGroup | None = None
    outliers: tuple[StackGroup, ...] = ()
    shared: tuple[str, ...] = ()
    ranks: tuple[RankEvidence, ...] = ()
    text: str | None = None


def votes_of_stacks(
    stacks: Sequence[Stack], *, groups: Mapping[str, Sequence[int]] | None = None, files: Iterable[LogFile] = ()
) -> StackEvidence:
    """Group the main threads of the processes and say who does otherwise than most.

    Args:
        stacks: Of all ranks, all threads.
        groups: Process groups and their members, to say what the outliers have in common.
        files: Of the reading, for quotes.
    """
    mains = main_threads(stacks)
    found = _grouped(mains)
    total = sum(len(group.names) for group in found)
    if not found or total < 2:
        return StackEvidence(groups=found)
    first = _dominant(found, total)
    if first is None:
        return StackEvidence(groups=found, text=_undecided(found))
    outliers = tuple(group for group in found if group is not first)
    reasons = _reasons(first, outliers, mains, {file.index: file.path for file in files})
    outside = tuple(sorted(rank for group in outliers for rank in group.ranks))
    return StackEvidence(
        groups=found,
        dominant=first,
        outliers=outliers,
        shared=_shared(outside, groups or {}, mains),
        ranks=evidence_of(reasons),
        text=_text(first, outliers, total),
    )


def votes_of_one(stacks: Sequence[Stack], *, files: Iterable[LogFile] = ()) -> StackEvidence:
    """Say where the one process stands of which there are stacks, and that it is the one where it takes part in no call of others."""
    mains = main_threads(stacks)
    found = _grouped(mains)
    if len(found) != 1 or found[0].communicating or found[0].backward or not found[0].ranks:
        return StackEvidence(groups=found)
    only, stack = found[0], mains[found[0].names[0]]
    path = {file.index: file.path for file in files}.get(stack.file) if stack.file is not None else None
    text = f"it is in {only.place} and in no collective, by the last stack that it printed; no other rank printed any"
    quotes = (Quote(path, 0, only.place),) if path else ()
    reasons = {only.ranks[0]: [Reason(text=text, weight=ALONE, quotes=quotes)]}
    return StackEvidence(groups=found, ranks=evidence_of(reasons), text=f"{_names(only)} in {only.place}")


def _dominant(found: Sequence[StackGroup], total: int) -> StackGroup | None:
    """Return what most do: the same, or waiting for others, wherever in the program each of them does; so may the backward pass."""
    if len(found[0].names) >= max(2, DOMINANT * total):
        return found[0]
    waiting = [group for group in found if group.communicating or group.backward]
    if waiting == list(found) or sum(len(group.names) for group in waiting) < DOMINANT * total:
        return None
    return next((group for group in waiting if group.communicating), waiting[0])


def main_threads(stacks: Iterable[Stack]) -> dict[str, Stack]:
    """Return what the main thread of each process does, by the name of the process: the marked one, else the first; the last dump counts.

    While a main thread waits for autograd, the hooks of the backward pass run on a thread of autograd's own: where that waits in a
    collective, the process does.
    """
    chosen: dict[str, Stack] = {}
    working: dict[str, Stack] = {}
    for stack in stacks:
        name = named(stack)
        if not stack.main and communicates(stack.frames):
            working[name] = stack
        before = chosen.get(name)
        if stack.frames and (before is None or stack.main or not before.main):
            if before is not None and not stack.main:
                continue
            chosen[name] = stack
    for name, stack in working.items():
        main = chosen.get(name)
        if main is not None and main is not stack and _in_backward(main.frames):
            chosen[name] = msgspec.structs.replace(main, frames=(*stack.frames, *main.frames))
    return chosen


def _in_backward(frames: Sequence[Frame]) -> bool:
    """Tell whether a stack waits for the backward pass: the innermost frame of Python's is autograd's."""
    inner = next((frame for frame in frames if frame.path.endswith(".py")), None)
    return inner is not None and "torch/autograd/" in inner.path.replace("\\", "/")


def named(stack: Stack) -> str:
    """Return what a person would call the process of a stack."""
    who = stack.who
    if who.rank is not None:
        return f"rank {who.rank}"
    if who.pid is not None:
        return f"pid {who.pid}" + (f" on {who.node}" if who.node else "")
    return f"file {stack.file}" if stack.file is not None else "a process"


def _grouped(mains: Mapping[str, Stack]) -> tuple[StackGroup, ...]:
    by_key: dict[tuple[tuple[str, str, int | None], ...], list[str]] = {}
    for name, stack in mains.items():
        by_key.setdefault(tuple(map(_normal, stack.frames)), []).append(name)
    groups = [_group(names, mains) for names in by_key.values()]
    return tuple(sorted(groups, key=lambda group: (-len(group.names), group.names)))


def _normal(frame: Frame) -> tuple[str, str, int | None]:
    """Return a frame without what differs between machines and moments: folders, lines within libraries, addresses."""
    path = frame.path.replace("\\", "/")
    for part in ("/site-packages/", "/dist-packages/"):
        path = path.rpartition(part)[2]
    short = "/".join(path.split("/")[-2:])
    own = is_own(frame)
    function = "0x" if frame.function.startswith("0x") else frame.function
    return short, function, frame.line if own else None


def _group(names: list[str], mains: Mapping[str, Stack]) -> StackGroup:
    stack = mains[names[0]]
    ranks = [mains[name].who.rank for name in names]
    return StackGroup(
        ranks=tuple(sorted(rank for rank in ranks if rank is not None)),
        names=tuple(names),
        frames=stack.frames,
        place=written(own_frame(stack.frames) or stack.frames[0]),
        communicating=communicates(stack.frames),
        backward=_in_backward(stack.frames),
    )


def communicates(frames: Sequence[Frame]) -> bool:
    """Tell whether a stack waits in a call that others take part in: above the person's own innermost frame stands one."""
    for frame in frames:
        if is_own(frame):
            return False
        function = frame.function.rpartition(".")[2].rpartition("::")[2].partition("(")[0]
        if function in _WAITING and any(part in frame.path.replace("\\", "/") for part in _WAITING_PATHS):
            return True
        if function.startswith(("nccl", "cudaStream", "cudaEvent", "cudaDeviceSync")) or "c10d::" in frame.function:
            return True
    return False


def _reasons(
    first: StackGroup, outliers: Sequence[StackGroup], mains: Mapping[str, Stack], paths: Mapping[int, str]
) -> dict[int, list[Reason]]:
    reasons: dict[int, list[Reason]] = {}
    waiting = (first.communicating or first.backward) and len(first.names) < DOMINANT * sum(
        len(one.names) for one in (first, *outliers)
    )
    # Who waits elsewhere waits all the same, where no place holds most.
    others = [group for group in outliers if not (waiting and (group.communicating or group.backward))]
    count = sum(len(group.names) for group in others)
    for group in others:
        for rank in group.ranks:
            stack = mains[f"rank {rank}"]
            path = paths.get(stack.file) if stack.file is not None else None
            quotes = (Quote(path, 0, group.place),) if path else ()
            if first.communicating and not group.communicating:
                text = f"it is in {group.place} and in no collective, while {len(first.names)} others wait in {first.place}"
                weight = NOT_COMMUNICATING / count**0.5
            elif first.backward and not group.backward:
                text = f"it is in {group.place} and not in the backward pass, while {len(first.names)} others are in it at {first.place}"
                weight = OUT_OF_BACKWARD / count**0.5
            else:
                text = f"it is in {group.place}, while {len(first.names)} others are in {first.place}"
                weight = ELSEWHERE / count**0.5
            reasons.setdefault(rank, []).append(Reason(text=text, weight=round(weight, 3), quotes=quotes))
    if outliers:
        for rank in first.ranks:
            text = f"it is where {len(first.names) - 1} others are: {first.place}"
            reasons.setdefault(rank, []).append(Reason(text=text, weight=WITH_MOST))
    return reasons


def _shared(ranks: Sequence[int], groups: Mapping[str, Sequence[int]], mains: Mapping[str, Stack]) -> tuple[str, ...]:
    """Say what the outliers have in common: a node, or the smallest process groups that hold them all."""
    if not ranks:
        return ()
    found = []
    nodes = {mains[f"rank {rank}"].who.node for rank in ranks}
    everywhere = {stack.who.node for stack in mains.values()}
    if len(nodes) == 1 and None not in nodes and len(everywhere) > 1:
        found.append(f"node {nodes.pop()}")
    holding = {
        name: members
        for name, members in groups.items()
        if set(ranks) <= set(members) and 2 * len(ranks) >= len(members)
    }
    smallest = min((len(members) for members in holding.values()), default=0)
    if len(ranks) > 1:
        found += [
            f"group {name} ({ranks_written(tuple(members))})"
            for name, members in sorted(holding.items())
            if len(members) == smallest
        ]
    return tuple(found)


def _text(first: StackGroup, outliers: Sequence[StackGroup], total: int) -> str:
    if not outliers:
        what = "wait in the same call" if first.communicating else "do the same"
        return f"all {total} {what}: {first.place}"
    parts = [f"{_names(group)} in {group.place}" for group in outliers[:3]]
    more = f", and {len(outliers) - 3} other groups" if len(outliers) > 3 else ""
    waits = "wait" if first.communicating else "are"
    return f"{len(first.names)} of {total} {waits} in {first.place}; {'; '.join(parts)}{more}"


def _names(group: StackGroup) -> str:
    if len(group.ranks) == len(group.names):
        return f"{ranks_written(group.ranks)} {'is' if len(group.ranks) == 1 else 'are'}"
    return f"{', '.join(group.names[:4])} {'is' if len(group.names) == 1 else 'are'}"


def _undecided(found: Sequence[StackGroup]) -> str:
    return (
        f"no place holds half of the ranks: {'; '.join(f'{len(group.names)} in {group.place}' for group in found[:3])}"
    )
