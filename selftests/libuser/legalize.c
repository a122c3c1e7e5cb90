// SPDX-License-Identifier: MIT
/*
 * Type legalization on the CPU: what has no kernel for its dtype runs in a wider one and
 * rounds as it did; how it is put between conversions, and what is told of the host.
 */
#include <stdatomic.h>

#include "backends/cpu/cpu.h"
#include "ir/element.h"
#include "ir/graph.h"
#include "rlx/grad.h"
#include "rlx/log.h"
#include "selftests/lib/host_op.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

static rlx_value weights(struct rlx_graph *g, struct rlx_type t, uint64_t *seed)
{
	int64_t n = rlx_type_count(&t), i;
	uint16_t *p;
	rlx_value v;

	if (t.dtype == RLX_F32) {
		t.dtype = RLX_BF16;
		return rlx_emit(g, cast, .x = weights(g, t, seed), .to = RLX_F32);
	}
	p = malloc((size_t)n * 2);
	CHECK(p);
	for (i = 0; i < n; i++)		/* 2^-4 to 2^-3, either sign: f16 and bf16 have it */
		p[i] = (uint16_t)((rlx_test_rand(seed) & 1) << 15 |
				  (t.dtype == RLX_F16 ? 0x2c00 | (rlx_test_rand(seed) & 0x3ff) :
							0x3d80 | (rlx_test_rand(seed) & 0x7f)));
	v = rlx_constant(g, t, p);
	free(p);
	return v;
}

/* Two convolutions with a pool between, all in @dt; the first has a second reader. */
static struct rlx_graph *net(enum rlx_dtype dt, uint64_t *seed)
{
	struct rlx_graph *g = rlx_graph_new("net");
	rlx_value x = rlx_input(g, "x", rlx_type(dt, 2, 3, 12, 12)), a, b;

	a = rlx_emit(g, conv, .x = x, .w = weights(g, rlx_type(dt, 16, 3, 3, 3), seed),
		     .bias = weights(g, rlx_type(dt, 16), seed), .pad = RLX_INTS(1, 1, 1, 1));
	a = rlx_emit(g, relu, .x = a);
	b = rlx_emit(g, conv, .x = a, .w = weights(g, rlx_type(dt, 16, 16, 3, 3), seed),
		     .pad = RLX_INTS(1, 1, 1, 1));
	b = rlx_emit(g, add, .a = b, .b = a);
	b = rlx_emit(g, sigmoid, .x = b);
	b = rlx_emit(g, pool, .x = b, .kind = RLX_POOL_AVG, .kernel = RLX_INTS(2, 2),
		     .stride = RLX_INTS(2, 2));
	rlx_output(g, "y", b);
	CHECK(!rlx_graph_finish(g));
	return g;
}

static struct rlx_program *compile(struct rlx_graph *g, const char *device, uint32_t flags)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device, .flags = flags };
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	return p;
}

/* Does this machine multiply pairs of bf16, faster than f32? Its convolutions stay as they are. */
static bool pairs_gain(void)
{
	return cpu_pairs_gain(cpu_isa_detect());
}

static void all_read(const struct rlx_graph *g, uint32_t op, enum rlx_dtype dt)
{
	uint32_t i, k;

	for (i = 0; i < g->n_node; i++)
		for (k = 0; g->node[i].def->index == op && k < g->node[i].n_in; k++)
			CHECK(!g->node[i].in[k] ||
			      g->val[g->node[i].in[k]].type.dtype == dt);
}

static void no_op_is_narrow(const struct rlx_graph *g, uint32_t op)
{
	all_read(g, op, RLX_F32);
}

/* What it does not change is the program's face. */
static void widened(enum rlx_dtype dt)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_graph *g = net(dt, &seed);
	struct rlx_program *p = compile(g, "cpu", RLX_COMPILE_NATIVE), *ref;
	const struct rlx_graph *left = rlx_program_graph(p);

	CHECK_EQ(rlx_program_io_type(p, RLX_IO_INPUT, 0)->dtype, dt);
	CHECK_EQ(rlx_program_io_type(p, RLX_IO_OUTPUT, 0)->dtype, dt);
	CHECK_EQ(rig_count(left, RLX_OP_conv) + rig_count(left, RLX_OP_fused_conv), 2);
	all_read(left, RLX_OP_fused_conv, dt == RLX_BF16 && pairs_gain() ? dt : RLX_F32);
	no_op_is_narrow(left, RLX_OP_pool);
	/* the oracle runs the graph as it is written */
	ref = compile(g, "ref", 0);
	CHECK_EQ(rig_count(rlx_program_graph(ref), RLX_OP_cast), 0);
	rlx_program_put(ref);
	rlx_program_put(p);
	/* as do those who want no rewriting, but for the conversions */
	p = compile(g, "cpu", RLX_COMPILE_NO_FUSE | RLX_COMPILE_NO_SIMPLIFY);
	CHECK(rig_count(rlx_program_graph(p), RLX_OP_cast) > 0);
	rlx_program_put(p);
	rlx_graph_put(g);
}

/* What the policy makes: casts, and convolutions and products of f32. */
struct policy {
	unsigned int	casts, wide;
};

static void after_policy(void *ctx, const char *pass, const struct rlx_graph *g)
{
	struct policy *p = ctx;
	uint32_t i;

	if (strcmp(pass, "precision"))
		return;
	p->casts = rig_count(g, RLX_OP_cast);
	p->wide = 0;
	for (i = 0; i < g->n_node; i++)
		p->wide += (g->node[i].def->index == RLX_OP_conv ||
			    g->node[i].def->index == RLX_OP_fused_conv ||
			    g->node[i].def->index == RLX_OP_fused_matmul) &&
			   g->val[g->node[i].out].type.dtype == RLX_F32;
}

/*
 * Mixed precision: convolutions without a kernel of 16 bits stay in f32, with what lies between
 * them; a conversion before and behind each would make them slower than as written.
 */
TEST(mixed_precision_leaves_convolutions_wide)
{
	struct policy p = { 0 };
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu",
				      .precision = RLX_PRECISION_MIXED_BF16,
				      .flags = RLX_COMPILE_NATIVE, .dump = after_policy,
				      .dump_ctx = &p };
	uint64_t seed = rlx_test_seed();
	struct rlx_graph *g = net(RLX_F32, &seed), *h = rlx_graph_new("product");
	struct rlx_program *program;
	struct rlx_error err = { 0 };
	rlx_value x, w, y;

	CHECKF(!rlx_compile(g, &o, &program, &err), "%s", err.text);
	rlx_program_put(program);
	rlx_graph_put(g);
	CHECK_EQ(p.wide, pairs_gain() ? 0 : 2);
	CHECK(pairs_gain() ? p.casts > 0 : p.casts == 0);

	/* what has such a kernel is as before */
	x = rlx_input(h, "x", rlx_type(RLX_F32, 8, 64));
	w = weights(h, rlx_type(RLX_F32, 64, 64), &seed);
	x = rlx_emit(h, relu, .x = rlx_emit(h, matmul, .a = x, .b = w));
	y = rlx_emit(h, fused_matmul, .a = x, .b = w, .residual = x);
	rlx_output(h, "y", rlx_emit(h, matmul, .a = y, .b = w));
	CHECK(!rlx_graph_finish(h));
	CHECKF(!rlx_compile(h, &o, &program, &err), "%s", err.text);
	rlx_program_put(program);
	rlx_graph_put(h);
	CHECK(p.casts >= 2);
	CHECK_EQ(p.wide, 0);	/* a residual becomes what the product does */
}

/* Likewise where products alone are rounded; what asks for it is widened, and rounded behind. */
TEST(rounded_operands_leave_convolutions_wide)
{
	struct policy p = { 0 };
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu",
				      .precision = RLX_PRECISION_F16,
				      .flags = RLX_COMPILE_NATIVE, .dump = after_policy,
				      .dump_ctx = &p };
	uint64_t seed = rlx_test_seed();
	struct rlx_graph *g = net(RLX_F32, &seed), *h = rlx_graph_new("written");
	struct rlx_program *program;
	struct rlx_error err = { 0 };
	rlx_value x, w;

	CHECKF(!rlx_compile(g, &o, &program, &err), "%s", err.text);
	rlx_program_put(program);
	rlx_graph_put(g);
	CHECK_EQ(p.wide, 2);
	CHECK_EQ(p.casts, 0);

	x = rlx_input(h, "x", rlx_type(RLX_F16, 2, 3, 12, 12));
	w = weights(h, rlx_type(RLX_F16, 16, 3, 3, 3), &seed);
	x = rlx_emit(h, fused_conv, .x = x, .w = w, .out_dtype = RLX_F32);
	rlx_output(h, "y", rlx_emit(h, cast, .x = x, .to = RLX_BF16));
	CHECK(!rlx_graph_finish(h));
	program = compile(h, "cpu", RLX_COMPILE_NATIVE);
	no_op_is_narrow(rlx_program_graph(program), RLX_OP_fused_conv);
	CHECK_EQ(rlx_program_io_type(program, RLX_IO_OUTPUT, 0)->dtype, RLX_BF16);
	rlx_program_put(program);
	rlx_graph_put(h);
}

TEST(convolutions_of_f16_are_widened) { widened(RLX_F16); }
TEST(convolutions_of_bf16_are_widened_unless_pairs_gain) { widened(RLX_BF16); }

static void run(struct rlx_graph *g, const char *device, const void *x, size_t n_x, void *y,
		size_t n_y)
{
	struct rlx_program *p = compile(g, device, 0);
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	CHECK_EQ(rlx_type_bytes(rlx_program_io_type(p, RLX_IO_INPUT, 0)), n_x);
	CHECK_EQ(rlx_type_bytes(rlx_program_io_type(p, RLX_IO_OUTPUT, 0)), n_y);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", *rlx_program_io_type(p, RLX_IO_INPUT, 0), x));
	memset(y, 0xa5, n_y);
	CHECK(!rlx_session_run(s));
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", *rlx_program_io_type(p, RLX_IO_OUTPUT, 0),
			       y));
	rlx_session_free(s);
	rlx_program_put(p);
}

static double cosine(const struct rlx_tensor *a, const struct rlx_tensor *b)
{
	double ab = 0, aa = 0, bb = 0, x, y;
	int64_t i;

	for (i = 0; i < rlx_type_count(&a->type); i++) {
		x = el_get(a, i);
		y = el_get(b, i);
		ab += x * y;
		aa += x * x;
		bb += y * y;
	}
	CHECK(aa > 0 && bb > 0);
	return ab / sqrt(aa * bb);
}

static struct rlx_tensor fresh(const struct rlx_type *t)
{
	struct rlx_tensor r = { *t, malloc((size_t)rlx_type_bytes(t)) };

	CHECK(r.data);
	memset(r.data, 0xa5, (size_t)rlx_type_bytes(t));
	return r;
}

/* Outputs of one run of @g, whose inputs are drawn with @seed. */
static void run_drawn(struct rlx_graph *g, const char *device, uint64_t seed,
		      struct rlx_tensor *out)
{
	struct rlx_program *p = compile(g, device, RLX_COMPILE_NATIVE);
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	unsigned int i;
	int64_t k;

	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	for (i = 0; i < rlx_program_io_count(p, RLX_IO_INPUT); i++) {
		struct rlx_tensor t = fresh(rlx_program_io_type(p, RLX_IO_INPUT, i));

		for (k = 0; k < rlx_type_count(&t.type); k++)
			el_set(&t, k, rlx_test_uniform(&seed, -1, 1));
		CHECK(!rlx_session_set(s, RLX_IO_INPUT, rlx_program_io_name(p, RLX_IO_INPUT, i),
				       t.type, t.data));
		free(t.data);
	}
	CHECK(!rlx_session_run(s));
	for (i = 0; i < rlx_program_io_count(p, RLX_IO_OUTPUT); i++) {
		out[i] = fresh(rlx_program_io_type(p, RLX_IO_OUTPUT, i));
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, rlx_program_io_name(p, RLX_IO_OUTPUT, i),
				       out[i].type, out[i].data));
	}
	rlx_session_free(s);
	rlx_program_put(p);
}

/* A convolution's result and gradient in @dt, by kernels, are those of the reference. */
static void differentiate(enum rlx_dtype dt)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_graph *g = net(dt, &seed), *d = NULL;
	struct rlx_tensor cpu[2], ref[2];
	rlx_value x = g->io[RLX_IO_INPUT].e[0].v;
	struct rlx_error err = { 0 };
	int i;

	CHECKF(!rlx_graph_vjp(g, &x, 1, &d, &err), "%s", err.text);
	run_drawn(d, "cpu", seed, cpu);
	run_drawn(d, "ref", seed, ref);
	for (i = 0; i < 2; i++) {
		CHECKF(cosine(&cpu[i], &ref[i]) > 0.9995, "output %d: cosine %.7f", i,
		       cosine(&cpu[i], &ref[i]));
		free(cpu[i].data);
		free(ref[i].data);
	}
	rlx_graph_put(d);
	rlx_graph_put(g);
}

TEST(gradients_in_f16_are_native) { differentiate(RLX_F16); }
TEST(gradients_in_bf16_are_native) { differentiate(RLX_BF16); }

/*
 * Each result is rounded where the graph says. Sums of small integers are exact in f32, so
 * that all that differs between a program that rounds and one that does not is the rounding:
 * (2048 + 1) - 2048 is 0 in f16, (256 + 1) - 256 in bf16.
 */
static void rounds(enum rlx_dtype dt, float large)
{
	struct rlx_graph *g = rlx_graph_new("rounds");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 1, 1, 4, 4)), y, w, one;
	const float ones = 1;
	float in[16], out[16];
	int i;

	one = rlx_constant(g, rlx_type(RLX_F32, 1, 1, 1, 1), &ones);
	w = rlx_emit(g, cast, .x = one, .to = dt);
	y = rlx_emit(g, cast, .x = x, .to = dt);
	y = rlx_emit(g, conv, .x = y, .w = w,
		     .bias = rlx_emit(g, reshape, .x = w, .shape = RLX_INTS(1)));
	y = rlx_emit(g, cast, .x = y, .to = RLX_F32);
	rlx_output(g, "y", rlx_emit(g, sub, .a = y, .b = x));
	CHECK(!rlx_graph_finish(g));
	for (i = 0; i < 16; i++)
		in[i] = i % 2 ? large : (float)i;
	run(g, "cpu", in, sizeof(in), out, sizeof(out));
	for (i = 0; i < 16; i++)
		CHECKF(out[i] == (i % 2 ? 0 : 1), "element %d is %g", i, (double)out[i]);
	rlx_graph_put(g);
}

/* Maxima may be those of what a product rounds, but only where they too have a kernel for it. */
TEST(maxima_of_what_is_rounded)
{
	struct rlx_graph *g = rlx_graph_new("maxima");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_BF16, 16, 8)), y;
	uint64_t seed = rlx_test_seed();
	struct rlx_program *p;

	y = rlx_emit(g, fused_matmul, .a = x, .b = weights(g, rlx_type(RLX_BF16, 8, 8), &seed),
		     .out_dtype = RLX_F32);
	y = rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(1, 2, 8, 8));
	y = rlx_emit(g, pool, .x = y, .kind = RLX_POOL_MAX, .kernel = RLX_INTS(2, 2));
	rlx_output(g, "y", rlx_emit(g, cast, .x = y, .to = RLX_BF16));
	CHECK(!rlx_graph_finish(g));
	p = compile(g, "cpu", RLX_COMPILE_NATIVE);
	CHECK_EQ(rig_count(rlx_program_graph(p), RLX_OP_pool), 1);
	rlx_program_put(p);
	rlx_graph_put(g);
}

TEST(results_round_to_f16) { rounds(RLX_F16, 2048); }
TEST(results_round_to_bf16) { rounds(RLX_BF16, 256); }

/* Integers to their ends: one that a float does not hold would come back as another. */
static void maxima(enum rlx_dtype dt, uint64_t *seed)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .flags = RLX_COMPILE_NATIVE };
	struct rlx_graph *g = rlx_graph_new("maxima");
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	int64_t in[2 * 3 * 9 * 7], cpu[2 * 3 * 9 * 7], ref[2 * 3 * 9 * 7];
	size_t n = 2 * 3 * 9 * 7 * rlx_dtype_size(dt), i;

	rlx_output(g, "y", rlx_emit(g, pool, .x = rlx_input(g, "x", rlx_type(dt, 2, 3, 9, 7)),
				    .kernel = RLX_INTS(3, 3), .pad = RLX_INTS(1, 1, 1, 1)));
	CHECK(!rlx_graph_finish(g));
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	CHECK(rig_count(rlx_program_graph(p), RLX_OP_pool) == 1);
	rlx_program_put(p);
	for (i = 0; i < sizeof(in) / sizeof(*in); i++)
		in[i] = (int64_t)rlx_test_rand(seed);
	run(g, "cpu", in, n, cpu, n);
	run(g, "ref", in, n, ref, n);
	CHECK(!memcmp(cpu, ref, n));
	rlx_graph_put(g);
}

TEST(maxima_of_integers_are_theirs)
{
	uint64_t seed = rlx_test_seed();
	enum rlx_dtype dt;

	for (dt = RLX_I8; dt < RLX_BOOL; dt++)
		if (rlx_dtype_size(dt) < 8)	/* the host's: native.txt */
			maxima(dt, &seed);
}

static struct lines {
	atomic_uint	n;
	char		last[1100];
} lines;

static void take_line(void *ctx, enum rlx_log_level level, const char *line)
{
	(void)ctx;
	CHECK_EQ(level, RLX_LOG_WARN);
	snprintf(lines.last, sizeof(lines.last), "%s", line);
	lines.n++;
}

/* Two steps without a kernel. */
static struct rlx_graph *host_net(void)
{
	struct rlx_graph *g = rlx_graph_new("host");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F64, 2, 3));

	rlx_output(g, "y", rlx_emit(g, add, .a = host_op(g, x), .b = host_op(g, x)));
	CHECK(!rlx_graph_finish(g));
	return g;
}

TEST(the_host_is_told_of_once)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_graph *g = host_net(), *native = net(RLX_F16, &seed);

	rlx_log_set(take_line, NULL);
	rlx_program_put(compile(g, "cpu", RLX_COMPILE_NO_SIMPLIFY));
	CHECK_EQ(lines.n, 1);
	CHECKF(strstr(lines.last, "2 of 3 steps") &&
	       strstr(lines.last, "on_host of f64;"), "%s", lines.last);
	rlx_program_put(compile(native, "cpu", 0));
	rlx_program_put(compile(g, "ref", 0));
	CHECK_EQ(lines.n, 1);
	rlx_log_set(NULL, NULL);
	rlx_graph_put(native);
	rlx_graph_put(g);
}

TEST(native_refuses_by_name)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .flags = RLX_COMPILE_NATIVE };
	struct rlx_graph *g = host_net();
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };

	CHECK_EQ(rlx_compile(g, &o, &p, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "on_host of f64") &&
	       strstr(err.text, "RLX_COMPILE_NATIVE"), "%s", err.text);
	CHECK(!p);
	rlx_graph_put(g);
}

TEST_MAIN()
