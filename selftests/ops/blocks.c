// SPDX-License-Identifier: MIT
/* Blocks of models against their parts in double, from call to call, and with bad arguments. */
#include <math.h>

#include "ir/graph.h"
#include "rlx/blocks.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { MOST = 4096 };

/* An input of the rig: where it is, and in the graph. */
struct leaf {
	unsigned int	k;
	rlx_value	v;
};

static struct leaf draw(struct rig *r, struct rlx_type t)
{
	return (struct leaf){ r->n_in, rig_random(r, t, -1, 1) };
}

#define DRAW(...)	draw(r, rlx_type(RLX_F32, __VA_ARGS__))

static int64_t from(struct rig *r, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(&r->seed) >> 33) % (hi - lo + 1);
}

static void load(const struct rig *r, struct leaf x, int64_t n, double *y)
{
	CHECK(n <= MOST);
	for (int64_t i = 0; i < n; i++)
		y[i] = rig_in(r, x.k, i);
}

/* ---- the parts ---- */

struct dense {
	struct leaf	w, bias;
	int64_t		n, k;
	bool		in_out, biased;
};

static struct dense dense(struct rig *r, int64_t n, int64_t k, bool in_out, bool biased)
{
	struct dense d = { .n = n, .k = k, .in_out = in_out, .biased = biased };

	d.w = in_out ? DRAW(k, n) : DRAW(n, k);
	if (biased)
		d.bias = DRAW(n);
	return d;
}

static struct rlx_linear weights(const struct dense *d)
{
	return (struct rlx_linear){ .w = d->w.v, .bias = d->bias.v, .in_out = d->in_out };
}

/* y = x W' + bias, of matrix @e of a stack. */
static void multiply(const struct rig *r, const struct dense *d, int64_t e, const double *x,
		     int64_t rows, double *y)
{
	int64_t i, j, l;

	for (i = 0; i < rows; i++)
		for (j = 0; j < d->n; j++) {
			double *sum = &y[i * d->n + j];

			*sum = d->biased ? rig_in(r, d->bias.k, e * d->n + j) : 0;
			for (l = 0; l < d->k; l++)
				*sum += x[i * d->k + l] *
					rig_in(r, d->w.k, e * d->n * d->k +
					       (d->in_out ? l * d->n + j : j * d->k + l));
		}
}

static double silu(double x)
{
	return x / (1 + exp(-x));
}

/* Of @n elements each; RMS without @beta. */
static void norm_rows(const struct rig *r, double *x, int64_t rows, int64_t n,
		      const struct leaf *gamma, const struct leaf *beta)
{
	bool rms = !beta;
	int64_t i, j;

	for (i = 0; i < rows; i++, x += n) {
		double mean = 0, var = 0;

		for (j = 0; j < n; j++)
			mean += rms ? 0 : x[j] / (double)n;
		for (j = 0; j < n; j++)
			var += (x[j] - mean) * (x[j] - mean) / (double)n;
		for (j = 0; j < n; j++)
			x[j] = (x[j] - mean) / sqrt(var + 1e-5) * rig_in(r, gamma->k, j) +
			       (beta ? rig_in(r, beta->k, j) : 0);
	}
}

/* Heads of d at positions 0 on; the first @n_rot elements turn. */
static void rotate(double *x, int64_t seq, int64_t heads, int64_t d, int64_t n_rot, int style)
{
	int64_t s, h, i, half = n_rot / 2;

	for (s = 0; s < seq; s++)
		for (h = 0; h < heads; h++, x += d)
			for (i = 0; i < half; i++) {
				double a = (double)s * pow(100, -2.0 * (double)i / (double)n_rot);
				double *u = &x[style ? 2 * i : i];
				double *v = &x[style ? 2 * i + 1 : i + half], t = *u;

				*u = t * cos(a) - *v * sin(a);
				*v = *v * cos(a) + t * sin(a);
			}
}

struct heads {
	int64_t	batch, seq, width, h, kv, d, n_rot;
	int	style;
	bool	packed, normed;
};

/* Causal attention of one sequence. */
static void attend(const struct heads *z, const double *q, const double *k, const double *v,
		   double *y)
{
	int64_t h = z->h, kv = z->kv, d = z->d, s, t, i, j;

	for (s = 0; s < z->seq; s++)
		for (i = 0; i < h; i++) {
			const double *a = &q[(s * h + i) * d];
			double p[16], sum = 0, *o = &y[(s * h + i) * d];

			for (t = 0; t <= s; t++) {
				const double *b = &k[(t * kv + i / (h / kv)) * d];

				for (p[t] = 0, j = 0; j < d; j++)
					p[t] += a[j] * b[j] / sqrt((double)d);
				p[t] = exp(p[t]);
				sum += p[t];
			}
			for (j = 0; j < d; j++)
				for (o[j] = 0, t = 0; t <= s; t++)
					o[j] += p[t] / sum *
						v[(t * kv + i / (h / kv)) * d + j];
		}
}

static void want_all(const struct rig *r, const double *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		rig_want(r, 0, i, y[i], 1e-5);
}

/* ---- linear, norm ---- */

EVERYWHERE(r030_linear)
{
	const float x[8] = { 1, 0, 0, 0, 0, 1, 0, 0 };
	const float w[12] = { 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0 }, bias[3] = { 0.5f, -0.5f, 0 };
	static const double want[6] = { 1.399789, -0.154269, 0, 0.345731, 0.345731, 0 };
	struct rlx_linear l = { .in_out = true, .act = RLX_ACT_GELU };

	l.w = rig_input(r, rlx_type(RLX_F32, 4, 3), w);
	l.bias = rig_input(r, rlx_type(RLX_F32, 3), bias);
	rig_output(r, rlx_block_linear(r->g, rig_input(r, rlx_type(RLX_F32, 2, 4), x), &l,
				       RLX_NONE));
	rig_run(r);
	for (int i = 0; i < 6; i++)
		CHECK(fabs(rig_get(r, 0, i) - want[i]) < 2e-6);
}

EVERYWHERE(r030_linear_drawn)
{
	static double in[MOST], y[MOST];
	int64_t rows = from(r, 1, 9), k = from(r, 1, 40), n = from(r, 1, 40), i;
	struct dense d = dense(r, n, k, from(r, 0, 1), from(r, 0, 1));
	struct leaf x = DRAW(rows, k), more = DRAW(rows, n);
	struct rlx_linear l = weights(&d);

	l.act = RLX_ACT_SILU;
	rig_output(r, rlx_block_linear(r->g, x.v, &l, more.v));
	rig_run(r);
	load(r, x, rows * k, in);
	multiply(r, &d, 0, in, rows, y);
	for (i = 0; i < rows * n; i++)
		y[i] = silu(y[i] + rig_in(r, more.k, i));
	want_all(r, y, rows * n);
}

EVERYWHERE(r030_norm)
{
	static double y[MOST];
	int64_t rows = from(r, 1, 9), n = from(r, 1, 40), i;
	int kind;

	for (kind = RLX_NORM_LAYER; kind <= RLX_NORM_RMS; kind++) {
		struct leaf x, more, gamma, beta;
		struct rlx_norm how = { .eps = 1e-5f, .kind = kind };
		rig_reset(r);
		x = DRAW(rows, n);
		more = DRAW(rows, n);
		gamma = DRAW(n);
		beta = DRAW(n);
		how.gamma = gamma.v;
		how.beta = kind ? RLX_NONE : beta.v;
		rig_output(r, rlx_block_norm(r->g, x.v, &how, more.v));
		rig_run(r);
		for (i = 0; i < rows * n; i++)
			y[i] = rig_in(r, x.k, i) + rig_in(r, more.k, i);
		norm_rows(r, y, rows, n, &gamma, kind ? NULL : &beta);
		for (i = 0; i < rows * n; i++)
			rig_want(r, 0, i, y[i], 1e-4);	/* few elements of about one value */
	}
}

/* ---- networks ---- */

EVERYWHERE(r030_swiglu)
{
	const float one[2] = { 1, 1 }, eye[4] = { 1, 0, 0, 1 };
	rlx_value w = rig_input(r, rlx_type(RLX_F32, 2, 2), eye);
	struct rlx_ffn_block f = { .size = sizeof(f), .gate = { w, .act = RLX_ACT_SILU },
				   .up = { .w = w }, .down = { .w = w } };

	rig_output(r, rlx_block_ffn(r->g, rig_input(r, rlx_type(RLX_F32, 1, 2), one), &f,
				    RLX_NONE));
	rig_run(r);
	rig_want(r, 0, 0, 0.731059, 1e-6);
	rig_want(r, 0, 1, 0.731059, 1e-6);
}

static void network(const struct rig *r, const struct dense *d, int64_t e, const double *x,
		    int64_t rows, double *y)
{
	bool gated = d[0].n;
	static double gate[MOST], up[MOST];
	int64_t i;

	multiply(r, &d[1], e, x, rows, up);
	if (gated)
		multiply(r, &d[0], e, x, rows, gate);
	for (i = 0; i < rows * d[1].n; i++)
		up[i] = gated ? silu(gate[i]) * up[i] : silu(up[i]);
	multiply(r, &d[2], e, up, rows, y);
}

EVERYWHERE(r030_networks_drawn)
{
	static double in[MOST], y[MOST];
	int64_t rows = from(r, 1, 7), width = from(r, 1, 24), inner = from(r, 1, 33), i;
	int gated;

	for (gated = 0; gated < 2; gated++) {
		struct rlx_ffn_block f = { .size = sizeof(f) };
		struct dense d[3] = { 0 };
		struct leaf x;

		rig_reset(r);
		x = DRAW(rows, width);
		d[1] = dense(r, inner, width, gated, true);
		d[2] = dense(r, width, inner, false, gated);
		f.up = weights(&d[1]);
		f.down = weights(&d[2]);
		if (gated) {
			d[0] = dense(r, inner, width, false, true);
			f.gate = weights(&d[0]);
		}
		*(gated ? &f.gate.act : &f.up.act) = RLX_ACT_SILU;
		rig_output(r, rlx_block_ffn(r->g, x.v, &f, x.v));
		rig_run(r);
		load(r, x, rows * width, in);
		network(r, d, 0, in, rows, y);
		for (i = 0; i < rows * width; i++)
			y[i] += in[i];
		want_all(r, y, rows * width);
	}
}

static struct dense stack(struct rig *r, int64_t e, int64_t n, int64_t k, bool in_out)
{
	struct dense d = { .n = n, .k = k, .in_out = in_out, .biased = true };

	d.w = in_out ? DRAW(e, k, n) : DRAW(e, n, k);
	d.bias = DRAW(e, n);
	return d;
}

EVERYWHERE(r030_moe)
{
	static double in[MOST], y[MOST], one[MOST], score[MOST];
	int64_t rows = from(r, 1, 7), width = from(r, 1, 20), inner = from(r, 1, 24), i, j, c;
	int64_t e = from(r, 2, 6), k = from(r, 1, e), most;
	struct dense d[3] = { stack(r, e, inner, width, false), stack(r, e, inner, width, true),
			      stack(r, e, width, inner, false) };
	struct dense router = dense(r, e, width, false, false);
	struct leaf x = DRAW(1, rows, width);
	rlx_value choice;
	struct rlx_moe_block m = {
		.size = sizeof(m), .router = weights(&router), .chosen = k, .choice = &choice,
		.experts = { .size = sizeof(m.experts), .gate = weights(&d[0]),
			     .up = weights(&d[1]), .down = weights(&d[2]) },
	};

	m.experts.gate.act = RLX_ACT_SILU;
	rig_output(r, rlx_block_moe(r->g, x.v, &m, x.v));
	rig_output(r, choice);
	rig_run(r);
	load(r, x, rows * width, in);
	multiply(r, &router, 0, in, rows, score);
	for (i = 0; i < rows; i++) {
		double share = 0, *s = &score[i * e];
		double *to = &y[i * width];

		for (j = 0; j < width; j++)
			to[j] = 0;
		for (c = 0; c < k; c++) {
			for (most = -1, j = 0; j < e; j++)
				if (!isnan(s[j]) && (most < 0 || s[j] > s[most]))
					most = j;
			CHECK_EQ((int64_t)rig_get(r, 1, i * k + c), most);
			network(r, d, most, &in[i * width], 1, one);
			for (j = 0; j < width; j++)
				to[j] += exp(s[most]) * one[j];
			share += exp(s[most]);
			s[most] = NAN;
		}
		for (j = 0; j < width; j++)
			to[j] = to[j] / share + in[i * width + j];
	}
	want_all(r, y, rows * width);
}

/* Scores whose softmax is 0 in f32 still tell which experts are next. */
EVERYWHERE(r030_moe_of_scores_far_apart)
{
	static const float x[4] = { 0, -200, -150, -300 };
	static const float eye[16] = { 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1 };
	static const double want[3] = { 0, 2, 1 };
	rlx_value choice, w = rig_random(r, rlx_type(RLX_F32, 4, 4, 4), -1, 1);
	struct rlx_moe_block m = {
		.size = sizeof(m), .chosen = 3, .choice = &choice,
		.router = { .w = rig_input(r, rlx_type(RLX_F32, 4, 4), eye) },
		.experts = { .size = sizeof(m.experts), .up = { .w = w }, .down = { .w = w } },
	};
	int i;

	rig_output(r, rlx_block_moe(r->g, rig_input(r, rlx_type(RLX_F32, 1, 4), x), &m, RLX_NONE));
	rig_output(r, choice);
	rig_run(r);
	for (i = 0; i < 3; i++)
		rig_want(r, 1, i, want[i], 0);
}

/* ---- attention ---- */

static struct heads draw_heads(struct rig *r)
{
	struct heads z = { .batch = from(r, 1, 2), .seq = from(r, 1, 7), .width = from(r, 1, 20),
			   .kv = from(r, 1, 3), .d = 2 * from(r, 1, 5), .style = (int)from(r, 0, 1),
			   .packed = from(r, 0, 1), .normed = from(r, 0, 1) };

	z.h = z.kv * from(r, 1, 3);
	z.n_rot = z.d > 2 && from(r, 0, 1) ? z.d - 2 : z.d;
	return z;
}

/* Weights of an attention block: q, k, v, out, or all of the first three as the first. */
struct attention {
	struct dense	p[4];
	struct leaf	gamma[2];
};

static void draw_attention(struct rig *r, const struct heads *z, struct attention *w,
			   struct rlx_attention_block *a)
{
	struct rlx_rope_tables t = { .size = sizeof(t), .positions = 16, .n_rot = z->n_rot,
				     .base = 100 };

	*a = (struct rlx_attention_block){ .size = sizeof(*a), .heads = (int32_t)z->h,
		.kv_heads = (int32_t)z->kv, .n_rot = (int32_t)z->n_rot, .style = z->style };
	w->p[0] = dense(r, z->packed ? (z->h + 2 * z->kv) * z->d : z->h * z->d, z->width, false,
			true);
	a->q = weights(&w->p[0]);
	if (!z->packed) {
		w->p[1] = dense(r, z->kv * z->d, z->width, true, false);
		w->p[2] = dense(r, z->kv * z->d, z->width, false, true);
		a->k = weights(&w->p[1]);
		a->v = weights(&w->p[2]);
	}
	w->p[3] = dense(r, z->width, z->h * z->d, false, true);
	a->out = weights(&w->p[3]);
	if (z->normed) {
		w->gamma[0] = DRAW(z->d);
		w->gamma[1] = DRAW(z->d);
		a->q_norm = (struct rlx_norm){ w->gamma[0].v, RLX_NONE, 1e-5f, RLX_NORM_RMS };
		a->k_norm = (struct rlx_norm){ w->gamma[1].v, RLX_NONE, 1e-5f, RLX_NORM_RMS };
	}
	rlx_block_rope_tables(r->g, &t, &a->cos, &a->sin);
}

/* What the block gives of sequence @x. */
static void attention(const struct rig *r, const struct heads *z, const struct attention *w,
		      const double *x, double *y)
{
	static double all[MOST], q[MOST], k[MOST], v[MOST], o[MOST];
	int64_t cols = (z->h + 2 * z->kv) * z->d, s, j;

	if (z->packed) {
		multiply(r, &w->p[0], 0, x, z->seq, all);
		for (s = 0; s < z->seq; s++)
			for (j = 0; j < cols; j++) {
				int64_t c = j - z->h * z->d, n = z->kv * z->d;

				*(c < 0 ? &q[s * z->h * z->d + j] : c < n ? &k[s * n + c] :
				  &v[s * n + c - n]) = all[s * cols + j];
			}
	} else {
		multiply(r, &w->p[0], 0, x, z->seq, q);
		multiply(r, &w->p[1], 0, x, z->seq, k);
		multiply(r, &w->p[2], 0, x, z->seq, v);
	}
	if (z->normed) {
		norm_rows(r, q, z->seq * z->h, z->d, &w->gamma[0], NULL);
		norm_rows(r, k, z->seq * z->kv, z->d, &w->gamma[1], NULL);
	}
	rotate(q, z->seq, z->h, z->d, z->n_rot, z->style);
	rotate(k, z->seq, z->kv, z->d, z->n_rot, z->style);
	attend(z, q, k, v, o);
	multiply(r, &w->p[3], 0, o, z->seq, y);
}

EVERYWHERE(r030_attention)
{
	static double in[MOST], y[MOST];
	int i;

	for (i = 0; i < 6; i++) {
		struct rlx_attention_block a;
		struct heads z = draw_heads(r);
		struct attention w;
		int64_t n = z.seq * z.width, b;
		struct leaf x;

		rig_reset(r);
		x = DRAW(z.batch, z.seq, z.width);
		draw_attention(r, &z, &w, &a);
		a.mask = RLX_MASK_CAUSAL;
		rig_output(r, rlx_block_attention(r->g, x.v, &a, RLX_NONE));
		rig_run(r);
		load(r, x, z.batch * n, in);
		for (b = 0; b < z.batch; b++)
			attention(r, &z, &w, &in[b * n], &y[b * n]);
		want_all(r, y, z.batch * n);
	}
}

/* Three rows over a cache that another call has put two into are rows of one call of five. */
EVERYWHERE(r030_attention_over_a_cache)
{
	static double in[MOST], y[MOST];
	int i;

	for (i = 0; i < 6; i++) {
		struct rlx_attention_block a;
		struct heads z = draw_heads(r);
		struct attention w;
		const int64_t begin[2] = { 0, 0 }, two[2] = { 2, 2 };
		rlx_value part[2], next;
		struct leaf x;
		int64_t b, j, n;

		rig_reset(r);
		z.seq = 5;
		n = z.seq * z.width;
		x = DRAW(z.batch, z.seq, z.width);
		draw_attention(r, &z, &w, &a);
		for (j = 0; j < 2; j++)
			part[j] = rlx_emit(r->g, slice, .x = x.v, .axes = RLX_INTS(1),
					   .starts = RLX_INTS(2 * j), .ends = RLX_INTS(2 + 3 * j));
		a.cache = DRAW(2, z.batch, 9, z.kv, z.d).v;
		a.next = &next;
		a.pos = rig_input(r, rlx_type(RLX_I64, z.batch), begin);
		part[0] = rlx_block_attention(r->g, part[0], &a, RLX_NONE);
		a.cache = next;
		a.pos = rig_input(r, rlx_type(RLX_I64, z.batch), two);
		part[1] = rlx_block_attention(r->g, part[1], &a, RLX_NONE);
		rig_output(r, rlx_emit(r->g, concat, .axis = 1, .xs = { part, 2 }));
		rig_run(r);
		load(r, x, z.batch * n, in);
		for (b = 0; b < z.batch; b++)
			attention(r, &z, &w, &in[b * n], &y[b * n]);
		want_all(r, y, z.batch * n);
	}
}

/* ---- layers ---- */

EVERYWHERE(r030_layers)
{
	static double in[MOST], y[MOST], x[MOST];
	int post;

	for (post = 0; post < 2; post++) {
		struct rlx_ffn_block f = { .size = sizeof(f) };
		struct rlx_layer_block l = { .size = sizeof(l), .ffn = &f, .post_norm = post };
		struct heads z = { .batch = 1, .seq = from(r, 1, 6), .width = from(r, 2, 16),
				   .h = 2, .kv = 1, .d = 4, .n_rot = 4, .packed = true };
		struct rlx_attention_block a;
		struct attention w;
		struct leaf v, gamma[2];
		struct dense d[3];
		int64_t n = z.seq * z.width, i;

		rig_reset(r);
		v = DRAW(1, z.seq, z.width);
		draw_attention(r, &z, &w, &a);
		a.mask = RLX_MASK_CAUSAL;
		l.attention = &a;
		for (i = 0; i < 3; i++)
			d[i] = dense(r, i < 2 ? 11 : z.width, i < 2 ? z.width : 11, i == 1, false);
		f.gate = weights(&d[0]);
		f.gate.act = RLX_ACT_SILU;
		f.up = weights(&d[1]);
		f.down = weights(&d[2]);
		for (i = 0; i < 2; i++)
			gamma[i] = DRAW(z.width);
		l.norm1 = (struct rlx_norm){ gamma[0].v, RLX_NONE, 1e-5f, RLX_NORM_RMS };
		l.norm2 = (struct rlx_norm){ gamma[1].v, RLX_NONE, 1e-5f, RLX_NORM_RMS };
		rig_output(r, rlx_block_layer(r->g, v.v, &l));
		rig_run(r);
		load(r, v, n, in);
		memcpy(x, in, sizeof(x));
		if (!post)
			norm_rows(r, x, z.seq, z.width, &gamma[0], NULL);
		attention(r, &z, &w, x, y);
		for (i = 0; i < n; i++)
			x[i] = in[i] += y[i];
		norm_rows(r, x, z.seq, z.width, &gamma[!post], NULL);
		network(r, d, 0, x, z.seq, y);
		for (i = 0; i < n; i++)
			y[i] += post ? x[i] : in[i];
		if (post)
			norm_rows(r, y, z.seq, z.width, &gamma[1], NULL);
		for (i = 0; i < n; i++)
			rig_want(r, 0, i, y[i], 1e-4);	/* of norms */
	}
}

/* ---- from run to run ---- */

enum { CH = 5, TAPS = 3, STEPS = 4, WIDE = 8 };

/* A convolution, then attention; of one element a run, with states, or of all. */
static struct rlx_session *chain(const float *w, const char *device, bool all)
{
	struct rlx_graph *g = rlx_graph_new("chain");
	int64_t seq = all ? STEPS : 1;
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 1, seq, CH));
	struct rlx_causal_conv_block c = { .size = sizeof(c), .silu = true,
		.w = rlx_constant(g, rlx_type(RLX_F32, CH, TAPS), w) };
	struct rlx_attention_block a = { .size = sizeof(a), .heads = 2, .kv_heads = 2,
		.q = { .w = rlx_constant(g, rlx_type(RLX_F32, 3 * WIDE, CH), w + 20) },
		.out = { .w = rlx_constant(g, rlx_type(RLX_F32, CH, WIDE), w + 140) } };
	struct rlx_rope_tables t = { .size = sizeof(t), .positions = STEPS, .n_rot = 4 };
	rlx_value at;

	rlx_block_rope_tables(g, &t, &a.cos, &a.sin);
	if (all) {
		a.mask = RLX_MASK_CAUSAL;
	} else {
		c.state = rlx_state(g, "conv", rlx_type(RLX_F32, 1, TAPS - 1, CH));
		a.cache = rlx_state(g, "cache", rlx_type(RLX_F32, 2, 1, STEPS, 2, 4));
		a.pos = at = rlx_state(g, "pos", rlx_type(RLX_I64, 1));
		rlx_state_next(g, at, rlx_emit(g, add, .a = at,
					       .b = rlx_scalar_const(g, RLX_I64, 1)));
	}
	rlx_output(g, "y", rlx_block_attention(g, rlx_block_causal_conv(g, x, &c), &a, x));
	return rig_session(g, &(struct rlx_compile_opts){ .size = sizeof(struct rlx_compile_opts),
							  .device = device });
}

TEST(r030_states_go_on)
{
	const char *device[RIG_DEVICES];
	float w[180], x[STEPS * CH], want[STEPS * CH], y[CH];
	unsigned int n = rig_devices(device), d, i, s;
	uint64_t seed = rlx_test_seed();

	for (i = 0; i < 180; i++)
		w[i] = (float)rlx_test_uniform(&seed, -1, 1);
	for (i = 0; i < STEPS * CH; i++)
		x[i] = (float)rlx_test_uniform(&seed, -1, 1);
	for (d = 1; d < n; d++) {
		struct rlx_session *one = chain(w, device[d], false);
		struct rlx_session *all = chain(w, device[d], true);

		CHECK(!rlx_session_set(all, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 1, STEPS, CH), x));
		CHECK(!rlx_session_run(all));
		CHECK(!rlx_session_get(all, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 1, STEPS, CH),
				       want));
		for (i = 0; i < rlx_program_io_count(rlx_session_program(one), RLX_IO_STATE); i++) {
			struct rlx_buf b = rlx_session_buf_at(one, RLX_IO_STATE, i);

			memset(rlx_buf_ptr(b), 0, b.bytes);
		}
		for (s = 0; s < STEPS; s++) {
			struct rlx_type t = rlx_type(RLX_F32, 1, 1, CH);

			CHECK(!rlx_session_set(one, RLX_IO_INPUT, "x", t, x + s * CH));
			CHECKF(!rlx_session_run(one), "%s", rlx_session_error(one)->text);
			CHECK(!rlx_session_get(one, RLX_IO_OUTPUT, "y", t, y));
			for (i = 0; i < CH; i++)
				CHECKF(fabs((double)(y[i] - want[s * CH + i])) < 1e-5,
				       "%s: step %u, element %u: %g, not %g", device[d], s, i,
				       (double)y[i], (double)want[s * CH + i]);
		}
		rlx_session_free(one);
		rlx_session_free(all);
	}
}

/* ---- which experts were chosen ---- */

/* Two layers of experts, whose router gives the rows themselves; another topk as large. */
static struct rlx_session *routes(const char *device, uint32_t flags)
{
	static float eye[16], stack[4 * 4 * 4];
	struct rlx_graph *g = rlx_graph_new("routes");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 1, 2, 4)), w, y;
	struct rlx_moe_block m = { .size = sizeof(m), .experts.size = sizeof(m.experts),
				   .chosen = 2 };

	for (int i = 0; i < 16; i++)
		eye[i] = i % 5 == 0;
	for (int i = 0; i < 64; i++)
		stack[i] = i % 16 % 5 == 0 ? -1 : 0;
	m.router.w = rlx_constant(g, rlx_type(RLX_F32, 4, 4), eye);
	w = rlx_constant(g, rlx_type(RLX_F32, 4, 4, 4), stack);
	m.experts.up = (struct rlx_linear){ .w = w };
	m.experts.down = (struct rlx_linear){ .w = w };
	m.experts.gate = (struct rlx_linear){ .w = w, .act = RLX_ACT_RELU };
	y = rlx_emit(g, topk, .x = x, .k = 2, .axis = -1);
	y = rlx_emit(g, cast, .x = rlx_out(g, y, 1), .to = RLX_F32);
	y = rlx_emit(g, reduce, .x = y);
	x = rlx_block_moe(g, rlx_block_moe(g, x, &m, x), &m, RLX_NONE);
	rlx_output(g, "y", rlx_emit(g, add, .a = x, .b = y));
	return rig_session(g, &(struct rlx_compile_opts){ .size = sizeof(struct rlx_compile_opts),
							  .device = device, .flags = flags });
}

TEST(r013_r014_experts)
{
	const float x[8] = { 0, 3, 1, 2, 9, 0, 0, 8 };
	const int64_t want[4] = { 1, 3, 0, 3 };
	struct rlx_type t = rlx_type(RLX_I64, 1, 2, 2);
	const char *device[RIG_DEVICES];
	unsigned int n = rig_devices(device), d, i, l;
	struct rlx_session *s;
	char name[24];
	int64_t ids[4];

	for (d = 1; d < n; d++) {
		s = routes(device[d], RLX_COMPILE_EXPERTS);
		CHECK_EQ(rlx_program_io_count(rlx_session_program(s), RLX_IO_OUTPUT), 3);
		CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 1, 2, 4), x));
		CHECK(!rlx_session_run(s));
		for (l = 0; l < 2; l++) {	/* the first adds 0: its gate is -x below 0 */
			snprintf(name, sizeof(name), "experts.%u", l);
			CHECKF(!rlx_session_get(s, RLX_IO_OUTPUT, name, t, ids), "%s",
			       rlx_session_error(s)->text);
			for (i = 0; i < 4; i++)
				CHECKF(ids[i] == want[i], "%s: layer %u, %u: %d", device[d], l, i,
				       (int)ids[i]);
		}
		rlx_session_free(s);
		s = routes(device[d], 0);
		CHECK_EQ(rlx_program_io_count(rlx_session_program(s), RLX_IO_OUTPUT), 1);
		CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "experts.0", t, ids), RLX_ENOENT);
		rlx_session_free(s);
	}
}

/* A product that chooses, of x[2, 4]. */
static struct rlx_graph *choosing(const char *output)
{
	static const float w[32];
	struct rlx_graph *g = rlx_graph_new("choosing");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 4));
	rlx_value idx = rlx_emit(g, cast, .x = rlx_emit(g, arg_reduce, .x = x, .axis = -1),
				 .to = RLX_I32);

	idx = rlx_emit(g, mod, .a = idx, .b = rlx_scalar_const(g, RLX_I32, 2));
	rlx_output(g, output, rlx_emit(g, grouped_matmul, .x = x, .idx = idx,
				       .w = rlx_constant(g, rlx_type(RLX_F32, 2, 4, 4), w)));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	return g;
}

/* A body's outputs are those of its op; a name that there is already is not taken. */
TEST(r013_bodies_and_names)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu",
				      .flags = RLX_COMPILE_EXPERTS };
	struct rlx_graph *one = choosing("y"), *taken = choosing("experts.0");
	struct rlx_graph *g = rlx_graph_new("if");
	rlx_value p = rlx_input(g, "p", rlx_scalar(RLX_BOOL));
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 4));
	struct rlx_error err = { 0 };
	struct rlx_program *prog;
	struct rlx_session *s;

	rlx_output(g, "y", rlx_emit(g, if, .pred = p, .then_g = one, .else_g = one,
				    .xs = RLX_VALUES(x)));
	s = rig_session(g, &o);
	CHECK_EQ(rlx_program_io_count(rlx_session_program(s), RLX_IO_OUTPUT), 1);
	CHECK(rlx_session_buf(s, RLX_IO_INPUT, "p").bytes &&
	      rlx_session_buf(s, RLX_IO_INPUT, "x").bytes);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	rlx_session_free(s);
	CHECK(!rlx_compile(one, &o, &prog, &err));
	CHECK_EQ(rlx_program_io_find(prog, RLX_IO_OUTPUT, "experts.0"), 1);
	rlx_program_put(prog);
	CHECK_EQ(rlx_compile(taken, &o, &prog, &err), RLX_EEXIST);
	CHECKF(strstr(err.text, "experts.0"), "%s", err.text);
	rlx_graph_put(one);
	rlx_graph_put(taken);
}

/* ---- what is refused ---- */

/* The graph has failed in this file with a message that has @a and @b. */
static void failed(struct rlx_graph *g, enum rlx_status st, const char *a, const char *b)
{
	const struct rlx_error *e = rlx_graph_error(g);

	CHECKF(e->status == st && strstr(e->text, a) && strstr(e->text, b), "%d \"%s\" for \"%s\" "
	       "\"%s\"", e->status, e->text, a, b);
	CHECKF(e->file && strstr(e->file, "ops/blocks.c"), "%s:%u: %s", e->file, e->line, e->text);
	rlx_graph_put(g);
}

TEST(r030_refused)
{
	struct rlx_attention_block a;
	struct rlx_ffn_block f;
	struct rlx_moe_block m;
	struct rlx_layer_block l;
	struct rlx_linear w;
	struct rlx_graph *g;
	rlx_value x, s;

#define BAD(st, one, two, call) do {					\
		g = rlx_graph_new("bad");				\
		x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3, 8));	\
		s = rlx_input(g, "s", rlx_type(RLX_F32, 8, 8));		\
		w = (struct rlx_linear){ .w = s };			\
		a = (struct rlx_attention_block){ .size = sizeof(a), .q = w, .k = w, .v = w,\
			.out = w, .heads = 2 };				\
		f = (struct rlx_ffn_block){ .size = sizeof(f), .up = w, .down = w };\
		m = (struct rlx_moe_block){ .size = sizeof(m), .router = w, .experts = f,\
			.chosen = 2 };					\
		l = (struct rlx_layer_block){ .size = sizeof(l), .attention = &a, .ffn = &f };\
		call; failed(g, st, one, two);		\
	} while (0)
#define ATTENTION rlx_block_attention(g, x, &a, RLX_NONE)
#define FFN	rlx_block_ffn(g, x, &f, RLX_NONE)
#define MOE	rlx_block_moe(g, x, &m, RLX_NONE)
	BAD(RLX_EINVAL, "linear block: ", "NULL",
	    rlx_block_linear(g, x, NULL, RLX_NONE));
	BAD(RLX_EINVAL, "linear block: ", "weight is missing",
	    (w.w = RLX_NONE, rlx_block_linear(g, x, &w, RLX_NONE)));
	BAD(RLX_EINVAL, "linear block: ", "bounds",
	    (w.act = RLX_ACT_CLIP, rlx_block_linear(g, x, &w, RLX_NONE)));
	BAD(RLX_EINVAL, "linear block: ", "act",
	    (w.act = 99, rlx_block_linear(g, x, &w, RLX_NONE)));
	BAD(RLX_EINVAL, "linear block: ", "in_out",
	    (w = (struct rlx_linear){ .w = rlx_input(g, "b", rlx_type(RLX_U8, 8, 34)),
				      .scheme = RLX_SCHEME_Q8_0, .in_out = true },
	     rlx_block_linear(g, x, &w, RLX_NONE)));
	BAD(RLX_EINVAL, "moe block, router: ", "missing",
	    (m.router.w = RLX_NONE, m.chosen = 0, MOE));
	BAD(RLX_EINVAL, "moe block, gate: ", "act", (m.experts.gate = w,
		m.experts.gate.w = m.experts.up.w = rlx_input(g, "e", rlx_type(RLX_F32, 8, 4, 8)),
		m.experts.gate.act = -1, MOE));
	BAD(RLX_EINVAL, "norm block: ", "NULL", rlx_block_norm(g, x, NULL, RLX_NONE));
	BAD(RLX_EINVAL, "attention block: ", "size", (a.size = 0, ATTENTION));
	BAD(RLX_EINVAL, "attention block: ", "NULL",
	    rlx_block_attention(g, x, NULL, RLX_NONE));
	BAD(RLX_EINVAL, "attention block: ", "heads", (a.heads = 0, ATTENTION));
	BAD(RLX_EINVAL, "attention block: ", "kv_heads", (a.kv_heads = 3, ATTENTION));
	BAD(RLX_EINVAL, "attention block, k: ", "missing", (a.k.w = RLX_NONE, ATTENTION));
	BAD(RLX_EINVAL, "attention block, q: ", "rows", (a.k.w = a.v.w = RLX_NONE, a.heads = 4,
							 a.kv_heads = 4, ATTENTION));
	BAD(RLX_EINVAL, "attention block, q: ", "heads",
	    (a.heads = 3, a.cos = a.sin = x, ATTENTION));
	BAD(RLX_EINVAL, "attention block: ", "cache", (a.cache = x, ATTENTION));
	BAD(RLX_ESHAPE, "attention block, out: fused_matmul", "dims",
	    (a.out.w = rlx_input(g, "odd", rlx_type(RLX_F32, 8, 9)), ATTENTION));
	BAD(RLX_ESHAPE, "ffn block, down: fused_matmul", "dims",
	    (f.down.w = rlx_input(g, "odd", rlx_type(RLX_F32, 8, 9)), FFN));
	BAD(RLX_EINVAL, "moe block, router: ", "chosen", (m.chosen = 0, MOE));
	BAD(RLX_ESHAPE, "moe block, router: topk", "k", (m.chosen = 9, MOE));
	BAD(RLX_ESHAPE, "moe block, up: grouped_matmul", "", MOE);
	BAD(RLX_EINVAL, "layer block: ", "ffn and moe",
	    (l.moe = &m, rlx_block_layer(g, x, &l)));
	BAD(RLX_EINVAL, "layer block: ", "NULL", (l.attention = NULL, rlx_block_layer(g, x, &l)));
	BAD(RLX_EINVAL, "layer block: ", "size", (f.size = 0, rlx_block_layer(g, x, &l)));
	BAD(RLX_EINVAL, "layer block: ", "size", (m.size = 0, l.ffn = NULL, l.moe = &m,
						  rlx_block_layer(g, x, &l)));
	BAD(RLX_EINVAL, "rope tables block: ", "n_rot",
	    rlx_block_rope_tables(g, &((struct rlx_rope_tables){
		.size = sizeof(struct rlx_rope_tables), .positions = 2, .n_rot = 3 }), &x, &s));
#undef BAD
	CHECK(!x.id && !s.id);
	CHECK(!rlx_block_linear(NULL, RLX_NONE, &w, RLX_NONE).id);
	CHECK(!rlx_block_layer(NULL, RLX_NONE, &l).id);
	CHECK(!rlx_block_moe(NULL, RLX_NONE, &m, RLX_NONE).id);
}

/* Where a block was asked for is where its nodes are from, and what sticks stays. */
TEST(r030_lines)
{
	struct rlx_graph *g = rlx_graph_new("lines");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 4));
	struct rlx_linear w = { .w = rlx_input(g, "w", rlx_type(RLX_F32, 4, 4)) };
	struct rlx_ffn_block f = { .size = sizeof(f), .up = w, .down = w };
	unsigned int line;

	line = __LINE__ + 1;
	x = rlx_block_ffn(g, x, &f, x);
	CHECK_EQ(rlx_node_of(g, x.id)->line, line);
	f.down.w = rlx_input(g, "odd", rlx_type(RLX_F32, 4, 5));
	line = __LINE__ + 1;
	x = rlx_block_ffn(g, x, &f, x);
	CHECK_EQ(rlx_graph_error(g)->line, line);
	rlx_block_linear(g, x, NULL, RLX_NONE);
	rlx_block_layer(g, x, NULL);
	rlx_block_rope_tables(g, NULL, &x, &x);
	CHECK(!strncmp(rlx_graph_error(g)->text, "ffn block, down: fused_matmul", 29));
	rlx_graph_put(g);
}

TEST_MAIN()
