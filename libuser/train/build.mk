# SPDX-License-Identifier: MIT
# librlx-train.so: data path, checkpoints and training over librlx's public functions alone,
# with copies of its own of what it uses of libuser/base. Linking proves it.
TRAIN_SRC := $(wildcard libuser/train/*.c)
TRAIN_OBJ := $(TRAIN_SRC:%.c=$(BUILD)/obj/%.o)
TRAIN_BASE := $(patsubst %,$(BUILD)/obj/libuser/base/%.o,alloc bump half json json_write log \
		map number replace status thread utf8)
TRAIN_MAP := libuser/train/librlx-train.map

# For tests and tools, with inner names; base is in librlx-internal.a.
TRAIN_A	:= $(BUILD)/lib/librlx-train-internal.a

$(TRAIN_A): $(TRAIN_OBJ)
	@mkdir -p $(@D)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(TRAIN_OBJ)

$(BUILD)/lib/librlx-train.so.$(SOMAJOR): $(TRAIN_OBJ) $(TRAIN_BASE) $(TRAIN_MAP) \
		$(BUILD)/lib/librlx.so
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(RELR) -Wl,-Bsymbolic-functions -Wl,-soname,$(@F) -Wl,-z,defs \
		-Wl,--version-script=$(TRAIN_MAP) $(LDFLAGS) $(TRAIN_OBJ) $(TRAIN_BASE) \
		-L$(BUILD)/lib -lrlx -lm -o $@

$(BUILD)/lib/librlx-train.so: $(BUILD)/lib/librlx-train.so.$(SOMAJOR)
	$(Q)ln -sf $(<F) $@

lib: $(BUILD)/lib/librlx-train.so
