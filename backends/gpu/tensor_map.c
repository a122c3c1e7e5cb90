// SPDX-License-Identifier: MIT
/* Maps by which TMA reads tiles of matrices. */
#include "backends/gpu/gpu.h"

/* Numbers of the driver: 16-bit elements, rows of 128 bytes swizzled, the L2 cache reads 256. */
enum { TYPE_U16 = 1, SWIZZLE_128 = 3, PROMOTE_256 = 3 };

enum rlx_status gpu_tensor_map_make(struct gpu_device *d, const struct rlx_g_tensor_map *m,
				    uint64_t at, void *out, struct rlx_error *err)
{
	const uint32_t box[4] = { m->box[0], m->box[1], 1, 1 }, each[4] = { 1, 1, 1, 1 };

	return gpu_check(d, d->api->map_tiles(out, TYPE_U16, 4, at, m->dim, m->step, box, each,
					      0, SWIZZLE_128, PROMOTE_256, 0),
			 "mapping a matrix", err);
}
