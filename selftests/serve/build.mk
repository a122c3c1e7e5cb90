# SPDX-License-Identifier: MIT
# The tests of rlxd: with real clients and hostile ones, each in its own process.
SERVE_RUN := selftests/serve/run.sh
# With DEVICE=cuda these run on a GPU, in check-gpu; gpu alone on the emulated one too.
SERVE_GPU := gpu clients channel hostile
SERVE_PY  := plans hostile exchanges strict observe replies tenants limits memory clients ops \
	     reload fd_store standby tls channel floods

# Fuzzers of what rlxd reads, made of the few files that are concerned, by clang.
FUZZ_SERVE := $(patsubst selftests/serve/fuzz/%.c,$(BUILD)/fuzz-serve/%, \
		$(wildcard selftests/serve/fuzz/*.c))
FUZZ_SERVE_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard libuser/base/*.c) \
		tools/rlxd/http.c tools/rlxd/origin.c tools/rlxd/conf.c tools/rlxd/log.c \
		tools/rlxd/json_char.c tools/rlxd/tls_ctx.c tools/rlx/address.c \
		tools/rlx/openssl.c) \
		$(LLHTTP_OBJ)

$(FUZZ_SERVE:$(BUILD)/fuzz-serve/%=$(BUILD)/obj/selftests/serve/fuzz/%.o): \
	CPPFLAGS += $(LLHTTP_FLAGS)

$(BUILD)/fuzz-serve/%: $(BUILD)/obj/selftests/serve/fuzz/%.o $(FUZZ_SERVE_OBJ)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -fsanitize=fuzzer $^ $(LDLIBS) $(RLXD_LIBS) -o $@

fuzz-serve: $(FUZZ_SERVE)

# Tests that are a server themselves.
SERVE_INPROC := $(patsubst selftests/serve/inproc/%.c,$(BUILD)/test/rlxd/%, \
		  $(wildcard selftests/serve/inproc/*.c))
SERVE_INPROC_OBJ := $(filter-out %/main.o,$(RLXD_OBJ)) $(LLHTTP_OBJ)

$(SERVE_INPROC:$(BUILD)/test/rlxd/%=$(BUILD)/obj/selftests/serve/inproc/%.o): \
	CPPFLAGS += $(LLHTTP_FLAGS)

$(BUILD)/test/rlxd/%: $(BUILD)/obj/selftests/serve/inproc/%.o $(SERVE_INPROC_OBJ) \
		$(TEST_LIB) $(TRAIN_A) $(LIB_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ $(LDLIBS) $(RLXD_LIBS) -o $@

serve-inproc: $(SERVE_INPROC)

check-serve:
	$(Q)tools/setup.sh serve
	$(Q)+$(BUILDMAKE) $(BUILD)/bin/rlx $(BUILD)/bin/rlxd $(BUILD)/lib/librlx.so.1
	$(Q)+$(BUILDMAKE) serve-inproc emu
	$(Q)+$(FUZZ_MAKE) fuzz-serve
	$(Q)tools/fetch-models.sh minilm
	$(Q)+$(BUILDMAKE) $(BUILD)/models/minilm.onnx
	$(Q)selftests/serve/venv.sh
	$(Q)$(RUN) -g $@ $(SERVE_PY:%='$(SERVE_RUN) %') '$(SERVE_RUN) gpu' '$(SERVE_RUN) image' \
		$(SERVE_INPROC) selftests/serve/fuzz/run.sh

# The same with the daemon under the sanitizers; kernels go without: they are $(BUILD)'s.
asan-serve: export ASAN_OPTIONS := allocator_may_return_null=1
tsan-serve: export TSAN_OPTIONS := allocator_may_return_null=1
asan-serve tsan-serve:
	$(Q)tools/setup.sh serve
	$(Q)+$(BUILDMAKE) $(BUILD)/bin/rlx $(BUILD)/bin/rlxd $(BUILD)/lib/librlx.so.1
	$(Q)+$(BUILDMAKE) BUILD=build/$@ SAN='$(SAN_$(@:-serve=))' \
		KERNEL_IN=$(BUILD)/obj/kernels build/$@/bin/rlxd
	$(Q)tools/fetch-models.sh minilm
	$(Q)+$(BUILDMAKE) $(BUILD)/models/minilm.onnx
	$(Q)selftests/serve/venv.sh
	$(Q)RLXD=build/$@/bin/rlxd $(RUN) -g $@ $(SERVE_PY:%='$(SERVE_RUN) %')

# RLX_SOAK_MINUTES (20) of load, reloads, vanishing clients and kills.
soak:
	$(Q)tools/setup.sh serve
	$(Q)+$(BUILDMAKE) $(BUILD)/bin/rlx $(BUILD)/bin/rlxd $(BUILD)/lib/librlx.so.1
	$(Q)tools/fetch-models.sh minilm
	$(Q)selftests/serve/venv.sh
	$(Q)$(RUN) -g $@ -t 7200 '$(SERVE_RUN) soak'

.PHONY: check-serve asan-serve tsan-serve fuzz-serve serve-inproc soak

# The benchmark of serving, with its echo, its bare run and its peer.
BENCH_SERVE := $(patsubst selftests/serve/bench/%.c,$(BUILD)/bench-serve/%, \
		 $(wildcard selftests/serve/bench/*.c))

$(BUILD)/bench-serve/%: $(BUILD)/obj/selftests/serve/bench/%.o \
		$(BUILD)/obj/tools/rlx/peer_ort.o $(LIB_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@

bench-serve-programs: $(BENCH_SERVE)

bench-serve:
	$(Q)tools/setup.sh serve
	$(Q)+$(BUILDMAKE) $(BUILD)/bin/rlx $(BUILD)/bin/rlxd $(BUILD)/test/bench/channel \
		bench-serve-programs
	$(Q)tools/fetch-models.sh minilm onnxruntime
	$(Q)selftests/serve/venv.sh
	$(Q)+$(BUILDMAKE) $(BUILD)/models/minilm.onnx
	$(Q)selftests/bench/run.sh $(BUILD)/test/bench/channel \
		'python3 selftests/serve/bench/bench.py' \
		'python3 selftests/serve/bench/restart.py'

.PHONY: bench-serve bench-serve-programs
