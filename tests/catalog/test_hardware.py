"""GPUs, links and prices: physically sane, found under every spelling, and never found under a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.catalog import files, hardware
from preflight.errors import CatalogError, UsageError
from preflight.vocabulary.quantity import GIB

GPUS = hardware.gpu_names()
LINKS = hardware.link_names()
WITHOUT_BF16 = {"pascal", "volta", "turing"}


def test_the_catalog_is_wide() -> None:
    assert len(GPUS) >= 34


@pytest.mark.parametrize("name", GPUS)
def test_memory_is_what_a_driver_reports(name: str) -> None:
    gpu = hardware.load_gpu(name)
    # A driver shows at most the size on the box in GiB, and no card hides more than a tenth of its gigabytes.
    assert 0.9 * gpu.sold_as_gb * 1e9 < gpu.memory_bytes <= 1.005 * gpu.sold_as_gb * GIB


@pytest.mark.parametrize("name", GPUS)
def test_rates_are_physical(name: str) -> None:
    gpu = hardware.load_gpu(name)
    peak = gpu.peak_flops
    assert 100e9 < gpu.bandwidth < 10e12
    assert peak["fp16"] >= peak["fp32"] >= peak.get("fp64", 0.0)
    assert ("bf16" not in peak) == (gpu.architecture in WITHOUT_BF16)
    if "bf16" in peak:
        assert peak["bf16"] == peak["fp16"]
        assert peak["bf16"] > 1.9 * peak["fp32"]
    if "tf32" in peak:
        assert peak["fp32"] <= peak["tf32"] <= 0.51 * peak["bf16"]
    assert gpu.watts is None or 50 <= gpu.watts <= 1500


@pytest.mark.parametrize("name", GPUS)
def test_peaks_are_dense_and_nothing_measured_exceeds_them(name: str) -> None:
    gpu = hardware.load_gpu(name)
    peak = gpu.peak_flops
    # Halving the width of a number doubles the dense rate; a sparse figure in one column would make it four times.
    # GeForce cards run fp16 with fp32 accumulation at half rate, int8 at full rate, and so have four times on purpose.
    if "fp8" in peak:
        assert peak["fp8"] == pytest.approx(2 * peak["fp16"], rel=0.03)
    if "int8" in peak:
        half_rate = "GeForce" in gpu.title
        factor = 4 if half_rate else 1 if gpu.architecture == "cdna2" else 2
        assert peak["int8"] == pytest.approx(factor * peak["fp16"], rel=0.03)
    for dtype, rate in gpu.achievable_flops.items():
        assert 0.4 * peak[dtype] < rate < peak[dtype]


@pytest.mark.parametrize(
    ("name", "dtype", "sparse"),
    [("a100_80gb_sxm", "bf16", 624), ("h100_sxm", "bf16", 1979), ("l40s", "fp8", 1466), ("l4", "bf16", 242),
     ("b200", "fp4", 18000), ("rtx_4090", "int8", 1321), ("a40", "bf16", 299.4), ("mi355x", "fp4", 20100)],
)  # fmt: skip
def test_half_of_the_marketing_figure(name: str, dtype: str, sparse: float) -> None:
    assert hardware.load_gpu(name).peak_flops[dtype] == pytest.approx(sparse * 1e12 / 2, rel=0.01)


@pytest.mark.parametrize("name", GPUS)
def test_links_of_a_gpu_are_in_the_catalog(name: str) -> None:
    gpu = hardware.load_gpu(name)
    assert gpu.vendor == ("amd" if gpu.compute_capability is None else "nvidia")
    assert gpu.host_link is not None
    assert hardware.load_link(gpu.host_link).scope == "host"
    if gpu.fabric is not None:
        fabric = hardware.load_link(gpu.fabric)
        assert fabric.scope == "intra_node"
        assert fabric.bandwidth < gpu.bandwidth


@pytest.mark.parametrize("name", LINKS)
def test_links_are_one_direction(name: str) -> None:
    link = hardware.load_link(name)
    assert link.scope in ("intra_node", "inter_node", "host")
    assert 1e9 < link.bandwidth <= 900e9
    assert link.latency is None or 0 < link.latency < 1e-3


@pytest.mark.parametrize("kind", ["gpus", "links"])
def test_no_spelling_has_two_meanings(kind: str) -> None:
    meaning = {hardware.spelling(name): name for name in files.names(kind)}
    assert len(meaning) == len(files.names(kind))
    for alias, name in files.aliases(kind):
        assert meaning.setdefault(hardware.spelling(alias), name) == name, alias


@pytest.mark.parametrize("name", GPUS)
def test_every_gpu_answers_to_its_key_and_aliases(name: str) -> None:
    gpu = hardware.resolve_gpu(name)
    assert gpu.name == name
    assert gpu.aliases
    for alias in gpu.aliases:
        assert hardware.resolve_gpu(alias).name == name
        assert hardware.resolve_gpu(alias.lower().replace(" ", "-")).name == name


SPELLINGS = {
    "NVIDIA H100": "h100_sxm", "h100": "h100_sxm", "H100-SXM-80GB": "h100_sxm", "H100_SXM": "h100_sxm",
    "NVIDIA H100 80GB HBM3": "h100_sxm", "nvidia-h100-80gb": "h100_sxm",
    "  H100  ": "h100_sxm", "H100 80 GB": "h100_sxm",
    "NVIDIA H100 PCIe": "h100_pcie", "h100-pcie-80gb": "h100_pcie", "NVIDIA H100 NVL": "h100_nvl",
    "NVIDIA H200": "h200", "A100-SXM4-40GB": "a100_40gb_sxm", "NVIDIA A100-SXM4-80GB": "a100_80gb_sxm",
    "a100 80gb": "a100_80gb_sxm", "a100": "a100_80gb_sxm", "A100 40G": "a100_40gb_sxm",
    "NVIDIA A100 80GB PCIe": "a100_80gb_pcie", "NVIDIA A100-PCIE-40GB": "a100_40gb_pcie",
    "Tesla V100-SXM2-16GB": "v100_sxm2_16gb", "Tesla V100-PCIE-32GB": "v100_pcie_32gb", "V100": "v100_sxm2_16gb",
    "Tesla T4": "t4", "NVIDIA T4": "t4", "Tesla P100-PCIE-16GB": "p100_pcie_16gb", "NVIDIA A10G": "a10g",
    "rtx4090": "rtx_4090", "GeForce RTX 4090": "rtx_4090", "NVIDIA GeForce RTX 4090": "rtx_4090",
    "RTX-4090": "rtx_4090",
    "4090": "rtx_4090", "rtx 2080ti": "rtx_2080_ti", "NVIDIA GeForce RTX 2080 Ti": "rtx_2080_ti",
    "RTX 5090": "rtx_5090",
    "NVIDIA RTX A6000": "rtx_a6000", "NVIDIA RTX 6000 Ada Generation": "rtx_6000_ada", "NVIDIA L40S": "l40s",
    "NVIDIA B200": "b200", "NVIDIA GB200": "gb200", "NVIDIA GH200 480GB": "gh200", "MI300X": "mi300x",
    "AMD MI300X": "mi300x", "AMD Instinct MI300X": "mi300x", "mi 300x": "mi300x", "AMD Instinct MI250X": "mi250x",
    "NVIDIA B300 SXM6 AC": "b300", "MI355X": "mi355x",
}  # fmt: skip


@pytest.mark.parametrize(("text", "name"), SPELLINGS.items())
def test_spellings_of_people_drivers_and_clouds(text: str, name: str) -> None:
    assert hardware.resolve_gpu(text).name == name


@pytest.mark.parametrize(
    "text", ["h1000", "A1000", "", "   ", "NVIDIA", "gpu", "H100 40GB", "A100 SXM4 16GB", "../h200", "\x00"]
)
def test_a_wrong_name_is_an_error_with_a_way_out(text: str) -> None:
    with pytest.raises(UsageError, match="unknown GPU") as caught:
        hardware.resolve_gpu(text)
    assert caught.value.hint is not None
    assert "preflight list gpus" in caught.value.hint


def test_the_hint_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown GPU 'h1000'") as caught:
        hardware.resolve_gpu("h1000")
    assert caught.value.hint == "did you mean 'h100' (h100_sxm)? 'preflight list gpus' names them all"


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(st.text(max_size=40), st.from_regex(r"(nvidia |rtx[ -]?)?[ahlbtvm]i?\d{1,4}( ?\d\dgb)?", fullmatch=True))
)
def test_any_text_resolves_or_is_refused(text: str) -> None:
    try:
        gpu = hardware.resolve_gpu(text)
    except UsageError:
        return
    assert gpu.name in GPUS
    assert hardware.resolve_gpu(text) == gpu


@pytest.mark.parametrize(
    ("text", "name"),
    [("nvlink_5", "nvlink_5"), ("NVLink 4.0", "nvlink_4"),
     ("NDR", "ib_ndr"), ("InfiniBand HDR", "ib_hdr"), ("EFA", "efa_v2"),
     ("pcie gen5", "pcie_5"), ("RoCE 400", "roce_400"), ("100GbE", "ethernet_100")],
)  # fmt: skip
def test_links_by_other_spellings(text: str, name: str) -> None:
    assert hardware.resolve_link(text).name == name


def test_an_unknown_link_names_what_there_is() -> None:
    with pytest.raises(UsageError, match="unknown link 'nvlink_9'") as caught:
        hardware.resolve_link("nvlink_9")
    assert caught.value.hint is not None
    assert "nvlink_5" in caught.value.hint


def test_a_sold_size_is_the_smallest_total_of_the_cards_sold_so() -> None:
    card = hardware.card_sold_as(80)
    assert card is not None
    totals = [gpu.memory_bytes for gpu in map(hardware.load_gpu, GPUS) if gpu.sold_as_gb == 80]
    assert hardware.gpu_from_memory(80) == card.memory_bytes == min(totals)
    assert 78 * GIB < hardware.gpu_from_memory(80) < 80 * GIB


def test_a_size_that_nobody_sells_is_taken_as_gib() -> None:
    assert hardware.card_sold_as(20.5) is None
    assert hardware.gpu_from_memory(20.5) == int(20.5 * GIB)


@pytest.mark.parametrize("gb", [0, -1, float("nan"), float("inf"), 1e9])
def test_a_size_that_is_none_is_refused(gb: float) -> None:
    with pytest.raises(UsageError, match="is not a size in GB"):
        hardware.gpu_from_memory(gb)


def test_prices_are_ranges_with_dates_of_gpus_that_exist() -> None:
    priced = [price for name in GPUS for price in hardware.prices_for(name)]
    assert len(priced) >= 12
    for price in priced:
        assert (
            0 < price.usd_per_hour_low <= (price.usd_per_hour_mid or price.usd_per_hour_high) <= price.usd_per_hour_high
        )
        assert price.date.startswith("20")
        assert price.sources
    for name in files.names("clouds"):
        path = files.find("clouds", name)
        assert path is not None
        assert {row["gpu"] for row in files.parse(path)["prices"]} <= set(GPUS)
    assert hardware.prices_for("p100_pcie_16gb") == ()


MINE = """
title = "My card"
vendor = "nvidia"
architecture = "hopper"
aliases = ["H100", "Mine"]
memory_bytes = 1_000_000_000
sold_as_gb = 1
bandwidth_gb_per_s = 1.5
peak_tflops = { bf16 = 2.0 }
sources = ["my bench"]
"""


def test_a_user_card_is_in_si_units_and_wins(tmp_path: Path) -> None:
    (tmp_path / "gpus").mkdir()
    (tmp_path / "gpus" / "my_card.toml").write_text(MINE, encoding="utf-8")
    extra = (str(tmp_path),)
    gpu = hardware.resolve_gpu("mine", extra)
    assert (gpu.name, gpu.bandwidth, gpu.peak_flops) == ("my_card", 1.5e9, {"bf16": 2e12})
    assert hardware.resolve_gpu("h100", extra).name == "my_card"
    assert hardware.resolve_gpu("h100").name == "h100_sxm"
    assert hardware.gpu_from_memory(1, extra) == 1_000_000_000


def test_an_unknown_dtype_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gpus").mkdir()
    (tmp_path / "gpus" / "odd.toml").write_text(MINE.replace("bf16", "bf61"), encoding="utf-8")
    with pytest.raises(CatalogError, match="unknown dtype 'bf61'"):
        hardware.load_gpu("odd", (str(tmp_path),))
