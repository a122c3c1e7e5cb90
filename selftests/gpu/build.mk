# SPDX-License-Identifier: MIT
# The GPU kernels and backend on an emulated GPU: no device and no CUDA needed.
EMU_DIR := $(BUILD)/test/emu
EMU_SRC := $(filter-out %/nvrtc.c,$(wildcard selftests/gpu/emu/*.c))
EMU_LIB := $(EMU_DIR)/libcuda.so.1 $(EMU_DIR)/libnvrtc.so.12
EMU_OBJ := $(EMU_SRC:%.c=$(BUILD)/obj/%.o)
GPU_BIN := $(filter $(BUILD)/test/gpu/%,$(TEST_BIN))
# Its fibers are nothing a sanitizer knows; it checks kernels by itself.
$(BUILD)/obj/selftests/gpu/emu/%.o: SAN :=

$(EMU_DIR)/libcuda.so.1: $(EMU_OBJ)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -pthread -Wl,-soname,libcuda.so.1 $^ -lm -ldl -o $@

$(EMU_DIR)/libnvrtc.so.12: $(BUILD)/obj/selftests/gpu/emu/nvrtc.o
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,libnvrtc.so.12 $^ -o $@

emu: $(EMU_LIB)

# Images of kernels are kept from one run to the next, by the hash of their source.
check-emu: export RLX_EMU_CACHE := $(abspath $(BUILD))/emu-cache
check-emu:
	$(Q)tools/setup.sh check
	$(Q)+$(SUBMAKE) emu $(GPU_BIN)
	$(Q)$(RUN) -g $@ -j $(JOBS) $(GPU_BIN)

.PHONY: emu check-emu
