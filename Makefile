# Everything runs in .venv, which the targets make for themselves. `make` alone lists them.

VENV   = .venv
RUN    = $(VENV)/bin/python
PYTEST = $(RUN) -m pytest -q -n logical --maxprocesses 8 --dist loadfile
SITE   = book/_build/html

TRITON = 3.6.0 newest

# Kernels without a GPU: Triton's interpreter must be chosen before anything imports triton.
PYTEST_KERNELS = TRITON_INTERPRET=1 $(PYTEST) --dist worksteal

# What an extra's installation depends on.
PINS = pyproject.toml requirements.lock tools/environment.sh

.PHONY: help book test check test-triton notebooks lab serve pdf conformance lock clean system weights
.NOTPARALLEL:

help: ## list the targets
	@printf 'Attention, Head by Head\n\n'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@printf '\nOptions\n\n'
	@printf '  PYTHON=path  the Python (3.11 or newer) that .venv is made from\n'
	@printf '  EXECUTE=1    with book: execute every notebook first\n'
	@printf '  BROWSER=0    with test: leave out what needs Chromium\n'
	@printf '  TRITON=3.6.0 with test-triton: the versions, or "newest"\n'
	@printf '  UPGRADE=all  with lock: let every version move, or only the named ones\n'

book: $(VENV)/book.stamp ## build the book from the committed notebooks; executes nothing
	@if [ '$(EXECUTE)' = 1 ]; then $(MAKE) notebooks; fi
	@$(RUN) tools/build_book.py

test: system $(VENV)/dev.stamp weights ## build the book and pass every test
	@$(RUN) tools/build_book.py
	$(PYTEST) --nbval --nbval-current-env --nbval-sanitize-with tests/nbval.cfg --nbval-cell-timeout 120 notebooks
	BROWSER='$(BROWSER)' $(PYTEST) tests
	$(PYTEST_KERNELS) tests/kernels
	@if [ '$(BROWSER)' = 0 ]; then printf '\n!!! browser: NOT TESTED !!!\n'; fi

check: $(VENV)/dev.stamp ## format, lint, types and the fast tests
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy
	$(PYTEST) -m 'not slow and not book and not browser and not pretrained' tests
	$(PYTEST_KERNELS) -m 'not slow' tests/kernels

notebooks: $(VENV)/dev.stamp ## execute every notebook and write its canonical form
	@$(RUN) tools/refresh.py

lab: $(VENV)/dev.stamp ## open the notebooks in JupyterLab
	@$(RUN) -m jupyter lab $$([ "$$(id -u)" != 0 ] || echo --allow-root) notebooks

serve: book ## serve the built book on http://localhost:8000
	@$(RUN) -m http.server 8000 --bind 127.0.0.1 --directory $(SITE)

pdf: $(VENV)/dev.stamp ## print the whole book to a PDF with Chromium
	@sh tools/system_packages.sh chromium
	@$(RUN) tools/pdf.py

conformance: ## run the conformance cases on every known library, in their own environment
	@PYTHON='$(PYTHON)' sh tools/environment.sh conformance $(VENV)-conformance
	@$(VENV)-conformance/bin/python benchmarks/conformance.py

test-triton: ## pass the kernels' tests with the oldest and the newest Triton
	@PYTHON='$(PYTHON)' sh tools/triton_versions.sh $(TRITON)

lock: $(VENV)/dev.stamp ## write requirements.lock anew from pyproject.toml
	@$(RUN) tools/lock.py $(UPGRADE)

clean: ## remove what was built; .venv stays
	rm -rf book/_build build dist mha.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# The environment for reading (no torch) and the one for running; the second holds the first.
$(VENV)/book.stamp: $(PINS)
	@PYTHON='$(PYTHON)' sh tools/environment.sh book
	@touch $(VENV)/book.stamp

$(VENV)/dev.stamp: $(PINS)
	@PYTHON='$(PYTHON)' sh tools/environment.sh dev
	@touch $(VENV)/book.stamp $(VENV)/dev.stamp

system:
	@if [ '$(BROWSER)' != 0 ]; then sh tools/system_packages.sh g++ python3-dev chromium; \
	else sh tools/system_packages.sh g++ python3-dev; fi

weights: $(VENV)/dev.stamp
	@$(RUN) -m mha.data fetch all || echo 'The pretrained weights cannot be had here: their tests will be skipped.'
