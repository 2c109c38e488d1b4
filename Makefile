PYTHON ?= python3
VENV := .venv
CLIENTS_VENV := .venv-clients
CONSOLE_VENV := .venv-console
CONSOLE_INSTALLED := $(CONSOLE_VENV)/.installed
SECURITY_VENV := .venv-security
DOCS_VENV := .venv-docs
PRODUCERS_VENV := .venv-producers
MODELS_VENV := .venv-models
BIN := $(VENV)/bin
PACKAGES := contracts shared client services/kb-api services/indexer services/search services/reconciler services/knowledge services/console local
INSTALLED := $(VENV)/.installed
EXPORT := --quiet --no-emit-workspace --no-annotate --no-header
COMPILE := --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url
LOCAL := not dist and not kafka_cluster and not replica_set and not prometheus and not nginx and not npm and not producers

# Without cached bytecode, each of the processes that tests start would compile all sources again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo up down status test test-long test-kafka test-replicas test-update test-mutants test-console test-console-short screenshots test-clients test-models test-producers dist test-dist security prometheus test-alerts env images dashboards nightly check format lock openapi schemas manifests client command-line vendor docs bench soak clean

help:  ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED)  ## create .venv with everything pinned by hash

$(INSTALLED): requirements.lock $(addsuffix /pyproject.toml,$(PACKAGES))
	@./scripts/preflight $(PYTHON)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing dependencies into $(VENV) (a minute or two the first time) ..."
	@awk '/^uv==/ {found = 1} found {print; if (!/\\$$/) exit}' requirements.lock > $(VENV)/uv.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $(VENV)/uv.txt
	@# It fetches many at once, and compiles nothing that may never be imported. pip knows mirrors that only pip.conf names.
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes -r requirements.lock || \
		$(BIN)/python scripts/pip_progress.py requirements.lock \
		$(BIN)/pip install --disable-pip-version-check --progress-bar off --no-deps --require-hashes -r requirements.lock
	@echo "installing the packages of this folder ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation $(addprefix -e ,$(PACKAGES))
	@touch $@

demo: install  ## index about 100 real documents and search them (1 to 3 minutes)
	@$(BIN)/kb demo

up: install  ## start all services on this machine
	@$(BIN)/kb up

down: install  ## stop them; the data is kept in .kb/
	@$(BIN)/kb down

status: install  ## show the processes, with state, port and log
	@$(BIN)/kb status

env:  ## write .env for compose.yaml, with new random secrets
	@$(PYTHON) compose/write_env.py

images: install  ## build all images, try each one, list what is in it (needs root, buildah and debootstrap)
	@$(BIN)/python -m tests.images
	@$(BIN)/python -m pytest -m nginx tests/deployment --quiet

test: install  ## all tests but the long ones and tests/architecture, against real servers
	@$(BIN)/python -m pytest -m "$(LOCAL) and not long" --numprocesses 3 --dist loadfile --no-loadscope-reorder --ignore tests/architecture --quiet

test-long: install  ## the long tests: more kills, orders, swaps and examples
	@$(BIN)/python -m pytest -m "$(LOCAL) and long" --timeout 7200
	@$(BIN)/python -m pytest tests/unit --hypothesis-profile new --timeout 7200 --quiet

test-kafka: install  ## integration, e2e and chaos on three brokers of Apache Kafka (needs Java and Maven)
	@$(BIN)/python -m tests.kafka_cluster.jars
	@$(BIN)/python -m tests.kafka_cluster -- $(BIN)/python -m pytest tests/integration/kafka tests/e2e -m "not long" --quiet
	@$(BIN)/python -m tests.kafka_cluster --secured -- $(BIN)/python -m pytest tests/e2e -m "not long" --quiet
	@$(BIN)/python -m pytest -m kafka_cluster tests --timeout 900 --quiet
	@$(BIN)/python -m tests.chaos --seed 1 --brokers 3

test-replicas: install  ## tests on three mongods: kills, freezes, step-downs
	@$(BIN)/python -m pytest tests/replica_set -m replica_set --timeout 900 --quiet

test-update: install  ## update a running system to this version and back, under load (about 5 minutes)
	@$(BIN)/python -m tests.rolling_update

test-mutants: install  ## plant faults in copies of the code and check that tests fail
	@$(BIN)/python -m tests.mutants

test-clients: install  ## the TypeScript client (needs npm); LangChain, LlamaIndex, Haystack and mem0 against the search node; recipes for LangGraph and pydantic-ai
	@test -x $(CLIENTS_VENV)/bin/python || $(PYTHON) -m venv $(CLIENTS_VENV)
	@$(BIN)/uv pip install --quiet --python $(CLIENTS_VENV)/bin/python --require-hashes -r requirements-clients.lock
	@$(CLIENTS_VENV)/bin/python -m pytest -c tests/clients/pytest.ini tests/clients --quiet
	@$(BIN)/python -m pytest -m npm tests/typescript --quiet

test-models: install  ## ask a small model 75 questions: MODEL=/path/to/model.gguf (hours; llama.cpp's server out of xllamacpp)
	@test -x $(MODELS_VENV)/bin/python || $(PYTHON) -m venv $(MODELS_VENV)
	@$(BIN)/uv pip install --quiet --python $(MODELS_VENV)/bin/python --require-hashes -r requirements-models.lock
	@$(BIN)/python -m tests.models "$(MODEL)" --server-python $(MODELS_VENV)/bin/python $(OPTIONS)

test-producers: install  ## publish with clients of other languages to Apache Kafka (needs Java, Maven, Go and npm; 5 to 10 minutes)
	@test -x $(PRODUCERS_VENV)/bin/python || $(PYTHON) -m venv $(PRODUCERS_VENV)
	@$(BIN)/uv pip install --quiet --python $(PRODUCERS_VENV)/bin/python --require-hashes -r requirements-producers.lock
	@$(BIN)/python -m tests.kafka_cluster.jars
	@$(BIN)/python -m tests.kafka_cluster --brokers 1 -- $(BIN)/python -m pytest -m producers tests/producers --timeout 900 --quiet

test-console: $(CONSOLE_INSTALLED)  ## the web console in a real browser (needs chromium: scripts/install-chromium)
	@$(CONSOLE_VENV)/bin/python -m pytest -c tests/console/pytest.ini tests/console --quiet

test-console-short: $(CONSOLE_INSTALLED)  ## the part of test-console that CI runs: the stories of its users (at most 90 seconds)
	@$(CONSOLE_VENV)/bin/python -m pytest -c tests/console/pytest.ini -m "not long" tests/console --quiet

$(CONSOLE_INSTALLED): $(INSTALLED) requirements-console.lock
	@test -x $(CONSOLE_VENV)/bin/python || $(PYTHON) -m venv $(CONSOLE_VENV)
	@$(CONSOLE_VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-console.lock
	@touch $@

screenshots: $(CONSOLE_INSTALLED)  ## pictures of all pages of the web console into docs/images (needs chromium)
	@$(CONSOLE_VENV)/bin/python -m pytest -c tests/console/pytest.ini tests/console/take_screenshots.py --quiet

dist: install  ## build the wheels of all packages into dist/
	@$(BIN)/uv build --quiet --all-packages --wheel --clear --no-build-isolation --python $(BIN)/python --out-dir dist

test-dist: dist  ## install the wheels into empty environments, without the repository, and use them (about 3 minutes)
	@$(BIN)/python -m pytest -m dist tests/packages --timeout 1200 --quiet

test-alerts: install prometheus  ## faults raise exactly their alerts, and runbooks end them (real Prometheus; 10 to 15 minutes)
	@$(BIN)/python -m pytest -m prometheus tests --timeout 900 --quiet

security: install  ## secrets, unsafe code, our own rules, bills of materials (about half a minute)
	@test -x $(SECURITY_VENV)/bin/python || $(PYTHON) -m venv $(SECURITY_VENV)
	@$(BIN)/uv pip install --quiet --python $(SECURITY_VENV)/bin/python --require-hashes -r requirements-security.lock
	@$(BIN)/python -m security

prometheus:  ## install Prometheus and Alertmanager into .observability/, without root
	@./scripts/install-prometheus

dashboards: install  ## write Grafana's dashboards from observability/dashboards
	@$(BIN)/python -m observability.dashboards

NIGHTLY := security images test-alerts test-update test-kafka test-replicas

nightly: install  ## what CI does not run, one after the other, with a table (one to two hours)
	@$(BIN)/python scripts/nightly.py --json .nightly/results.json $(NIGHTLY)

check: install  ## format, lint, types, import rules; tests/architecture (names, docs equal to the code)
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m pytest tests/architecture --quiet

format: install  ## format, and fix automatically
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

manifests: install  ## write the rules of Prometheus into k8s/
	@$(BIN)/python -m observability.prometheus_rule

schemas: install  ## write the JSON Schemas of all messages to docs/schemas
	@$(BIN)/python -m kb_contracts.schemas docs/schemas

docs: install  ## build the documentation as a site into site/; a link that leads nowhere is an error
	@test -x $(DOCS_VENV)/bin/python || $(PYTHON) -m venv $(DOCS_VENV)
	@$(BIN)/uv pip install --quiet --python $(DOCS_VENV)/bin/python --require-hashes -r requirements-docs.lock
	@rm -rf site
	@$(DOCS_VENV)/bin/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env --doctree-dir $(DOCS_VENV)/doctrees docs site
	@$(BIN)/python scripts/check_site.py site
	@echo "open site/index.html"

client: install  ## write the synchronous client and its exceptions from their sources
	@$(BIN)/python scripts/generate_client.py

command-line: install  ## write the reference page of the command line from its parsers
	@$(BIN)/python scripts/generate_command_line_page.py

vendor:  ## copy what browsers load out of npm packages, in the versions of scripts/vendor.py (needs npm)
	@$(PYTHON) scripts/vendor.py

openapi: install  ## write the OpenAPI document of all services (docs/openapi.json)
	@$(BIN)/python -m tests.openapi

lock: install  ## resolve dependencies again into requirements.lock and the locks of the images
	@$(BIN)/uv lock --quiet
	@$(BIN)/uv export $(EXPORT) --all-groups --all-extras --output-file requirements.lock
	@$(BIN)/uv pip compile $(COMPILE) requirements-clients.in --output-file requirements-clients.lock
	@$(BIN)/uv pip compile $(COMPILE) requirements-models.in --output-file requirements-models.lock
	@$(BIN)/uv pip compile $(COMPILE) requirements-producers.in --output-file requirements-producers.lock
	@$(BIN)/uv pip compile $(COMPILE) requirements-console.in --output-file requirements-console.lock
	@$(BIN)/uv pip compile $(COMPILE) requirements-security.in --output-file requirements-security.lock
	@$(BIN)/uv pip compile $(COMPILE) requirements-docs.in --output-file requirements-docs.lock
	@for image in kb-api kb-indexer kb-search kb-knowledge kb-console kb-reconciler; do \
		$(BIN)/uv export $(EXPORT) --no-dev --package $$image --output-file images/$$image.lock || exit 1; done
	@$(BIN)/uv export $(EXPORT) --no-dev --package kb-reconciler --extra cli --output-file images/kb-admin.lock
	@for tool in build sbom; do \
		$(BIN)/uv pip compile $(COMPILE) --constraint requirements.lock images/$$tool.in --output-file images/$$tool.lock || exit 1; done

bench: install  ## indexing throughput on this machine, as JSON
	@$(BIN)/python -m benchmarks.index_throughput --json

soak: install  ## half an hour of load and faults: nothing may grow or get lost
	@$(BIN)/python -m benchmarks.soak

clean:  ## remove .venv, caches and the local data
	@test ! -x $(BIN)/kb || $(BIN)/kb down
	@test ! -d .images || ./scripts/remove-images
	@rm -rf clients/typescript/node_modules clients/typescript/build clients/typescript/dist $(VENV) $(CLIENTS_VENV) $(CONSOLE_VENV) $(SECURITY_VENV) $(DOCS_VENV) $(PRODUCERS_VENV) tests/producers/node/node_modules .security .nightly dist site .kb .kafka .observability .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
