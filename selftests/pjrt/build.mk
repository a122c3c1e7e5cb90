# SPDX-License-Identifier: MIT
# The PJRT backend on a plugin for CPUs, of which the file is taken out of its package, without
# what that wants of Python.
PJRT_BIN    := $(patsubst selftests/%.c,$(BUILD)/test/%,$(wildcard selftests/pjrt/*.c))
PJRT_FAKE   := $(BUILD)/test/pjrt/fake_plugin.so
PJRT_PLUGIN := $(abspath $(BUILD))/pjrt/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so

$(PJRT_PLUGIN): selftests/pjrt/requirements.txt
	$(call say,PIP,$@)
	$(Q)python3 -m pip install -q --root-user-action=ignore --no-deps --upgrade \
		--target $(BUILD)/pjrt -r $< && touch $@

# Each compiles the samples of all ops. Of ours: f32, f32_with_constants, f64, f16, bf16.
PJRT_OPS    ?= f32 bf16
# What is compiled runs once, on little: LLVM's optimization takes longer than it saves.
PJRT_ENV    := XLA_FLAGS=--xla_backend_optimization_level=0

$(PJRT_FAKE): $(BUILD)/obj/selftests/pjrt/fake/plugin.o
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared $< -o $@
$(BUILD)/obj/selftests/pjrt/fake/%.o: SAN :=
$(BUILD)/test/pjrt/device: | $(PJRT_FAKE)

check-pjrt:
	$(Q)tools/setup.sh demo
	$(Q)+$(BUILDMAKE) $(PJRT_BIN) $(PJRT_PLUGIN)
	$(Q)$(PJRT_ENV) RLX_PJRT_PLUGIN=$(PJRT_PLUGIN) RLX_TEST_TIMEOUT=600 \
		$(RUN) -g $@ -j $(JOBS) \
		$(PJRT_OPS:%="$(BUILD)/test/pjrt/ops %") \
		$(filter-out $(BUILD)/test/pjrt/ops,$(PJRT_BIN))

.PHONY: check-pjrt
