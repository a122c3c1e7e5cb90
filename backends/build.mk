# SPDX-License-Identifier: MIT
BACKEND_SRC := $(wildcard backends/*/*.c)
BACKEND_OBJ := $(BACKEND_SRC:%.c=$(BUILD)/obj/%.o)
