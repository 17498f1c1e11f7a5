"""What a library refuses of itself: what it was set to, or what a program handed to it."""

from __future__ import annotations

import pytest

from preflight.investigate.cause.exceptions import meaning_of
from preflight.investigate.cause.refusals import refused
from preflight.vocabulary.log import Frame, Hit, Raised

SITE = "/opt/conda/lib/python3.11/site-packages/"
HIT = Hit(signature="", file=0, line=1, offset=0, text="x")


def raised_in(path: str, function: str, message: str, *, name: str = "ValueError", code: str = "") -> Raised:
    frames = (Frame("/app/train.py", 7, "main", "run()"), Frame(path, 12, function, code or f"raise {name}("))
    return Raised(exception=name, message=message, frames=frames, hit=HIT)


@pytest.mark.parametrize(
    ("path", "function", "message"),
    [
        ("accelerate/utils/dataclasses.py", "__post_init__", "load_in_8bit and load_in_4bit can't be both True"),
        ("llamafactory/hparams/parser.py", "get_train_args", "PPO training does not support evaluation."),
        ("deepspeed/runtime/config.py", "_do_error_check", "fp16 and bf16 cannot both be enabled"),
        ("trl/trainer/sft_config.py", "__post_init__", "`packing=True` is incompatible with `padding_free=False`"),
        ("anylib/trainer/parts.py", "_select_backend", "Unknown backend 'x'"),
        ("mmengine/runner/runner.py", "build_optim_wrapper", "`type` must be specified in optim_wrapper"),
        ("submitit/local/local.py", "_internal_update_parameters", "LocalExecutor can use only one node. Use nodes=1"),
        ("torch/distributed/distributed_c10d.py", "init_process_group", "Invalid device:backend pairing 'x'"),
        ("/src/Megatron-LM/megatron/training/arguments.py", "validate_args", "fp16 and bf16 cannot both be enabled"),
    ],
)
def test_settings_that_do_not_add_up_are_the_environments(path: str, function: str, message: str) -> None:
    assert refused(raised_in(path if path.startswith("/") else SITE + path, function, message)) == "environment"


@pytest.mark.parametrize(
    ("path", "function", "message", "code"),
    [
        # What a program computes with.
        (SITE + "torch/nn/functional.py", "embedding_bag", "max mode does not support sparse weights", ""),
        (SITE + "sklearn/model_selection/_split.py", "__init__", "n_splits must be at least 2", ""),
        (SITE + "captum/attr/_core/saliency.py", "_select_targets", "Target 3 is not valid", ""),
        (SITE + "mapie/utils.py", "check_alpha", "alpha must be positive", ""),
        (SITE + "anylib/heads.py", "_select_outputs", "Output 3 is not valid", ""),
        (SITE + "mmdet/models/mot/qdtrack.py", "predict", "QDTrack inference only supports one image at a time", ""),
        (SITE + "accelerate/utils/operations.py", "gather", "the shapes of the tensors must be equal", ""),
        (SITE + "transformers/trainer.py", "__init__", "train_dataset does not implement __len__, max_steps has to be set", ""),
        ("/src/axolotl/.venv/lib/python3.11/site-packages/torch/optim/adam.py", "__init__", "`fused=True` is incompatible with `foreach=True`", ""),
        # Who hands on what others raised says nothing of himself.
        (SITE + "ray/_private/worker.py", "get_objects", "cannot be used", "raise value.as_instanceof_cause()"),
        (SITE + "accelerate/launchers.py", "main", "--flag must be set", "function(*args)"),
        # One's own code.
        ("/app/train.py", "__post_init__", "lr and schedule cannot be used together", ""),
    ],
)  # fmt: skip
def test_values_and_what_is_handed_on_are_not(path: str, function: str, message: str, code: str) -> None:
    assert refused(raised_in(path, function, message, code=code)) is None


def test_a_line_that_is_not_shown_is_not_taken_for_one_that_raises() -> None:
    frames = (Frame(SITE + "accelerate/utils/dataclasses.py", 12, "__post_init__"),)
    told = Raised(exception="ValueError", message="these cannot be both True", frames=frames, hit=HIT)
    assert refused(told) is None
    assert meaning_of(told).category == "usercode"


@pytest.mark.parametrize(
    ("path", "function", "name", "message", "category"),
    [
        ("streaming/base/stream.py", "get_shards", "ValueError", "Shard is invalid: it has a form too many", "data"),
        ("numpy/lib/_npyio_impl.py", "load", "ValueError", "Object arrays cannot be loaded", "data"),
        ("torchaudio/functional/filtering.py", "lfilter", "ValueError", "Expected coefficients of one kind", "usercode"),
        ("torch/utils/checkpoint.py", "backward", "RuntimeError", "none of output has requires_grad=True", "usercode"),
        ("keras/src/legacy/saving/legacy_h5_format.py", "load_model", "ValueError", "Layer count differs", "checkpoint"),
        ("openlib/zoo.py", "load_pretrained_weights", "ValueError", "3 layers differ", "checkpoint"),
        ("openlib/zoo.py", "load_class_weights", "ValueError", "3 classes differ", "usercode"),
        ("openlib/zoo.py", "download_weights", "ValueError", "3 parts differ", "usercode"),
        ("triton/language/core.py", "__getitem__", "ValueError", "too many indices", "compile"),
        ("flax/nnx/transforms/transforms.py", "lift", "ValueError", "transform target must be callable", "usercode"),
        ("botocore/signers.py", "sign", "ValueError", "value is not a legal header", "environment"),
        ("trl/models/config.py", "read", "OLMoConfigurationError", "the path of the dataset is wrong", "environment"),
        ("huggingface_hub/hf_api.py", "get", "SafetensorsParsingError", "the header is too small", "checkpoint"),
        ("submitit/core/utils.py", "__call__", "FailedJobError", "Job failed", "other"),
    ],
)  # fmt: skip
def test_where_it_was_raised_decides(path: str, function: str, name: str, message: str, category: str) -> None:
    assert meaning_of(raised_in(SITE + path, function, message, name=name)).category == category


@pytest.mark.parametrize(
    ("message", "category"),
    [
        ("`backend=foo` requires tensorboard to be installed", "environment"),
        ("only transformer-engine>=1.11.0 supports grouped kernels", "environment"),
        ("environment variable JOB_ROOT must be set", "environment"),
        ("dropout must be >= 0.0", "usercode"),
        ("the kernel requires alpha > 1", "usercode"),
        ("No inf checks were recorded for this optimizer.", "usercode"),
        ("gradient_checkpointing needs another layer", "usercode"),
        ("Device(id:3) memory isn't enough and alloc failed", "oom"),
        ("Too many NaNs were met, stopping", "numerical"),
    ],
)
def test_the_words_that_tell_what_lacks(message: str, category: str) -> None:
    assert meaning_of(Raised(exception="RuntimeError", message=message, frames=(), hit=HIT)).category == category


@pytest.mark.parametrize(
    ("exception", "message", "category"),
    [
        ("ValueError", "load_in_4bit and load_in_8bit can't be both True", "environment"),
        ("ValueError", "Please specify `target_modules` in `peft_config`", "environment"),
        ("AssertionError", "--use-precision-aware-optimizer only supported with adam", "environment"),
        ("ValueError", "The following parts need to be provided again on restore: a", "checkpoint"),
        ("ValueError", "too many values to unpack (expected 2)", "usercode"),
        ("ValueError", "Target size must be the same as input size", "usercode"),
        ("ValueError", "the shapes of 4-bit weights must be equal", "usercode"),
        ("RuntimeError", "Only fp16 and bf16 are supported by this kernel's backend", "usercode"),
    ],
)
def test_a_line_alone_names_the_setting_that_it_refuses(exception: str, message: str, category: str) -> None:
    told = Raised(exception=exception, message=message, frames=(), hit=HIT)
    assert meaning_of(told).category == category


def test_a_group_that_is_made_twice_is_the_programs() -> None:
    said = "trying to initialize the default process group twice!"
    told = raised_in(SITE + "torch/distributed/distributed_c10d.py", "init_process_group", said)
    assert meaning_of(told).category == "usercode"


def test_what_is_said_of_the_arguments_of_a_collective_is_no_matter_of_the_network() -> None:
    said = "Allreduce: Rank is not a member of the provided process set."
    raised = Raised(exception="horovod.common.exceptions.HorovodInternalError", message=said, frames=(), hit=HIT)
    lost = Raised(exception="HorovodInternalError", message="Connection closed by peer", frames=(), hit=HIT)
    assert meaning_of(raised).category == "usercode"
    assert meaning_of(lost).category == "network"


def test_a_launcher_that_lacks_a_package_says_so() -> None:
    said = "DeepSpeed is not installed => run `pip3 install deepspeed` or build it from source."
    told = raised_in(SITE + "accelerate/commands/launch.py", "deepspeed_launcher", said, name="ImportError")
    assert (meaning_of(told).category, meaning_of(told).role) == ("environment", "root")
