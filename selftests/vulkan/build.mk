# SPDX-License-Identifier: MIT
# The Vulkan backend on Mesa's device for CPUs (lavapipe), whose compiled code is kept from one
# program and run to the next. LLVM makes it without optimization, which takes longer than it saves.
VULKAN_BIN  := $(patsubst selftests/%.c,$(BUILD)/test/%,$(wildcard selftests/vulkan/*.c))
# It has the shaders of ops, and finds them compiled if it begins after all else, not beside that.
VULKAN_LAST := $(BUILD)/test/vulkan/validation
VULKAN_BIN  := $(BUILD)/test/vulkan/ops $(filter-out %/ops $(VULKAN_LAST),$(VULKAN_BIN))
# Tests that take the device of RLX_TEST_GPU in as one more, or in place of the host's.
VULKAN_RIGS := $(addprefix $(BUILD)/test/ops/,regressions defects data_size edges differential)
VULKAN_ENV  := RLX_TEST_GPU=vulkan RLX_TEST_TIMEOUT=600 RLX_FUZZ_CASES=100 \
	GALLIVM_PERF=nopt MESA_SHADER_CACHE_DIR=$(abspath $(BUILD))/vulkan-cache \
	XDG_CACHE_HOME=$(abspath $(BUILD))/vulkan-cache

# The same where what kernels use is apart from the host's, and what then crosses.
VULKAN_DISCRETE := "$(BUILD)/test/vulkan/ops f32 f32_with_constants guarded_ends" \
	$(addprefix $(BUILD)/test/vulkan/,device validation) \
	$(addprefix $(BUILD)/test/ops/,regressions edges differential) \
	$(addprefix $(BUILD)/test/gpu/,session stable state extent) \
	"$(BUILD)/test/gpu/random_graph with_steps_of_the_host" \
	"$(BUILD)/test/gpu/models minilm_f32 magika_f32"

# Real models against the CPU.
VULKAN_MODELS := "$(BUILD)/test/gpu/models minilm_f32 minilm_bf16 ppocr_cls_f32 magika_f32 \
	silero_vad_ifless_f32"

check-vulkan:
	$(Q)tools/setup.sh demo vulkan
	$(Q)tools/fetch-models.sh minilm magika ppocr silero
	$(Q)+$(BUILDMAKE) VULKAN=1 $(VULKAN_BIN) $(VULKAN_LAST) $(VULKAN_RIGS) \
		$(MODELS)/minilm.onnx \
		$(addprefix $(BUILD)/test/gpu/,models session stable state extent random_graph)
	$(Q)for f in $(VK_SPV); do spirv-val --target-env vulkan1.2 --scalar-block-layout \
		$$f || exit 1; done
	$(Q)$(VULKAN_ENV) $(RUN) -g $@ -j $(JOBS) $(VULKAN_BIN) $(VULKAN_RIGS) \
		$(VULKAN_MODELS) "$(BUILD)/test/gpu/extent small_nets" $(VULKAN_LAST)
	$(Q)RLX_VK_DISCRETE=1 $(VULKAN_ENV) $(RUN) -g $@-discrete -j $(JOBS) $(VULKAN_DISCRETE)

# Beside the CUDA backend, on a GPU that has drivers for both.
bench-vulkan:
	$(Q)tools/setup.sh demo vulkan
	$(Q)+$(BUILDMAKE) VULKAN=1 all
	$(Q)selftests/gpu/device.sh $(BUILD) $@
	$(Q)+$(BUILDMAKE) VULKAN=1 $(addprefix $(BUILD)/test/gpubench/,vulkan minilm) \
		$(MODELS)/resnet50.onnx
	$(Q)selftests/bench/run.sh '$(BUILD)/test/gpubench/vulkan $(MODELS)/resnet50.onnx' \
		'$(BUILD)/test/gpubench/minilm vulkan 1 16' \
		'$(BUILD)/test/gpubench/minilm cuda 1 16'

.PHONY: check-vulkan bench-vulkan
