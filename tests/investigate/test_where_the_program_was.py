"""Which line of the program, and not of a library, an exception was raised in."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.report.render import render
from preflight.vocabulary.log import Frame

TORCH = "/venv/lib/python3.11/site-packages/torch/nn/modules/module.py"
HEAD = "step 3 loss 1.2\nTraceback (most recent call last):\n"
MAIN = '  File "/job/train.py", line 42, in <module>\n    main()\n'
FORWARD = '  File "/job/net.py", line 17, in forward\n    return self.emb(x)\n'
LIBRARY = f'  File "{TORCH}", line 1778, in _call_impl\n    return forward_call(*args)\n'
INDEX = "IndexError: index out of range in self\n"
ASSERTED = "RuntimeError: CUDA error: device-side assert triggered\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
LAUNCHER = (
    'Traceback (most recent call last):\n  File "/venv/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
    '  File "/venv/lib/python3.11/site-packages/torch/distributed/run.py", line 1028, in main\n    run(args)\n'
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
)


def frame_of(tmp_path: Path, text: str) -> Frame | None:
    (tmp_path / "run.log").write_text(text)
    first = diagnose([str(tmp_path / "run.log")]).incident.first_failure
    assert first is not None
    return first.frame


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        (HEAD + MAIN + FORWARD + LIBRARY + INDEX, Frame("/job/net.py", 17, "forward", "return self.emb(x)")),
        (HEAD + MAIN + INDEX, Frame("/job/train.py", 42, "<module>", "main()")),
        (HEAD + FORWARD + ASSERTED, Frame("/job/net.py", 17, "forward", "return self.emb(x)")),
        (HEAD + LIBRARY + INDEX, None),
        ("step 3 loss 1.2\n" + LAUNCHER, None),
        ("step 3 loss 1.2\nKilled\n", None),
    ],
    ids=["within a library", "in the program", "of several lines", "no frame is its", "the launcher", "no traceback"],
)
def test_the_innermost_frame_of_the_program_is_told(tmp_path: Path, text: str, frame: Frame | None) -> None:
    assert frame_of(tmp_path, text) == frame


@pytest.mark.parametrize("format", ["text", "markdown", "html"])
def test_it_is_shown(tmp_path: Path, format: str) -> None:
    (tmp_path / "run.log").write_text(HEAD + MAIN + FORWARD + LIBRARY + INDEX)
    shown = render(diagnose([str(tmp_path / "run.log")]), format)
    assert "forward (/job/net.py:17): return self.emb(x)" in shown
