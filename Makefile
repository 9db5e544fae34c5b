# Every target builds .venv first if it is missing. To be set on the command line:
#   PYTHON=python3.12   the Python that .venv is made with
#   KEEP_TORCH=yes      use the torch that this Python has; no: not even if it sees a GPU
#   LAB_FLAGS=...       passed to JupyterLab
#   NOTEBOOKS=... TESTS=...   only some of them: TESTS=tests/model
#   MINUTES=...         of each simulated trace, for figures-paper
PYTHON ?= python3
VENV   ?= .venv
EXTRAS ?= lab,serve,test
BIN    := $(VENV)/bin
CONSTRAINTS := constraints.txt
# A folder is found from the notebooks' own folder too.
ifneq ($(wildcard $(MINIPAGED_MODEL)),)
export MINIPAGED_MODEL := $(abspath $(MINIPAGED_MODEL))
endif
LESSON ?= notebooks/00_ten_minutes.ipynb

.DEFAULT_GOAL := help
.PHONY: help lab lessons save-lessons test test-thorough test-oldest test-newest
.PHONY: test-clients test-ray playground test-playground
.PHONY: browser lint figures figures-paper pocket pocket-draft bench bench-one home clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

lab: $(VENV)/.ready  ## open the notebooks in JupyterLab, at the ten-minute start
	$(BIN)/python -m jupyterlab --ServerApp.root_dir="$(CURDIR)" \
	  --LabApp.default_url=/lab/tree/$(LESSON) $(if $(filter 0,$(shell id -u)),--allow-root) $(LAB_FLAGS)

lessons: $(VENV)/.ready  ## run every notebook without a browser; ends in a table of proofs
	$(BIN)/python tools/run_lessons.py $(NOTEBOOKS)

save-lessons: $(VENV)/.ready  ## run them and store what cells show; FRESH=yes: pictures, too
	$(BIN)/python tools/run_lessons.py $(if $(FRESH),--fresh,--save) $(NOTEBOOKS)

# In the order in which tests are collected: see tests/conftest.py. A test that hangs ends
# its process, and a process that ends ends the run: xdist names the test.
PYTEST := python -m pytest -n auto --dist loadfile --no-loadscope-reorder \
  --max-worker-restart 0 --timeout 900 --timeout-method thread $(TESTS)

# Tests start many processes. Whatever the shell says, none compiles what another has.
test test-oldest test-newest: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/.ready lint  ## everything that must hold: style, import rules, tests, notebooks
	$(BIN)/$(PYTEST)

test-thorough: export MINIPAGED_THOROUGH := yes
test-thorough: test  ## the same with more models, sizes and random examples

test-oldest:  ## the tests with the oldest versions that we promise, in .venv-oldest (7 GB)
	$(MAKE) VENV=.venv-oldest CONSTRAINTS=constraints-oldest.txt KEEP_TORCH=no .venv-oldest/.ready
	.venv-oldest/bin/$(PYTEST)

# Made anew each time, because what is newest changes.
NEWEST := build/constraints-newest.txt
test-newest:  ## the tests with the newest versions of all but torch, in .venv-newest (2 GB)
	rm -f .venv-newest/.ready
	$(MAKE) VENV=.venv-newest CONSTRAINTS=$(NEWEST) KEEP_TORCH=no .venv-newest/.ready
	.venv-newest/bin/$(PYTEST)

$(NEWEST): constraints.txt
	@mkdir -p $(@D)
	grep '^torch==' $< > $@

test-clients: export MINIPAGED_CLIENTS := $(CURDIR)/.venv-clients/bin
test-clients: $(VENV)/.ready .venv-clients/.ready  ## the server with guidellm, openai's newest and curl, in .venv-clients (6 GB)
	$(BIN)/python -m pytest tests/serving/test_other_clients.py tests/serving/test_clients.py

.venv-clients/.ready: Makefile
	$(PYTHON) -m venv --clear .venv-clients
	.venv-clients/bin/python -m pip install guidellm==0.8.1 openai
	@touch $@

# What the page is made of comes from npm and pip, once, into build/playground.
playground: $(VENV)/.ready  ## the page with the pool in it, build/playground.html; the first time, it needs npm
	$(BIN)/python tools/make_playground.py --fetch
	$(BIN)/python tools/make_playground.py

test-playground: export PLAYGROUND := yes
test-playground: playground  ## the page in Chromium, and tests without torch in its Python, under node
	$(BIN)/python -m pytest tests/browser/test_playground.py
	$(BIN)/python tools/test_playground.py

test-ray: export MINIPAGED_RAY := yes
test-ray:  ## replicas on Ray Serve: live, killed and routed, in .venv-ray (3 GB)
	$(MAKE) VENV=.venv-ray EXTRAS=serve,ray,test .venv-ray/.ready
	.venv-ray/bin/python -m pytest --disable-warnings tests/serving/ray

.PHONY: book test-book
# No torch is needed: docstrings are read, not imported.
book: .venv-book/.ready  ## the site: build/book/site/index.html opens from disk
	.venv-book/bin/python -m book

test-book: export MINIPAGED_SITE := $(CURDIR)/build/book/site
test-book: $(VENV)/.ready book  ## build it, follow its links, open its pages in a real browser
	.venv-book/bin/python -m book.links $(MINIPAGED_SITE)
	$(BIN)/python -m pytest tests/book

.venv-book/.ready: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv --clear .venv-book
	.venv-book/bin/python -m pip install -U pip
	.venv-book/bin/python -m pip install -c $(CONSTRAINTS) --group book
	@touch $@

# Debian's; as root, or through sudo. Where there is a Chrome already, that does as well.
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo)
browser:  ## install Chromium, which the widgets' tests drive
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
	  command -v $$name && exit 0; \
	done; \
	command -v apt-get > /dev/null || { \
	  echo "There is no apt-get here: please install Chromium or Chrome."; exit 1; }; \
	$(AS_ROOT) apt-get update && \
	$(AS_ROOT) apt-get install -y --no-install-recommends chromium

lint: $(VENV)/.ready  ## style and import rules only
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python tools/lint_imports.py

figures: $(VENV)/.ready  ## make the README's pictures anew, for light and dark pages
	$(BIN)/python tools/draw_figures.py
	$(BIN)/python tools/photograph_widget.py
	$(BIN)/python tools/photograph_pool.py

MINUTES ?= 5
figures-paper: $(VENV)/.ready  ## the paper's figures, simulated (30 minutes); MINUTES=1: shorter
	$(BIN)/python tools/paper_figures.py --minutes $(MINUTES)

pocket: $(VENV)/.ready  ## train the shipped model anew (minutes on a GPU) into build/pocket
	$(BIN)/python -m tools.pocket.train --out build/pocket

pocket-draft: $(VENV)/.ready  ## train the model that guesses for it into build/pocket_draft
	$(BIN)/python -m tools.pocket.draft --out build/pocket_draft

bench: $(VENV)/.ready  ## compare with HuggingFace generate on this machine
	$(BIN)/python -m benchmarks.cpu.generate $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.cpu.memory $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.cpu.prefix $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.cpu.beams $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.cpu.streamed $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.cpu.step $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.cpu.preempting $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.cpu.engine $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.cpu.capstone $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.cpu.speculation $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.cpu.speculation_exact $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.cpu.server $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.cpu.front $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.cpu.pool_page $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.cpu.widget_clicks $(BENCH_FLAGS)

# The replicas need make test-ray's environment: make bench-one VENV=.venv-ray NAME=replicas
BENCHMARKS = $(basename $(notdir $(shell grep -l __main__ benchmarks/cpu/*.py)))
bench-one: $(VENV)/.ready  ## one measurement on the CPU: make bench-one NAME=step
	@$(if $(filter $(NAME),$(BENCHMARKS)),,echo \
	  'There is no benchmark "$(NAME)". NAME may be: $(BENCHMARKS)'; exit 1)
	$(BIN)/python -m benchmarks.cpu.$(NAME) $(BENCH_FLAGS)

home:  ## point Colab at your fork: make home URL=https://github.com/you/minipaged
	@$(PYTHON) tools/set_home.py "$(URL)"

clean:  ## remove the environment and everything that was built
	rm -rf $(VENV) .venv-oldest .venv-newest .venv-clients .venv-ray .venv-book build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . \( -name __pycache__ -o -name .ipynb_checkpoints \) -type d -prune -exec rm -rf {} +

# A machine whose torch sees a GPU keeps it: the environment then looks through to the
# packages of $(PYTHON), itself perhaps of an environment, and only adds what is missing.
# Elsewhere the tested set is installed. `make lab KEEP_TORCH=yes` keeps any torch.
PURELIB := import sysconfig; print(sysconfig.get_path("purelib"))
SEES_GPU := import sys, torch; sys.exit(not torch.cuda.is_available())
IS_KNOWN := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))

$(VENV)/.ready: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c '$(IS_KNOWN)' || { \
	  echo "minipaged needs Python 3.11 to 3.13, and $(PYTHON) is: $$($(PYTHON) -V)."; \
	  echo "Name another one: make PYTHON=python3.12 lab"; exit 1; }
	@if test -z "$(KEEP_TORCH)" && $(PYTHON) -c '$(SEES_GPU)' 2>/dev/null || \
	  test "$(KEEP_TORCH)" = yes; then \
	  echo "keeping the torch of $(PYTHON)" && \
	  $(PYTHON) -m venv --clear --system-site-packages "$(VENV)" && \
	  $(PYTHON) -c '$(PURELIB)' > "$$($(BIN)/python -c '$(PURELIB)')/outer.pth" && \
	  $(BIN)/python -m pip install -e '.[$(EXTRAS)]'; \
	else \
	  $(PYTHON) -m venv --clear "$(VENV)" && \
	  $(BIN)/python -m pip install -U pip && \
	  $(BIN)/python -m pip install -c $(CONSTRAINTS) \
	    "$$(grep -E '^torch==' $(CONSTRAINTS))" && \
	  $(BIN)/python -m pip install -c $(CONSTRAINTS) -e '.[$(EXTRAS)]'; \
	fi
	@touch $@
