// SPDX-License-Identifier: MIT
/*
 * Attention of f32 by tiles, exactly: ROWS queries of a head in a block, KEYS keys after
 * the other, whose products 8 x 16 threads share out. What is multiplied lies with the head
 * (or the keys) down the rows; copies bring the next keys while scores become weights, the
 * values while they are made. Scores stay in registers with an online softmax; weights go by
 * shared memory, where they are multiplied by the values.
 *
 * Tiles: 64 or 16 queries (ROWS) by 64 keys (KEYS), 128 threads.
 * Traffic: q and out once; k and v once for every ROWS queries of a head, by copies of 4 bytes,
 * mostly from the L2. Source: as attention_mma.cu ("FlashAttention"), without tensor cores.
 * Limits: f32; 4 queries or more; heads up to 128 wide, filled up with zeros by 32. No alignment
 * is asked for.
 */
#include "kernels/gpu/attention.h"
#include "kernels/gpu/attention_plan.h"

/* ATTENTION_ROWS: queries of a block; ATTENTION_WIDTH: of a head, filled up with zeros. */
enum {
	ROWS = ATTENTION_ROWS, HD = ATTENTION_WIDTH,
	KEYS = ATT_EXACT_KEYS, THREADS = ATT_EXACT_THREADS,
	PER = ROWS / 8,				/* queries of a thread, which has 4 keys */
	COLS = HD / 16, SIDE = COLS % 4 ? 2 : 4,	/* of the values; side by side */
	LDQ = ROWS + 4, LDK = KEYS + 4, LDV = HD + 4,
};

template <int N> struct alignas(4 * N) floats {
	float	v[N];
};

/* N numbers from shared memory, by 16 bytes if so many are at a time. */
template <int N> static DEV inline void take(float *to, const float *from)
{
	enum { AT_ONCE = N % 4 ? 2 : 4 };

#pragma unroll
	for (int i = 0; i < N; i += AT_ONCE)
		*(floats<AT_ONCE> *)(to + i) = *(const floats<AT_ONCE> *)(from + i);
}

struct tiles {
	float	q[HD * LDQ], k[HD * LDK], v[KEYS * LDV], p[KEYS * LDQ];
};

/*
 * LINES positions of a head from @first on, those from @end on as zeros, with the head down
 * the rows; a warp takes 8 numbers of 4 of them, no two of which want one bank.
 */
template <int LINES>
static DEV inline void load_turned(float *to, const float *from, int64_t step, int64_t first,
				   int64_t end, int64_t dim)
{
	enum { LD = LINES + 4 };
	int d = (int)threadIdx.x % 8, line = (int)threadIdx.x / 8;

#pragma unroll
	for (int i = 0; i < LINES; i += THREADS / 8)
#pragma unroll
		for (int e = 0; e < HD; e += 8) {
			bool in = first + line + i < end && d + e < dim;

			copy_async(to + (d + e) * LD + line + i,
				   in ? from + (first + line + i) * step + d + e : from, 4,
				   in ? 4 : 0);
		}
}

static DEV inline void load_values(float *to, const float *from, int64_t step, int64_t first,
				   int64_t end, int64_t dim)
{
#pragma unroll 4
	for (int i = (int)threadIdx.x; i < KEYS * HD; i += THREADS) {
		int line = i / HD, d = i % HD;
		bool in = first + line < end && d < dim;

		copy_async(to + line * LDV + d, in ? from + (first + line) * step + d : from, 4,
			   in ? 4 : 0);
	}
}

/*
 * Where the weight of a key and a query stands: of 64 queries fours have changed places
 * from one four of keys to the next, lest threads of eight of them want one bank.
 */
static DEV inline int weight_at(int key, int query)
{
	if (ROWS == 64)
		return key * ROWS + ((query / 4 ^ key / 4 % 8) * 4 + query % 4);
	return key * LDQ + query;
}

/* One block's queries of one head. */
struct job {
	const struct rlx_k_attention	&a;
	const void	*bias;
	int64_t		b, h, first, keys;	/* its first query; keys of the row */
	int		x, y;			/* of the thread: keys and columns; queries */
	float		acc[PER][COLS], max[PER], sum[PER];

	DEV job(const struct rlx_k_attention &all, const struct rlx_g_env &env, int64_t n)
		: a(all), bias(RLX_G_PTR(const void, a.bias)), x((int)threadIdx.x % 16),
		  y((int)threadIdx.x / 16), acc{}
	{
		int64_t blocks = (a.q_len + ROWS - 1) / ROWS;

		first = n % blocks * ROWS;
		h = n / blocks % a.heads;
		b = n / blocks / a.heads;
		keys = keys_of(a, RLX_G_PTR(const void, a.kv_lens), b);
#pragma unroll
		for (int i = 0; i < PER; i++) {
			max[i] = -INFINITY;
			sum[i] = 0;
		}
	}

	/* Query @i's keys [lo, hi), of those that the row has. */
	DEV void seen(int64_t i, int64_t *lo, int64_t *hi) const
	{
		int64_t at = i + a.q_offset;

		*lo = a.window > 0 && at - a.window + 1 > 0 ? at - a.window + 1 : 0;
		*hi = a.causal && at + 1 < keys ? at + 1 : keys;
	}

	DEV void multiply(float (*s)[4], const struct tiles &t) const
	{
#pragma unroll 8
		for (int d = 0; d < HD; d++) {
			alignas(16) float q[PER], k[4];

			take<PER>(q, t.q + d * LDQ + y * PER);
			take<4>(k, t.k + d * LDK + x * 4);
#pragma unroll
			for (int i = 0; i < PER; i++)
#pragma unroll
				for (int j = 0; j < 4; j++)
					s[i][j] += q[i] * k[j];
		}
	}

	/* Scores of products with keys from @j0 on. */
	DEV void score(float (*s)[4], int64_t j0) const
	{
#pragma unroll
		for (int i = 0; i < PER; i++) {
			int64_t q = first + y * PER + i, lo, hi;

			seen(q, &lo, &hi);
#pragma unroll
			for (int j = 0; j < 4; j++) {
				int64_t k = j0 + x * 4 + j;

				s[i][j] = capped(a, s[i][j] * a.scale);
				if (q >= a.q_len || k < lo || k >= hi)
					s[i][j] = -INFINITY;
				else if (bias)
					s[i][j] = biased(a, bias, b * a.bias_stride[0] +
							 h * a.bias_stride[1] +
							 q * a.bias_stride[2] +
							 k * a.bias_stride[3], s[i][j]);
			}
		}
	}

	/* Scores to weights, which go to shared memory; what was summed up shrinks with them. */
	DEV void weigh(float (*s)[4], float *p)
	{
#pragma unroll
		for (int i = 0; i < PER; i++) {
			float most = max[i], by;

#pragma unroll
			for (int j = 0; j < 4; j++)
				most = op_max::of(most, s[i][j]);
#pragma unroll
			for (int m = 1; m < 16; m *= 2)
				most = op_max::of(most, warp_xor(most, m));
			by = max[i] == -INFINITY ? 0 : fast_exp(max[i] - most);
			max[i] = most;
			sum[i] *= by;
#pragma unroll
			for (int j = 0; j < 4; j++) {
				s[i][j] = s[i][j] == -INFINITY ? 0 : fast_exp(s[i][j] - most);
				sum[i] += s[i][j];
			}
#pragma unroll
			for (int c = 0; c < COLS; c++)
				acc[i][c] *= by;
		}
#pragma unroll
		for (int j = 0; j < 4; j++)
#pragma unroll
			for (int i = 0; i < PER; i += PER < 4 ? PER : 4) {
				floats<PER < 4 ? PER : 4> v;

#pragma unroll
				for (int e = 0; e < (PER < 4 ? PER : 4); e++)
					v.v[e] = s[i + e][j];
				*(floats<PER < 4 ? PER : 4> *)(p + weight_at(x * 4 + j,
									     y * PER + i)) = v;
			}
	}

	DEV void sum_up(const struct tiles &t)
	{
#pragma unroll 8
		for (int key = 0; key < KEYS; key++) {
			alignas(16) float p[PER], v[COLS];

#pragma unroll
			for (int i = 0; i < PER; i += PER < 4 ? PER : 4)
				take<PER < 4 ? PER : 4>(p + i, t.p + weight_at(key, y * PER + i));
#pragma unroll
			for (int c = 0; c < COLS; c += SIDE)
				take<SIDE>(v + c, t.v + key * LDV + c * 16 + x * SIDE);
#pragma unroll
			for (int i = 0; i < PER; i++)
#pragma unroll
				for (int c = 0; c < COLS; c++)
					acc[i][c] += p[i] * v[c];
		}
	}

	DEV void store(const struct rlx_g_env &env)
	{
		void *out = RLX_G_PTR(void, a.out);
		float *lse = RLX_G_PTR(float, a.lse);

#pragma unroll
		for (int i = 0; i < PER; i++) {
			int64_t q = first + y * PER + i;
			int64_t at = b * a.out_stride[0] + h * a.out_stride[1] +
				     q * a.out_stride[2];
			float by;

#pragma unroll
			for (int m = 1; m < 16; m *= 2)
				sum[i] += warp_xor(sum[i], m);
			by = sum[i] != 0 ? 1 / sum[i] : 0;
			if (q >= a.q_len)
				continue;
#pragma unroll
			for (int c = 0; c < COLS; c++) {
				int d = c / SIDE * SIDE * 16 + x * SIDE + c % SIDE;

				if (d < a.v_dim)
					store_float(out, at + d, ATTENTION_OUT_TYPE, acc[i][c] * by);
			}
			if (lse && x == 0)
				lse[(b * a.heads + h) * a.q_len + q] =
					sum[i] != 0 ? max[i] + logf(sum[i]) : -INFINITY;
		}
	}
};

static DEV inline void attend(job &w, const struct rlx_g_env &env, struct tiles &t)
{
	const struct rlx_k_attention &a = w.a;
	int64_t head = w.h / (a.heads / a.kv_heads), lo, hi, none;
	int64_t last = w.first + ROWS < a.q_len ? w.first + ROWS : a.q_len;
	const float *k = RLX_G_PTR(const float, a.k) + w.b * a.k_stride[0] + head * a.k_stride[1];
	const float *v = RLX_G_PTR(const float, a.v) + w.b * a.v_stride[0] + head * a.v_stride[1];

	w.seen(w.first, &lo, &none);
	w.seen(last - 1, &none, &hi);
	load_turned<ROWS>(t.q, RLX_G_PTR(const float, a.q) + w.b * a.q_stride[0] +
			  w.h * a.q_stride[1], a.q_stride[2], w.first, a.q_len, a.head_dim);
	load_turned<KEYS>(t.k, k, a.k_stride[2], lo, hi, a.head_dim);
	copy_commit();
	load_values(t.v, v, a.v_stride[2], lo, hi, a.v_dim);
	copy_commit();
	for (int64_t j = lo; j < hi; j += KEYS) {
		float s[PER][4] = {};

		copy_wait<1>();
		__syncthreads();
		w.multiply(s, t);
		__syncthreads();
		if (j + KEYS < hi)
			load_turned<KEYS>(t.k, k, a.k_stride[2], j + KEYS, hi, a.head_dim);
		copy_commit();
		w.score(s, j);
		w.weigh(s, t.p);
		copy_wait<1>();
		__syncthreads();
		w.sum_up(t);
		__syncthreads();
		if (j + KEYS < hi)
			load_values(t.v, v, a.v_stride[2], j + KEYS, hi, a.v_dim);
		copy_commit();
	}
	copy_wait<0>();
	__syncthreads();
	w.store(env);
}

RLX_G_KERNEL(attention_f32, struct rlx_k_attention, ATT_EXACT_THREADS)
{
	SHARED_DYNAMIC(shared);
	int64_t each = a.heads * ((a.q_len + ROWS - 1) / ROWS);
	int64_t jobs = live_rows(env, a.batch) * each;

	for (int64_t n = blockIdx.x; n < jobs; n += gridDim.x) {
		job w(a, env, n);

		attend(w, env, *(struct tiles *)shared);
	}
}
