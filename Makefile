SHELL := /bin/bash
.SHELLFLAGS := -eo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV ?= .venv
# The first Python on the path that is new enough; override with PYTHON=...
PYTHON ?= $(shell for python in python3 python3.12 python3.11 python3.13 python3.14; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done || true)
RUN := $(VENV)/bin/python
# uv installs faster, where it is there.
PIP := $(if $(shell command -v uv),uv pip install --python $(RUN),$(RUN) -m pip install)
# A file or chapter stays with one of these many processes, and each of them calculates with so many threads.
TEST_JOBS ?= 2
TEST_THREADS ?= 1
FUZZ_EXAMPLES ?= 10000
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help env testenv browser test accept fuzz lint book serve lock bench clean

help: ## Show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/\1|\2/' | column -t -s '|'

# A key is written last, so that an interrupted installation is taken up again. Of packages that carry weights, what they
# declare is not needed to read these: these are in requirements-bare.txt.
env: ## Make .venv and install what the book needs, unless it is already there
	@if ! $(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
		echo "Python 3.11 or newer is needed; pass PYTHON=python3.12 or the like" >&2; exit 1; fi
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@$(call install,book,requirements.txt,--requirement requirements-bare.txt --editable .)

testenv: env ## Add what the tests need
	@$(call install,test,requirements-test.txt,)

# Install a lock, and without their dependences what else is named, unless the key says that this was done.
define install
	key="$$($(PYTHON) --version; pwd; cat $(2) requirements-bare.txt pyproject.toml)"; key="$$(cksum <<< "$$key")"; \
	if [ "$$key" != "$$(cat $(VENV)/$(1).key 2>/dev/null)" ]; then \
		echo "installing $(2) into $(VENV)"; \
		rm -f $(VENV)/$(1).key; \
		$(PIP) --quiet --requirement $(2); \
		$(if $(3),$(PIP) --quiet --no-deps $(3);) \
		echo "$$key" > $(VENV)/$(1).key; \
	fi
endef

browser: ## Find a Chromium for the tests of the site, or install it where that is possible
	@tools/browser.sh

book: env ## Execute the chapters and build the site into _build/html
	$(RUN) tools/build_book.py

lint: testenv ## Check style, types, workflows, issue forms and the citation
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m pyright posym_core posym_profile posym_figures posym_companion
	$(VENV)/bin/lint-imports
	$(RUN) -m check_jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(RUN) -m check_jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(RUN) -m check_jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(RUN) -m check_jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/*_*.yml
	$(RUN) -m check_jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	$(VENV)/bin/zizmor --offline --quiet .github

test: testenv browser lint ## Run lint, tests and doctests, and compare all numbers; when the book is built, also its site
	$(RUN) tools/rerun.py
	OMP_NUM_THREADS=$(TEST_THREADS) $(RUN) -m pytest tests posym_core posym_profile posym_figures posym_companion _build/rerun \
		--nbval-lax --nbval-cell-timeout=900 \
		--torch-threads=$(TEST_THREADS) --numprocesses=$(TEST_JOBS) --dist=loadfile --no-loadscope-reorder \
		--durations=20 --durations-min=5

accept: env ## Write down the numbers of the ledger and of the chapters as they are now, and show what has changed
	$(RUN) tools/accept.py

fuzz: testenv ## Try numerical functions and readers of files on many random inputs (FUZZ_EXAMPLES each)
	POSYM_FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) OMP_NUM_THREADS=1 $(RUN) -m pytest tests/fuzz \
		--torch-threads=1 --numprocesses=$(TEST_JOBS) --timeout=7200

serve: ## Show the built site at http://127.0.0.1:8000
	$(RUN) -m http.server --bind 127.0.0.1 --directory _build/html 8000

# The lock holds names and versions alone, without what a platform or pip adds, so that one lock serves machines with
# and without a GPU. Stored results were computed with this release of PyTorch.
lock: testenv ## Write requirements.txt from the ranges in pyproject.toml; UPGRADE=--upgrade takes the newest versions
	$(call compile,requirements.txt,--extra lm --extra book)
	$(call compile,requirements-test.txt,--extra lm --extra book --extra test --constraint requirements.txt)

define compile
	$(RUN) -m uv pip compile pyproject.toml $(2) --python-version 3.11.5 $(UPGRADE) --constraint <(echo torch==2.13.0) \
		--no-annotate --custom-compile-command "make lock" --quiet --output-file $(1)
	grep -Ev '^(nvidia|cuda|triton|pytorch-triton|setuptools|wheel)(-|=)' $(1) > $(1).new
	mv $(1).new $(1)
endef

bench: testenv ## Run the benchmarks and print their table
	$(RUN) -m benchmarks

clean: ## Remove everything that was built, except .venv
	rm -rf _build build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
