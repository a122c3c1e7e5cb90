# SPDX-License-Identifier: MIT
# Builds librlx, the rlx tool and the tests into $(BUILD); see README.md.
BUILD	?= build
CC	?= gcc
AR	?= ar
PREFIX	?= /usr/local
LIBDIR	?= $(PREFIX)/lib
V	?= 0

include version.mk
VERSION	:= $(RLX_VERSION)
SOMAJOR	:= 1

# As many jobs as processors, unless the caller said -j.
JOBS	?= $(shell nproc 2>/dev/null || echo 2)
MAKEFLAGS += --no-builtin-rules --no-print-directory
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(JOBS)
endif
export BUILD CC
SUBMAKE	= $(MAKE) $(if $(filter 0,$(V)),-s)
# For what builds in a folder where another make may be at it: they take turns.
build_in = mkdir -p $(1) && flock -o $(1)/.building $(SUBMAKE)
BUILDMAKE = $(call build_in,$(BUILD))
# For what waits for the network: others need not wait to build.
FETCHMAKE = mkdir -p $(BUILD) && flock -o $(BUILD)/.fetching $(SUBMAKE)

ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(V),0)
Q := @
say = @printf '  %-7s %s\n' '$(1)' '$(2)'
else
say = @:
endif

OPT	?= -O2 -g1
WARN	:= -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
	   -Wmissing-prototypes -Wno-missing-field-initializers -Wno-unused-parameter
CPPFLAGS += -D_GNU_SOURCE -DRLX_VERSION='"$(VERSION)"' \
	    -I. -Ilibuser -Ilibuser/include -I$(BUILD)/gen
# Sums have the same bits where processors multiply and add at once (ARM): kernels alone contract.
CFLAGS	+= -std=gnu11 $(OPT) -ffp-contract=off $(WARN) -fPIC -fvisibility=hidden -pthread $(SAN)
LDFLAGS	+= -pthread -Wl,--build-id $(SAN)
LDLIBS	+= -luring -lm -ldl

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:

include kernels/build.mk backends/build.mk libuser/build.mk libuser/train/build.mk
include tools/build.mk
include tools/install.mk selftests/build.mk selftests/kmod/build.mk selftests/deb/build.mk

all: lib tools

# Installs what building needs and this Debian machine lacks.
setup:
	$(Q)tools/setup.sh build

# The one foreign header, looked for once so that its absence is said plainly.
$(BUILD)/.liburing:
	@mkdir -p $(@D)
	@echo '#include <liburing.h>' | $(CC) -E -x c - >/dev/null 2>&1 || { \
		echo "liburing's headers are missing: run 'make setup'" >&2; exit 1; }
	@touch $@

$(BUILD)/obj/%.o: %.c $(GEN) | $(BUILD)/.liburing
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

clean:
	rm -rf $(BUILD)

.PHONY: all lib tools setup clean
-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
