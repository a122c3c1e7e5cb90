/* SPDX-License-Identifier: MIT */
/* Biases and masks of attention's scores that lie as [key][query]. */
#ifndef RLX_CPU_ATTENTION_BIAS_H
#define RLX_CPU_ATTENTION_BIAS_H

#include "kernels/cpu/attention.h"

/* Whether the queries' biases are rows of one matrix. */
static bool one_head(const struct att_block *t)
{
	return att_row_at(t, 0).head == att_row_at(t, t->n_rows - 1).head;
}

/* The bias of a tile as [key][query], if it is not the same for all queries. */
static void bias_tile(const struct att_block *t, const struct att_tile *k,
		      size_t width)
{
	const int64_t sk = t->a->bias_stride[3], sq = t->a->bias_stride[2];

	if (t->a->bias_type == RLX_F32 && sk == 1 && one_head(t)) {
		const float *from = t->a->bias;

		from += att_bias_at(t, att_row_at(t, 0)) + k->at;
		vi_transpose_block((const char *)from, (size_t)sq * 4,
				   (char *)t->mask, width * 4,
				   (size_t)t->n_rows, k->n);
		return;
	}
	for (size_t r = 0; r < width; r++) {
		int64_t q = (int64_t)r < t->n_rows ? (int64_t)r : t->n_rows - 1;
		int64_t off = att_bias_at(t, att_row_at(t, q)) + k->at * sk;

		for (size_t j = 0; j < k->n; j++)
			t->mask[j * width + r] =
				att_bias(t, off + (int64_t)j * sk);
	}
}

static bool bias_shared(const struct att_block *t)
{
	const int64_t *s = t->a->bias_stride;

	return s[2] == 0 && (s[1] == 0 || one_head(t));
}

/* As att_is_out() has it. */
RLX_INLINE vf biased(const struct rlx_k_attention *a, vf s, vf b)
{
	if (a->bias_type == RLX_F32)
		return s + b;
	return vf_sel(vf_eq(b, vf_set1(-INFINITY)), b, s + b);
}

static void add_bias(const struct att_block *t, const struct att_tile *k,
		     size_t width)
{
	const int64_t off = att_bias_at(t, att_row_at(t, 0));
	const int64_t sk = t->a->bias_stride[3];
	bool shared = bias_shared(t);

	if (!shared)
		bias_tile(t, k, width);
	for (size_t j = 0; j < k->n; j++) {
		float *s = t->s + j * width;
		const float *m = t->mask + j * width;
		float b = shared ? att_bias(t, off + (k->at + (int64_t)j) * sk)
				 : 0;

		for (size_t c = 0; c < width; c += RLX_VL)
			vf_storeu(s + c, biased(t->a, vf_loadu(s + c), shared ?
						vf_set1(b) : vf_loadu(m + c)));
	}
}

#endif
