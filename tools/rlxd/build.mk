# SPDX-License-Identifier: MIT
# The daemon. It is part of `make` where its libraries are: llhttp, which Debian has
# as the sources that nodejs is built of (node-llhttp), and libinih.
LLHTTP	?= /usr/share
RLXD_SRC := $(wildcard tools/rlxd/*.c)
RLXD_OBJ := $(RLXD_SRC:%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/tools/rlx/address.o \
	    $(BUILD)/obj/tools/rlx/openssl.o
LLHTTP_OBJ := $(BUILD)/obj/llhttp/llhttp.o $(BUILD)/obj/llhttp/api.o \
	      $(BUILD)/obj/llhttp/http.o
RLXD_LIBS := -linih
LLHTTP_FLAGS := -I$(LLHTTP)/include/llhttp -DLLHTTP_STRICT_MODE=1

ifneq ($(and $(wildcard $(LLHTTP)/llhttp/llhttp.c),$(wildcard /usr/include/ini.h)),)
tools: $(BUILD)/bin/rlxd
endif

$(RLXD_OBJ): CPPFLAGS += $(LLHTTP_FLAGS)
$(RLXD_OBJ): | $(OPENSSL_NAMES)

# Foreign code: its warnings are not ours to mend.
$(BUILD)/obj/llhttp/%.o: $(LLHTTP)/llhttp/%.c
	@mkdir -p $(@D)
	$(call say,CC,llhttp/$*.c)
	$(Q)$(CC) $(LLHTTP_FLAGS) -std=gnu11 $(OPT) -fPIC \
		 -fvisibility=hidden $(SAN) -c $< -o $@

$(BUILD)/bin/rlxd: $(RLXD_OBJ) $(LLHTTP_OBJ) $(LIB_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(RELR) $(LDFLAGS) $(RLXD_OBJ) $(LLHTTP_OBJ) $(LIB_A) $(LDLIBS) \
		$(RLXD_LIBS) -o $@

# For guests; what it would load to look up users and groups by name it cannot.
RLXD_STATIC_OBJ := $(RLXD_OBJ:%/openssl.o=%/openssl-linked.o)

$(BUILD)/obj/tools/rlx/openssl-linked.o: tools/rlx/openssl.c | $(OPENSSL_NAMES)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) -DOPENSSL_LINKED $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/bin/rlxd-static: $(RLXD_STATIC_OBJ) $(LLHTTP_OBJ) $(LIB_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -static $(RLXD_STATIC_OBJ) $(LLHTTP_OBJ) $(LIB_A) \
		$(LDLIBS) $(RLXD_LIBS) -lssl -lcrypto -o $@ 2>$@.warn || \
		{ cat $@.warn >&2; exit 1; }

rlxd:
	$(Q)tools/setup.sh rlxd
	$(Q)+$(SUBMAKE) $(BUILD)/bin/rlxd

# An OCI image of it, of what is built and installed here; no network.
image:
	$(Q)tools/setup.sh rlxd
	$(Q)+$(SUBMAKE) $(BUILD)/bin/rlxd
	$(Q)BUILD='$(BUILD)' tools/image.sh

# The encoder that examples and tests serve.
minilm:
	$(Q)tools/setup.sh demo
	$(Q)tools/fetch-models.sh minilm

# The daemon's own files; `make install` is of the library and the rlx command.
SBINDIR	   ?= $(PREFIX)/sbin
SYSCONFDIR ?= /etc
UNITDIR	   ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
RLXD_MAN   := $(BUILD)/man/rlxd.8 $(BUILD)/man/rlxd.conf.5
RLXD_MAN_OK = $(if $(shell command -v scdoc),$(RLXD_MAN))

$(BUILD)/man/rlxd%: tools/rlxd/rlxd%.scd
	@mkdir -p $(@D)
	$(call say,MAN,$@)
	$(Q)scdoc <$< >$@

install-rlxd: $(BUILD)/bin/rlxd $(RLXD_MAN_OK)
	$(Q)install -d '$(DESTDIR)$(SBINDIR)' '$(DESTDIR)$(UNITDIR)' \
		'$(DESTDIR)$(SYSUSERSDIR)' '$(DESTDIR)$(SYSCONFDIR)/rlxd' \
		'$(DESTDIR)$(MANDIR)/man5' \
		'$(DESTDIR)$(MANDIR)/man8'
	$(Q)install -m 755 $(BUILD)/bin/rlxd '$(DESTDIR)$(SBINDIR)'
	$(Q)sed -e 's|@SBINDIR@|$(SBINDIR)|' -e 's|@SYSCONFDIR@|$(SYSCONFDIR)|' \
		tools/rlxd/rlxd.service.in >'$(DESTDIR)$(UNITDIR)/rlxd.service'
	$(Q)sed -e 's|@SBINDIR@|$(SBINDIR)|' -e 's|@SYSCONFDIR@|$(SYSCONFDIR)|' \
		-f tools/rlxd/pair.sed tools/rlxd/rlxd.service.in \
		>'$(DESTDIR)$(UNITDIR)/rlxd@.service'
	$(Q)sed -e 's|@SBINDIR@|$(SBINDIR)|' tools/rlxd/rlxd-fd-store.service.in \
		>'$(DESTDIR)$(UNITDIR)/rlxd-fd-store.service'
	$(Q)install -m 644 tools/rlxd/rlxd.socket '$(DESTDIR)$(UNITDIR)'
	$(Q)install -m 644 tools/rlxd/rlxd.sysusers '$(DESTDIR)$(SYSUSERSDIR)/rlxd.conf'
	$(Q)test -e '$(DESTDIR)$(SYSCONFDIR)/rlxd/rlxd.conf' || install -m 644 \
		tools/rlxd/rlxd.conf.example '$(DESTDIR)$(SYSCONFDIR)/rlxd/rlxd.conf'
	$(Q)for m in $(RLXD_MAN_OK); do \
		install -m 644 $$m '$(DESTDIR)$(MANDIR)'/man$${m##*.} || exit 1; done

.PHONY: rlxd image minilm install-rlxd
