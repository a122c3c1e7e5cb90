// SPDX-License-Identifier: MIT
/*
 * Pools (largest, average, LP norm) whose windows have few elements.
 *
 * Algorithm: a thread has POOL_ACROSS outputs of each of POOL_DOWN rows. Where the window is known
 * (POOL_TAPS by POOL_TAPS_DOWN, 7 at most, stride 4 at most, no dilation) it reads each row of
 * inputs once, into registers, folds it along for each of its columns, and that into each row of
 * outputs that it belongs to. Else it goes over the window, cut at the edges beforehand. Elements
 * outside read as -infinity or 0, by predicated loads, so that no edge is a branch.
 * Planes: neighbouring threads have neighbouring columns. Rows that end at odd places have one
 * column a thread, as then a warp's reads and writes lie side by side whatever they are aligned to;
 * else up to 16 bytes of outputs, and reads of POOL_VEC elements, POOL_LEAD of them ahead of the
 * window. Channels last: a vector of channels is what an element is here, up to 16 bytes.
 * Traffic: y once, x once; what neighbours read again comes from the first-level cache. The place
 * of the largest (8 bytes) is written if asked for.
 * Limits: f32, f16, bf16, computed in f32, powers in f64. A NaN is the largest.
 */
#include "kernels/gpu/pool.h"

enum {
	K = POOL_TAPS, S = POOL_STRIDE, K_DOWN = POOL_TAPS_DOWN, S_DOWN = POOL_STRIDE_DOWN,
	ACROSS	= POOL_ACROSS,
	DOWN	= POOL_DOWN,
	COLS	= (ACROSS - 1) * S + K,		/* of inputs that a thread reads */
	ROWS	= (DOWN - 1) * S_DOWN + K_DOWN,
	LOADS	= !K ? 1 : LAST ? COLS : (POOL_LEAD + COLS + POOL_VEC - 1) / POOL_VEC,
	EACH	= LAST ? VEC : POOL_VEC,	/* elements of a load */
};

/* The first of a thread's outputs. */
struct tile {
	int64_t	plane;
	place	z, y, x, c;
};

/* A thread's sums: of channels in a column, columns in a row. */
typedef struct pool_cell line[ACROSS][VEC];

static DEV inline struct tile tile_at(const struct rlx_k_pool &a, const struct pool_dim *m, place i)
{
	struct tile t = {};

	if (LAST)
		i = pool_divide(i, pool_channels(a) / VEC, &t.c);
	i = pool_divide(i, (m[2].out + ACROSS - 1) / ACROSS, &t.x);
	i = pool_divide(i, (m[1].out + DOWN - 1) / DOWN, &t.y);
	if (POOL_DEPTH)
		i = pool_divide(i, m[0].out, &t.z);
	t.plane = i;
	t.y *= DOWN;
	t.x *= ACROSS;
	t.c *= VEC;
	return t;
}

/* An element of column @col of the thread's, channel @e. */
static DEV inline void add_element(line &r, struct pool_cell c, int col, int e)
{
#pragma unroll
	for (int p = 0; p < ACROSS; p++)
		if (col >= p * S && col < p * S + K)
			r[p][e] = pool_join(r[p][e], c);
}

/*
 * One row of inputs; @row is where column @x lies, the first of the thread's, and
 * @at its place in the plane. Unless @in there is no such row.
 */
static DEV inline void add_row(line &r, const struct rlx_k_pool &a, const mem *row, place x,
			       place at, bool in)
{
	const place w = pool_dim_of(a, 2).in;
	const int64_t step = LAST ? (int64_t)pool_channels(a) : (int64_t)EACH;
	const int first = LAST ? 0 : POOL_LEAD, wide = LAST ? 1 : EACH;
	struct pool_vec<EACH> v[LOADS];

	row -= first;
#pragma unroll
	for (int i = 0; i < LOADS; i++) {
		place col = x - first + i * wide;

		v[i] = load_or((const struct pool_vec<EACH> *)row, in && pool_inside(col, w),
			       pool_outside());
		row += step;
	}
#pragma unroll
	for (int i = 0; i < LOADS; i++)
#pragma unroll
		for (int e = 0; e < EACH; e++) {
			int col = i * wide + (LAST ? 0 : e) - first;
			bool inside = in && pool_inside(x + col, w);

			if (col >= 0 && col < COLS)
				add_element(r, pool_cell_of(a, v[i].v[e], !INDEX || !inside ?
							    (place)-1 : at + col),
					    col, LAST ? e : 0);
		}
}

static DEV inline void clear(line &r)
{
#pragma unroll
	for (int p = 0; p < ACROSS; p++)
#pragma unroll
		for (int e = 0; e < VEC; e++)
			r[p][e] = pool_none();
}

static DEV inline void join_line(line &to, const line &r)
{
#pragma unroll
	for (int p = 0; p < ACROSS; p++)
#pragma unroll
		for (int e = 0; e < VEC; e++)
			to[p][e] = pool_join(to[p][e], r[p][e]);
}

/* Windows of known sizes: @x is the plane's element of the thread's first channel. */
static DEV inline void fold_known(line (&acc)[DOWN], const struct rlx_k_pool &a,
				  const struct pool_dim *m, const struct tile &t, const mem *x)
{
	struct pool_span z = pool_span_of(a, m[0], t.z, m[0].k, m[0].d);
	place first = t.y * S_DOWN - m[1].p, col = t.x * S - m[2].p;

	for (place k = z.from; k < z.to; k++) {
		place at = ((z.at + k * m[0].d) * m[1].in + first) * m[2].in + col;
		const mem *row = x + (int64_t)at * pool_channels(a);

#pragma unroll
		for (int j = 0; j < ROWS; j++) {
			line r;

			clear(r);
			add_row(r, a, row, col, at, pool_inside(first + j, m[1].in));
#pragma unroll
			for (int d = 0; d < DOWN; d++)
				if (j >= d * S_DOWN && j < d * S_DOWN + K_DOWN)
					join_line(acc[d], r);
			row += (int64_t)m[2].in * pool_channels(a);
			at += m[2].in;
		}
	}
}

/* Any windows; a thread has one. */
static DEV inline void fold_any(line &acc, const struct rlx_k_pool &a, const struct pool_dim *m,
				const struct tile &t, const mem *x)
{
	struct pool_span z = pool_span_of(a, m[0], t.z, m[0].k, m[0].d);
	struct pool_span y = pool_span_of(a, m[1], t.y, m[1].k, m[1].d);
	struct pool_span w = pool_span_of(a, m[2], t.x, m[2].k, m[2].d);

	for (place i = z.from; i < z.to; i++)
		for (place j = y.from; j < y.to; j++) {
			place at = ((z.at + i * m[0].d) * m[1].in + y.at + j * m[1].d) * m[2].in +
				   w.at;

#pragma unroll 4
			for (place k = w.from; k < w.to; k++) {
				place to = at + k * m[2].d;
				struct pool_vec<VEC> v = *(const struct pool_vec<VEC> *)
					(x + (int64_t)to * pool_channels(a));

#pragma unroll
				for (int e = 0; e < VEC; e++)
					acc[0][e] = pool_join(acc[0][e],
							      pool_cell_of(a, v.v[e], to));
			}
		}
}

/* The norm of the window of the first of @t's outputs and channels; @x: all elements. */
static DEV inline mem norm_again(const struct rlx_k_pool &a, const struct tile &t, const mem *x)
{
	const struct pool_dim m[3] = { pool_dim_of(a, 0), pool_dim_of(a, 1), pool_dim_of(a, 2) };
	struct pool_span z = pool_span_of(a, m[0], t.z, m[0].k, m[0].d);
	struct pool_span y = pool_span_of(a, m[1], t.y, m[1].k, m[1].d);
	struct pool_span w = pool_span_of(a, m[2], t.x, m[2].k, m[2].d);
	auto each = [&](auto fn) {
		for (place i = z.from; i < z.to; i++)
			for (place j = y.from; j < y.to; j++) {
				place at = ((z.at + i * m[0].d) * m[1].in + y.at + j * m[1].d) *
					   m[2].in + w.at;

				for (place k = w.from; k < w.to; k++, at += m[2].d)
					fn(x[(int64_t)at * pool_channels(a)]);
			}
	};
	auto alone = [](double v) { return v; };

	x += t.plane * pool_size(a) + t.c;
	return pool_norm(a, each, alone, alone);
}

/* Pointers of the arguments */
struct ends {
	const mem	*x;
	mem		*y;
	int64_t		*index;
};

/* One row of the thread's outputs, that of @t, whose first is element @i of y. */
static DEV inline void end_row(const struct rlx_k_pool &a, const struct ends &to,
			       const struct tile &t, place counted, const line &r, int64_t i)
{
	const struct pool_dim m = pool_dim_of(a, 2);
	struct pool_vec<LAST ? (int)VEC : (int)ACROSS> v;

#pragma unroll
	for (int p = 0; p < ACROSS; p++) {
		place n = !IS_AVG ? 0 : counted *
			pool_span_of(a, m, t.x + p, K ? (place)K : m.k,
				     K ? 1 : m.d).counted;

		if (LAST && t.x + p >= m.out)
			break;
#pragma unroll
		for (int e = 0; e < VEC; e++) {
			mem *y = &v.v[LAST ? e : p];

			*y = pool_result(a, r[p][e], n);
			if (pool_lossy(a, r[p][e].v))
				*y = norm_again(a, { t.plane, t.z, t.y, t.x + p, t.c + e }, to.x);
			if (INDEX)
				to.index[i + e] = pool_index(a, r[p][e].at, t.plane, t.c + e);
		}
		if (LAST)
			*(decltype(v) *)(to.y + i) = v;
		i += pool_channels(a);
	}
	if (!LAST)
		*(decltype(v) *)(to.y + i - ACROSS) = v;
}

static DEV inline void one_tile(const struct rlx_k_pool &a, const struct ends &to,
				const struct pool_dim *m, place i)
{
	struct tile t = tile_at(a, m, i);
	const mem *x = to.x + t.plane * pool_size(a) + t.c;
	place deep = !IS_AVG ? 0 : pool_span_of(a, m[0], t.z, m[0].k, m[0].d).counted;
	int64_t at = (((t.plane * m[0].out + t.z) * m[1].out + t.y) * m[2].out + t.x) *
		     pool_channels(a) + t.c;
	line acc[DOWN];

#pragma unroll
	for (int d = 0; d < DOWN; d++)
		clear(acc[d]);
	if constexpr (K > 0)
		fold_known(acc, a, m, t, x);
	else
		fold_any(acc[0], a, m, t, x);
#pragma unroll
	for (int d = 0; d < DOWN; d++) {
		place n = !IS_AVG ? 0 : deep *
			pool_span_of(a, m[1], t.y, K ? (place)K_DOWN : m[1].k,
				     K ? 1 : m[1].d).counted;

		if (t.y < m[1].out)
			end_row(a, to, t, n, acc[d], at);
		at += (int64_t)m[2].out * pool_channels(a);
		t.y++;
	}
}

RLX_G_KERNEL(pool_f32, struct rlx_k_pool, 256)
{
	struct pool_dim m[3] = { pool_dim_of(a, 0), pool_dim_of(a, 1), pool_dim_of(a, 2) };
	struct ends to = { RLX_G_PTR(const mem, a.x), RLX_G_PTR(mem, a.y),
			   INDEX ? RLX_G_PTR(int64_t, a.index) : (int64_t *)0 };
	int64_t n = (int64_t)a.planes * m[0].out * ((m[1].out + DOWN - 1) / DOWN) *
		    ((m[2].out + ACROSS - 1) / ACROSS) * (pool_channels(a) / VEC);

	for (int64_t i = line_first(); i < n; i += line_step())
		one_tile(a, to, m, (place)i);
}
