"""Code is loaded from a GitHub repository at no fixed version.

## What it does
Looks for `torch.hub.load("owner/name", ...)` without a tag or commit.

## Why
The call downloads the default branch and runs its `hubconf.py`.
What runs can change from one day to the next, and so can the results.

## Fix
Name a tag or commit: `torch.hub.load("owner/name:v1.0", ...)`.

## When to ignore
When the newest version is wanted and its owner is trusted.

## References
- PyTorch, `torch.hub.load`: `repo_owner/repo_name[:ref]`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.states import text_of
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="hub-repository-not-pinned",
    code="SEC002",
    severity="warning",
    confidence="likely",
    layer="S",
    tags=("security",),
)
# Owners whose repositories torch.hub loads without asking (torch/hub.py, _TRUSTED_REPO_OWNERS, PyTorch 2.13).
TRUSTED = ("facebookresearch", "facebookincubator", "pytorch", "fairinternal")

BAD = (
    """
import torch
model = torch.hub.load("someone/models", "net", pretrained=True)
""",
    """
import argparse
from torch import hub
parser = argparse.ArgumentParser()
parser.add_argument("--repo", default="someone/models")
args = parser.parse_args()
model = hub.load(args.repo, "net")
""",
    """
from torch.hub import load as fetch
class Backbone:
    source = "someone/models"
    def build(self, name):
        return fetch(self.source, name, trust_repo=True)
Backbone().build("net")
""",
    """
import torch
model = torch.hub.load("pytorch/vision", "resnet18")
""",
)

GOOD = (
    """
import torch
model = torch.hub.load("someone/models:v1.2", "net", pretrained=True)
""",
    """
import torch
model = torch.hub.load("./someone/models", "net", source="local")
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find repositories without a version."""
    for event in context.trace.calls("torch.hub.load"):
        name = text_of(event.argument(0, "repo_or_dir"))
        source = event.argument(2, "source") if "source" in event.kwargs else None
        if name is None or ":" in name or name.count("/") != 1 or name.startswith((".", "/", "~")):
            continue
        if source is not None and text_of(source) != "github":
            continue
        owner = name.partition("/")[0]
        yield context.finding(
            RULE,
            event,
            f"code of github.com/{name} is downloaded and run at no fixed version",
            severity="info" if owner in TRUSTED else "warning",
            evidence=[Evidence("repository", name), Evidence("tag or commit", "none")],
            fix=Fix(
                title="name a tag or commit",
                instruction=f'write "{name}:<tag or commit>"',
                expected="the same code runs every time",
            ),
        )
