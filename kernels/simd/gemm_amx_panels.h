/* SPDX-License-Identifier: MIT */
/* A block's rows times a panel by tiles; included after gemm_amx.h and gemm_drive.h. */

/* One panel or two times the rows of a block. */
struct gx {
	GT_T		*sums;		/* of tile row i from its i * high-th row on */
	const GT_T	*init;
	size_t		tiles, high, nb, col, cols;
	size_t		at;		/* steps before this part of K */
	bool		first, last, plain;
};

static void gd_config(const struct gd *d)
{
	size_t high = gx_high(d->rows), i;
	bool flat = gx_tiles(d->rows) == 1;
	struct tile_shape s = { .palette = 1 };

	for (i = 0; i < TILE_COUNT; i++) {
		s.colsb[i] = TILE_COLSB;
		s.rows[i] = (uint8_t)(i < (flat ? 5 : 6) ? high : TILE_ROWS);
	}
	tile_config(&s);
}

static void gd_release(void)
{
	tile_release();
}

/* The first row of tile row @i: the last one may begin inside the one before it. */
static inline size_t gx_begin(const struct gd *d, const struct gx *x, size_t i)
{
	size_t row = i * x->high;

	return row < d->rows - x->high ? row : d->rows - x->high;
}

/* Tile row @i becomes @t's @j-th. */
static void gx_point(const struct gd *d, const struct gx *x, struct gt *t, size_t i,
		     size_t j)
{
	size_t row = gx_begin(d, x, i);
	char *sums = (char *)(x->sums + i * x->high * d->ldt);

	t->a[j] = d->a + row * d->lda + x->at * TILE_COLSB;
	t->from[j] = x->first ? (const char *)x->init : sums;
	t->c[j] = sums;
	if (x->last && x->plain)
		t->c[j] = d->c + ((d->row + row) * d->g->ldc + x->col) * sizeof(GT_T);
}

/* Results of tile row @i, but for those of rows that the one before it has. */
static void gx_finish(struct gd *d, const struct gx *x, size_t i)
{
	size_t row = gx_begin(d, x, i), own = i * x->high;

	d->tile = x->sums + (own + own - row) * d->ldt;
	gd_finish(d, own, row + x->high - own, x->col, x->cols);
}

/* All rows of the block times this part of K. */
static void gx_part(struct gd *d, const struct gx *x, struct gt *t)
{
	size_t i, j, n;

	t->ldf = x->first ? 0 : d->ldt * sizeof(GT_T);
	t->ldc = (x->last && x->plain ? d->g->ldc : d->ldt) * sizeof(GT_T);
	for (i = 0; i < x->tiles; i += n) {
		n = x->tiles - i > 1 ? 2 : 1;
		for (j = 0; j < n; j++)
			gx_point(d, x, t, i + j, j);
		gt_runs[gx_kind(d->g)][n - 1][x->nb - 1](t);
		if (x->tiles > 2)
			t->next += t->lines * 64;
		for (j = 0; j < n && x->last && !x->plain; j++)
			gx_finish(d, x, i + j);
	}
}

/*
 * Weights come from further than the second-level cache: few rows prefetch shortly
 * before use, many the next panel, in equal shares.
 */
static void gx_prefetch(const struct gd *d, const struct gx *x, struct gt *t)
{
	size_t pairs = (x->tiles + 1) / 2, lines = GX_STEP / 64;

	t->lines = 0;
	if (d->g->b_form != RLX_B_PACKED)
		t->next = t->b;
	else if (pairs == 1)
		t->next = t->b + GX_AHEAD;
	else
		t->next = t->b + t->skip;
	if (d->g->b_form == RLX_B_PACKED)
		t->lines = (lines + pairs - 1) / pairs;
}

static void gd_panels(struct gd *d, struct gt *t, size_t col, size_t cols)
{
	size_t nr = cols > GD_NR ? 2 * GD_NR : GD_NR, steps = t->k / TILE_ROWS;
	GT_T init[2 * GD_NR];
	struct gx x = {
		.sums = d->tile, .init = gd_init(d, col, cols, nr, init),
		.tiles = gx_tiles(d->rows), .high = gx_high(d->rows),
		.nb = (cols + GX_COLS - 1) / GX_COLS, .col = col, .cols = cols,
		.plain = d->plain && cols == nr,
	};
	const char *b = t->b;
	size_t parts = x.tiles > 2 && steps > GX_PART ? (steps + GX_PART - 1) / GX_PART : 1, p;

	d->ldt = nr;
	for (p = 0; p < parts; p++) {
		x.at = steps * p / parts;
		x.first = p == 0;
		x.last = p + 1 == parts;
		t->steps = steps * (p + 1) / parts - x.at;
		t->b = b + x.at * GX_STEP;
		gx_prefetch(d, &x, t);
		gx_part(d, &x, t);
	}
	d->tile = x.sums;
}
