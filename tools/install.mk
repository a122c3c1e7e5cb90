# SPDX-License-Identifier: MIT
# make install and the manual pages; knows DESTDIR, PREFIX, LIBDIR and the like.
INCLUDEDIR ?= $(PREFIX)/include
BINDIR	   ?= $(PREFIX)/bin
MANDIR	   ?= $(PREFIX)/share/man
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions
SOFILE	:= librlx.so.$(SOMAJOR).$(VERSION)

MAN_SRC	:= $(wildcard docs/*.scd)
MAN	:= $(MAN_SRC:docs/%.scd=$(BUILD)/man/%)
MAN_OK	= $(if $(shell command -v scdoc),$(MAN))

$(BUILD)/man/%: docs/%.scd
	@mkdir -p $(@D)
	$(call say,MAN,$@)
	$(Q)scdoc <$< >$@

man: $(MAN)

# Fills in a template: $(call fill,NAME,FOLDER) makes FOLDER/NAME of NAME.in.
fill = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@LIBDIR@|$(LIBDIR)|g' \
	-e 's|@INCLUDEDIR@|$(INCLUDEDIR)|g' -e 's|@VERSION@|$(VERSION)|g' \
	-e 's|@SOMAJOR@|$(SOMAJOR)|g' -e "s|@INCLUDE_FROM_LIB@|$$(realpath \
	-m --relative-to='$(LIBDIR)' '$(INCLUDEDIR)')|g" \
	tools/install/$(1).in >'$(DESTDIR)$(2)/$(1)'

install: all $(MAN_OK)
	$(Q)install -d '$(DESTDIR)$(INCLUDEDIR)/rlx' '$(DESTDIR)$(BINDIR)' \
		'$(DESTDIR)$(LIBDIR)/pkgconfig' '$(DESTDIR)$(LIBDIR)/cmake/rlx' \
		'$(DESTDIR)$(COMPLETIONDIR)'
	$(Q)install -m 644 libuser/include/rlx/*.h $(BUILD)/gen/rlx/*.h \
		'$(DESTDIR)$(INCLUDEDIR)/rlx'
	$(Q)install -m 644 $(BUILD)/lib/librlx.a '$(DESTDIR)$(LIBDIR)'
	$(Q)install -m 755 $(BUILD)/lib/librlx.so.$(SOMAJOR) \
		'$(DESTDIR)$(LIBDIR)/$(SOFILE)'
	$(Q)ln -sf $(SOFILE) '$(DESTDIR)$(LIBDIR)/librlx.so.$(SOMAJOR)'
	$(Q)ln -sf librlx.so.$(SOMAJOR) '$(DESTDIR)$(LIBDIR)/librlx.so'
	$(Q)$(call fill,rlx.pc,$(LIBDIR)/pkgconfig)
	$(Q)$(call fill,rlxConfig.cmake,$(LIBDIR)/cmake/rlx)
	$(Q)$(call fill,rlxConfigVersion.cmake,$(LIBDIR)/cmake/rlx)
	$(Q)for b in $(wildcard $(BUILD)/bin/rlx); do \
		install -m 755 $$b '$(DESTDIR)$(BINDIR)'; done
	$(Q)for c in $(wildcard tools/install/rlx.bash); do \
		install -m 644 $$c '$(DESTDIR)$(COMPLETIONDIR)/rlx'; done
	$(Q)for m in $(MAN_OK); do d='$(DESTDIR)$(MANDIR)'/man$${m##*.}; \
		install -d "$$d" && install -m 644 $$m "$$d" || exit 1; done
	$(Q)test -n '$(MAN_OK)' || echo 'scdoc is missing: no manual pages' >&2

.PHONY: install man
