"""What the place says at which something was raised: where a loader is made, where a name is looked up, what reads a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.source.logs import read_logs

_LIBRARY = "/env/lib/python3.10/site-packages"


def told(folder: Path, error: str, *frames: tuple[str, str, str]) -> str:
    shown = "".join(f'  File "{path}", line 9, in {function}\n    {code}\n' for path, function, code in frames)
    (folder / "run.log").write_text(f"Traceback (most recent call last):\n{shown}{error}\n")
    incident = diagnose(folder).incident
    assert incident is not None
    return incident.category


@pytest.mark.parametrize(
    ("path", "function", "error", "category"),
    [
        (
            "sampler.py",
            "__init__",
            "ValueError: batch_size should be a positive integer value, but got 4.0",
            "usercode",
        ),
        ("dataloader.py", "__init__", "ValueError: prefetch_factor option should be non-negative", "usercode"),
        ("sampler.py", "__init__", "ValueError: num_samples should be a positive integer value, but got 0", "data"),
        ("sampler.py", "__iter__", "ValueError: weights hold no sample", "data"),
    ],
)
def test_what_a_loader_is_made_with_is_the_programs(
    tmp_path: Path, path: str, function: str, error: str, category: str
) -> None:
    frame = (f"{_LIBRARY}/torch/utils/data/{path}", function, 'raise ValueError("...")')
    assert told(tmp_path, error, ("/job/train.py", "get_data_loader", "DataLoader(items, 4.0)"), frame) == category


def test_a_name_is_of_who_looks_it_up(tmp_path: Path) -> None:
    looks_up = (f"{_LIBRARY}/transformers/tokenization_utils_base.py", "__getattr__", "raise AttributeError(f'{key}')")
    error = "AttributeError: FastTokenizer has no attribute r1c5"
    assert told(tmp_path, error, ("/job/models/vision.py", "forward", "self.tokenizer.r1c5"), looks_up) == "usercode"
    assert told(tmp_path, error, ("/job/data/collators.py", "collate", "tokenizer.r1c5"), looks_up) == "data"


def test_a_file_that_holds_something_else_is_no_message_of_a_rank(tmp_path: Path) -> None:
    error = r"_pickle.UnpicklingError: invalid load key, '\x00'."
    loads = (f"{_LIBRARY}/torch/serialization.py", "_legacy_load", "magic_number = pickle_module.load(f)")
    gathers = (
        f"{_LIBRARY}/torch/distributed/distributed_c10d.py",
        "_tensor_to_object",
        "return _unpickler(buf).load()",
    )
    assert told(tmp_path, error, ("/job/train.py", "main", 'torch.load("last.pt")'), loads) == "checkpoint"
    assert told(tmp_path, error, ("/job/train.py", "main", "all_gather_object(out, mine)"), gathers) == "usercode"


@pytest.mark.parametrize(
    ("message", "category"),
    [
        ("Tensorboard already patched. Call `wandb.tensorboard.unpatch()` first", "usercode"),
        ("You must call wandb.init() before wandb.log()", "usercode"),
        ("api_key not configured (no-tty). call wandb.login(key=[your_api_key])", "environment"),
    ],
)
def test_in_which_order_a_library_is_called_is_the_programs(tmp_path: Path, message: str, category: str) -> None:
    raises = (f"{_LIBRARY}/wandb/integration/tensorboard/monkeypatch.py", "patch", "raise ValueError(")
    assert told(tmp_path, f"ValueError: {message}", ("/job/train.py", "main", "patch()"), raises) == category


@pytest.mark.parametrize(
    "path",
    ["torchinductor/ir.py", "torchdynamo/eval_frame.py", "torch/_inductor/ir.py", "torch/_functorch/partitioners.py"],
)
def test_a_compiler_is_one_where_it_had_a_package_of_its_own(tmp_path: Path, path: str) -> None:
    asserts = (f"/fsx/me/{path}", "unwrap_storage", "assert isinstance(x, (Buffer, ReinterpretView)), x")
    assert told(tmp_path, "AssertionError: View(", ("/job/train.py", "main", "step(batch)"), asserts) == "compile"


def test_what_a_data_set_wants_from_itself_and_lacks_is_the_programs(tmp_path: Path) -> None:
    fetches = (f"{_LIBRARY}/torch/utils/data/_utils/fetch.py", "fetch", "[self.dataset[i] for i in index]")
    lacks = ("/job/train.py", "__getitem__", "latent = self.model_encode(image)")
    error = "AttributeError: 'LatentDataset' object has no attribute 'model_encode'"
    assert told(tmp_path, error, ("/job/train.py", "main", "for batch in loader:"), fetches, lacks) == "usercode"
    reads = ("/job/train.py", "__getitem__", "height = image.shape[0]")
    empty = "AttributeError: 'NoneType' object has no attribute 'shape'"
    assert told(tmp_path, empty, ("/job/train.py", "main", "for batch in loader:"), fetches, reads) == "data"


def test_sizes_that_do_not_divide_are_settings_only_where_a_library_looks_at_what_it_was_set_to(tmp_path: Path) -> None:
    error = "ValueError: hidden_size (128) must be divisible by num_heads (13)"
    own = ("/job/models/graph.py", "__init__", "raise ValueError(said)")
    assert told(tmp_path, error, ("/job/train.py", "main", "Net(args)"), own) == "usercode"
    settings = (f"{_LIBRARY}/megakit/training/arguments.py", "validate_args", "raise ValueError(said)")
    assert told(tmp_path, error, ("/job/train.py", "main", "setup()"), settings) == "environment"
    layout = "ValueError: num_heads (8) must be divisible by tensor_parallel_size (3)"
    assert told(tmp_path, layout, ("/job/train.py", "main", "Net(args)"), own) == "environment"


def test_what_failed_before_a_person_stopped_the_launcher_is_the_failure(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    stops = "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 4244 closing signal SIGINT\n"
    log.write_text("step 1 loss 2.5\n" + stops)
    assert diagnose(log).incident.category == "preemption"
    fails = (
        'Traceback (most recent call last):\n  File "/job/train.py", line 9, in main\n    step(batch)\n'
        "RuntimeError: Boolean value of Tensor with more than one value is ambiguous\n"
    )
    log.write_text("step 1 loss 2.5\n" + fails + stops)
    assert diagnose(log).incident.category == "usercode"
    log.write_text("step 1 loss 2.5\n" + fails + stops.replace("SIGINT", "SIGTERM"))
    assert diagnose(log).incident.category == "usercode"


def test_devices_that_do_not_divide_are_told_as_a_layout_alone(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("ValueError: Number of devices 4 must be divisible by the number of FSDP devices 8.\n")
    assert [hit.signature for hit in read_logs([log]).hits] == ["environment.parallel-sizes"]


def test_random_states_that_do_not_load_are_of_a_checkpoint(tmp_path: Path) -> None:
    error = "TypeError: RNG state must be a torch.ByteTensor"
    inner = (f"{_LIBRARY}/torch/cuda/random.py", "set_rng_state", "_lazy_call(cb)")
    assert told(tmp_path, error, ("/job/train.py", "_load_rng_state", "set_rng_state(kept)"), inner) == "checkpoint"
    assert told(tmp_path, error, ("/job/train.py", "main", "set_rng_state(mine)"), inner) == "usercode"
