// SPDX-License-Identifier: MIT
/*
 * Rotary position embedding (struct rlx_k_rope): a thread has a pair, or an element behind
 * those that are rotated, so x may be y.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint TYPE = 2;
layout(constant_id = 2) const uint TABLE_TYPE = 2;
layout(constant_id = 3) const uint POS_TYPE = 0;	/* 0: by row */
layout(constant_id = 4) const bool PAIRS = false;

void main()
{
	rope_t a = rope_t(push.args);
	const int64_t half_ = a.n_rot / 2, work = half_ + a.head_dim - a.n_rot;
	const int64_t n = a.batch * a.len * a.heads * work;

	for (int64_t i = int64_t(LANE); i < n; i += int64_t(LANES)) {
		const int64_t e = i % work, r = i / work, h = r % a.heads, bp = r / a.heads;
		const int64_t p = bp % a.len, b = bp / a.len;
		const uint64_t from = uint64_t(b * a.x_stride[0] + h * a.x_stride[1] +
					       p * a.x_stride[2]);
		const uint64_t to = uint64_t(b * a.y_stride[0] + h * a.y_stride[1] +
					     p * a.y_stride[2]);
		int64_t row = POS_TYPE == 0 ? p :
			      load_index(POS_TYPE, a.pos, uint64_t(b * a.pos_stride + p));
		bool good;

		row = row < 0 ? row + a.positions : row;
		good = row >= 0 && row < a.positions;
		if (!good && a.bad != 0 && bp < a.live)
			u32_p(a.bad).v = 1;
		if (e >= half_) {
			const uint64_t at = uint64_t(e + half_);

			store_real(TYPE, a.y, to + at,
				   good ? load_real(TYPE, a.x, from + at) : 0.0);
			continue;
		}

		const uint64_t i0 = uint64_t(PAIRS ? 2 * e : e);
		const uint64_t i1 = uint64_t(PAIRS ? 2 * e + 1 : e + half_);
		float u = 0.0, v = 0.0;

		if (good) {
			const float x0 = load_real(TYPE, a.x, from + i0);
			const float x1 = load_real(TYPE, a.x, from + i1);
			const float c = load_real(TABLE_TYPE, a.cos, uint64_t(row * half_ + e));
			const float s = load_real(TABLE_TYPE, a.sin, uint64_t(row * half_ + e));

			u = x0 * c - x1 * s;
			v = x1 * c + x0 * s;
		}
		store_real(TYPE, a.y, to + i0, u);
		store_real(TYPE, a.y, to + i1, v);
	}
}
