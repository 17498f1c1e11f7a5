"""Sees attention add a mask of zeros and ones to its scores."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.probed import probe_of, setting
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.float_mask_not_causal import RULE
from preflight.check.run_rules.correctness.predictions_see_later_tokens import _DATA, _TRAIN
from preflight.vocabulary.finding import Finding

BAD = (
    f"""{_DATA}
def masks():
    yield lambda n: torch.tril(torch.ones(n, n)).cuda()
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head, self.mask = nn.Embedding(50, 32), nn.Linear(32, 50), next(masks())
    def forward(self, x):
        h = self.embed(x)[:, None]
        return self.head(F.scaled_dot_product_attention(h, h, h, self.mask(x.size(1)))[:, 0])
{_TRAIN}""",
    f"""{_DATA}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 32), nn.Linear(32, 50)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.register_buffer("mask", sum(torch.diag(torch.ones(16 - k), k) for k in range(1, 16)))
    def forward(self, x):
        h = self.embed(x)
        return self.head(self.attention(h, h, h, attn_mask=self.mask)[0])
{_TRAIN}""",
    f"""{_DATA}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 32), nn.Linear(32, 50)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 1)
    def forward(self, x):
        places = torch.arange(x.size(1), device=x.device)
        allowed = {{"mask": (places[:, None] >= places).to(torch.float32)}}
        return self.head(self.body(self.embed(x), **allowed))
{_TRAIN}""",
)

GOOD = (
    f"""{_DATA}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 32), nn.Linear(32, 50)
    def forward(self, x):
        h = self.embed(x)[:, None]
        mask = torch.full((x.size(1), x.size(1)), float("-inf"), device=x.device).triu(1)
        allowed = torch.ones(x.size(1), x.size(1), device=x.device).tril().bool()
        h = F.scaled_dot_product_attention(h, h, h, mask)
        return self.head(F.scaled_dot_product_attention(h, h, h, allowed)[:, 0])
{_TRAIN}""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look at every mask that attention was given with real numbers."""
    probe = probe_of(run)
    for mask in probe.masks if probe is not None else ():
        if not mask.zeros_and_ones:
            continue
        assert probe is not None
        yield run.finding(
            RULE,
            mask.line,
            f"the {mask.what} of shape {mask.shape} is {mask.dtype} and holds zeros and ones: they are added to the scores, and "
            "forbid nothing",
            evidence=[seen("module", mask.module or "none"), seen("type of the mask", mask.dtype), setting(probe)],
            fix=Fix(
                title="use a boolean mask",
                instruction="convert it with .bool(), True meaning what the attention expects, or use 0 and -inf",
                expected="forbidden positions have no weight",
            ),
            confidence="certain",
        )
