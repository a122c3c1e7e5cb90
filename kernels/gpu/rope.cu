// SPDX-License-Identifier: MIT
/*
 * Rotary position embedding: pairs of a head's elements turn by an angle of their position.
 *
 * Algorithm: a thread a pair (elements 2i and 2i + 1, or i and i + n_rot / 2): both are read,
 * turned and written, so x may be y; behind n_rot a thread copies an element. The cosines and sines
 * come from tables, by the position given or the row's own.
 * Traffic: x and y once, which is the bound; the tables' 2 numbers a pair are read again for each
 * head and batch row, from caches. Heads are contiguous, so neighbouring threads are neighbours.
 * Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021).
 * Limits: f32, f16, bf16, computed in f32; positions below 0 count from the end, those out of range
 * set *bad and give zeros. Decode has it in kv_cache.cu instead.
 */
#include "kernels/gpu/move.h"
#include "kernels/rope.h"

/* x may be y: the thread of the first element of a pair does both. */
RLX_G_KERNEL(rope, struct rlx_k_rope, 256)
{
	const void *x = RLX_G_PTR(const void, a.x), *pos = RLX_G_PTR(const void, a.pos);
	const void *cos = RLX_G_PTR(const void, a.cos), *sin = RLX_G_PTR(const void, a.sin);
	void *y = RLX_G_PTR(void, a.y);
	int32_t *bad = RLX_G_PTR(int32_t, a.bad);
	int64_t half = a.n_rot / 2, work = half + a.head_dim - a.n_rot;
	int64_t n = live_rows(env, a.batch) * a.len * a.heads * work;
	int64_t live = live_checked(env, a.live);

	for (int64_t i = line_first(); i < n; i += line_step()) {
		int64_t e, h, p, b = divide(divide(divide(i, work, &e), a.heads, &h), a.len, &p);
		int64_t from = b * a.x_stride[0] + h * a.x_stride[1] + p * a.x_stride[2];
		int64_t to = b * a.y_stride[0] + h * a.y_stride[1] + p * a.y_stride[2];
		int64_t row = pos ? load_index(pos, b * a.pos_stride + p, a.pos_type) : p;
		int64_t i0 = a.pairs ? 2 * e : e, i1 = a.pairs ? 2 * e + 1 : e + half;
		float c, s, u, v;
		bool in = true;

		if (row < 0)
			row += a.positions;
		if (row < 0 || row >= a.positions) {
			if (bad && b * a.len + p < live)
				*bad = 1;
			in = false;
		}
		if (e >= half) {	/* beyond what is rotated */
			e += half;
			u = in ? load_float(x, from + e, a.type) : 0;
			store_float(y, to + e, a.type, u);
			continue;
		}
		u = v = 0;
		if (in) {
			float x0 = load_float(x, from + i0, a.type);
			float x1 = load_float(x, from + i1, a.type);

			c = load_float(cos, row * half + e, a.table_type);
			s = load_float(sin, row * half + e, a.table_type);
			u = x0 * c - x1 * s;
			v = x1 * c + x0 * s;
		}
		store_float(y, to + i0, a.type, u);
		store_float(y, to + i1, a.type, v);
	}
}
