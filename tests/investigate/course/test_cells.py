"""Cells of a notebook: an error ends one of them, and the kernel goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

_RULE = "-" * 75


def raised(cell: str, code: str, error: str, more: str = "") -> str:
    name = error.partition(":")[0]
    return f"{_RULE}\n{name}{' ' * 30}Traceback (most recent call last)\n{cell}\n----> 1 {code}\n{more}\n{error}\n"


TYPE = raised("/tmp/ipykernel_48/232.py in <module>", "width = len(3)", "TypeError: object of type 'int' has no len()")
FILE = raised(
    "/tmp/ipykernel_48/394.py in <module>",
    "for line in open(path):",
    "FileNotFoundError: [Errno 2] No such file or directory: '/home/me/data/wiki.xml'",
)


def told(folder: Path, text: str) -> Incident:
    (folder / "notebook.txt").write_text(text)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident


def test_the_last_cell_that_failed_decides(tmp_path: Path) -> None:
    incident = told(tmp_path, TYPE + "loaded 20 pages\n" + FILE)
    assert (incident.category, incident.signature) == ("data", "data.missing-file")
    assert len(incident.recovered) == 1


def test_a_cell_that_fails_for_a_name_that_an_earlier_one_was_to_make_is_its_consequence(tmp_path: Path) -> None:
    made = raised(
        "Cell In[4], line 1", "table = read(path)", "FileNotFoundError: [Errno 2] No such file or directory: 'a.csv'"
    )
    lacks = raised("Cell In[5], line 1", "table.head()", "NameError: name 'table' is not defined")
    assert told(tmp_path, made + lacks).category == "data"
    other = raised("Cell In[5], line 1", "np.mean(x)", "NameError: name 'np' is not defined")
    assert told(tmp_path, made + other).category == "usercode"


def test_a_card_that_was_broken_by_an_earlier_cell_says_nothing_new(tmp_path: Path) -> None:
    broke = raised("Cell In[4], line 1", "fit()", "RuntimeError: CUDA error: device-side assert triggered")
    again = raised(
        "Cell In[5], line 1", "net.cuda()", "RuntimeError: CUDA error: an illegal memory access was encountered"
    )
    assert told(tmp_path, broke + again).signature == "usercode.device-assert"
    assert told(tmp_path, broke + again + FILE).category == "data"
    full = raised("Cell In[3], line 1", "fit()", "RuntimeError: CUDA error: out of memory")  # which breaks nothing
    assert told(tmp_path, full + broke).signature == "usercode.device-assert"


@pytest.mark.parametrize(
    "earlier",
    [
        "ERROR: Could not find a version that satisfies the requirement transformers==4.34.0 (from versions: none)\n",
        '  File "/tmp/ipykernel_131/993.py", line 4\n    for one in all:\n    ^\nIndentationError: unexpected indent\n',
    ],
)
def test_what_a_cell_did_not_install_or_did_not_run_is_no_cause_of_a_later_one(tmp_path: Path, earlier: str) -> None:
    assert told(tmp_path, earlier + "Requirement already satisfied: triton\n" + FILE).category == "data"
    assert told(tmp_path, earlier).category == ("environment" if "transformers" in earlier else "usercode")


def test_what_the_last_exception_was_raised_from_is_of_the_same_cell(tmp_path: Path) -> None:
    memory = raised(
        "<ipython-input-7-0ecc74> in <module>()",
        "run(net)",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    )
    then = "\nDuring handling of the above exception, another exception occurred:\n\n"
    again = raised("<ipython-input-7-0ecc74> in <module>()", "run(net)", "KeyError: 'size'").partition("\n")[2]
    assert told(tmp_path, TYPE + memory + then + again).category == "oom"


def test_a_script_that_a_cell_started_is_not_passed_over(tmp_path: Path) -> None:
    script = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    run()\n'
    script += "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    assert told(tmp_path, script + FILE).category == "oom"


def test_the_text_of_a_library_around_a_frame_says_nothing_that_happened(tmp_path: Path) -> None:
    text = raised(
        "Cell In[3], line 5",
        "load(rows)",
        "KeyError: 'width'",
        "\nFile /env/lib/python3.10/site-packages/kit/check.py:40, in check(rows)\n"
        '     39     raise ValueError("Found input variables with inconsistent numbers of samples: %r")\n'
        "---> 40 return rows[name]\n",
    )
    incident = told(tmp_path, text)
    assert incident.signature != "usercode.inconsistent-lengths"
    assert incident.category == "usercode"


@pytest.mark.parametrize(
    "head",
    [
        "nbclient.exceptions.CellExecutionError: An error occurred while executing the following cell:\n"
        f"{'-' * 18}\ntable = read()\n{'-' * 18}\n\n\n",
        f'papermill.exceptions.PapermillExecutionError: \n{_RULE}\nException encountered at "In [3]":\n',
    ],
)
def test_what_runs_a_notebook_says_no_more_than_its_cell(tmp_path: Path, head: str) -> None:
    top = 'Traceback (most recent call last):\n  File "/env/bin/run", line 8, in <module>\n    sys.exit(main())\n'
    split = raised(
        "Cell In[3], line 1",
        'rows = load_dataset("squad", split="train")',
        "ValueError: Unknown split \"train\". Should be one of ['test'].",
        "\nFile /env/lib/python3.10/site-packages/datasets/arrow_reader.py:437, in Reader.to_absolute(name)\n--> 437 raise ValueError(name)\n",
    )
    assert told(tmp_path, top + head + split).category == "data"


def test_a_cell_in_an_editor_is_one_too(tmp_path: Path) -> None:
    lacks = raised("/data/train.ipynb Cell 5 in <cell line: 1>()", "np.mean(x)", "NameError: name 'np' is not defined")
    stopped = raised("/data/train.ipynb Cell 9 line 2", "loss.backward()", "KeyboardInterrupt: ")
    assert told(tmp_path, lacks + stopped).category == "preemption"
    assert told(tmp_path, stopped + lacks).category == "usercode"


SIZES = raised(
    "Cell In[4], line 1",
    "net.load_state_dict(state)",
    "RuntimeError: Error(s) in loading state_dict for Net:\n"
    + "".join(
        f"\tsize mismatch for layer.{n}.weight: copying a param with shape torch.Size([100]) from checkpoint, "
        "the shape in current model is torch.Size([160]).\n"
        for n in range(30)
    ),
)
DIED = "Hier klicken: <a href='https://aka.ms/vscodeJupyterKernelCrash'>mehr</a>\n"


def test_the_lines_of_a_long_message_go_with_its_cell(tmp_path: Path) -> None:
    assert told(tmp_path, SIZES).category == "checkpoint"
    assert told(tmp_path, SIZES + FILE).category == "data"
    assert told(tmp_path, FILE + SIZES).category == "checkpoint"


def test_a_kernel_that_died_had_gone_on_behind_every_cell_that_failed(tmp_path: Path) -> None:
    assert told(tmp_path, SIZES + DIED).signature == "end.kernel-died"
    assert told(tmp_path, DIED + SIZES).category == "checkpoint"


KERAS = "".join(
    f"Epoch {at}/6\n90/90 [==============================] - 9s 98ms/step - loss: {2 / at:.4f} - val_loss: {2.2 / at:.4f}\n"
    for at in range(1, 7)
)
NUMBERED = "".join(f"Epoch {at}/6 train_loss {2 / at:.4f} val_loss {2.2 / at:.4f}\n" for at in range(1, 7))


@pytest.mark.parametrize("trained", [KERAS, NUMBERED])
def test_a_cell_that_trains_behind_those_that_failed_shows_that_they_were_mended(tmp_path: Path, trained: str) -> None:
    incident = told(tmp_path, TYPE + FILE + trained + "tensor(3)\n")
    assert (incident.category, len(incident.recovered)) == ("none", 2)
    assert told(tmp_path, TYPE + trained + FILE).category == "data"
    assert told(tmp_path, trained + TYPE + "tensor(3)\n" * 30).category == "usercode"


def test_a_step_that_is_shown_once_more_trains_nothing(tmp_path: Path) -> None:
    assert told(tmp_path, NUMBERED + TYPE + NUMBERED.splitlines()[-1] + "\n").category == "usercode"
