# Every target does the set-up it needs, on a machine that has only make.
# SETUP_ENGINE=0: do not touch the Docker Engine. TASK="…": the task of `make run`. MODEL=…: another model than the
# configured one. PORT: the port of `make dev`. RELOAD=1: `make dev` restarts when the code changes.
# SUBSET=dev|practice|held-out|TASK: the tasks of `make eval`.
# RUNTIME=runsc: `make setup` also installs gVisor.

BIN := .venv/bin
PORT ?= 2024
TASK ?= Plot the revenue in each month of /data/sales.csv as a line and save it as /results/revenue.png. Which month had the most revenue, and how much?
DEMO := scripted:agent/demo.yaml
export TASK
# Without bytecode on the disk, each program that the tests start would compile the project again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup local cluster node model chosen-model run demo dev ui ui-check page-picture test run-tests test-all test-rest test-cluster test-breaks iproute2 test-runsc chromium npm lint lines bench soak eval lock clean

setup: .venv/.ready
	@$(BIN)/code-agent setup $(if $(RUNTIME),--runtime $(RUNTIME))

# Outside a terminal, pip prints a line for each package. Otherwise a log would show nothing for minutes.
PIP_PROGRESS = if [ -t 1 ]; then set -- -qq; else set -- --progress-bar off; fi

# The stamp .ready skips the installation while requirements.lock and pyproject.toml are unchanged.
.venv/.ready: requirements.lock pyproject.toml
	@python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo "installing python3 and python3-venv"; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	      ca-certificates python3 python3-venv > /dev/null; \
	  else \
	    echo "Python 3.11 or newer with venv is needed: sudo apt-get install python3 python3-venv" >&2; exit 1; \
	  fi; }
	@echo "installing the Python packages into .venv; this takes a minute or more"
	@python3 -m venv .venv
	@$(PIP_PROGRESS); $(BIN)/python -m pip install "$$@" --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The engine of the local model, and the model's file.
local: .venv/.local
	@$(BIN)/code-agent model fetch

.venv/.local: libs/models/requirements.lock .venv/.ready
	@echo "installing the engine of the local model into .venv (OpenVINO, about 70 MB)"
	@$(PIP_PROGRESS); $(BIN)/python -m pip install "$$@" --disable-pip-version-check --require-hashes -r libs/models/requirements.lock || { \
	  echo "The engine of the local model could not be installed. README.md says how to choose another model; make demo needs none." >&2; exit 1; }
	@touch $@

# Ray, which `SANDBOX_CLUSTER` and the nodes of a cluster need.
.venv/.cluster: libs/sandbox/cluster/requirements.lock .venv/.ready
	@echo "installing Ray into .venv (about 80 MB)"
	@$(PIP_PROGRESS); $(BIN)/python -m pip install "$$@" --disable-pip-version-check --require-hashes -r libs/sandbox/cluster/requirements.lock
	@touch $@

# What docs/cluster.md needs: on the machine of the server, and on each node.
cluster: setup .venv/.cluster

node: .venv/.cluster
	@$(BIN)/code-agent setup --node

# Run `make local` if the settings choose the local model (the default). With MODEL=local:FILE only the engine is installed.
model: setup
	@$(MAKE) --no-print-directory chosen-model

chosen-model: .venv/.ready
	@spec="$$($(BIN)/code-agent model which)" || exit; \
	case "$$spec" in \
	  local) $(MAKE) --no-print-directory local;; \
	  local:*) $(MAKE) --no-print-directory .venv/.local;; \
	esac

# At a terminal, a person approves each step. Without a terminal this target approves every step itself, because it
# runs a sample task. `code-agent run` never does that.
run: model
	@set --; \
	if [ ! -t 0 ] || [ ! -t 1 ]; then echo "No terminal: every step is approved without asking."; set -- --approve auto; fi; \
	$(BIN)/code-agent run "$$@" "$$TASK"

# The deep agent with a script instead of a model. Task and script fit the sample file, so the workspace is always the
# sample's.
demo: TASK = Add up the revenue in /data/sales.csv by month and plot it.
demo: setup
	@set --; \
	if [ ! -t 0 ] || [ ! -t 1 ]; then echo "No terminal: every step is approved without asking."; set -- --approve auto; fi; \
	WORKSPACE_DIR=workspace $(BIN)/code-agent run "$$@" --model $(DEMO) "$$TASK"

# If the model cannot be fetched, the server starts anyway, and its answers say what to do.
# --no-reload: a script that the agent writes must not restart the server. --no-browser: langgraph would open Studio,
# which needs an account; the link is printed instead.
# RELOAD=1: watchfiles restarts the server when a .py file in agent or libs changes. watchfiles sends SIGINT and waits
# for the server to end: SHUTDOWN_SECONDS (at most 3,600) and a few seconds more.
# The port is checked before anything is installed or built. Before the installation, only Python's standard library is
# there; afterwards the error names the program at the port.
dev: export LANGGRAPH_NO_VERSION_CHECK = true
dev:
	@if [ ! -e .venv/.ready ] && command -v python3 > /dev/null; then \
	  python3 -c 'import socket, sys; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); \
	    s.bind(("127.0.0.1", int(sys.argv[1])))' "$(PORT)" 2> /dev/null || { \
	    echo "Port $(PORT) is taken, or is not a number from 1 to 65535. Choose another port: make dev PORT=2025" >&2; exit 1; }; \
	fi
	@$(MAKE) --no-print-directory --silent .venv/.ready
	@$(BIN)/python -m agent.server.occupied "$(PORT)"
	@$(MAKE) --no-print-directory setup
	@$(MAKE) --no-print-directory chosen-model || echo "The server starts without a model." >&2
	@$(if $(filter-out 0,$(RELOAD)),$(RELOADER) "$(SERVER)" agent libs,exec $(SERVER))

# LangGraph's report on usage reads the environment in a thread. The server changes the environment meanwhile: a start
# has crashed.
dev: export LANGGRAPH_CLI_NO_ANALYTICS ?= 1
SERVER = $(BIN)/langgraph dev --port $(PORT) --no-browser --no-reload --n-jobs-per-worker 10
RELOADER = exec $(BIN)/watchfiles --filter python --target-type command --sigint-timeout 3700

# Build the page from agent/ui/src. Needed only after a change to the page, because the bundle is in the repository.
ui:
	cd agent/ui && npm ci && npm run build

# Check that the bundle in the repository is built from its source, byte for byte. Without a suitable Node.js this
# target says so and checks nothing. With CI=true, as root, the target first installs Node.js if the system's packages
# have a version that is new enough.
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

# Print lines of each part, the fullest folders, and import circles.
lines:
	@python3 -m tests.lines

# More workers than processors, because most tests wait for a container or a server. One worker runs all tests of
# a file.
WORKERS ?= 4
PYTEST = $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 20

# The check of a change: at most 12 minutes on two cores. The linters run beside the tests.
test: setup chromium npm
	@$(MAKE) --no-print-directory -j2 lint run-tests

run-tests:
	$(PYTEST) -m "not thorough and not cluster"

# Everything: about 50 minutes on two cores.
test-all: test test-rest

test-rest: setup chromium npm
	$(PYTEST) -m "thorough and not cluster"

# The tests on two nodes, which are namespaces of this machine: at most 18 minutes. Needs root. All tests run in one
# process, because they share the cluster.
CLUSTER_TESTS = tests/integration/cluster
test-cluster: cluster iproute2
	$(BIN)/python -m pytest -m cluster --durations 20 $(CLUSTER_TESTS)

# The cluster tests that break nodes and servers, and the sample task: at most 8 minutes.
test-breaks: CLUSTER_TESTS := $(addprefix $(CLUSTER_TESTS)/,test_broken_under_load.py test_fenced_nodes.py \
  test_sample_task.py test_two_servers.py)
test-breaks: test-cluster

# For the network of the nodes.
iproute2:
	@command -v ip > /dev/null || { \
	  echo "installing iproute2, for the network of the nodes"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends iproute2 > /dev/null; }

# The tests of commands, attacks and interpreters in gVisor: about 20 minutes, by hand. tests/integration/gvisor.py lists
# what cannot hold there. The long attacks at random moments are left out.
test-runsc:
	@$(MAKE) --no-print-directory setup RUNTIME=runsc
	SANDBOX_RUNTIME=runsc $(BIN)/python -m pytest -m docker --durations 20 \
	  tests/integration/commands tests/integration/interpreter tests/integration/attacks \
	  --ignore tests/integration/attacks/test_attack_race.py --ignore tests/integration/attacks/test_break.py

# The browser of the page's tests. The page itself does not need Chromium.
chromium:
	@command -v chromium > /dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo "installing Chromium, for the tests of the page"; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	      chromium fonts-dejavu-core > /dev/null; \
	  else \
	    echo "The tests of the page need Chromium: sudo apt-get install chromium" >&2; exit 1; \
	  fi; }

# For the tests of npm's registry, and of public MCP servers.
npm:
	@command -v npm > /dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo "installing npm, for the tests of packages and MCP servers"; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends npm > /dev/null; \
	  else \
	    echo "The tests of packages and MCP servers need npm: sudo apt-get install npm" >&2; exit 1; \
	  fi; }

# The picture in docs/page.md, taken by a test.
page-picture: setup chromium
	$(BIN)/python -m pytest -q tests/e2e/page/test_page_plots.py
	cp tests/artifacts/page/page.png docs/images/page.png

bench: setup
	$(BIN)/python -m tests.bench $(PARTS)

# An hour of mixed load, or SECONDS of it. Memory, threads, descriptors and processes must not grow.
soak: setup
	$(BIN)/python -m tests.soak --seconds $(or $(SECONDS),3600)

# Ten tasks with the configured model, or another SUBSET. With the local model 20 tasks take about half an hour.
eval: model
	$(BIN)/python -m tests.eval $(or $(SUBSET),dev)

# Pin every package to the newest version that pyproject.toml allows, then the packages of the extras `local` and `cluster`.
# This takes minutes, because every wheel is hashed.
# Extras stay in the lock file: pip cannot check the hash of a package that is pinned without its extra.
COMPILE = CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --upgrade --allow-unsafe --generate-hashes \
  --no-strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host
EXTRA = import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"][sys.argv[1]], sep="\n")
COMPILE_EXTRA = $(COMPILE) --constraint .venv/constraints.txt --output-file
lock: .venv/.ready
	$(COMPILE) --extra dev --output-file requirements.lock pyproject.toml
	sed -E 's/\[[^]]+\]==/==/' requirements.lock > .venv/constraints.txt  # a constraint must not name an extra
	$(BIN)/python -c '$(EXTRA)' local | $(COMPILE_EXTRA) libs/models/requirements.lock -
	$(BIN)/python -c '$(EXTRA)' cluster | $(COMPILE_EXTRA) libs/sandbox/cluster/requirements.lock -

# Keeps the workspace, the image and the threads.
clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis tests/artifacts
	find agent libs tests skills -name __pycache__ -prune -exec rm -rf {} +
