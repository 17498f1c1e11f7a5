"""Written pages: Markdown of our own making as a page, with whatever stands in it kept harmless."""

from __future__ import annotations

from preflight.report.parts.sheet import sheet

TEXT = """\
# MEM002 `step-exceeds-device`

The step does **not** fit, see `a < b`.
It is told in two lines.

## Lists

- one `x`
- two
  `preflight explain MEM002`

1. first
2. second

## Table

| name | memory (GiB) | said |
|---|---|---|
| a|b | 22.2 | x |
| <script>alert(1)</script> | 1,555 | a \\| b |

```python
if a < b:
    print("`no code`")
```
"""


def test_a_page_has_a_header_sections_lists_tables_and_code() -> None:
    page = sheet(TEXT.replace("a|b", "a100"))
    assert "<title>MEM002 step-exceeds-device</title>" in page
    assert page.count('<header class="top">') == page.count("</header>") == 1
    assert page.count("<section>") == page.count("</section>") == 2
    assert "<p>The step does <strong>not</strong> fit, see <code>a &lt; b</code>. It is told in two lines.</p>" in page
    assert "<ul><li>one <code>x</code></li><li>two<br><code>preflight explain MEM002</code></li></ul>" in page
    assert "<ol><li>first</li><li>second</li></ol>" in page
    assert '<td class="n" data-title="memory (GiB)">22.2</td>' in page
    assert '<td data-title="said">a | b</td>' in page
    assert "if a &lt; b:\n    print(&quot;`no code`&quot;)</pre>" in page


def test_nothing_of_the_text_is_markup_and_nothing_may_run() -> None:
    page = sheet(TEXT)
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert "http" not in page.partition("</style>")[2]
    assert "--ground" in page  # the look of the reports, with its dark and its printed form
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_an_odd_mark_is_left_as_it_is() -> None:
    assert "<p>5 ` of **them</p>" in sheet("# x\n\n5 ` of **them\n")
