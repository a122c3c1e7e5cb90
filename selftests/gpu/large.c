// SPDX-License-Identifier: MIT
/* More than 2^31 elements: every index and offset of the main kernels has 64 bits. */
#include "base/proc.h"
#include "selftests/gpu/kernel_run.h"
#include "selftests/lib/rig.h"

enum { ROWS = 65543, COLS = 32771, DEPTH = 24, GIB_NEEDED = 20 };
#define COUNT	((int64_t)ROWS * COLS)

/* So much of the host's and of the device's memory, which nobody else is to have. */
static void need_memory(void)
{
	char text[4096], *at;
	size_t left = 0, all;
	long long kib = 0;

	gpu_start();
	CHECK(rlx_proc_text("/proc/meminfo", text, sizeof(text)));
	at = strstr(text, "MemAvailable:");
	CHECK(at && sscanf(at, "MemAvailable: %lld", &kib) == 1);
	CHECK_CU(CU(cuMemGetInfo_v2, size_t *, size_t *)(&left, &all));
	if (kib >> 20 < GIB_NEEDED || left >> 30 < GIB_NEEDED)
		rlx_test_skip("%d GiB of memory needed", GIB_NEEDED);
}

/* Contents of a large input, the same whoever asks. */
static inline unsigned int mixed(int64_t i)
{
	return (unsigned int)((uint64_t)i * 0x9e3779b97f4a7c15u >> 56);
}

static struct rlx_session *session_of(struct rlx_graph *g)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cuda" };

	return rig_session(g, &o);
}

static void *in(struct rlx_session *s, const char *name)
{
	return rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, name));
}

static const void *out(struct rlx_session *s, const char *name)
{
	return rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, name));
}

static void run(struct rlx_session *s)
{
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
}

/* A graph with "x" of bytes, which is then filled. */
static rlx_value bytes(struct rlx_graph *g)
{
	return rlx_input(g, "x", rlx_type(RLX_U8, ROWS, COLS));
}

static void fill_bytes(struct rlx_session *s)
{
	uint8_t *x = in(s, "x");

	for (int64_t i = 0; i < COUNT; i++)
		x[i] = (uint8_t)mixed(i);
}

TEST(transpose)
{
	struct rlx_graph *g = rlx_graph_new("transpose");
	struct rlx_session *s;
	const uint8_t *y;

	need_memory();
	rlx_output(g, "y", rlx_emit(g, transpose, .x = bytes(g), .perm = RLX_INTS(1, 0)));
	s = session_of(g);
	fill_bytes(s);
	run(s);
	y = out(s, "y");
	for (int64_t c = 0; c < COLS; c++)
		for (int64_t r = 0; r < ROWS; r++)
			CHECKF(y[c * ROWS + r] == (uint8_t)mixed(r * COLS + c),
			       "wrong at %lld, %lld", (long long)c, (long long)r);
	rlx_session_free(s);
}

TEST(addition)
{
	struct rlx_graph *g = rlx_graph_new("add");
	struct rlx_session *s;
	const uint8_t *y;
	uint8_t *b;

	need_memory();
	rlx_output(g, "y", rlx_emit(g, add, .a = bytes(g),
				    .b = rlx_input(g, "b", rlx_type(RLX_U8, COLS))));
	s = session_of(g);
	fill_bytes(s);
	b = in(s, "b");
	for (int64_t i = 0; i < COLS; i++)
		b[i] = (uint8_t)(i * 7);
	run(s);
	y = out(s, "y");
	for (int64_t r = 0; r < ROWS; r++)
		for (int64_t c = 0; c < COLS; c++)
			CHECKF(y[r * COLS + c] == (uint8_t)(mixed(r * COLS + c) + c * 7),
			       "wrong at %lld, %lld", (long long)r, (long long)c);
	rlx_session_free(s);
}

TEST(gather)
{
	struct rlx_graph *g = rlx_graph_new("gather");
	uint64_t seed = rlx_test_seed();
	struct rlx_session *s;
	const uint8_t *y;
	int64_t *index;

	need_memory();
	rlx_output(g, "y", rlx_emit(g, gather, .x = bytes(g), .axis = 0,
				    .indices = rlx_input(g, "i", rlx_type(RLX_I64, ROWS))));
	s = session_of(g);
	fill_bytes(s);
	index = in(s, "i");
	for (int64_t r = 0; r < ROWS; r++)
		index[r] = (int64_t)(rlx_test_rand(&seed) % ROWS);
	run(s);
	y = out(s, "y");
	for (int64_t r = 0; r < ROWS; r++)
		for (int64_t c = 0; c < COLS; c++)
			CHECKF(y[r * COLS + c] == (uint8_t)mixed(index[r] * COLS + c),
			       "wrong at %lld, %lld", (long long)r, (long long)c);
	rlx_session_free(s);
}

/* ---- floats: few values, so that sums are exact ---- */

static inline int level(int64_t i)
{
	return (int)(mixed(i) % 4) - 1;
}

static uint16_t to_bf16(float x)
{
	uint32_t u;

	memcpy(&u, &x, sizeof(u));
	return (uint16_t)(u >> 16);	/* of a few bits: exact */
}

static float from_bf16(uint16_t h)
{
	uint32_t u = (uint32_t)h << 16;
	float x;

	memcpy(&x, &u, sizeof(x));
	return x;
}

static void fill_bf16(uint16_t *p, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		p[i] = to_bf16((float)level(i));
}

TEST(softmax)
{
	struct rlx_graph *g = rlx_graph_new("softmax");
	struct rlx_session *s;
	const uint16_t *y;

	need_memory();
	rlx_output(g, "y", rlx_emit(g, softmax, .axis = -1, .x =
				    rlx_input(g, "x", rlx_type(RLX_BF16, ROWS, COLS))));
	s = session_of(g);
	fill_bf16(in(s, "x"), COUNT);
	run(s);
	y = out(s, "y");
	for (int64_t r = 0; r < ROWS; r++) {
		double sum = 0, want[4];

		for (int64_t c = 0; c < COLS; c++)
			sum += (double[]){ 0.36787944117144233, 1, 2.718281828459045,
					   7.38905609893065 }[level(r * COLS + c) + 1];
		for (int k = 0; k < 4; k++)
			want[k] = exp(k - 1) / sum;
		for (int64_t c = 0; c < COLS; c++) {
			double got = (double)from_bf16(y[r * COLS + c]);
			double w = want[level(r * COLS + c) + 1];

			CHECKF(fabs(got - w) <= w * 0x1p-8, "%g, not %g at %lld, %lld",
			       got, w, (long long)r, (long long)c);
		}
	}
	rlx_session_free(s);
}

TEST(layer_norm)
{
	struct rlx_graph *g = rlx_graph_new("layer_norm");
	struct rlx_session *s;
	const uint16_t *y;

	need_memory();
	rlx_output(g, "y", rlx_emit(g, layer_norm, .axis = -1, .eps = 1e-5f, .x =
				    rlx_input(g, "x", rlx_type(RLX_BF16, ROWS, COLS))));
	s = session_of(g);
	fill_bf16(in(s, "x"), COUNT);
	run(s);
	y = out(s, "y");
	for (int64_t r = 0; r < ROWS; r++) {
		int64_t sum = 0, squares = 0;
		double mean, scale;

		for (int64_t c = 0; c < COLS; c++) {
			int v = level(r * COLS + c);

			sum += v;
			squares += v * v;
		}
		mean = (double)sum / COLS;
		scale = 1 / sqrt((double)squares / COLS - mean * mean + 1e-5);
		for (int64_t c = 0; c < COLS; c++) {
			double got = (double)from_bf16(y[r * COLS + c]);
			double w = (level(r * COLS + c) - mean) * scale;

			CHECKF(fabs(got - w) <= 0x1p-8 * fabs(w) + 1e-4, "%g, not %g at %lld, %lld",
			       got, w, (long long)r, (long long)c);
		}
	}
	rlx_session_free(s);
}

/* Keys of all heads together; each head's queries see one of them, near its end. */
enum { HEADS = 64, WIDTH = 128, KEYS = 262400, QUERIES = 16 };

static int64_t key_of(int64_t head)
{
	return KEYS - QUERIES - 1 - 3 * head;
}

static void check_heads(const uint16_t *y, int64_t queries)
{
	for (int64_t i = 0; i < HEADS * queries * WIDTH; i++) {
		int64_t h = i / WIDTH / queries, d = i % WIDTH;
		float want = (float)level(h * WIDTH + d);

		CHECKF(from_bf16(y[i]) == want, "%g, not %g: head %lld, %lld of %lld",
		       (double)from_bf16(y[i]), (double)want, (long long)h,
		       (long long)(i / WIDTH % queries), (long long)queries);
	}
}

/* By tiles of queries, which see what is before them, and by one whose keys are shared out. */
TEST(attention)
{
	struct rlx_type t = rlx_type(RLX_BF16, 1, HEADS, KEYS, WIDTH);
	struct rlx_graph *g = rlx_graph_new("attention");
	rlx_value k = rlx_input(g, "k", t), v = rlx_input(g, "v", t);
	static const char *const name[2][2] = { { "q", "y" }, { "q1", "y1" } };
	struct rlx_session *s;
	uint16_t *q, *key, *value;

	need_memory();
	for (int i = 0; i < 2; i++)
		rlx_output(g, name[i][1], rlx_emit(g, attention, .k = k, .v = v, .q =
				rlx_input(g, name[i][0], rlx_type(RLX_BF16, 1, HEADS,
								  i ? 1 : QUERIES, WIDTH)),
				.layout = RLX_BHSD,
				.mask = i ? RLX_MASK_NONE : RLX_MASK_CAUSAL));
	s = session_of(g);
	for (int i = 0; i < 2; i++) {
		q = in(s, name[i][0]);
		for (int64_t j = 0; j < HEADS * (i ? 1 : QUERIES) * WIDTH; j++)
			q[j] = to_bf16(16);
	}
	/* the others are zeros, as memory is that nobody had */
	for (int64_t h = 0; h < HEADS; h++) {
		key = (uint16_t *)in(s, "k") + (h * KEYS + key_of(h)) * WIDTH;
		value = (uint16_t *)in(s, "v") + (h * KEYS + key_of(h)) * WIDTH;
		for (int64_t d = 0; d < WIDTH; d++) {
			key[d] = to_bf16(1);
			value[d] = to_bf16((float)level(h * WIDTH + d));
		}
	}
	run(s);
	check_heads(out(s, "y"), QUERIES);
	check_heads(out(s, "y1"), 1);
	rlx_session_free(s);
}

/* Images of which each is small. */
TEST(convolution)
{
	enum { IMAGES = 519, IN = 4, OUT = 5, SIDE = 1024, HALF = 512 };
	struct rlx_type t = rlx_type(RLX_BF16, IMAGES, IN, SIDE, SIDE);
	struct rlx_graph *g = rlx_graph_new("conv");
	rlx_value x = rlx_input(g, "x", t);
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_BF16, OUT, IN, 2, 2));
	struct rlx_session *s;
	const uint16_t *y;
	uint64_t seed = rlx_test_seed();

	need_memory();
	rlx_output(g, "y", rlx_emit(g, conv, .x = x, .w = w, .stride = RLX_INTS(2, 2)));
	s = session_of(g);
	fill_bf16(in(s, "x"), rlx_type_count(&t));
	fill_bf16(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_PARAM, "w")), OUT * IN * 4);
	run(s);
	y = out(s, "y");
	for (int64_t i = 0; i < 1 << 22; i++) {
		int64_t n = i < 1 << 20 ? IMAGES - 1 : (int64_t)(rlx_test_rand(&seed) % IMAGES);
		int64_t o = (int64_t)(rlx_test_rand(&seed) % OUT), sum = 0;
		int64_t at = (int64_t)(rlx_test_rand(&seed) % (HALF * HALF));

		for (int64_t c = 0; c < IN; c++)
			for (int64_t k = 0; k < 4; k++)
				sum += level((o * IN + c) * 4 + k) *
				       level(((n * IN + c) * SIDE + at / HALF * 2 + k / 2) * SIDE +
					     at % HALF * 2 + k % 2);
		CHECKF(y[(n * OUT + o) * HALF * HALF + at] == to_bf16((float)sum),
		       "%g, not %lld: image %lld, channel %lld",
		       (double)from_bf16(y[(n * OUT + o) * HALF * HALF + at]), (long long)sum,
		       (long long)n, (long long)o);
	}
	rlx_session_free(s);
}

/* Some of the elements, the last row and the last column. */
static void check_product(const uint16_t *c, int64_t row, int64_t col)
{
	int want = 0;

	for (int64_t k = 0; k < DEPTH; k++)
		want += level(row * DEPTH + k) * level(k * COLS + col);
	CHECKF(c[row * COLS + col] == to_bf16((float)want), "%g, not %d at %lld, %lld",
	       (double)from_bf16(c[row * COLS + col]), want, (long long)row, (long long)col);
}

TEST(matmul)
{
	struct rlx_graph *g = rlx_graph_new("matmul");
	rlx_value a = rlx_input(g, "a", rlx_type(RLX_BF16, ROWS, DEPTH));
	rlx_value b = rlx_input(g, "b", rlx_type(RLX_BF16, DEPTH, COLS));
	uint64_t seed = rlx_test_seed();
	struct rlx_session *s;
	const uint16_t *c;

	need_memory();
	rlx_output(g, "c", rlx_emit(g, matmul, .a = a, .b = b));
	s = session_of(g);
	fill_bf16(in(s, "a"), (int64_t)ROWS * DEPTH);
	fill_bf16(in(s, "b"), (int64_t)DEPTH * COLS);
	run(s);
	c = out(s, "c");
	for (int64_t i = 0; i < ROWS; i++)
		check_product(c, i, COLS - 1);
	for (int64_t i = 0; i < COLS; i++)
		check_product(c, ROWS - 1, i);
	for (int64_t i = 0; i < 1 << 22; i++)
		check_product(c, (int64_t)(rlx_test_rand(&seed) % ROWS),
			      (int64_t)(rlx_test_rand(&seed) % COLS));
	rlx_session_free(s);
}

/* Sums of each row, of each column and of all. */
TEST(reduce)
{
	struct rlx_graph *g = rlx_graph_new("reduce");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, ROWS, COLS));
	static int col[COLS], row[ROWS];
	const float *y[3];
	struct rlx_session *s;
	float *p;

	need_memory();
	rlx_output(g, "rows", rlx_emit(g, reduce, .x = x, .axes = RLX_INTS(1)));
	rlx_output(g, "cols", rlx_emit(g, reduce, .x = x, .axes = RLX_INTS(0)));
	rlx_output(g, "most", rlx_emit(g, reduce, .x = x, .axes = RLX_INTS(0, 1),
				       .kind = RLX_REDUCE_MAX));
	s = session_of(g);
	p = in(s, "x");
	for (int64_t r = 0; r < ROWS; r++)
		for (int64_t c = 0; c < COLS; c++) {
			int v = level(r * COLS + c);

			p[r * COLS + c] = (float)v;
			row[r] += v;
			col[c] += v;
		}
	p[COUNT - 1] = 5;	/* where no index of 32 bits comes */
	row[ROWS - 1] += 5 - level(COUNT - 1);
	col[COLS - 1] += 5 - level(COUNT - 1);
	run(s);
	y[0] = out(s, "rows");
	y[1] = out(s, "cols");
	y[2] = out(s, "most");
	for (int r = 0; r < ROWS; r++)
		CHECKF(y[0][r] == (float)row[r], "row %d: %g, not %d", r, (double)y[0][r],
		       row[r]);
	for (int c = 0; c < COLS; c++)
		CHECKF(y[1][c] == (float)col[c], "column %d: %g, not %d", c, (double)y[1][c],
		       col[c]);
	CHECKF(*y[2] == 5, "%g", (double)*y[2]);
	rlx_session_free(s);
}

TEST_MAIN()
