// SPDX-License-Identifier: MIT
/*
 * Recurrent cells (LSTM, GRU, plain), all steps of one or both directions; the input's part, x W^T,
 * is a GEMM beforehand.
 *
 * Algorithm: a warp sums up all gates of one hidden unit for ROWS (4) batch rows, lanes along the
 * hidden state, then one lane a row applies the cell. A GRU that resets before its product needs
 * it twice a step. Tiles: blocks of 512 threads. RNN_WHOLE 1: a block has 4 rows through all steps,
 * with a barrier between them: small weights, or many rows. RNN_WHOLE 0: a launch
 * a step, whose blocks share the hidden units, so that large weights are read by the whole chip.
 * Traffic: a step reads the recurrent weights, gates x hidden^2, once for each 4 rows, from the L2
 * where they fit: that and the latency of a step are the bound. The state is f32 in scratch.
 * Limits: weights, biases and results f32, f16 or bf16; sums f32; 4,096 launches at most, more
 * steps go by the first form. No tensor cores, so many rows read the weights many times.
 */
/* keeps what a thread holds in registers */
#define RLX_G_BLOCKS	1
#include "kernels/gpu/accumulate.h"
#include "kernels/rnn.h"

/*
 * ELEM_TYPE: of r. RNN_CELL: which. RNN_WHOLE: 1, a block goes through all
 * steps of its rows; 0, a launch does one, and blocks share the hidden units.
 */
enum { THREADS = 512, ROWS = RLX_K_RNN_ROWS };

/* State as the steps leave it: floats of [dirs, batch, hidden], at scratch. */
struct state {
	float	*h, *next, *c, *z, *rh;
};

/* What a warp works on. */
struct item {
	int64_t	dir, row, rows, unit;
	int64_t	at;		/* of the unit in the states of the first row */
};

static DEV inline struct state state_of(const struct rlx_k_rnn &a, const struct rlx_g_env &env,
					int64_t step)
{
	int64_t n = a.dirs * a.batch * a.hidden;
	float *p = (float *)env.scratch;

	return { p + step % 2 * n, p + (step + 1) % 2 * n, p + 2 * n, p + 3 * n, p + 4 * n };
}

static DEV inline float activate(const struct rlx_k_rnn_fn &f, float x, float clip)
{
	float a = (float)f.alpha, b = (float)f.beta;

	if (clip > 0)
		x = x < -clip ? -clip : x > clip ? clip : x;
	switch (f.fn) {
	case RLX_RNN_SIGMOID:
		return 1 / (1 + expf(-x));
	case RLX_RNN_TANH:
		return tanhf(x);
	case RLX_RNN_RELU:
		return x < 0 ? 0 : x;
	case RLX_RNN_AFFINE:
		return a * x + b;
	case RLX_RNN_LEAKY_RELU:
		return x < 0 ? a * x : x;
	case RLX_RNN_THRESHOLDED_RELU:
		return x < a ? 0 : x;
	case RLX_RNN_SCALED_TANH:
		return a * tanhf(b * x);
	case RLX_RNN_HARD_SIGMOID:
		x = a * x + b;
		return x < 0 ? 0 : x > 1 ? 1 : x;
	case RLX_RNN_ELU:
		return x < 0 ? a * expm1f(x) : x;
	case RLX_RNN_SOFTSIGN:
		return fabsf(x) > 1e30f ? (x < 0 ? -1 : 1) : x / (1 + fabsf(x));
	default:
		return (x < 0 ? 0 : x) + log1pf(expf(-fabsf(x)));
	}
}

/* sum[g][m]: row m of @h times what unit @t.unit has of gate @first + g; in all lanes. */
template <int GATES>
static DEV inline void product(float (*sum)[ROWS], const struct rlx_k_rnn &a,
			       const struct rlx_g_env &env, const struct item &t, int first,
			       const float *h)
{
	int64_t n = a.hidden, all = rlx_k_rnn_gates(RNN_CELL);
	const mem *r = RLX_G_PTR(const mem, a.r) +
		       ((t.dir * all + first) * n + t.unit) * n;

	h += t.at - t.unit;
	for (int g = 0; g < GATES; g++)
		for (int m = 0; m < ROWS; m++)
			sum[g][m] = 0;
	for (int64_t k = lane_id(); k < n; k += WARP) {
		float x[ROWS];

#pragma unroll
		for (int m = 0; m < ROWS; m++)
			x[m] = m < t.rows ? h[m * n + k] : 0;
#pragma unroll
		for (int g = 0; g < GATES; g++) {
			float w = elem::get(r[g * n * n + k]);

#pragma unroll
			for (int m = 0; m < ROWS; m++)
				sum[g][m] += w * x[m];
		}
	}
#pragma unroll
	for (int g = 0; g < GATES; g++)
#pragma unroll
		for (int m = 0; m < ROWS; m++)
			sum[g][m] = warp_reduce<op_sum>(sum[g][m]);
}

/* Of row @m, which has no index where registers hold the rows. */
static DEV inline float pick(const float *sum, int m)
{
	float x = 0;

#pragma unroll
	for (int i = 0; i < ROWS; i++)
		x = i == m ? sum[i] : x;
	return x;
}

static DEV inline int64_t length(const struct rlx_k_rnn &a, const struct rlx_g_env &env,
				 int64_t row)
{
	int64_t len = a.steps;

	if (a.lens)
		len = load_index(RLX_G_PTR(const void, a.lens), row, a.lens_type);
	if ((len < 0 || len > a.steps) && a.bad && row < live_checked(env, a.live))
		*RLX_G_PTR(int32_t, a.bad) = 1;
	return len < 0 ? 0 : len < a.steps ? len : a.steps;
}

/* One row of a warp's unit, in the lane that works on it. */
struct row {
	const struct rlx_k_rnn	&a;
	const struct rlx_g_env	&env;
	int64_t			dir, unit, at;
	const float		*x;	/* projected input of gate 0 */

	/* what gate @g is given but for the recurrence */
	DEV float input(int g) const
	{
		const void *b = RLX_G_PTR(const void, a.b);
		int64_t gates = rlx_k_rnn_gates(RNN_CELL), i = g * a.hidden + unit;
		float v = x[g * a.hidden];

		if (!b)
			return v;
		i += dir * 2 * gates * a.hidden;
		v += load_float(b, i, a.type.b);
		if (RNN_CELL != RLX_K_RNN_GRU || g < 2 || !a.linear_before_reset)
			v += load_float(b, gates * a.hidden + i, a.type.b);
		return v;
	}
	/* of the last gate of a GRU that resets late: what the reset gate takes as well */
	DEV float late(void) const
	{
		const void *b = RLX_G_PTR(const void, a.b), *rb = RLX_G_PTR(const void, a.rb);

		return b ? load_float(b, (dir * 6 + 5) * a.hidden + unit, a.type.b) :
		       rb ? load_float(rb, dir * a.hidden + unit, a.type.rb) : 0;
	}
	DEV float peephole(int which, float c) const
	{
		const void *p = RLX_G_PTR(const void, a.peep);
		int64_t i = (dir * 3 + which) * a.hidden + unit;

		return p ? c * load_float(p, i, a.type.peep) : 0;
	}
	DEV float gate(int f, float v) const
	{
		return activate(a.act[dir][f], v, a.clip);
	}
};

static DEV inline float lstm(const struct row &r, const float (*sum)[ROWS], int m,
			     const struct state &s)
{
	float c = s.c[r.at], i, f, g, o;

	i = r.gate(0, pick(sum[0], m) + r.input(0) + r.peephole(0, c));
	f = r.a.input_forget ? 1 - i :
	    r.gate(0, pick(sum[2], m) + r.input(2) + r.peephole(2, c));
	g = r.gate(1, pick(sum[3], m) + r.input(3));
	c = f * c + i * g;
	o = r.gate(0, pick(sum[1], m) + r.input(1) + r.peephole(1, c));
	s.c[r.at] = c;
	return o * activate(r.a.act[r.dir][2], c, 0);
}

/* A row's lane: the unit's new state, and the result of this step. */
static DEV inline void advance(const struct rlx_k_rnn &a, const struct rlx_g_env &env,
			       const struct item &t, int64_t step, const float (*sum)[ROWS],
			       bool last)
{
	int m = lane_id();
	int64_t len = length(a, env, t.row + m);
	int64_t time = step < len && a.reverse[t.dir] ? len - 1 - step : step;
	int64_t at = t.at + m * a.hidden;
	struct state s = state_of(a, env, step);
	struct row r = { a, env, t.dir, t.unit, at, RLX_G_PTR(const float, a.x) +
			 time * a.x_stride[0] + (t.row + m) * a.x_stride[1] +
			 t.dir * a.x_stride[2] + t.unit };
	void *y = RLX_G_PTR(void, a.y);
	float h = s.h[at], v;

	if (step < len && RNN_CELL == RLX_K_RNN_LSTM) {
		h = lstm(r, sum, m, s);
	} else if (step < len && RNN_CELL == RLX_K_RNN_PLAIN) {
		h = r.gate(0, pick(sum[0], m) + r.input(0));
	} else if (step < len) {
		if (!last || a.linear_before_reset) {
			v = r.gate(0, pick(sum[1], m) + r.input(1));
			s.z[at] = r.gate(0, pick(sum[0], m) + r.input(0));
			s.rh[at] = a.linear_before_reset ? v : v * h;
		}
		v = a.linear_before_reset ? s.rh[at] * (pick(sum[2], m) + r.late()) :
					    pick(sum[0], m);
		if (last) {
			v = r.gate(1, v + r.input(2));
			/* not v + z (h - v): states without bounds may be infinite both */
			h = (1 - s.z[at]) * v + s.z[at] * h;
		}
	}
	if (!last)
		return;
	s.next[at] = h;
	if (y)
		store_float(y, time * a.y_stride[0] + (t.row + m) * a.y_stride[1] +
			    t.dir * a.y_stride[2] + t.unit, a.y_type, step < len ? h : 0);
}

/* How often the recurrent product is taken for a step. */
static DEV inline int stages(const struct rlx_k_rnn &a)
{
	return RNN_CELL == RLX_K_RNN_GRU && !a.linear_before_reset ? 2 : 1;
}

static DEV inline void one_step(const struct rlx_k_rnn &a, const struct rlx_g_env &env,
				const struct item &t, int64_t step, int stage)
{
	struct state s = state_of(a, env, step);
	float sum[4][ROWS];

	if (RNN_CELL == RLX_K_RNN_LSTM)
		product<4>(sum, a, env, t, 0, s.h);
	else if (RNN_CELL == RLX_K_RNN_PLAIN)
		product<1>(sum, a, env, t, 0, s.h);
	else if (a.linear_before_reset)
		product<3>(sum, a, env, t, 0, s.h);
	else if (stage == 0)
		product<2>(sum, a, env, t, 0, s.h);
	else
		product<1>(sum, a, env, t, 2, s.rh);
	if (lane_id() < t.rows)
		advance(a, env, t, step, sum, stage == stages(a) - 1);
}

/* State from where it is given, or to where it is asked for. */
static DEV inline void carry(const struct rlx_k_rnn &a, const struct rlx_g_env &env,
			     const struct item &t, bool begin)
{
	struct state s = state_of(a, env, begin ? 0 : a.steps);
	const void *h0 = RLX_G_PTR(const void, a.h0), *c0 = RLX_G_PTR(const void, a.c0);
	void *yh = RLX_G_PTR(void, a.yh), *yc = RLX_G_PTR(void, a.yc);
	int64_t at = t.at + lane_id() * a.hidden;
	int64_t given = (t.row + lane_id()) * a.h_stride[0] + t.dir * a.h_stride[1] + t.unit;

	if (lane_id() >= t.rows)
		return;
	if (begin) {
		s.h[at] = h0 ? load_float(h0, given, a.type.h0) : 0;
		s.c[at] = c0 ? load_float(c0, given, a.type.c0) : 0;
		s.rh[at] = 0;
		return;
	}
	if (yh)
		store_float(yh, given, a.y_type, s.h[at]);
	if (yc)
		store_float(yc, given, a.y_type, s.c[at]);
}

static DEV inline void phase(const struct rlx_k_rnn &a, const struct rlx_g_env &env,
			     const struct item &t, int64_t p)
{
	int64_t last = a.steps * stages(a) + 1;

	if (p == 0 || p == last)
		carry(a, env, t, p == 0);
	else
		one_step(a, env, t, (p - 1) / stages(a), (int)((p - 1) % stages(a)));
}

RLX_G_KERNEL(rnn, struct rlx_k_rnn, THREADS)
{
	int64_t blocks = (a.batch + ROWS - 1) / ROWS, all = a.dirs * blocks;
	int64_t block = (int64_t)blockIdx.x % all, part = (int64_t)blockIdx.x / all;
	int64_t step = (int64_t)gridDim.x / all * (THREADS / WARP);
	int64_t first = RNN_WHOLE ? 0 : env.pass;
	int64_t end = RNN_WHOLE ? a.steps * stages(a) + 2 : first + 1;
	struct item t;

	t.dir = block / blocks;
	t.row = block % blocks * ROWS;
	t.rows = a.batch - t.row < ROWS ? a.batch - t.row : ROWS;
	for (int64_t p = first; p < end; p++) {
		for (t.unit = part * (THREADS / WARP) + warp_id(); t.unit < a.hidden;
		     t.unit += step) {
			t.at = (t.dir * a.batch + t.row) * a.hidden + t.unit;
			phase(a, env, t, p);
		}
		__syncthreads();
	}
}
