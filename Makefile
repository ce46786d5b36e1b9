# benchapp. `make up` measures this machine's disk and shows the chart; `make help` lists the rest.
#
#   make up    PORT=8000 HOST=127.0.0.1 DATA=var SAMPLE=1 AS_ROOT=1 UP_ARGS="--no-run"
#   make test  PYTEST_ARGS="-k intake -x"

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help up dev test test-fast api-fuzz fio-matrix js-test coverage mutation container-test vm-test format lint ci bench agent-packages backup restore lock pin-images clean

PYTHON := .venv/bin/python
BASE := .venv/.base
DEV := .venv/.dev
VENDOR := static/vendor/.fetched
TEST_VENDOR := tests/vendor/.fetched
CLIENTS := tests/clients/node_modules/.installed
GO_CLIENTS := tests/clients/go/bin/.installed
PYTEST_ARGS ?=
PYTEST_WORKERS ?= 4
UP_ARGS ?=

# Tests start hundreds of Python processes: without bytecode each compiles the code again.
unexport PYTHONDONTWRITEBYTECODE
# As root the servers run as another user, who cannot write the bytecode.
COMPILE := $(PYTHON) -m compileall -q agent benchapp

# The machine's own certificates, which a company's proxy is part of, instead of those that uv and pip bring along.
CERTIFICATES := $(wildcard /etc/ssl/certs/ca-certificates.crt)
ifneq ($(CERTIFICATES),)
export UV_SYSTEM_CERTS ?= 1
export PIP_CERT ?= $(CERTIFICATES)
endif

help: ## list targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | \
	  while IFS=$$'\t' read -r target words; do printf '  make %-10s %s\n' "$$target" "$$words"; done

up: $(BASE) $(VENDOR) ## start all services, run one benchmark, print its URL; Ctrl-C stops; SAMPLE=1 loads sample studies
	@tools/apt-install fio:fio
	@$(COMPILE)
	@$(PYTHON) manage.py up $(if $(PORT),--port $(PORT)) $(if $(HOST),--host $(HOST)) \
	  $(if $(DATA),--data-dir $(DATA)) $(if $(SAMPLE),--sample) $(if $(AS_ROOT),--as-root) $(UP_ARGS)

dev: $(DEV) $(VENDOR) ## start everything without a benchmark; web and worker restart when their code changes
	@$(COMPILE)
	@$(PYTHON) manage.py up --no-run --reload $(if $(PORT),--port $(PORT)) $(if $(HOST),--host $(HOST)) \
	  $(if $(DATA),--data-dir $(DATA)) $(if $(SAMPLE),--sample) $(if $(AS_ROOT),--as-root) $(UP_ARGS)

test: $(DEV) $(VENDOR) $(TEST_VENDOR) $(CLIENTS) $(GO_CLIENTS) ## run the tests on the embedded PostgreSQL and Valkey
	@tools/apt-install fio:fio btrfs:btrfs-progs mkfs.xfs:xfsprogs rpm:rpm
	@tools/install-chromium
	@$(PYTHON) -m pytest --numprocesses $(PYTEST_WORKERS) --dist loadfile $(PYTEST_ARGS)

test-fast: $(DEV) $(VENDOR) ## run the tests that start no process: no servers, browser, fio or agent
	@$(PYTHON) -m pytest --fast --numprocesses $(PYTEST_WORKERS) --dist loadfile $(PYTEST_ARGS)

api-fuzz: $(DEV) $(VENDOR) ## send 5 000 generated requests to every operation, with each kind of token; FUZZ_CASES=N
	@FUZZ_CASES=$(or $(FUZZ_CASES),5000) $(PYTHON) -m pytest --quiet tests/fuzz.py

fio-matrix: $(DEV) ## compare all formats of real runs of fio, 81 configurations; FIO=PATH
	@tools/apt-install fio:fio
	@FIO=$(FIO) $(PYTHON) -m pytest -p no:django --quiet tests/fio/matrix.py

js-test: ## run the JavaScript tests with node
	@tools/run-js-tests

coverage: $(DEV) $(VENDOR) ## run the fast tests with branch coverage; the report is htmlcov/index.html
	@$(PYTHON) -m pytest --fast --numprocesses $(PYTEST_WORKERS) --dist loadfile \
	  --cov --cov-report term:skip-covered --cov-report html $(PYTEST_ARGS)

container-test: $(DEV) $(VENDOR) ## follow docs/operations.md, "Docker Compose", on a Docker engine (DOCKER_HOST); skipped without one
	@if docker info > /dev/null 2>&1; then tools/apt-install caddy:caddy && tools/install-chromium; fi
	@$(PYTHON) -m pytest --verbose --exitfirst tests/containers.py $(PYTEST_ARGS)

vm-test: $(BASE) ## test the agent with md, LVM, cron and systemd in a virtual machine; see tests/vm/README.md
	@tests/vm/boot.sh

format: $(DEV) ## sort imports and format the Python code with ruff
	@$(PYTHON) -m ruff check --fix-only --quiet .
	@$(PYTHON) -m ruff format .

lint: $(DEV) ## ruff, mypy, who imports whom
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy
	@.venv/bin/lint-imports --no-logo --no-cache

ci: ## run what CI runs: lint, type checks, JavaScript tests, tests
	@.ci/run

bench: $(DEV) $(VENDOR) ## measure speed and memory; SCALE=10: of a fleet with 10 million measurements
	@tools/apt-install fio:fio chromium:chromium
	@$(PYTHON) -m benchmarks $(if $(SCALE),load --scale $(SCALE)) $(BENCH_ARGS)

mutation: $(DEV) ## change the pure modules bit by bit, list what no test notices; MUTANTS='benchapp.catalog.metrics.*'
	@$(PYTHON) -m mutmut run $(MUTANTS)
	@$(PYTHON) -m mutmut results

agent-packages: $(BASE) ## build dist/: bench-agent.pyz, its manual page, deb, rpm and wheel
	@"$$(tools/bootstrap)" run --frozen --quiet --no-default-groups --group packages packaging/build.py

backup: $(BASE) ## back up the database to FILE
	@$(PYTHON) manage.py backup $(if $(DATA),--data-dir $(DATA)) $(or $(FILE),$(error FILE is not set: make backup FILE=history.dump))

restore: $(BASE) ## restore the database from FILE
	@$(PYTHON) manage.py restore $(if $(DATA),--data-dir $(DATA)) $(or $(FILE),$(error FILE is not set: make restore FILE=history.dump))

lock: ## update locked dependencies (uv.lock); package-lock.json: npm install --package-lock-only
	@$$(tools/bootstrap) lock

pin-images: ## pin image digests in docker-compose.yml and Dockerfile; requires docker and a registry
	@tools/pin-images

clean: ## remove installed and downloaded files; var/ is kept
	rm -rf .venv .uv .python dist static/vendor tests/vendor tests/clients/node_modules tests/clients/go/bin .esbuild staticfiles .pytest_cache .mypy_cache .ruff_cache .hypothesis htmlcov .coverage mutants
	find agent benchapp benchmarks tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Compiled at once, as COMPILE does with the code of benchapp.
$(BASE): pyproject.toml uv.lock tools/uv.txt tools/bootstrap
	@uv=$$(tools/bootstrap) && python=$$(tools/bootstrap --python) && \
	  "$$uv" sync --python "$$python" --frozen --quiet --inexact --no-group dev --compile-bytecode
	@touch $@

$(DEV): $(BASE)
	@uv=$$(tools/bootstrap) && python=$$(tools/bootstrap --python) && "$$uv" sync --python "$$python" --frozen --quiet
	@touch $(BASE) $@

$(VENDOR): $(BASE) package.json package-lock.json
	@$(PYTHON) -m benchapp.operation.embedded.javascript
	@touch $@

$(TEST_VENDOR): $(BASE) package.json package-lock.json
	@$(PYTHON) -m benchapp.operation.embedded.javascript --dev
	@touch $@

# Linter and generator of clients for the API document. Without npm their tests are skipped.
$(CLIENTS): tests/clients/package.json tests/clients/package-lock.json
	@if command -v npm > /dev/null; then \
	  npm ci --prefix tests/clients --ignore-scripts --no-audit --no-fund --silent && touch $@; \
	else echo "npm is not installed: the tests of TypeScript clients are skipped"; fi

# Generator of Go clients, and what its code imports. Without Go, or with one that is too old, their tests are skipped.
$(GO_CLIENTS): tests/clients/go/go.mod tests/clients/go/go.sum
	@cd tests/clients/go && if go list -m > /dev/null 2>&1; then \
	  GOBIN=$(abspath $(@D)) go install tool && go build -trimpath github.com/oapi-codegen/runtime gopkg.in/validator.v2 && \
	  touch bin/.installed; \
	else echo "Go 1.25 is not installed: the tests of Go clients are skipped"; fi
