# SPDX-License-Identifier: MIT
# Test programs: every selftests/<dir>/<name>.c is one, linked with the static
# library so that it may call internals too. selftests/lib/*.c is shared by all.
TEST_LIB := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard selftests/lib/*.c))
TEST_SRC := $(filter-out selftests/lib/% selftests/fuzz/%,$(wildcard selftests/*/*.c))
TEST_BIN := $(TEST_SRC:selftests/%.c=$(BUILD)/test/%)

$(BUILD)/test/%: $(BUILD)/obj/selftests/%.o $(TEST_LIB) $(BUILD)/lib/librlx.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $< $(TEST_LIB) $(BUILD)/lib/librlx.a $(LDLIBS) -o $@

tests: $(TEST_BIN)
.PHONY: tests
