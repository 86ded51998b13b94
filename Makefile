# Needs only Python 3.11 to 3.14, git and make.
PYTHON ?= $(shell for python in python3.12 python3.13 python3.14 python3.11 python3; do \
	command -v $$python >/dev/null 2>&1 \
	&& $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null \
	&& echo $$python && break; done)
# Processes start a fifth faster with what earlier ones compiled.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
DOCS := .venv-docs
RUN := $(VENV)/bin/python
PRODUCTION := DATABASE_URL=postgresql:///assent REDIS_URL=redis://localhost:6379/0 \
	ASSENT_PUBLIC_URL=https://assent.example ASSENT_ALLOWED_HOSTS=assent.example \
	ASSENT_SECRET_KEY=only-to-check-the-settings-which-want-it-long-and-of-many-characters \
	ASSENT_ENCRYPTION_KEYS=1111111111111111111111111111111111111111111111111111111111111111 \
	ASSENT_CHANNELS_KEY=2222222222222222222222222222222222222222222222222222222222222222 \
	ASSENT_CARD_KEY=2222222222222222222222222222222222222222222222222222222222222222 \
	ASSENT_PUSH_KEY=3333333333333333333333333333333333333333333333333333333333333333 \
	ASSENT_TOOL_KEY=4444444444444444444444444444444444444444444444444444444444444444 \
	ASSENT_TOOL_APPS=examples.tools

THIS_VERSION := $(shell sed -n 's/^__version__ = "\(.*\)".*/\1/p' approvals/__init__.py)

# Of `make image`: whichever is here, and further options of it.
BUILDER ?= $(shell command -v docker || command -v podman || command -v buildah)
IMAGE ?= assent
BUILD_OPTIONS ?=
# Of what a release has.
DIST ?= dist

# Of `make chaos`; SEED is a new one each time unless it is given.
TRANSACTIONS ?= 3000
FAULTS ?= 300

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/runtime ## Start everything, with demo people and working agents
	@exec $(RUN) manage.py demo

up: $(VENV)/runtime ## Start everything, empty
	@exec $(RUN) manage.py up

test: $(VENV)/dev ## Run the tests for daily work: at most ten minutes on two cores
	$(RUN) -m pytest -m "not browser and not slow"

verify: $(VENV)/dev ## Run every test, also browsers, foreign clients, real processes and storms
	$(RUN) -m pytest

test-core: $(VENV)/dev ## Run the tests for daily work without the optional apps
	ASSENT_OPTIONAL_APPS=none $(RUN) -m pytest -m "not browser and not slow"

# Each step is a target of its own for .pre-commit-config.yaml.
check: check-format check-lint check-types check-imports check-settings check-migrations ## Format, lint, types, imports, Django's own checks

check-format: $(VENV)/dev
	$(VENV)/bin/ruff format --check .

check-lint: $(VENV)/dev
	$(VENV)/bin/ruff check .

check-types: $(VENV)/dev
	@# The root comes first: the A2A SDK also installs a package named a2a.
	PYTHONPATH=. $(VENV)/bin/mypy ledger a2a approvals examples .ci/smoke.py

check-imports: $(VENV)/dev
	$(VENV)/bin/lint-imports

check-settings: $(VENV)/dev
	$(PRODUCTION) $(RUN) manage.py check --deploy --fail-level WARNING

check-migrations: $(VENV)/dev
	$(PRODUCTION) $(RUN) manage.py makemigrations --check --dry-run --skip-checks

fix: $(VENV)/dev ## Format, and fix what ruff can fix
	$(VENV)/bin/ruff check --fix . ; $(VENV)/bin/ruff format .

docs: $(VENV)/dev ## Generate the pages of docs/ that come from the code
	ASSENT_SECRET_KEY=docs $(RUN) manage.py write_docs

site: $(DOCS)/installed ## Build the documentation site: open site/index.html
	$(DOCS)/bin/python docs/site/stage.py
	$(DOCS)/bin/zensical build --clean --strict

# SITES is the folder that is published; it keeps the sites of earlier versions.
SITES ?= dist/sites
site-release: export SITE_VERSIONS = mike
site-release: site ## Build it as that of VERSION=0.1.0, with a menu of all versions in SITES=dist/sites
	$(DOCS)/bin/python docs/site/release.py $(SITES) $(VERSION)

wheel: $(VENV)/dev ## Build dist/assent-*.whl, of what is committed
	@rm -rf build dist/assent-*.whl && mkdir build && git archive HEAD | tar x -C build
	cd build && ASSENT_SECRET_KEY=build ../$(RUN) manage.py collectstatic --noinput -v 0
	$(RUN) -m pip wheel -q --no-deps --wheel-dir dist ./build && rm -rf build

clients: $(VENV)/dev ## Build dist/assent_client-*.whl and dist/assent-client-*.tgz, of what is committed (needs npm)
	@rm -rf build && mkdir -p build $(DIST) && git archive HEAD examples approvals/__init__.py | tar x -C build
	$(RUN) -m pip wheel -q --no-deps --wheel-dir $(DIST) build/examples/frameworks
	cd build/examples/typescript && npm pkg set version=$(THIS_VERSION) && npm ci --no-audit --no-fund && npm pack
	mv build/examples/typescript/assent-client-*.tgz $(DIST) && rm -rf build

image: wheel ## Build the container image of that wheel, with docker, podman or buildah
	$(BUILDER) build --build-arg VERSION=$(THIS_VERSION) --build-arg REVISION=$$(git rev-parse HEAD) \
		$(BUILD_OPTIONS) -t $(IMAGE) .

chart: $(VENV)/dev ## Check examples/kubernetes/assent, and keep what it renders in tests/kubernetes
	CHART=1 $(RUN) -m pytest -q -n 0 -p no:randomly tests/kubernetes

sbom: $(VENV)/dev ## Write dist/assent-*.cdx.json: every locked package with its hashes (CycloneDX)
	@mkdir -p $(DIST) && sed 's/^dynamic = .*/version = "$(THIS_VERSION)"/' pyproject.toml > $(DIST)/pyproject.toml
	$(RUN) -W ignore -m cyclonedx_py requirements requirements.lock --pyproject $(DIST)/pyproject.toml \
		--output-reproducible -o $(DIST)/assent-$(THIS_VERSION).cdx.json && rm $(DIST)/pyproject.toml

bundle: ## Write dist/assent-compose-*.tar.gz and the chart in dist/assent, which name IMAGE
	@mkdir -p $(DIST)/compose && cp Caddyfile .env.example $(DIST)/compose && cp -r examples/kubernetes/assent $(DIST)
	sed 's|:-assent}|:-$(IMAGE)}|' compose.yaml > $(DIST)/compose/compose.yaml
	tar czf $(DIST)/assent-compose-$(THIS_VERSION).tar.gz -C $(DIST)/compose . && rm -r $(DIST)/compose
	sed -i 's|^image: ""|image: "$(IMAGE)"|' $(DIST)/assent/values.yaml
	sed -i -E 's|^(version\|appVersion): .*|\1: $(THIS_VERSION)|' $(DIST)/assent/Chart.yaml

version:
	@echo $(THIS_VERSION)

types: $(VENV)/dev ## Renew the types of the client in TypeScript (needs npm)
	cd examples/typescript && npm ci --no-audit --no-fund
	ASSENT_SECRET_KEY=docs $(RUN) manage.py export_openapi_schema --api approvals.api.api \
		| $(RUN) examples/typescript/openapi.py | npm run --silent --prefix examples/typescript types

messages: $(VENV)/dev ## Gather the texts to translate into approvals/locale, and compile them (needs gettext)
	ASSENT_SECRET_KEY=docs $(RUN) manage.py write_messages

pictures: $(VENV)/dev ## Take the screenshots in docs/img anew (needs Chromium)
	PICTURES=1 $(RUN) -m pytest -n 0 tests/e2e/test_pictures.py

lighthouse: $(VENV)/dev ## Lighthouse on the pages of each place, phone and desktop (needs npm)
	$(RUN) -m bench.lighthouse

bench: $(VENV)/dev ## Run the benchmarks, each figure beside its limit
	$(RUN) -m bench$(if $(filter peers,$(MAKECMDGOALS)),.peers)

peers: bench ## `make bench peers`: the same operations by other products, in one run
	@:

chaos: $(VENV)/dev ## Storm the whole product: SEED=… TRANSACTIONS=… FAULTS=… HOSTS=1, or MUTANTS=1
	@exec $(RUN) -m bench.chaos $(if $(SEED),--seed $(SEED)) --transactions $(TRANSACTIONS) --faults $(FAULTS) $(if $(HOSTS),--hosts) $(if $(MUTANTS),--mutants)

power-loss: $(VENV)/dev ## What PostgreSQL's disk holds at arbitrary instants (root, Linux)
	@exec $(RUN) -m bench.chaos.power_loss

scale: $(VENV)/dev ## Measure each page and operation with a thousand rows and with a million
	$(RUN) -m bench.scale

lock: ## Renew the lock files (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --no-annotate --upgrade -q pyproject.toml -o requirements.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --no-annotate --upgrade -q pyproject.toml --group dev --group supervisor --group release -o requirements-dev.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --no-annotate --upgrade -q --group docs -o requirements-docs.lock

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Assent needs Python 3.11, 3.12, 3.13 or 3.14."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "Python has no venv here. On Debian: apt-get install python3-venv"; exit 1; }

# Without looking for dependencies: a lock has them all, and an older pip would look for newer ones.
$(VENV)/runtime: requirements.lock | $(VENV)/bin/python
	@echo "Installing what Assent needs (once)…"
	@$(RUN) -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

$(VENV)/dev: requirements-dev.lock | $(VENV)/bin/python
	@echo "Installing what the tests need (once)…"
	@$(RUN) -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@ $(VENV)/runtime

$(DOCS)/installed: requirements-docs.lock
	@echo "Installing what the documentation site is built with (once)…"
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

.PHONY: help demo up test verify check check-format check-lint check-types check-imports check-settings \
	check-migrations fix docs site site-release wheel image chart sbom bundle version messages pictures lighthouse bench peers chaos power-loss scale lock
