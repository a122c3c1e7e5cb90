// SPDX-License-Identifier: MIT
/* Pieces by tuples of indices (struct rlx_k_gather_nd): a group has a piece at a time. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint IDX_TYPE = 7;

void main()
{
	gather_nd_t a = gather_nd_t(push.args);
	int64_t whole = a.inner;

	for (int d = 0; d < a.k; d++)
		whole *= a.dim[d];
	for (int64_t i = int64_t(GROUP); i < a.batch * a.n; i += int64_t(GROUPS)) {
		int64_t at = 0;
		bool good = true;

		for (int d = 0; d < a.k; d++) {
			int64_t j = load_index(IDX_TYPE, a.idx, uint64_t(i * a.k + d));

			j = j < 0 ? j + a.dim[d] : j;
			good = good && j >= 0 && j < a.dim[d];
			at = at * a.dim[d] + j;
		}
		if (!good && i < a.live && THREAD == 0)
			u32_p(a.bad).v = 1;
		at = i / a.n * whole + at * a.inner;
		for (int64_t b = int64_t(THREAD); b < a.inner; b += int64_t(THREADS))
			if (good)
				move(1, a.out_ + uint64_t(i * a.inner + b), a.data + uint64_t(at + b));
			else
				set_zero(1, a.out_ + uint64_t(i * a.inner + b));
	}
}
