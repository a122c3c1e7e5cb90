# SPDX-License-Identifier: MIT
# make install and the manual pages; knows DESTDIR, PREFIX, LIBDIR and the like.
INCLUDEDIR ?= $(PREFIX)/include
BINDIR	   ?= $(PREFIX)/bin
MANDIR	   ?= $(PREFIX)/share/man
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions
SOFILE	:= librlx.so.$(SOMAJOR).$(VERSION)
AVX512FILE := librlx-avx512.so.$(SOMAJOR).$(VERSION)
GPUFILE	:= librlx-gpu.so.$(SOMAJOR).$(VERSION)
TRAINFILE := librlx-train.so.$(SOMAJOR).$(VERSION)
VULKANFILE := librlx-vulkan.so.$(SOMAJOR).$(VERSION)

MAN_SRC	:= $(wildcard docs/*.scd)
COMMANDS := $(shell awk -F'[^a-z]+' '/^COMMAND/ { print $$2 }' \
		tools/rlx/commands.def)
MAN	:= $(MAN_SRC:docs/%.scd=$(BUILD)/man/%) \
	   $(COMMANDS:%=$(BUILD)/man/rlx-%.1) $(BUILD)/man/rlx-ops.3
MAN_OK	= $(if $(shell command -v scdoc),$(MAN))

$(BUILD)/man/%: docs/%.scd
	@mkdir -p $(@D)
	$(call say,MAN,$@)
	$(Q)scdoc <$< >$@

$(BUILD)/man/rlx.4: docs/rlx.4.scd uapi/linux/rlx.h tools/errno2scd.awk
	@mkdir -p $(@D)
	$(call say,MAN,$@)
	$(Q)awk -f tools/errno2scd.awk uapi/linux/rlx.h $< >$@.scd && scdoc <$@.scd >$@ && \
		rm $@.scd

# Pages of the commands are made of what they print as help.
$(BUILD)/man/rlx-%.1: $(BUILD)/bin/rlx tools/help2scd.awk
	@mkdir -p $(@D)
	$(call say,MAN,$@)
	$(Q)$(BUILD)/bin/rlx $* --help | awk -v name=$* -v about="$$($(BUILD)/bin/rlx \
		--help | sed -n 's/^  $* *//p')" -f tools/help2scd.awk | scdoc >$@

# That of the ops is made of their rows and what stands above these.
$(BUILD)/man/rlx-ops.3: libuser/ops/ops.awk tools/ops2scd.awk $(OP_SRC)
	@mkdir -p $(@D)
	$(call say,MAN,$@)
	$(Q)awk -f libuser/ops/ops.awk $(OP_SRC) | awk -f tools/ops2scd.awk - $(OP_SRC) \
		>$@.scd && scdoc <$@.scd >$@ && rm $@.scd

man: $(MAN)

# Fills in a template: $(call fill,NAME,FOLDER) makes FOLDER/NAME of NAME.in.
fill = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@LIBDIR@|$(LIBDIR)|g' \
	-e 's|@INCLUDEDIR@|$(INCLUDEDIR)|g' -e 's|@VERSION@|$(VERSION)|g' \
	-e 's|@SOMAJOR@|$(SOMAJOR)|g' -e "s|@INCLUDE_FROM_LIB@|$$(realpath \
	-m --relative-to='$(LIBDIR)' '$(INCLUDEDIR)')|g" \
	tools/install/$(1).in >'$(DESTDIR)$(2)/$(1)'

install: all gpu-kernels $(MAN_OK)
	$(Q)install -d '$(DESTDIR)$(INCLUDEDIR)/rlx' '$(DESTDIR)$(BINDIR)' \
		'$(DESTDIR)$(LIBDIR)/pkgconfig' '$(DESTDIR)$(LIBDIR)/cmake/rlx' \
		'$(DESTDIR)$(COMPLETIONDIR)'
	$(Q)install -m 644 libuser/include/rlx/*.h $(BUILD)/gen/rlx/*.h \
		'$(DESTDIR)$(INCLUDEDIR)/rlx'
	$(Q)install -m 644 -D uapi/linux/rlx.h '$(DESTDIR)$(INCLUDEDIR)/linux/rlx.h'
	$(Q)install -m 644 $(BUILD)/lib/librlx.a '$(DESTDIR)$(LIBDIR)'
	$(Q)install -m 755 $(BUILD)/lib/librlx.so.$(SOMAJOR) \
		'$(DESTDIR)$(LIBDIR)/$(SOFILE)'
	$(Q)ln -sf $(SOFILE) '$(DESTDIR)$(LIBDIR)/librlx.so.$(SOMAJOR)'
	$(Q)ln -sf librlx.so.$(SOMAJOR) '$(DESTDIR)$(LIBDIR)/librlx.so'
	$(Q)test -z '$(AVX512_LIB)' || { install -m 755 $(AVX512_LIB) \
		'$(DESTDIR)$(LIBDIR)/$(AVX512FILE)' && \
		ln -sf $(AVX512FILE) '$(DESTDIR)$(LIBDIR)/librlx-avx512.so.$(SOMAJOR)'; }
	$(Q)install -m 755 $(BUILD)/lib/librlx-gpu.so.$(SOMAJOR) \
		'$(DESTDIR)$(LIBDIR)/$(GPUFILE)'
	$(Q)ln -sf $(GPUFILE) '$(DESTDIR)$(LIBDIR)/librlx-gpu.so.$(SOMAJOR)'
	$(Q)ln -sf librlx-gpu.so.$(SOMAJOR) '$(DESTDIR)$(LIBDIR)/librlx-gpu.so'
	$(Q)install -m 755 $(BUILD)/lib/librlx-train.so.$(SOMAJOR) \
		'$(DESTDIR)$(LIBDIR)/$(TRAINFILE)'
	$(Q)ln -sf $(TRAINFILE) '$(DESTDIR)$(LIBDIR)/librlx-train.so.$(SOMAJOR)'
	$(Q)ln -sf librlx-train.so.$(SOMAJOR) '$(DESTDIR)$(LIBDIR)/librlx-train.so'
	$(Q)test -z '$(VULKAN_LIB)' || { install -m 755 $(VULKAN_LIB) \
		'$(DESTDIR)$(LIBDIR)/$(VULKANFILE)' && ln -sf $(VULKANFILE) \
		'$(DESTDIR)$(LIBDIR)/librlx-vulkan.so.$(SOMAJOR)' && \
		ln -sf librlx-vulkan.so.$(SOMAJOR) '$(DESTDIR)$(LIBDIR)/librlx-vulkan.so'; }
	$(Q)for k in $(KERNELS)/*.bin; do test ! -f "$$k" || install -m 644 -D \
		-t '$(DESTDIR)$(LIBDIR)/rlx/gpu' "$$k" || exit 1; done
	$(Q)$(call fill,rlx.pc,$(LIBDIR)/pkgconfig)
	$(Q)$(call fill,rlx-train.pc,$(LIBDIR)/pkgconfig)
	$(Q)$(call fill,rlxConfig.cmake,$(LIBDIR)/cmake/rlx)
	$(Q)$(call fill,rlxConfigVersion.cmake,$(LIBDIR)/cmake/rlx)
	$(Q)install -m 755 $(BUILD)/bin/rlx '$(DESTDIR)$(BINDIR)'
	$(Q)install -m 644 tools/install/rlx.bash '$(DESTDIR)$(COMPLETIONDIR)/rlx'
	$(Q)for m in $(MAN_OK); do d='$(DESTDIR)$(MANDIR)'/man$${m##*.}; \
		install -d "$$d" && install -m 644 $$m "$$d" || exit 1; done
	$(Q)test -n '$(MAN_OK)' || echo 'scdoc is missing: no manual pages' >&2

.PHONY: install man
