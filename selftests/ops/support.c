// SPDX-License-Identifier: MIT
/* Who runs an op: what is told of a node is what compiling it gives. */
#include <stdlib.h>

#include "base/alloc.h"
#include "ir/graph.h"
#include "rlx/compile.h"
#include "rlx/dims.h"
#include "rlx/log.h"
#include "rlx/reflect.h"
#include "selftests/lib/host_op.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"

/* The sample with inputs alone, in a graph that goes on behind it. */
static struct rlx_graph *graph_of(const struct rlx_op_def *def, const struct rlx_sample *s,
				  rlx_value *v)
{
	struct rlx_graph *g = rlx_graph_new("sample");
	uint32_t in[RLX_SAMPLE_IN] = { 0 }, i;
	char name[16];

	for (i = 0; i < s->n_in; i++) {
		snprintf(name, sizeof(name), "%u", i);
		if (s->in[i].dtype)
			in[i] = rlx_input(g, name, s->in[i]).id;
	}
	*v = rlx_node_new(g, def, s->args, in, s->n_in > def->n_fixed ? s->n_in : def->n_fixed,
			  NULL);
	for (i = 0; rlx_out(g, *v, i).id; i++) {
		snprintf(name, sizeof(name), "y%u", i);
		rlx_output(g, name, rlx_out(g, *v, i));
	}
	return g;
}

/* What the program of all of @g says: NONE, HOST, or anything above. */
static enum rlx_support by_program(struct rlx_graph *g, const char *device)
{
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = device, .threads = 1,
		.flags = RLX_COMPILE_NO_FUSE | RLX_COMPILE_NO_SIMPLIFY,
	};
	struct rlx_program_info info;
	struct rlx_program *p = NULL;

	if (rlx_compile(g, &o, &p, NULL))
		return RLX_SUPPORT_NONE;
	rlx_program_info(p, &info);
	rlx_program_put(p);
	return info.host ? RLX_SUPPORT_HOST : RLX_SUPPORT_EXPANDED;
}

static unsigned int told[RLX_SUPPORT_NATIVE + 1];

static void check_sample(const struct rlx_op_def *def, const struct rlx_sample *s,
			 const char *device)
{
	enum rlx_support by = RLX_SUPPORT_NONE, want;
	struct rlx_error why = { 0 };
	rlx_value v;
	struct rlx_graph *g = graph_of(def, s, &v);

	if (!rlx_graph_finish(g)) {
		CHECKF(!rlx_node_support(g, v, device, &by, &why), "%s: %s", def->name, why.text);
		want = by_program(g, device);
		CHECKF((by < RLX_SUPPORT_EXPANDED ? by : RLX_SUPPORT_EXPANDED) == want,
		       "%s on %s: %d is told, %d it is", def->name, device, by, want);
		CHECKF((by < RLX_SUPPORT_EXPANDED) == !!why.text[0], "%s: %d, \"%s\"", def->name,
		       by, why.text);
		told[by]++;
	}
	rlx_graph_put(g);
}

static void drop_line(void *ctx, enum rlx_log_level level, const char *line)
{
	(void)ctx;
	(void)level;
	(void)line;
}

/* Every op's own samples, in f32 and in f16. */
static void samples_on(const char *device)
{
	struct rlx_sample *s = calloc(1, sizeof(*s));
	unsigned int op, i, half;
	uint32_t k;

	CHECK(s);
	for (op = 0; op < 2 * rlx_op_count; op++) {
		const struct rlx_op_def *def = rlx_op_defs[op / 2];
		void *args = calloc(1, def->args_size + 1u);

		CHECK(args);
		for (i = 0, half = op % 2; i < 12; i++) {
			memset(s, 0, sizeof(*s));
			memset(args, 0, def->args_size);
			s->def = def;
			s->args = args;
			if (rlx_sample_get(i, s)) {
				for (k = 0; half && k < s->n_in; k++)
					if (s->in[k].dtype == RLX_F32)
						s->in[k].dtype = RLX_F16;
				check_sample(def, s, device);
			}
			for (k = 0; k < s->n_graphs; k++)
				rlx_graph_put(s->graphs[k]);
		}
		free(args);
	}
	free(s);
}

TEST(r032_samples_are_as_they_compile)
{
	rlx_log_set(drop_line, NULL);
	samples_on("cpu");
	CHECKF(told[RLX_SUPPORT_NATIVE] > 200 && told[RLX_SUPPORT_EXPANDED] > 10 &&
	       told[RLX_SUPPORT_WIDENED] > 10, "%u %u %u", told[RLX_SUPPORT_NATIVE],
	       told[RLX_SUPPORT_EXPANDED], told[RLX_SUPPORT_WIDENED]);
	samples_on("ref");
}

static enum rlx_status both(void *ctx)
{
	const struct rlx_graph *g = ctx;
	enum rlx_support by = RLX_SUPPORT_NONE;
	struct rlx_error why = { 0 };
	enum rlx_status st = rlx_node_support(g, rlx_graph_io_value(g, RLX_IO_OUTPUT, 0), "cpu",
					      &by, &why);

	CHECK(st || by == RLX_SUPPORT_NATIVE);
	CHECKF(st == why.status, "%s: %s", rlx_status_name(st), why.text);
	return st;
}

/* Of each node of one graph; weights that are constants, an operand taken twice, leaves. */
TEST(r032_nodes_of_a_graph)
{
	static const float w[16];
	struct rlx_graph *g = rlx_graph_new("nodes");
	struct rlx_type t = rlx_type(RLX_F32, 4, 4);
	rlx_value x = rlx_input(g, "x", t), c = rlx_constant(g, t, w);
	rlx_value m = rlx_emit(g, matmul, .a = x, .b = c), a = rlx_emit(g, add, .a = m, .b = m);
	rlx_value p = rlx_param(g, "p", t), y = rlx_emit(g, mul, .a = a, .b = p);
	const rlx_value all[] = { x, c, m, a, p, y };
	enum rlx_support by;
	struct rlx_error why = { 0 };
	unsigned int i;

	rlx_output(g, "y", y);
	CHECK_EQ(rlx_node_support(g, y, "cpu", &by, &why), RLX_EINVAL);	/* not finished */
	CHECK(!rlx_graph_finish(g));
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		by = RLX_SUPPORT_NONE;
		CHECK_EQ(rlx_node_support(g, all[i], "cpu", &by, NULL), 0);
		CHECK_EQ(by, RLX_SUPPORT_NATIVE);
	}
	why = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_node_support(g, RLX_NONE, "cpu", &by, &why), RLX_ERANGE);
	CHECK_EQ(rlx_node_support(g, (rlx_value){ UINT32_MAX }, "cpu", &by, NULL), RLX_ERANGE);
	CHECK_EQ(rlx_node_support(g, y, "abacus", &by, NULL), RLX_ENODEV);
	CHECK_EQ(rlx_node_support(NULL, y, "cpu", &by, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_node_support(g, y, "cpu", NULL, NULL), RLX_EINVAL);
	CHECK_EQ(both(g), 0);
	CHECK(rlx_oom_sweep(both, g) > 20);
	rlx_graph_put(g);
}

static void host_on(const char *device)
{
	struct rlx_graph *g = rlx_graph_new("host");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4)), n = host_op(g, x);
	rlx_value y = rlx_emit(g, neg, .x = x);
	struct rlx_error why = { 0 };
	enum rlx_support by;

	rlx_output(g, "n", n);
	rlx_output(g, "y", y);
	CHECK(!rlx_graph_finish(g));
	CHECKF(!rlx_node_support(g, n, device, &by, &why), "%s", why.text);
	CHECK_EQ(by, RLX_SUPPORT_HOST);
	CHECKF(strstr(why.text, "no kernel here for on_host of f32"), "%s", why.text);
	CHECK_EQ(by_program(g, device), RLX_SUPPORT_HOST);
	CHECKF(!rlx_node_support(g, y, device, &by, NULL), "%s", device);
	CHECK_EQ(by, RLX_SUPPORT_NATIVE);
	rlx_graph_put(g);
}

TEST(r032_what_the_host_runs)
{
	rlx_log_set(drop_line, NULL);
	host_on("cpu");
	if (getenv("RLX_TEST_GPU"))
		host_on(getenv("RLX_TEST_GPU"));
}

TEST(r032_sizes_must_be_known)
{
	struct rlx_graph *g = rlx_graph_new("dims");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, rlx_dim(g, "n", 1, 8)));
	struct rlx_error why = { 0 };
	enum rlx_support by;

	x = rlx_emit(g, neg, .x = x);
	rlx_output(g, "y", x);
	CHECK(!rlx_graph_finish(g));
	CHECK_EQ(rlx_node_support(g, x, "cpu", &by, &why), RLX_EINVAL);
	CHECKF(strstr(why.text, "node support"), "%s", why.text);
	rlx_graph_put(g);
}

TEST_MAIN()
