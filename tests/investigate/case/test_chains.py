"""Exceptions that follow each other: what was handled as something else was raised, and by whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose

_LIBRARY = "/env/lib/python3.10/site-packages/PIL/ImageFile.py"
_OWN = "/home/me/train.py"
_ASKED = (
    "\nDuring handling of the above exception, another exception occurred:\n\n"
    "Traceback (most recent call last):\n"
    '  File "/home/me/train.py", line 90, in <module>\n    main()\n'
    '  File "/env/lib/python3.10/site-packages/torch/utils/data/_utils/signal_handling.py", line 66, in handler\n'
    "    _error_if_any_worker_fails()\n"
    "RuntimeError: DataLoader worker (pid 2586412) is killed by signal: Terminated. \n"
)


@pytest.mark.parametrize(("path", "category"), [(_LIBRARY, "preemption"), (_OWN, "usercode")])
def test_what_a_library_was_handling_as_workers_were_asked_to_end_is_no_failure(
    tmp_path: Path, path: str, category: str
) -> None:
    caught = (
        f'Traceback (most recent call last):\n  File "{path}", line 547, in _save\n    fh = fp.fileno()\n'
        "AttributeError: '_idat' object has no attribute 'fileno'\n"
    )
    (tmp_path / "train.log").write_text("".join(f"step {n} loss 0.5\n" for n in range(20)) + caught + _ASKED)
    assert diagnose(tmp_path).incident.category == category


def test_what_a_parent_raises_of_a_process_of_its_own_is_what_that_one_raised(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(
        "Traceback (most recent call last):\n"
        '  File "train.py", line 286, in <module>\n    main()\n'
        '  File "/env/lib/python3.7/site-packages/torch/multiprocessing/spawn.py", line 114, in join\n'
        "    raise Exception(msg)\n"
        "Exception: \n\n"
        "-- Process 1 terminated with the following error:\n"
        "Traceback (most recent call last):\n"
        '  File "/env/lib/python3.7/site-packages/torch/multiprocessing/spawn.py", line 19, in _wrap\n    fn(i, *args)\n'
        '  File "/home/me/train.py", line 99, in train\n    for images in loader:\n'
        '  File "/env/lib/python3.7/site-packages/torch/utils/data/dataloader.py", line 582, in __next__\n'
        "    return self._process_next_batch(batch)\n"
    )
    incident = diagnose(tmp_path).incident
    assert (incident.category, incident.first_failure.rank if incident.first_failure else None) == ("data", 1)
