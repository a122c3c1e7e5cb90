// SPDX-License-Identifier: MIT
/*
 * What the differential fuzzer takes for granted of the ops it strings together: that only
 * those it knows of jump where their input is off by a rounding, and that only those it
 * knows of leave the range of f32 from numbers that are not large.
 */
#include "ir/element.h"
#include "ir/eval.h"
#include "selftests/lib/fuzz_case.h"
#include "selftests/lib/rlx_test.h"

enum { SAMPLES = 64 };

struct result {
	enum rlx_status	  status;
	unsigned int	  n;
	struct rlx_tensor t[FUZZ_OUTPUTS];
};

static void *room(const struct rlx_type *t)
{
	void *p = calloc(1, (size_t)rlx_type_bytes(t) + 64);

	CHECK(p);
	return p;
}

/* Leaf @k with f32 as f64, each off by up to @off of itself. */
static void *wide_data(const struct fuzz_case *c, uint32_t k, double off)
{
	struct rlx_tensor x = { c->leaf[k].type, fuzz_data(c, k) }, y = { c->leaf[k].type, NULL };
	uint64_t seed = k + 1;
	int64_t i;

	if (x.type.dtype != RLX_F32)
		return x.data;
	y.type.dtype = RLX_F64;
	y.data = room(&y.type);
	for (i = 0; i < rlx_type_count(&x.type); i++)
		el_set(&y, i, el_get(&x, i) * (1 + off * rlx_test_uniform(&seed, -1, 1)));
	free(x.data);
	return y.data;
}

static void evaluate(const struct fuzz_case *c, double off, struct result *r)
{
	struct rlx_tensor in[FUZZ_LEAVES];
	struct rlx_error err = { 0 };
	void *data[FUZZ_LEAVES];
	struct rlx_graph *g;
	uint32_t k;

	for (k = 0; k < c->n_leaf; k++)
		data[k] = wide_data(c, k, off);
	g = fuzz_graph(c, data, RLX_F32, 0, 0);
	r->status = rlx_graph_error(g)->status;
	r->n = r->status ? 0 : rlx_graph_io_count(g, RLX_IO_OUTPUT);
	for (k = 0; !r->status && k < c->n_leaf; k++)
		in[k] = (struct rlx_tensor){
			*rlx_type_of(g, rlx_graph_io_value(g, RLX_IO_INPUT, k)), data[k] };
	for (k = 0; k < r->n; k++) {
		r->t[k].type = *rlx_type_of(g, rlx_graph_io_value(g, RLX_IO_OUTPUT, k));
		r->t[k].data = room(&r->t[k].type);
	}
	if (!r->status)
		r->status = rlx_graph_eval(g, in, r->t, &err);
	for (k = 0; k < c->n_leaf; k++)
		free(data[k]);
	rlx_graph_put(g);
}

static void result_free(struct result *r)
{
	unsigned int k;

	for (k = 0; k < r->n; k++)
		free(r->t[k].data);
}

static bool is_alike(const struct rlx_tensor *a, const struct rlx_tensor *b)
{
	int64_t i;

	if (a->type.dtype == RLX_C64)
		return true;
	for (i = 0; i < rlx_type_count(&a->type); i++) {
		double x, y;

		if (el_is_int(a->type.dtype)) {
			if (el_geti(a, i) != el_geti(b, i))
				return false;
			continue;
		}
		x = el_get(a, i);
		y = el_get(b, i);
		if (isfinite(x) != isfinite(y) ||
		    (isfinite(x) && fabs(x - y) > 1e-4 * (1 + fabs(x))))
			return false;
	}
	return true;
}

/* Does it do nearly the same to inputs that are nearly the same, ties among them? */
static void check_sample(struct fuzz_case *c, uint32_t i)
{
	static const uint8_t draws[] = { FUZZ_EVEN, FUZZ_COARSE, FUZZ_ALIKE };
	const struct rlx_op_def *d = c->node[0].def;
	struct result a, b;
	uint32_t n, k;

	for (n = 0; n < sizeof(draws); n++) {
		for (k = 0; k < c->n_leaf; k++)
			c->leaf[k].draw = draws[n];
		evaluate(c, 0, &a);
		evaluate(c, 0x1p-30, &b);
		CHECKF(a.status == b.status, "%s, sample %u: %s, %s of nearly the same", d->name, i,
		       rlx_status_name(a.status), rlx_status_name(b.status));
		for (k = 0; !a.status && k < a.n; k++)
			CHECKF(is_alike(&a.t[k], &b.t[k]), "%s, sample %u: output %u jumps", d->name,
			       i, k);
		result_free(&a);
		result_free(&b);
	}
}

TEST(jumps)
{
	struct fuzz_case *c = malloc(sizeof(*c));
	uint32_t d, i, seen = 0;

	CHECK(c);
	for (d = 0; d < rlx_op_count; d++) {
		if (fuzz_is_stepped(rlx_op_defs[d]))
			continue;
		for (i = 0; i < SAMPLES; i++)
			if (fuzz_draw_sample(c, rlx_op_defs[d], i)) {
				check_sample(c, i);
				seen++;
			}
	}
	CHECKF(seen > 100, "%u samples", seen);
	free(c);
}

/* The largest of a result's floats. */
static double largest(const struct result *r)
{
	double most = 0;
	unsigned int k;
	int64_t i;

	for (k = 0; k < r->n; k++)
		for (i = 0; r->t[k].type.dtype == RLX_F64 &&
		     i < rlx_type_count(&r->t[k].type); i++)
			most = fmax(most, fabs(el_get(&r->t[k], i)));
	return most;
}

/* Sizes up to 255 become bounds of ranges. */
TEST(range)
{
	struct fuzz_case *c = malloc(sizeof(*c));
	uint32_t d, k, seen = 0;
	struct result r;

	CHECK(c);
	for (d = 0; d < rlx_op_count; d++) {
		const struct rlx_op_def *def = rlx_op_defs[d];

		if (!(def->traits & RLX_T_ELEMENTWISE) || def->traits & RLX_T_STEEP ||
		    !fuzz_draw_sample(c, def, 0))
			continue;
		for (k = 0; k < c->n_leaf; k++)
			if (c->leaf[k].type.dtype == RLX_F32) {
				c->leaf[k].lo = 1;
				c->leaf[k].hi = 255;
			}
		evaluate(c, 0, &r);
		CHECK_EQ(r.status, RLX_OK);
		CHECKF(largest(&r) < 0x1p64, "%s comes to %g", def->name, largest(&r));
		result_free(&r);
		seen++;
	}
	CHECKF(seen > 20, "%u ops", seen);
	free(c);
}

TEST_MAIN()
