// SPDX-License-Identifier: MIT
/* Graphs that come quantized run in bytes, and give what the floats give. */
#include "ir/graph.h"
#include "selftests/lib/qdq_conv.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/xy_net.h"

/* What the pass of this name leaves, on the CPU. */
struct found {
	unsigned int	q_matmul, q_conv, floats, quantizes;
	unsigned int	converts, regions, lookups;	/* as it is compiled */
};

/* quantize and dequantize by one scale. */
static rlx_value round_trip(struct xy_net *n, rlx_value x, double scale, int zp)
{
	rlx_value s = rlx_scalar_const(n->g, RLX_F32, scale);
	rlx_value z = rlx_scalar_const(n->g, RLX_U8, zp);

	x = rlx_emit(n->g, quantize, .x = x, .scale = s, .zp = z, .to = RLX_U8);
	return rlx_emit(n->g, dequantize, .x = x, .scale = s, .zp = z);
}

static void look(void *ctx, const char *pass, const struct rlx_graph *g)
{
	struct found *f = ctx;
	uint32_t i;

	f->converts = f->regions = f->lookups = 0;
	for (i = 0; i < g->n_node; i++) {
		unsigned int op = g->node[i].def->index;

		f->converts += op == RLX_OP_quantize || op == RLX_OP_dequantize;
		f->regions += op == RLX_OP_region;
		f->lookups += op == RLX_OP_lookup;
	}
	if (strcmp(pass, "qdq"))
		return;
	*f = (struct found){ 0 };
	for (i = 0; i < g->n_node; i++) {
		unsigned int op = g->node[i].def->index;

		f->q_matmul += op == RLX_OP_qmatmul;
		f->q_conv += op == RLX_OP_qconv;
		f->floats += op == RLX_OP_matmul || op == RLX_OP_conv ||
			     op == RLX_OP_dequant_matmul;
		f->quantizes += op == RLX_OP_quantize;
	}
}

/* Convolutions of bytes in the graph as it is written. */
static unsigned int written(const struct rlx_graph *g)
{
	unsigned int i, convs = 0;

	for (i = 0; i < g->n_node; i++)
		convs += g->node[i].def->index == RLX_OP_qconv;
	return convs;
}

static struct found run(struct xy_net *n, const char *device, const float *x,
			const float *want, double most, double least)
{
	static float y[XY_MOST];
	struct found found = { 0 };
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device,
				      .flags = RLX_COMPILE_NATIVE, .dump = look,
				      .dump_ctx = &found };
	double off, top;

	xy_run(n, n->g, &o, x, y, NULL);
	off = xy_off(n, want, y, &top);
	CHECKF(off <= most * top + least, "%s: off by %g of %g", device, off, top);
	return found;
}

/*
 * The CPU and the device of RLX_TEST_GPU, natively, against the evaluation of the graph as it
 * is written: off by @least and @most of the greatest result, for a rounding of f32 or for one
 * step of a quantized result; the GPU by @gpu_least, or it is left out if that is below 0. GPUs
 * take the same products; they make no convolutions of bytes.
 */
static struct found check_each(struct xy_net *n, double most, double least, double gpu_least)
{
	struct rlx_compile_opts ref = { .size = sizeof(ref), .device = "ref",
					.flags = RLX_COMPILE_NO_FUSE };
	static float x[XY_MOST], want[XY_MOST];
	const char *gpu = getenv("RLX_TEST_GPU");
	struct found cpu, other;

	xy_fill(n, x, -3, 3);
	xy_run(n, n->g, &ref, x, want, NULL);
	cpu = run(n, "cpu", x, want, most, least);
	if (gpu && gpu_least >= 0) {
		other = run(n, gpu, x, want, most, gpu_least);
		CHECK_EQ(other.q_matmul, cpu.q_matmul);
		CHECK_EQ(other.q_conv, written(n->g));
		CHECK_EQ(other.floats, cpu.floats + cpu.q_conv - other.q_conv);
	}
	rlx_graph_put(n->g);
	return cpu;
}

static struct found check_near(struct xy_net *n, double most, double least)
{
	return check_each(n, most, least, least);
}

static struct found check(struct xy_net *n, double most)
{
	return check_near(n, most, 0);
}

static rlx_value weight(struct xy_net *n, bool columns, bool zeros, bool turned)
{
	rlx_value w = xy_bytes(n, turned ? rlx_type(RLX_I8, 21, 67) : rlx_type(RLX_I8, 67, 21));
	struct rlx_type t = columns ? rlx_type(RLX_F32, 21) : rlx_scalar(RLX_F32), z = t;
	rlx_value s = xy_floats(n, t, 0.001, 0.01);

	z.dtype = RLX_I8;
	w = rlx_emit(n->g, dequantize, .x = w, .scale = s, .zp = zeros ? xy_bytes(n, z) : RLX_NONE,
		     .axis = turned ? 0 : -1);
	return turned ? rlx_emit(n->g, transpose, .x = w, .perm = RLX_INTS(1, 0)) : w;
}

TEST(a_product_of_dequantized_operands)
{
	for (unsigned int i = 0; i < 16; i++) {
		struct found found;
		struct xy_net n;
		rlx_value x = xy_begin(&n, i & 8 ? rlx_type(RLX_F32, 2, 5, 67) :
				    rlx_type(RLX_F32, 9, 67));
		rlx_value y = rlx_emit(n.g, matmul, .a = round_trip(&n, x, 0.025, 120),
				       .b = weight(&n, i & 1, i & 2, i & 4));

		xy_end(&n, rlx_emit(n.g, add, .a = y,
				    .b = xy_floats(&n, rlx_type(RLX_F32, 21), -2, 2)));
		found = check(&n, 1e-5);
		CHECK_EQ(found.q_matmul, 1);
		CHECK_EQ(found.floats, 0);
	}
}

/* The next quantize becomes part of the product, beyond a relu as well. */
TEST(a_chain_stays_in_bytes)
{
	struct found found;
	struct xy_net n;
	rlx_value x = xy_begin(&n, rlx_type(RLX_F32, 9, 67)), y, s;

	y = rlx_emit(n.g, matmul, .a = round_trip(&n, x, 0.025, 120),
		     .b = weight(&n, true, false, false));
	y = round_trip(&n, rlx_emit(n.g, relu, .x = y), 0.09, 0);
	s = xy_floats(&n, rlx_scalar(RLX_F32), 0.002, 0.002);
	y = rlx_emit(n.g, matmul, .a = y, .b = rlx_emit(n.g, dequantize, .scale = s,
						.x = xy_bytes(&n, rlx_type(RLX_I8, 21, 8))));
	xy_end(&n, y);
	found = check(&n, 0.02);
	CHECK_EQ(found.q_matmul, 2);
	CHECK_EQ(found.floats, 0);
	CHECK_EQ(found.quantizes, 1);
}

/*
 * As ONNX writes them: bias in units of the sums, its zero points left out or written, scales
 * of channels; then a free bias.
 */
TEST(convolutions)
{
	static const int32_t none[8];

	for (unsigned int i = 0; i < 8; i++) {
		struct found found;
		struct xy_net n;
		rlx_value x = xy_begin(&n, rlx_type(RLX_F32, 1, 3, 9, 11)), w, b, s, y;
		int32_t whole[8];
		float scale[8], unit[8];

		for (int c = 0; c < 8; c++) {
			scale[c] = (float)rlx_test_uniform(&n.seed, 0.001, 0.01);
			unit[c] = 0.025f * scale[c];
			whole[c] = (int32_t)rlx_test_rand(&n.seed) % 20000;
		}
		s = rlx_constant(n.g, rlx_type(RLX_F32, 8), scale);
		w = rlx_emit(n.g, dequantize, .x = xy_bytes(&n, rlx_type(RLX_I8, 8, 3, 3, 3)),
			     .scale = s, .axis = 0);
		b = rlx_emit(n.g, dequantize, .x = rlx_constant(n.g, rlx_type(RLX_I32, 8), whole),
			     .scale = rlx_constant(n.g, rlx_type(RLX_F32, 8), unit),
			     .zp = i & 4 ? rlx_constant(n.g, rlx_type(RLX_I32, 8), none) :
			     RLX_NONE);
		if (i & 1)
			b = xy_floats(&n, rlx_type(RLX_F32, 8), -1, 1);
		y = rlx_emit(n.g, conv, .x = round_trip(&n, x, 0.025, 120), .w = w, .bias = b,
			     .pad = RLX_INTS(1, 1, 1, 1), .stride = RLX_INTS(2, 1));
		if (i & 2)
			y = round_trip(&n, rlx_emit(n.g, relu, .x = y), 0.05, 0);
		xy_end(&n, y);
		found = check(&n, i & 2 ? 0.02 : 1e-5);
		CHECK_EQ(found.q_conv, 1);
		CHECK_EQ(found.floats, 0);
		/* a bias in floats is added to floats */
		CHECK_EQ(found.quantizes, (i & 3) == 3 ? 2 : 1);
	}
}

/*
 * Branches that meet in a sum: one kernel reads bytes, adds floats and writes bytes. What is
 * read is quantized from floats, and what is given dequantized, by kernels of their own.
 */
TEST(a_sum_of_branches_reads_and_writes_bytes)
{
	for (unsigned int i = 0; i < 8; i++) {
		struct found found;
		struct xy_net n;
		rlx_value x = xy_begin(&n, rlx_type(RLX_F32, 7, 45)), y;

		y = rlx_emit(n.g, add, .a = round_trip(&n, x, 0.025, i & 1 ? 120 : 0),
			     .b = round_trip(&n, x, 0.04, i & 1 ? 0 : 77));
		if (i & 2)
			y = rlx_emit(n.g, relu, .x = y);
		if (i & 4)	/* of an operand that is no less for being spread */
			y = rlx_emit(n.g, mul, .a = y,
				     .b = round_trip(&n, xy_floats(&n, rlx_type(RLX_F32, 45), -2, 2),
						     0.02, 100));
		xy_end(&n, round_trip(&n, y, 0.1, 30));
		found = check_near(&n, 0, 0.1001);
		CHECK_EQ(found.regions, 1);
		CHECK_EQ(found.converts, 3);
	}
}

/* One pointwise op of @y, or of it and @x. */
static rlx_value drawn_step(struct xy_net *n, rlx_value x, rlx_value y)
{
	rlx_value c = xy_floats(n, rlx_test_rand(&n->seed) & 1 ? rlx_type(RLX_F32, 1) :
				rlx_scalar(RLX_F32), -2, 2);

	switch (rlx_test_rand(&n->seed) % 7) {
	case 0: return rlx_emit(n->g, add, .a = y, .b = c);
	case 1: return rlx_emit(n->g, mul, .a = x, .b = y);
	case 2: return rlx_emit(n->g, hard_swish, .x = y);
	case 3: return rlx_emit(n->g, div, .a = y, .b = c);
	case 4: return rlx_emit(n->g, max, .a = y, .b = c);
	case 5: return rlx_emit(n->g, sigmoid, .x = y);
	}
	return rlx_emit(n->g, sub, .a = x, .b = y);
}

/*
 * What pointwise ops make of one quantized value is a table's, quantized between them or not, to
 * the bit that the ops as they are written give; with a second value it is a region's. GPUs have
 * no tables: by f32 they are a step off at ties, which ops behind a quantization may multiply.
 */
TEST(functions_of_one_byte_are_looked_up)
{
	for (unsigned int i = 0; i < 40; i++) {
		bool two = i % 8 == 7;
		struct found found;
		struct xy_net n;
		rlx_value x = xy_begin(&n, rlx_type(RLX_F32, 3, 7, 45)), y, z;
		unsigned int steps = 1 + (unsigned int)(rlx_test_rand(&n.seed) % 4), k;

		z = two ? round_trip(&n, x, 0.04, 77) : RLX_NONE;
		x = y = round_trip(&n, x, 0.025, i & 1 ? 120 : 0);
		for (k = 0; k < steps; k++) {
			y = drawn_step(&n, x, y);
			if (i & 2)
				y = round_trip(&n, y, 0.03, 90);
		}
		if (two)
			y = rlx_emit(n.g, add, .a = y, .b = z);
		y = round_trip(&n, y, 0.05, i & 4 ? 0 : 128);
		xy_end(&n, y);
		/* a step, and what f32 rounds of two numbers that far apart */
		found = check_each(&n, 0, two ? 0.0501 : 0, i & 2 ? -1 : 0.0501);
		CHECK_EQ(found.regions, two);
		CHECK_EQ(found.lookups, 1);
	}
}

/* The instruction sets' kernels each; fewer draws where an emulated device takes them too. */
static void drawn_convolutions(const char *isa)
{
	unsigned int i, most = getenv("RLX_TEST_GPU") ? 4 : 24;
	uint64_t seed = rlx_test_seed();
	struct found found;
	struct qdq_conv c;
	struct xy_net n;
	char name[256];

	setenv("RLX_ISA", isa, 1);
	for (i = 0; i < most; i++) {
		qdq_conv_draw(&c, &seed, XY_MOST, 0, getenv("RLX_TEST_GPU") ? 1e5 : 4e6);
		qdq_conv_name(&c, name, sizeof(name));
		printf("# %s: %s\n", isa, name);
		xy_end(&n, qdq_conv(&n, &c, xy_begin(&n, qdq_conv_input(&c)), false));
		found = check_near(&n, 1e-5, qdq_conv_step(&c));
		CHECK_EQ(found.q_conv, 1);
	}
}

TEST(drawn_convolutions_base)
{
	drawn_convolutions("base");
}

TEST(drawn_convolutions_v3)
{
	drawn_convolutions("v3");
}

TEST(drawn_convolutions_v4)
{
	drawn_convolutions("v4");
}

TEST(drawn_convolutions_v4_vnni)
{
	drawn_convolutions("v4_vnni");
}

/* Scales that a run computes: sums in i32 are never written. */
TEST(dynamic_quantization)
{
	for (unsigned int i = 0; i < 4; i++) {
		struct found found;
		struct xy_net n;
		rlx_value x = xy_begin(&n, rlx_type(RLX_F32, 9, 67)), q, y, s;

		q = rlx_emit(n.g, dynamic_quantize, .x = x);
		y = rlx_emit(n.g, qmatmul, .a = q, .a_zp = rlx_out(n.g, q, 2),
			     .b = xy_bytes(&n, rlx_type(RLX_I8, 67, 21)));
		s = xy_floats(&n, i & 1 ? rlx_type(RLX_F32, 21) : rlx_scalar(RLX_F32), 0.001, 0.01);
		s = rlx_emit(n.g, mul, .a = rlx_out(n.g, q, 1), .b = s);
		y = rlx_emit(n.g, cast, .x = y, .to = RLX_F32);
		y = i & 2 ? rlx_emit(n.g, mul, .a = s, .b = y) :
			    rlx_emit(n.g, mul, .a = y, .b = s);
		xy_end(&n, rlx_emit(n.g, add, .a = y,
				    .b = xy_floats(&n, rlx_type(RLX_F32, 21), -2, 2)));
		found = check(&n, 1e-5);
		CHECK_EQ(found.q_matmul, 1);
		CHECK_EQ(found.quantizes, 0);
	}
}

/* The same of convolutions, padded with a zero point that is computed; each level's kernel. */
TEST(dynamic_convolutions)
{
	static const char *const isa[] = { "base", "v3", "v4", "v4_vnni" };

	for (unsigned int i = 0; i < 16; i++) {
		struct found found;
		struct xy_net n;
		rlx_value x = xy_begin(&n, rlx_type(RLX_F32, 2, i & 4 ? 8 : 3, 9, 11)), q, y, s;
		struct rlx_type w = rlx_type(i & 8 ? RLX_I8 : RLX_U8, 10, i & 4 ? 4 : 3, 3, 2);

		setenv("RLX_ISA", isa[i & 3], 1);
		q = rlx_emit(n.g, dynamic_quantize, .x = x);
		y = rlx_emit(n.g, qconv, .x = q, .x_zp = rlx_out(n.g, q, 2), .w = xy_bytes(&n, w),
			     .w_zp = rlx_scalar_const(n.g, w.dtype, 3), .groups = i & 4 ? 2 : 1,
			     .pad = RLX_INTS(1, 2, 1, 0), .stride = RLX_INTS(1 + (i & 1), 1));
		s = rlx_emit(n.g, mul, .a = rlx_out(n.g, q, 1),
			     .b = xy_floats(&n, rlx_type(RLX_F32, 10, 1, 1), 0.001, 0.01));
		y = rlx_emit(n.g, cast, .x = y, .to = RLX_F32);
		xy_end(&n, rlx_emit(n.g, mul, .a = y, .b = s));
		found = check(&n, 1e-5);
		CHECK_EQ(found.q_conv, 1);
		CHECK_EQ(found.quantizes, 0);
	}
	unsetenv("RLX_ISA");
}

static void look_for_table(void *ctx, const char *pass, const struct rlx_graph *g)
{
	enum rlx_dtype *table = ctx;
	uint32_t i;

	(void)pass;
	for (i = 0; i < g->n_node; i++)
		if (g->node[i].def->index == RLX_OP_gather)
			*table = g->val[g->node[i].in[0]].type.dtype;
}

/* An embedding's table stays bytes to the end. */
TEST(rows_of_a_quantized_table)
{
	for (unsigned int i = 0; i < 8; i++) {
		static float x[XY_MOST], want[XY_MOST], y[XY_MOST];
		struct rlx_compile_opts ref = { .size = sizeof(ref), .device = "ref",
						.flags = RLX_COMPILE_NO_FUSE };
		enum rlx_dtype dt = i & 1 ? RLX_I8 : RLX_U8, table = RLX_NODTYPE;
		struct rlx_compile_opts cpu = { .size = sizeof(cpu), .device = "cpu",
						.flags = RLX_COMPILE_NATIVE,
						.dump = look_for_table, .dump_ctx = &table };
		struct xy_net n;
		rlx_value at = xy_begin(&n, rlx_type(RLX_F32, 2, 5)), w;
		double top;

		/* negative ones count from the end */
		at = rlx_emit(n.g, cast, .x = at, .to = RLX_I64);
		w = rlx_emit(n.g, dequantize, .x = xy_bytes(&n, rlx_type(dt, 4, 4, 21)), .axis = 0,
			     .scale = xy_floats(&n, i & 2 ? rlx_type(RLX_F32, 1) :
						    rlx_scalar(RLX_F32), 0.001, 0.01),
			     .zp = !(i & 4) ? RLX_NONE :
				   xy_bytes(&n, i & 2 ? rlx_type(dt, 1) : rlx_scalar(dt)));
		xy_end(&n, rlx_emit(n.g, gather, .x = w, .indices = at, .axis = i & 1));
		xy_fill(&n, x, -3, 3);
		xy_run(&n, n.g, &ref, x, want, NULL);
		xy_run(&n, n.g, &cpu, x, y, NULL);
		CHECK(xy_off(&n, want, y, &top) <= 1e-6 * top);
		CHECK_EQ(table, dt);
		rlx_graph_put(n.g);
	}
}

/* What bytes cannot hold or kernels do not take is multiplied as floats. */
TEST(what_stays_in_floats)
{
	struct found found;
	struct xy_net n;
	rlx_value x, w, s;

	/* blocks of the weight have scales of their own */
	x = xy_begin(&n, rlx_type(RLX_F32, 4, 64));
	w = rlx_emit(n.g, dequantize, .x = xy_bytes(&n, rlx_type(RLX_I8, 64, 8)), .axis = 0,
		     .scale = xy_floats(&n, rlx_type(RLX_F32, 2, 8), 0.001, 0.01), .block = 32);
	xy_end(&n, rlx_emit(n.g, matmul, .a = round_trip(&n, x, 0.025, 120), .b = w));
	found = check(&n, 1e-5);
	CHECK_EQ(found.q_matmul, 0);

	/* scales along the sum */
	x = xy_begin(&n, rlx_type(RLX_F32, 4, 64));
	w = rlx_emit(n.g, dequantize, .x = xy_bytes(&n, rlx_type(RLX_I8, 64, 8)), .axis = 0,
		     .scale = xy_floats(&n, rlx_type(RLX_F32, 64), 0.001, 0.01));
	xy_end(&n, rlx_emit(n.g, matmul, .a = round_trip(&n, x, 0.025, 120), .b = w));
	found = check(&n, 1e-5);
	CHECK_EQ(found.q_matmul, 0);

	/* scaled sums that somebody else reads too */
	x = xy_begin(&n, rlx_type(RLX_F32, 4, 64));
	s = rlx_emit(n.g, dynamic_quantize, .x = x);
	x = rlx_emit(n.g, qmatmul, .a = s, .b = xy_bytes(&n, rlx_type(RLX_I8, 64, 8)));
	w = rlx_emit(n.g, cast, .x = x, .to = RLX_F32);
	w = rlx_emit(n.g, mul, .a = w, .b = rlx_out(n.g, s, 1));
	xy_end(&n, rlx_emit(n.g, add, .a = w, .b = rlx_emit(n.g, cast, .x = x, .to = RLX_F32)));
	found = check(&n, 1e-5);
	CHECK_EQ(found.q_matmul, 1);
}

/* A sum of so many products of bytes would wrap. */
/* Of no channels nothing is summed. */
TEST(a_convolution_to_no_channels)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu" };
	struct rlx_graph *g = rlx_graph_new("none");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_U8, 1, 3, 4, 4)), w, s;
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };

	s = rlx_scalar_const(g, RLX_F32, 0.5);
	w = rlx_constant(g, rlx_type(RLX_I8, 0, 3, 1, 1), NULL);
	x = rlx_emit(g, conv, .x = rlx_emit(g, dequantize, .x = x, .scale = s),
		     .w = rlx_emit(g, dequantize, .x = w, .scale = s));
	rlx_output(g, "y", x);
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_program_put(p);
	rlx_graph_put(g);
}

TEST(sums_do_not_wrap)
{
	enum { K = 40000 };
	static float big[K];
	struct found found;
	struct xy_net n;
	rlx_value x = xy_begin(&n, rlx_type(RLX_F32, 1, 4)), w;
	int64_t i;

	for (i = 0; i < K; i++)
		big[i] = 6;
	x = rlx_emit(n.g, tile, .x = x, .repeats = RLX_INTS(1, K / 4));
	w = rlx_emit(n.g, quantize, .x = rlx_constant(n.g, rlx_type(RLX_F32, K, 1), big),
		     .scale = rlx_scalar_const(n.g, RLX_F32, 0.025),
		     .zp = rlx_scalar_const(n.g, RLX_U8, 0), .to = RLX_U8);
	w = rlx_emit(n.g, dequantize, .x = w, .scale = rlx_scalar_const(n.g, RLX_F32, 0.025),
		     .zp = rlx_scalar_const(n.g, RLX_U8, 0));
	xy_end(&n, rlx_emit(n.g, matmul, .a = round_trip(&n, x, 0.025, 0), .b = w));
	found = check(&n, 1e-4);
	CHECK_EQ(found.q_matmul, 0);
	CHECK_EQ(found.floats, 1);
}

static enum rlx_status whole(void *ctx)
{
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_compile(ctx, NULL, &p, &err);

	rlx_program_put(p);
	return st;
}

TEST(no_memory_anywhere)
{
	struct xy_net n;
	rlx_value x = xy_begin(&n, rlx_type(RLX_F32, 3, 67));

	xy_end(&n, rlx_emit(n.g, matmul, .a = round_trip(&n, x, 0.025, 120),
			 .b = weight(&n, true, true, true)));
	CHECK(rlx_oom_sweep(whole, n.g) > 50);
	rlx_graph_put(n.g);
}

TEST_MAIN()
