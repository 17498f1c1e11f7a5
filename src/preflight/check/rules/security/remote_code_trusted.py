"""Code from a model hub is run, at whatever version is newest.

## What it does
Looks for `trust_remote_code=True` without a pinned `revision`.

## Why
The flag downloads Python files from the repository and runs them with your rights.
Without a revision the code can change between two runs: by its owner, or by whoever took over the account.

## Fix
Read the code once, then pass `revision="<commit hash>"`; or use an architecture that the library ships.

## When to ignore
When the repository is your own.

## References
- Transformers documentation, "Loading a model with custom code"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.states import text_of
from preflight.check.rule import Rule
from preflight.source.values import Known, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="remote-code-trusted", code="SEC001", severity="warning", confidence="likely", layer="S", tags=("security",)
)

BAD = (
    """
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("someone/model", trust_remote_code=True)
""",
    """
import argparse
import transformers as tf
parser = argparse.ArgumentParser()
parser.add_argument("--model", default="someone/model")
parser.add_argument("--trust", type=int, default=1)
args = parser.parse_args()
OPTIONS = dict(trust_remote_code=bool(args.trust))
tokenizer = tf.AutoTokenizer.from_pretrained(args.model, **OPTIONS)
""",
    """
from dataclasses import dataclass
from datasets import load_dataset as load
@dataclass
class Config:
    data: str = "someone/data"
    trust: bool = True
def data(config):
    return load(config.data, split="train", trust_remote_code=config.trust)
data(Config())
""",
)

GOOD = (
    """
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("someone/model", trust_remote_code=True, revision="0123abcd")
other = AutoModelForCausalLM.from_pretrained("./checkpoints/mine", trust_remote_code=True)
""",
    """
import argparse
from transformers import AutoModel
parser = argparse.ArgumentParser()
parser.add_argument("--trust_remote_code", action="store_true")
args = parser.parse_args()
model = AutoModel.from_pretrained("someone/model", trust_remote_code=args.trust_remote_code)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find calls that trust code of a hub."""
    for event in context.trace.events:
        flag = event.kwargs.get("trust_remote_code")
        worth = settle(flag) if flag is not None else None
        if not isinstance(worth, Known) or worth.value is not True or event.inlined or event.context.shadow:
            continue
        if not (
            event.name.endswith(("from_pretrained", "from_config", "pipeline"))
            or event.name.startswith("datasets.load")
        ):
            continue
        revision = event.kwargs.get("revision") or event.kwargs.get("code_revision")
        pinned = settle(revision) if revision is not None else None
        if pinned is not None and not (isinstance(pinned, Known) and pinned.value in (None, "main")):
            continue
        name = text_of(event.args[0]) if event.args else None
        if name is not None and name.startswith((".", "/", "~")):
            continue
        yield context.finding(
            RULE,
            event,
            f"code of {name or 'the repository'} is downloaded and run, at whatever version is newest then",
            evidence=[Evidence("trust_remote_code", True), Evidence("revision", "not given")],
            fix=Fix(
                title="pin the revision",
                instruction='pass revision="<commit hash>" of a version whose code was read',
                expected="the code that runs is the code that was read",
            ),
        )
