# make demo    a training script is checked and planned (no torch, no GPU)
# make story   the whole life of a run: checked, planned, watched, investigated, verified; installs torch
# make test    the whole test suite, with torch from constraints.txt
# make lint    formatting, linting, types, and which module may import which
# make docs    write docs/reference from the program itself
# make site    build the documentation as a site: build/site/index.html opens without a server
#
# Everything is installed into $(VENV) once; a stamp file says what is there already.
# PYTHON=python3.12 picks the interpreter.
# TORCH_INDEX=https://download.pytorch.org/whl/cpu takes torch's CPU build from its own index.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: help demo story test test-core lint docs site clean

VENV ?= .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
# Python 3.11 first: it is the version that the tests with torch are run on.
PYTHON ?= python3.11 python3 python3.12 python3.13 python3.10
TORCH_INDEX ?=
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
PYTEST_ARGS ?= -n auto
# make demo DEMO_SCRIPT=train.py DEMO_ARGS='--gpu h100' checks a script of your own instead.
DEMO_SCRIPT ?=
DEMO_ARGS ?=

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

demo: $(STAMPS)/core
	@$(BIN)/preflight --version
ifeq ($(strip $(DEMO_SCRIPT)),)
	@$(BIN)/python examples/story/tell.py 1 2
	@echo; echo 'The other parts watch it train, find the rank that crashed and verify the fix: make story (installs torch),'
	@echo 'or read examples/story/README.md. Your own script: $(BIN)/preflight check train.py --gpu h100'
else
	@# 1 is the answer NO-GO, which is what a broken script deserves; anything above it is a failure of the demo.
	@rc=0; $(BIN)/preflight check $(DEMO_SCRIPT) $(DEMO_ARGS) || rc=$$?; echo "exit code $$rc"; [ $$rc -le 1 ]
endif

story: $(STAMPS)/core $(STAMPS)/torch
	@$(BIN)/python examples/story/tell.py

test: $(STAMPS)/models $(STAMPS)/extras $(STAMPS)/dev $(STAMPS)/docs
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# The tests that need no torch, in an environment that has none.
test-core: $(STAMPS)/test
	$(BIN)/python -m pytest -m 'not torch and not browser and not ray and not slurm' $(PYTEST_ARGS)

lint: $(STAMPS)/dev
	@failed=; \
	for linter in 'ruff format --check --output-format concise .' 'ruff check --output-format concise .' mypy 'lint-imports --no-cache'; do \
	  echo "$$linter"; $(BIN)/$$linter || failed="$$failed, $$linter"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed: $${failed#, }" >&2; exit 1; fi

docs: $(STAMPS)/core
	$(BIN)/python docs/generate.py

site: $(STAMPS)/core $(STAMPS)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo 'build/site/index.html'

clean:
	rm -rf $(VENV) .venv-3.* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(STAMPS)/venv:
	@if [ ! -x $(BIN)/python ]; then \
	  found=; \
	  for candidate in $(PYTHON); do \
	    if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then found=$$candidate; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then echo 'no Python 3.10 or newer with venv and ensurepip; name one: make PYTHON=/path/to/python3' >&2; exit 1; fi; \
	  echo "creating $(VENV) with $$("$$found" --version)"; \
	  "$$found" -m venv $(VENV); \
	fi
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/core: $(STAMPS)/venv pyproject.toml constraints.txt
	$(PIP) --editable .
	@touch $@

$(STAMPS)/test: $(STAMPS)/core
	$(PIP) --editable '.[test]'
	@touch $@

# Everything optional, so that no test of the whole suite is skipped for want of a library. Some of it builds on torch.
$(STAMPS)/extras: $(STAMPS)/core $(STAMPS)/torch
	$(PIP) --editable '.[live,logs,lsp,peers,ray,ui,accelerate,lightning,prometheus,wandb]'
	@# drain3 asks for exactly cachetools 4.2.1, MLflow for a newer one. drain3 works with that, so MLflow comes after it.
	$(PIP) --editable '.[mlflow]'
	@touch $@

$(STAMPS)/dev: $(STAMPS)/core
	$(PIP) --editable '.[dev]'
	@touch $@

$(STAMPS)/docs: $(STAMPS)/core
	$(PIP) --editable '.[docs]'
	@touch $@

# torch comes first and alone: with it there, what follows has no reason to fetch another build.
$(STAMPS)/torch: $(STAMPS)/venv constraints.txt
	$(PIP) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch numpy
	@touch $@

# timm asks for torchvision, whose builds want CUDA. What the tests use of timm does not, so timm comes without what it asks for.
$(STAMPS)/models: $(STAMPS)/torch
	$(PIP) transformers huggingface_hub safetensors pillow
	$(PIP) --no-deps timm
	@touch $@
