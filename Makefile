# SPDX-License-Identifier: Apache-2.0
# A short front for Meson. Two commands matter on a fresh machine: `make demo` and `make check`; both install missing Debian
# packages first.
BUILD ?= build
MESON_OPTIONS ?=

SECONDS ?= 1800

.PHONY: all packages demo demo-parallel check check-parallel prove-parallel \
    check-clang check-threads check-arm check-torch check-isa coverage prove prove-lm fuzz fuzz-files soak \
    bench bench-replicas asan docs format install wheel clean

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

$(BUILD)/build.ninja: | packages
	@meson setup $(BUILD) $(MESON_OPTIONS)

packages:
	@tools/install-packages.sh build

demo: all
	@tools/demo.sh $(BUILD)

# The same by two processes, which MPI starts.
demo-parallel:
	@tools/demo-parallel.sh $(BUILD)

check: all
	@tools/check.sh $(BUILD)

# Training by several processes, with Open MPI and MPICH, which it installs; `make check` has it where one of them is there.
check-parallel:
	@tools/check-parallel.sh $(BUILD)

# A hundred steps of five models by 2 and 4 replicas beside one process, and a hundred faults, with each MPI: about an hour.
prove-parallel:
	@tools/prove-parallel.sh $(BUILD)

# The unit tests, built with another compiler: with two of its versions, warnings are errors. Graphs are those of our own.
check-clang: all
	@tools/check-clang.sh $(BUILD)

# Sessions, random graphs and plans, steps of models under clang's ThreadSanitizer, with two threads. THREADS="session run_state":
# those unit tests.
check-threads: | packages
	@tools/check-threads.sh $(BUILD) $(THREADS)

# What is built for aarch64, run by an emulator. ARM="unit same": a part.
check-arm: all
	@tools/check-arm.sh $(BUILD) $(ARM)

check-torch: all
	@tests/torch/check.sh $(BUILD)
	@tests/python/check.sh $(BUILD)

# The tests and comparisons of both with each instruction set forced, by one thread and two. ISA="check avx2 2": a part.
check-isa: all
	@tools/every-isa.sh $(BUILD) $(ISA)

# Every operator, dtype and sample against PyTorch; `make check-torch` takes a sample of them. PROVE="norm --dtype
# float32": a part.
prove: all
	@tests/operators/check.sh $(BUILD) $(PROVE)

# What is promised of language models, whole: two hours. LM="text fuzz": parts.
prove-lm: all
	@tools/prove-lm.sh $(BUILD) $(LM)

# 5,000 random graphs, others every time; `make check` has 200. FUZZ="--seed 7": those again.
fuzz: all
	@$(BUILD)/tests/fuzz/fuzz --count 5000 $(FUZZ)

# PEFs, graphs' texts, files of tensors and checkpoints, changed by clang's libFuzzer under sanitizers, each so many seconds.
# FILES="pef data": a part.
FUZZ_SECONDS ?= 1800
fuzz-files: all
	@tools/fuzz-files.sh $(BUILD) $(FUZZ_SECONDS) $(FILES)

# Half an hour of mixed work, in C and then in Python: nothing may grow. SECONDS=60: shorter.
soak: all
	@tests/e2e/soak.sh $(BUILD) $(SECONDS)

bench: all
	@bench/bench.sh $(BUILD) $(BENCH)

# Two replicas beside PyTorch's DistributedDataParallel. REPLICAS="lenet --mpi mpich": a part.
bench-replicas: all
	@tools/with-mpi.sh $(BUILD)
	@$$(bench/python.sh $(BUILD)) bench/replicas.py $(BUILD) $(REPLICAS)

asan: | packages
	@test -f $(BUILD)-asan/build.ninja || \
	    meson setup $(BUILD)-asan -Db_sanitize=address,undefined -Dbuildtype=debugoptimized -Db_lundef=false -Db_asneeded=false
	@ninja -C $(BUILD)-asan --quiet
	@tools/check.sh $(BUILD)-asan

# Lines and branches that the tests reach, by gcov. TESTS="session --suite unit": a part of them.
coverage: | packages
	@tools/coverage.sh $(BUILD) $(TESTS)

# The book, as pages for a browser, in build/docs. Its tools come from PyPI once; then it needs no network.
docs: all
	@tools/docs.sh $(BUILD)

# C by clang-format, Python by ruff, in the versions that `make check` compares with.
format: all
	@tools/format.sh $(BUILD) --write

install: all
	@meson install -C $(BUILD)

wheel:
	@tools/wheel.sh $(BUILD)

clean:
	@rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-clang-14 $(BUILD)-clang-16 $(BUILD)-threads $(BUILD)-fuzz $(BUILD)-coverage $(BUILD)-arm
