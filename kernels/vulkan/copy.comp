// SPDX-License-Identifier: MIT
/*
 * Elements from where strides say to where strides say (struct rlx_k_copy). Long rows have a
 * group each at a time, so that an index is worked out once for a row; short ones a thread
 * for each element.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint SIZE = 4;
layout(constant_id = 2) const uint RANK = 1;
layout(constant_id = 3) const bool BY_ROWS = true;

void main()
{
	copy_t a = copy_t(push.args);
	const uint last = RANK - 1;
	const int64_t inner = a.dim[last];
	int64_t rows = 1;

	for (uint d = 0; d < last; d++)
		rows *= a.dim[d];

	const int64_t n = BY_ROWS ? rows : rows * inner;
	const int64_t step = int64_t(BY_ROWS ? GROUPS : LANES);

	for (int64_t i = int64_t(BY_ROWS ? GROUP : LANE); i < n; i += step) {
		int64_t r = i, src = 0, dst = 0;

		for (uint d = BY_ROWS ? last : RANK; d-- > 0;) {
			int64_t at = r;

			if (d > 0) {
				const int64_t q = n < 0x7fffffff ?
					int64_t(uint(r) / uint(a.dim[d])) : r / a.dim[d];

				at = r - q * a.dim[d];
				r = q;
			}
			src += at * a.src_stride[d];
			dst += at * a.dst_stride[d];
		}
		if (!BY_ROWS)
			move(SIZE, a.dst + uint64_t(dst) * SIZE, a.src + uint64_t(src) * SIZE);
		else
			for (int64_t j = int64_t(THREAD); j < inner; j += int64_t(THREADS))
				move(SIZE, a.dst + uint64_t(dst + j * a.dst_stride[last]) * SIZE,
				     a.src + uint64_t(src + j * a.src_stride[last]) * SIZE);
	}
}
