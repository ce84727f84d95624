# make build   installs what is missing (Debian packages, a Python environment in build/venv) and builds
# make demo    a cluster of 4 worker processes trains a small language model through unmodified JAX
# make test    all tests
# make bench   figures beside peers: build/figures.jsonl, .md, .svg (BENCH_FLAGS=--quick for a look; bench/README.md)
# make bench-scale   what a launch costs the controller of up to 2,048 workers
# make fuzz FUZZ_SECONDS=60   builds with clang and its sanitizers and fuzzes each target for so long (tests/fuzz/README.md)
# make jaxtests JAX_TESTS=DIR PART=public   jax's own tests on a cluster, against plain CPU; DIR: see tests/jax/run_jax_tests.py
SHELL := /bin/bash
BUILD := build
VENV  := $(BUILD)/venv
JOBS  ?= $(shell nproc)
SWITCHTOWER := $(BUILD)/switchtower

.PHONY: build test demo bench bench-scale fuzz jaxtests fmt deps clean
build: deps
	cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=RelWithAssert > $(BUILD)/configure.log || (cat $(BUILD)/configure.log; exit 1)
	ninja -C $(BUILD) -j $(JOBS)

deps:
	@tools/install_deps.sh $(VENV)

test: build
	tools/run_tests.sh $(BUILD) $(VENV)

demo: build
	$(SWITCHTOWER) run --slices 2 --hosts 2 --devices 2 --stats -- \
	  $(VENV)/bin/python examples/train_lm.py --steps 200 --picture $(BUILD)/loss.png

bench: build
	$(VENV)/bin/python bench --switchtower $(SWITCHTOWER) --out $(BUILD)/figures $(BENCH_FLAGS)

bench-scale: build
	bench/scale/run.sh $(BUILD) | tee $(BUILD)/scale.jsonl

fuzz:
	@tools/install_deps.sh $(VENV) clang libclang-rt-14-dev llvm
	tests/fuzz/run.sh $(BUILD)/fuzz $(VENV) $(or $(FUZZ_SECONDS),60) $(TARGETS)

jaxtests: build
	$(VENV)/bin/python tests/jax/run_jax_tests.py --tests $(or $(JAX_TESTS),$(error JAX_TESTS=DIR is needed)) \
	  --part $(or $(PART),public) $(if $(FILES),--files $(FILES))

fmt:
	git ls-files '*.cc' '*.h' | xargs clang-format -i

clean:
	rm -rf $(BUILD)
