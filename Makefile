# Every target does all the set-up it needs, on a machine that has nothing but make.
# SETUP_ENGINE=0 leaves the Docker Engine alone; TASK="…" names the task of `make run`, MODEL=… another model
# than the configured one, PORT the port of `make dev`, SUBSET=dev|practice|held-out|KIND|TASK what of `make eval` is run.

BIN := .venv/bin
PORT ?= 2024
TASK ?= Plot the revenue in each month of /data/sales.csv as a line and save it as /results/revenue.png. Which month had the most revenue, and how much?
DEMO := scripted:agent/demo.yaml
export TASK

.PHONY: setup local model run demo dev ui ui-check page-picture test chromium lint bench soak eval lock clean

setup: .venv/.ready
	@$(BIN)/code-agent setup

# The stamp makes this a matter of milliseconds while lock file and pyproject.toml stay as they are.
.venv/.ready: requirements.lock pyproject.toml
	@python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo "installing python3 and python3-venv"; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	      ca-certificates python3 python3-venv > /dev/null; \
	  else \
	    echo "Python 3.11 or newer with venv is needed: sudo apt-get install python3 python3-venv" >&2; exit 1; \
	  fi; }
	@echo "installing the Python packages into .venv"
	@python3 -m venv .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# What a model on this machine needs: what runs it, and its file.
local: .venv/.local
	@$(BIN)/code-agent model fetch

.venv/.local: libs/models/requirements.lock .venv/.ready
	@echo "installing what runs a local model into .venv (OpenVINO, about 70 MB)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r libs/models/requirements.lock || { \
	  echo "It could not be installed. README.md says how to choose another model; make demo needs none." >&2; exit 1; }
	@touch $@

# The same where the settings choose that model, as they do where they name none; no file where they name one.
model: setup
	@spec="$$($(BIN)/code-agent model which)" || exit; \
	case "$$spec" in \
	  local) $(MAKE) --no-print-directory local;; \
	  local:*) $(MAKE) --no-print-directory .venv/.local;; \
	esac

# At a terminal a person approves each step. Without one nobody can, and this target approves by itself:
# a choice for the sample, which `code-agent run` never makes.
run: model
	@set --; \
	if [ ! -t 0 ] || [ ! -t 1 ]; then echo "No terminal: every step is approved without asking."; set -- --approve auto; fi; \
	$(BIN)/code-agent run "$$@" "$$TASK"

# The deep agent without any model, on the sample file whatever the settings say: the script was written for it.
demo: setup
	@set --; \
	if [ ! -t 0 ] || [ ! -t 1 ]; then echo "No terminal: every step is approved without asking."; set -- --approve auto; fi; \
	WORKSPACE_DIR=workspace $(BIN)/code-agent run "$$@" --model $(DEMO) "$$TASK"

# It serves without its model too, where that cannot be fetched now: whoever asks is told what to do.
# --no-reload: a script that the agent writes must not restart the server that runs it. --no-browser: Studio,
# which would be opened, asks for an account; its link is printed.
dev: setup
	@$(MAKE) --no-print-directory model || echo "The server starts without a model." >&2
	@LANGGRAPH_NO_VERSION_CHECK=true $(BIN)/langgraph dev --port $(PORT) --no-browser --no-reload --n-jobs-per-worker 10

# The page's bundle, from agent/ui/src. Only for who changes the page: the bundle is part of the repository.
ui:
	cd agent/ui && npm ci && npm run build

# Whether the bundle in the repository is what its source gives, byte for byte. Where there is no Node.js that can
# build it, this says so and checks nothing: users have none. With CI=true, as root, it is first installed, where
# the system's own packages have it new enough.
ui-check:
	@fits() { \
	  node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' 2> /dev/null \
	    && command -v npm > /dev/null; }; \
	unchecked() { echo "Not checked: whether agent/ui/dist is built from agent/ui/src. $$1"; exit 0; }; \
	installed=; \
	if ! fits && [ "$$CI" = true ] && [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  apt-get update -qq || true; \
	  version="$$(apt-cache show --no-all-versions nodejs 2> /dev/null | sed -n 's/^Version: //p')"; \
	  if dpkg --compare-versions "$${version:-0}" ge 20.19; then \
	    echo "installing Node.js, to build the page"; \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nodejs npm > /dev/null || true; \
	    installed=yes; \
	  fi; \
	fi; \
	fits || unchecked "That needs npm and Node.js 20.19 or newer."; \
	copy="$$(mktemp -d)" && trap 'rm -rf "$$copy"' EXIT && cp -R agent/ui/. "$$copy" && rm -rf "$$copy/dist" "$$copy/node_modules"; \
	( cd "$$copy" && npm ci --loglevel=error > /dev/null ) || { \
	    [ -z "$$installed" ] || unchecked "Its packages cannot be had here: see above."; \
	    echo "The packages of agent/ui could not be installed: see above." >&2; exit 1; }; \
	( cd "$$copy" && npm run --silent build > /dev/null ) || { echo "agent/ui could not be built: see above." >&2; exit 1; }; \
	diff -r "$$copy/dist" agent/ui/dist && echo "agent/ui/dist is what agent/ui/src gives." || { \
	    echo "agent/ui/dist is not what agent/ui/src gives: run make ui and commit it." >&2; exit 1; }

lint: .venv/.ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup lint chromium
	$(BIN)/python -m pytest

# What the tests of the page look at it with. The page itself needs nothing of this.
chromium:
	@command -v chromium > /dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo "installing Chromium, for the tests of the page"; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	      chromium fonts-dejavu-core > /dev/null; \
	  else \
	    echo "The tests of the page need Chromium: sudo apt-get install chromium" >&2; exit 1; \
	  fi; }

# The README's picture of the page, from the test that takes it.
page-picture: setup chromium
	$(BIN)/python -m pytest -q tests/e2e/page/test_page_first_use.py
	cp tests/artifacts/page/readme.png docs/images/page.png

bench: setup
	$(BIN)/python -m tests.bench $(PARTS)

# An hour of mixed load, or SECONDS of it: nothing that is held may grow.
soak: setup
	$(BIN)/python -m tests.soak --seconds $(or $(SECONDS),3600)

# Forty tasks with the configured model, or SUBSET of them. Takes about an hour with the local model.
eval: model
	$(BIN)/python -m tests.eval $(or $(SUBSET),all)

# Pins every package for the newest versions that pyproject.toml allows, then what the extra `local` adds.
# Takes minutes: every wheel is hashed.
# Extras stay in the lock file: pip cannot hash-check a requirement of an extra whose package is pinned without it.
COMPILE = CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --upgrade --allow-unsafe --generate-hashes \
  --no-strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host
LOCAL = import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["local"], sep="\n")
lock: .venv/.ready
	$(COMPILE) --extra dev --output-file requirements.lock pyproject.toml
	sed -E 's/\[[^]]+\]==/==/' requirements.lock > .venv/constraints.txt  # a constraint may name no extra
	$(BIN)/python -c '$(LOCAL)' | $(COMPILE) --constraint .venv/constraints.txt --output-file libs/models/requirements.lock -

# The workspace, the image and the threads stay.
clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis tests/artifacts
	find agent libs tests skills -name __pycache__ -prune -exec rm -rf {} +
