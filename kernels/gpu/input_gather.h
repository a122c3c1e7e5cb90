/* SPDX-License-Identifier: MIT */
/*
 * Input gather: arguments of its kernel, and the pieces that the host writes for each run.
 *
 * The launch is put before all others where any input has more than one reader: each reader would
 * otherwise fetch it over the bus by itself. It then brings all inputs that are small. Pieces lie
 * behind the addresses of inputs, params and outputs in the run's table, and so change without the
 * launch's arguments changing. Read by C of the host and by device code alike: fixed-size integers
 * alone.
 */
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
