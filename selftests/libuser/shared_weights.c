// SPDX-License-Identifier: MIT
/*
 * Programs of one model for other shapes: what passes make of its weights is there
 * once, and packed once, for as long as one of the programs lives.
 */
#include "backends/cpu/cpu.h"
#include "ir/graph.h"
#include "rlx/run.h"
#include "rt/rt.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { K = 96, N = 80, BATCHES = 12, LARGE = 4096, MOST = 64 };

static struct rlx_blob *random_blob(size_t bytes, enum rlx_dtype dt, uint64_t *seed)
{
	unsigned char *p = malloc(bytes);
	struct rlx_blob *b;
	size_t i;

	for (i = 0; i < bytes / 4 && dt == RLX_F32; i++)
		((float *)(void *)p)[i] = (float)rlx_test_uniform(seed, -1, 1);
	for (i = 0; i < bytes && dt == RLX_I8; i++)
		p[i] = (unsigned char)(int8_t)rlx_test_uniform(seed, -100, 100);
	for (i = 0; i < bytes / 2 && dt == RLX_F16; i++)
		((uint16_t *)(void *)p)[i] = (uint16_t)rlx_test_uniform(seed, 0x3000, 0x3c00);
	b = rlx_blob_copy(p, bytes);
	free(p);
	return b;
}

/* As an import does it: what is small is new for each, what is large is the file's. */
static rlx_value small(struct rlx_graph *g, struct rlx_type t, float v)
{
	float all[64];
	int64_t i;

	for (i = 0; i < rlx_type_count(&t); i++)
		all[i] = v + (float)i / 64;
	return rlx_constant(g, t, all);
}

static rlx_value product(struct rlx_graph *g, int64_t batch, rlx_value w)
{
	return rlx_emit(g, matmul, .a = rlx_input(g, "x", rlx_type(RLX_F32, batch, K)), .b = w);
}

static rlx_value transposed(struct rlx_graph *g, int64_t batch, struct rlx_blob *w)
{
	rlx_value c = rlx_constant_blob(g, rlx_type(RLX_F32, N, K), w);

	return product(g, batch, rlx_emit(g, transpose, .x = c, .perm = RLX_INTS(1, 0)));
}

static rlx_value dequantized(struct rlx_graph *g, int64_t batch, struct rlx_blob *w)
{
	rlx_value c = rlx_constant_blob(g, rlx_type(RLX_I8, K, N), w);

	return product(g, batch, rlx_emit(g, dequantize, .x = c,
					  .scale = small(g, rlx_scalar(RLX_F32), 0.02f)));
}

static rlx_value widened(struct rlx_graph *g, int64_t batch, struct rlx_blob *w)
{
	rlx_value c = rlx_constant_blob(g, rlx_type(RLX_F16, K, N), w);

	return product(g, batch, rlx_emit(g, cast, .x = c, .to = RLX_F32));
}

static rlx_value convolved(struct rlx_graph *g, int64_t batch, struct rlx_blob *w)
{
	rlx_value c = rlx_constant_blob(g, rlx_type(RLX_F32, 32, 32, 3, 3), w);

	return rlx_emit(g, conv, .x = rlx_input(g, "x", rlx_type(RLX_F32, batch, 32, 9, 9)),
			.w = c, .pad = RLX_INTS(1, 1, 1, 1));
}

/* Scaled by channel and shifted, which goes into the weights. */
static rlx_value normalised(struct rlx_graph *g, int64_t batch, struct rlx_blob *w)
{
	rlx_value y = rlx_emit(g, mul, .a = convolved(g, batch, w),
			       .b = small(g, rlx_type(RLX_F32, 1, 32, 1, 1), 0.5f));

	return rlx_emit(g, add, .a = y, .b = small(g, rlx_type(RLX_F32, 1, 32, 1, 1), -1));
}

static const struct {
	const char	*name;
	rlx_value	(*make)(struct rlx_graph *g, int64_t batch, struct rlx_blob *w);
	enum rlx_dtype	 dtype;
	int64_t		 count;
} nets[] = {
	{ "transposed", transposed, RLX_F32, K * N }, { "dequantized", dequantized, RLX_I8, K * N },
	{ "widened", widened, RLX_F16, K * N }, { "convolved", convolved, RLX_F32, 32 * 32 * 9 },
	{ "normalised", normalised, RLX_F32, 32 * 32 * 9 },
};

static struct rlx_program *compiled(unsigned int i, int64_t batch, struct rlx_blob *w)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu" };
	struct rlx_graph *g = rlx_graph_new(nets[i].name);
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };

	rlx_output(g, "y", nets[i].make(g, batch, w));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_graph_put(g);
	return p;
}

/* Adds @p to those seen, if it is not there. */
static void see(const void **seen, unsigned int *n, const void *p)
{
	unsigned int i;

	for (i = 0; i < *n && seen[i] != p; i++)
		;
	if (i < *n)
		return;
	CHECK(*n < MOST);
	seen[(*n)++] = p;
}

static void check_once(unsigned int i)
{
	const void *blobs[MOST], *packed[MOST];
	unsigned int n_blob = 0, n_packed = 0, b, k;
	struct rlx_program *p[BATCHES];
	uint64_t seed = 7;
	struct rlx_blob *w = random_blob((size_t)nets[i].count * rlx_dtype_size(nets[i].dtype),
					 nets[i].dtype, &seed);

	for (b = 0; b < BATCHES; b++) {
		p[b] = compiled(i, (int64_t)b + 1, w);
		/* who reads them again, and makes his own, is seen by what he makes */
		((unsigned char *)(uintptr_t)rlx_blob_data(w))[b] ^= 1;
		for (k = 0; k < p[b]->plan->n_constant; k++)
			if (rlx_blob_bytes(p[b]->plan->constant[k]) >= LARGE)
				see(blobs, &n_blob, p[b]->plan->constant[k]);
		for (k = 0; k < ((struct cpu_code *)p[b]->code)->n_prepared; k++)
			see(packed, &n_packed, ((struct cpu_code *)p[b]->code)->prepared[k]);
	}
	CHECKF(n_blob == 1, "%s: %u weights of %d programs", nets[i].name, n_blob, BATCHES);
	/* kernels may want them in one form for few rows, in another for many */
	CHECKF(n_packed <= 3, "%s: packed %u times for %d programs", nets[i].name, n_packed,
	       BATCHES);
	for (b = 0; b < BATCHES; b++)
		rlx_program_put(p[b]);
	rlx_blob_put(w);
}

TEST(weights_are_folded_and_packed_once)
{
	unsigned int i;

	for (i = 0; i < sizeof(nets) / sizeof(nets[0]); i++)
		check_once(i);
}

/* Other weights, an other scale: nothing is taken for what it is not. */
static float first_of(struct rlx_program *p)
{
	struct rlx_session *s = NULL;
	float x[K], y[N];
	int k;

	for (k = 0; k < K; k++)
		x[k] = (float)k / K;
	CHECK_EQ(rlx_session_new(p, NULL, &s, NULL), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 1, K), x), 0);
	CHECK_EQ(rlx_session_run(s), 0);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 1, N), y), 0);
	rlx_session_free(s);
	return y[0];
}

static struct rlx_program *scaled(struct rlx_blob *w, float scale)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu" };
	struct rlx_graph *g = rlx_graph_new("scaled");
	rlx_value c = rlx_constant_blob(g, rlx_type(RLX_I8, K, N), w);
	struct rlx_program *p = NULL;

	rlx_output(g, "y", product(g, 1, rlx_emit(g, dequantize, .x = c,
					.scale = small(g, rlx_scalar(RLX_F32), scale))));
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECK_EQ(rlx_compile(g, &o, &p, NULL), 0);
	rlx_graph_put(g);
	return p;
}

TEST(others_are_told_apart)
{
	uint64_t seed = 9;
	struct rlx_blob *w = random_blob(K * N, RLX_I8, &seed);
	struct rlx_program *a = scaled(w, 1), *b = scaled(w, 2), *c;
	float y = first_of(a);

	CHECK(y != 0 && first_of(b) == 2 * y);
	rlx_program_put(a);
	rlx_program_put(b);
	c = scaled(w, 1);		/* all that was shared has gone, and comes back */
	CHECK_EQ(first_of(c), y);
	rlx_program_put(c);
	rlx_blob_put(w);
}

TEST_MAIN()
