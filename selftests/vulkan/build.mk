# SPDX-License-Identifier: MIT
# The Vulkan backend on Mesa's device for CPUs (lavapipe), whose compiled code is kept from one
# run to the next.
VULKAN_BIN  := $(patsubst selftests/%.c,$(BUILD)/test/%,$(wildcard selftests/vulkan/*.c))
# Tests that take the device of RLX_TEST_GPU in as one more, or in place of the host's.
VULKAN_RIGS := $(addprefix $(BUILD)/test/ops/,regressions defects data_size edges differential)
VULKAN_ENV  := RLX_TEST_GPU=vulkan RLX_TEST_TIMEOUT=600 RLX_FUZZ_CASES=100 \
	MESA_SHADER_CACHE_DIR=$(abspath $(BUILD))/vulkan-cache \
	XDG_CACHE_HOME=$(abspath $(BUILD))/vulkan-cache

# Real models against the CPU.
VULKAN_MODELS := "$(BUILD)/test/gpu/models minilm_f32 minilm_bf16 ppocr_cls_f32 magika_f32 \
	silero_vad_ifless_f32"

check-vulkan:
	$(Q)tools/setup.sh demo vulkan
	$(Q)tools/fetch-models.sh minilm magika ppocr silero
	$(Q)+$(BUILDMAKE) VULKAN=1 $(VULKAN_BIN) $(VULKAN_RIGS) $(BUILD)/test/gpu/models \
		$(MODELS)/minilm.onnx
	$(Q)for f in $(VK_SPV); do spirv-val --target-env vulkan1.2 --scalar-block-layout \
		$$f || exit 1; done
	$(Q)$(VULKAN_ENV) $(RUN) -g $@ -j $(JOBS) $(VULKAN_BIN) $(VULKAN_RIGS) \
		$(VULKAN_MODELS)

.PHONY: check-vulkan
