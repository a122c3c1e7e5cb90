// SPDX-License-Identifier: MIT
/*
 * The active extent on a GPU: the first rows are as in a full run though the others of
 * the inputs are NaN, no launch is captured again for another number of them, and
 * kernels whose rows are many leave the others alone.
 */
#include "backends/gpu/gpu.h"
#include "rlx/device.h"
#include "rt/session.h"
#include "selftests/gpu/sessions.h"
#include "selftests/lib/checked_rows.h"
#include "selftests/lib/op_case.h"

enum { UPPER = 8, POISON = 0xa5 };

static struct rlx_buf output(struct rlx_session *s, unsigned int i)
{
	return rlx_session_buf(s, RLX_IO_OUTPUT,
			       rlx_program_io_name(s->p, RLX_IO_OUTPUT, i));
}

/* Numbers that differ from row to row; rows from @first on hold none. */
static void fill(struct rlx_session *s, int64_t first)
{
	uint64_t seed = 5;
	unsigned int i;
	int64_t k, n;

	for (i = 0; i < rlx_program_io_count(s->p, RLX_IO_INPUT); i++) {
		const char *name = rlx_program_io_name(s->p, RLX_IO_INPUT, i);
		const struct rlx_type *t = rlx_program_io_type(s->p, RLX_IO_INPUT, i);
		float *x = malloc((size_t)rlx_type_count(t) * sizeof(*x));

		n = rlx_type_count(t);
		for (k = 0; k < n; k++) {
			x[k] = (float)rlx_test_uniform(&seed, -1, 1);
			if (k >= n / UPPER * first)
				x[k] = NAN;
		}
		CHECKF(!rlx_session_set(s, RLX_IO_INPUT, name, (struct rlx_type){
			.dtype = RLX_F32, .rank = t->rank,
			.dim = { t->dim[0], t->dim[1], t->dim[2], t->dim[3] } }, x), "%s",
		       rlx_session_error(s)->text);
		free(x);
	}
}

static bool on_vulkan(const struct rlx_session *s)
{
	return !strcmp(s->p->dev->be->name, "vulkan");
}

/* What runs of all rows, or of some (@on 1), replay. Vulkan has no such thing. */
static const void *graph_of(const struct rlx_session *s, int on)
{
	const struct gpu_exec *x = (const struct gpu_exec *)s->exec;

	return on_vulkan(s) ? NULL : x->part[0].graph[on];
}

/* Vulkan's launches make all rows; the copies from a device's own memory are of those with data. */
static bool leaves_rows(const struct rlx_session *s)
{
	struct rlx_dev_info info[16];
	unsigned int n = rlx_device_list(info, 16), i;

	if (!on_vulkan(s) || getenv("RLX_VK_DISCRETE"))
		return true;
	for (i = 0; i < n && i < 16; i++)
		if (!strcmp(info[i].backend, op_case_gpu()))
			return info[i].memory;
	return true;
}

/* @each: rows that a kernel makes at once; those beyond are as they were. 0: any may change */
static void check(struct rlx_session *s, int64_t actual, int64_t each, unsigned char **full)
{
	unsigned int i, n = rlx_program_io_count(s->p, RLX_IO_OUTPUT);
	const void *graph = graph_of(s, 1);

	fill(s, actual);
	CHECK_EQ(rlx_session_extent(s, actual, UPPER), 0);
	poison(s);
	run(s);
	CHECK(!graph || graph == graph_of(s, 1));
	for (i = 0; i < n; i++) {
		const unsigned char *got = rlx_buf_ptr(output(s, i));
		size_t bytes = (size_t)rlx_type_bytes(rlx_program_io_type(s->p, RLX_IO_OUTPUT, i));
		size_t part = bytes / UPPER * (size_t)actual, k;
		size_t rows = (size_t)rlx_program_io_type(s->p, RLX_IO_OUTPUT, i)->dim[0];

		for (k = 0; k < part; k++)
			CHECKF(got[k] == full[i][k], "%s, %lld rows: byte %zu of %zu differs",
			       rlx_program_io_name(s->p, RLX_IO_OUTPUT, i), (long long)actual,
			       k, bytes);
		if (!each || !leaves_rows(s))
			continue;
		k = rows / UPPER * (size_t)actual;	/* and what is made with them */
		k = (k + (size_t)each - 1) / (size_t)each * (size_t)each;
		for (k *= bytes / rows; k < bytes; k++)
			CHECKF(got[k] == POISON, "%lld rows: byte %zu of %zu was written",
			       (long long)actual, k, bytes);
	}
}

static void check_all(struct rlx_session *s, int64_t each)
{
	unsigned int i, n = rlx_program_io_count(s->p, RLX_IO_OUTPUT);
	unsigned char *full[8];
	int64_t actual;
	const void *graph;

	if (rlx_program_io_count(s->p, RLX_IO_PARAM))
		CHECK_EQ(small_net_fill(s, 1), 0);
	fill(s, UPPER);
	run(s);
	graph = graph_of(s, 0);
	for (i = 0; i < n; i++) {
		full[i] = malloc(output(s, i).bytes);
		memcpy(full[i], rlx_buf_ptr(output(s, i)), output(s, i).bytes);
	}
	for (actual = 1; actual < UPPER; actual++)
		check(s, actual, each, full);
	CHECK_EQ(rlx_session_extent(s, 0, UPPER), 0);
	fill(s, UPPER);
	poison(s);
	run(s);
	CHECK(graph == graph_of(s, 0));
	for (i = 0; i < n; i++) {
		CHECK(!memcmp(full[i], rlx_buf_ptr(output(s, i)), (size_t)rlx_type_bytes(
			      rlx_program_io_type(s->p, RLX_IO_OUTPUT, i))));
		free(full[i]);
	}
	rlx_session_free(s);
}

TEST(small_nets)
{
	check_all(session_on(op_case_gpu(), SMALL_NET_NORM, UPPER), 1);
	check_all(session_on(op_case_gpu(), SMALL_NET_MLP | SMALL_NET_ATTN | SMALL_NET_EW |
			     SMALL_NET_CONV | SMALL_NET_MOVE, UPPER), 0);
}

/* A step of the host's computes all rows, whatever kernels left out. */
TEST(with_steps_of_the_host)
{
	check_all(session_on(op_case_gpu(), SMALL_NET_ALL, UPPER), 0);
}

/* relu(@x w) of so many rows that tiles make it; they are staged, too. */
static void product(enum rlx_dtype type, int64_t rows, int64_t k, int64_t n, int64_t each)
{
	struct rlx_graph *g = rlx_graph_new("product");
	rlx_value x = rlx_input(g, "x", rlx_type(type, UPPER * rows, k));
	float *w = malloc((size_t)(k * n) * sizeof(*w));
	uint64_t seed = 3;
	int64_t i;
	rlx_value c;

	for (i = 0; i < k * n; i++)
		w[i] = (float)rlx_test_uniform(&seed, -1, 1);
	c = rlx_constant(g, rlx_type(RLX_F32, k, n), w);
	if (type != RLX_F32)
		c = rlx_emit(g, cast, .x = c, .to = type);
	rlx_output(g, "y", rlx_emit(g, relu, .x = rlx_emit(g, matmul, .a = x, .b = c)));
	CHECK_EQ(rlx_graph_finish(g), 0);
	check_all(session_of(g, op_case_gpu(), 0), each);
	rlx_graph_put(g);
	free(w);
}

TEST(products)
{
	product(RLX_F32, 40, 24, 40, 64);	/* gemm_simt.cu */
	product(RLX_F16, 40, 24, 40, 128);	/* by warpgroups, where there are such */
	product(RLX_F16, 40, 24, 39, 128);	/* else, and what they do not take */
	product(RLX_BF16, 3, 24, 40, 64);	/* few rows: all of them at once */
}

static int64_t pick(uint64_t *seed, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(seed) % (uint64_t)(hi - lo + 1));
}

/*
 * No tile of any kernel has more than 128 rows. Of a result of more than GPU_MOST_MAPPED bytes only
 * rows that carry data are copied to where the test looks.
 */
TEST(products_at_random)
{
	static const enum rlx_dtype types[] = { RLX_F32, RLX_F16, RLX_BF16 };
	uint64_t seed = rlx_test_seed();
	int64_t rows;
	int i;

	for (i = 0; i < 8; i++) {
		rows = pick(&seed, 1, i % 2 ? 4 : 60);
		product(types[pick(&seed, 0, 2)], rows, pick(&seed, 1, i % 3 ? 150 : 1500),
			pick(&seed, 1, GPU_MOST_MAPPED / (UPPER * rows * 4)) % 150 + 1, 128);
	}
}

/* Does a launch of conv_wgmma.cu make this session's results, which leaves images alone? */
static bool by_wgmma(const struct rlx_session *s)
{
	const struct gpu_code *c = gpu_exec_code((const struct gpu_exec *)s->exec);
	uint32_t i;

	for (i = 0; !on_vulkan(s) && i < c->calls.n_call; i++)
		if (gpu_calls(c)[i].kind == GPU_KERNEL_CALL &&
		    gpu_calls(c)[i].launch.variant == RLX_G_conv_wgmma)
			return true;
	return false;
}

/* A convolution of f16 by constant weights, with a plain result. */
static void convolve(int64_t ci, int64_t co, int64_t edge, int64_t k)
{
	struct rlx_graph *g = rlx_graph_new("convolution");
	const int64_t pads[4] = { k / 2, k / 2, k / 2, k / 2 };
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F16, UPPER, ci, edge, edge));
	float *w = malloc((size_t)(co * ci * k * k) * sizeof(*w));
	uint64_t seed = 3;
	struct rlx_session *s;
	rlx_value c;
	int64_t i;

	for (i = 0; i < co * ci * k * k; i++)
		w[i] = (float)rlx_test_uniform(&seed, -1, 1);
	c = rlx_emit(g, cast, .x = rlx_constant(g, rlx_type(RLX_F32, co, ci, k, k), w),
		     .to = RLX_F16);
	rlx_output(g, "y", rlx_emit(g, relu, .x = rlx_emit(g, conv, .x = x, .w = c,
							   .pad = { pads, 4 })));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	s = session_of(g, op_case_gpu(), 0);
	check_all(s, by_wgmma(s) ? 1 : 0);
	rlx_graph_put(g);
	free(w);
}

/* Of images, of which not all kernels leave those alone that carry no data. */
TEST(convolutions)
{
	convolve(40, 64, 8, 3);
	convolve(64, 40, 7, 3);
	convolve(8, 64, 20, 3);
	convolve(5, 16, 9, 3);
	convolve(16, 24, 8, 1);
}

/* Attention of @heads of @dim, @len queries each, over themselves. */
static void attend(enum rlx_dtype type, int64_t heads, int64_t len, int64_t dim, uint32_t mask)
{
	struct rlx_graph *g = rlx_graph_new("attention");
	struct rlx_type t = rlx_type(type, UPPER, len, heads * dim);
	rlx_value q = rlx_input(g, "q", t), k = rlx_input(g, "k", t), v = rlx_input(g, "v", t);

	rlx_output(g, "y", rlx_emit(g, attention, .q = q, .k = k, .v = v,
				    .heads = (int32_t)heads, .mask = (int32_t)mask));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	check_all(session_of(g, op_case_gpu(), 0), 1);
	rlx_graph_put(g);
}

TEST(attention)
{
	attend(RLX_F32, 2, 5, 8, RLX_MASK_NONE);	/* attention_split_kv.cu */
	attend(RLX_F32, 1, 1, 8, RLX_MASK_NONE);	/* its keys shared out */
	attend(RLX_F16, 2, 20, 16, RLX_MASK_CAUSAL);	/* attention_short_kv.cu */
	attend(RLX_F16, 2, 80, 16, RLX_MASK_NONE);	/* by tensor cores */
	attend(RLX_BF16, 3, 80, 16, RLX_MASK_CAUSAL);
}

/* Rows of a block, of a warp, of a thread each; pointwise code of two results. */
TEST(rows)
{
	struct rlx_graph *g = rlx_graph_new("rows");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, UPPER * 3, 4, 40)), y, z;

	rlx_output(g, "warp", rlx_emit(g, softmax, .x = x, .axis = -1));
	rlx_output(g, "thread", rlx_emit(g, softmax, .x = x, .axis = 1));
	y = rlx_emit(g, exp, .x = x);
	z = rlx_emit(g, mul, .a = y, .b = x);
	rlx_output(g, "exp", y);
	rlx_output(g, "mul", z);
	CHECK_EQ(rlx_graph_finish(g), 0);
	check_all(session_of(g, op_case_gpu(), 0), 1);
	rlx_graph_put(g);
	g = rlx_graph_new("long rows");
	x = rlx_input(g, "x", rlx_type(RLX_F32, UPPER, 1100));
	rlx_output(g, "block", rlx_emit(g, softmax, .x = x, .axis = -1));
	CHECK_EQ(rlx_graph_finish(g), 0);
	check_all(session_of(g, op_case_gpu(), 0), 1);
	rlx_graph_put(g);
}

/* Indices of rows without data are nobody's: not told to be wrong. */
TEST(indices_beyond_it)
{
	struct rlx_graph *g = rlx_graph_new("look up");
	struct rlx_type t = rlx_type(RLX_I64, UPPER, 2);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4, 8));
	rlx_value at = rlx_input(g, "at", t);
	static const int64_t idx[UPPER * 2] = { 3, 2, 1, 0, 9, 9, -7, 100 };
	static float v[32];
	struct rlx_session *s;
	const float *y;
	int i;

	for (i = 0; i < 32; i++)
		v[i] = (float)i;
	rlx_output(g, "y", rlx_emit(g, gather, .x = x, .indices = at));
	CHECK_EQ(rlx_graph_finish(g), 0);
	s = session_of(g, op_case_gpu(), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 4, 8), v), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "at", t, idx), 0);
	CHECK_EQ(rlx_session_run(s), RLX_ERANGE);
	CHECK_EQ(rlx_session_extent(s, 2, UPPER), 0);
	poison(s);
	run(s);
	y = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "y"));
	for (i = 0; i < 32; i++)
		CHECK_EQ(y[i], (float)((3 - i / 8) * 8 + i % 8));
	CHECK_EQ(rlx_session_extent(s, 3, UPPER), 0);
	CHECK_EQ(rlx_session_run(s), RLX_ERANGE);
	rlx_session_free(s);
	rlx_graph_put(g);
}

/* What rows without data hold is no fault, whatever op would look at it. */
TEST(steps_that_check_what_they_read)
{
	checked_rows(op_case_gpu());
}

TEST_MAIN()
