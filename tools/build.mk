# SPDX-License-Identifier: MIT
# The rlx command line tool, one file a subcommand.
RLX_SRC	:= $(wildcard tools/rlx/*.c)
RLX_OBJ	:= $(RLX_SRC:%.c=$(BUILD)/obj/%.o)

tools: $(if $(RLX_SRC),$(BUILD)/bin/rlx)

$(BUILD)/bin/rlx: $(RLX_OBJ) $(BUILD)/lib/librlx.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(RLX_OBJ) $(BUILD)/lib/librlx.a $(LDLIBS) -o $@

# Models: real ones out of wheels, and the files made from them.
models:
	$(Q)tools/fetch-models.sh

.PHONY: models
