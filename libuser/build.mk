# SPDX-License-Identifier: MIT
# The library's own sources, by wildcard, and the two library files.
LIB_SRC	:= $(filter-out libuser/rt/load_%.c libuser/ops/samples.c libuser/train/%, \
		$(wildcard libuser/*/*.c libuser/*/*/*.c))
LIB_OBJ	 := $(LIB_SRC:%.c=$(BUILD)/obj/%.o) $(KERNEL_OBJ) $(BACKEND_OBJ)
# What only the archive, and only the shared library has: backends/build.mk says why.
A_OBJ	 := $(GPU_OBJ) $(VULKAN_OBJ) $(AVX512_OBJ) $(BUILD)/obj/libuser/rt/load_linked.o \
	    $(BUILD)/obj/backends/cpu/kernels_linked.o $(BUILD)/obj/libuser/ops/samples.o
SO_OBJ	 := $(BUILD)/obj/libuser/rt/load_opened.o $(BUILD)/obj/backends/cpu/kernels_opened.o
OP_SRC	:= $(wildcard libuser/ops/*.c libuser/ops/*.def)
GEN	:= $(BUILD)/gen/rlx/ops.list.h
# Made with it, for the tables of libuser/ops/table.c alone.
FIELDS	:= $(BUILD)/gen/ops.fields.h

# Everything includes the list: it keeps its date while no op's block changes.
$(BUILD)/gen/.harvest: libuser/ops/ops.awk $(OP_SRC)
	@mkdir -p $(GEN:%/ops.list.h=%)
	$(call say,HARVEST,$(GEN))
	$(Q)awk -f libuser/ops/ops.awk $(OP_SRC) | LC_ALL=C sort >$(GEN).new
	$(Q)cmp -s $(GEN).new $(GEN) && rm $(GEN).new || mv $(GEN).new $(GEN)
	$(Q)awk -v fields=1 -f libuser/ops/ops.awk $(OP_SRC) >$(FIELDS)
	$(Q)touch $@

$(GEN) $(FIELDS): $(BUILD)/gen/.harvest
	@test -f $@ || { rm -f $<; $(MAKE) --no-print-directory $@; }

# What plan files depend on: ops by name, and weights as kernels read them. It is the same for the
# shared library, the archive and whatever that is linked into, of one state of the sources.
LAYOUT_SRC := $(sort $(OP_SRC) $(wildcard libuser/ops/*.h libuser/ir/print.c libuser/ir/parse.c \
		libuser/model/plan_file* backends/common/*.[ch] backends/cpu/*.[ch] \
		backends/cpu/*.def kernels/*.h kernels/cpu/* kernels/simd/*))
LAYOUT_ID := $(BUILD)/gen/layout_id.h

$(LAYOUT_ID): $(LAYOUT_SRC)
	@mkdir -p $(@D)
	$(Q)cat $(LAYOUT_SRC) | sha256sum | cut -c1-64 | sed 's/../0x&, /g' >$@.new
	$(Q)cmp -s $@.new $@ && rm $@.new && touch $@ || mv $@.new $@

$(BUILD)/obj/libuser/model/plan_file.o: $(LAYOUT_ID)

# A model and its tokenizer are read once, a graph is built, rewritten, planned and lowered once,
# memory is had and bound once, services and channels are opened once, and ops are evaluated to
# compare with: that code may be small rather than fast.
ONCE := $(wildcard libuser/io/onnx/*.c libuser/io/tokenizer/load*.c) \
	libuser/io/tokenizer/regex_parse.c libuser/base/json.c \
	$(patsubst %,libuser/mem/%.c,arena dlpack kmod memfd) \
	$(wildcard libuser/io/formats/safetensors*.c libuser/io/formats/gguf*.c) \
	libuser/io/formats/npy.c \
	$(wildcard libuser/ir/*.c libuser/ops/*.c libuser/pass/*.c libuser/ad/*.c) \
	$(wildcard libuser/plan/*.c libuser/model/*.c libuser/rt/devices*.c) \
	$(patsubst %,libuser/rt/%.c,body cache clone compile content device_buffer experts inside) \
	$(wildcard libuser/serve/*_new.c) libuser/serve/connect.c libuser/serve/control.c \
	$(patsubst %,libuser/rt/%.c,inspect policy program quant registry resident slot states) \
	$(patsubst %,libuser/rt/%.c,store support trace view) \
	$(wildcard backends/common/lower*.c backends/cpu/lower*.c) backends/common/code.c \
	backends/common/support.c backends/cpu/prepared.c \
	$(wildcard backends/pjrt/emit*.c) \
	$(patsubst %,backends/pjrt/%.c,compile device module plugin steps text)
$(ONCE:%.c=$(BUILD)/obj/%.o): CFLAGS += $(SMALL)
SMALL	?= $(if $(filter -O2,$(OPT)),-Os)
# A section for each function and each datum: what nothing refers to, as the samples of ops, is
# left out of the shared library.
$(LIB_SRC:%.c=$(BUILD)/obj/%.o): CFLAGS += -ffunction-sections -fdata-sections
# Nor is it unwound but by debuggers, which have .debug_frame for that: 100 KB of the library.
$(sort $(ONCE:%.c=$(BUILD)/obj/%.o) $(LIB_SRC:%.c=$(BUILD)/obj/%.o)): \
	CFLAGS += -fno-asynchronous-unwind-tables

# What librlx-gpu.so and librlx-vulkan.so use of the inside; the map says which names.
INSIDE := libuser/base/alloc libuser/base/bump libuser/base/disk_cache libuser/base/env \
	  libuser/base/log libuser/base/map libuser/base/number libuser/base/proc \
	  libuser/base/status libuser/base/thread libuser/ir/eval libuser/ops/fft_axis \
	  libuser/ops/op libuser/plan/plan \
	  $(patsubst %.c,%, $(wildcard backends/common/*.c))
$(INSIDE:%=$(BUILD)/obj/%.o): CFLAGS += -fvisibility=default

VULKAN_LIB := $(if $(filter 1,$(VULKAN)),$(BUILD)/lib/librlx-vulkan.so.$(SOMAJOR))
ifneq ($(VULKAN),1)
lib: no-vulkan
endif

AVX512_LIB := $(if $(AVX512_OBJ),$(BUILD)/lib/librlx-avx512.so.$(SOMAJOR))
lib: $(BUILD)/lib/librlx.so $(BUILD)/lib/librlx.a $(BUILD)/lib/librlx-gpu.so.$(SOMAJOR) \
     $(AVX512_LIB) $(VULKAN_LIB)

no-vulkan:
	@echo "librlx-vulkan.so is not built: glslc or Vulkan's headers are missing" \
	      "(Debian: glslc, libvulkan-dev)" >&2

# Whether it was, for glslc may come later: a new date where that is otherwise now.
VULKAN_IS := $(BUILD)/.vulkan
$(VULKAN_IS): FORCE
	@mkdir -p $(@D)
	@test "$$(cat $@ 2>/dev/null)" = $(VULKAN) || echo $(VULKAN) >$@
.PHONY: FORCE no-vulkan
$(BUILD)/obj/libuser/rt/load_linked.o: CPPFLAGS += $(if $(filter 1,$(VULKAN)),-DRLX_HAVE_VULKAN)

MAP	:= $(wildcard libuser/librlx.map)

# With our inner names: for tests and tools, and never installed.
LIB_A	:= $(BUILD)/lib/librlx-internal.a
$(BUILD)/obj/libuser/rt/load_linked.o $(LIB_A): $(VULKAN_IS)

$(LIB_A): $(LIB_OBJ) $(A_OBJ)
	@mkdir -p $(@D)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(LIB_OBJ) $(A_OBJ)

# For programs: one object in which only the map's public names are global, so that a
# program's own gpu_init() is no clash. Sections stay apart, for --gc-sections to drop.
OBJCOPY	?= $(shell $(CC) -print-prog-name=objcopy)
APART	:= .text .text.* .rodata .rodata.* .data .data.rel* .bss

$(BUILD)/lib/librlx.a: $(LIB_A) $(MAP)
	$(call say,AR,$@)
	$(Q)sed -n '/^local:/q; s/^\t\(rlx_.*\);/\1/p' $(MAP) >$@.names
	$(Q)$(CC) -r -nostdlib -Wl,--build-id=none $(APART:%=-Wl,--unique='%') \
		-Wl,--whole-archive $(LIB_A) -o $@.o
	$(Q)$(OBJCOPY) --wildcard --keep-global-symbols=$@.names $@.o
	$(Q)rm -f $@ && $(AR) rcs $@ $@.o && rm $@.o $@.names

# Its own calls of what it exports need no table: nobody puts other functions there.
$(BUILD)/lib/librlx.so.$(SOMAJOR): $(LIB_OBJ) $(SO_OBJ) $(MAP)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(RELR) -Wl,-Bsymbolic-functions -Wl,--gc-sections \
		-Wl,-soname,librlx.so.$(SOMAJOR) -Wl,-z,defs \
		$(MAP:%=-Wl$(comma)--version-script=%) \
		$(LDFLAGS) $(LIB_OBJ) $(SO_OBJ) $(LDLIBS) -o $@
comma := ,

# Kernels call libc and libm, and nothing of ours.
$(BUILD)/lib/librlx-avx512.so.$(SOMAJOR): $(AVX512_OBJ)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(RELR) -Wl,-soname,$(@F) -Wl,-z,defs $(LDFLAGS) $(AVX512_OBJ) -lm -o $@

# With nothing beside it librlx.so works, and says that it is slow.
$(BUILD)/lib/librlx.so: | $(AVX512_LIB)

$(BUILD)/lib/librlx-gpu.so.$(SOMAJOR): $(GPU_OBJ) $(BUILD)/lib/librlx.so
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(RELR) -Wl,-soname,$(@F) -Wl,-z,defs $(LDFLAGS) $(GPU_OBJ) \
		-L$(BUILD)/lib -lrlx $(LDLIBS) -o $@

$(BUILD)/lib/librlx-vulkan.so.$(SOMAJOR): $(VULKAN_OBJ) $(BUILD)/lib/librlx.so
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(RELR) -Wl,-soname,$(@F) -Wl,-z,defs $(LDFLAGS) $(VULKAN_OBJ) \
		-L$(BUILD)/lib -lrlx $(LDLIBS) -o $@

$(BUILD)/lib/librlx.so: $(BUILD)/lib/librlx.so.$(SOMAJOR)
	$(Q)ln -sf librlx.so.$(SOMAJOR) $@

# Packed relative relocations, where the linker has them: a twentieth of the file.
RELR := $(shell echo 'int x;' | $(CC) -shared -fPIC -xc - -Wl,-z,pack-relative-relocs \
	-Wl,--fatal-warnings -o /dev/null 2>/dev/null && echo -Wl,-z,pack-relative-relocs)
