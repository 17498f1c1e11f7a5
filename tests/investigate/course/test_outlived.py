"""What a program printed and went on behind before: in the same file, by the same program."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.case.case import Event
from preflight.investigate.course.outlived import without_outlived
from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.log import Hit


def event(name: str, file: int, line: int) -> Event:
    hit = Hit(signature=name, file=file, line=line, offset=0, text="x")
    return Event(id=name, title=name, category="usercode", role="root", hit=hit)


def test_what_a_program_printed_twice_before_did_not_end_it() -> None:
    last, other = event("caught", 0, 30), event("ended", 0, 40)
    assert without_outlived([last, other], [event("caught", 0, 10), event("caught", 0, 20)]) == [other]


def test_what_two_other_programs_went_on_behind_may_have_ended_a_third() -> None:
    last, other = event("caught", 2, 30), event("ended", 0, 40)
    assert without_outlived([last, other], [event("caught", 0, 10), event("caught", 1, 10)]) == [last, other]


_CAUGHT = "ERROR: part {} - num_samples should be a positive integer value, but got num_samples=0\nsaved part {}\n\n"
_TOP = 'Traceback (most recent call last):\n  File "all.py", line 61, in <module>\n    main()\n'


@pytest.mark.parametrize(
    ("times", "end", "category"),
    [
        (4, "UnicodeEncodeError: 'charmap' codec can't encode character '\\u274c' in position 5", "usercode"),
        (4, "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "oom"),
        (1, "UnicodeEncodeError: 'charmap' codec can't encode character '\\u274c' in position 5", "data"),
        (4, "ZeroDivisionError: division by zero", "data"),
        (4, "FileNotFoundError: [Errno 2] No such file or directory: 'out/last.ckpt'", "data"),
    ],
)
def test_what_was_caught_again_and_again_did_not_end_it_unless_the_end_comes_of_it(
    tmp_path: Path, times: int, end: str, category: str
) -> None:
    told = "".join(_CAUGHT.format(part, part) for part in range(times))
    (tmp_path / "run.log").write_text(f"{told}{_TOP}{end}\n")
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert incident.category == category


_SIZES = (
    "/env/lib/python3.11/site-packages/torch/nn/modules/loss.py:535: UserWarning: Using a target size (torch.Size([20, 3])) that is"
    " different to the input size (torch.Size([20, 1])). This will likely lead to incorrect results.\n"
    "  return F.mse_loss(input, target, reduction=self.reduction)\n"
)


def _of(folder: Path, text: str) -> str | None:
    (folder / "run.log").write_text(text)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident.category


def test_a_warning_of_python_behind_many_steps_is_no_end(tmp_path: Path) -> None:
    steps = [f"Epoch: {at}  Train Loss: {900 / at:.3f}\n" for at in range(1, 80)]
    assert _of(tmp_path, "".join(steps) + _SIZES) == "none"
    assert _of(tmp_path, "".join(steps[:3]) + _SIZES) == "usercode"  # somebody chose these lines
    raised = _SIZES.replace("UserWarning: Using a target size", "ValueError: Using a target size")
    assert _of(tmp_path, "".join(steps) + raised) == "usercode"
