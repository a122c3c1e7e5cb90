// SPDX-License-Identifier: MIT
/* Gradient rules of ops that move or add real and imaginary parts alike, asked for each. */
#include "ad/complex.h"
#include "base/alloc.h"
#include "ir/graph.h"
#include "ops/complex.h"

static bool is_complex(const struct rlx_graph *g, rlx_value v)
{
	return v.id && g->val[v.id].type.dtype == RLX_C64;
}

static rlx_value part_of(struct rlx_graph *g, rlx_value v, uint32_t which)
{
	return is_complex(g, v) ? op_complex_part(g, v, which) : v;
}

/* The rule of @q, complex operands and cotangents replaced by their parts. */
static enum rlx_status one_part(const struct rlx_grad *q, uint32_t which, rlx_value *mem,
				rlx_value *d_in)
{
	struct rlx_grad part = *q;
	rlx_value *in = mem, *out = in + q->n_in, *d_out = out + q->n_out;
	uint32_t i;

	for (i = 0; i < q->n_in; i++)
		in[i] = part_of(q->g, q->in[i], which);
	for (i = 0; i < q->n_out; i++) {
		out[i] = part_of(q->g, q->out[i], which);
		d_out[i] = part_of(q->g, q->d_out[i], which);
	}
	if (q->g->err.status)	/* rules take their operands for granted */
		return q->g->err.status;
	part.in = in;
	part.out = out;
	part.d_out = d_out;
	part.d_in = d_in;
	return q->def->impl->vjp(&part);
}

enum rlx_status rlx_ad_complex_parts(struct rlx_grad *q)
{
	size_t n = 3 * (size_t)q->n_in + 2 * (size_t)q->n_out;
	rlx_value *mem = rlx_calloc(n + 1, sizeof(*mem)), *re, *im;
	enum rlx_status st;
	uint32_t i;

	if (!mem)
		return rlx_fail(&q->g->err, RLX_ENOMEM, "gradient: out of memory");
	im = mem + n - q->n_in;
	re = im - q->n_in;
	st = one_part(q, 0, mem, re);
	if (!st)
		st = one_part(q, 1, mem, im);
	for (i = 0; !st && i < q->n_in; i++)
		if (re[i].id && im[i].id && is_complex(q->g, q->in[i]))
			q->d_in[i] = op_complex_of_parts(q->g, re[i], im[i]);
	rlx_free(mem);
	return st ? st : op_done(q->g);
}
