// SPDX-License-Identifier: MIT
/* Graphs that come quantized run in bytes, and give what the floats give. */
#include "ir/graph.h"
#include "rlx/compile.h"
#include "rlx/ops.h"
#include "rlx/run.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"

enum { MOST = 1 << 14 };

/* A graph of one input "x" of f32 and one output "y". */
struct net {
	struct rlx_graph	*g;
	struct rlx_type		 in, out;
	uint64_t		 seed;
	unsigned int		 q_matmul, q_conv, floats, quantizes;	/* behind the pass */
};

static rlx_value bytes(struct net *n, struct rlx_type t)
{
	uint8_t b[MOST];
	int64_t i;

	CHECK(rlx_type_count(&t) <= MOST);
	for (i = 0; i < rlx_type_count(&t); i++)
		b[i] = (uint8_t)rlx_test_rand(&n->seed);
	return rlx_constant(n->g, t, b);
}

static rlx_value floats(struct net *n, struct rlx_type t, double lo, double hi)
{
	float f[MOST];
	int64_t i;

	CHECK(rlx_type_count(&t) <= MOST);
	for (i = 0; i < rlx_type_count(&t); i++)
		f[i] = (float)rlx_test_uniform(&n->seed, lo, hi);
	return rlx_constant(n->g, t, f);
}

static rlx_value begin(struct net *n, struct rlx_type in)
{
	*n = (struct net){ .g = rlx_graph_new("net"), .in = in, .seed = rlx_test_seed() };
	return rlx_input(n->g, "x", in);
}

static void end(struct net *n, rlx_value y)
{
	rlx_output(n->g, "y", y);
	CHECKF(!rlx_graph_finish(n->g), "%s", rlx_graph_error(n->g)->text);
	n->out = *rlx_type_of(n->g, y);
}

/* quantize and dequantize by one scale. */
static rlx_value round_trip(struct net *n, rlx_value x, double scale, int zp)
{
	rlx_value s = rlx_scalar_const(n->g, RLX_F32, scale);
	rlx_value z = rlx_scalar_const(n->g, RLX_U8, zp);

	x = rlx_emit(n->g, quantize, .x = x, .scale = s, .zp = z, .to = RLX_U8);
	return rlx_emit(n->g, dequantize, .x = x, .scale = s, .zp = z);
}

static void look(void *ctx, const char *pass, const struct rlx_graph *g)
{
	struct net *n = ctx;
	uint32_t i;

	if (strcmp(pass, "qdq"))
		return;
	n->q_matmul = n->q_conv = n->floats = n->quantizes = 0;
	for (i = 0; i < g->n_node; i++) {
		unsigned int op = g->node[i].def->index;

		n->q_matmul += op == RLX_OP_qmatmul;
		n->q_conv += op == RLX_OP_qconv;
		n->floats += op == RLX_OP_matmul || op == RLX_OP_conv;
		n->quantizes += op == RLX_OP_quantize;
	}
}

static void run(struct net *n, const char *device, uint32_t flags, const float *x, float *y)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device, .flags = flags,
				      .dump = look, .dump_ctx = n };
	struct rlx_error err = { 0 };
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	int64_t i;

	for (i = 0; i < rlx_type_count(&n->out); i++)
		y[i] = NAN;
	CHECKF(!rlx_compile(n->g, &o, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", n->in, x), 0);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", n->out, y), 0);
	rlx_session_free(s);
	rlx_program_put(p);
}

/*
 * The CPU, natively, against the evaluation of the graph as it is written, as a part of the
 * greatest result: @most for a rounding of f32, or for one step of a quantized result.
 */
static void check(struct net *n, double most)
{
	static float x[MOST], y[MOST], want[MOST];
	int64_t i, count = rlx_type_count(&n->out);
	double top = 0, off = 0;

	CHECK(rlx_type_count(&n->in) <= MOST && count <= MOST);
	for (i = 0; i < rlx_type_count(&n->in); i++)
		x[i] = (float)rlx_test_uniform(&n->seed, -3, 3);
	run(n, "ref", RLX_COMPILE_NO_FUSE, x, want);
	run(n, "cpu", RLX_COMPILE_NATIVE, x, y);
	for (i = 0; i < count; i++) {
		CHECK(isfinite(y[i]));
		top = fmax(top, fabs((double)want[i]));
		off = fmax(off, fabs((double)y[i] - (double)want[i]));
	}
	CHECKF(off <= most * top, "off by %g of %g", off, top);
	rlx_graph_put(n->g);
}

static rlx_value weight(struct net *n, bool columns, bool zeros, bool turned)
{
	rlx_value w = bytes(n, turned ? rlx_type(RLX_I8, 21, 67) : rlx_type(RLX_I8, 67, 21));
	struct rlx_type t = columns ? rlx_type(RLX_F32, 21) : rlx_scalar(RLX_F32), z = t;
	rlx_value s = floats(n, t, 0.001, 0.01);

	z.dtype = RLX_I8;
	w = rlx_emit(n->g, dequantize, .x = w, .scale = s, .zp = zeros ? bytes(n, z) : RLX_NONE,
		     .axis = turned ? 0 : -1);
	return turned ? rlx_emit(n->g, transpose, .x = w, .perm = RLX_INTS(1, 0)) : w;
}

TEST(a_product_of_dequantized_operands)
{
	for (unsigned int i = 0; i < 16; i++) {
		struct net n;
		rlx_value x = begin(&n, i & 8 ? rlx_type(RLX_F32, 2, 5, 67) :
				    rlx_type(RLX_F32, 9, 67));
		rlx_value y = rlx_emit(n.g, matmul, .a = round_trip(&n, x, 0.025, 120),
				       .b = weight(&n, i & 1, i & 2, i & 4));

		end(&n, rlx_emit(n.g, add, .a = y, .b = floats(&n, rlx_type(RLX_F32, 21), -2, 2)));
		check(&n, 1e-5);
		CHECK_EQ(n.q_matmul, 1);
		CHECK_EQ(n.floats, 0);
	}
}

/* The next quantize becomes part of the product, beyond a relu as well. */
TEST(a_chain_stays_in_bytes)
{
	struct net n;
	rlx_value x = begin(&n, rlx_type(RLX_F32, 9, 67)), y, s;

	y = rlx_emit(n.g, matmul, .a = round_trip(&n, x, 0.025, 120),
		     .b = weight(&n, true, false, false));
	y = round_trip(&n, rlx_emit(n.g, relu, .x = y), 0.09, 0);
	s = floats(&n, rlx_scalar(RLX_F32), 0.002, 0.002);
	y = rlx_emit(n.g, matmul, .a = y, .b = rlx_emit(n.g, dequantize, .scale = s,
						.x = bytes(&n, rlx_type(RLX_I8, 21, 8))));
	end(&n, y);
	check(&n, 0.02);
	CHECK_EQ(n.q_matmul, 2);
	CHECK_EQ(n.floats, 0);
	CHECK_EQ(n.quantizes, 1);
}

/* As ONNX writes them: bias in units of the sums, scales of channels; then a free bias. */
TEST(convolutions)
{
	for (unsigned int i = 0; i < 4; i++) {
		struct net n;
		rlx_value x = begin(&n, rlx_type(RLX_F32, 1, 3, 9, 11)), w, b, s, y;
		int32_t whole[8];
		float scale[8], unit[8];

		for (int c = 0; c < 8; c++) {
			scale[c] = (float)rlx_test_uniform(&n.seed, 0.001, 0.01);
			unit[c] = 0.025f * scale[c];
			whole[c] = (int32_t)rlx_test_rand(&n.seed) % 20000;
		}
		s = rlx_constant(n.g, rlx_type(RLX_F32, 8), scale);
		w = rlx_emit(n.g, dequantize, .x = bytes(&n, rlx_type(RLX_I8, 8, 3, 3, 3)),
			     .scale = s, .axis = 0);
		b = rlx_emit(n.g, dequantize, .x = rlx_constant(n.g, rlx_type(RLX_I32, 8), whole),
			     .scale = rlx_constant(n.g, rlx_type(RLX_F32, 8), unit));
		if (i & 1)
			b = floats(&n, rlx_type(RLX_F32, 8), -1, 1);
		y = rlx_emit(n.g, conv, .x = round_trip(&n, x, 0.025, 120), .w = w, .bias = b,
			     .pad = RLX_INTS(1, 1, 1, 1), .stride = RLX_INTS(2, 1));
		if (i & 2)
			y = round_trip(&n, rlx_emit(n.g, relu, .x = y), 0.05, 0);
		end(&n, y);
		check(&n, i & 2 ? 0.02 : 1e-5);
		CHECK_EQ(n.q_conv, 1);
		CHECK_EQ(n.floats, 0);
		/* a bias in floats is added to floats */
		CHECK_EQ(n.quantizes, i == 3 ? 2 : 1);
	}
}

/* Scales that a run computes: sums in i32 are never written. */
TEST(dynamic_quantization)
{
	for (unsigned int i = 0; i < 4; i++) {
		struct net n;
		rlx_value x = begin(&n, rlx_type(RLX_F32, 9, 67)), q, y, s;

		q = rlx_emit(n.g, dynamic_quantize, .x = x);
		y = rlx_emit(n.g, qmatmul, .a = q, .a_zp = rlx_out(n.g, q, 2),
			     .b = bytes(&n, rlx_type(RLX_I8, 67, 21)));
		s = floats(&n, i & 1 ? rlx_type(RLX_F32, 21) : rlx_scalar(RLX_F32), 0.001, 0.01);
		s = rlx_emit(n.g, mul, .a = rlx_out(n.g, q, 1), .b = s);
		y = rlx_emit(n.g, cast, .x = y, .to = RLX_F32);
		y = i & 2 ? rlx_emit(n.g, mul, .a = s, .b = y) :
			    rlx_emit(n.g, mul, .a = y, .b = s);
		end(&n, rlx_emit(n.g, add, .a = y, .b = floats(&n, rlx_type(RLX_F32, 21), -2, 2)));
		check(&n, 1e-5);
		CHECK_EQ(n.q_matmul, 1);
		CHECK_EQ(n.quantizes, 0);
	}
}

/* What bytes cannot hold or kernels do not take is multiplied as floats. */
TEST(what_stays_in_floats)
{
	struct net n;
	rlx_value x, w, s;

	/* blocks of the weight have scales of their own */
	x = begin(&n, rlx_type(RLX_F32, 4, 64));
	w = rlx_emit(n.g, dequantize, .x = bytes(&n, rlx_type(RLX_I8, 64, 8)), .axis = 0,
		     .scale = floats(&n, rlx_type(RLX_F32, 2, 8), 0.001, 0.01), .block = 32);
	end(&n, rlx_emit(n.g, matmul, .a = round_trip(&n, x, 0.025, 120), .b = w));
	check(&n, 1e-5);
	CHECK_EQ(n.q_matmul, 0);

	/* scales along the sum */
	x = begin(&n, rlx_type(RLX_F32, 4, 64));
	w = rlx_emit(n.g, dequantize, .x = bytes(&n, rlx_type(RLX_I8, 64, 8)), .axis = 0,
		     .scale = floats(&n, rlx_type(RLX_F32, 64), 0.001, 0.01));
	end(&n, rlx_emit(n.g, matmul, .a = round_trip(&n, x, 0.025, 120), .b = w));
	check(&n, 1e-5);
	CHECK_EQ(n.q_matmul, 0);

	/* scaled sums that somebody else reads too */
	x = begin(&n, rlx_type(RLX_F32, 4, 64));
	s = rlx_emit(n.g, dynamic_quantize, .x = x);
	x = rlx_emit(n.g, qmatmul, .a = s, .b = bytes(&n, rlx_type(RLX_I8, 64, 8)));
	w = rlx_emit(n.g, cast, .x = x, .to = RLX_F32);
	w = rlx_emit(n.g, mul, .a = w, .b = rlx_out(n.g, s, 1));
	end(&n, rlx_emit(n.g, add, .a = w, .b = rlx_emit(n.g, cast, .x = x, .to = RLX_F32)));
	check(&n, 1e-5);
	CHECK_EQ(n.q_matmul, 1);
}

/* A sum of so many products of bytes would wrap. */
TEST(sums_do_not_wrap)
{
	enum { K = 40000 };
	static float big[K];
	struct net n;
	rlx_value x = begin(&n, rlx_type(RLX_F32, 1, 4)), w;
	int64_t i;

	for (i = 0; i < K; i++)
		big[i] = 6;
	x = rlx_emit(n.g, tile, .x = x, .repeats = RLX_INTS(1, K / 4));
	w = rlx_emit(n.g, quantize, .x = rlx_constant(n.g, rlx_type(RLX_F32, K, 1), big),
		     .scale = rlx_scalar_const(n.g, RLX_F32, 0.025),
		     .zp = rlx_scalar_const(n.g, RLX_U8, 0), .to = RLX_U8);
	w = rlx_emit(n.g, dequantize, .x = w, .scale = rlx_scalar_const(n.g, RLX_F32, 0.025),
		     .zp = rlx_scalar_const(n.g, RLX_U8, 0));
	end(&n, rlx_emit(n.g, matmul, .a = round_trip(&n, x, 0.025, 0), .b = w));
	check(&n, 1e-4);
	CHECK_EQ(n.q_matmul, 0);
	CHECK_EQ(n.floats, 1);
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
	struct net n;
	rlx_value x = begin(&n, rlx_type(RLX_F32, 3, 67));

	end(&n, rlx_emit(n.g, matmul, .a = round_trip(&n, x, 0.025, 120),
			 .b = weight(&n, true, true, true)));
	CHECK(rlx_oom_sweep(whole, n.g) > 50);
	rlx_graph_put(n.g);
}

TEST_MAIN()
