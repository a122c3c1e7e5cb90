// SPDX-License-Identifier: MIT
/*
 * GEMM with weights of 4 or 8 bits. A vector of codes becomes one or two of floats, in
 * registers for some rows, in the first-level cache for many; what a scale and a zero point do
 * is done once a block: the sum of (q - zero) x scale is the sum of q x, less zero times the
 * sum of x, times scale.
 */
#include "kernels/gemm_wq.h"
#include "kernels/simd/wide.h"

rlx_k_fn RLX_K(gemm_wq);

#define C	RLX_VL
#ifdef RLX_V512
#define MOST	12
#else
#define MOST	6
#endif

/*
 * Some rows by one panel; @sums: of the rows' blocks, @blocks a row, or NULL; @y: vectors side
 * by side, for rows of the result that are a power of two apart would share a cache set.
 */
struct tile {
	const struct rlx_k_gemm_wq *a;
	const float	*x, *sums;
	const char	*panel;
	float		*y;
	size_t		blocks;
};

/* Two rows of codes at *@p, or of floats that they were, as vectors; *@p moves on. */
RLX_INLINE void two_rows(const char **p, vf *lo, vf *hi, const int bits)
{
	if (bits == 4) {
		const vi v = vi_loadu_u8(*p);

		*lo = vf_from_vi(v & 15);
		*hi = vf_from_vi(vi_shr(v, 4));
		*p += C;
	} else if (bits == 8) {
		*lo = vf_from_vi(vi_loadu_i8(*p));
		*hi = vf_from_vi(vi_loadu_i8(*p + C));
		*p += 2 * C;
	} else {
		*lo = vf_load(*p);
		*hi = vf_load(*p + sizeof(vf));
		*p += 2 * sizeof(vf);
	}
}

/* The last of an odd number. */
RLX_INLINE vf last_row(const char *p, const int bits)
{
	return bits == 4 ? vf_from_vi(vi_loadu_u8(p) & 15) :
	       bits == 8 ? vf_from_vi(vi_loadu_i8(p)) : vf_load(p);
}

/* @n k of one block at @codes: what their product adds to y, or is with @first. */
struct terms {
	const float	*x, *sums;	/* @sums: of the block, if it ends here, or NULL */
	const char	*codes;
	size_t		n;
	vf		scale, zero;
	bool		first;
};

RLX_INLINE void terms(const struct tile *t, const struct terms *b, const int R, const int bits)
{
	/* rows lie as in x, or side by side */
	const size_t row = bits < 32 ? t->a->k : 1, next = bits < 32 ? 1 : (size_t)R;
	const char *p = b->codes;
	vf acc[MOST][2] = { { vf_zero() } }, sum[MOST], lo, hi;
	size_t i = 0;

	for (; i + 2 <= b->n; i += 2) {
		two_rows(&p, &lo, &hi, bits);
		RLX_UNROLL
		for (int r = 0; r < R; r++) {
			const float *at = b->x + (size_t)r * row + i * next;

			acc[r][0] = vf_fma(vf_set1(at[0]), lo, acc[r][0]);
			acc[r][1] = vf_fma(vf_set1(at[next]), hi, acc[r][1]);
		}
	}
	RLX_UNROLL
	for (int r = 0; r < R; r++)
		sum[r] = acc[r][0] + acc[r][1];
	if (i < b->n) {
		lo = last_row(p, bits);
		RLX_UNROLL
		for (int r = 0; r < R; r++)
			sum[r] = vf_fma(vf_set1(b->x[(size_t)r * row + i * next]), lo, sum[r]);
	}
	if (b->sums) {
		RLX_UNROLL
		for (int r = 0; r < R; r++)
			sum[r] = vf_fnma(b->zero, vf_set1(b->sums[(size_t)r * t->blocks]), sum[r]);
	}
	RLX_UNROLL
	for (int r = 0; r < R; r++)
		vf_store(t->y + r * C, vf_fma(b->scale, sum[r], b->first ? vf_zero() :
					      vf_load(t->y + r * C)));
}

/* Scale and zero point of block @i at @p; where its codes are. */
static const char *begin_block(const struct tile *t, struct terms *b, const char *p, size_t i)
{
	const struct rlx_k_gemm_wq *a = t->a;

	b->scale = vf_loadu(p);
	b->zero = a->zeros ? vf_loadu(p + sizeof(vf)) : vf_set1((float)a->zero);
	b->first = !i;
	b->x = t->x + i * a->block;
	b->n = a->k - i * a->block < a->block ? a->k - i * a->block : a->block;
	return p + (a->zeros ? 2 : 1) * sizeof(vf);
}

/* All blocks of a panel, by up to RLX_K_GEMM_WQ_TERMS at once. */
RLX_INLINE void tile(const struct tile *t, const int R, const int bits)
{
	const char *p = t->panel;
	struct terms b;
	size_t i, len;

	for (i = 0; i < t->blocks; i++) {
		p = begin_block(t, &b, p, i);
		for (len = b.n; len; len -= b.n) {
			b.n = len < RLX_K_GEMM_WQ_TERMS ? len : RLX_K_GEMM_WQ_TERMS;
			b.sums = t->sums && b.n == len ? t->sums + i : NULL;
			b.codes = p;
			terms(t, &b, R, bits);
			p += (bits == 4 ? (b.n + 1) / 2 : b.n) * C;
			b.x += b.n;
			b.first = false;
		}
	}
}

/* The portable level is small. */
#if RLX_VB > 16
#define TILES(F)	F(MOST) F(4) F(2) F(1)
#else
#define TILES(F)	F(MOST) F(1)
#endif
#define NAMED_(what, R)	what##_##R
#define NAMED(what, R)	NAMED_(what, R)
#define DEFINE(R)							\
static void NAMED(tile, R)(const struct tile *t)			\
{									\
	if (t->a->bits == 4)						\
		tile(t, R, 4);						\
	else								\
		tile(t, R, 8);						\
}									\
static void NAMED(terms, R)(const struct tile *t, const struct terms *b)	\
{									\
	terms(t, b, R, 32);						\
}
TILES(DEFINE)

/* Tiles by their rows, falling. */
static const struct {
	size_t	rows;
	void	(*tile)(const struct tile *t);
	void	(*terms)(const struct tile *t, const struct terms *b);
} by_rows[] = {
#define ROW(R) { R, NAMED(tile, R), NAMED(terms, R) },
	TILES(ROW)
};

/* The one for the next of @rows that are left. */
static size_t next_tile(size_t rows)
{
	size_t i = 0;

	while (by_rows[i].rows > rows)
		i++;
	return i;
}

static void few_rows(struct tile t, size_t rows)
{
	size_t n, i;

	for (; rows; rows -= n) {
		i = next_tile(rows);
		n = by_rows[i].rows;
		by_rows[i].tile(&t);
		t.x += n * t.a->k;
		t.y += n * C;
		t.sums = t.sums ? t.sums + n * t.blocks : NULL;
	}
}

/* As floats, which all rows read: codes at *@p, which moves on. */
static void unpack(const char **p, float *to, size_t n, int bits)
{
	vf lo, hi;
	size_t i;

	for (i = 0; i + 2 <= n; i += 2, to += 2 * C) {
		if (bits == 4)
			two_rows(p, &lo, &hi, 4);
		else
			two_rows(p, &lo, &hi, 8);
		vf_store(to, lo);
		vf_store(to + C, hi);
	}
	if (i == n)
		return;
	vf_store(to, bits == 4 ? last_row(*p, 4) : last_row(*p, 8));
	*p += C;
}

/* Tiles of @rows, whose x lies in @copy, by terms from @k on. */
static void all_rows(struct tile t, struct terms b, const float *copy, size_t k, size_t rows)
{
	size_t n, i;

	for (; rows; rows -= n) {
		i = next_tile(rows);
		n = by_rows[i].rows;
		b.x = copy + k * n;
		by_rows[i].terms(&t, &b);
		copy += n * t.a->k;
		t.y += n * C;
		b.sums = b.sums ? b.sums + n * t.blocks : NULL;
	}
}

/* Rows of each tile side by side: rows that are a power of two apart would share a cache set. */
static void copy_rows(const struct rlx_k_gemm_wq *a, const float *x, float *to, size_t rows)
{
	size_t n, i, r;

	for (; rows; rows -= n, x += n * a->k) {
		n = by_rows[next_tile(rows)].rows;
		for (i = 0; i < a->k; i++)
			for (r = 0; r < n; r++)
				*to++ = x[r * a->k + i];
	}
}

/* Codes are unpacked once for all rows: so many floats stay in the first-level cache. */
static void many_rows(const struct tile *t, const float *copy, size_t rows)
{
	float floats[RLX_K_GEMM_WQ_TERMS * C] __attribute__((aligned(sizeof(vf))));
	const char *p = t->panel;
	size_t i, k = 0, len;
	struct terms b;

	for (i = 0; i < t->blocks; i++) {
		p = begin_block(t, &b, p, i);
		for (len = b.n; len; len -= b.n) {
			b.n = len < RLX_K_GEMM_WQ_TERMS ? len : RLX_K_GEMM_WQ_TERMS;
			b.sums = t->sums && b.n == len ? t->sums + i : NULL;
			b.codes = (const char *)floats;
			unpack(&p, floats, b.n, t->a->bits);
			all_rows(*t, b, copy, k, rows);
			k += b.n;
			b.first = false;
		}
	}
}

static void sum_blocks(const struct rlx_k_gemm_wq *a, const float *x, float *sums, size_t n)
{
	size_t r, at, i, len;

	for (r = 0; r < n; r++, x += a->k)
		for (at = 0; at < a->k; at += len) {
			vw v = vw_set1(0);

			len = a->k - at < a->block ? a->k - at : a->block;
			for (i = 0; i < len; i += RLX_WL)
				v = vw_add(v, vw_loadn(x + at + i, len - i));
			*sums++ = vw_hsum(v);
		}
}

/*
 * One row by a panel with weights as they are: an infinity less itself is none, and the sum of
 * q x overflows where that of (q - zero) scale x does not.
 */
static __attribute__((noinline)) vf row_direct(const struct tile *t, const float *x)
{
	const int bits = t->a->bits;
	const char *p = t->panel;
	vf y = vf_zero(), lo, hi;
	struct terms b;

	for (size_t i = 0; i < t->blocks; i++) {
		p = begin_block(t, &b, p, i);
		for (; b.n; b.n -= b.n < 2 ? 1 : 2) {
			if (b.n < 2) {
				lo = last_row(p, bits);
				p += C;
			} else {
				two_rows(&p, &lo, &hi, bits);
			}
			y = vf_fma(vf_set1(*x++), (lo - b.zero) * b.scale, y);
			if (b.n > 1)
				y = vf_fma(vf_set1(*x++), (hi - b.zero) * b.scale, y);
		}
	}
	return y;
}

/* Some rows by some panels, from the first on. */
static void unit(const struct rlx_k_gemm_wq *a, size_t row, size_t first, float *scratch)
{
	size_t rows = a->m - row < RLX_K_GEMM_WQ_ROWS ? a->m - row : RLX_K_GEMM_WQ_ROWS;
	size_t panels = rlx_k_gemm_wq_panels(a), last = first + rlx_k_gemm_wq_step(a), p, i;
	struct tile t = { .a = a, .blocks = rlx_k_gemm_wq_blocks(a), .x = a->x + row * a->k };
	float sums[RLX_K_GEMM_WQ_ROWS * C] __attribute__((aligned(sizeof(vf))));
	float *copy = scratch + RLX_K_GEMM_WQ_ROWS * t.blocks;
	bool many = a->m > RLX_K_GEMM_WQ_FEW;

	if (a->zeros || a->zero) {
		sum_blocks(a, t.x, scratch, rows);
		t.sums = scratch;
	}
	if (many)
		copy_rows(a, t.x, copy, rows);
	t.y = sums;
	for (p = first; p < panels && p < last; p++) {
		t.panel = (const char *)a->w + p * rlx_k_gemm_wq_panel_bytes(a);
		if (many)
			many_rows(&t, copy, rows);
		else
			few_rows(t, rows);
		for (i = 0; i < rows; i++) {
			vf y = vf_load(sums + i * C);

			if (__builtin_expect(!vm_all(vf_eq(y - y, vf_zero())), 0))
				y = row_direct(&t, t.x + i * a->k);
			vf_storen(a->y + (row + i) * a->n + p * C, y, a->n - p * C);
		}
	}
}

void RLX_K(gemm_wq)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_gemm_wq *a = args;
	size_t tiles = (a->m + RLX_K_GEMM_WQ_ROWS - 1) / RLX_K_GEMM_WQ_ROWS, u;

	for (u = begin; u < end; u++)
		unit(a, u % tiles * RLX_K_GEMM_WQ_ROWS, u / tiles * rlx_k_gemm_wq_step(a), scratch);
}
