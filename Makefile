# SPDX-License-Identifier: Apache-2.0
# A short front for Meson. Two commands matter on a fresh machine: `make demo` and `make check`; both install missing Debian packages first.
BUILD ?= build
MESON_OPTIONS ?=

SECONDS ?= 1800

.PHONY: all packages demo check check-torch prove fuzz soak bench asan install wheel clean

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

$(BUILD)/build.ninja: | packages
	@meson setup $(BUILD) $(MESON_OPTIONS)

packages:
	@tools/install-packages.sh build

demo: all
	@tools/demo.sh $(BUILD)

check: all
	@tools/check.sh $(BUILD)

check-torch: all
	@tests/torch/check.sh $(BUILD)
	@tests/python/check.sh $(BUILD)

# Every operator, dtype and sample against PyTorch; `make check-torch` takes a sample of them. PROVE="norm --dtype float32": a part.
prove: all
	@tests/operators/check.sh $(BUILD) $(PROVE)

# 5,000 random graphs of 5 to 60 operators, others every time; `make check` has 200. FUZZ="--seed 7": those again.
fuzz: all
	@$(BUILD)/tests/fuzz/fuzz --count 5000 $(FUZZ)

# Half an hour of mixed work, in C and then in Python: nothing may grow. SECONDS=60: shorter.
soak: all
	@tests/e2e/soak.sh $(BUILD) $(SECONDS)

bench: all
	@bench/bench.sh $(BUILD) $(BENCH)

asan: | packages
	@test -f $(BUILD)-asan/build.ninja || meson setup $(BUILD)-asan -Db_sanitize=address,undefined -Dbuildtype=debugoptimized -Db_lundef=false -Db_asneeded=false
	@ninja -C $(BUILD)-asan --quiet
	@tools/check.sh $(BUILD)-asan

install: all
	@meson install -C $(BUILD)

wheel:
	@tools/wheel.sh $(BUILD)

clean:
	@rm -rf $(BUILD) $(BUILD)-asan
