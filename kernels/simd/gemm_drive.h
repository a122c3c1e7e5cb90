/* SPDX-License-Identifier: MIT */
/*
 * Walking a product: units to blocks of rows and panels, panels to tiles. The
 * includer has gemm_tile.h or gemm_amx.h and defines
 *	GD_ISA		its enum rlx_isa
 *	GD_K(k)		groups in k elements
 *	GD_AGROUP	bytes of a group of A
 *	GD_BROW		bytes of one packed row (group) of a panel
 *	GD_OWN_FINISH	if it has its own gd_finish(); else sums are f32
 *			(and its own gd_starts_at_bias(g): sums may start from
 *			bias; and gd_plain(g): sums may go to C as they are)
 *	GD_TAIL		bytes behind each panel, if any
 *	GD_WIDEN	if packed panels of another b_type are widened by gd_widen(g,
 *			panel, dst): bytes of a packed row of theirs
 *	GD_THIN(g)	if not rlx_k_gemm_is_thin(): what may be transposed
 *	GD_ROWS(g)	rows of a unit, if not rlx_k_gemm_rows()
 *	GD_SUMS(rows)	bytes of sums at the start of scratch, if not one tile or
 *			RLX_K_GEMM_DOT_M rows
 *	GD_OWN_PANELS	if it has its own gd_panels(); then also gd_config(d),
 *			called where a block begins, and gd_release()
 *	GD_EXACT	true if sums are exact, so that K need not be divided
 *	GD_DOT		if few rows times B by columns go along K: elements a
 *			vector takes; then gd_dot_a(a, k, n) and gd_dot_b() load
 *			elements [k, k + n) (no more than GD_DOT) of a row of A
 *			as groups and of B as given, where gd_can_dot(g), and
 *			GD_DOT_SUMS(x, sum) sums each of four vectors
 *	gd_a_size(g)	bytes of an element of A as given
 *	gd_b_size(g)	bytes of an element of B as given, if not packed
 *	gd_direct_a(g, rows)	A can be read where it is
 *	gd_direct_b(g, rows)	whole panels of B can be read where they are
 *	gd_stage_a(g, a, dst, ld, rows)	rows of A as groups, ld bytes apart
 *	gd_stage_b(g, b, dst, panel)	one panel as the pack kernel makes it
 *	gd_c_size(g)	bytes of an element of C and R
 */
#include <string.h>

#include "kernels/gemm.h"
#include "kernels/simd/gemm_pack.h"
#ifndef GD_OWN_FINISH
#include "kernels/simd/gemm_epi.h"
#endif

#ifndef GD_TAIL
#define GD_TAIL		0
#endif
#ifndef GD_EXACT
#define GD_EXACT	false
#endif
#ifndef GD_THIN
#define GD_THIN(g)	rlx_k_gemm_is_thin(g, GD_ISA)
#endif
#ifndef GD_ROWS
#define GD_ROWS(g)	rlx_k_gemm_rows(g, GD_ISA)
#endif
#ifndef GD_SUMS
#define GD_SUMS(rows)	((GT_MR > RLX_K_GEMM_DOT_M ? GT_MR : RLX_K_GEMM_DOT_M) * \
			 GD_NR * sizeof(GT_T))
#endif

/* Groups of a part of the sum along K (rlx_k_gemm_part()). */
static inline size_t gd_part(size_t k)
{
	return GD_EXACT ? k : rlx_k_gemm_part(k);
}

/* A block of rows at one batch index. */
struct gd {
	const struct rlx_k_gemm	*g;
	const char		*a, *b, *r;
	char			*c;
	size_t			row, rows;
	size_t			part;		/* of a sum: groups, or elements of gd_dots() */
	bool			dots;		/* by gd_dots() */
	GT_T			*tile;		/* sums of a tile */
	size_t			ldt;		/* one panel or two */
	char			*panel;
	const char		*tail;		/* of the panel at hand */
	size_t			skip;		/* to that of the next */
	const char		*next;		/* what is read after it, or NULL */
	size_t			next_size;
	size_t			lda;		/* bytes */
	bool			plain;		/* sums go to C as they are */
	const void		*bias;		/* that sums did not start from */
	const struct rlx_k_gemm	*given;		/* of which @g is the transposed product */
	GT_T			*turned;	/* sums by rows of C; NULL: as they are */
	size_t			flat;		/* so many of those at once as one row, or 0 */
	const GT_T		*flat_bias;
};

/* Groups of a staged row, spread so that rows do not share cache sets. */
static inline size_t gd_staged_ld(size_t k)
{
	size_t ld = (GD_K(k) * GD_AGROUP + 63) / 64 * 64 + 64;

	return ld % 2048 ? ld : ld + 64;
}

/* Columns from @col on of rows [@i, @i + @mr) of the block: sums to results. */
static void gd_finish(const struct gd *d, size_t i, size_t mr, size_t col,
		      size_t cols);

#ifndef GD_OWN_FINISH
static inline bool gd_starts_at_bias(const struct rlx_k_gemm *g)
{
	return rlx_k_gemm_bias_first(g, false);
}

static inline bool gd_plain(const struct rlx_k_gemm *g)
{
	return g->alpha == 1 && g->act == RLX_ACT_NONE && !g->residual &&
	       !g->row_bias && g->c_type == RLX_F32;
}

static void gd_finish(const struct gd *d, size_t i, size_t mr, size_t col,
		      size_t cols)
{
	const struct rlx_k_gemm *g = d->g;
	size_t row = d->row + i, es = ge_size(g->c_type);
	struct ge e = {
		.t = d->tile, .ldt = d->ldt,
		.c = d->c + (row * g->ldc + col) * es,
		.r = d->r ? d->r + (row * g->ldr + col) * es : NULL,
		.ldc = g->ldc, .ldr = g->ldr, .rows = mr, .cols = cols,
		.row_bias = g->row_bias ? (const float *)g->row_bias + row :
			    NULL,
		.alpha = (float)g->alpha, .beta = (float)g->beta,
		.lo = (float)g->lo, .hi = (float)g->hi, .type = g->c_type,
	};
	float bias[2 * GD_NR];

	if (d->bias) {
		memcpy(bias, (const float *)d->bias + col, cols * 4);
		e.bias = bias;
	}
	GE_FNS[g->act](&e);
}
#endif

/* The sums of rows of C from @col on, which lie in @d->turned, @mr in each. */
static inline void gd_finish_turned(const struct gd *d, size_t i, size_t mr, size_t col,
				    size_t cols)
{
	const bool flat = d->flat && mr == d->given->n;
	size_t step = flat ? d->flat : cols, j;
	struct gd rows = *d;

	rows.g = d->given;
	rows.tile = d->turned;
	rows.ldt = mr;
	rows.bias = flat && d->given->bias ? d->flat_bias : d->given->bias;
	for (j = 0; j < cols; j += step, rows.tile += step * mr) {
		const size_t n = cols - j < step ? cols - j : step;

		rows.row = col + j;
		if (flat)
			gd_finish(&rows, 0, 1, 0, n * mr);
		else
			gd_finish(&rows, 0, n, d->row + i, mr);
	}
}

/* As gd_finish(), of the product as it was given. */
static inline void gd_end(const struct gd *d, size_t i, size_t mr, size_t col, size_t cols)
{
	size_t r, j;

	if (!d->turned) {
		gd_finish(d, i, mr, col, cols);
		return;
	}
	for (r = 0; r < mr; r++)
		for (j = 0; j < cols; j++)
			d->turned[j * mr + r] = d->tile[r * d->ldt + j];
	gd_finish_turned(d, i, mr, col, cols);
}

/*
 * What the sums of columns [@col, @col + @cols) start from: bias, which goes to
 * @init, padded to @nr; or NULL for 0.
 */
static inline const GT_T *gd_init(const struct gd *d, size_t col, size_t cols, size_t nr,
				  GT_T *init)
{
	if (!d->g->bias || d->bias)
		return NULL;
	memcpy(init, (const GT_T *)d->g->bias + col, cols * sizeof(GT_T));
	memset(init + cols, 0, (nr - cols) * sizeof(GT_T));
	return init;
}

#ifdef GD_OWN_PANELS
static void gd_panels(struct gd *d, struct gt *t, size_t col, size_t cols);
static void gd_config(const struct gd *d);
static void gd_release(void);
#else
static inline void gd_config(const struct gd *d)
{
}

static inline void gd_release(void)
{
}

/* The sums of @mr rows and @nr columns at t->c, part by part of K. */
static void gd_parts(struct gt *t, size_t part, size_t mr, size_t nr,
		     void (*run)(const struct gt *))
{
	size_t k = t->k, all = k, ldc = t->ldc, i, j;
	GT_T sums[GT_MR * GD_NR], *c = t->c;
	const GT_T *init = t->init;
	const char *b = t->b;

	for (t->k = part; ; t->k = all < part ? all : part) {
		run(t);
		for (i = 0; c != t->c && i < mr; i++)
			for (j = 0; j < nr; j += GT_L)
				GT_STORE(c + i * ldc + j, GT_LOAD(c + i * ldc + j) +
					 GT_LOAD(sums + i * nr + j));
		all -= t->k;
		if (!all)
			break;
		t->a += part * sizeof(GT_A);
		t->b += part * t->ldb;
		t->ahead += GT_AHEAD(GT_MR) ? part * t->ahead_step : 0;
		t->c = sums;
		t->ldc = nr;
		t->init = NULL;
	}
	t->k = k;
	t->b = b;
	t->ldc = ldc;
	t->init = init;
}

/*
 * Tile @j of the block fetches what of the next panel follows the part of the tile before:
 * else the first rows of the block would wait for all of it. One alone fetches its own.
 */
static inline void gd_ahead(const struct gd *d, struct gt *t, size_t j, size_t tiles)
{
	const size_t at = j * t->k * 64;

	if (!GT_AHEAD(GT_MR))
		return;
	if (tiles > 1 && d->next) {
		t->ahead = at < d->next_size ? d->next + at : t->b;
		t->ahead_step = at < d->next_size ? 64 : 0;
	} else {
		t->ahead = t->b + 16 * t->ldb;
		t->ahead_step = t->ldb;
	}
}

/* Does one vector hold all columns of a panel that has so many? */
#ifdef GT_NARROW
#define gd_narrows	gt_narrows
static inline bool gd_narrow(size_t cols)
{
	return cols <= GT_L;
}
#else
#define gd_narrows	gt_tiles
static inline bool gd_narrow(size_t cols)
{
	return false;
}
#endif

/* All rows of the block times one panel, or two where few rows want that. */
static void gd_panels(struct gd *d, struct gt *t, size_t col, size_t cols)
{
	const struct rlx_k_gemm *g = d->g;
	const bool flat = cols > GD_NR, narrow = gd_narrow(cols);
	void (*const *run)(const struct gt *) = flat ? gt_flats : narrow ? gd_narrows : gt_tiles;
	size_t nr = flat ? 2 * GD_NR : narrow ? GT_L : GD_NR;
	size_t tiles = (d->rows + GT_MR - 1) / GT_MR, i, j;
	bool plain = d->plain && cols == nr;
	GT_T init[2 * GD_NR];

	t->init = gd_init(d, col, cols, nr, init);
	d->ldt = nr;
	t->ldc = plain ? g->ldc : nr;
	for (j = 0, i = 0; j < tiles; j++) {
		size_t mr = d->rows * (j + 1) / tiles - i;

		t->a = d->a + i * d->lda;
		t->c = plain ? (GT_T *)d->c + (d->row + i) * g->ldc + col :
		       d->tile;
		gd_ahead(d, t, j, tiles);
		if (d->part < t->k)
			gd_parts(t, d->part, mr, nr, run[mr]);
		else
			run[mr](t);
		if (!plain)
			gd_end(d, i, mr, col, cols);
		i += mr;
	}
}
#endif

#ifdef GD_DOT
#include "kernels/simd/gemm_dot.h"
#endif

static void gd_block(struct gd *d, size_t panel, size_t end)
{
	const struct rlx_k_gemm *g = d->g;
	size_t k = GD_K(g->k), size = k * GD_BROW + GD_TAIL;
	struct gt t = { .lda = d->lda, .ldb = GD_BROW, .skip = size, .k = k };

	while (panel < end) {
		size_t col = panel * GD_NR, cols = g->n - col, step = 1;

#ifdef GD_DOT
		if (d->dots) {
			gd_dots(d, col, cols < GD_NR ? cols : GD_NR);
			panel++;
			continue;
		}
#endif
		t.ldb = GD_BROW;
		d->next = NULL;
#ifdef GD_WIDEN
		if (g->b_form == RLX_B_PACKED && g->b_type != RLX_F32) {
			gd_widen(g, d->b + panel * k * GD_WIDEN, d->panel);
			t.b = d->panel;
		} else
#endif
		if (g->b_form == RLX_B_PACKED) {
			t.b = d->b + panel * size;
			if (d->rows <= GT_FLAT_MR && end - panel > 1)
				step = 2;
			if (end - panel > step)
				d->next = t.b + step * size;
			d->next_size = size;
		} else if (cols >= GD_NR && gd_direct_b(g, d->rows)) {
			t.b = d->b + col * gd_b_size(g);
			t.ldb = g->ldb * gd_b_size(g);
		} else {
			gd_stage_b(g, d->b, d->panel, panel);
			t.b = d->panel;
		}
		d->tail = t.b + k * GD_BROW;
		d->skip = size;
		gd_panels(d, &t, col, cols < step * GD_NR ? cols :
			  step * GD_NR);
		panel += step;
	}
}

/* Point @d at batch index @i and lay out its rows of A. */
static void gd_begin(struct gd *d, size_t i, char *stage)
{
	const struct rlx_k_gemm *g = d->g;
	size_t in = g->batch[1] ? g->batch[1] : 1, x = i / in, y = i % in;
	size_t bs = g->b_form == RLX_B_PACKED ? 1 : gd_b_size(g);
	size_t cs = gd_c_size(g);

	d->b = (const char *)g->b + (x * g->b_step[0] + y * g->b_step[1]) * bs;
	d->c = (char *)g->c + (x * g->c_step[0] + y * g->c_step[1]) * cs;
	d->r = g->residual ? (const char *)g->residual +
	       (x * g->r_step[0] + y * g->r_step[1]) * cs : NULL;
	d->a = (const char *)g->a +
	       (x * g->a_step[0] + y * g->a_step[1]) * gd_a_size(g);
	if (gd_direct_a(g, d->rows)) {
		d->lda = g->lda * gd_a_size(g);
		d->a += d->row * d->lda;
		return;
	}
	d->a += d->row * (g->trans_a ? 1 : g->lda) * gd_a_size(g);
	d->lda = gd_staged_ld(g->k);
	gd_stage_a(g, d->a, stage, d->lda, d->rows);
	d->a = stage;
}

/* How the sums of the whole product go along K. */
static inline void gd_sums(struct gd *d)
{
	const struct rlx_k_gemm *g = d->g;

	/* what may be transposed has the same bits either way */
	d->bias = gd_starts_at_bias(g) && !GD_THIN(d->given) ? NULL : g->bias;
	d->plain = gd_plain(g) && !d->turned && !d->bias;
#ifdef GD_DOT
	d->dots = gd_can_dot(g) && rlx_k_gemm_sums_dots(d->given, g != d->given);
	if (d->dots) {
		d->bias = g->bias;
		d->part = gd_part((g->k + GD_DOT * RLX_WIDE - 1) / (GD_DOT * RLX_WIDE)) *
			  GD_DOT * RLX_WIDE;
		return;
	}
#endif
	d->part = gd_part(GD_K(g->k));
}

/* @given, or it transposed, at @t. */
static inline const struct rlx_k_gemm *gd_product(const struct rlx_k_gemm *given,
						  struct rlx_k_gemm *t)
{
	if (!GD_THIN(given) || !rlx_k_gemm_transposes(given, GD_ISA))
		return given;
	*t = rlx_k_gemm_transposed(given);
	return t;
}

/* A column of C whose elements lie together is a row as well. */
static inline bool gd_is_row(const struct rlx_k_gemm *g)
{
	return g->n == 1 && g->ldc == 1 && (!g->residual || g->ldr == 1);
}

/*
 * Short rows that lie together, as one: vectors would be empty for the most part. @bias: of
 * those, of which the result says how many
 */
static inline size_t gd_flat(const struct rlx_k_gemm *g, GT_T bias[2 * GD_NR])
{
	size_t rows = 2 * GD_NR / g->n, i;

	if (g->ldc != g->n || (g->residual && g->ldr != g->n) || g->row_bias)
		return 0;
	for (i = 0; g->bias && i < rows * g->n; i++)
		bias[i] = ((const GT_T *)g->bias)[i % g->n];
	return rows;
}

static void gd_gemm(const struct rlx_k_gemm *given, size_t begin, size_t end,
		    char *scratch)
{
	struct rlx_k_gemm t;
	const struct rlx_k_gemm *g = gd_product(given, &t);
	const bool turns = g != given && !gd_is_row(given);
	size_t rows = GD_ROWS(g), blocks = (g->m + rows - 1) / rows;
	size_t panels = rlx_k_gemm_panels(g->n, GD_ISA), u = begin;
	char *stage = scratch + GD_SUMS(rows);
	char *panel = stage + rows * gd_staged_ld(g->k);
	GT_T flat_bias[2 * GD_NR];
	struct gd d = {
		.g = g, .given = given, .tile = (GT_T *)scratch, .panel = panel,
		.turned = turns ? (GT_T *)(panel + GD_K(g->k) * GD_BROW) : NULL,
		.flat = turns ? gd_flat(given, flat_bias) : 0, .flat_bias = flat_bias,
	};

	if (turns)
		t.bias = t.row_bias = NULL;
	gd_sums(&d);
	while (u < end) {
		size_t first = u % panels, block = u / panels % blocks;
		size_t n = panels - first < end - u ? panels - first : end - u;

		d.row = block * rows;
		d.rows = g->m - d.row < rows ? g->m - d.row : rows;
		gd_begin(&d, u / panels / blocks, stage);
		gd_config(&d);
		gd_block(&d, first, first + n);
		u += n;
	}
	gd_release();
}

/* The kernel @name; its arguments begin with a struct rlx_k_gemm. */
#define GD_KERNEL(name)							\
rlx_k_fn RLX_K(name);							\
void RLX_K(name)(const void *args, size_t begin, size_t end, void *scratch) \
{									\
	gd_gemm(args, begin, end, scratch);				\
}
