// SPDX-License-Identifier: MIT
/*
 * Updates of pieces by tuples of indices (struct rlx_k_scatter_nd): a thread has an element of
 * all pieces, in order.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "integers.glsl"
#include "args.glsl"
#include "scatter.glsl"

void main()
{
	scatter_nd_t a = scatter_nd_t(push.args);

	for (int64_t e = int64_t(LANE); e < a.inner; e += int64_t(LANES))
		for (int64_t i = 0; i < min(a.n, a.live); i++) {
			int64_t at = 0;
			bool good = true;

			for (int d = 0; d < a.k; d++) {
				int64_t j = load_index(IDX_TYPE, a.idx, uint64_t(i * a.k + d));

				j = j < 0 ? j + a.dim[d] : j;
				good = good && j >= 0 && j < a.dim[d];
				at = at * a.dim[d] + j;
			}
			if (good)
				update(a.out_, uint64_t(at * a.inner + e), a.upd,
				       uint64_t(i * a.inner + e));
			else
				u32_p(a.bad).v = 1;
		}
}
