# SPDX-License-Identifier: MIT
# The kernel module and its tests, which run in guests; see README.md here.
#
# Each selftests/kmod/t/NAME.c is a static program $(BUILD)/test/kmod/NAME. Next
# to it stands NAME.rig, what the source declares in "/* rig: ... */".
KMOD_STOCK	:= 6.1 6.12
# Booted with the programs that say "also": one PREEMPT_RT, and the newest there is.
KMOD_ALSO	:= 6.12-rt 7
# Compiled for: the flavours, and 7.x of another suite (tools/fetch-kernels.sh).
KMOD_HEADERS	:= 6.1-rt 6.1-cloud 6.12-cloud 7.2 7-rt 7-cloud
KMOD_BOOTED	:= $(KMOD_STOCK) $(KMOD_ALSO)
KMOD_KERNELS	:= $(KMOD_BOOTED) $(KMOD_HEADERS) debug kcsan
KMOD_DIR	:= $(BUILD)/test/kmod
KMOD_SRC	:= $(wildcard selftests/kmod/t/*.c)
KMOD_BIN	:= $(KMOD_SRC:selftests/kmod/t/%.c=$(KMOD_DIR)/%)
KMOD_LIB	:= $(patsubst %.c,$(BUILD)/obj/%.o,$(addprefix selftests/lib/,fds.c \
			rlx_test.c rlx_oom.c) $(wildcard selftests/kmod/lib/*.c \
			selftests/kmod/rand/*.c))
# Those that also exist as 32-bit programs, NAME.32; they go without liburing.
KMOD_SRC32	:= $(if $(KMOD_SRC),$(shell grep -lE '^.. rig:.*\bm32\b' $(KMOD_SRC)))
KMOD_BIN32	:= $(KMOD_SRC32:selftests/kmod/t/%.c=$(KMOD_DIR)/%.32)
KMOD_CPPFLAGS	:= -Iuapi -Iselftests/kmod -DRLX_TEST_KTAP

$(KMOD_SRC:%.c=$(BUILD)/obj/%.o) $(filter $(BUILD)/obj/selftests/kmod/%,$(KMOD_LIB)): \
	CPPFLAGS += $(KMOD_CPPFLAGS)

rig_words = sed -n '1,12s,^.*/\?\* rig: *\(.*[^ ]\) *\*/$$,\1,p'

# An archive, so that a program may have its own of what stands there.
$(KMOD_DIR)/lib.a: $(KMOD_LIB)
	@mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# The library is there for those that call it: rlx_open() and others.
$(KMOD_BIN): $(KMOD_DIR)/%: $(BUILD)/obj/selftests/kmod/t/%.o $(KMOD_DIR)/lib.a \
		$(LIB_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(rig_words) selftests/kmod/t/$*.c >$@.rig
	$(Q)$(CC) $(LDFLAGS) -static $< $(KMOD_DIR)/lib.a $(LIB_A) $(LDLIBS) \
		-o $@ 2>$@.warn || { cat $@.warn >&2; exit 1; }

$(KMOD_BIN32): $(KMOD_DIR)/%.32: selftests/kmod/t/%.c selftests/lib/rlx_test.c \
		$(wildcard selftests/kmod/lib/*.[ch]) selftests/lib/rlx_test.h \
		uapi/linux/rlx.h
	@mkdir -p $(@D)
	$(call say,CC32,$@)
	$(Q)$(rig_words) $< >$@.rig
	$(Q)$(CC) -m32 $(CPPFLAGS) $(KMOD_CPPFLAGS) $(CFLAGS) -DRLX_TEST_M32 -static \
		$< selftests/lib/rlx_test.c $(wildcard selftests/kmod/lib/*.c) -lm -o $@

kmod-tests: $(KMOD_BIN) $(KMOD_BIN32)

# The same as a collection of the kernel's selftests, beside whose run_kselftest.sh it goes.
KSELFTEST	:= $(BUILD)/kselftest
kselftest: kmod-tests
	$(Q)selftests/kmod/kselftest.sh install $(KSELFTEST) $(KMOD_BIN) $(KMOD_BIN32)

# What can be had of them; what cannot is said, and its tests are skipped.
kernels:
	$(Q)tools/setup.sh kmod
	$(Q)tools/fetch-kernels.sh $(KMOD_BOOTED) || :
	$(Q)tools/fetch-kernels.sh -H $(KMOD_HEADERS) || :
	$(Q)tools/debug-kernel.sh find || :

# The module for one kernel, and its KUnit modules where KUnit is.
# $(BUILD)/kmod/KERNEL/rlx.ko has what only tests call, unless KMOD_VARS says other.
KMOD_VARS	?= RLX_TESTING=1 W=1
KUNIT_DIR	:= $(wildcard selftests/kmod/kunit)
build_module = JOBS=$(JOBS) selftests/kmod/build-module.sh

$(KMOD_KERNELS:%=kmod-%): kmod-%: kernels
	$(Q)[ ! -d $(BUILD)/kernels/$*/build ] || { \
		printf '  %-7s %s\n' KMOD $(BUILD)/kmod/$*/rlx.ko && \
		$(build_module) $(KMOD_VARS:%=-v %) $*; }
	$(if $(and $(filter debug,$*),$(KUNIT_DIR)),$(Q)[ ! -d $(BUILD)/kernels/$*/build ] || \
		$(build_module) -d $(KUNIT_DIR) -o $(BUILD)/kmod/$*/kunit $*)

.PHONY: kmod-tests kselftest kernels $(KMOD_KERNELS:%=kmod-%)

# One boot by hand: make guest K=6.1 T='arena errno' RIG='-t 100'
K	?= 6.12
T	?= $(notdir $(KMOD_BIN) $(KMOD_BIN32))
RIG	?=
guest: kmod-$(K) kmod-tests
	$(Q)selftests/kmod/run-qemu.sh -k $(K) $(RIG) $(T:%=$(KMOD_DIR)/%)

# What runs at a time: a guest keeps little more than one of its two processors busy.
KMOD_AT_ONCE	?= 2
run_suites = selftests/run.sh -g $@ -j $(KMOD_AT_ONCE) -t 1500 $(1) \
	$$(for k in $(2); do selftests/kmod/suites.sh $$k $(KMOD_BIN) $(KMOD_BIN32); done; \
	   for k in $(3); do selftests/kmod/suites.sh -a $$k $(KMOD_BIN) $(KMOD_BIN32); done) $(4)

check-kmod:
	$(Q)tools/setup.sh kmod
	$(Q)+$(FETCHMAKE) kernels
	$(Q)+$(BUILDMAKE) kmod-tests $(KMOD_BOOTED:%=kmod-%)
	$(Q)$(call run_suites,'selftests/kmod/matrix.sh $(KMOD_BOOTED) $(KMOD_HEADERS)',\
		$(KMOD_STOCK),$(KMOD_ALSO),'selftests/kmod/gate.sh 6.12' \
		"selftests/kmod/kselftest.sh check $(KMOD_BIN) $(KMOD_BIN32)" \
		selftests/slot/mutants.sh selftests/kmod/spin/run.sh)

# The command and the daemon over the module.
check-kmod-serve:
	$(Q)tools/setup.sh kmod
	$(Q)tools/setup.sh serve
	$(Q)+$(FETCHMAKE) kernels
	$(Q)+$(BUILDMAKE) kmod-6.12 $(BUILD)/bin/rlx-static $(BUILD)/bin/rlxd-static \
		$(BUILD)/bin/rlx $(BUILD)/bin/rlxd $(BUILD)/lib/librlx.so.1
	$(Q)tools/fetch-models.sh minilm; selftests/serve/venv.sh || :
	$(Q)$(RUN) -g $@ -t 1500 'selftests/kmod/demo.sh 6.12' 'selftests/kmod/serve.sh 6.12' \
		'selftests/kmod/systemd.sh 6.12' 'selftests/kmod/refused.sh 6.12'

check-kmod-debug:
	$(Q)tools/setup.sh kmod
	$(Q)+$(FETCHMAKE) kernels
	$(Q)+$(BUILDMAKE) kmod-tests kmod-debug
	$(Q)$(call run_suites,,debug,,'selftests/kmod/gate.sh debug' \
		'selftests/kmod/matrix.sh debug')

# Random programs, OPS operations of them: on the debug kernel, where a processor of 2024 does
# some 800 a second, or on K, where it does some 18,000.
OPS	?= 1000000
# kmemleak follows each allocation of the kernel, which is a quarter of the time there: the
# check has it, and so has LEAKS=1.
LEAKS	?=
fuzz-kmod: K = debug
fuzz-kmod: FUZZ_LIMIT = $(shell expr 600 + $(OPS) / $(if $(filter debug kcsan,$(K)),100,500))
fuzz-kmod:
	$(Q)tools/setup.sh kmod
	$(Q)+$(SUBMAKE) guest K=$(K) T=random RLX_KMOD_FUZZ_OPS=$(OPS) \
		RIG='-n fuzz-$(K) -t $(FUZZ_LIMIT) -T $(FUZZ_LIMIT) $(if $(LEAKS),,-a kmemleak=off)'

# Data races: all suites, and random programs, with a kernel that looks for them. It is built
# where there is none, which takes long: so this is no part of "make check".
check-kmod-kcsan:
	$(Q)tools/setup.sh kmod
	$(Q)+tools/debug-kernel.sh -k kcsan find 2>/dev/null || $(SUBMAKE) kcsan-kernel
	$(Q)+$(BUILDMAKE) kmod-tests
	$(Q)$(build_module) $(KMOD_VARS:%=-v %) kcsan
	$(Q)selftests/run.sh -g $@ -t 7200 \
		$$(selftests/kmod/suites.sh kcsan $(KMOD_BIN)) 'selftests/kmod/gate.sh kcsan'

# The models of the protocols; no kernel is needed.
check-spin:
	$(Q)tools/setup.sh kmod
	$(Q)JOBS=$(JOBS) selftests/run.sh -g $@ selftests/kmod/spin/run.sh

.PHONY: guest check-kmod check-kmod-serve check-kmod-debug check-kmod-kcsan fuzz-kmod \
	check-spin

# The kernels that watch, where none was brought: see tools/debug-kernel.sh.
debug-kernel kcsan-kernel: %-kernel:
	$(Q)tools/setup.sh kernel
	$(Q)JOBS=$(JOBS) tools/debug-kernel.sh -k $* build

.PHONY: debug-kernel kcsan-kernel
