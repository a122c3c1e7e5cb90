# SPDX-License-Identifier: MIT
# The backends, by wildcard; they are part of the library.
BACKEND_SRC := $(wildcard backends/*/*.c)
BACKEND_OBJ := $(BACKEND_SRC:%.c=$(BUILD)/obj/%.o)
