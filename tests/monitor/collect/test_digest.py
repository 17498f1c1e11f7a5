"""The numbers over a tensor's bits: what must change them, and what must not."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from tests.monitor.collect.fingerprinted import BITS, FLOATS, KINDS, LENGTHS, bits, filled, number, quick  # noqa: E402

from preflight.monitor.collect import checksum, checksum_grid, digest, usual  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:Sparse invariant checks")]


@quick
@given(st.sampled_from(KINDS), st.sampled_from(LENGTHS[1:]), st.integers(0, 1 << 30), st.sampled_from(["up", "sign"]))
def test_one_unit_in_the_last_place_changes_the_number(kind: Any, length: int, place: int, how: str) -> None:
    tensor = filled(kind, length)
    before = number(tensor)
    raw = bits(tensor)
    place %= raw.numel()
    if kind is torch.bool:
        raw[place] ^= 1
    elif how == "up":
        raw[place] += 1
    else:
        raw[place] ^= torch.iinfo(raw.dtype).min if raw.dtype is not torch.uint8 else 128
    assert number(tensor) != before


def test_what_is_as_it_was_the_last_time_is_not_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = [filled(torch.float32, length, seed=length) for length in (3, 700, 3001, 40_000)]
    other = [tensor.clone() for tensor in tensors]
    other[-1].view(200, 200)[[3, 5]] = other[-1].view(200, 200)[[5, 3]]  # rows that changed places
    taken, changed = digest.fingerprints(tensors).values(), digest.fingerprints(other).values()
    assert taken[:-1] == changed[:-1]
    assert taken[-1] != changed[-1]
    assert digest.fingerprints(tensors).values() == taken
    with monkeypatch.context() as patched:
        patched.setattr(checksum, "mix", lambda *_: 1 / 0)
        assert digest.fingerprints(tensors).values() == taken
        assert digest.norms_and_fingerprints(tensors).values()[1] == taken
        assert digest.fingerprints(other).values() == [None] * 4  # of these all has to be worked out
    tensors[-1].data[0] += 1
    assert digest.fingerprints(tensors).values()[-1] != taken[-1]
    tensors[-1].data[0] -= 1
    assert digest.fingerprints(tensors).values()[:-1] == taken[:-1]


def test_the_arithmetic_of_the_certain_part() -> None:
    # The sum of the words changes by d * 2**k, and by 2**64 more or less where it wraps: never by nothing modulo 8191.
    for width in (8, 16, 32, 64):
        for place in range(0, 64, 8):
            for change in (1, 1 << (width - 1), (1 << (width - 1)) + 1):
                if width + place > 64:
                    continue
                for sign in (1, -1):
                    for wrap in (-1, 0, 1):
                        assert (sign * (change << place) + (wrap << 64)) % 8191 != 0


def test_the_certain_part_holds_at_every_position() -> None:
    # The low 13 bits alone: they must change without any help of the strong part.
    for kind, length in ((torch.bfloat16, 5003), (torch.float32, 2600), (torch.float64, 1301)):
        tensor = torch.zeros(length, dtype=kind)
        before = number(tensor) & 8191
        raw = bits(tensor)
        views = []
        for place in range(0, raw.numel(), 7):
            copy = raw.clone()
            copy[place] = torch.iinfo(raw.dtype).min
            views.append(copy)
        assert all(value & 8191 != before for value in digest.fingerprints(views).values())


@quick
@given(st.sampled_from(KINDS), st.sampled_from(LENGTHS[2:]), st.integers(0, 1 << 30), st.integers(0, 1 << 30))
def test_a_swap_changes_the_number(kind: Any, length: int, first: int, second: int) -> None:
    tensor = filled(kind, length)
    raw = bits(tensor)
    first, second = first % raw.numel(), second % raw.numel()
    before, differ = number(tensor), bool(raw[first] != raw[second])
    kept = raw[first].clone()
    raw[first] = raw[second]
    raw[second] = kept
    assert (number(tensor) != before) == differ


@quick
@given(st.sampled_from(FLOATS), st.sampled_from(LENGTHS[2:]), st.integers(0, 1 << 30), st.integers(0, 1 << 30))
def test_a_swap_of_signs_changes_the_number(kind: Any, length: int, first: int, second: int) -> None:
    raw = torch.zeros(length * kind.itemsize, dtype=torch.uint8).view(BITS[kind.itemsize])
    first, second = first % length, second % length
    top = -1 << (kind.itemsize * 8 - 1) if kind.itemsize > 1 else 128
    raw[first] = top
    other = torch.zeros_like(raw)
    other[second] = top
    assert (number(raw.view(kind)) != number(other.view(kind))) == (first != second)


@pytest.mark.parametrize("kind", [torch.float32, torch.int64])
@pytest.mark.parametrize("width", [1, 8, 64, 127, 251, 502, 512, 1000, 1004, 1024, 10000])
def test_rows_of_a_one_hot_matrix_do_not_commute(kind: Any, width: int) -> None:
    # All sums over rows and columns of the matrix itself are kept by these exchanges.
    rows = max(8, 40000 // width)
    matrix = torch.zeros(rows, width, dtype=kind)
    places = torch.arange(rows) * 7919 % width
    matrix[torch.arange(rows), places] = 1
    generator = torch.Generator().manual_seed(1)
    before = number(matrix)
    for _ in range(10):
        one, two = torch.randint(0, rows, (2,), generator=generator).tolist()
        other = matrix.clone()
        other[[one, two]] = matrix[[two, one]]
        assert (number(other) != before) == bool(places[one] != places[two])


def test_the_transpose_of_a_symmetric_pattern_is_told_from_it() -> None:
    for size in (64, 251, 256, 512):
        shifted = torch.eye(size).roll(1, 0)
        values = {number(torch.eye(size)), number(shifted), number(shifted.t()), number(torch.eye(size).flip(0))}
        assert len(values) == 4


def test_no_two_of_many_near_tensors_agree() -> None:
    base = torch.zeros(4096)
    near = []
    for place in range(0, 4096, 3):
        copy = base.clone()
        copy[place] = 1
        near.append(copy)
    assert len(set(digest.fingerprints(near).values())) == len(near)


def test_lengths_of_zeros_differ() -> None:
    tensors = [torch.zeros(length, dtype=torch.int8) for length in range(40)]
    assert len(set(digest.fingerprints(tensors).values())) == 40


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(4, 6, 5, 3), (8, 64, 7, 9), (3, 4000), (130, 131)])
def test_layout_does_not_matter(kind: Any, shape: tuple[int, ...]) -> None:
    tensor = filled(kind, math.prod(shape)).view(shape)
    expected = number(tensor)
    turned = tensor.transpose(0, 1).contiguous().transpose(0, 1)
    spaced = torch.stack([bits(tensor.view(-1)), bits(tensor.view(-1))], 1)[:, 0] if not kind.is_complex else None
    shifted = torch.cat([tensor.view(-1)[:1], tensor.view(-1)])[1:].view(shape)
    assert number(turned) == expected
    assert number(shifted) == expected
    assert number(tensor.flip(0).flip(0)) == expected
    assert spaced is None or number(spaced) == expected
    if len(shape) == 4:
        assert number(tensor.contiguous(memory_format=torch.channels_last)) == expected


@pytest.mark.parametrize("shape", [(1, 70000), (3, 1, 50000), (2, 3, 4, 9001), (90000, 2)])
def test_large_tensors_are_copied_piece_by_piece(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = torch.randn(shape)
    expected = number(tensor)
    monkeypatch.setattr(checksum_grid, "COPY", 2048)
    monkeypatch.setattr(checksum_grid, "STEP", 512)
    assert number(tensor) == expected
    turned = tensor.transpose(0, -1).contiguous().transpose(0, -1)
    assert number(turned) == expected
    column = torch.randn(shape[0], *([1] * (len(shape) - 1)))
    assert number(column.expand(shape)) == number(column.expand(shape).contiguous())


def test_each_number_is_of_its_tensor_alone() -> None:
    tensors = [filled(kind, length, seed=length) for kind in KINDS for length in LENGTHS]
    together = digest.fingerprints(tensors).values()
    assert together == [number(tensor) for tensor in tensors]
    assert digest.fingerprints(list(reversed(tensors))).values() == together[::-1]


def test_the_bits_count_not_the_values() -> None:
    assert number(torch.tensor(0.0)) != number(torch.tensor(-0.0))
    quiet = torch.tensor([0x7FC00000, 0x7FC00001], dtype=torch.int32).view(torch.float32)
    assert number(quiet[:1].clone()) != number(quiet[1:].clone())
    conjugate = torch.tensor([1 + 2j, 3 - 1j]).conj()
    assert number(conjugate) == number(conjugate.resolve_conj()) != number(conjugate.conj())
    assert number(conjugate.imag) == number(conjugate.imag.resolve_neg().clone())


def test_what_cannot_be_read_is_none() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner: Any) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise RuntimeError("not for you")

    fake = FakeTensorMode().from_tensor(torch.ones(3))
    plain = torch.ones(3)
    tensors = [None, torch.ones(3, device="meta"), fake, Wrapper(plain), torch.nn.UninitializedParameter(), "text"]
    tensors.append(plain)
    assert digest.fingerprints(tensors).values() == [None] * 6 + [number(plain)]
    assert digest.norms(tensors).values() == [None] * 6 + [pytest.approx(math.sqrt(3))]
    assert digest.fingerprints([]).values() == []


def test_a_subclass_with_memory_is_read() -> None:
    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError("the program's own functions are not called")

    plain = torch.randn(4, 4)
    with torch._C.DisableTorchFunction():
        named = plain.as_subclass(Named)
    assert digest.fingerprints([named, torch.nn.Parameter(plain)]).values() == [number(plain)] * 2


def test_sparse_tensors_are_read_as_stored() -> None:
    indices, values = torch.tensor([[0, 3], [1, 1]]), torch.tensor([1.0, 2.0])
    sparse = torch.sparse_coo_tensor(indices, values, (5, 5))
    moved = torch.sparse_coo_tensor(indices.flip(1), values, (5, 5))
    assert digest.fingerprints([sparse]).values() == digest.fingerprints([sparse.clone()]).values()
    assert digest.fingerprints([sparse]).values() != digest.fingerprints([moved]).values()
    twice = torch.sparse_coo_tensor(torch.tensor([[0, 0]]), torch.tensor([3.0, 1.0]), (2,))
    assert digest.norms([sparse, twice]).values() == [pytest.approx(math.sqrt(5)), 4.0]


def test_distributed_tensors_are_their_local_shard() -> None:
    distributed = pytest.importorskip("torch.distributed.tensor")
    if not torch.distributed.is_available() or not hasattr(distributed, "distribute_tensor"):
        pytest.skip("this torch has no distributed tensors, or has them elsewhere")
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
        plain = torch.randn(64, 64)
        spread = distributed.distribute_tensor(plain.clone(), mesh, [distributed.Shard(0)])
        parameter = torch.nn.Parameter(spread)
        assert digest.fingerprints([spread, parameter]).values() == [number(plain)] * 2
        assert digest.norms([spread]).values() == digest.norms([plain]).values()
    finally:
        torch.distributed.destroy_process_group()


def test_norms() -> None:
    tensors = [filled(kind, 0) for kind in KINDS]
    assert digest.norms(tensors).values() == [0.0] * len(KINDS)
    coarse = torch.full((1 << 12,), 1.0, dtype=torch.bfloat16)
    finer = coarse.clone()
    finer[5] = 1.0078125
    # 64 and 64.0001: both are 64 when they are rounded to bfloat16.
    one, two = digest.norms([coarse, finer]).values()
    assert one == 64.0
    assert 64.0001 < two < 64.0002
    assert digest.norms([torch.full((4,), 60000.0, dtype=torch.float16)]).values() == [120000.0]
    assert digest.norms([torch.tensor([3, 4]), torch.tensor([True, False])]).values() == [5.0, 1.0]
    assert digest.norms([torch.tensor([3j, 4.0]), None]).values() == [5.0, None]
    assert digest.norms([torch.tensor([1 << 40])]).values() == [float(1 << 40)]
    broken = digest.norms([torch.tensor([1.0, math.inf]), torch.tensor([math.nan])]).values()
    assert all(math.isnan(value) for value in broken)


def test_norms_of_many_are_those_of_each_alone_to_the_last_bit() -> None:
    # Short vectors of one length are taken together; lists of the same lengths may hold other tensors.
    lengths = [7, 7, 16, 7, 7, 300, 16, 7, 5000, 16, 16]
    drawn = torch.Generator().manual_seed(0)
    many = [torch.randn(length, generator=drawn) for length in lengths]
    wide = [torch.randn(1, length, generator=drawn) for length in lengths]
    spread = [torch.randn(2 * length, generator=drawn)[::2] for length in lengths]
    turned = [torch.complex(one, one).conj().imag for one in many]
    assert all(one.is_neg() for one in turned)
    for tensors in (many, wide, spread, [*many[:3], *wide[3:]], turned, [*many[:-1], many[-1].double()]):
        alone = [torch.linalg.vector_norm(one).item() for one in tensors]
        assert digest.norms(tensors).values() == alone
        assert digest.norms_and_fingerprints(tensors).values() == [alone, [number(one) for one in tensors]]
    assert digest.norms([many[0], None, *many[1:]]).values()[1] is None


def test_norms_of_coarse_kinds_without_a_kind_to_add_up_in(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = [torch.full((4096,), 1.0078125, dtype=kind) for kind in (torch.bfloat16, torch.float16)]
    expected = digest.norms(tensors).values()
    fused = torch._foreach_norm
    monkeypatch.setattr(torch, "_foreach_norm", lambda tensors, order: fused(tensors, order))
    assert digest.norms(tensors).values() == pytest.approx(expected, rel=1e-6)
    assert expected == pytest.approx([64.5, 64.5], rel=1e-6)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.uint8])
def test_samples_look_at_both_ends(kind: Any) -> None:
    each = (1 << 16) // kind.itemsize
    tensor = filled(kind, 5 * each)
    before = digest.samples([tensor]).values()
    for place, seen in ((0, True), (each - 1, True), (each, False), (-each - 1, False), (-each, True), (-1, True)):
        other = tensor.clone()
        bits(other)[place] += 1
        assert (digest.samples([other]).values() != before) == seen
    image = tensor.view(5, 4, -1, 8)
    assert digest.samples([image]).values() == before
    assert digest.samples([image.transpose(1, 3).contiguous().transpose(1, 3)]).values() == before
    small = tensor[: 2 * each]
    assert digest.samples([small]).values() == [number(small)]
    assert digest.samples([small, None, tensor]).values() == [number(small), None, *before]


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_a_tensor_taken_alone_is_the_one_it_has_among_others(kind: Any) -> None:
    for length in (0, 8, 64, 1024, 1032, 9000, 12000):
        tensor = filled(kind, length)
        alone = checksum.checksum(torch, [tensor])
        assert alone == [number(tensor)] or (alone is None and length * kind.itemsize & 7)
        other = filled(kind, length + 8)[8:].clone()
        both = checksum.checksum(torch, [tensor, other])
        assert both == [number(tensor), number(other)] or (both is None and length * kind.itemsize & 7)
    short = filled(kind, 64)
    assert digest.samples([short, short.view(4, -1)]).values() == [number(short)] * 2
    turned = short.view(4, -1).t()
    assert checksum.checksum(torch, [turned]) in (None, [number(turned)])


def test_a_failing_tensor_does_not_take_the_others_along(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = torch.ones(3)
    expected = number(plain)

    class Broken:
        @property
        def __class__(self) -> type:
            raise RuntimeError("no")

    assert digest.fingerprints([Broken(), plain]).values() == [None, expected]
    for module in (digest, usual):
        monkeypatch.setattr(module, "checksums", None)
    assert digest.fingerprints([plain]).values() == [None]
