// SPDX-License-Identifier: MIT
/* Drawn graphs node by node: where what is not finite goes, and which of them refuse their data. */
#include "ir/element.h"
#include "selftests/lib/fuzz_case.h"
#include "selftests/lib/rlx_test.h"

struct values {
	const struct fuzz_case *c;
	void			*leaf[FUZZ_LEAVES];
	struct rlx_tensor	 node[FUZZ_NODES][FUZZ_OUT];
};

static struct rlx_tensor value_of(const struct values *v, fuzz_ref r)
{
	if (r < 0)
		return (struct rlx_tensor){ 0 };
	if (r < FUZZ_LEAVES)
		return (struct rlx_tensor){ v->c->leaf[r].type, v->leaf[r] };
	r -= FUZZ_LEAVES;
	return v->node[r / FUZZ_OUT][r % FUZZ_OUT];
}

static bool is_finite(struct rlx_tensor t)
{
	int64_t n = t.data ? rlx_type_count(&t.type) : 0, i;

	if (t.type.dtype == RLX_C64) {	/* both halves */
		t.type.dtype = RLX_F32;
		n *= 2;
	} else if (!rlx_dtype_is_float(t.type.dtype)) {
		return true;
	}
	for (i = 0; i < n; i++)
		if (!isfinite(el_get(&t, i)))
			return false;
	return true;
}

/*
 * What a node may be given by another one as input @k, at most: the weights of attention_grad,
 * exp(scale q k' + bias - lse), are at most 1 by its contract, and beyond f32 where lse is of none
 * of these scores; the evaluator reckons them in f64.
 */
static double most(const struct rlx_op_def *d, uint32_t k)
{
	const bool q_or_k = k < 2, bias_or_lse = k == 3 || k == 7;

	if (d->index != RLX_OP_attention_grad || (!q_or_k && !bias_or_lse))
		return INFINITY;
	return q_or_k ? 1 : 16;
}

static bool is_within(struct rlx_tensor t, double top)
{
	int64_t n = t.data ? rlx_type_count(&t.type) : 0, i;

	for (i = 0; i < n && fabs(el_get(&t, i)) <= top; i++)
		;
	return i == n;
}

/* Is all finite that node @n is given from where it has to be, and within its contract? */
static bool is_given_well(const struct values *v, uint32_t n)
{
	const struct fuzz_node *node = &v->c->node[n];
	struct rlx_tensor t;
	uint32_t k;

	for (k = fuzz_finite_from(node->def); k < node->n_in; k++) {
		if (node->in[k] < FUZZ_LEAVES)
			continue;
		t = value_of(v, node->in[k]);
		if (!is_finite(t) || (most(node->def, k) < INFINITY &&
				      !is_within(t, most(node->def, k))))
			return false;
	}
	return true;
}

/* false: it refuses its data, or there is more than one rank to it. */
static bool evaluate(struct values *v, uint32_t n)
{
	const struct fuzz_node *node = &v->c->node[n];
	struct rlx_tensor in[RLX_SAMPLE_IN];
	struct rlx_error err = { 0 };
	uint32_t k;

	for (k = 0; k < node->n_in; k++)
		in[k] = value_of(v, node->in[k]);
	for (k = 0; k < node->n_out; k++) {
		v->node[n][k].type = node->out[k];
		v->node[n][k].data = calloc(1, (size_t)rlx_type_bytes(&node->out[k]) + 64);
		CHECK(v->node[n][k].data);
	}
	return !rlx_op_eval(&(struct rlx_eval){
		.err = &err, .def = node->def, .args = node->args, .n_in = node->n_in, .in = in,
		.n_out = node->n_out, .out = v->node[n],
	});
}

static struct values *values_new(const struct fuzz_case *c)
{
	struct values *v = calloc(1, sizeof(*v));
	uint32_t k;

	CHECK(v);
	v->c = c;
	for (k = 0; k < c->n_leaf; k++)
		v->leaf[k] = fuzz_data(c, k);
	return v;
}

static void values_free(struct values *v)
{
	uint32_t n, k;

	for (n = 0; n < v->c->n_node; n++)
		for (k = 0; k < FUZZ_OUT; k++)
			free(v->node[n][k].data);
	for (k = 0; k < v->c->n_leaf; k++)
		free(v->leaf[k]);
	free(v);
}

void fuzz_cut_nonfinite(struct fuzz_case *c)
{
	struct values *v = values_new(c);
	uint32_t n, end = c->n_node;

	for (n = 0; n < end; n++)
		if (!is_given_well(v, n))
			end = n;
		else if (!evaluate(v, n))
			break;
	values_free(v);
	c->n_node = end;
}

/* The first node that refuses its data; the number of nodes if none does. */
static uint32_t refusing(const struct fuzz_case *c)
{
	struct values *v = values_new(c);
	uint32_t n;

	for (n = 0; n < c->n_node && evaluate(v, n); n++)
		;
	values_free(v);
	return n;
}

/* Leaves in place of all that node @n gives; false: there is no room, or it is an output. */
static bool replace(struct fuzz_case *c, uint32_t n, uint32_t id)
{
	uint32_t was = c->n_node, i, k, o;

	for (o = 0; o < c->node[n].n_out; o++) {
		if (c->n_leaf == FUZZ_LEAVES || !fuzz_is_read(c, n, o))
			return false;
		c->leaf[c->n_leaf] = (struct fuzz_leaf){ .type = c->node[n].out[o], .id = id++ };
		for (i = n + 1; i < c->n_node; i++)
			for (k = 0; k < c->node[i].n_in; k++)
				if (c->node[i].in[k] == (fuzz_ref)(FUZZ_LEAVES + FUZZ_OUT * n + o))
					c->node[i].in[k] = (fuzz_ref)c->n_leaf;
		c->n_leaf++;
	}
	fuzz_prune(c);
	return c->n_node < was;
}

bool fuzz_replace_refusing(struct fuzz_case *c, uint32_t id)
{
	uint32_t n;

	for (n = refusing(c); n < c->n_node; n = refusing(c), id += FUZZ_OUT)
		if (!replace(c, n, id))
			return false;
	return true;
}
