"""The formats that CI servers, pull requests and spreadsheets read."""

from __future__ import annotations

import csv
import io
from xml.etree import ElementTree

import msgspec
import pytest
from inline_snapshot import snapshot

from preflight.errors import UsageError
from preflight.report.render import render
from preflight.vocabulary.finding import Location
from preflight.vocabulary.quantity import GIB
from preflight.vocabulary.report import Report

from . import samples


def test_github_annotations() -> None:
    assert render(samples.NO_GO, "github") == snapshot("""\
::error file=train.py,line=11,endLine=11,col=2,endColumn=16,title=MEM002 memory-exceeds-capacity::Memory overflow: the peak of 61.2 GiB exceeds the 39.4 GiB of the GPU%0Aseen: peak: 61.2 GiB = 1,557,611,200 x 16 bytes + 29.0 GiB of activations + 8.5 GiB%0Aseen: capacity: 39.4 GiB (published)%0Ahint: Train in bf16 with gradient checkpointing
::error file=train.py,line=14,endLine=14,col=2,endColumn=20,title=MEM007 loss-kept-with-graph::The list 'losses' keeps every loss with its graph, so that memory grows at each step%0Ahint: Append loss.item()
::warning file=train.py,line=7,endLine=7,col=10,endColumn=42,title=EFF002 dataloader-without-workers::The DataLoader loads in the training process, so that the GPU waits for every batch%0Aseen: num_workers: 0 (published)%0Ahint: Pass num_workers=4
::notice file=train.py,line=1,col=1,title=REP001 seed-not-set::No seed is set; two runs will differ
::error title=preflight check::NO-GO  train.py  2 errors, 1 warning, 1 note  peak 61.2 GiB of 39.4 GiB  (MEM002 train.py:11 and 1 more)
""")


def test_github_cannot_be_given_commands_by_a_script() -> None:
    lines = render(samples.HOSTILE, "github").splitlines()
    assert len(lines) == 2
    properties, _, message = lines[0].removeprefix("::error ").partition("::")
    assert properties.split(",")[0] == "file=a%2Cb%3Ac\\x1b[2J<img src=x onerror=alert(1)>.py"
    assert properties.split(",")[-1] == "title=X\\n%3A%3Aerror%3A%3A1 script-<i>name"
    assert "%250A" in message


def test_github_gives_no_line_for_a_notebook_cell() -> None:
    finding = msgspec.structs.replace(samples.NOTE, location=Location(path="n.ipynb", line=3, cell=2))
    line = render(msgspec.structs.replace(samples.GO, findings=(finding,)), "github").splitlines()[0]
    assert (
        line
        == "::notice file=n.ipynb,title=REP001 seed-not-set::No seed is set; two runs will differ%0Aat: n.ipynb:cell 2:3"
    )


def test_junit_counts_and_fails_what_decides() -> None:
    root = ElementTree.fromstring(render(samples.SEVERAL, "junit"))
    suites = {suite.get("name"): suite for suite in root}
    assert {name: suite.get("failures") for name, suite in suites.items()} == {
        "good.py": "0",
        "keras_fit.py": "0",
        "train.py": "3",
    }
    assert root.get("tests") == str(len(root.findall(".//testcase"))) == "7"
    assert root.get("failures") == str(len(root.findall(".//failure")))
    assert len(suites["keras_fit.py"].findall(".//skipped")) == 1
    warning = suites["train.py"].findall("testcase")[3]
    assert str(warning.get("name")).endswith(" train.py:7:10")
    assert warning.find("failure") is None


ATTRIBUTES = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {
        "name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id", "package", "file", "log",
        "url", "group",
    },
    "testcase": {"name", "classname", "time", "group"},
    "failure": {"type", "message"},
    "skipped": {"type", "message"},
    "system-out": set(),
}  # fmt: skip
"""What junit-10.xsd of Jenkins' xUnit plugin knows; it refuses a file with anything else."""
REQUIRED = {"testsuite": {"name", "tests", "failures", "errors"}, "testcase": {"name"}}


@pytest.mark.parametrize("report", [samples.SEVERAL, samples.HOSTILE, samples.GO, samples.NO_GO])
def test_junit_has_what_the_schema_knows_and_no_more(report: Report) -> None:
    for element in ElementTree.fromstring(render(report, "junit")).iter():
        assert set(element.attrib) <= ATTRIBUTES[element.tag]
        assert REQUIRED.get(element.tag, set()) <= set(element.attrib)


def test_junit_survives_any_text() -> None:
    root = ElementTree.fromstring(render(samples.HOSTILE, "junit"))
    failure = root.findall(".//failure")[1]
    assert failure.text is not None
    assert "</script><script>alert(1)</script> \\x1b[31mred" in failure.text


def test_the_table_of_findings() -> None:
    rows = list(csv.DictReader(io.StringIO(render(samples.NO_GO, "csv"))))
    assert [row["code"] for row in rows] == ["MEM002", "MEM007", "EFF002", "REP001"]
    assert rows[1]["fix"] == "Append loss.item()"
    assert rows[1]["fix_is_safe"] == "true"
    assert rows[3]["fix"] == ""


def test_the_table_of_memory() -> None:
    rows = list(csv.DictReader(io.StringIO(render(samples.SEVERAL, "csv", table="memory"))))
    parts = [row for row in rows if row["script"] == "train.py" and row["kind"] == "breakdown"]
    assert len(parts) == 9
    assert sum(float(row["mid_bytes"]) for row in parts) == pytest.approx(61.2 * GIB)
    peak = next(row for row in rows if row["script"] == "keras_fit.py" and row["name"] == "peak")
    assert peak["mid_bytes"] == ""
    assert peak["reason"] == "TensorFlow scripts are recognised but not evaluated"


def test_no_cell_is_a_formula() -> None:
    finding = msgspec.structs.replace(samples.NOTE, message="=HYPERLINK(1)", rule="@x")
    row = next(csv.DictReader(io.StringIO(render(msgspec.structs.replace(samples.GO, findings=(finding,)), "csv"))))
    assert row["message"] == "'=HYPERLINK(1)"
    assert row["rule"] == "'@x"


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown table 'x'"):
        render(samples.GO, "csv", table="x")


def test_markdown() -> None:
    assert render(samples.GO, "markdown") == snapshot("""\
# GO: good.py

GO  0 errors, 0 warnings; memory was not compared: no GPU was named

## Memory of one GPU

| what | size | interval |
| --- | --- | --- |
| peak (allocated) | 1.8 GiB | 1.5 to 2.0 GiB |
| capacity of the GPU | not known | no GPU was named, so it was not compared with a capacity |

| part | size | share |
| --- | --- | --- |
| activations | 1.2 GiB | 71 % |
| model parameters | 512 MiB | 29 % |

<details><summary>What was read</summary>

| fact | value | origin |
| --- | --- | --- |
| framework | pytorch | import |

</details>
""")
    assert render(samples.NO_GO, "markdown", sources=samples.SOURCES) == snapshot("""\
# NO-GO: train.py

NO-GO  2 errors, 1 warning, 1 note; fix the errors before training

gpu: NVIDIA A100 40GB, gpus: 1

## Critical errors (2)

1. **Memory overflow: the peak of 61.2 GiB exceeds the 39.4 GiB of the GPU**
   `train.py:11:2` · `MEM002 memory-exceeds-capacity` (certain)

   ```python
       loss.backward()
   ```

   - seen: peak: 61.2 GiB = 1,557,611,200 x 16 bytes + 29.0 GiB of activations + 8.5 GiB
   - seen: capacity: 39.4 GiB (published)
   - see: `train.py:5:9`: the model is built in fp32 here
   - hint: Train in bf16 with gradient checkpointing
     - model.gradient\\_checkpointing\\_enable()
     - and wrap the forward pass in torch.autocast('cuda', torch.bfloat16)
     - expected: activations 29.0 GiB -&gt; 2.1 GiB

2. **The list 'losses' keeps every loss with its graph, so that memory grows at each step**
   `train.py:14:2` · `MEM007 loss-kept-with-graph` (likely)

   ```python
       losses.append(loss)
   ```

   - hint: Append loss.item()
     - expected: no growth per step

## Warnings (1)

1. **The DataLoader loads in the training process, so that the GPU waits for every batch**
   `train.py:7:10` · `EFF002 dataloader-without-workers` (certain)

   ```python
   loader = DataLoader(dataset, batch_size=1)
   ```

   - seen: num\\_workers: 0 (published)
   - hint: Pass num\\_workers=4

## Notes (1)

1. **No seed is set; two runs will differ**
   `train.py:1:1` · `REP001 seed-not-set` (possible)

   ```python
   import torch
   ```


## Memory of one GPU

| what | size | interval |
| --- | --- | --- |
| peak (allocated) | 58.7 GiB | 55.0 to 63.1 GiB |
| reserved by the allocator | 60.7 GiB | 57.0 to 66.0 GiB |
| shown by the driver | 61.2 GiB | 57.5 to 66.5 GiB |
| capacity of the GPU | 39.4 GiB | **does not fit (chance that it fits: 1 %)** |

**Will run out of memory at step 0, in the forward pass**: 5.8 GiB of parameters + 35.2 GiB of activations = 41.0 GiB &gt; 39.4 GiB

| part | size | share |
| --- | --- | --- |
| activations | 29.0 GiB | 47 % |
| optimizer states | 11.6 GiB | 19 % |
| logits and loss | 6.2 GiB | 10 % |
| model parameters | 5.8 GiB | 9 % |
| gradients | 5.8 GiB | 9 % |
| fragmentation | 2.0 GiB | 3 % |
| context | 512 MiB | 1 % |
| workspace | 307 MiB | 0 % |

## Efficiency: 42 %

Significant inefficiencies

| part | score | weight | reason |
| --- | --- | --- | --- |
| precision | 30 % | 0.4 | fp32 without TF32: 19.5 of 312 TFLOP/s |
| data loading | 20 % | 0.3 | 0 workers |
| batch size | 80 % | 0.3 | 1 x 1024 tokens |

## Recommendations

| priority | change | expected | costs |
| --- | --- | --- | --- |
| critical | Enable gradient checkpointing | peak 61.2 GiB -&gt; 34.3 GiB | about a third more compute |
| high | Train under autocast in bf16 | matrix products up to 16 times faster |  |

<details><summary>What was read</summary>

| fact | value | origin |
| --- | --- | --- |
| framework | pytorch | import, train.py:1:1 |
| model.parameters | 1,557,611,200 (1.56 B) | catalog gpt2-xl, train.py:5:9 |
| optimizer.lr | 0.1 | literal, train.py:6:51 |
| batch.micro | 1 | literal, train.py:7:31 |
| sequence\\_length | not known: the dataset is not built in this file |  |

</details>

Rules that were not evaluated, for want of a fact: 2
""")


def test_markdown_shows_hostile_text_as_text() -> None:
    text = render(samples.HOSTILE, "markdown", sources=samples.HOSTILE_SOURCES)
    outside_code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("`", "x = ")))
    assert "<script" not in outside_code
    assert "@all" not in outside_code
    assert all(line.isprintable() for line in text.splitlines())


def test_markdown_fences_are_longer_than_what_they_hold() -> None:
    finding = msgspec.structs.replace(samples.NOTE, location=Location(path="a`b.py", line=1))
    report = msgspec.structs.replace(samples.GO, findings=(finding,))
    text = render(report, "markdown", sources={"a`b.py": "x = '````'\n"})
    assert "``a`b.py:1``" in text
    assert "`````python" in text
