from __future__ import annotations

import pytest

from preflight.catalog.kernel_events import KernelEvent, event_of, kernel_events, literals

EVENTS = [pytest.param(event, id=f"{event.kind}-{number}") for number, event in enumerate(kernel_events())]


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_takes_its_examples_and_not_those_beside_them(event: KernelEvent) -> None:
    assert event.match
    assert event.no_match
    for line in event.match:
        got = event_of(f"[12.345678] {line}")
        assert got is not None, line
        assert got[0].kind == event.kind
        assert literals().search(line.encode())
    for line in event.no_match:
        got = event_of(line)
        assert got is None or got[0].kind != event.kind, line


@pytest.mark.parametrize("event", EVENTS)
def test_every_literal_stands_in_an_example_or_beside_one(event: KernelEvent) -> None:
    assert all(any(word in line for word in event.literals) for line in event.match)


def test_a_boot_log_without_trouble_has_no_events() -> None:
    lines = """Command line: BOOT_IMAGE=/vmlinuz-5.15 root=UUID=1 ro quiet
    NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19
    nvidia 0000:3b:00.0: enabling device (0140 -> 0142)
    mlx5_core 0000:5e:00.0: firmware version: 20.31.1014
    nvidia-nvlink: Nvlink Core is being initialized, major device number 510
    EXT4-fs (sda1): mounted filesystem with ordered data mode
    systemd[1]: Started Journal Service.
    perf: interrupt took too long (2503 > 2500), lowering kernel.perf_event_max_sample_rate to 79750
    TCP: request_sock_TCP: Possible SYN flooding on port 29500. Sending cookies.""".splitlines()
    assert [line for line in lines if event_of(line.strip())] == []
