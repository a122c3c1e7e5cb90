// SPDX-License-Identifier: MIT
/* Maps by which TMA reads tiles of matrices, and of images by the pixels that meet a tap. */
#include "backends/gpu/gpu.h"

/* Numbers of the driver: 16-bit elements, the L2 cache reads 256 bytes. */
enum { TYPE_U16 = 1, PROMOTE_256 = 3 };

/* The driver's number for rows of 128, 64 or 32 bytes, swizzled. */
static int swizzle(const struct rlx_g_tensor_map *m)
{
	return m->box[0] == 64 ? 3 : m->box[0] == 32 ? 2 : 1;
}

enum rlx_status gpu_tensor_map_make(struct gpu_device *d, const struct rlx_g_tensor_map *m,
				    uint64_t at, void *out, struct rlx_error *err)
{
	const uint32_t box[4] = { m->box[0], m->box[1], 1, 1 };
	const uint32_t each[4] = { 1, m->im2col ? m->stride[0] : 1, m->im2col ? m->stride[1] : 1,
				   1 };
	const int lower[2] = { m->lower[0], m->lower[1] }, upper[2] = { m->upper[0], m->upper[1] };

	if (m->im2col)
		return gpu_check(d, d->api->map_im2col(out, TYPE_U16, 4, at, m->dim, m->step, lower,
						       upper, box[0], box[1], each, 0, swizzle(m),
						       PROMOTE_256, 0),
				 "mapping images", err);
	return gpu_check(d, d->api->map_tiles(out, TYPE_U16, 4, at, m->dim, m->step, box, each,
					      0, swizzle(m), PROMOTE_256, 0),
			 "mapping a matrix", err);
}
