"""What must not leave the house, and what must stay readable."""

from __future__ import annotations

import pytest

from preflight.investigate.redaction import HIDDEN, redact, redact_text, redact_words
from preflight.vocabulary.incident import Culprit, Incident, Moment, Quote, Reason

HEX = "0123456789abcdef" * 2
LONG = "Ab3dEf6hIj9lMn2pQr5tUv8x"
SECRETS = [
    ("export WANDB_API_KEY={}", HEX + HEX[:8]),
    ("HF_TOKEN=hf_{}", LONG),
    ("token: ghp_{}", LONG + LONG[:12]),
    ("aws_secret_access_key = {}", LONG + LONG[:16]),
    ("found AKIA{} in the environment", "IOSFODNN7EXAMPLE"),
    ("Authorization: Bearer {}", LONG + "." + LONG),
    ("curl -H 'Authorization: Basic {}'", "dXNlcjpwYXNzd29yZA=="),
    ("pulling s3://bucket?X-Amz-Signature={}&x=1", HEX),
    ("mlflow uri https://alice:{}@mlflow.local/api", "hunter2hunter2"),
    ('{{"api_key": "{}"}}', LONG),
    ("--password {} --host x", "correcthorsebattery"),
    ("MASTER_PASSWORD='{}'", "pa ss"),
    ("sk-{}", LONG),
    ("eyJhbGciOiJIUzI1NiJ9.{}.sig", LONG),
    ("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", LONG),
    ("xoxb-{}", "123456789012-abcdefghij"),
    ("database password=secret{}", "1234567"),
    ("python sync.py --password {} --host x", "S3cr3t!"),
    ("['sync.py', '--api-key', '{}']", "S3cr3t"),
    ("invalid token password={}", "horse9"),
    ("Authorization: ApiKey {}", "abcdefgh"),
    ("AuthenticationError: api_key={}", "horse99"),
    ("Server=db;Pwd={};Timeout=3", "/horse"),
    ("--token <{}>x", "horse"),
    ("--token {}", "mustang"),
    ("token: [{}]", "horse"),
]


@pytest.mark.parametrize(("text", "secret"), SECRETS, ids=[text.split("{")[0].strip()[:20] for text, _ in SECRETS])
def test_a_secret_is_taken_out(text: str, secret: str) -> None:
    shown = redact_text(text.format(secret))
    assert secret not in shown
    assert HIDDEN in shown


def test_a_line_that_is_one_long_word_is_looked_through_once() -> None:
    shown = redact_text("auth-" * 2000 + " token=s3cretword")
    assert shown == "auth-" * 2000 + f" token={HIDDEN}"


@pytest.mark.parametrize(
    "line",
    [
        "tokens per second: 12345.6",
        "num_tokens=131072 | loss 2.31",
        "pad_token: '<|endoftext|>'",
        "tokenizer = AutoTokenizer.from_pretrained(name)",
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=1048576)",
        "trainable params: 4,194,304 || all params: 6,742,609,920",
        "exitcode  : -9 (pid: 4242)",
        "Invalid token in line 3",
        "total_tokens: 1000000000000",
        "author: the team",
        "the password was not accepted",
        "error: argument --auth-token: expected one argument",
        "usage: sync.py [--password PASSWORD] --token --host HOST",
        "ValueError: --token must be set",
        "pass --token or set it in the environment; --api-key cannot be empty",
        "  --hub-token   The token with which it is pushed (default: None)",
        "run it with --token <your token>",
        "google.auth.exceptions.DefaultCredentialsError: Could not automatically determine credentials.",
        "botocore.exceptions.NoCredentialsError: Unable to locate credentials",
        "LocalTokenNotFoundError: Token is required (`token=True`), but no token found.",
        "FileNotFoundError: credentials.json: cannot be opened",
        "token_embedding.weight: size mismatch",
        "dist_token: torch.Size([1, 1, 768])",
        "SyntaxError: Unexpected token: '}' at line 3",
        "PWD=/job/fit",
        "the special token: [MASK] is not known",
    ],
)
def test_what_a_log_says_of_training_stays(line: str) -> None:
    assert redact_text(line) == line


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/home/jane.doe/project/train.py:31", "project/train.py:31"),
        ("/Users" + "/jdoe/x.py", "x.py"),
        ("C:\\Users\\Jane\\run\\train.py", "run\\train.py"),
        ("/fsx/home/jane/ckpt", "ckpt"),
        ("/scratch/jdoe99/data", "data"),
    ],
)
def test_whose_home_it_is_goes_and_the_rest_of_the_path_stays(path: str, kept: str) -> None:
    shown = redact_text(f'File "{path}"')
    assert kept in shown
    assert not any(name in shown for name in ("jane", "Jane", "jdoe"))
    assert redact_text(f'File "{path}"', paths=False) == f'File "{path}"'


def test_every_text_of_an_incident_is_redacted_and_the_rest_is_as_it_was() -> None:
    secret = "hf_" + LONG
    quote = Quote(path="/home" + "/jane/logs/rank_3.log", line=7, text=f"HF_TOKEN={secret}")
    incident = Incident(
        state="crashed", onset=None, scope="rank", category="oom", root_category="oom", symptom_category="network",
        signature="oom.cuda-allocation", confidence=0.9, headline=f"died with {secret}",
        culprit=Culprit(ranks=(3,), confidence=0.9, reasons=(Reason(text="first", weight=2.5, quotes=(quote,)),)),
        timeline=(Moment(text=secret, role="root", rank=3, time=1.5, quote=quote),),
    )  # fmt: skip
    shown = redact(incident)
    assert secret not in str(shown)
    assert "jane" not in str(shown)
    assert shown.culprit.ranks == (3,)
    assert shown.culprit.reasons[0].weight == 2.5
    assert shown.timeline[0].time == 1.5
    assert shown.timeline[0].quote is not None
    assert shown.timeline[0].quote.line == 7
    assert redact(shown) == shown


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("export AWS_SESSION_TOKEN=IQoJb3JpZ2luX2Vj", "IQoJb3JpZ2luX2Vj"),
        ("auth_token: s3cretword", "s3cretword"),
        ('{"access_token": "abcdefgh"}', "abcdefgh"),
        (r"{\"api_key\": \"abcdefgh\"}", "abcdefgh"),
        ("Authorization: ApiKey abcdefgh", "ApiKey"),
        ("cloning https://0123456789abcdef0123@git.example.org/x", "0123456789abcdef0123"),
    ],
)
def test_names_with_a_word_that_is_also_a_count_hide_their_value(text: str, secret: str) -> None:
    shown = redact_text(text)
    assert secret not in shown
    assert redact_text(shown) == shown


@pytest.mark.parametrize(
    "text",
    ["max_tokens: 4096000", "pad_token=</s>", "tokenizer_name: Llama-tokenizer", "tokens_per_second=12345678",
     "author: somebody@", "num_tokens_seen: 1234567890", "next_token: definitely"],
)  # fmt: skip
def test_counts_of_tokens_are_no_secrets(text: str) -> None:
    assert redact_text(text) == text


def test_a_command_line_is_told_without_the_values_of_secret_options() -> None:
    words = ("run", "--webhook", "https://x.example/1/abc", "--password", "horse", "--api-key=staple", "--max-tokens", "5",
             "--webhook", "--quiet", "train.py")  # fmt: skip
    assert redact_words(words) == (
        "run", "--webhook", "[redacted]", "--password", "[redacted]", "--api-key=[redacted]", "--max-tokens", "5",
        "--webhook", "--quiet", "train.py",
    )  # fmt: skip
