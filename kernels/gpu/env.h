/* SPDX-License-Identifier: MIT */
/* What every GPU kernel gets beside its arguments. */
#ifndef RLX_G_ENV_H
#define RLX_G_ENV_H

#include <stdint.h>

/**
 * struct rlx_g_env - the second parameter of every kernel
 * @table: device addresses of the buffers a run binds; see below
 * @scratch: as many bytes as the launch asked for
 * @units: what the CPU kernel's header calls the number of units
 * @pass: 0 .. passes - 1 of the launch
 *
 * A pointer in a kernel's arguments is a device address, or, if bit 63 is set,
 * table[bits 48..62] plus bits 0..47; RLX_G_PTR() follows either. So a program can
 * be captured once and run on other buffers.
 */
struct rlx_g_env {
	const uint64_t	*table;
	void		*scratch;
	uint64_t	units;
	uint32_t	pass, pad;
};

#define RLX_G_INDIRECT	((uint64_t)1 << 63)

#endif
