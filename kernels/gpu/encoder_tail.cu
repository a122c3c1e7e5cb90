// SPDX-License-Identifier: MIT
/*
 * Rows are normalised, one query attends to them, and what comes out is normalised: the end
 * of an encoder, which is little work and would be launches after one another. A block has
 * a row of the batch, a warp some of its keys, and a lane eights of all heads.
 *
 * Algorithm: each of 16 warps (AMD: 8) takes every 16th row, normalises it in registers and goes
 * on to its scores and weighted sum with an online softmax; warps meet in shared memory, and the
 * block normalises what they have. The rows' gamma and beta are fetched before the preceding
 * launch has ended (PDL).
 * Traffic: the rows once, 2 bytes an element: neither their norm nor the scores lie in memory.
 * Limits: one query; rows of up to 768 elements, by 8, which are keys and values in one
 * (encoder_tail.h, backends/gpu/group_norm.c).
 *
 * TAIL_TYPE: f16 or bf16; TAIL_EIGHTS: eights that a lane of 32 has; TAIL_HEAD_DIM: width of a
 * head, a power of two from 8 on.
 */
#include "kernels/gpu/attention.h"
#include "kernels/gpu/encoder_tail.h"

typedef rlx_t<TAIL_TYPE> type;

enum { EIGHTS = (TAIL_EIGHTS * 32 + WARP - 1) / WARP, SHARE = TAIL_HEAD_DIM / 8,
       THREADS = RLX_G_ENCODER_TAIL_THREADS, WARPS = THREADS / WARP,
       MOST = (RLX_G_ENCODER_TAIL_WIDTH + THREADS - 1) / THREADS };

struct alignas(16) eight {
	type::mem v[8];
};

/* What a lane knows of the keys so far: of its part of each head. */
struct seen {
	float	max[EIGHTS], sum[EIGHTS], y[EIGHTS][8];
};

static DEV inline int place(int c)
{
	return (c * WARP + lane_id()) * 8;
}

static DEV inline void load(const type::mem *p, int n, float (*to)[8])
{
#pragma unroll
	for (int c = 0; c < EIGHTS; c++) {
		struct eight e;

		load_words((uint32_t *)&e, p + place(c), place(c) < n);
#pragma unroll
		for (int i = 0; i < 8; i++)
			to[c][i] = type::get(e.v[i]);
	}
}

/* Parameters of the rows' norm. */
struct shape {
	float	gamma[EIGHTS][8], beta[EIGHTS][8];

	DEV shape(const struct rlx_k_norm &n, const struct rlx_g_env &env)
	{
		const float *by = RLX_G_PTR(const float, n.gamma);
		const float *more = RLX_G_PTR(const float, n.beta);

#pragma unroll
		for (int c = 0; c < EIGHTS; c++)
#pragma unroll
			for (int i = 0; i < 8; i += 4) {
				bool in = place(c) < (int)n.n;

				load_words((uint32_t *)&gamma[c][i], by + place(c) + i, in);
				load_words((uint32_t *)&beta[c][i], more + place(c) + i, in);
			}
	}
};

/* x becomes the layer norm of it, as it would lie in memory. */
static DEV inline void normalise(const struct rlx_k_norm &n, const struct shape &s,
				 float (*x)[8])
{
	float mean = 0, far = 0, inv;

#pragma unroll
	for (int c = 0; c < EIGHTS; c++)
#pragma unroll
		for (int i = 0; i < 8; i++)
			mean += x[c][i];
	mean = warp_reduce<op_sum>(mean) / (float)n.n;
#pragma unroll
	for (int c = 0; c < EIGHTS; c++)
#pragma unroll
		for (int i = 0; i < 8; i++) {
			x[c][i] = place(c) < (int)n.n ? x[c][i] - mean : 0;
			far += x[c][i] * x[c][i];
		}
	inv = rsqrt_f32(warp_reduce<op_sum>(far) / (float)n.n + n.eps);
#pragma unroll
	for (int c = 0; c < EIGHTS; c++)
#pragma unroll
		for (int i = 0; i < 8; i++)
			x[c][i] = type::get(type::put(x[c][i] * inv * s.gamma[c][i] +
						      s.beta[c][i]));
}

/* One more key, which is its value too. */
static DEV inline void attend(const struct rlx_k_attention &a, const float (*q)[8],
			      const float (*x)[8], struct seen *s)
{
#pragma unroll
	for (int c = 0; c < EIGHTS; c++) {
		float score = 0, max, old, now;

#pragma unroll
		for (int i = 0; i < 8; i++)
			score += q[c][i] * x[c][i];
#pragma unroll
		for (int m = SHARE / 2; m; m /= 2)
			score += warp_xor(score, m);
		score *= a.scale;
		max = op_max::of(s->max[c], score);
		old = s->max[c] == -INFINITY ? 0 : fast_exp(s->max[c] - max);
		now = score == -INFINITY ? 0 : fast_exp(score - max);
		s->max[c] = max;
		s->sum[c] = s->sum[c] * old + now;
#pragma unroll
		for (int i = 0; i < 8; i++)
			s->y[c][i] = s->y[c][i] * old + now * x[c][i];
	}
}

/* Of each warp: a row of sums, then by eights the largest score and the weights' sum. */
struct smem {
	float	*y, *max, *sum;

	DEV smem(float *shared, int warp, int n)
		: y(shared + warp * n), max(shared + WARPS * n + warp * (n / 8)),
		  sum(max + WARPS * (n / 8)) {}
};

static DEV inline void leave(const struct smem &to, int n, const struct seen &s)
{
#pragma unroll
	for (int c = 0; c < EIGHTS; c++) {
		if (place(c) >= n)
			continue;
		to.max[place(c) / 8] = s.max[c];
		to.sum[place(c) / 8] = s.sum[c];
#pragma unroll
		for (int i = 0; i < 8; i++)
			to.y[place(c) + i] = s.y[c][i];
	}
}

/* Element @i of what was attended to, from all warps. */
static DEV inline float gathered(float *shared, int n, int i)
{
	float max = -INFINITY, sum = 0, y = 0;

#pragma unroll
	for (int w = 0; w < WARPS; w++)
		max = op_max::of(max, smem(shared, w, n).max[i / 8]);
	max = max == -INFINITY ? 0 : max;	/* no key: all weigh 0 */
#pragma unroll
	for (int w = 0; w < WARPS; w++) {
		struct smem r(shared, w, n);
		float by = fast_exp(r.max[i / 8] - max);

		sum += by * r.sum[i / 8];
		y += by * r.y[i];
	}
	return type::get(type::put(sum != 0 ? y / sum : 0));
}

/* Layer or RMS norm of the block's elements, MOST of each thread, and to memory. */
static DEV inline void finish(const struct rlx_k_norm &a, const struct rlx_g_env &env,
			      const float *y, int64_t row, float *part)
{
	const float *by = RLX_G_PTR(const float, a.gamma), *more = RLX_G_PTR(const float, a.beta);
	float mean = 0, far = 0, inv;

#pragma unroll
	for (int k = 0; k < MOST; k++)
		mean += y[k];
	mean = a.rms ? 0 : block_reduce<op_sum>(mean, part) / (float)a.n;
#pragma unroll
	for (int k = 0; k < MOST; k++)
		if (k * THREADS + (int)threadIdx.x < (int)a.n)
			far += (y[k] - mean) * (y[k] - mean);
	inv = rsqrt_f32(block_reduce<op_sum>(far, part) / (float)a.n + a.eps);
#pragma unroll
	for (int k = 0; k < MOST; k++) {
		int i = k * THREADS + (int)threadIdx.x;
		bool there = i < (int)a.n;
		float v = (y[k] - mean) * inv;

		if (by)
			v *= load_if(by + i, there);
		if (more)
			v += load_if(more + i, there);
		if (there)
			store_float(RLX_G_PTR(void, a.y), row * a.n + i, a.y_type, v);
	}
}

RLX_G_KERNEL_PDL(encoder_tail, struct rlx_g_encoder_tail, RLX_G_ENCODER_TAIL_THREADS)
{
	SHARED_DYNAMIC(shared);
	SHARED(float, part, [MAX_WARPS]);
	const type::mem *from = RLX_G_PTR(const type::mem, a.rows.x) +
				blockIdx.x * a.a.kv_len * a.rows.n;
	float x[EIGHTS][8], q[EIGHTS][8], y[MOST];
	int n = (int)a.rows.n, keys;
	struct shape s(a.rows, env);
	struct seen all = {};

	pdl_wait();
	if (blockIdx.x >= live_rows(env, a.a.batch))
		return;
	load(RLX_G_PTR(const type::mem, a.a.q) + blockIdx.x * a.a.q_stride[0], n, q);
	keys = (int)keys_of(a.a, RLX_G_PTR(const void, a.a.kv_lens), blockIdx.x);
#pragma unroll
	for (int c = 0; c < EIGHTS; c++)
		all.max[c] = -INFINITY;
	for (int k = warp_id(); k < a.a.kv_len; k += WARPS) {
		load(from + k * n, n, x);
		if (k >= keys)
			break;
		normalise(a.rows, s, x);
		attend(a.a, q, x, &all);
	}
	leave(smem((float *)shared, warp_id(), n), n, all);
	__syncthreads();
#pragma unroll
	for (int k = 0; k < MOST; k++) {
		int i = k * THREADS + (int)threadIdx.x;

		y[k] = i < n ? gathered((float *)shared, n, i) : 0;
	}
	finish(a.last, env, y, blockIdx.x, part);
}
