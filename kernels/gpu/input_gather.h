/* SPDX-License-Identifier: MIT */
/* Small inputs brought to the device by a kernel, the first one of a run. */
#ifndef RLX_G_INPUT_GATHER_H
#define RLX_G_INPUT_GATHER_H

#include <stdint.h>

/* Bytes of host memory as the device sees it, and where they go. From 0: none. */
struct rlx_g_piece {
	uint64_t	from, to, bytes;
};

/* Pieces stand in the table of addresses, from its entry @at on. */
struct rlx_g_input_gather {
	uint32_t	at, n;
};

#endif
