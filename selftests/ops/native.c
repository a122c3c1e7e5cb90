// SPDX-License-Identifier: MIT
/*
 * Which ops the CPU backend runs by kernels, by dtype: every sample of every op is
 * compiled with RLX_COMPILE_NATIVE, its inputs given at run time and, but for the first,
 * as constants. What is left to the reference evaluator stands in
 * selftests/expect/native.txt with its reason, and nothing stands there that is not.
 * Samples that nothing goes into are told of as "empty-conv.f16".
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
	{ "i8", RLX_I8 }, { "u8", RLX_U8 }, { "i16", RLX_I16 }, { "u16", RLX_U16 },
	{ "i32", RLX_I32 }, { "u32", RLX_U32 }, { "i64", RLX_I64 }, { "u64", RLX_U64 },
	{ "bool", RLX_BOOL }, { "c64", RLX_C64 },
};

enum { N_REALS = sizeof(reals) / sizeof(reals[0]) };

struct tally {
	unsigned int	tried, host;
	char		why[600];	/* the first on the host */
};

static bool is_empty(const struct op_case *c)
{
	uint32_t k;

	for (k = 0; k < c->s.n_in; k++)
		if (c->s.in[k].dtype && !rlx_type_count(&c->s.in[k]))
			return true;
	return false;
}

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

static void try_op(const struct rlx_op_def *def, enum rlx_dtype real, struct tally tally[2])
{
	struct tally *t;
	struct op_case c;
	uint64_t seed = rlx_test_seed();
	unsigned int i;
	bool other;

	for (i = 0; op_case_init(&c, def, i, (enum rlx_dtype)0, &seed); i++) {
		other = real != RLX_F32;
		if (!(other && (c.s.f32_only || !has_real(&c)))) {
			op_case_fini(&c);
			CHECK(op_case_init(&c, def, i, real, &seed));
			t = &tally[is_empty(&c)];
			compile(&c, i, t);
			c.fixed = true;
			compile(&c, i, t);
		}
		op_case_fini(&c);
	}
}

/* The result of @t, if there is one: is something on the host? */
static bool tell(const struct tally *t, const char *prefix, const char *name, unsigned int *n)
{
	if (!t->tried)
		return false;
	if (t->host)
		printf("# %u of %u on the host: %s\n", t->host, t->tried, t->why);
	printf("%sok %u %s%s\n", t->host ? "not " : "", ++*n, prefix, name);
	return t->host;
}

int main(int argc, char **argv)
{
	unsigned int n = 0, op, r;
	bool bad = false;
	char name[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* one list for every machine: the samples' blocks of channels are AVX-512's */
	setenv("RLX_ISA", "v3", 1);
	for (op = 0; op < rlx_op_count; op++)
		for (r = 0; r < N_REALS; r++) {
			struct tally t[2] = { 0 };

			snprintf(name, sizeof(name), "%s.%s", rlx_op_defs[op]->name, reals[r].name);
			if (!rlx_test_wanted(name, argc, argv))
				continue;
			try_op(rlx_op_defs[op], reals[r].dtype, t);
			bad |= tell(&t[0], "", name, &n);
			bad |= tell(&t[1], "empty-", name, &n);
		}
	printf("1..%u\n", n);
	return bad || !n;
}
