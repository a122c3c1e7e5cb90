// SPDX-License-Identifier: MIT
/*
 * Every sample of every op with a dimension of each of its inputs made 0, alone and wherever
 * that size stands, as far as the op's type rule follows: every device says and does what the
 * evaluator does. What has nothing to do runs nothing, and looks at no index.
 */
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

/* What is drawn and checked; the same for all devices. */
struct tally {
	unsigned int	cases, idle, refused;
};

/* Nothing was made 0 that is not so already, and the type rule follows. */
static bool is_case(const struct op_case *c)
{
	struct rlx_graph *g = op_case_graph(c);
	bool is = !rlx_graph_error(g)->status;

	rlx_graph_put(g);
	return is;
}

static void check_results(const struct op_case *c, const char *device, const struct op_result *got,
			  const struct op_result *truth)
{
	unsigned int k;
	double e;

	WANT(got->n_out == truth->n_out, "%s: %u outputs, not %u", c->def->name, got->n_out,
	     truth->n_out);
	for (k = 0; k < truth->n_out && k < got->n_out; k++) {
		e = op_result_error(got, truth, k);
		WANT(e <= op_result_bound(truth, k, c->s.tol), "%s output %u on %s: error %.3g",
		     c->def->name, k, device, e);
	}
}

static void check_case(const struct op_case *c, unsigned int i, const char *const *device,
		       unsigned int n, struct tally *t)
{
	struct op_result truth, got;
	struct rlx_error want, err;
	unsigned int d, k;
	bool idle = true;

	op_case_run(c, "ref", &truth, &want);
	for (k = 0; k < truth.n_out; k++)
		idle = idle && !rlx_type_count(&truth.type[k]);
	t->cases++;
	t->refused += want.status != RLX_OK;
	t->idle += !want.status && idle;
	for (d = 0; d < n; d++) {
		op_case_run(c, device[d], &got, &err);
		WANT(err.status == want.status, "%s sample %u on %s: %s (%s), ref: %s (%s)",
		     c->def->name, i, device[d], rlx_status_name(err.status), err.text,
		     rlx_status_name(want.status), want.text);
		if (!err.status && !want.status)
			check_results(c, device[d], &got, &truth);
		op_result_fini(&got);
	}
	op_result_fini(&truth);
}

/* Dimension @d of input @k becomes 0, and with @all the same size elsewhere. */
static void make_empty(struct op_case *c, uint32_t k, uint32_t d, bool all)
{
	int64_t from = c->s.in[k].dim[d];
	uint32_t i, j;

	c->s.in[k].dim[d] = 0;
	for (i = 0; all && i < c->s.n_in; i++)
		for (j = 0; j < c->s.in[i].rank; j++)
			if (c->s.in[i].dim[j] == from)
				c->s.in[i].dim[j] = 0;
}

static void check_sample(struct op_case *c, unsigned int i, const char *const *device,
			 unsigned int n, struct tally *t)
{
	struct rlx_type was[RLX_SAMPLE_IN], alone[RLX_SAMPLE_IN];
	uint32_t k, d;

	memcpy(was, c->s.in, sizeof(was));
	for (k = 0; k < c->s.n_in; k++)
		for (d = 0; d < was[k].rank && was[k].dtype; d++) {
			make_empty(c, k, d, false);
			memcpy(alone, c->s.in, sizeof(alone));
			if (was[k].dim[d] && is_case(c))
				check_case(c, i, device, n, t);
			memcpy(c->s.in, was, sizeof(was));
			make_empty(c, k, d, true);
			if (was[k].dim[d] && memcmp(alone, c->s.in, sizeof(alone)) && is_case(c))
				check_case(c, i, device, n, t);
			memcpy(c->s.in, was, sizeof(was));
		}
}

TEST(inputs)
{
	const char *const device[] = { "cpu", getenv("RLX_TEST_GPU") };
	unsigned int d, i, n = device[1] ? 2 : 1;
	struct tally t = { 0 };
	struct op_case c;
	uint64_t seed;

	for (d = 0; d < rlx_op_count; d++)
		for (i = 0; seed = rlx_test_seed() + d * 1000 + i,
		     op_case_init(&c, rlx_op_defs[d], i, (enum rlx_dtype)0, &seed); i++) {
			check_sample(&c, i, device, n, &t);
			op_case_fini(&c);
		}
	printf("# %u cases, %u of which nothing comes, %u refused\n", t.cases, t.idle, t.refused);
	CHECKF(getenv("RLX_TEST_OPS") || (t.cases > 1000 && t.idle > 500), "too few");
	CHECKF(!op_case_failures, "%u failed", op_case_failures);
}

TEST_MAIN()
