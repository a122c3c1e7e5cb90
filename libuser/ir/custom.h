/* SPDX-License-Identifier: MIT */
/* Registered custom ops, as graphs refer to them. */
#ifndef RLX_IR_CUSTOM_H
#define RLX_IR_CUSTOM_H

#include <stdatomic.h>

#include "rlx/custom.h"

/*
 * One registration. The registry has a reference, and each node of the op one: a graph keeps
 * what it was built with. Nothing but the registry finds it by name, so that nobody else
 * has a reference once there is one alone.
 */
struct rlx_custom {
	atomic_uint		 refs;
	unsigned int		 times;	/* that the name was registered before */
	struct rlx_custom_op	 op;	/* name, kernels and their texts: copies */
	struct rlx_custom	*next;
};

#define RLX_CUSTOM_UNKNOWN \
	"no custom op '%s' is registered; call rlx_custom_register() before"

/* A reference to the op registered as @name; NULL: there is none. */
struct rlx_custom *rlx_custom_find(const char *name);
struct rlx_custom *rlx_custom_get(struct rlx_custom *c);
void rlx_custom_put(struct rlx_custom *c);

#endif
