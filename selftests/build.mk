# SPDX-License-Identifier: MIT
# Test programs: every selftests/<dir>/<name>.c is one, linked with the static
# library so that it may call internals too. selftests/lib/*.c and the peer
# harness are shared by all.
TEST_LIB := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard selftests/lib/*.c) \
		tools/rlx/peer_ort.c)
TEST_SRC := $(filter-out selftests/lib/% selftests/fuzz/% selftests/kmod/% \
		$(if $(filter 1,$(VULKAN)),,selftests/vulkan/%), \
		$(wildcard selftests/*/*.c))
TEST_BIN := $(TEST_SRC:selftests/%.c=$(BUILD)/test/%)

# Three hundred programs of ten megabytes each: of the linkers found here the quickest.
TEST_LD := $(firstword $(foreach l,lld gold,$(if $(shell command -v ld.$(l)),-fuse-ld=$(l))))

$(BUILD)/test/%: $(BUILD)/obj/selftests/%.o $(TEST_LIB) $(TRAIN_A) $(LIB_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(TEST_LD) $(LDFLAGS) $< $(TEST_LIB) $(TEST_EMU) $(TRAIN_A) $(LIB_A) $(LDLIBS) \
		-o $@

# Most of what they take is to be compiled. Not so beside kernels, where references are computed,
# in what is timed, nor in the emulator of GPUs.
TEST_SMALL := $(filter-out $(addprefix selftests/,kernels/% bench/% gpubench/%),$(TEST_SRC)) \
		$(wildcard selftests/lib/*.c)
$(TEST_SMALL:%.c=$(BUILD)/obj/%.o): CFLAGS += -Og

# Tests of kernels in tiles have them in portable C as well.
EMU_BIN := $(addprefix $(BUILD)/test/kernels/,attention conv_bf16 conv_i8 conv_wgrad gemm gemm_i8 \
		gemm_amx)
$(EMU_BIN): TEST_EMU := $(KERNEL_EMU)
$(EMU_BIN): $(KERNEL_EMU)

# In these the library's hashes are the test's.
$(patsubst %,$(BUILD)/test/%/equal_hashes,libuser gpu): LDFLAGS += -Wl,--wrap=rlx_hash_bytes

# The calls of each public function, from the headers that declare them.
NULL_CALLS := $(BUILD)/gen/selftests/null_calls.h
NULL_FROM  := selftests/hostile/null_calls.awk tools/check-exports
PUBLIC_H   := $(wildcard libuser/include/rlx/*.h)
$(NULL_CALLS): $(NULL_FROM) $(PUBLIC_H) $(GEN)
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)BUILD=$(BUILD) tools/check-exports --calls >$@.in
	$(Q)awk -f $< $(PUBLIC_H) $@.in >$@
$(BUILD)/obj/selftests/hostile/null.o: $(NULL_CALLS)

# These run the command itself.
$(filter $(BUILD)/test/cli/%,$(TEST_BIN)): $(BUILD)/bin/rlx

tests: $(TEST_BIN)

# Fuzzers, one per selftests/fuzz/*.c; they want clang and a folder of their own. They aim at
# parsers, so of the library they get the parts that read, and those below them, alone: all of it
# takes twice as long to compile with the instruments.
FUZZ_BIN := $(patsubst selftests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard selftests/fuzz/*.c))
FUZZ_OBJ := $(filter $(patsubst %,$(BUILD)/obj/libuser/%/%,base io ir mem ops serve),$(LIB_OBJ))
FUZZ_A	 := $(BUILD)/lib/librlx-fuzz.a
FUZZ_MAKE = $(call build_in,$(BUILD)/clang) BUILD=$(BUILD)/clang CC=$(FUZZ_CC) OPT='-O1 -g1' \
	SAN='-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined'
FUZZ_CC	?= clang

$(FUZZ_A): $(FUZZ_OBJ)
	@mkdir -p $(@D)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/fuzz/%: $(BUILD)/obj/selftests/fuzz/%.o $(TRAIN_A) $(FUZZ_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -fsanitize=fuzzer $< $(TRAIN_A) $(FUZZ_A) $(LDLIBS) -o $@

fuzzers: $(FUZZ_BIN)
.PHONY: tests fuzzers

# Groups, by the folder a program stands in. Each target installs and builds what
# it needs and ends with "N passed, N failed, N skipped".
RUN	:= selftests/run.sh
OPS_BIN	    := $(filter $(BUILD)/test/ops/% $(BUILD)/test/cts/%,$(TEST_BIN))
ONNX_BIN    := $(filter $(BUILD)/test/onnx/%,$(TEST_BIN))
MODELS_BIN  := $(filter $(BUILD)/test/models/%,$(TEST_BIN))
TRAIN_BIN   := $(filter $(BUILD)/test/train/%,$(TEST_BIN))
HOSTILE_BIN := $(filter $(BUILD)/test/hostile/% $(BUILD)/test/oom/%,$(TEST_BIN))
BENCH_BIN   := $(filter $(BUILD)/test/bench/%,$(TEST_BIN))
UNIT_BIN    := $(filter-out $(OPS_BIN) $(ONNX_BIN) $(MODELS_BIN) $(TRAIN_BIN) \
			    $(HOSTILE_BIN) $(BENCH_BIN) \
			    $(BUILD)/test/gpu/% $(BUILD)/test/gpubench/% \
			    $(BUILD)/test/vulkan/% $(BUILD)/test/pjrt/%,$(TEST_BIN))

include selftests/slot/build.mk

# Those that take longest begin early, lest one be left to run alone, and those with guests
# beside others (AT_ONCE).
GROUPS := check-kmod check-style check-unit check-serve check-kmod-debug check-emu \
	  check-hostile check-kmod-serve check-hip-build check-vulkan check-nvrtc check-pjrt \
	  check-install check-ops check-train check-models check-onnx

# Goals that call make again must not do so side by side in one folder.
ifneq ($(filter check check-% bench-% asan tsan demo install guest,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif

check-style:
	$(Q)tools/setup.sh check
	$(Q)+$(BUILDMAKE) lib
	$(Q)$(RUN) -g $@ tools/check-style tools/check-format tools/check-docs tools/check-layers \
		tools/check-twins $(MAP:%=tools/check-exports) selftests/scripts/runner.sh \
		selftests/scripts/tools.sh

check-unit:
	$(Q)tools/setup.sh build
	$(Q)+$(BUILDMAKE) $(UNIT_BIN)
	$(Q)$(RUN) -g $@ -j $(JOBS) $(UNIT_BIN)

# Of the packages what takes no second build: "make deb" has the rest. The kernel is fetched whole,
# as guests want it: headers alone would be replaced by that while the module is built.
check-install:
	$(Q)tools/setup.sh dkms
	$(Q)tools/fetch-kernels.sh 6.12 || :
	$(Q)+$(BUILDMAKE) all man $(BUILD)/bin/rlxd
	$(Q)$(RUN) -g $@ selftests/scripts/install.sh selftests/scripts/abi.sh \
		selftests/scripts/headers.sh selftests/scripts/channel.sh selftests/deb/lists.sh \
		'selftests/deb/packages.sh -A' 'selftests/deb/dkms.sh -A 6.12'

check-ops:
	$(Q)tools/setup.sh ops
	$(Q)+$(BUILDMAKE) $(OPS_BIN)
	$(Q)$(RUN) -g $@ -j $(JOBS) $(OPS_BIN)

check-train:
	$(Q)tools/setup.sh train
	$(Q)tools/fetch-models.sh digits minilm
	$(Q)selftests/lib/venv.sh $(BUILD)/train-venv selftests/train/requirements.txt
	$(Q)+$(BUILDMAKE) $(TRAIN_BIN) lib tools
	$(Q)$(RUN) -g $@ -j $(JOBS) $(TRAIN_BIN) selftests/train/command.sh \
		selftests/train/export.sh

check-onnx:
	$(Q)tools/setup.sh check
	$(Q)+$(BUILDMAKE) $(ONNX_BIN)
	$(Q)$(RUN) -g $@ -j $(JOBS) $(ONNX_BIN)

# RLX_FUZZ_SECONDS is the time each fuzzer gets.
check-hostile:
	$(Q)tools/setup.sh check
	$(Q)+$(BUILDMAKE) $(HOSTILE_BIN)
	$(Q)+$(FUZZ_MAKE) fuzzers
	$(Q)$(RUN) -g $@ -j $(JOBS) selftests/fuzz/run.sh $(HOSTILE_BIN)

check-models:
	$(Q)tools/setup.sh demo
	$(Q)+$(BUILDMAKE) $(MODELS_BIN) models $(BUILD)/bin/rlx
	$(Q)$(RUN) -g $@ $(MODELS_BIN) selftests/models/strict.sh

bench-cpu:
	$(Q)tools/setup.sh demo
	$(Q)+$(BUILDMAKE) all $(BENCH_BIN) models
	$(Q)selftests/bench/run.sh $(BENCH_BIN)

# Random models against ONNX Runtime and OpenVINO: SEED=n for the same again, CASES of each
# family, WORDS for its other options (selftests/bench/sweep/sweep.py --help).
SWEEP	:= selftests/bench/sweep
CASES	?= 10
bench-sweep-cpu:
	$(Q)tools/setup.sh serve
	$(Q)+$(BUILDMAKE) $(BUILD)/lib/librlx.so
	$(Q)selftests/lib/venv.sh $(BUILD)/sweep-venv $(SWEEP)/requirements.txt
	$(Q)BUILD=$(BUILD) $(BUILD)/sweep-venv/bin/python $(SWEEP)/sweep.py \
		$(if $(SEED),--seed $(SEED)) --cases $(CASES) $(WORDS)

# Random Fourier transforms against MKL and pocketfft, and recurrent ops against PyTorch.
bench-fft-cpu bench-recurrent-cpu: bench-%-cpu:
	$(Q)tools/setup.sh serve
	$(Q)+$(BUILDMAKE) lib
	$(Q)selftests/lib/venv.sh $(BUILD)/$*-venv $(SWEEP)/requirements-$*.txt
	$(Q)BUILD=$(BUILD) $(BUILD)/$*-venv/bin/python $(SWEEP)/$*.py \
		$(if $(SEED),--seed $(SEED)) --cases $(CASES) $(WORDS)

# Training steps against PyTorch, which is what recurrent ops are measured against as well.
bench-train-cpu:
	$(Q)tools/setup.sh serve
	$(Q)+$(BUILDMAKE) $(BUILD)/test/bench/train
	$(Q)selftests/lib/venv.sh $(BUILD)/recurrent-venv $(SWEEP)/requirements-recurrent.txt
	$(Q)BUILD=$(BUILD) $(BUILD)/recurrent-venv/bin/python selftests/bench/train.py $(WORDS)

# All of it; the last line sums up the groups, of which AT_ONCE run at a time: each waits for
# clients, guests or the network now and then, or has one program left to run. With LIMIT what
# still runs after so many seconds is ended, and told.
AT_ONCE	?= 2
LIMIT	?=
check:
	$(Q)tools/setup.sh check
	$(Q)+selftests/check.sh -j $(AT_ONCE) $(if $(filter file,$(origin GROUPS)),-s) \
		$(LIMIT:%=-t %) '$(SUBMAKE)' $(GROUPS)

# The unit and op tests under the sanitizers, each in a build folder of its own.
SAN_asan := -fsanitize=address,undefined -fno-sanitize-recover=undefined
SAN_tsan := -fsanitize=thread
# Absurd sizes are asked for on purpose; the allocator shall say no, not stop.
asan: export ASAN_OPTIONS := allocator_may_return_null=1
asan: export LSAN_OPTIONS := suppressions=$(CURDIR)/selftests/lib/leaks.txt
tsan: export TSAN_OPTIONS := allocator_may_return_null=1
asan tsan:
	$(Q)tools/setup.sh build
	$(Q)+selftests/check.sh "$(SUBMAKE) BUILD=build/$@ SAN='$(SAN_$@)'" \
		check-unit check-ops

# The library for arm64, by clang and under QEMU's emulation of programs: kernels and ops. Of
# liburing it has the headers alone, which are the same everywhere.
ARM64_BUILD := $(BUILD)/arm64
ARM64_BIN := $(foreach d,kernels ops,$(filter $(BUILD)/test/$(d)/%,$(TEST_BIN)))
ARM64_MAKE = $(call build_in,$(ARM64_BUILD)) BUILD=$(ARM64_BUILD) AR=llvm-ar LDLIBS='-lm -ldl' \
	CC='clang --target=aarch64-linux-gnu -idirafter /usr/include'
check-arm64: export LDFLAGS := -fuse-ld=lld
check-arm64:
	$(Q)tools/setup.sh arm64
	$(Q)+$(ARM64_MAKE) $(ARM64_BIN:$(BUILD)/%=$(ARM64_BUILD)/%)
	$(Q)$(RUN) -g $@ -j $(JOBS) -t 900 \
		$(ARM64_BIN:$(BUILD)/test/%='selftests/lib/arm64.sh %')

.PHONY: check check-arm64 asan tsan bench-cpu bench-sweep-cpu bench-fft-cpu bench-train-cpu \
	bench-recurrent-cpu $(GROUPS)

include selftests/serve/build.mk
include selftests/gpu/build.mk selftests/vulkan/build.mk selftests/pjrt/build.mk
