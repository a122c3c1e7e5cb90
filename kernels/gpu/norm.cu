// SPDX-License-Identifier: MIT
/*
 * Layer norm and RMS norm of rows of x + residual + bias.
 *
 * Algorithm: mean, then variance as the mean of squared distances from it (two passes over
 * registers, so nothing cancels); RMS: the mean of squares. Rows in pieces: mean and sum of
 * squares of each piece, put together as Chan et al. have it, then a second reading, from the end
 * on, as caches still hold that.
 * Tiles: rows of up to 32,768 elements are kept by the threads that kernels/gpu/rows_plan.h gives
 * them; rlx_g_norm_launch() says how many. While a row is computed its threads' next one is under
 * way. gamma and beta are read after the first row was asked for, and stay in registers where a
 * thread has up to 16 of them, else near the multiprocessor. Longer rows a block, and where those
 * are few several blocks, whose shares a second launch puts together.
 * Traffic: x, the residual and y once (and x + residual + bias if asked for, written), which is
 * the bound; rows in pieces x and the residual twice. Mean and 1 / deviation of a row are written
 * for gradients if asked for.
 * Source: Ba et al., "Layer Normalization" (2016); Zhang and Sennrich, "Root Mean Square Layer
 * Normalization" (2019); Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for
 * Computing Sample Variances" (1979). Limits: f32, f16, bf16, computed in f32. y may be x.
 */
#include "kernels/gpu/rows_plan.h"
#define RLX_G_BLOCKS	ROWS_BLOCKS(ROWS_SHARE)

#include "kernels/gpu/rows.h"
#include "kernels/norm.h"

/* NORM_GAMMA, NORM_BETA, NORM_BIAS, NORM_SUM: they are there; NORM_RESIDUAL_TYPE 0: it is not. */
typedef rlx_t<NORM_X_TYPE> type_x;
typedef rlx_t<NORM_Y_TYPE> type_y;
enum { ADDS = NORM_RESIDUAL_TYPE != 0, KEEPS = !PIECES && CHUNKS * VEC <= 8 };
typedef rlx_t<ADDS ? NORM_RESIDUAL_TYPE : (int)RLX_F32> type_r;
typedef rlx_t<NORM_PARAM_TYPE> type_p;

/* Is the next row asked for ahead? Where a row has more bytes, other warps' are enough. */
enum { AHEAD = CHUNKS * VEC * (sizeof(type_x::mem) + (ADDS ? sizeof(type_r::mem) : 0)) <= 32 };

/* Chunk @c of gamma, beta or bias at @p: v by its conversion */
static DEV inline void get_param(const type_p::mem *p, const row_part &part, int c, float (&v)[VEC])
{
	row_vec<type_p::mem> x = {};

	if (part.has(c))
		x = *(const row_vec<type_p::mem> *)(p + part.at(c));
#pragma unroll
	for (int i = 0; i < VEC; i++)
		v[i] = type_p::get(x.v[i]);
}

/* gamma and beta of a thread's elements, where it keeps them */
struct shape {
	float	gamma[KEEPS ? CHUNKS : 1][VEC], beta[KEEPS ? CHUNKS : 1][VEC];

	DEV void load(const type_p::mem *g, const type_p::mem *b, const row_part &part, int c)
	{
		if (NORM_GAMMA)
			get_param(g, part, c, gamma[KEEPS ? c : 0]);
		if (NORM_BETA)
			get_param(b, part, c, beta[KEEPS ? c : 0]);
	}

	DEV float of(float v, int c, int i) const
	{
		v = NORM_GAMMA ? v * gamma[KEEPS ? c : 0][i] : v;
		return NORM_BETA ? v + beta[KEEPS ? c : 0][i] : v;
	}
};

/* The row's mean and 1 / deviation */
struct scale {
	float	mean, inv;

	DEV void tell(const struct rlx_k_norm &a, const struct rlx_g_env &env, int64_t row) const
	{
		if (a.mean)
			RLX_G_PTR(float, a.mean)[row] = mean;
		if (a.inv)
			RLX_G_PTR(float, a.inv)[row] = inv;
	}
};

/* What a thread reads of a row, or of a piece of one. */
struct raw_row {
	row_vec<type_x::mem>	x[CHUNKS];
	row_vec<type_r::mem>	r[CHUNKS];
};

/* Row @row from element @first on; unless @in there is no such row. */
struct norm_row {
	const struct rlx_k_norm	&a;
	const struct rlx_g_env	&env;
	row_part		part;
	int64_t			row, first;
	bool			in;

	DEV void load(raw_row &raw) const
	{
		part.load(RLX_G_PTR(const type_x::mem, a.x) + row * a.n + first, in, raw.x);
		if (ADDS)
			part.load(RLX_G_PTR(const type_r::mem, a.residual) +
				  row * a.residual_stride + first, in, raw.r);
	}

	/* v = x + residual + bias, of which the first two were read */
	DEV void get(const raw_row &raw, float (&v)[CHUNKS][VEC]) const
	{
		const type_p::mem *p = RLX_G_PTR(const type_p::mem, a.bias) + first;

		row_get<type_x>(raw.x, v);
		if (ADDS)
			row_add<type_r>(raw.r, v);
#pragma unroll
		for (int c = 0; c < CHUNKS && NORM_BIAS; c++) {
			float bias[VEC];

			get_param(p, part, c, bias);
#pragma unroll
			for (int i = 0; i < VEC; i++)
				v[c][i] += bias[i];
		}
	}

	/* What comes out of v: out and y may be x itself, all of which was read. */
	DEV void write(const struct scale &s, struct shape &p, const float (&v)[CHUNKS][VEC]) const
	{
		const type_p::mem *gamma = RLX_G_PTR(const type_p::mem, a.gamma) + first;
		const type_p::mem *beta = RLX_G_PTR(const type_p::mem, a.beta) + first;
		type_x::mem *out = RLX_G_PTR(type_x::mem, a.sum) + row * a.n + first;
		type_y::mem *to = RLX_G_PTR(type_y::mem, a.y) + row * a.n + first;

#pragma unroll
		for (int c = 0; c < CHUNKS; c++) {
			float y[VEC];

			if (NORM_SUM)
				part.store<type_x>(out, in, c, v[c]);
			if (!KEEPS)
				p.load(gamma, beta, part, c);
#pragma unroll
			for (int i = 0; i < VEC; i++)
				y[i] = p.of((v[c][i] - s.mean) * s.inv, c, i);
			part.store<type_y>(to, in, c, y);
		}
	}
};

static DEV inline float sum_of(const row_part &part, const float (&v)[CHUNKS][VEC])
{
	float sum = 0;

#pragma unroll
	for (int c = 0; c < CHUNKS; c++)
#pragma unroll
		for (int i = 0; i < VEC; i++)
			sum += part.has(c) ? v[c][i] : 0;
	return sum;
}

static DEV inline float squares_of(const row_part &part, const float (&v)[CHUNKS][VEC],
				   float mean)
{
	float sum = 0;

#pragma unroll
	for (int c = 0; c < CHUNKS; c++)
#pragma unroll
		for (int i = 0; i < VEC; i++) {
			float d = part.has(c) ? v[c][i] - mean : 0;

			sum += d * d;
		}
	return sum;
}

#if !ROWS_PIECES(ROWS_SHARE)
/* gamma and beta into this multiprocessor's cache, where rows find them */
static DEV inline void prefetch_params(const struct rlx_k_norm &a, const struct rlx_g_env &env)
{
	const int step = 128 / (int)sizeof(type_p::mem);

	for (int i = (int)threadIdx.x * step; i < a.n; i += THREADS * step) {
		if (NORM_GAMMA)
			prefetch_l1(RLX_G_PTR(const type_p::mem, a.gamma) + i);
		if (NORM_BETA)
			prefetch_l1(RLX_G_PTR(const type_p::mem, a.beta) + i);
	}
}

RLX_G_KERNEL(norm, struct rlx_k_norm, THREADS)
{
	SHARED(float, smem, [2][MAX_WARPS]);
	const int64_t rows = live_rows(env, a.rows), step = (int64_t)gridDim.x * GROUPS;
	const int64_t begin = (int64_t)blockIdx.x * GROUPS + (int)threadIdx.x / LANES;
	norm_row at = { a, env, { (int)a.n, (int)threadIdx.x % LANES }, begin, 0, begin < rows };
	row_meeting<float> meet = { smem, 0 };
	raw_row raw;
	shape p;

	if (AHEAD)
		at.load(raw);
#pragma unroll
	for (int c = 0; c < CHUNKS && KEEPS; c++)
		p.load(RLX_G_PTR(const type_p::mem, a.gamma),
		       RLX_G_PTR(const type_p::mem, a.beta), at.part, c);
	if (!KEEPS)
		prefetch_params(a, env);
	/* all rows of a warp at a time, as it has to stay together */
	for (int64_t i = (int64_t)blockIdx.x * GROUPS; i < rows; i += step) {
		const norm_row next = { a, env, at.part, at.row + step, 0, at.row + step < rows };
		float v[CHUNKS][VEC];
		scale s;

		if (!AHEAD)
			at.load(raw);
		at.get(raw, v);
		if (AHEAD)
			next.load(raw);
		s.mean = NORM_RMS ? 0 : meet.of<op_sum>(sum_of(at.part, v)) / (float)a.n;
		s.inv = rsqrt_f32(meet.of<op_sum>(squares_of(at.part, v, s.mean)) / (float)a.n +
				  a.eps);
		if (at.part.lane == 0 && at.in)
			s.tell(a, env, at.row);
		at.write(s, p, v);
		at.row = next.row;
		at.in = next.in;
	}
}
#else

/* Number, mean and sum of squared distances from it, of some elements */
struct moments {
	float	n, mean, squares;

	DEV void add(float bn, float bmean, float bsquares)
	{
		float all = n + bn, d = bmean - mean, share = all > 0 ? bn / all : 0;

		mean += d * share;
		squares += bsquares + d * d * n * share;
		n = all;
	}

	/* Of all threads; each gets it */
	DEV void meet(float (*smem)[MAX_WARPS])
	{
#pragma unroll
		for (int m = WARP / 2; m; m /= 2)
			add(warp_xor(n, m), warp_xor(mean, m), warp_xor(squares, m));
		__syncthreads();
		if (lane_id() == 0) {
			smem[0][warp_id()] = n;
			smem[1][warp_id()] = mean;
			smem[2][warp_id()] = squares;
		}
		__syncthreads();
		n = mean = squares = 0;
		for (int i = 0; i < THREADS / WARP; i++)
			add(smem[0][i], smem[1][i], smem[2][i]);
	}
};

/* Elements [first, end) of a row, which is what a block has of it. */
struct share {
	int64_t	row, first, end;

	DEV norm_row at(const struct rlx_k_norm &a, const struct rlx_g_env &env, int64_t i) const
	{
		const int64_t left = end - i;

		return { a, env, { left < PIECE ? (int)left : (int)PIECE, (int)threadIdx.x },
			 row, i, true };
	}

	DEV void moments_of(const struct rlx_k_norm &a, const struct rlx_g_env &env,
			    struct moments *m) const
	{
		for (int64_t i = first; i < end; i += PIECE) {
			const norm_row p = at(a, env, i);
			float v[CHUNKS][VEC], mean = 0, n = (float)p.part.count();
			raw_row raw;

			p.load(raw);
			p.get(raw, v);
			if (!NORM_RMS && n > 0)
				mean = sum_of(p.part, v) / n;
			m->add(n, mean, squares_of(p.part, v, mean));
		}
	}

	/* From the end on: that is what caches have */
	DEV void write(const struct rlx_k_norm &a, const struct rlx_g_env &env,
		       const struct scale &s) const
	{
		const int64_t pieces = (end - first + PIECE - 1) / PIECE;

		for (int64_t i = first + (pieces - 1) * PIECE; i >= first; i -= PIECE) {
			const norm_row p = at(a, env, i);
			float v[CHUNKS][VEC];
			raw_row raw;
			shape q;

			p.load(raw);
			p.get(raw, v);
			p.write(s, q, v);
		}
	}
};

/*
 * A row of the grid more than one: each has its share of all rows. The first launch leaves
 * what each found in the scratch, the second puts it together in order.
 */
RLX_G_KERNEL(norm, struct rlx_k_norm, THREADS)
{
	SHARED(float, smem, [3][MAX_WARPS]);
	const int64_t splits = gridDim.y, rows = live_rows(env, a.rows);
	const int64_t pieces = (a.n + PIECE - 1) / PIECE, each = (pieces + splits - 1) / splits;
	const int64_t first = (int64_t)blockIdx.y * each * PIECE, end = first + each * PIECE;
	float *found = (float *)env.scratch;

	for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
		const share part = { row, first, end < a.n ? end : a.n };
		float *at = found + row * splits * 3;
		moments m = {};
		scale s;

		if (env.pass == 0)
			part.moments_of(a, env, &m);
		else
			for (int i = (int)threadIdx.x; i < splits; i += THREADS)
				m.add(at[3 * i], at[3 * i + 1], at[3 * i + 2]);
		m.meet(smem);
		if (splits > 1 && env.pass == 0) {
			at += 3 * blockIdx.y;
			if (threadIdx.x == 0) {
				at[0] = m.n;
				at[1] = m.mean;
				at[2] = m.squares;
			}
			continue;
		}
		s = { m.mean, rsqrt_f32(m.squares / (float)a.n + a.eps) };
		if (threadIdx.x == 0 && blockIdx.y == 0)
			s.tell(a, env, row);
		part.write(a, env, s);
	}
}
#endif
