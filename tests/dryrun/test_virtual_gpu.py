"""Small programs on the virtual GPU, end to end: what they see of it, and what it counts."""

from __future__ import annotations

import textwrap
from pathlib import Path

import msgspec
import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.check.asked import Options
from preflight.check.session import check_text
from preflight.cost.workspace import cublas_workspace
from preflight.dryrun.launch import Job, dry_run
from preflight.vocabulary.profile import Profile

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _no_workspaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)


def _run(folder: Path, text: str, context: int | None = None) -> Profile:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(text), encoding="utf-8")
    gpu = msgspec.structs.replace(resolve_gpu("a100-80gb"), context_bytes=context)
    seen = dry_run(Job(script=str(script), root=str(folder), gpu=gpu, capacity_bytes=80 << 30, seconds=120))
    assert seen.outcome in ("ended", "stopped"), (seen.error, seen.message, seen.frames)
    return seen


def test_the_peak_of_a_perceptron_is_what_arithmetic_says(tmp_path: Path) -> None:
    seen = _run(
        tmp_path,
        """
        import torch
        from torch import nn

        model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 64)).to("cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            x = torch.randn(512, 128, device="cuda")
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    )
    # Bytes in fp32; the bias of 64 takes a block of 512, as the loss does, and the gradient that backward begins with.
    parameters = 128 * 256 * 4 + 256 * 4 + 256 * 64 * 4 + 512
    batch, hidden, scalar = 512 * 128 * 4, 512 * 256 * 4, 512
    # The backward of ReLU: its result, the gradient that comes and the one that goes; the second layer has its gradients.
    peak = parameters + batch + 3 * hidden + (256 * 64 * 4 + 512) + 2 * scalar
    assert (seen.peak_bytes, seen.peak_phase) == (peak, "backward")
    assert seen.steps == 3
    assert seen.backwards == 3
    # All blocks are small ones, which lie in segments of 2 MiB.
    assert seen.reserved_bytes % (2 << 20) == 0
    assert seen.reserved_bytes >= peak
    assert sum(seen.categories.values()) == seen.peak_bytes
    assert seen.categories["parameter"] == parameters


def test_moving_a_module_keeps_its_parameters_and_an_optimizer_made_before(tmp_path: Path) -> None:
    seen = _run(
        tmp_path,
        """
        import torch
        from torch import nn

        model = nn.ModuleDict({"a": nn.Embedding(64, 32), "b": nn.Linear(32, 64, bias=False)})
        model["b"].weight = model["a"].weight
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        before = [id(p) for p in model.parameters()]
        assert len(before) == 1
        model.cuda()
        assert [id(p) for p in model.parameters()] == before
        assert model["b"].weight is model["a"].weight
        assert optimizer.param_groups[0]["params"][0] is model["a"].weight
        assert model["a"].weight.is_cuda and str(model["a"].weight.device) == "cuda:0"
        for _ in range(2):
            x = torch.randint(0, 64, (8, 16)).cuda()
            loss = nn.functional.cross_entropy(model["b"](model["a"](x)).flatten(0, 1), x.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        moments = optimizer.state[model["a"].weight]
        assert moments["exp_avg"].is_cuda and not moments["step"].is_cuda
        assert torch.cuda.memory_allocated() >= 3 * 64 * 32 * 4
        assert torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated()
        """,
    )
    weight = 64 * 32 * 4
    assert seen.categories["parameter"] == weight  # tied: once
    assert seen.optimizers == ("AdamW",)


def test_autocast_accumulation_and_checkpointing_run_as_on_a_gpu(tmp_path: Path) -> None:
    seen = _run(
        tmp_path,
        """
        import torch
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        first, second = nn.Linear(64, 64).cuda(), nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 8)).cuda()
        optimizer = torch.optim.AdamW([*first.parameters(), *second.parameters()], lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for _ in range(2):
            for _ in range(3):
                with torch.autocast("cuda", dtype=torch.float16):
                    h = first(torch.randn(32, 64, device="cuda"))
                    assert h.dtype == torch.float16
                    out = checkpoint(second, h, use_reentrant=False)
                    assert out.dtype == torch.float16
                    assert out.softmax(-1).dtype == torch.float32
                    loss = nn.functional.mse_loss(out, torch.zeros_like(out))
                    assert loss.dtype == torch.float32
                scaler.scale(loss / 3).backward()
            assert first.weight.grad.dtype == torch.float32
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(first.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        """,
    )
    assert (seen.steps, seen.backwards) == (2, 6)
    trained = (64 * 64 + 64 * 64 + 8 * 64) * 4 + 2 * 512 + 512
    assert seen.categories["parameter"] == trained
    assert {moment.phase for moment in seen.timeline} >= {"forward", "backward", "optimizer"}


def test_the_first_product_takes_a_workspace_and_so_does_the_backward_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    seen = _run(
        tmp_path,
        """
        import torch

        layer = torch.nn.Linear(8, 8).cuda()
        assert torch.cuda.memory_allocated() == 2 * 512
        out = layer(torch.randn(4, 8, device="cuda"))
        assert torch.cuda.memory_allocated() > 8519680
        assert torch.cuda.memory_allocated() < 2 * 8519680
        out.sum().backward()
        assert torch.cuda.memory_allocated() > 2 * 8519680
        """,
    )
    assert seen.categories["workspace"] >= 2 * 8519680


@pytest.mark.parametrize("gpu", ["A100", "H100", "H200", "GB200", "RTX 5090", "L4"])
@pytest.mark.parametrize("release", [(2, 9), (2, 13)])
def test_a_workspace_is_as_large_as_the_estimate_says(gpu: str, release: tuple[int, int]) -> None:
    from preflight.dryrun.virtual.engine.workspaces import workspace_bytes

    card = resolve_gpu(gpu)
    assert card.compute_capability is not None
    estimate = cublas_workspace(card, "{}.{}".format(*release))
    assert workspace_bytes(card.compute_capability, None, release) == estimate


@pytest.mark.parametrize("name", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_a_script_asks_for_expandable_segments_itself(tmp_path: Path, name: str) -> None:
    text = f"""
    import os

    os.environ[{name!r}] = "max_split_size_mb:512, expandable_segments: True"
    import torch

    held = [torch.empty(15 << 20, dtype=torch.uint8, device="cuda") for _ in range(2)]
    assert torch.cuda.memory_reserved() == 40 << 20, torch.cuda.memory_reserved()
    """
    assert _run(tmp_path, text).outcome == "ended"


def test_a_process_gets_the_share_of_the_memory_that_it_asks_for(tmp_path: Path) -> None:
    seen = _run(
        tmp_path,
        """
        import torch

        torch.cuda.set_per_process_memory_fraction(0.25)
        held = torch.empty(30 << 30, dtype=torch.uint8, device="cuda")
        """,
    )
    assert seen.full is not None
    assert seen.full.requested == 30 << 30


def test_operators_on_the_same_operands_that_give_other_results_are_other_work(tmp_path: Path) -> None:
    seen = _run(
        tmp_path,
        """
        import torch
        from torch import nn
        from torch.nn import functional

        image = torch.randn(2, 8, 32, 32, device="cuda")
        wide, narrow = nn.Conv2d(8, 8, 3, padding=1).cuda(), nn.Conv2d(8, 8, 3, 2, padding=1).cuda()
        step = torch.optim.SGD([*wide.parameters(), *narrow.parameters()], 0.1)
        for _ in range(2):
            (wide(image).mean() + narrow(image).mean()).backward()
            q = torch.randn(1, 2, 64, 16, device="cuda")
            for causal in (False, True):
                functional.scaled_dot_product_attention(q, q, q, is_causal=causal)
            step.step()
        """,
    )
    assert seen.work is not None
    kinds = [seen.work.kinds[at] for at in seen.work.order if seen.work.kinds[at].phase == "forward"]
    wide, narrow = (kind.flop for kind in kinds if kind.operator == "convolution")
    assert wide == 4 * narrow == 2 * 2 * 8 * 8 * 9 * 32 * 32
    whole, causal = (kind.flop for kind in kinds if kind.operator.startswith("_scaled_dot_product"))
    assert whole == 2 * causal > 0


def test_the_driver_counts_its_context_as_taken(tmp_path: Path) -> None:
    _run(
        tmp_path,
        """
        import torch

        free, total = torch.cuda.mem_get_info()
        assert total == torch.cuda.get_device_properties(0).total_memory
        assert total - free == 500 << 20
        held = torch.zeros(1 << 28, device="cuda")
        assert torch.cuda.mem_get_info()[0] == free - (1 << 30)
        """,
        context=500 << 20,
    )


def test_recurrent_layers_and_packed_sequences_run_whole(tmp_path: Path) -> None:
    seen = _run(
        tmp_path,
        """
        import torch
        from torch import nn

        for kind in (nn.LSTM, nn.GRU, nn.RNN):
            layers = kind(32, 64, 2, dropout=0.1, batch_first=True, bidirectional=True).cuda()
            x = torch.randn(8, 12, 32, device="cuda")
            for amp in (False, True):
                with torch.autocast("cuda", dtype=torch.float16, enabled=amp):
                    found, _ = layers(x)
                assert found.shape == (8, 12, 128) and found.dtype == (torch.float16 if amp else torch.float32)
                found.float().mean().backward()
            assert all(p.grad is not None and p.grad.shape == p.shape for p in layers.parameters())
            packed = nn.utils.rnn.pack_padded_sequence(x[:3], torch.tensor([12, 7, 3]), batch_first=True)
            found, _ = layers(packed)
            assert found.data.shape == (22, 128)
            padded, lengths = nn.utils.rnn.pad_packed_sequence(found, batch_first=True)
            assert padded.shape == (3, 12, 128) and lengths.tolist() == [12, 7, 3]
            padded.sum().backward()
        """,
    )
    assert seen.backwards == 9


def test_what_is_written_on_a_parameter_stays_when_it_is_moved(tmp_path: Path) -> None:
    _run(
        tmp_path,
        """
        import torch
        from torch import nn
        net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        weight = net[0].weight
        weight.no_decay, net[1].bias._optim = True, {"lr": 1e-3}
        net = net.to("cuda").half().float()
        assert net[0].weight is weight
        assert weight.no_decay and net[1].bias._optim == {"lr": 1e-3}
        assert not hasattr(net[0].bias, "no_decay")
        optimizer = torch.optim.SGD([p for p in net.parameters() if not hasattr(p, "no_decay")], lr=0.1)
        for _ in range(3):
            net(torch.zeros(8, 4, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    )


def test_what_was_saved_from_the_host_is_loaded_where_it_is_asked_for(tmp_path: Path) -> None:
    _run(
        tmp_path,
        """
        import torch
        from torch import nn
        torch.save({"images": torch.zeros(64, 4), "names": ["a"], "more": [torch.ones(2)]}, "images.pt")
        for place in (torch.device("cuda"), "cuda", "cuda:0", 0):
            data = torch.load("images.pt", map_location=place)
            assert data["images"].is_cuda and data["more"][0].is_cuda and data["names"] == ["a"]
        for place in (None, "cpu", lambda storage, location: storage):
            assert not torch.load("images.pt", map_location=place)["images"].is_cuda
        net = nn.Linear(4, 4).cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            net(data["images"]).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    )


@pytest.mark.parametrize(("layer", "taken"), [("nn.Conv2d(8, 8, 1)", False), ("nn.Linear(32, 32)", True)])
def test_only_products_of_matrices_take_a_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layer: str, taken: bool
) -> None:
    # A U-Net of convolutions took none on an H200 (benchmarks/gpu/measured.toml, "convolution:unet-amp-bf16").
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(f"""
        import torch
        from torch import nn

        model = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), {layer}).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            loss = model(torch.randn(4, 8, 32, 32, device="cuda")).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """),
        encoding="utf-8",
    )
    memory = check_text(script, Options(gpu="h200", dry_run=True, probe=False)).memory
    assert memory is not None
    assert memory.breakdown is not None
    assert (memory.breakdown.workspace > 0) is taken
    assert memory.peak_bytes is not None
    assert (memory.peak_bytes.mid > 32 << 20) is taken
