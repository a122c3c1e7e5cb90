// SPDX-License-Identifier: MIT
/* Elements by indices along an axis (struct rlx_k_gather_elements). */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint SIZE = 4;
layout(constant_id = 2) const uint RANK = 1;
layout(constant_id = 3) const uint IDX_TYPE = 7;

void main()
{
	gather_elements_t a = gather_elements_t(push.args);
	int64_t n = 1;

	for (uint d = 0; d < RANK; d++)
		n *= a.dim[d];
	for (int64_t i = int64_t(LANE); i < n; i += int64_t(LANES)) {
		int64_t at = load_index(IDX_TYPE, a.idx, uint64_t(i)), r = i, from = 0;
		bool good;

		at = at < 0 ? at + a.axis_dim : at;
		good = at >= 0 && at < a.axis_dim;
		if (!good && i < a.live)
			u32_p(a.bad).v = 1;
		for (uint d = RANK; d-- > 0;) {
			const int64_t q = d > 0 ? r / a.dim[d] : 0;

			from += (int(d) == a.axis ? at : r - q * a.dim[d]) * a.data_stride[d];
			r = q;
		}
		if (good)
			move(SIZE, a.out_ + uint64_t(i) * SIZE, a.data + uint64_t(from) * SIZE);
		else
			set_zero(SIZE, a.out_ + uint64_t(i) * SIZE);
	}
}
