// SPDX-License-Identifier: MIT
/*
 * Weights in blocks of few bits: as floats, and multiplied. Some blocks, up to 256 elements of
 * a row, become codes of 8 bits with scale and addend of each sixteen, which stay in the
 * first-level cache; a vector of these becomes one of floats in registers. What a block means is
 * rlx/scheme.h's; here the same is said by vectors of bytes.
 */
#include "kernels/cpu/expert_rows.h"
#include "kernels/simd/wide.h"

#if RLX_VB > 16		/* base has it in portable C */
RLX_INLINE float f16_at(const unsigned char *p)
{
	uint16_t h;

	memcpy(&h, p, sizeof(h));
	return _cvtsh_ss(h);
}
#define RLX_BLOCK_F16	f16_at
#endif
#define RLX_BLOCK_FN	RLX_INLINE
#include "kernels/blocks.h"

rlx_k_fn RLX_K(gemm_blocks), RLX_K(grouped_blocks), RLX_K(dequant_blocks);

enum { MOST = RLX_BLOCK_MOST, GROUP = RLX_BLOCK_GROUP, COLS = RLX_K_BLOCKS_COLS };

typedef uint8_t b16 __attribute__((vector_size(16)));
#if RLX_VB > 16
typedef uint8_t bv __attribute__((vector_size(32)));
typedef uint8_t bv_u __attribute__((vector_size(32), aligned(1), may_alias));
#else
typedef b16 bv;
#endif
typedef uint8_t b16_u __attribute__((vector_size(16), aligned(1), may_alias));
#if RLX_VB <= 16
typedef b16_u bv_u;
#endif
typedef uint32_t w4 __attribute__((vector_size(16)));
typedef uint64_t w2 __attribute__((vector_size(16)));

/* Up to 256 elements. */
struct codes {
	int8_t	q[MOST];
	float	scale[MOST / GROUP], addend[MOST / GROUP];
} __attribute__((aligned(64)));

RLX_INLINE uint32_t word_at(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

RLX_INLINE uint64_t long_at(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

RLX_INLINE b16 bits_16(const uint8_t *p, int shift, int mask)
{
	return *(const b16_u *)p >> (uint8_t)shift & (uint8_t)mask;
}

/* Of as many bytes as a vector has, which is all 32 or half of them. */
RLX_INLINE bv bits(const uint8_t *p, int shift, int mask)
{
	return *(const bv_u *)p >> (uint8_t)shift & (uint8_t)mask;
}

/* The low halves of eight bytes, then the high ones. */
RLX_INLINE b16 halves_of_8(const uint8_t *p)
{
	const uint64_t v = long_at(p), mask = 0x0f0f0f0f0f0f0f0full;

	return (b16)(w2){ v & mask, v >> 4 & mask };
}

/* 16 in byte i where bit i of the two at @p is set. */
RLX_INLINE b16 fifth_bits(const uint8_t *p)
{
	const uint64_t ones = 0x0101010101010101ull, bit = 0x8040201008040201ull;
	const b16 v = (b16)(w2){ p[0] * ones & bit, p[1] * ones & bit };

	return (b16)(v != 0) & 16;
}

/* Sixteen codes by a table of sixteen: IQ4's, or twice floats of 4 bits. */
RLX_INLINE b16 look_up(const int scheme, b16 q)
{
	static const int8_t iq4[16] = {
		-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
	}, e2m1[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };
	const int8_t *t = scheme == RLX_SCHEME_IQ4_NL || scheme == RLX_SCHEME_IQ4_XS ? iq4 : e2m1;
#if RLX_VB > 16

	return (b16)_mm_shuffle_epi8(_mm_loadu_si128((const void *)t), (__m128i)q);
#else
	b16 v = { 0 };

	RLX_UNROLL	/* no instruction does it: each entry where it is meant */
	for (int i = 0; i < 16; i++)
		v |= (b16)(q == (uint8_t)i) & (uint8_t)t[i];
	return v;
#endif
}

/* Codes from element 32 @g + @at on. */
RLX_INLINE bv codes_of(const int scheme, const uint8_t *p, const int g, const size_t at)
{
	const uint8_t *q = p + at;

	switch (scheme) {
	case RLX_SCHEME_Q8_0: return bits(q + 2, 0, 255);
	case RLX_SCHEME_Q8_K: return bits(q + 4 + 32 * g, 0, 255);
	case RLX_SCHEME_Q2_K: return bits(q + 16 + g / 4 * 32, g % 4 * 2, 3);
	case RLX_SCHEME_Q3_K:
		return (bits(q + 32 + g / 4 * 32, g % 4 * 2, 3) | bits(q, g, 1) << 2) - 4;
	case RLX_SCHEME_Q4_K: return bits(q + 16 + g / 2 * 32, g % 2 * 4, 15);
	case RLX_SCHEME_Q5_K:
		return bits(q + 48 + g / 2 * 32, g % 2 * 4, 15) | bits(q + 16, g, 1) << 4;
	default:
		return (bits(q + g / 4 * 64 + g % 2 * 32, g / 2 % 2 * 4, 15) |
			bits(q + 128 + g / 4 * 32, g % 4 * 2, 3) << 4) - 32;
	}
}

/* Sixteen of the schemes whose bytes have a low and a high half of 32 elements, by @h. */
RLX_INLINE b16 half_of(const int scheme, const uint8_t *p, const int g, const int h)
{
	switch (scheme) {
	case RLX_SCHEME_Q4_0: return bits_16(p + 2, 4 * h, 15) - 8;
	case RLX_SCHEME_Q4_1: return bits_16(p + 4, 4 * h, 15);
	case RLX_SCHEME_Q5_0: return (bits_16(p + 6, 4 * h, 15) | fifth_bits(p + 2 + 2 * h)) - 16;
	case RLX_SCHEME_Q5_1: return bits_16(p + 8, 4 * h, 15) | fifth_bits(p + 4 + 2 * h);
	case RLX_SCHEME_IQ4_NL: return look_up(scheme, bits_16(p + 2, 4 * h, 15));
	case RLX_SCHEME_IQ4_XS: return look_up(scheme, bits_16(p + 8 + 16 * g, 4 * h, 15));
	case RLX_SCHEME_MXFP4: return look_up(scheme, bits_16(p + 1, 4 * h, 15));
	default: return look_up(scheme, halves_of_8(p + 4 + 16 * g + 8 * h));
	}
}

RLX_INLINE bool by_halves(const int scheme)
{
	return scheme <= RLX_SCHEME_Q5_1 || scheme >= RLX_SCHEME_IQ4_NL;
}

/* Sixteen factors of a block's scale as floats. */
RLX_INLINE void spread(float *to, b16 factors, float d)
{
	int8_t f[16];

	memcpy(f, &factors, sizeof(f));
	RLX_UNROLL
	for (int v = 0; v < GROUP / RLX_VL; v++)
		vf_storeu(to + v * RLX_VL, vf_from_vi(vi_loadu_i8(f + v * RLX_VL)) * vf_set1(d));
}

RLX_INLINE b16 twice_each(uint64_t bytes)
{
	const b16 v = (b16)(w2){ bytes, bytes };

	return __builtin_shufflevector(v, v, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
}

/* Of Q4_K and Q5_K: 6 bits each, four of either in the low ones of words, four in pieces. */
RLX_INLINE void scales_q4(const uint8_t *p, float *scale, float *addend)
{
	const uint32_t a = word_at(p + 4), b = word_at(p + 8), c = word_at(p + 12);
	const uint32_t six = 0x3f3f3f3f, four = 0x0f0f0f0f, two = 0x03030303;
	const uint64_t s = (c & four) | (a >> 6 & two) << 4;
	const uint64_t m = (c >> 4 & four) | (b >> 6 & two) << 4;

	spread(scale, twice_each(s << 32 | (a & six)), RLX_BLOCK_F16(p));
	spread(addend, twice_each(m << 32 | (b & six)), -RLX_BLOCK_F16(p + 2));
}

RLX_INLINE b16 factors_q3(const uint8_t *p)
{
	const uint32_t high = word_at(p + 8);
	const w4 two = { high & 0x03030303, high >> 2 & 0x03030303, high >> 4 & 0x03030303,
			 high >> 6 & 0x03030303 };

	return (halves_of_8(p) | (b16)(two << 4)) - 32;
}

RLX_INLINE b16 factors_iq4(const uint8_t *p)
{
	uint64_t v = 0;

	RLX_UNROLL
	for (int j = 0; j < 8; j++)
		v |= (uint64_t)(uint8_t)rlx_block_scale_iq4(p, j) << 8 * j;
	return twice_each(v);
}

RLX_INLINE void scales_of(const int scheme, const uint8_t *p, float *scale, float *addend)
{
	const b16 none = { 0 };

	switch (scheme) {
	case RLX_SCHEME_Q2_K:
		spread(scale, bits_16(p, 0, 15), RLX_BLOCK_F16(p + 80));
		spread(addend, bits_16(p, 4, 15), -RLX_BLOCK_F16(p + 82));
		return;
	case RLX_SCHEME_Q4_K:
	case RLX_SCHEME_Q5_K:
		scales_q4(p, scale, addend);
		return;
	case RLX_SCHEME_Q3_K:
		spread(scale, factors_q3(p + 96), RLX_BLOCK_F16(p + 108));
		break;
	case RLX_SCHEME_Q6_K:
		spread(scale, bits_16(p + 192, 0, 255), RLX_BLOCK_F16(p + 208));
		break;
	case RLX_SCHEME_IQ4_XS:
		spread(scale, factors_iq4(p), RLX_BLOCK_F16(p));
		break;
	case RLX_SCHEME_NVFP4:
		RLX_UNROLL
		for (int g = 0; g < 4; g++)
			rlx_block_scale(scheme, p, g, &scale[g], &addend[g]);
		return;
	default:
		rlx_block_scale(scheme, p, 0, scale, addend);
		for (int g = 1; g < rlx_block_elements(scheme) / GROUP; g++) {
			scale[g] = scale[0];
			addend[g] = addend[0];
		}
		return;
	}
	spread(addend, none, -0.0f);
}

RLX_INLINE void unpack_block(const int scheme, const uint8_t *p, int8_t *q, float *scale,
			     float *addend)
{
	RLX_UNROLL
	for (int g = 0; g < rlx_block_elements(scheme) / 32; g++)
		if (by_halves(scheme)) {
			*(b16_u *)(q + 32 * g) = half_of(scheme, p, g, 0);
			*(b16_u *)(q + 32 * g + 16) = half_of(scheme, p, g, 1);
		} else {
			RLX_UNROLL
			for (size_t at = 0; at < 32; at += sizeof(bv))
				*(bv_u *)(q + 32 * g + at) = codes_of(scheme, p, g, at);
		}
	scales_of(scheme, p, scale, addend);
}

/* @n elements, of whole blocks. */
#define UNPACK(name)							\
static void unpack_##name(const uint8_t *p, size_t n, struct codes *c)	\
{									\
	const size_t e = (size_t)rlx_block_elements(RLX_SCHEME_##name);	\
									\
	for (size_t i = 0; i < n; i += e) {				\
		unpack_block(RLX_SCHEME_##name, p, c->q + i, c->scale + i / GROUP, \
			     c->addend + i / GROUP);			\
		p += rlx_block_bytes(RLX_SCHEME_##name);		\
	}								\
}
#define SCHEMES(F) F(Q4_0) F(Q4_1) F(Q5_0) F(Q5_1) F(Q8_0) F(Q2_K) F(Q3_K) F(Q4_K) F(Q5_K) \
	F(Q6_K) F(Q8_K) F(IQ4_NL) F(IQ4_XS) F(MXFP4) F(NVFP4)
SCHEMES(UNPACK)

typedef void unpack_fn(const uint8_t *p, size_t n, struct codes *c);

static unpack_fn *const unpack[] = {
#define ROW(name) [RLX_SCHEME_##name] = unpack_##name,
	SCHEMES(ROW)
};

/* Bytes of @k elements. */
static size_t bytes_of(int scheme, size_t k)
{
	return k / (size_t)rlx_block_elements(scheme) * (size_t)rlx_block_bytes(scheme);
}

/* Vector @v of those of group @g, as floats. */
RLX_INLINE vf floats(const struct codes *c, size_t g, int v)
{
	vf q = vf_from_vi(vi_loadu_i8(c->q + g * GROUP + (size_t)v * RLX_VL));

	return vf_fma(q, vf_set1(c->scale[g]), vf_set1(c->addend[g]));
}

/* Rows that are multiplied by the same columns, and where their results go. */
struct rows {
	const float	*x[RLX_K_BLOCKS_ROWS];
	float		*y[RLX_K_BLOCKS_ROWS];
	size_t		 m, k;
	int		 scheme;
};

/* ---- few rows: floats in registers ---- */

/* The group @g times that of @R rows, into their sums. */
RLX_INLINE void few_step(const struct codes *c, size_t g, const float *const *x, vw *sum,
			 const int R)
{
	RLX_UNROLL
	for (int v = 0; v < GROUP / RLX_VL; v++) {
		const vf q = floats(c, g, v);

		RLX_UNROLL
		for (int r = 0; r < R; r++) {
			vf *s = &sum[r].v[v % RLX_WIDE];

			*s = vf_fma(q, vf_loadu(x[r] + g * GROUP + v * RLX_VL), *s);
		}
	}
}

RLX_INLINE void few(const struct rows *a, const uint8_t *w, size_t col, const int R)
{
	vw sum[RLX_K_BLOCKS_FEW] = { { { vf_zero() } } };
	const float *x[RLX_K_BLOCKS_FEW];
	struct codes c;
	size_t k, g, n;

	for (k = 0; k < a->k; k += n, w += bytes_of(a->scheme, n)) {
		n = a->k - k < MOST ? a->k - k : MOST;
		unpack[a->scheme](w, n, &c);
		RLX_UNROLL
		for (int r = 0; r < R; r++)
			x[r] = a->x[r] + k;
		/* two at a time, since a block has at least so many */
		for (g = 0; g < n / GROUP; g += 2) {
			few_step(&c, g, x, sum, R);
			few_step(&c, g + 1, x, sum, R);
		}
	}
	for (int r = 0; r < R; r++)
		a->y[r][col] = vw_hsum(sum[r]);
}

static void few_rows(const struct rows *a, const uint8_t *w, size_t col)
{
	switch (a->m) {
	case 1: return few(a, w, col, 1);
	case 2: return few(a, w, col, 2);
	case 3: return few(a, w, col, 3);
	default: return few(a, w, col, 4);
	}
}

/* ---- many: floats of some columns, which all rows read ---- */

#ifdef RLX_V512
enum { TILE_ROWS = 4, TILE_COLS = 6 };
#else
enum { TILE_ROWS = 3, TILE_COLS = 4 };
#endif

/* Terms @from to @from + @n of some rows and TILE_COLS columns, @w: floats of these. */
struct terms {
	const float	*const *rows, *w;
	size_t		from, n;
};

/* Those of @R rows by vectors, each the @turn-th of RLX_WIDE; @sum: [row][COLS] */
RLX_INLINE void tile_turn(const struct terms *t, vw *sum, const int R, size_t turn)
{
	vf acc[TILE_ROWS][TILE_COLS], *s;
	const float *x[TILE_ROWS];

	RLX_UNROLL
	for (int r = 0; r < R; r++)
		x[r] = t->rows[r] + t->from;
	RLX_UNROLL
	for (int i = 0; i < R * TILE_COLS; i++) {
		s = sum[i / TILE_COLS * COLS + i % TILE_COLS].v;
		acc[i / TILE_COLS][i % TILE_COLS] = s[turn];
	}
	for (size_t k = turn * RLX_VL; k < t->n; k += RLX_WL) {
		vf b[TILE_ROWS];

		RLX_UNROLL
		for (int r = 0; r < R; r++)
			b[r] = vf_loadu(x[r] + k);
		RLX_UNROLL
		for (int j = 0; j < TILE_COLS; j++) {
			const vf c = vf_load(t->w + j * MOST + k);

			RLX_UNROLL
			for (int r = 0; r < R; r++)
				acc[r][j] = vf_fma(b[r], c, acc[r][j]);
		}
	}
	RLX_UNROLL
	for (int i = 0; i < R * TILE_COLS; i++) {
		s = sum[i / TILE_COLS * COLS + i % TILE_COLS].v;
		s[turn] = acc[i / TILE_COLS][i % TILE_COLS];
	}
}

/* A turn for each vector of a sum: what is read is in the nearest cache. */
RLX_INLINE void tile(const struct terms *t, vw *sum, const int R)
{
	for (size_t turn = 0; turn < RLX_WIDE; turn++)
		tile_turn(t, sum, R, turn);
}

static void to_floats(const struct codes *c, float *to, size_t n)
{
	for (size_t g = 0; g < n / GROUP; g++)
		for (int v = 0; v < GROUP / RLX_VL; v++)
			vf_store(to + g * GROUP + v * RLX_VL, floats(c, g, v));
}

/* @cols columns from @col on, of which @w is the first. */
static void many_rows(const struct rows *a, const uint8_t *w, size_t col, size_t cols, float *to)
{
	size_t line = bytes_of(a->scheme, a->k), k, n, r, j;
	vw *sum = (vw *)(void *)(to + COLS * MOST);
	struct codes c;

	memset(to, 0, COLS * MOST * sizeof(*to));
	memset(sum, 0, a->m * COLS * sizeof(*sum));
	for (k = 0; k < a->k; k += n, w += bytes_of(a->scheme, n)) {
		n = a->k - k < MOST ? a->k - k : MOST;
		for (j = 0; j < cols; j++) {
			unpack[a->scheme](w + j * line, n, &c);
			to_floats(&c, to + j * MOST, n);
		}
		for (j = 0; j < cols; j += TILE_COLS) {
			struct terms t = { .w = to + j * MOST, .from = k, .n = n };

			for (r = 0; r + TILE_ROWS <= a->m; r += TILE_ROWS) {
				t.rows = a->x + r;
				tile(&t, sum + r * COLS + j, TILE_ROWS);
			}
			for (; r < a->m; r++) {
				t.rows = a->x + r;
				tile(&t, sum + r * COLS + j, 1);
			}
		}
	}
	for (r = 0; r < a->m; r++)
		for (j = 0; j < cols; j++)
			a->y[r][col + j] = vw_hsum(sum[r * COLS + j]);
}

/* Up to COLS of the @n columns at @w, from @col on. */
static void panel(const struct rows *a, const uint8_t *w, size_t col, size_t n, void *scratch)
{
	size_t line = bytes_of(a->scheme, a->k), cols = n - col < COLS ? n - col : COLS, j;

	w += col * line;
	if (a->m > RLX_K_BLOCKS_FEW)
		many_rows(a, w, col, cols, scratch);
	else
		for (j = 0; j < cols; j++)
			few_rows(a, w + j * line, col + j);
}

void RLX_K(gemm_blocks)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_gemm_blocks *a = args;
	size_t parts = (a->m + RLX_K_BLOCKS_ROWS - 1) / RLX_K_BLOCKS_ROWS, u, i;
	struct rows rows;

	rows.k = a->k;
	rows.scheme = a->scheme;
	for (u = begin; u < end; u++) {
		size_t row = u % parts * RLX_K_BLOCKS_ROWS;

		rows.m = a->m - row < RLX_K_BLOCKS_ROWS ? a->m - row : RLX_K_BLOCKS_ROWS;
		for (i = 0; i < rows.m; i++) {
			rows.x[i] = a->x + (row + i) * a->k;
			rows.y[i] = a->y + (row + i) * a->n;
		}
		panel(&rows, a->w, u / parts * COLS, a->n, scratch);
	}
}

/* ---- rows that choose a matrix ---- */

static void multiply(const struct rlx_k_grouped *a, const struct rlx_k_chosen *c, void *scratch)
{
	const size_t line = bytes_of(a->scheme, (size_t)a->k);
	const uint8_t *w = (const uint8_t *)a->w + (size_t)(c->e * a->n) * line;
	struct rows rows;

	rows.m = (size_t)c->n;
	rows.k = (size_t)a->k;
	rows.scheme = a->scheme;
	for (int r = 0; r < c->n; r++) {
		rows.x[r] = (const float *)a->x + c->row[r] * a->k;
		rows.y[r] = (float *)a->y + c->row[r] * a->n;
	}
	for (int64_t col = c->col; col < c->last; col += COLS)
		panel(&rows, w, (size_t)col, (size_t)a->n, scratch);
}

void RLX_K(grouped_blocks)(const void *args, size_t begin, size_t end, void *scratch)
{
	rlx_k_each_expert(args, begin, end, COLS, multiply, scratch);
}

_Static_assert(RLX_K_GROUPED_ROWS <= RLX_K_BLOCKS_ROWS, "all of them at once");

/* ---- as floats ---- */

static void store(void *y, int type, size_t at, vf v)
{
	vu16h h;

	if (type == RLX_F32) {
		vf_storeu((float *)y + at, v);
		return;
	}
	h = type == RLX_F16 ? vf_to_f16(v) : vf_to_bf16(v);
	memcpy((uint16_t *)y + at, &h, sizeof(h));
}

void RLX_K(dequant_blocks)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_dequant_blocks *a = args;
	size_t i = begin * RLX_K_BLOCKS_UNIT, last = end * RLX_K_BLOCKS_UNIT, n, g;
	struct codes c;
	int v;

	(void)scratch;
	last = last < (size_t)a->n ? last : (size_t)a->n;
	for (; i < last; i += n) {
		n = last - i < MOST ? last - i : MOST;
		unpack[a->scheme]((const uint8_t *)a->x + bytes_of(a->scheme, i), n, &c);
		for (g = 0; g < n / GROUP; g++)
			for (v = 0; v < GROUP / RLX_VL; v++)
				store(a->y, a->y_type, i + g * GROUP + (size_t)v * RLX_VL,
				      floats(&c, g, v));
	}
}
