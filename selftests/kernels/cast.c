// SPDX-License-Identifier: MIT
/* Conversions between all element types against exact scalar rules. */
#include "kernels/cast.h"
#include "selftests/kernels/kcheck.h"

#define N 4500

/* A float format: mantissa bits, lowest normal exponent, largest value. */
struct fmt {
	int	man, low;
	double	max;
};

static const struct fmt fmts[RLX_DTYPE_COUNT] = {
	[RLX_F32] = { 23, -126, 0x1.fffffep127 },
	[RLX_F16] = { 10, -14, 65504 },
	[RLX_BF16] = { 7, -126, 0x1.fep127 },
	[RLX_F8E4M3] = { 3, -6, 448 },
	[RLX_F8E5M2] = { 2, -14, 57344 },
};

/* x as the nearest value of the format, ties to even; long double holds u64 */
static double to_format(long double x, int type)
{
	const struct fmt *f = &fmts[type];
	long double q;
	double max = f->max;
	int e;

	if (type == RLX_F64 || x != x)
		return (double)x;
	if (!isinf(x)) {
		frexpl(x, &e);
		e = e - 1 < f->low ? f->low : e - 1;
		q = rintl(ldexpl(x, f->man - e));
		x = ldexpl(q, e - f->man);
	}
	if (x <= max && x >= -max)
		return (double)x;
	if (type == RLX_F8E4M3 || type == RLX_F8E5M2)
		return x < 0 ? -max : max;
	return x < 0 ? -INFINITY : INFINITY;
}

static long double from_bits(uint64_t b, int type)
{
	const struct fmt *f = &fmts[type];
	int bits = 8 * (int)rlx_k_type_size((enum rlx_dtype)type);
	int64_t s = (int64_t)(b << (64 - bits)) >> (64 - bits);
	int man = f->man, e;
	double d;
	uint64_t m;

	switch (type) {
	case RLX_F64: memcpy(&d, &b, 8); return d;
	case RLX_I64: case RLX_I32: case RLX_I16: case RLX_I8:
		return s;
	case RLX_U64: case RLX_U32: case RLX_U16: case RLX_U8:
		return b;
	case RLX_BOOL: return b != 0;
	}
	m = b & (((uint64_t)1 << man) - 1);
	e = (int)(b >> man & ((1u << (bits - 1 - man)) - 1));
	d = e ? ldexp((double)(m | (uint64_t)1 << man), e - 1 + f->low - man)
	      : ldexp((double)m, f->low - man);
	if (type == RLX_F8E4M3 && (b & 0x7f) == 0x7f)
		d = NAN;
	if (type != RLX_F8E4M3 && e == (1 << (bits - 1 - man)) - 1)
		d = m ? NAN : INFINITY;
	return b >> (bits - 1) ? -d : d;
}

static uint64_t to_int(long double x, uint64_t b, int src, int dst)
{
	int bits = 8 * (int)rlx_k_type_size((enum rlx_dtype)dst);
	uint64_t mask = bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1;
	bool sign = dst >= RLX_I64 && dst <= RLX_I8;
	long double lo = sign ? -ldexpl(1, bits - 1) : 0;
	long double hi = ldexpl(1, sign ? bits - 1 : bits) - 1;
	int sb = 8 * (int)rlx_k_type_size((enum rlx_dtype)src);

	if (dst == RLX_BOOL)
		return x != 0;
	if (src > RLX_F8E5M2) {
		if (src == RLX_BOOL)
			return b != 0;
		if (src >= RLX_I64 && src <= RLX_I8)
			b = (uint64_t)((int64_t)(b << (64 - sb)) >> (64 - sb));
		return b & mask;
	}
	if (x != x)
		return 0;
	if (x <= lo)
		return sign ? (uint64_t)1 << (bits - 1) : 0;
	if (x >= hi)
		return mask >> sign;
	return (x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x) & mask;
}

static uint64_t draw(int type, uint64_t *seed)
{
	size_t size = rlx_k_type_size((enum rlx_dtype)type);
	uint64_t b = rlx_test_rand(seed) << 32 ^ rlx_test_rand(seed);
	uint64_t k = rlx_test_rand(seed) % 3;
	double d = (rlx_test_uniform(seed, -1, 1)) *
		   exp2(rlx_test_uniform(seed, -20, 66));
	float f = (float)d;

	if (type == RLX_BOOL)
		return b & 1;
	if (k == 0 && type == RLX_F64)
		memcpy(&b, &d, 8);
	else if (k == 0 && type == RLX_F32)
		b = 0, memcpy(&b, &f, 4);
	else if (k == 0 && type == RLX_BF16)
		b = kc_to_bf16(f);
	else if (k == 1 && type > RLX_F8E5M2)
		b >>= rlx_test_rand(seed) % 64;
	else if (k == 2 && (type == RLX_I64 || type == RLX_U64))
		/* next to a tie of bf16 */
		b = (b & 0xff) << 48 | (uint64_t)1 << 47 | (b >> 63);
	return size == 8 ? b : b & (((uint64_t)1 << 8 * size) - 1);
}

static void pair(rlx_k_fn *fn, int src, int dst, uint64_t *seed)
{
	size_t ss = rlx_k_type_size((enum rlx_dtype)src);
	size_t ds = rlx_k_type_size((enum rlx_dtype)dst);
	struct kc_buf s = kc_buf_new(N * ss, ss), d = kc_buf_new(N * ds, ds);
	struct rlx_k_cast a = { s.p, d.p, N, (uint8_t)src, (uint8_t)dst };

	for (size_t i = 0; i < N; i++) {
		uint64_t b = ss == 1 ? i & 255 : draw(src, seed);

		memcpy((char *)s.p + i * ss, &b, ss);
	}
	kc_run(fn, &a, rlx_k_cast_units(&a), 0, seed);
	for (size_t i = 0; i < N; i++) {
		uint64_t sb = 0, db = 0;
		long double x, y;
		double want;

		memcpy(&sb, (char *)s.p + i * ss, ss);
		memcpy(&db, (char *)d.p + i * ds, ds);
		x = from_bits(sb, src);
		if (dst > RLX_F8E5M2) {
			CHECKF(db == to_int(x, sb, src, dst) ||
			       (src == dst && dst == RLX_BOOL && sb > 1),
			       "type %d bits %llx to %d is %llx", src,
			       (long long)sb, dst, (long long)db);
			continue;
		}
		y = from_bits(db, dst);
		want = to_format(x, dst);
		if (src == dst)
			want = (double)x;
		CHECKF(y == want || (want != want && y != y),
		       "type %d bits %llx (%.17Lg) to %d is %.17Lg, not %.17g",
		       src, (long long)sb, x, dst, y, want);
		CHECKF(want != 0 || !signbit(want) == !signbit(y),
		       "type %d bits %llx to %d: sign", src, (long long)sb, dst);
	}
	kc_buf_free(&s);
	kc_buf_free(&d);
}

TEST(all_pairs_round_once)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int s = RLX_F64; s <= RLX_BOOL; s++)
			for (int d = RLX_F64; d <= RLX_BOOL; d++)
				pair(rlx_kernels_get((enum rlx_isa)l)->cast, s,
				     d, &seed);
}

TEST(every_f16_and_bf16_decodes)
{
	static uint16_t h[65536];
	static float f[65536];

	for (int i = 0; i < 65536; i++)
		h[i] = (uint16_t)i;
	for (int l = 0; l < kc_levels(); l++)
		for (int t = RLX_F16; t <= RLX_BF16; t++) {
			struct rlx_k_cast a = { h, f, 65536, (uint8_t)t,
						RLX_F32 };

			rlx_kernels_get((enum rlx_isa)l)->cast(
				&a, 0, rlx_k_cast_units(&a), NULL);
			for (unsigned int i = 0; i < 65536; i++) {
				long double w = from_bits(i, t);

				CHECK(f[i] == w || (w != w && f[i] != f[i]));
			}
		}
}

TEST_MAIN()
