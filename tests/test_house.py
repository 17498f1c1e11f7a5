"""The rules of the house: who imports whom, what starting costs, what must be documented, what must not be there."""

from __future__ import annotations

import ast
import difflib
import functools
import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "preflight"
DRAWINGS = PACKAGE / "catalog" / "networks"
"""Networks of libraries in the form of Python: data, which is read and never imported."""
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if DRAWINGS not in path.parents)
LARGEST_FILE = 600
HEAVY = ("torch", "numpy", "duckdb", "rich", "plotly", "libcst", "jinja2", "transformers", "scipy", "pandas")
"""Never imported when a module of ours is imported: each of them costs more than the whole check."""

LIGHT_PATH = (*HEAVY, "yaml", "asyncio", "xml", "sqlite3", "multiprocessing", "http", "ssl", "socket")
"""Never imported while a plain script is checked and the text goes to a pipe."""

SCRIPT = """\
import torch

model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 16)).sum()
    loss.backward()
    optimizer.step()
"""


needs_cli = pytest.mark.skipif(not (PACKAGE / "cli" / "main.py").is_file(), reason="there is no command line yet")


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _tracked() -> list[Path]:
    """Return the files that git tracks, or, without git (an unpacked archive), those of the known folders."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
        return [path for name in listing.split("\0") if name and (path := ROOT / name).is_file()]
    folders = ("src", "tests", "docs", "examples", "benchmarks")
    return [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]


@functools.cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_imports_go_down_only() -> None:
    pytest.importorskip("importlinter", reason="import-linter is one of the linters, not of the torch-free tests")
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 kept, 0 broken" in done.stdout


def _imported_at_once(tree: ast.Module) -> Iterator[str]:
    """Yield the top-level names that importing the module imports, function bodies and TYPE_CHECKING apart."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting += node.orelse
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


VIRTUAL = PACKAGE / "dryrun" / "virtual"
"""What runs in the person's own process, beside the torch that is there."""
PLAN = PACKAGE / "plan"
STANDINS = VIRTUAL / "absent" / "standins"
"""Modules that take the place of a library's, and therefore bear its names."""


def _heavy_for(path: Path) -> set[str]:
    """What a module may not import when it is imported."""
    allowed: set[str] = set()
    if VIRTUAL in path.parents:
        allowed.add("torch")
    if {PLAN, STANDINS} & set(path.parents):
        # A plan works on columns of layouts, and the command line imports it where it runs it; a stand-in is imported
        # only where the script imports what it stands for, with its arrays.
        allowed.add("numpy")
    return set(HEAVY) - allowed


# One test for all modules: one for each of them costs more than what it looks at.
def test_modules_import_nothing_heavy() -> None:
    found = {_name(path): set(_imported_at_once(_parsed(path))) & _heavy_for(path) for path in MODULES}
    assert not (heavy := {name: names for name, names in found.items() if names}), (
        f"import it where it is used: {heavy}"
    )


def test_what_runs_beside_the_script_needs_nothing_of_ours() -> None:
    ours = [
        f"{_name(path)}: {ast.unparse(node)}"
        for path in VIRTUAL.rglob("*.py")
        for node in ast.walk(_parsed(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("preflight")
        if not (node.module or "").startswith("preflight.dryrun.virtual")
    ]
    assert not ours


def test_the_search_for_imports_sees_what_is_run_and_only_that() -> None:
    tree = ast.parse(
        "import rich.text\nif TYPE_CHECKING:\n    import numpy\nelse:\n    import torch\n"
        "try:\n    from plotly import io\nexcept ImportError:\n    pass\n"
        "class A:\n    import jinja2\n    def f(self):\n        import libcst\n"
    )
    assert set(_imported_at_once(tree)) == {"rich", "torch", "plotly", "jinja2"}


@needs_cli
def test_checking_a_script_for_a_pipe_stays_light(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    program = (
        "import sys\n"
        f"sys.argv = ['preflight', 'check', {str(script)!r}]\n"
        "from preflight.cli.main import main\n"
        "try:\n    status = main()\nexcept SystemExit as error:\n    status = error.code\n"
        "print('STATUS', status, file=sys.stderr)\n"
        "print('LOADED', *sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    said = dict(line.split(" ", 1) for line in done.stderr.splitlines() if line.startswith(("STATUS ", "LOADED ")))
    assert said.get("STATUS") in {"None", "0", "1", "3"}, done.stdout + done.stderr
    assert done.stdout.strip(), "nothing was said"
    assert not set(LIGHT_PATH) & set(said["LOADED"].split())


def test_modules_say_what_they_are() -> None:
    assert not [_name(path) for path in MODULES if not ast.get_docstring(_parsed(path))], "no docstring"


def test_modules_are_named_by_what_is_in_them_and_can_be_read_at_once() -> None:
    nameless = re.compile(r"(utils?|helpers?|misc|common|base_.*|.*_(utils?|helpers?))\.py")
    assert not [_name(path) for path in MODULES if STANDINS not in path.parents and nameless.fullmatch(path.name)]
    lines = {_name(path): path.read_text(encoding="utf-8").count("\n") for path in MODULES}
    assert not {name: count for name, count in lines.items() if count > LARGEST_FILE}, "split it by meaning"


def test_every_word_that_is_exported_exists() -> None:
    preflight = importlib.import_module("preflight")
    assert re.fullmatch(r"\d+\.\d+\.\d+", preflight.__version__)
    missing = [name for name in getattr(preflight, "__all__", ()) if not hasattr(preflight, name)]
    assert not missing


def test_no_public_function_bears_the_name_of_a_sub_package() -> None:
    preflight = importlib.import_module("preflight")
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    folders |= {"plan", "monitor", "investigate", "dryrun", "integrations"}
    assert not folders & set(getattr(preflight, "__all__", ()))


@pytest.fixture(scope="module")
def generate() -> Any:
    """The program that writes docs/reference."""
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def commands(generate: Any) -> list[str]:
    """Every command as it is typed."""
    written = importlib.import_module("written.commands")
    return [name for name, _ in written.commands(written.root(), "preflight")]


@needs_cli
def test_every_command_is_documented(commands: list[str]) -> None:
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").rglob("*.md"))
    assert len(commands) > 1
    assert not [name for name in commands if f"`{name}`" not in pages], "run `make docs`"


@needs_cli
def test_the_generated_reference_is_up_to_date(generate: Any) -> None:
    stale = generate.stale()
    wanted = generate.pages() if stale else {}
    lines: list[str] = []
    for name in stale:
        path = generate.REFERENCE / name
        there = path.read_text("utf-8") if path.is_file() else ""
        lines += [*difflib.unified_diff(there.splitlines(), wanted.get(name, "").splitlines(), name, n=0, lineterm="")][
            :20
        ]
    assert not stale, "\n".join(["run `make docs`", *lines])


def test_the_notice_names_every_table_and_every_document_of_others() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    tables = {path.parent for path in PACKAGE.rglob("*.toml")} | {
        path.parent for path in (ROOT / "tests").rglob("*schema*.json")
    }
    # A folder is named itself, or the folder above it is.
    missing = [
        _name(table) for table in tables if not any(_name(folder) + "/" in notice for folder in (table, table.parent))
    ]
    assert not missing, f"NOTICE does not say where the numbers of {missing} come from"


TEXT = {".py", ".md", ".toml", ".yml", ".yaml", ".json", ".txt", ".cfg", ".html", ".csv", "", ".j2", ".cff"}
MACHINE_PATH = re.compile(r"(?<![\w.$)}])/(?:work|root|home/(?!user\b|me\b|you\b)\w+|Users/(?!user\b|me\b|you\b)\w+)/")


def test_no_file_names_a_folder_of_somebodys_machine() -> None:
    found = [
        f"{_name(path)}:{number}: {line.strip()[:120]}"
        for path in _tracked()
        if path.suffix in TEXT
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", [ROOT / "action.yml", *sorted((ROOT / ".github").rglob("*.yml"))], ids=_name)
def test_no_workflow_pastes_a_value_into_a_shell(path: Path) -> None:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    jobs = [document["runs"]] if "runs" in document else list(document["jobs"].values())
    scripts = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    assert scripts
    assert not [script for script in scripts if "${{" in script], "pass it through env: and quote it"


@needs_cli
def test_the_hook_runs_a_command_that_exists(commands: list[str]) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["id"] == "preflight"
    assert hook["entry"] in commands


def test_the_installed_version_is_the_one_in_the_source() -> None:
    from importlib.metadata import PackageNotFoundError, version

    preflight = importlib.import_module("preflight")
    try:
        assert version("preflight-torch") == preflight.__version__
    except PackageNotFoundError:
        pytest.skip("preflight is imported from a folder, not installed")


def test_the_changelog_tells_of_this_version() -> None:
    preflight = importlib.import_module("preflight")
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {preflight.__version__}" in text
