// SPDX-License-Identifier: MIT
/* Rows by index (struct rlx_k_gather): a group has a row at a time. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint IDX_TYPE = 7;

/* By words where all lies so */
void copy_bytes(const in uint size, const in uint64_t to, const in uint64_t from,
		const in uint64_t n, const in bool good)
{
	for (uint64_t i = THREAD * size; i < n; i += THREADS * size)
		if (good)
			move(size, to + i, from + i);
		else
			set_zero(size, to + i);
}

void main()
{
	gather_t a = gather_t(push.args);
	const uint64_t inner = uint64_t(a.inner), low = a.table | a.out_ | inner;
	const int64_t n = a.outer * a.n_idx;

	for (int64_t i = int64_t(GROUP); i < n; i += int64_t(GROUPS)) {
		const int64_t o = i / a.n_idx, k = i - o * a.n_idx;
		int64_t at = load_index(IDX_TYPE, a.idx, uint64_t(k));
		bool good;

		at = at < 0 ? at + a.rows : at;
		good = at >= 0 && at < a.rows;
		if (!good && k < a.live && THREAD == 0)
			u32_p(a.bad).v = 1;

		const uint64_t from = a.table + uint64_t(good ? o * a.rows + at : 0) * inner;

		if ((low & 3UL) == 0)
			copy_bytes(4, a.out_ + uint64_t(i) * inner, from, inner, good);
		else if ((low & 1UL) == 0)
			copy_bytes(2, a.out_ + uint64_t(i) * inner, from, inner, good);
		else
			copy_bytes(1, a.out_ + uint64_t(i) * inner, from, inner, good);
	}
}
