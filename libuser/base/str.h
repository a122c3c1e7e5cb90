/* SPDX-License-Identifier: MIT */
/* Text of a known length inside somebody's memory. */
#ifndef RLX_BASE_STR_H
#define RLX_BASE_STR_H

#include <stddef.h>

struct rlx_str {
	const char	*p;	/* not terminated */
	size_t		 n;
};

#endif
