// SPDX-License-Identifier: MIT
/* The first steps of each sequence in reverse order (struct rlx_k_reverse), by bytes. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint LENS_TYPE = 7;
layout(constant_id = 2) const uint TIME = 0;		/* which of the dimensions is time */

void main()
{
	reverse_t a = reverse_t(push.args);
	const int64_t units = a.pre * a.dim[0] * a.mid * a.dim[1];

	for (int64_t u = int64_t(GROUP); u < units; u += int64_t(GROUPS)) {
		const int64_t i1 = u % a.dim[1], r = u / a.dim[1], m = r % a.mid, s = r / a.mid;
		const int64_t i0 = s % a.dim[0], t = TIME == 0 ? i0 : i1, b = TIME == 0 ? i1 : i0;
		int64_t len = load_index(LENS_TYPE, a.lens, uint64_t(b)), at;

		if (len < 0 || len > a.dim[TIME]) {
			if (b < a.live && THREAD == 0)
				u32_p(a.bad).v = 1;
			len = 0;
		}
		at = t < len ? len - 1 - t : t;
		at = TIME == 0 ? ((s - i0 + at) * a.mid + m) * a.dim[1] + i1 : u - i1 + at;
		for (int64_t e = int64_t(THREAD); e < a.post; e += int64_t(THREADS))
			move(1, a.dst + uint64_t(u * a.post + e), a.src + uint64_t(at * a.post + e));
	}
}
