// SPDX-License-Identifier: MIT
/* LSTM, GRU and RNN: weights are packed once or, known only then, at each run. */
#include <string.h>

#include "backends/common/rnn_desc.h"
#include "backends/cpu/cpu.h"
#include "base/alloc.h"
#include "kernels/ew.h"
#include "kernels/gemm.h"
#include "kernels/move.h"

static bool takes(struct rlx_lower *lo)
{
	uint32_t k;

	for (k = 0; k < lo->st->n_in; k++)
		if (rlx_lower_in(lo, k) && k != 4 && rlx_lower_in(lo, k)->dtype != RLX_F32)
			return false;
	return true;
}

/* What the kernels read instead of the op's weights: constants, or places in tmp. */
struct weights {
	const char	*w;		/* packed; NULL: as the op has it */
	size_t		 w_bytes;
	const float	*bias, *r, *rb;
	uint32_t	 bias_tmp, r_tmp, rb_tmp;
	bool		 has_bias, has_rb;
};

/* W of all directions, packed for the product. */
static char *pack_w(struct rlx_lower *lo, const struct rlx_recurrence *r, size_t *out_bytes)
{
	enum rlx_isa isa = cpu_isa(lo);
	size_t n = (size_t)(r->gates * r->hidden), k = (size_t)r->in;
	size_t bytes = rlx_align64(rlx_k_gemm_f32_pack_size(n, k, isa));
	const int64_t key[4] = { (int64_t)n, (int64_t)k, isa, r->dirs };
	bool is_new;
	char *dst = cpu_prepare(lo, 1, "rnn_w", key, bytes * (size_t)r->dirs + 64, &is_new);

	for (int64_t d = 0; dst && is_new && d < r->dirs; d++) {
		struct rlx_k_gemm_pack p = {
			.k = k, .n = n, .ldb = k, .trans = true, .dst = dst + (size_t)d * bytes,
			.b = (const float *)rlx_lower_const(lo, 1) + (size_t)d * n * k,
		};

		cpu_kernels(lo)->gemm_f32_pack(&p, 0, rlx_k_gemm_panels(n, isa), NULL);
	}
	*out_bytes = bytes;
	return dst;
}

/* Wb + Rb a gate, but only Wb for the last gate of a GRU that resets late. */
static float *sum_bias(struct rlx_lower *lo, const struct rlx_recurrence *r)
{
	const float *b = rlx_lower_const(lo, 3);
	int64_t n = r->gates * r->hidden, late = (r->gates - 1) * r->hidden, d, i;
	const int64_t key[4] = { n, r->dirs, r->cell, r->linear_before_reset };
	bool is_new;
	float *dst = cpu_prepare(lo, 3, "rnn_bias", key, (size_t)(n * r->dirs) * 4 + 64, &is_new);

	for (d = 0; dst && is_new && d < r->dirs; d++)
		for (i = 0; i < n; i++)
			dst[d * n + i] = b[2 * d * n + i] +
				(r->linear_before_reset && i >= late ? 0 : b[(2 * d + 1) * n + i]);
	return dst;
}

static enum rlx_status project(struct rlx_lower *lo, const struct rlx_recurrence *r,
			       const struct weights *w)
{
	size_t n = (size_t)(r->gates * r->hidden);
	enum rlx_status st = RLX_OK;
	int64_t d;

	for (d = 0; d < r->dirs && !st; d++) {
		struct rlx_k_gemm *g = rlx_lower_args(lo, sizeof(*g));

		g->m = (size_t)(r->steps * r->batch);
		g->n = n;
		g->k = g->lda = g->ldb = (size_t)r->in;
		g->ldc = n * (size_t)r->dirs;
		g->alpha = 1;
		g->b_form = w->w ? RLX_B_PACKED : RLX_B_COLS;
		if (w->w)
			g->b = w->w + (size_t)d * w->w_bytes;
		else
			rlx_lower_ref_in(lo, &g->b, 1, (uint64_t)d * n * g->k * 4);
		if (w->bias)
			g->bias = w->bias + (size_t)d * n;
		else if (w->has_bias)
			rlx_lower_ref_tmp(lo, &g->bias, w->bias_tmp, (uint64_t)d * n * 4);
		rlx_lower_ref_in(lo, &g->a, 0, 0);
		rlx_lower_ref_tmp(lo, &g->c, r->tmp, (uint64_t)d * n * 4);
		st = rlx_lower_call(lo, RLX_KERNEL_gemm_f32, rlx_k_gemm_units(g, cpu_isa(lo)),
				    (double)g->m * (double)n * (double)g->k / 4,
				    rlx_k_gemm_scratch(g, cpu_isa(lo)));
	}
	return st;
}

static float *pack_r(struct rlx_lower *lo, const struct rlx_recurrence *r)
{
	size_t floats = rlx_k_rnn_packed(r->cell, r->hidden);
	const int64_t key[4] = { r->cell, r->hidden, r->dirs, 0 };
	struct rlx_k_rnn_pack p = {
		.r = rlx_lower_const(lo, 2), .dirs = r->dirs, .hidden = r->hidden, .cell = r->cell,
	};
	bool is_new;

	p.dst = cpu_prepare(lo, 2, "rnn_r", key, floats * (size_t)r->dirs * 4 + 64, &is_new);
	if (p.dst && is_new)
		cpu_kernels(lo)->rnn_pack(&p, 0, (size_t)r->dirs, NULL);
	return p.dst;
}

/* Of a GRU that resets late: the last gate's recurrent bias; NULL: out of memory. */
static const float *late_bias(struct rlx_lower *lo, const struct rlx_recurrence *r)
{
	int64_t n = r->gates * r->hidden, d;
	const int64_t key[4] = { n, r->dirs, 0, 0 };
	const float *b = rlx_lower_const(lo, 3);
	bool is_new;
	float *rb = cpu_prepare(lo, 3, "rnn_rb", key, (size_t)(r->hidden * r->dirs) * 4 + 64,
				&is_new);

	for (d = 0; rb && is_new && d < r->dirs; d++)
		memcpy(rb + d * r->hidden, b + (2 * d + 2) * n - r->hidden,
		       (size_t)r->hidden * 4);
	return rb;
}

/* Constant weights; false: lo->status. */
static bool prepare(struct rlx_lower *lo, const struct rlx_recurrence *r, struct weights *w)
{
	w->has_bias = rlx_lower_in(lo, 3);
	w->has_rb = w->has_bias && r->linear_before_reset;
	w->w = pack_w(lo, r, &w->w_bytes);
	if (w->w && w->has_bias)
		w->bias = sum_bias(lo, r);
	if (!lo->status)
		w->r = pack_r(lo, r);
	if (!lo->status && w->has_rb)
		w->rb = late_bias(lo, r);
	return !lo->status;
}

/* To float @at of @tmp @n floats from @from of the op's bias, and as many from @also, if not 0. */
static void add_rows(struct rlx_lower *lo, uint32_t tmp, int64_t at, int64_t from, int64_t also,
		     int64_t n)
{
	struct rlx_k_ew *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t k;

	a->cls = RLX_EW_F32;
	a->rank = 1;
	a->dim[0] = n;
	a->n_in = also ? 2 : 1;
	for (k = 0; k < a->n_in; k++) {
		a->in[k].type = RLX_F32;
		a->in[k].stride[0] = 1;
		rlx_lower_ref_in(lo, &a->in[k].p, 3, (uint64_t)(k ? also : from) * 4);
	}
	a->n_step = 1;
	a->step[0] = (struct rlx_k_ew_step){ .op = also ? RLX_EW_add : RLX_EW_copy,
					     .src = { 0, 1, 0 } };
	a->n_out = 1;
	a->out[0].type = RLX_F32;
	a->out[0].src = (uint8_t)RLX_EW_STEP(0);
	rlx_lower_ref_tmp(lo, &a->out[0].p, tmp, (uint64_t)at * 4);
	rlx_k_ew_plan(cpu_isa(lo), a);
	rlx_lower_call(lo, RLX_KERNEL_ew, rlx_k_ew_units(a), (double)n, rlx_k_ew_scratch(a));
}

/* As sum_bias() and late_bias(), by calls. */
static void prepare_bias(struct rlx_lower *lo, const struct rlx_recurrence *r, struct weights *w)
{
	int64_t n = r->gates * r->hidden, h = r->hidden, d, at;
	int64_t sums = r->linear_before_reset ? n - h : n;

	w->has_bias = rlx_lower_in(lo, 3);
	w->has_rb = w->has_bias && r->linear_before_reset;
	if (!w->has_bias)
		return;
	w->bias_tmp = rlx_lower_tmp(lo, (uint64_t)(n * r->dirs) * 4);
	w->rb_tmp = rlx_lower_tmp(lo, (uint64_t)(h * r->dirs) * 4);
	for (d = 0; d < r->dirs; d++) {
		at = 2 * d * n;
		if (sums)
			add_rows(lo, w->bias_tmp, d * n, at, at + n, sums);
		if (!r->linear_before_reset)
			continue;
		add_rows(lo, w->bias_tmp, d * n + sums, at + sums, 0, h);
		add_rows(lo, w->rb_tmp, d * h, at + n + sums, 0, h);
	}
}

/* Weights that are known only then: calls before those that read them. */
static void prepare_each_run(struct rlx_lower *lo, const struct rlx_recurrence *r,
			     struct weights *w)
{
	uint64_t floats = rlx_k_rnn_packed(r->cell, r->hidden) * (uint64_t)r->dirs;
	struct rlx_k_rnn_pack *p;

	prepare_bias(lo, r, w);
	w->r_tmp = rlx_lower_tmp(lo, floats * 4 + 64);
	p = rlx_lower_args(lo, sizeof(*p));
	p->dirs = r->dirs;
	p->hidden = r->hidden;
	p->cell = r->cell;
	rlx_lower_ref_in(lo, &p->r, 2, 0);
	rlx_lower_ref_tmp(lo, &p->dst, w->r_tmp, 0);
	rlx_lower_call(lo, RLX_KERNEL_rnn_pack, (uint64_t)r->dirs, (double)floats, 0);
}

enum rlx_status cpu_recur(struct rlx_lower *lo, const struct rlx_recurrence *r)
{
	bool fixed = rlx_lower_const(lo, 1) && rlx_lower_const(lo, 2) &&
		     (!rlx_lower_in(lo, 3) || rlx_lower_const(lo, 3));
	struct weights w = { .w = NULL };
	struct rlx_k_rnn *a;

	if (!takes(lo))
		return rlx_lower_unsupported(lo, "no kernel for these dtypes");
	if (!fixed)
		prepare_each_run(lo, r, &w);
	else if (!prepare(lo, r, &w))
		return lo->status;
	if (project(lo, r, &w))
		return lo->status;
	a = rlx_recurrence_args(lo, r);
	a->r = w.r;
	a->rb = w.rb;
	if (!fixed)
		rlx_lower_ref_tmp(lo, &a->r, w.r_tmp, 0);
	if (!fixed && w.has_rb)
		rlx_lower_ref_tmp(lo, &a->rb, w.rb_tmp, 0);
	return rlx_lower_call(lo, RLX_KERNEL_rnn, rlx_k_rnn_units(a), rlx_recurrence_work(r),
			      rlx_k_rnn_scratch(a));
}
