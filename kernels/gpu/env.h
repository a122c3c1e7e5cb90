/* SPDX-License-Identifier: MIT */
/* What every GPU kernel gets beside its arguments. */
#ifndef RLX_G_ENV_H
#define RLX_G_ENV_H

#include <stdint.h>

/**
 * struct rlx_g_env - the second parameter of every kernel
 * @table: device addresses of the buffers a run binds; see below
 * @scratch: as many bytes as the launch asked for
 * @zeros: RLX_G_ZEROS words that are 0 when a launch begins (after its pdl_wait())
 *         and must be again when it ends: for blocks that count themselves
 * @maps: of the launch's tiles, RLX_G_TENSOR_MAP_BYTES bytes each, or NULL
 * @live: NULL, or how many rows carry data, the first ones: kernels whose rows are
 *        many leave the others alone (live_rows() in dialect.h). So the number changes
 *        and no captured launch does
 * @checked: NULL, or how many of what the kernel checks carry data (live_checked() in
 *           dialect.h): what is bad behind them is no fault
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
	uint32_t	*zeros;
	const void	*maps;
	const int64_t	*live, *checked;
	uint64_t	units;
	uint32_t	pass, pad;
};

#define RLX_G_ZEROS	4096
#define RLX_G_INDIRECT	((uint64_t)1 << 63)
#define RLX_G_TENSOR_MAP_BYTES	128

#endif
