# SPDX-License-Identifier: MIT
# The backends, by wildcard. Those of GPUs are a library of their own, librlx-gpu.so,
# which librlx.so opens when one is asked for; in librlx.a they are as the others.
BACKEND_SRC := $(wildcard backends/*/*.c)
GPU_SRC	    := $(wildcard backends/gpu/*.c backends/cuda/*.c backends/rocm/*.c)
BACKEND_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out $(GPU_SRC),$(BACKEND_SRC)))
GPU_OBJ	    := $(GPU_SRC:%.c=$(BUILD)/obj/%.o)

# The kernels' text, which is compiled where it runs.
GPU_TEXT := $(sort $(wildcard kernels/gpu/*.cu kernels/gpu/*.h kernels/*.h)) \
	    libuser/ops/elementwise.def libuser/ops/elementwise_int.h \
	    libuser/include/rlx/act.h libuser/include/rlx/dtype.h

$(BUILD)/gen/gpu/text.h: backends/gpu/source.awk $(GPU_TEXT)
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)awk -f backends/gpu/source.awk $(GPU_TEXT) >$@

$(BUILD)/obj/backends/gpu/source.o: $(BUILD)/gen/gpu/text.h
$(BUILD)/obj/backends/gpu/kernel_binary.o: CPPFLAGS += -DRLX_LIBDIR='"$(LIBDIR)"'
$(GPU_OBJ): CFLAGS += $(SMALL)
# Lowering is done once for each program: small rather than fast.
$(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard backends/common/*.c backends/cpu/lower*.c)): \
	CFLAGS += $(SMALL)
