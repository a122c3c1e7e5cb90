# SPDX-License-Identifier: MIT
# The backends, by wildcard. Those of GPUs are libraries of their own, librlx-gpu.so and
# librlx-vulkan.so, which librlx.so opens when one is asked for; in librlx.a they are as the
# others.
BACKEND_SRC := $(wildcard backends/*/*.c)
GPU_SRC	    := $(wildcard backends/gpu/*.c backends/cuda/*.c backends/rocm/*.c)
VULKAN_SRC  := $(wildcard backends/vulkan/*.c)
BACKEND_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out $(GPU_SRC) $(VULKAN_SRC) \
		backends/cpu/kernels_%.c,$(BACKEND_SRC)))
GPU_OBJ	    := $(GPU_SRC:%.c=$(BUILD)/obj/%.o)

# Vulkan's kernels are compiled here, so it is built where their compiler and Vulkan's headers
# are; VULKAN=0 leaves it out, VULKAN=1 asks for it.
GLSLC	?= glslc
VULKAN	?= $(shell command -v $(GLSLC) >/dev/null && echo '\#include <vulkan/vulkan.h>' | \
		$(CC) -E -x c - >/dev/null 2>&1 && echo 1 || echo 0)
VULKAN	:= $(VULKAN)
VULKAN_OBJ  := $(if $(filter 1,$(VULKAN)),$(VULKAN_SRC:%.c=$(BUILD)/obj/%.o))

# The kernels' text, which is compiled where it runs; how they are launched is the host's.
GPU_TEXT := $(filter-out kernels/gpu/launch%.h kernels/gpu/cost.h, \
	    $(sort $(wildcard kernels/gpu/*.cu kernels/gpu/*.h kernels/*.h))) \
	    kernels/simd/math.h kernels/simd/ew_rows.h kernels/simd/act.h \
	    kernels/simd/wino_lines.h \
	    libuser/ops/elementwise.def libuser/ops/elementwise_int.h \
	    libuser/include/rlx/act.h libuser/include/rlx/dtype.h libuser/include/rlx/scheme.h

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

# Vulkan's kernels: GLSL to SPIR-V to a table of words. Structs and pointwise functions are
# made from those of C.
VK_GEN	:= $(BUILD)/gen/vk
VK_COMP	:= $(wildcard kernels/vulkan/*.comp)
VK_SPV	:= $(VK_COMP:kernels/vulkan/%.comp=$(VK_GEN)/%.spv)

$(VK_GEN)/args.glsl: kernels/vulkan/args.c kernels/vulkan/args.def kernels/vulkan/args.awk \
		kernels/vulkan/pointwise.h $(wildcard kernels/*.h) libuser/include/rlx/act.h \
		libuser/include/rlx/dtype.h libuser/include/rlx/scheme.h
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)$(CC) $(CPPFLAGS) -std=gnu11 -S -o - $< | awk -f kernels/vulkan/args.awk >$@

$(VK_GEN)/ew_rows.glsl: kernels/vulkan/ew.awk libuser/ops/elementwise.def
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)awk -f $^ >$@

$(VK_GEN)/%.spv: kernels/vulkan/%.comp $(wildcard kernels/vulkan/*.glsl) $(VK_GEN)/args.glsl \
		$(VK_GEN)/ew_rows.glsl
	$(call say,GLSLC,$<)
	$(Q)$(GLSLC) -O0 -Werror --target-env=vulkan1.2 -I $(VK_GEN) -I kernels/vulkan $< -o $@

$(VK_GEN)/kernels.h: backends/vulkan/kernels.sh $(VK_SPV)
	$(call say,GEN,$@)
	$(Q)sh $^ >$@

$(BUILD)/obj/backends/vulkan/pipeline.o: $(VK_GEN)/kernels.h
$(VULKAN_OBJ): CFLAGS += $(SMALL)
