// SPDX-License-Identifier: MIT
/*
 * Which ops the CPU backend runs by kernels, by dtype: every sample of every op is
 * compiled with RLX_COMPILE_NATIVE, its inputs given at run time and, but for the first,
 * as constants. What is left to the reference evaluator stands in
 * selftests/expect/native.txt with its reason, and nothing stands there that is not.
 *
 *	build/test/ops/native conv.f16 lstm.f32
 */
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

static const struct {
	const char	*name;
	enum rlx_dtype	 dtype;
} reals[] = {
	{ "f32", RLX_F32 }, { "f64", RLX_F64 }, { "f16", RLX_F16 }, { "bf16", RLX_BF16 },
	{ "f8e4m3", RLX_F8E4M3 }, { "f8e5m2", RLX_F8E5M2 },
};

enum { N_REALS = sizeof(reals) / sizeof(reals[0]) };

struct tally {
	unsigned int	tried, host;
	char		why[600];	/* the first on the host */
};

/* Has the case a float that another dtype could stand for? */
static bool has_real(const struct op_case *c)
{
	uint32_t k;

	for (k = 0; k < c->s.n_in; k++)
		if (c->s.in[k].dtype == RLX_F32)
			return true;
	return false;
}

static void compile(const struct op_case *c, unsigned int i, struct tally *t)
{
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = "cpu", .threads = 1, .flags = RLX_COMPILE_NATIVE,
	};
	struct rlx_graph *g = op_case_graph(c);
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st;

	if (rlx_graph_error(g)->status) {	/* not a dtype of this op's */
		rlx_graph_put(g);
		return;
	}
	t->tried++;
	st = rlx_compile(g, &o, &p, &err);
	if (st && !t->host++)
		snprintf(t->why, sizeof(t->why), "sample %u, %s: %s", i,
			 c->fixed ? "constants" : "inputs", err.text);
	rlx_program_put(p);
	rlx_graph_put(g);
}

static struct tally try_op(const struct rlx_op_def *def, enum rlx_dtype real)
{
	struct tally t = { 0 };
	struct op_case c;
	uint64_t seed = rlx_test_seed();
	unsigned int i;
	bool other;

	for (i = 0; op_case_init(&c, def, i, (enum rlx_dtype)0, &seed); i++) {
		other = real != RLX_F32;
		if (!(other && (c.s.f32_only || !has_real(&c)))) {
			op_case_fini(&c);
			CHECK(op_case_init(&c, def, i, real, &seed));
			compile(&c, i, &t);
			c.fixed = true;
			compile(&c, i, &t);
		}
		op_case_fini(&c);
	}
	return t;
}

static bool wanted(const char *name, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc < 2;
}

int main(int argc, char **argv)
{
	unsigned int n = 0, bad = 0, op, r;
	char name[64];
	struct tally t;

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* one list for every machine: the samples' blocks of channels are AVX-512's */
	setenv("RLX_ISA", "v3", 1);
	for (op = 0; op < rlx_op_count; op++)
		for (r = 0; r < N_REALS; r++) {
			snprintf(name, sizeof(name), "%s.%s", rlx_op_defs[op]->name, reals[r].name);
			if (!wanted(name, argc, argv))
				continue;
			t = try_op(rlx_op_defs[op], reals[r].dtype);
			if (!t.tried)
				continue;
			if (t.host)
				printf("# %u of %u on the host: %s\n", t.host, t.tried, t.why);
			printf("%sok %u %s\n", t.host ? "not " : "", ++n, name);
			bad += !!t.host;
		}
	printf("1..%u\n", n);
	return bad || !n;
}
