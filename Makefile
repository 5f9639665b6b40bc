# make demo        one verified kernel from nothing but Python 3.11 and g++
# make test        the default tests (no GPU, no key, no network at run time)
# make test-wide   also the slow ones        make vendors: vendors' compilers and models for them (2.4 GB to fetch)
# make lint, make types        make clean

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# pytest options, e.g. make test ARGS="-k gemm -x"
ARGS   ?=
# test processes side by side; a file's tests stay together, and files of a few long tests are not kept for the end
# one more than there are cores, as a test process waits a fifth of its time for children and for limits that it tests
JOBS   ?= $(shell n=$$(nproc 2>/dev/null || echo 2); [ $$n -lt 8 ] && echo $$((n + 1)) || echo 8)
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

.PHONY: help demo test test-wide vendors lint format types venv clean llm-local leaf-tokens
.DEFAULT_GOAL := help

help:
	@sed -n '1,4p' Makefile | sed 's/^# //'

venv:
	@PYTHON="$(PYTHON)" sh .ci/venv "$(VENV)"

demo: venv
	$(BIN)/septran gen --op gemm --backend cpp

test: venv
	$(PYTEST) $(ARGS)

test-wide: venv
	$(PYTEST) --slow $(ARGS)

# vendors' compilers and models, which test-wide uses where they are here: 2.4 GB to fetch, 2.2 GB kept under SEPTRAN_HOME,
# about 3 minutes; what is here already is left alone. libtpu is under the Google Cloud Platform Terms of Service:
# make vendors VENDORS="triton_npu pallas_tpu dsa_c+bm1684x" leaves it out
VENDORS ?= triton_npu pallas_tpu pallas_tpu+libtpu dsa_c+bm1684x
vendors: venv
	@lacking=; for one in $(VENDORS); do \
		$(BIN)/septran -q doctor --install $$one >/dev/null || lacking="$$lacking $$one"; done; \
	[ -z "$$lacking" ] || { echo "not installed:$$lacking"; exit 1; }

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: venv
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: venv
	$(BIN)/mypy

# a small open model behind an OpenAI-compatible server on this machine; fetches its weights once
llm-local: venv
	$(BIN)/python -m scripts.llm_local $(ARGS)

# tokens of a leaf against tokens of the whole kernel, per operator
leaf-tokens: venv
	$(BIN)/python -m scripts.leaf_tokens $(ARGS)

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
