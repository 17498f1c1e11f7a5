"""Sees attention that may look at later positions and at no earlier one."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.probed import probe_of, setting
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.mask_polarity_inverted import RULE
from preflight.check.run_rules.correctness.predictions_see_later_tokens import _DATA, _TRAIN
from preflight.vocabulary.finding import Finding

BAD = (
    f"""{_DATA}
def later(n):
    places = torch.arange(n).cuda()
    return places > places[:, None] - 1
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 32), nn.Linear(32, 50)
    def forward(self, x):
        h = self.embed(x)[:, None]
        return self.head(F.scaled_dot_product_attention(h, h, h, later(x.size(1)))[:, 0])
{_TRAIN}""",
    f"""{_DATA}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 32), nn.Linear(32, 50)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.register_buffer("mask", sum(torch.diag(torch.ones(16 - k), -k) for k in range(1, 16)) > 0)
    def forward(self, x):
        h = self.embed(x)
        return self.head(self.attention(h, h, h, attn_mask=self.mask)[0])
{_TRAIN}""",
    f"""{_DATA}
class Model(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.embed, self.head, self.options = nn.Embedding(50, 32), nn.Linear(32, 50), options
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 1)
    def forward(self, x):
        return self.head(self.body(self.embed(x), **{{k: v(x) for k, v in self.options.items()}}))
{_TRAIN.replace("Model()", "Model(mask=lambda x: torch.ones(16, 16, device=x.device).tril(-1).bool())")}""",
)

GOOD = (
    f"""{_DATA}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 32), nn.Linear(32, 50)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
    def forward(self, x):
        h, n = self.embed(x), x.size(1)
        forbidden = torch.ones(n, n, device=x.device).triu(1).bool()
        h = h + self.attention(h, h, h, attn_mask=forbidden, key_padding_mask=torch.zeros_like(x).bool())[0]
        return self.head(F.scaled_dot_product_attention(h[:, None], h[:, None], h[:, None], ~forbidden)[:, 0])
{_TRAIN}""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look at every mask that attention was given with real numbers."""
    probe = probe_of(run)
    for mask in probe.masks if probe is not None else ():
        if not mask.backwards:
            continue
        assert probe is not None
        yield run.finding(
            RULE,
            mask.line,
            f"the {mask.what} of shape {mask.shape} forbids every earlier position and no later one: its polarity is the "
            "reverse of a causal mask's",
            evidence=[
                seen("module", mask.module or "none"),
                seen("rows that may attend to nothing", mask.blind),
                setting(probe),
            ],
            fix=Fix(
                title="invert the mask",
                instruction="True means allowed in scaled_dot_product_attention, and forbidden in nn.MultiheadAttention and the "
                "transformer layers",
                expected="each position sees itself and earlier ones",
            ),
        )
