// SPDX-License-Identifier: MIT
/*
 * Where all hashes are equal, nothing is taken for what it is not: what is found by one is
 * compared. The library calls rlx_hash_bytes() as __wrap_rlx_hash_bytes() here.
 */
#include <math.h>

#include "base/map.h"
#include "ir/graph.h"
#include "rlx/run.h"
#include "rlx/store.h"
#include "selftests/lib/rlx_test.h"

enum { SIDE = 40 };

static bool equal = true;
static unsigned int asked;

uint64_t __real_rlx_hash_bytes(const void *p, size_t n, uint64_t seed);
uint64_t __wrap_rlx_hash_bytes(const void *p, size_t n, uint64_t seed);

uint64_t __wrap_rlx_hash_bytes(const void *p, size_t n, uint64_t seed)
{
	asked++;
	return equal ? 1 : __real_rlx_hash_bytes(p, n, seed);
}

/* The same for all programs: what passes make of it they may share. */
static struct rlx_blob *weight(void)
{
	static struct rlx_blob *one;
	uint64_t seed = rlx_test_seed();
	float w[SIDE * SIDE];
	int i;

	for (i = 0; i < SIDE * SIDE && !one; i++)
		w[i] = (float)rlx_test_uniform(&seed, -1, 1);
	if (!one)
		one = rlx_blob_copy(w, sizeof(w));
	return one;
}

static rlx_value constant(struct rlx_graph *g)
{
	return rlx_constant_blob(g, rlx_type(RLX_F32, SIDE, SIDE), weight());
}

static rlx_value scalar(struct rlx_graph *g, float x)
{
	return rlx_constant(g, rlx_scalar(RLX_F32), &x);
}

/* Small operands differ. */
static rlx_value scaled(struct rlx_graph *g, int which)
{
	return rlx_emit(g, mul, .a = constant(g), .b = scalar(g, which ? 2 : 3));
}

/* Numbers and lists of attributes differ. */
static rlx_value summed(struct rlx_graph *g, int which)
{
	return rlx_emit(g, cumsum, .x = constant(g), .axis = which);
}

static rlx_value backwards(struct rlx_graph *g, int which)
{
	return rlx_emit(g, cumsum, .x = constant(g), .axis = 1,
			.reverse = which);
}

static rlx_value sliced(struct rlx_graph *g, int which)
{
	return rlx_emit(g, slice, .x = constant(g), .starts = RLX_INTS(which),
			.ends = RLX_INTS(SIDE - 1 + which), .axes = RLX_INTS(1));
}

/* Factors that go into the weights of a convolution differ. */
static rlx_value convolved(struct rlx_graph *g, rlx_value x, int which)
{
	rlx_value w = rlx_constant_blob(g, rlx_type(RLX_F32, SIDE, SIDE, 1, 1), weight());
	rlx_value y = rlx_emit(g, conv, .x = rlx_emit(g, reshape, .x = x,
						      .shape = RLX_INTS(1, SIDE, 1, 1)), .w = w);

	y = rlx_emit(g, mul, .a = y, .b = scalar(g, which ? 3 : 0.5f));
	return rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(1, SIDE));
}

/* Equal but for a constant: common subexpressions that are none. */
static rlx_value twice(struct rlx_graph *g, rlx_value x, int which)
{
	rlx_value a = rlx_emit(g, mul, .a = x, .b = scalar(g, which ? 3 : 5));
	rlx_value b = rlx_emit(g, mul, .a = x, .b = scalar(g, 7));

	return rlx_emit(g, sub, .a = rlx_emit(g, exp, .x = a), .b = b);
}

/* What is packed of one weight for other filters, phases, zero points and scales. */
static rlx_value image(struct rlx_graph *g, rlx_value x, int64_t c, int64_t h, int64_t w)
{
	return rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(1, c, h, w));
}

static rlx_value first(struct rlx_graph *g, rlx_value y, int64_t n)
{
	y = rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(1, n));
	return rlx_emit(g, slice, .x = y, .starts = RLX_INTS(0), .ends = RLX_INTS(SIDE),
			.axes = RLX_INTS(1));
}

static rlx_value filtered(struct rlx_graph *g, rlx_value x, int which)
{
	struct rlx_type t = which ? rlx_type(RLX_F32, 20, 20, 4, 1) :
				    rlx_type(RLX_F32, 20, 20, 2, 2);
	rlx_value w = rlx_constant_blob(g, t, weight()), of = image(g, x, 20, 2, 1);

	return first(g, which ? rlx_emit(g, conv, .x = of, .w = w, .pad = RLX_INTS(1, 0, 2, 0)) :
			rlx_emit(g, conv, .x = of, .w = w, .pad = RLX_INTS(0, 1, 0, 1)), SIDE);
}

static rlx_value phased(struct rlx_graph *g, rlx_value x, int which)
{
	rlx_value w = rlx_constant_blob(g, rlx_type(RLX_F32, 10, 10, 4, 4), weight());
	rlx_value of = image(g, x, 10, 2, 2);

	return first(g, which ? rlx_emit(g, conv_transpose, .x = of, .w = w,
					 .stride = RLX_INTS(2, 2), .pad = RLX_INTS(3, 3, 1, 1)) :
			rlx_emit(g, conv_transpose, .x = of, .w = w, .stride = RLX_INTS(2, 2),
				 .pad = RLX_INTS(2, 2, 2, 2)), SIDE);
}

static rlx_value centred(struct rlx_graph *g, rlx_value x, int which)
{
	rlx_value w = rlx_constant_blob(g, rlx_type(RLX_U8, 160, 10, 2, 2), weight()), y;
	const uint8_t zero = which ? 9 : 3;

	x = rlx_emit(g, cast, .x = rlx_emit(g, mul, .a = x, .b = scalar(g, 100)), .to = RLX_U8);
	y = rlx_emit(g, qconv, .x = image(g, x, 10, 2, 2), .w = w,
		     .w_zp = rlx_constant(g, rlx_scalar(RLX_U8), &zero));
	return first(g, rlx_emit(g, cast, .x = y, .to = RLX_F32), 160);
}

static rlx_value quantized(struct rlx_graph *g, rlx_value x, int which)
{
	enum { N = 160 };
	float s[N];
	int i;

	for (i = 0; i < N; i++)
		s[i] = (float)(i + 1 + (which && i == N / 8)) / N;
	return first(g, rlx_emit(g, dequant_matmul, .x = x, .n = N,
				 .scheme = RLX_SCHEME_INT8_BLOCK,
				 .w = rlx_constant_blob(g, rlx_type(RLX_U8, SIDE * N), weight()),
				 .scale = rlx_constant(g, rlx_type(RLX_F32, 1, N), s)), N);
}

static const struct {
	const char	*name;
	rlx_value	(*weight)(struct rlx_graph *g, int which);	/* times x, or */
	rlx_value	(*whole)(struct rlx_graph *g, rlx_value x, int which);
} nets[] = {
	{ "scaled", scaled, NULL }, { "summed", summed, NULL },
	{ "backwards", backwards, NULL }, { "sliced", sliced, NULL },
	{ "convolved", NULL, convolved }, { "twice", NULL, twice },
	{ "filtered", NULL, filtered }, { "phased", NULL, phased },
	{ "centred", NULL, centred }, { "quantized", NULL, quantized },
};

static struct rlx_program *compiled(unsigned int i, int which)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu" };
	struct rlx_graph *g = rlx_graph_new(nets[i].name);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 1, SIDE));
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };

	rlx_output(g, "y", nets[i].whole ? nets[i].whole(g, x, which) :
		   rlx_emit(g, matmul, .a = x, .b = nets[i].weight(g, which)));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s: %s", nets[i].name, err.text);
	rlx_graph_put(g);
	return p;
}

static void run(struct rlx_program *p, float y[SIDE])
{
	struct rlx_session *s = NULL;
	struct rlx_type t = *rlx_program_io_type(p, RLX_IO_OUTPUT, 0);
	float x[SIDE];
	int k;

	for (k = 0; k < SIDE; k++) {
		x[k] = (float)(k + 1) / SIDE;
		y[k] = NAN;
	}
	CHECK_EQ(rlx_session_new(p, NULL, &s, NULL), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 1, SIDE), x), 0);
	CHECK_EQ(rlx_session_run(s), 0);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", t, y), 0);
	rlx_session_free(s);
}

/* What the second gives is the same beside the first as with nothing before it. */
static void check_beside(unsigned int i)
{
	float first[SIDE], want[SIDE], y[SIDE];
	struct rlx_program *a, *b;

	equal = false;
	b = compiled(i, 1);
	run(b, want);
	rlx_program_put(b);
	equal = true;
	a = compiled(i, 0);
	b = compiled(i, 1);
	run(a, first);
	run(b, y);
	CHECKF(memcmp(y, first, sizeof(y)), "%s: both give the same", nets[i].name);
	CHECKF(!memcmp(y, want, sizeof(y)), "%s: %g, not %g", nets[i].name, (double)y[0],
	       (double)want[0]);
	rlx_program_put(a);
	rlx_program_put(b);
}

/* Times a weight that is @factor times another, prepared in @store. */
static void run_stored(struct rlx_store *store, float factor, float y[SIDE])
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .store = store };
	struct rlx_graph *g = rlx_graph_new("stored");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 1, SIDE));
	const float *of = rlx_blob_data(weight());
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	float w[SIDE * SIDE];
	int i;

	for (i = 0; i < SIDE * SIDE; i++)
		w[i] = factor * of[i];
	rlx_output(g, "y", rlx_emit(g, matmul, .a = x, .b = rlx_constant(g,
				    rlx_type(RLX_F32, SIDE, SIDE), w)));
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	run(p, y);
	rlx_program_put(p);
	rlx_graph_put(g);
}

/* Weights of no file are found by their contents, also in a store that was sealed. */
TEST(weights_in_a_store_are_compared)
{
	const struct rlx_arena_opts o = { .size = 1 << 20 };
	struct rlx_store *store = NULL;
	struct rlx_arena *arena = NULL;
	struct rlx_store_info info;
	struct rlx_error err = { 0 };
	float y[4][SIDE];
	int i, k;

	CHECK_EQ(rlx_arena_new(&o, &arena, NULL), 0);
	CHECKF(!rlx_store_new(arena, "cpu", &store, &err), "%s", err.text);
	for (k = 0; k < 4; k++)
		run_stored(store, (float)(1 << k % 3), y[k]);
	for (i = 0; i < SIDE; i++)
		CHECK(y[1][i] == 2 * y[0][i] && y[2][i] == 4 * y[0][i] && y[3][i] == y[0][i]);
	rlx_store_info(store, &info);
	CHECK_EQ(info.made, 3);
	CHECK_EQ(info.found, 1);
	CHECKF(!rlx_store_seal(store, &err), "%s", err.text);
	run_stored(store, 8, y[1]);
	run_stored(store, 2, y[2]);
	for (i = 0; i < SIDE; i++)
		CHECK(y[1][i] == 8 * y[0][i] && y[2][i] == 2 * y[0][i]);
	rlx_store_put(store);
	rlx_arena_put(arena);
}

TEST(what_is_found_by_a_hash_is_compared)
{
	unsigned int i;

	for (i = 0; i < sizeof(nets) / sizeof(nets[0]); i++) {
		check_beside(i);
		setenv("RLX_ISA", "base", 1);	/* there more of it is packed */
		check_beside(i);
		unsetenv("RLX_ISA");
	}
	CHECK(asked);		/* or nothing was wrapped */
	rlx_blob_put(weight());
}

TEST_MAIN()
