"""The numbers over a tensor's bits are taken inside programs: what they must leave alone, and where they are the same."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.monitor.collect.fingerprinted import KINDS, LENGTHS, filled  # noqa: E402

from preflight.monitor.collect import digest  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:Sparse invariant checks")]
SOURCE = Path(__file__).resolve().parents[3] / "src"


def test_nothing_is_computed_where_nothing_may_be() -> None:
    seen = []

    def inner(x: Any) -> Any:
        seen.append(digest.fingerprints([x]))
        return (x * x).sum()

    torch.func.grad(inner)(torch.ones(3))
    torch.func.vmap(inner)(torch.ones(2, 3))
    assert seen == [None, None]


def test_a_compiled_function_steps_over_it() -> None:
    def inner(x: Any) -> Any:
        assert digest.fingerprints([x]) is None
        return x * 2

    compiled = torch.compile(inner, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))


def test_the_modes_of_the_program_do_not_see_it() -> None:
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    calls: list[Any] = []

    class Dispatch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(func)
            return func(*args, **(kwargs or {}))

    class Function(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(func)
            return func(*args, **(kwargs or {}))

    tensors = [filled(kind, length, seed=5) for kind in KINDS for length in (3, 5000)]
    expected = digest.fingerprints(tensors).values(), repr(digest.norms(tensors).values())
    with Dispatch(), Function():
        inside = digest.fingerprints(tensors), digest.norms(tensors)
    assert calls == []
    assert (inside[0].values(), repr(inside[1].values())) == expected
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        tensors.append(torch.ones(3))
        inside = digest.fingerprints(tensors), digest.norms(tensors)
    assert (inside[0].values()[:-1], repr(inside[1].values()[:-1])) == expected
    assert digest.fingerprints(tensors).values() == inside[0].values()


def test_the_program_is_left_as_it_was() -> None:
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(300, 300))
    state = torch.get_rng_state()
    hidden = weight * 2
    versions = weight._version, hidden._version
    pending = [digest.fingerprints([weight, hidden]), digest.norms([weight, hidden]), digest.samples([hidden])]
    assert torch.is_grad_enabled()
    assert (weight._version, hidden._version) == versions
    assert torch.equal(torch.get_rng_state(), state)
    assert weight.grad is None
    hidden.sum().backward()
    assert weight.grad is not None
    gone = weakref.ref(hidden)
    storage = weakref.ref(hidden.untyped_storage())
    del hidden
    gc.collect()
    assert gone() is None
    assert storage() is None
    assert all(item.values()[0] is not None for item in pending)


def test_reading_while_a_graph_is_kept_does_not_break_backward() -> None:
    weight = torch.randn(50, 50, requires_grad=True)
    kept = weight.exp()
    digest.fingerprints([kept, kept.t(), weight])
    digest.norms([kept, kept.t(), weight])
    kept.sum().backward()
    assert torch.equal(weight.grad, weight.detach().exp())


SCRIPT = """
import sys
sys.path.insert(0, {source!r})
from preflight.monitor.collect import digest
assert "torch" not in sys.modules
assert digest.fingerprints([]) is None
import torch
torch.set_num_threads({threads})
tensors = [(torch.arange(n) * 2654435761).remainder(1 << 31).to(torch.float32) for n in (5, 777, 300000)]
print(digest.fingerprints([*tensors, *[t.bfloat16() for t in tensors]]).values())
"""


@pytest.mark.slow
def test_every_process_and_number_of_threads_gives_the_same() -> None:
    printed = set()
    for threads in (1, 2):
        script = SCRIPT.format(source=str(SOURCE), threads=threads)
        environment = dict(os.environ, PYTHONHASHSEED=str(threads))
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        printed.add(done.stdout)
    assert len(printed) == 1


def _needs_a_device() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


@pytest.mark.cuda
def test_devices_agree() -> None:
    _needs_a_device()
    tensors = [filled(kind, length, seed=3) for kind in KINDS for length in LENGTHS]
    moved = [tensor.cuda() for tensor in tensors]
    pending = digest.fingerprints([*moved, *tensors])
    values = pending.values(wait=True)
    assert values[: len(tensors)] == values[len(tensors) :] == digest.fingerprints(tensors).values()


@pytest.mark.cuda
def test_on_a_device_nothing_waits_and_a_capture_is_left_alone() -> None:
    _needs_a_device()
    tensors = [torch.randn(300, 300, device="cuda"), torch.randn(7, device="cuda")]
    digest.fingerprints(tensors).values(wait=True)
    digest.norms(tensors).values(wait=True)
    torch.cuda.set_sync_debug_mode("error")
    try:
        pending = digest.fingerprints(tensors), digest.norms(tensors)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tensors[0] + 1
        assert digest.fingerprints(tensors) is None
        assert digest.norms(tensors) is None
    assert all(item.values(wait=True)[0] is not None for item in pending)
