"""What an exception is taken for, by itself, without a traceback, or cut off before its name."""

from __future__ import annotations

import pytest

from preflight.investigate.cause.exceptions import meaning_of, meaning_of_line
from preflight.investigate.cause.keys import looked_up, of_another_version
from preflight.vocabulary.log import Frame, Hit, Raised

SAID = "unexpected keyword argument 'best'"


def hit(text: str) -> Hit:
    return Hit(signature="", file=0, line=1, offset=0, text=text)


def test_a_cut_off_traceback_names_nothing() -> None:
    mine = Raised(exception="", message="", frames=(Frame("train.py", 27, "<module>"),), hit=hit("x"))
    launcher = Raised(
        exception="", message="", frames=(Frame("/env/torch/distributed/run.py", 753, "run"),), hit=hit("x")
    )
    assert (meaning_of(mine).category, meaning_of(mine).role) == ("other", "cascade")
    assert meaning_of(launcher).role == "teardown"


@pytest.mark.parametrize(
    ("exception", "message", "category"),
    [
        ("FileNotFoundError", "[Errno 2] No such file or directory: '/scratch/coco/train2017/000000001.jpg'", "data"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'out/last.ckpt'", "checkpoint"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'", "environment"),
        ("requests.exceptions.ConnectionError", "HTTPSConnectionPool(host='huggingface.co', port=443)", "environment"),
        ("ConnectionError", "rank 3 is away", "network"),
        ("omegaconf.errors.ConfigAttributeError", "Key 'lr' is not in struct", "environment"),
        ("torch.fx.proxy.TraceError", "symbolically traced variables cannot be used as inputs", "compile"),
        ("torch.jit.frontend.NotSupportedError", "Comprehension ifs are not supported yet", "compile"),
        ("KeyError", "'labels'", "usercode"),
        ("RuntimeError", "The file 'llama.cpp/llama-quantize' does not exist", "environment"),
        ("ValueError", "path /mnt/coco/train.json doesn't exist", "data"),
        ("ValueError", "the option /mnt/coco/train.json is wrong", "usercode"),
    ],
)
def test_what_its_class_and_its_message_say(exception: str, message: str, category: str) -> None:
    raised = Raised(exception=exception, message=message, frames=(), hit=hit("x"))
    assert meaning_of(raised).category == category


@pytest.mark.parametrize(
    ("exception", "path", "function", "expected"),
    [
        ("ValueError", "/env/accelerate/commands/launch.py", "_validate_launch_command", ("environment", "root")),
        ("ValueError", "/env/deepspeed/launcher/runner.py", "fetch_hostfile", ("environment", "root")),
        ("NameError", "/env/deepspeed/launcher/runner.py", "sigkill_handler", ("other", "teardown")),
        ("ValueError", "/env/deepspeed/launcher/launch.py", "sigkill_handler", ("other", "teardown")),
        ("CalledProcessError", "/env/accelerate/commands/launch.py", "simple_launcher", ("other", "teardown")),
    ],
)
def test_a_launcher_is_at_fault_only_where_it_speaks_of_its_arguments(
    exception: str, path: str, function: str, expected: tuple[str, str]
) -> None:
    raised = Raised(exception=exception, message="wrong", frames=(Frame(path, 3, function),), hit=hit("x"))
    assert (meaning_of(raised).category, meaning_of(raised).role) == expected


@pytest.mark.parametrize(
    ("message", "category"),
    [
        ("the new group's rank should be within the world_size set by init_process_group", "usercode"),
        ("Connection reset by peer", "network"),
        ("Timed out waiting for clients", "network"),
        ("", "network"),
    ],
)
def test_what_checks_arguments_where_processes_talk_is_not_about_the_network(message: str, category: str) -> None:
    frames = (Frame("train.py", 3, "main"), Frame("/env/torch/distributed/distributed_c10d.py", 4, "new_group"))
    assert (
        meaning_of(Raised(exception="RuntimeError", message=message, frames=frames, hit=hit("x"))).category == category
    )


@pytest.mark.parametrize(
    ("exception", "message", "category"),
    [
        ("stac.errors.APIError", "The request exceeded the maximum allowed time", "environment"),
        ("tools.CUDAMismatchException", "12.2 is not 11.8", "environment"),
        ("loaders.ImageFileError", "a.nii.gz is no gzip", "data"),
        ("RuntimeError", "Detected that PyTorch and torchvision were compiled with different CUDA versions", "environment"),
        ("ValueError", "No available memory for the cache blocks", "oom"),
        ("AssertionError", "Image Not Found /data/1.jpg", "data"),
        ("torch._C._LinAlgError", "the input is wrong", "numerical"),
    ],
)  # fmt: skip
def test_words_of_a_name_and_of_a_message_tell_where_nothing_else_does(
    exception: str, message: str, category: str
) -> None:
    raised = Raised(exception=exception, message=message, frames=(), hit=hit("x"))
    assert (meaning_of(raised).category, meaning_of(raised).role) == (category, "root")


def test_a_thread_of_a_tracker_ends_no_training() -> None:
    inner = Frame("/env/lib/python3.10/site-packages/wandb/sdk/lib/sock_client.py", 130, "_send")
    thread = Frame("/usr/lib/python3.10/threading.py", 1016, "_bootstrap_inner")
    script = Frame("train.py", 9, "main")
    role = {
        outer: meaning_of(
            Raised(exception="BrokenPipeError", message="Broken pipe", frames=(outer, inner), hit=hit("x"))
        )
        for outer in (thread, script)
    }
    assert (role[thread].role, role[script].role, role[script].category) == ("benign", "teardown", "environment")


def test_what_a_tracker_caught_and_printed_itself_ended_no_training() -> None:
    reads = Frame("/env/lib/python3.10/site-packages/wandb/sdk/interface/router_sock.py", 30, "_read_message")
    loop = Frame("/env/lib/python3.10/site-packages/wandb/sdk/interface/router.py", 70, "message_loop")
    sweep = Frame("/env/lib/python3.10/site-packages/wandb/agents/pyagent.py", 308, "_run_job")
    function = Frame("/home/me/sweep.py", 12, "fit")
    script = Frame("/home/me/sweep.py", 40, "<module>")
    role = {
        frames: meaning_of(
            Raised(exception="wandb.sdk.ClosedError", message="", frames=frames, hit=hit("x"), begins=begins)
        ).role
        for frames, begins in (
            ((loop, reads), 1), ((reads,), 1), ((sweep, function, reads), 1), ((script, reads), 1), ((reads, loop), None),
        )
    }  # fmt: skip
    assert list(role.values()) == ["benign", "benign", "root", "root", "root"]


@pytest.mark.parametrize(
    ("message", "path", "function", "category"),
    [
        ("'SCRATCH'", "/env/lib/python3.8/os.py", "__getitem__", "environment"),
        ("'new_model'", "/env/site-packages/transformers/models/auto/configuration_auto.py", "__getitem__", "environment"),
        ("'LOCAL_RANK'", "train.py", "main", "environment"),
        ("'model_state_dict'", "train.py", "main", "checkpoint"),
        ("'optimizer'", "train.py", "main", "checkpoint"),
        ("\"Column train not in the dataset. Columns are: ['text']\"", "train.py", "main", "data"),
        ("'labels'", "train.py", "main", None),
    ],
)  # fmt: skip
def test_a_key_tells_whose_it_is(message: str, path: str, function: str, category: str | None) -> None:
    raised = Raised(exception="KeyError", message=message, frames=(Frame(path, 3, function),), hit=hit("x"))
    assert looked_up(raised) == category


@pytest.mark.parametrize(
    ("key", "path", "code", "category"),
    [
        ("file_name", "train.py", "info['filename'] = info['file_name']", "data"),
        ("annos", "train.py", 'found = [one_info["annos"] for one_info in infos]', "data"),
        ("epoch", "train.py", 'start = torch.load(path, map_location="cpu")["epoch"]', None),
        ("epoch", "train.py", 'start = checkpoint["epoch"]', "checkpoint"),
        ("model", "train.py", 'net.load_state_dict(ckpt["model"])', "checkpoint"),
        ("labels", "train.py", 'loss = criterion(out, batch["labels"])', None),
        ("lr", "/repo/datasets/train.py", 'print(metrics["lr"])', None),
        ("id", "/repo/datasets/coco.py", "", "data"),
        ("validation", "/env/site-packages/datasets/dataset_dict.py", "return super().__getitem__(k)", None),
        ("file name", "train.py", 'path = row["file name"]', "data"),
        ("model state", "train.py", 'net.load(ckpt["model state"])', "checkpoint"),
        ("Dataset name", "train.py", 'print(metrics["Dataset name"])', None),
        ("rope", "/env/site-packages/acme/rope.py", "kind = ROPE_KINDS[kind]", "environment"),
        ("rope", "/env/site-packages/acme/rope.py", "kind = ROPE_KINDS[ 'rope' ]", None),
    ],
)
def test_the_line_that_looks_a_key_up_tells_in_what(key: str, path: str, code: str, category: str | None) -> None:
    frames = (Frame("run.py", 1, "<module>"), Frame(path, 3, "main", code))
    assert looked_up(Raised(exception="KeyError", message=f"'{key}'", frames=frames, hit=hit("x"))) == category


@pytest.mark.parametrize(
    ("callee", "inner", "another"),
    [
        ("save_model", "/repo/train.py", False),
        ("Net.forward", "/env/site-packages/torch/nn/modules/module.py", False),
        ("TrainingArguments.__init__", "/repo/train.py", True),
        ("compute_loss", "/env/site-packages/transformers/trainer.py", True),
    ],
)
def test_who_does_not_take_an_argument(callee: str, inner: str, another: bool) -> None:
    frames = (Frame("/repo/train.py", 2, "main"), Frame(inner, 3, "f"))
    raised = Raised(exception="TypeError", message=f"{callee}() got an {SAID}", frames=frames, hit=hit("x"))
    assert of_another_version(raised) is another


@pytest.mark.parametrize(
    ("exception", "path", "function", "category"),
    [
        ("ValueError", "/repo/utils/data_aug.py", "mix", "data"),
        ("AssertionError", "/repo/preprocess_datasets/pickles.py", "run", "data"),
        ("ValueError", "/repo/run.py", "process_and_save_data", "data"),
        ("ValueError", "/repo/run.py", "process_group", "usercode"),
    ],
)
def test_what_prepares_samples_is_about_them(exception: str, path: str, function: str, category: str) -> None:
    raised = Raised(exception=exception, message="does not fit", frames=(Frame(path, 3, function),), hit=hit("x"))
    assert meaning_of(raised).category == category


@pytest.mark.parametrize(
    ("exception", "paths", "expected"),
    [
        ("EOFError", ("/env/stable_baselines3/common/vec_env/subproc_vec_env.py",), ("other", "cascade")),
        ("BrokenPipeError", ("/env/torch/utils/data/dataloader.py",), ("data", "cascade")),
        ("ConnectionResetError", ("train.py",), ("other", "cascade")),
    ],
)
def test_who_hears_nothing_more_from_a_process_is_not_the_one_that_failed(
    exception: str, paths: tuple[str, ...], expected: tuple[str, str]
) -> None:
    pipe = Frame("/usr/lib/python3.12/multiprocessing/connection.py", 250, "recv")
    frames = (*(Frame(path, 3, "run") for path in paths), pipe)
    meaning = meaning_of(Raised(exception=exception, message="", frames=frames, hit=hit("x")))
    assert (meaning.category, meaning.role) == expected
    alone = meaning_of(Raised(exception="EOFError", message="Ran out of input", frames=frames[:1], hit=hit("x")))
    assert alone.category == "data"


@pytest.mark.parametrize(
    ("path", "function", "code", "category"),
    [
        ("/env/torch/utils/cpp_extension.py", "load", "_write_ninja_file_and_build_library(", "compile"),
        ("/env/torch/cuda/__init__.py", "set_device", "torch._C._cuda_setDevice(device)", "environment"),
        ("/env/torch/nn/functional.py", "threshold", "result = _VF.threshold(input, threshold)", "usercode"),
        (
            "/env/torch/autograd/__init__.py",
            "_make_grads",
            'raise RuntimeError("Mismatch in shape: grad[0]',
            "usercode",
        ),
        ("train.py", "main", 'raise FileNotFoundError(f"no such file: data/coco/train.json")', "data"),
        ("train.py", "main", "main()", "other"),
    ],
)
def test_the_last_line_of_a_traceback_that_is_cut_off_tells(path: str, function: str, code: str, category: str) -> None:
    raised = Raised(exception="", message="", frames=(Frame(path, 3, function, code),), hit=hit("x"))
    assert meaning_of(raised).category == category


def test_what_an_optimizer_keeps_does_not_fit_after_it_was_loaded() -> None:
    frames = (Frame("train.py", 9, "main"), Frame("/env/torch/optim/sgd.py", 94, "step"))
    told = {
        message: meaning_of(Raised(exception="RuntimeError", message=message, frames=frames, hit=hit("x"))).category
        for message in ("invalid argument 3: sizes do not match", "grads are sparse")
    }
    assert told == {"invalid argument 3: sizes do not match": "checkpoint", "grads are sparse": "usercode"}


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='huggingface.co', port=443): Read timed out.", "environment"),
        ("pkg_resources.ContextualVersionConflict: (hub 0.23.0, Requirement.parse('hub<0.20'), {'tokenizers'})", "environment"),
        ("RuntimeError: output with shape [1, 32, 32] doesn't match the broadcast shape [3, 32, 32]", "data"),
        ("RuntimeError: Attempting to deserialize object on CUDA device 2", "checkpoint"),
        ("ERROR: Check failed: device != nullptr", "other"),
        ("ERROR: Check failed: allocate() (RESOURCE_EXHAUSTED: out of memory)", "oom"),
    ],
)  # fmt: skip
def test_a_line_alone_tells_by_its_class_and_its_words(text: str, category: str) -> None:
    meaning = meaning_of_line(text)
    assert meaning is not None
    assert meaning.category == category


@pytest.mark.parametrize("path", ["<frozen os>", "/usr/lib/python3.9/os.py"])
def test_python_reads_the_environment_also_where_its_module_is_frozen(path: str) -> None:
    frames = (Frame("data.py", 3, "batches"), Frame(path, 679, "__getitem__"))
    assert (
        looked_up(Raised(exception="KeyError", message="'CORPUS_ROOT'", frames=frames, hit=hit("x"))) == "environment"
    )


@pytest.mark.parametrize(
    ("path", "category"),
    [("/data/check.py", "usercode"), ("/job/data/check.py", "data"), ("/data/job/check.py", "usercode")],
)
def test_the_folder_in_which_a_disk_is_mounted_says_nothing_of_a_program(path: str, category: str) -> None:
    raised = Raised(exception="RuntimeError", message="wrong", frames=(Frame(path, 3, "run"),), hit=hit("x"))
    assert meaning_of(raised).category == category


@pytest.mark.parametrize(
    ("exception", "message", "path", "told"),
    [
        ("RuntimeError", "Step 1 exited with non-zero status 1", "train.py", ("other", "teardown")),
        ("Exception", "worker 3 failed with exit code 2", "train.py", ("other", "teardown")),
        (
            "RuntimeError",
            "Step 1 exited with non-zero status 1: no space left on device",
            "train.py",
            ("checkpoint", "root"),
        ),
        ("RuntimeError", "the server returned status 404", "train.py", ("usercode", "root")),
        ("RuntimeError", "ninja failed with exit code 1", "/env/torch/utils/cpp_extension.py", ("compile", "root")),
        ("KeyError", "exited with code 1", "train.py", ("usercode", "root")),
        ("RuntimeError", "the build failed with non-zero status 2", "train.py", ("other", "teardown")),
        (
            "RuntimeError",
            "cuInit failed with error code 100",
            "train.py",
            ("usercode", "root"),
        ),  # no program that ended
        ("RuntimeError", "reduce failed with status 2", "train.py", ("usercode", "root")),
    ],
)
def test_what_only_tells_how_another_program_ended_is_no_cause(
    exception: str, message: str, path: str, told: tuple[str, str]
) -> None:
    one = Raised(exception=exception, message=message, frames=(Frame(path, 9, "launch"),), hit=hit(message))
    assert (meaning_of(one).category, meaning_of(one).role) == told


@pytest.mark.parametrize(
    ("message", "role"),
    [
        ("Connection reset by peer", "cascade"),
        ("[Errno 104] Connection closed by remote peer", "cascade"),
        ("could not write: the connection was closed", "root"),
    ],
)
def test_that_the_other_end_is_gone_is_nothing_of_ones_own(message: str, role: str) -> None:
    raised = Raised(exception="RuntimeError", message=message, frames=(), hit=hit("x"))
    assert meaning_of(raised).role == role
