# SPDX-License-Identifier: MIT
# The GPU kernels and backend on an emulated GPU: no device and no CUDA needed.
EMU_DIR := $(BUILD)/test/emu
EMU_SRC := $(filter-out %/nvrtc.c,$(wildcard selftests/gpu/emu/*.c))
# Under both names, lest a real compiler found later be given the emulator's work.
EMU_LIB := $(addprefix $(EMU_DIR)/,libcuda.so.1 libnvrtc.so.12 libnvrtc.so.13 libnccl.so.2 \
		librccl.so.1)
EMU_OBJ := $(EMU_SRC:%.c=$(BUILD)/obj/%.o)
GPU_BIN := $(filter $(BUILD)/test/gpu/%,$(TEST_BIN))
# Each dtype means other kernels, which take minutes to compile the first time.
GPU_SLOW := $(BUILD)/test/gpu/dtypes
# Sizes for a real device's memory, and models of which one takes the emulator minutes.
GPU_LARGE := $(BUILD)/test/gpu/large $(BUILD)/test/gpu/models
# Kernels alone, which a tool that watches every access can run in minutes.
GPU_KERNELS := attention kv_cache conv fold gemm gemm_f8 move quant rnn rows space \
	ssm
# Tests that take the device of RLX_TEST_GPU in as one more.
GPU_RIGS := $(addprefix $(BUILD)/test/,$(addprefix ops/,regressions defects data_size empty \
		edges activations signal geometry) libuser/qdq libuser/api_points)
# What the backend for AMD's GPUs runs too, on what HIP is made of here.
GPU_ROCM := "selftests/gpu/rocm.sh ops" "selftests/gpu/rocm.sh session" \
	"selftests/gpu/rocm.sh submit" "selftests/gpu/rocm.sh devices" \
	"selftests/gpu/rocm.sh ranks" "selftests/gpu/rocm.sh dims" \
	"selftests/gpu/rocm.sh device_buffer dlpack_there_and_back"
# Memory, streams and kernels of a device that is not the first.
GPU_SECOND := "selftests/gpu/second.sh session" "selftests/gpu/second.sh submit" \
	"selftests/gpu/second.sh resident" "selftests/gpu/second.sh extent" \
	"selftests/gpu/second.sh device_buffer dlpack_there_and_back"
# The real NVRTC must not meet the emulator on the loader's path.
GPU_NVRTC := $(BUILD)/test/gpu/nvrtc
# What they provoke is nothing for a real device.
GPU_EMULATED := $(BUILD)/test/gpu/emulator $(BUILD)/test/gpu/faults
# They count a device's memory, of which nobody else may take any meanwhile.
GPU_ALONE := $(patsubst selftests/%.c,$(BUILD)/test/%,$(shell \
	grep -l memory_left.h selftests/gpu/*.c))
# Its fibers are nothing a sanitizer knows; it checks kernels by itself.
$(BUILD)/obj/selftests/gpu/emu/%.o: SAN :=
# Kernels are compiled for this machine, so halves need not be converted by hand.
$(BUILD)/obj/selftests/gpu/emu/%.o: CFLAGS += $(if $(shell grep -m1 -wo f16c /proc/cpuinfo),-mf16c)
$(BUILD)/obj/selftests/gpu/hip/%.o: SAN :=
$(BUILD)/obj/selftests/gpu/nccl/%.o: SAN :=

$(EMU_DIR)/libcuda.so.1: $(EMU_OBJ)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -pthread -Wl,-soname,libcuda.so.1 $^ -lm -ldl -o $@

$(EMU_DIR)/libnvrtc.so.12: $(BUILD)/obj/selftests/gpu/emu/nvrtc.o
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,libnvrtc.so.12 $^ -o $@

$(EMU_DIR)/libnvrtc.so.13: $(EMU_DIR)/libnvrtc.so.12
	$(Q)ln -sf $(<F) $@

$(EMU_DIR)/libnccl.so.2: $(BUILD)/obj/selftests/gpu/nccl/fake.o
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -pthread -Wl,-soname,$(@F) $< -ldl -o $@

$(EMU_DIR)/librccl.so.1: $(EMU_DIR)/libnccl.so.2
	$(Q)ln -sf $(<F) $@

# HIP by CUDA's libraries, or by the emulated ones: the loader's path decides.
HIP_DIR := $(BUILD)/test/hip
HIP_LIB := $(addprefix $(HIP_DIR)/,libamdhip64.so.7 libhiprtc.so.7)

$(BUILD)/gen/gpu/hip_device.h: backends/gpu/source.awk selftests/gpu/hip/device.h
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)awk -f $^ >$@

$(BUILD)/obj/selftests/gpu/hip/rtc.o: $(BUILD)/gen/gpu/hip_device.h

$(HIP_DIR)/libamdhip64.so.7: $(BUILD)/obj/selftests/gpu/hip/driver.o
$(HIP_DIR)/libhiprtc.so.7: $(BUILD)/obj/selftests/gpu/hip/rtc.o
$(HIP_LIB):
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) $^ -ldl -o $@

# A driver and a compiler that do nothing, under both names.
DRY_LIB := $(addprefix $(BUILD)/test/dry/,libcuda.so.1 libnvrtc.so.13)
$(DRY_LIB): $(BUILD)/obj/selftests/gpu/dry/driver.o
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) $< -o $@
$(BUILD)/obj/selftests/gpu/dry/%.o: SAN :=
$(BUILD)/test/gpu/listed $(BUILD)/test/gpu/tune: | $(DRY_LIB)

emu: $(EMU_LIB)

# Images of kernels are kept from one run to the next, by a hash of their source and compiler.
# The product finds the emulator as it would find a driver: by the loader's path.
EMU_ENV := RLX_EMU_CACHE=$(abspath $(BUILD))/emu-cache RLX_TEST_TIMEOUT=900 \
	XDG_CACHE_HOME=$(abspath $(BUILD))/emu-cache LD_LIBRARY_PATH=$(abspath $(EMU_DIR))
check-emu:
	$(Q)tools/setup.sh check
	$(Q)+$(BUILDMAKE) emu all $(GPU_BIN) $(GPU_RIGS) $(HIP_LIB)
	$(Q)$(EMU_ENV) RLX_TEST_GPU=cuda $(RUN) -g $@ -j $(JOBS) $(GPU_RIGS) \
		$(filter-out $(GPU_SLOW) $(GPU_NVRTC) $(GPU_LARGE),$(GPU_BIN)) $(GPU_ROCM) \
		"selftests/gpu/rocm.sh faults" $(GPU_SECOND)

# By a compiler that is fetched, or by the one that RLX_NVRTC names.
check-nvrtc: export RLX_NVRTC ?= $(abspath $(MODELS))/nvrtc/libnvrtc.so.12
check-nvrtc:
	$(Q)tools/setup.sh demo
	$(Q)tools/fetch-models.sh nvrtc
	$(Q)+$(BUILDMAKE) $(GPU_NVRTC)
	$(Q)RLX_TEST_TIMEOUT=900 $(RUN) -g $@ $(GPU_NVRTC)

check-emu-dtypes:
	$(Q)tools/setup.sh check
	$(Q)+$(BUILDMAKE) emu $(GPU_SLOW)
	$(Q)$(EMU_ENV) $(RUN) -g $@ -j $(JOBS) $(GPU_SLOW)

# The same programs on a real device. Without one there is nothing to pass, nor to build.
check-gpu:
	$(Q)tools/setup.sh demo
	$(Q)+$(BUILDMAKE) all
	$(Q)selftests/gpu/device.sh $(BUILD) $@
	$(Q)+$(BUILDMAKE) $(GPU_BIN) $(GPU_RIGS) $(HIP_LIB) models
	$(Q)RLX_TEST_GPU=cuda $(RUN) -g $@ $(GPU_ALONE)
	$(Q)RLX_TEST_GPU=cuda $(RUN) -g $@ -j $(JOBS) $(GPU_RIGS) \
		$(filter-out $(GPU_EMULATED) $(GPU_ALONE),$(GPU_BIN)) $(GPU_ROCM) $(GPU_SECOND)
	$(Q)tools/setup.sh serve
	$(Q)+$(BUILDMAKE) $(BUILD)/bin/rlx $(BUILD)/bin/rlxd $(BUILD)/lib/librlx.so.1
	$(Q)tools/fetch-models.sh minilm
	$(Q)selftests/serve/venv.sh
	$(Q)DEVICE=cuda $(RUN) -g $@ $(SERVE_GPU:%='$(SERVE_RUN) %')

# Accesses, races in shared memory, reads of what nobody wrote: by NVIDIA's tool.
check-gpu-sanitizer:
	$(Q)tools/setup.sh build
	$(Q)+$(BUILDMAKE) all
	$(Q)selftests/gpu/device.sh $(BUILD) $@
	$(Q)+$(BUILDMAKE) $(BUILD)/test/gpu/session $(GPU_KERNELS:%=$(BUILD)/test/gpu/%)
	$(Q)$(RUN) -g $@ -j $(JOBS) \
		"selftests/gpu/sanitizer.sh leaks session" \
		$(foreach t,memcheck racecheck initcheck synccheck,$(foreach k,$(GPU_KERNELS),\
			"selftests/gpu/sanitizer.sh $t $k"))

# Each program checks its results before it takes times.
GPU_BENCH := $(filter-out %/programs %/vulkan,$(filter $(BUILD)/test/gpubench/%,$(TEST_BIN)))
bench-gpu:
	$(Q)tools/setup.sh demo
	$(Q)+$(BUILDMAKE) all
	$(Q)selftests/gpu/device.sh $(BUILD) $@
	$(Q)+$(BUILDMAKE) $(GPU_BENCH) $(BUILD)/test/gpubench/programs models
	$(Q)$(BUILD)/bin/rlx bench $(MODELS)/minilm.onnx --dim batch=1 --dim sequence=16 \
		--device cuda
	$(Q)selftests/bench/run.sh $(GPU_BENCH) $(if $(shell python3 -c 'import torch' 2>&1),, \
		'python3 selftests/gpubench/minilm.py' \
		'python3 selftests/gpubench/decoder.py' \
		'python3 selftests/gpubench/train.py' \
		'python3 selftests/gpubench/attention.py $(BUILD)/test/gpubench/attention' \
		'python3 selftests/gpubench/recurrence.py $(BUILD)/test/gpubench/programs' \
		'python3 selftests/gpubench/fft.py $(BUILD)/test/gpubench/programs')

# Training steps fed from the disk, with the device's idle time, and the same steps by PyTorch;
# with several GPUs also of a rank on each of two, that have whole states or parts of them.
TRAIN_STEPS := '12 768 12 1024 16 50304' 'resnet50 64 224 1000'
bench-train:
	$(Q)tools/setup.sh build
	$(Q)+$(BUILDMAKE) all
	$(Q)selftests/gpu/device.sh $(BUILD) $@
	$(Q)+$(BUILDMAKE) $(BUILD)/test/gpubench/train $(BUILD)/test/gpubench/ranks
	$(Q)for step in $(TRAIN_STEPS); do \
		selftests/bench/run.sh "$(BUILD)/test/gpubench/train -m $$step" \
			"$(BUILD)/test/gpubench/train -m -d $$step" $(if $(shell \
			python3 -c 'import torch' 2>&1),, \
			"python3 selftests/gpubench/train.py $$step") || exit 1; \
	done
	$(Q)test "$$(nvidia-smi -L 2>&1 | grep -c ^GPU)" -lt 2 || for step in $(TRAIN_STEPS); do \
		selftests/bench/run.sh "$(BUILD)/test/gpubench/ranks -m 2 $$step" \
			"$(BUILD)/test/gpubench/ranks -m -z 2 $$step" || exit 1; \
	done

# Random problems of ten families on a real GPU, against PyTorch: SEED=n for the same again,
# CASES of each family, WORDS for its other options (sweep.py --help).
bench-sweep: CASES := $(if $(filter file,$(origin CASES)),25,$(CASES))
bench-sweep:
	$(Q)tools/setup.sh build
	$(Q)+$(BUILDMAKE) all
	$(Q)selftests/gpu/device.sh $(BUILD) $@
	$(Q)+$(BUILDMAKE) $(BUILD)/test/gpubench/programs
	$(Q)BUILD=$(BUILD) python3 selftests/gpubench/sweep/sweep.py \
		$(if $(SEED),--seed $(SEED)) --cases $(CASES) $(WORDS)

# A selection of the kernels by the compilers that Debian's hipcc brings.
check-hip-build:
	$(Q)tools/setup.sh hip
	$(Q)+$(BUILDMAKE) $(LIB_A)
	$(Q)$(RUN) -g $@ selftests/gpu/hip_build.sh

.PHONY: emu check-emu check-nvrtc check-hip-build check-emu-dtypes check-gpu bench-gpu \
	bench-sweep bench-train \
	check-gpu-sanitizer
