// SPDX-License-Identifier: MIT
/* Ops whose inputs have no elements: what comes out is known before anything runs. */
#include <string.h>

#include "backends/common/host.h"
#include "backends/common/lower.h"
#include "base/alloc.h"
#include "kernels/copy.h"

enum {
	MOST_IO = 16,
	MOST_EVALUATED = 1 << 16,	/* elements: what the compiler's evaluation is worth */
};

bool rlx_lower_is_empty(const struct rlx_lower *lo)
{
	const struct rlx_plan_step *st = lo->st;
	bool any = false;
	uint32_t k;

	if (!st->def || st->def->traits & (RLX_T_IMPURE | RLX_T_SUBGRAPH) || st->n_in > MOST_IO ||
	    st->n_out > MOST_IO)
		return false;
	for (k = 0; k < st->n_in; k++) {
		if (!rlx_lower_in(lo, k))
			continue;
		if (rlx_type_count(rlx_lower_in(lo, k)))
			return false;
		any = true;
	}
	return any;
}

/* What inputs of no elements point to, and 0 in every dtype. */
static const max_align_t nowhere;

/* Are all elements the same? */
static bool is_uniform(const struct rlx_tensor *t)
{
	size_t n = (size_t)rlx_type_count(&t->type), size = rlx_dtype_size(t->type.dtype);
	const unsigned char *p = t->data;

	return n < 2 || !memcmp(p, p + size, (n - 1) * size);
}

/* Write @src to output @k; kept as one element, which is all of it if the output is @uniform. */
static enum rlx_status write_out(struct rlx_lower *lo, uint32_t k, const void *src, bool uniform)
{
	struct rlx_k_copy *a = rlx_lower_args(lo, sizeof(*a));
	const struct rlx_type *t = rlx_lower_out(lo, k);
	size_t size = rlx_dtype_size(t->dtype);
	int64_t n = rlx_type_count(t), d;
	size_t bytes = (uniform ? 1 : (size_t)n) * size;
	void *kept = rlx_lower_keep(lo, bytes, 1);

	if (!kept)
		return lo->status;
	memcpy(kept, src, bytes);
	a->rank = t->rank ? (int)t->rank : 1;
	a->dim[0] = 1;
	shape_dense(t, a->dst_stride);
	for (d = 0; d < t->rank; d++) {
		a->dim[d] = t->dim[d];
		a->src_stride[d] = uniform ? 0 : a->dst_stride[d];
	}
	a->size = (uint8_t)size;
	rlx_k_copy_plan(a);
	rlx_lower_ref_keep(lo, &a->src, kept, bytes);
	rlx_lower_ref_out(lo, &a->dst, k, 0);
	return rlx_lower_call(lo, RLX_KERNEL_copy, rlx_k_copy_units(a), (double)n, 0);
}

/* The reference's result becomes a part of the program. */
static enum rlx_status evaluate(struct rlx_lower *lo)
{
	struct rlx_tensor in[MOST_IO] = { 0 }, out[MOST_IO] = { 0 };
	const struct rlx_plan_step *st = lo->st;
	struct rlx_error err = { 0 };
	struct rlx_eval q = {
		.err = &err, .def = st->def, .args = st->args, .n_in = st->n_in,
		.n_out = st->n_out, .in = in, .out = out,
	};
	enum rlx_status ret = RLX_OK;
	uint32_t k;

	for (k = 0; k < st->n_in; k++)
		if (rlx_lower_in(lo, k))
			in[k] = (struct rlx_tensor){ *rlx_lower_in(lo, k), (void *)&nowhere };
	for (k = 0; k < st->n_out && !ret; k++) {
		out[k].type = *rlx_lower_out(lo, k);
		out[k].data = rlx_malloc((size_t)rlx_type_bytes(&out[k].type) + 64);
		if (!out[k].data)
			ret = RLX_ENOMEM;
	}
	if (!ret)
		ret = rlx_op_eval(&q);
	for (k = 0; k < st->n_out && !ret; k++)
		if (rlx_type_count(&out[k].type) && rlx_lower_out_is_read(lo, k))
			ret = write_out(lo, k, out[k].data, is_uniform(&out[k]));
	for (k = 0; k < st->n_out; k++)
		rlx_free(out[k].data);
	return ret == RLX_ENOMEM ? rlx_lower_out_of_memory(lo) :
	       ret ? rlx_lower_unsupported(lo, err.text[0] ? err.text : "refused") : lo->status;
}

/* A sum of no terms is 0, which needs no evaluation; an axis of none is filled up with zeros. */
static bool is_zero(const struct rlx_lower *lo)
{
	const struct rlx_op_fused_matmul *a = lo->args;

	switch (lo->st->def->index) {
	case RLX_OP_fused_matmul:
		return a->act == RLX_ACT_NONE;
	case RLX_OP_matmul:
	case RLX_OP_fft:
	case RLX_OP_rfft:
	case RLX_OP_irfft:
		return true;
	}
	return false;
}

/* Elements of all outputs. */
static double elements(const struct rlx_lower *lo)
{
	double n = 0;
	uint32_t k;

	for (k = 0; k < lo->st->n_out; k++)
		n += (double)rlx_type_count(rlx_lower_out(lo, k));
	return n;
}

/*
 * Evaluation walks through its scratch, as keys have scores though they have no elements. What
 * cannot be counted is no memory to walk through: evaluation says so.
 */
static double scratch(struct rlx_lower *lo)
{
	struct rlx_error err = { 0 };
	uint64_t bytes;

	if (rlx_host_scratch(lo->plan, lo->st, &bytes, &err)) {
		rlx_lower_out_of_memory(lo);
		return 0;
	}
	return bytes == SIZE_MAX ? 0 : (double)bytes / sizeof(double);
}

enum rlx_status rlx_lower_empty(struct rlx_lower *lo)
{
	double n;

	if (is_zero(lo))
		return lo->trial ? lo->status : write_out(lo, 0, &nowhere, true);
	n = elements(lo) + scratch(lo);
	if (lo->status)
		return lo->status;
	if (n > MOST_EVALUATED)
		return rlx_lower_unsupported(lo, "no kernel for so much that comes of nothing");
	return lo->trial ? lo->status : evaluate(lo);
}
