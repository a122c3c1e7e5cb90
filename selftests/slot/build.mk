# SPDX-License-Identifier: MIT
# The tests of the slot machine once more, under the sanitizers: they are small
# enough for every run, and the races they look for show nowhere else.
SLOT_DEPS := selftests/lib/rlx_test.c selftests/lib/rlx_test.h \
	     $(wildcard selftests/kmod/kunit/slot_*.h kmod/slot*.[ch]) kmod/pure.h \
	     selftests/kmod/shim/kernel.h
slot_cc = $(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(1) $< selftests/lib/rlx_test.c -lm -o $@

$(BUILD)/test/slot/%.asan: selftests/slot/%.c $(SLOT_DEPS)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(call slot_cc,-fsanitize=address -fsanitize=undefined -fno-sanitize-recover=undefined)

$(BUILD)/test/slot/%.tsan: selftests/slot/%.c $(SLOT_DEPS)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(call slot_cc,-fsanitize=thread)

# Not where all is built with one already.
ifeq ($(SAN),)
UNIT_BIN += $(addprefix $(BUILD)/test/slot/,machine.asan threads.asan threads.tsan)
endif
