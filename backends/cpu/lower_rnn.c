// SPDX-License-Identifier: MIT
/* LSTM, GRU and RNN: weights are packed once. */
#include <string.h>

#include "backends/common/rnn_desc.h"
#include "backends/cpu/cpu.h"
#include "base/alloc.h"
#include "kernels/gemm.h"

static bool takes(struct rlx_lower *lo)
{
	uint32_t k;

	for (k = 0; k < lo->st->n_in; k++)
		if (lower_in(lo, k) && k != 4 && lower_in(lo, k)->dtype != RLX_F32)
			return false;
	return lower_const(lo, 1) && lower_const(lo, 2) &&
	       (!lower_in(lo, 3) || lower_const(lo, 3));
}

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
			.b = (const float *)lower_const(lo, 1) + (size_t)d * n * k,
		};

		cpu_kernels(lo)->gemm_f32_pack(&p, 0, rlx_k_gemm_panels(n, isa), NULL);
	}
	*out_bytes = bytes;
	return dst;
}

/* Wb + Rb a gate, but only Wb for the last gate of a GRU that resets late. */
static float *sum_bias(struct rlx_lower *lo, const struct rlx_recurrence *r)
{
	const float *b = lower_const(lo, 3);
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

static enum rlx_status project(struct rlx_lower *lo, const struct rlx_recurrence *r)
{
	size_t n = (size_t)(r->gates * r->hidden), w_bytes;
	enum rlx_status st = RLX_OK;
	const float *bias = NULL;
	int64_t d;
	char *w;

	w = pack_w(lo, r, &w_bytes);
	if (w && lower_in(lo, 3))
		bias = sum_bias(lo, r);
	if (!w || (lower_in(lo, 3) && !bias))
		return lo->status;
	for (d = 0; d < r->dirs && !st; d++) {
		struct rlx_k_gemm *g = lower_args(lo, sizeof(*g));

		g->m = (size_t)(r->steps * r->batch);
		g->n = n;
		g->k = g->lda = (size_t)r->in;
		g->ldc = n * (size_t)r->dirs;
		g->b = w + (size_t)d * w_bytes;
		g->b_form = RLX_B_PACKED;
		g->bias = bias ? bias + (size_t)d * n : NULL;
		g->alpha = 1;
		lower_ref_in(lo, &g->a, 0, 0);
		lower_ref_tmp(lo, &g->c, r->tmp + (uint64_t)d * n * 4);
		st = lower_call(lo, RLX_KERNEL_gemm_f32, rlx_k_gemm_units(g, cpu_isa(lo)),
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
		.r = lower_const(lo, 2), .dirs = r->dirs, .hidden = r->hidden, .cell = r->cell,
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
	const float *b = lower_const(lo, 3);
	bool is_new;
	float *rb = cpu_prepare(lo, 3, "rnn_rb", key, (size_t)(r->hidden * r->dirs) * 4 + 64,
				&is_new);

	for (d = 0; rb && is_new && d < r->dirs; d++)
		memcpy(rb + d * r->hidden, b + (2 * d + 2) * n - r->hidden,
		       (size_t)r->hidden * 4);
	return rb;
}

enum rlx_status cpu_recur(struct rlx_lower *lo, const struct rlx_recurrence *r)
{
	const float *packed, *rb = NULL;
	struct rlx_k_rnn *a;

	if (!takes(lo))
		return lower_unsupported(lo, "no kernel for these dtypes or weights");
	if (project(lo, r))
		return lo->status;
	packed = pack_r(lo, r);
	if (packed && r->linear_before_reset && lower_in(lo, 3))
		rb = late_bias(lo, r);
	if (lo->status)
		return lo->status;
	a = rlx_recurrence_args(lo, r);
	a->r = packed;
	a->rb = rb;
	return lower_call(lo, RLX_KERNEL_rnn, rlx_k_rnn_units(a), rlx_recurrence_work(r),
			  rlx_k_rnn_scratch(a));
}
