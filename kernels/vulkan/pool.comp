// SPDX-License-Identifier: MIT
/* Pools in up to three dimensions, plain layout (struct rlx_k_pool), a thread a window. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "math.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint TYPE = 2;
layout(constant_id = 2) const uint KIND = 0;		/* enum rlx_k_pool_kind */
layout(constant_id = 3) const bool INCLUDE_PAD = false;
layout(constant_id = 4) const bool COLUMN_MAJOR = false;

const uint MAX = 0, AVG = 1, LP = 2;

/* How many of the window's steps along @d lie within the padded input */
int64_t counted(const in pool_t a, const in uint d, const in int64_t first)
{
	const int64_t end = int64_t(a.in_[d] + a.p_end[d]);

	return clamp((end - first + int64_t(a.d[d]) - 1) / int64_t(a.d[d]), int64_t(0),
		     int64_t(a.k[d]));
}

bool is_inside(const in pool_t a, const in int64_t z, const in int64_t y, const in int64_t x)
{
	return z >= 0 && y >= 0 && x >= 0 && z < int64_t(a.in_[0]) && y < int64_t(a.in_[1]) &&
	       x < int64_t(a.in_[2]);
}

/* Where an element is in its plane, @i in the order of memory */
int64_t place(const in pool_t a, const in int64_t z, const in int64_t y, const in int64_t x,
	      const in uint64_t i)
{
	return COLUMN_MAJOR ? (x * int64_t(a.in_[1]) + y) * int64_t(a.in_[0]) + z : int64_t(i);
}

float power(const in pool_t a, const in float x)
{
	return a.lp == 1 ? x : a.lp == 2 ? x * x : m_pow(x, float(a.lp));
}

float root(const in pool_t a, const in float x)
{
	return a.lp == 1 ? x : a.lp == 2 ? sqrt(x) : m_pow(x, 1.0 / float(a.lp));
}

void main()
{
	pool_t a = pool_t(push.args);
	const uint64_t pixels = a.out_[0] * a.out_[1] * a.out_[2], units = a.planes * pixels;
	const uint64_t size = a.in_[0] * a.in_[1] * a.in_[2];

	for (uint64_t u = LANE; u < units; u += LANES) {
		const uint64_t plane = u / pixels, pixel = u - plane * pixels;
		const int64_t at[3] = int64_t[3](int64_t(pixel / (a.out_[1] * a.out_[2])),
						 int64_t(pixel / a.out_[2] % a.out_[1]),
						 int64_t(pixel % a.out_[2]));
		int64_t first[3], seen = 0, where = -1;
		float r = KIND == MAX ? -INFINITY : 0.0, top = 0.0;

		[[unroll]] for (uint d = 0; d < 3; d++)
			first[d] = at[d] * int64_t(a.s[d]) - int64_t(a.p[d]);
		/* of norms the largest comes first, by which the others are scaled */
		[[unroll]] for (uint pass = KIND == LP ? 0 : 1; pass < 2; pass++)
			for (int64_t z = 0; z < int64_t(a.k[0]); z++)
				for (int64_t y = 0; y < int64_t(a.k[1]); y++)
					for (int64_t x = 0; x < int64_t(a.k[2]); x++) {
						const int64_t iz = first[0] + z * int64_t(a.d[0]);
						const int64_t iy = first[1] + y * int64_t(a.d[1]);
						const int64_t ix = first[2] + x * int64_t(a.d[2]);

						if (!is_inside(a, iz, iy, ix))
							continue;

						const uint64_t i = (uint64_t(iz) * a.in_[1] +
							uint64_t(iy)) * a.in_[2] + uint64_t(ix);
						const float v = load_real(TYPE, a.x,
									  plane * size + i);

						seen++;
						if (KIND == LP && pass == 0) {
							top = max_nan(abs(v), top);
						} else if (KIND == LP) {
							r += top > 0.0 ? power(a, abs(v) / top) :
									 0.0;
						} else if (KIND == AVG) {
							r += v;
						} else if (where < 0 || v > r ||
							   (v != v && r == r)) {
							r = v;
							where = int64_t(plane * size) +
								place(a, iz, iy, ix, i);
						}
					}
		if (KIND == AVG && INCLUDE_PAD)
			seen = counted(a, 0, first[0]) * counted(a, 1, first[1]) *
			       counted(a, 2, first[2]);
		if (KIND == AVG)
			r = seen > 0 ? r / float(seen) : 0.0;
		if (KIND == LP)		/* of infinities and NaN what they are */
			r = top == INFINITY || top != top ? top : top * root(a, r);
		store_real(TYPE, a.y, u, r);
		if (a.index != 0)
			u64_p(a.index + u * 8).v = uint64_t(where);
	}
}
