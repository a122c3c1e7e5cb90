// SPDX-License-Identifier: MIT
/*
 * Updates by indices along an axis (struct rlx_k_scatter_elements): a thread has a line of
 * them, in order, for only those can meet.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "integers.glsl"
#include "args.glsl"
#include "scatter.glsl"

layout(constant_id = 5) const uint RANK = 1;

void main()
{
	scatter_elements_t a = scatter_elements_t(push.args);
	int64_t n = 1, step = 1;

	for (uint d = 0; d < RANK; d++)
		n *= int(d) == a.axis ? 1 : a.dim[d];
	for (uint d = RANK; int(--d) > a.axis;)
		step *= a.dim[d];
	for (int64_t u = int64_t(LANE); u < n; u += int64_t(LANES)) {
		int64_t r = u, to = 0, from = 0, stride = 1;

		for (uint d = RANK; d-- > 0;) {
			const int64_t q = int(d) == a.axis ? r : r / a.dim[d];

			if (int(d) != a.axis) {
				from += (r - q * a.dim[d]) * stride;
				to += (r - q * a.dim[d]) * a.out_stride[d];
			}
			stride *= a.dim[d];
			r = q;
		}
		for (int64_t j = 0; j < a.dim[a.axis]; j++) {
			const int64_t i = from + j * step;
			int64_t at = load_index(IDX_TYPE, a.idx, uint64_t(i));

			at = at < 0 ? at + a.axis_dim : at;
			if (i >= a.live)
				continue;
			if (at >= 0 && at < a.axis_dim)
				update(a.out_, uint64_t(to + at * a.out_stride[a.axis]), a.upd,
				       uint64_t(i));
			else
				u32_p(a.bad).v = 1;
		}
	}
}
