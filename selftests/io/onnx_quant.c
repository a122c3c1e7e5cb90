// SPDX-License-Identifier: MIT
/*
 * Quantized ops of com.microsoft, evaluated on constants: what they give is what the same ops
 * on floats give between dequantize and quantize, to the byte.
 */
#include <math.h>

#include "io/onnx/build.h"
#include "ir/eval.h"
#include "ir/graph.h"
#include "selftests/io/onnx_write.h"

/* Element type and shape of an initializer; the bytes follow from them. */
struct kind {
	int	dtype;
	int64_t	dim[3];
	size_t	rank;
};

static void tensor(struct out *g, const char *name, struct kind k, const void *v)
{
	struct out t = { .n = 0 };
	size_t i, bytes = k.dtype == ONNX_UINT8 ? 1 : 4;

	put_str(&t, 8, name);
	put_int(&t, 2, (uint64_t)k.dtype);
	for (i = 0; i < k.rank; i++) {
		put_int(&t, 1, (uint64_t)k.dim[i]);
		bytes *= (size_t)k.dim[i];
	}
	put_bytes(&t, 9, v, bytes);
	put_msg(g, 5, &t);
}

static void scale(struct out *g, const char *name, float v)
{
	tensor(g, name, (struct kind){ ONNX_FLOAT }, &v);
}

static void zero(struct out *g, const char *name, uint8_t v)
{
	tensor(g, name, (struct kind){ ONNX_UINT8 }, &v);
}

static void bytes(struct out *g, const char *name, int64_t rows, int64_t cols, uint8_t *v,
		  uint64_t *seed)
{
	int64_t i;

	for (i = 0; i < rows * cols; i++)
		v[i] = (uint8_t)(rlx_test_rand(seed) >> 30);
	tensor(g, name, (struct kind){ ONNX_UINT8, { rows, cols }, 2 }, v);
}

static void node(struct out *g, struct out *n)
{
	put_str(n, 7, "com.microsoft");
	put_msg(g, 1, n);
}

/* Import what @g has, whose output is y; NULL if it is refused with a text with @why. */
static struct rlx_graph *import(struct out *g, const char *why)
{
	struct rlx_instance none = { 0 };
	struct rlx_error err = { 0 };
	struct rlx_segment seg;
	static struct out o, v;
	struct rlx_graph *got;
	struct onnx_file *f;
	enum rlx_status st;

	put_info(g, 12, "y", ONNX_UINT8, NULL, 0);
	model_of(&o, g, 17);
	v.n = 0;
	put_str(&v, 1, "com.microsoft");
	put_int(&v, 2, 1);
	put_msg(&o, 8, &v);
	st = onnx_open_mem(keep_copy(o.b, o.n), o.n, "mem", ONNX_ROOT_MODEL, &f, &err);
	CHECKF(!st, "%s", err.text);
	st = onnx_build(f, &none, &seg, &err);
	onnx_put(f);
	if (why) {
		CHECKF(st && strstr(err.text, why), "%s", err.text);
		return NULL;
	}
	CHECKF(!st, "%s", err.text);
	CHECK_EQ(seg.need, RLX_NEED_NOTHING);
	got = rlx_graph_get(seg.g);
	rlx_segment_fini(&seg);
	return got;
}

/* The bytes or floats that the model gives, @n of them, into @to. */
static void evaluate(struct out *g, void *to, int64_t n, enum rlx_dtype dtype)
{
	struct rlx_graph *got = import(g, NULL);
	struct rlx_error err = { 0 };
	struct rlx_tensor out = {
		.type = *rlx_type_of(got, rlx_graph_io_value(got, RLX_IO_OUTPUT, 0)), .data = to,
	};

	CHECK_EQ(out.type.dtype, dtype);
	CHECK_EQ(rlx_type_count(&out.type), n);
	memset(to, 0xa5, (size_t)rlx_type_bytes(&out.type));
	CHECKF(!rlx_graph_eval(got, NULL, &out, &err), "%s", err.text);
	rlx_graph_put(got);
}

static double of(uint8_t q, double s, int z)
{
	return (q - z) * s;
}

static uint8_t to(double v, double s, int z)
{
	return (uint8_t)fmin(255, fmax(0, rint(v / s) + z));
}

TEST(sums_and_products)
{
	uint64_t seed = rlx_test_seed();
	uint8_t a[12], b[4], y[12], want;
	struct out g, n;
	int i, k;

	for (k = 0; k < 2; k++) {
		g.n = 0;
		bytes(&g, "a", 3, 4, a, &seed);
		bytes(&g, "b", 1, 4, b, &seed);
		scale(&g, "s1", 0.5f);
		scale(&g, "s2", 0.25f);
		scale(&g, "s3", k ? 16 : 1);
		zero(&g, "z1", 100);
		zero(&g, "z3", 7);
		node_of(&n, k ? "QLinearMul a s1 z1 b s2 _ s3 z3 > y" :
			"QLinearAdd a s1 z1 b s2 _ s3 z3 > y");
		node(&g, &n);
		evaluate(&g, y, 12, RLX_U8);
		for (i = 0; i < 12; i++) {
			double p = of(a[i], 0.5, 100), q = of(b[i % 4], 0.25, 0);

			want = to(k ? p * q : p + q, k ? 16 : 1, 7);
			CHECKF(y[i] == want, "%d: %d, not %d", i, y[i], want);
		}
	}
}

TEST(ops_of_one_operand)
{
	uint64_t seed = rlx_test_seed();
	uint8_t x[12], y[12], want;
	struct out g, n;
	int i, k;

	for (k = 0; k < 2; k++) {
		g.n = 0;
		bytes(&g, "x", 3, 4, x, &seed);
		scale(&g, "s", 0.0625f);
		zero(&g, "z", 128);
		scale(&g, "t", k ? 0x1p-8f : 0.25f);
		node_of(&n, k ? "QLinearSigmoid x s z t > y" : "QLinearLeakyRelu x s z t z > y");
		node(&g, &n);
		evaluate(&g, y, 12, RLX_U8);
		for (i = 0; i < 12; i++) {
			double v = of(x[i], 0.0625, 128);

			/* 0.01 of it is a hundredth of a step at most: nothing lies between two */
			want = k ? to(1 / (1 + exp(-v)), 0x1p-8, 0) :
				   to(v < 0 ? (double)0.01f * v : v, 0.25, 128);
			CHECKF(abs(y[i] - want) <= k, "%d: %d, not %d", i, y[i], want);
		}
	}
}

TEST(a_gemm_with_its_bias)
{
	static const int32_t bias[3] = { 1000, -2000, 31 };
	uint64_t seed = rlx_test_seed();
	uint8_t a[2 * 5], b[3 * 5], y[6];
	struct out g, n;
	int i, j, k;

	g.n = 0;
	bytes(&g, "a", 2, 5, a, &seed);
	bytes(&g, "b", 3, 5, b, &seed);
	tensor(&g, "c", (struct kind){ ONNX_INT32, { 3 }, 1 }, bias);
	scale(&g, "s1", 0.5f);
	scale(&g, "s2", 0.25f);
	scale(&g, "s3", 128);
	zero(&g, "z1", 90);
	zero(&g, "z2", 130);
	node_of(&n, "QGemm a s1 z1 b s2 z2 c s3 z1 > y");
	put_attr_i(&n, "transB", 1);
	node(&g, &n);
	evaluate(&g, y, 6, RLX_U8);
	for (i = 0; i < 2; i++)
		for (j = 0; j < 3; j++) {
			int32_t sum = bias[j];

			for (k = 0; k < 5; k++)
				sum += (a[i * 5 + k] - 90) * (b[j * 5 + k] - 130);
			CHECK_EQ(y[i * 3 + j], to(sum * 0.125, 128, 90));
		}
}

TEST(parts_with_scales_of_their_own)
{
	uint64_t seed = rlx_test_seed();
	uint8_t a[4], b[6], y[10];
	struct out g, n;
	int i;

	g.n = 0;
	bytes(&g, "a", 2, 2, a, &seed);
	bytes(&g, "b", 3, 2, b, &seed);
	scale(&g, "s1", 0.5f);
	scale(&g, "s2", 0.25f);
	zero(&g, "z1", 0);
	zero(&g, "z2", 60);
	node_of(&n, "QLinearConcat s1 z2 a s2 z1 b s1 z2 > y");
	node(&g, &n);
	evaluate(&g, y, 10, RLX_U8);
	for (i = 0; i < 4; i++)
		CHECK_EQ(y[i], to(of(a[i], 0.25, 0), 0.5, 60));
	CHECK_EQ(memcmp(y + 4, b, 6), 0);
}

/* [directions, in, gates] becomes [directions, gates, in]: one step from 0 tells. */
TEST(an_lstm_of_quantized_weights)
{
	static const float x[] = { 0.5f, -2 }, ws[] = { 0.125f, 0.25f, 0.5f, 1 }, rs = 1;
	static const uint8_t w[] = { 7, 1, 4, 3, 2, 5, 6, 9 }, r[4], wz[] = { 4, 3, 5, 4 };
	double gate[4], want;
	struct out g = { .n = 0 }, n;
	float y;
	int i;

	tensor(&g, "x", (struct kind){ ONNX_FLOAT, { 1, 1, 2 }, 3 }, x);
	tensor(&g, "w", (struct kind){ ONNX_UINT8, { 1, 2, 4 }, 3 }, w);
	tensor(&g, "r", (struct kind){ ONNX_UINT8, { 1, 1, 4 }, 3 }, r);
	tensor(&g, "ws", (struct kind){ ONNX_FLOAT, { 1, 4 }, 2 }, ws);
	tensor(&g, "wz", (struct kind){ ONNX_UINT8, { 1, 4 }, 2 }, wz);
	tensor(&g, "rs", (struct kind){ ONNX_FLOAT, { 1 }, 1 }, &rs);
	node_of(&n, "DynamicQuantizeLSTM x w r _ _ _ _ _ ws wz rs > y");
	put_attr_i(&n, "hidden_size", 1);
	node(&g, &n);
	evaluate(&g, &y, 1, RLX_F32);
	for (i = 0; i < 4; i++)
		gate[i] = (double)x[0] * of(w[i], ws[i], wz[i]) +
			  (double)x[1] * of(w[4 + i], ws[i], wz[i]);
	/* input, output, forget, cell: of a cell of 0 the forget gate keeps nothing */
	want = 1 / (1 + exp(-gate[0])) * tanh(gate[3]);
	want = tanh(want) / (1 + exp(-gate[1]));
	CHECKF(fabs(y - want) < 1e-6, "%g, not %g", (double)y, want);
}

/* y = x W, where column j of W is in blocks of 4 k, the last one not whole. */
static void nbits(int bits, bool zeros)
{
	enum { K = 6, N = 3, BLOCK = 4, BLOCKS = 2 };
	uint8_t b[N * BLOCKS * BLOCK], z[N * BLOCKS], zp;
	static const float x[K] = { 1, -2, 4, 0.5f, -1, 8 };
	static const float s[N * BLOCKS] = { 1, 2, 4, 8, 0.5, 0.25 };
	const int per = 8 / bits, line = BLOCK / per, zline = (BLOCKS + per - 1) / per;
	uint64_t seed = rlx_test_seed();
	struct out g = { .n = 0 }, n;
	float y[N];
	int i, j;

	tensor(&g, "x", (struct kind){ ONNX_FLOAT, { 1, K }, 2 }, x);
	tensor(&g, "s", (struct kind){ ONNX_FLOAT, { N * BLOCKS }, 1 }, s);
	bytes(&g, "b", N, BLOCKS * line, b, &seed);
	bytes(&g, "z", N, zline, z, &seed);
	node_of(&n, zeros ? "MatMulNBits x b s z > y" : "MatMulNBits x b s > y");
	put_attr_i(&n, "K", K);
	put_attr_i(&n, "N", N);
	put_attr_i(&n, "bits", bits);
	put_attr_i(&n, "block_size", BLOCK);
	node(&g, &n);
	evaluate(&g, y, N, RLX_F32);
	for (j = 0; j < N; j++) {
		double want = 0;

		for (i = 0; i < K; i++) {
			int block = i / BLOCK, shift = i % per * bits;
			uint8_t q = b[(j * BLOCKS + block) * line + i % BLOCK / per];

			zp = (uint8_t)(1 << (bits - 1));
			if (zeros)
				zp = z[j * zline + block / per] >> (block % per * bits);
			want += (double)x[i] * of(q >> shift & (0xff >> (8 - bits)),
						  s[j * BLOCKS + block], zp & (0xff >> (8 - bits)));
		}
		CHECKF(fabs(y[j] - want) < 1e-3, "%d bits: %g, not %g", bits, (double)y[j], want);
	}
}

TEST(weights_of_few_bits)
{
	nbits(4, false);
	nbits(4, true);
	nbits(8, false);
	nbits(8, true);
}

TEST(what_is_refused)
{
	uint64_t seed = rlx_test_seed();
	uint8_t a[4];
	struct out g, n;

	g.n = 0;
	bytes(&g, "a", 2, 2, a, &seed);
	scale(&g, "s", 0.5f);
	zero(&g, "z", 0);
	node_of(&n, "QLinearConcat s z a s z a > y");
	node(&g, &n);
	import(&g, "6 inputs");

	g.n = 0;
	bytes(&g, "a", 2, 2, a, &seed);
	scale(&g, "s", 0.5f);
	zero(&g, "z", 0);
	node_of(&n, "QLinearGlobalAveragePool a s z s z > y");
	put_attr_i(&n, "channels_last", 1);
	node(&g, &n);
	import(&g, "channels_last");

	g.n = 0;
	bytes(&g, "a", 2, 2, a, &seed);
	scale(&g, "s", 0.5f);
	node_of(&n, "DynamicQuantizeLSTM a a a _ _ _ _ _ s _ s > y");
	node(&g, &n);
	import(&g, "rank 2");

	g.n = 0;
	bytes(&g, "a", 2, 2, a, &seed);
	scale(&g, "s", 0.5f);
	node_of(&n, "MatMulNBits s a s > y");
	put_attr_i(&n, "K", 4);
	put_attr_i(&n, "N", 2);
	put_attr_i(&n, "block_size", 16);
	node(&g, &n);
	import(&g, "1 blocks of 16");
}

TEST_MAIN()
