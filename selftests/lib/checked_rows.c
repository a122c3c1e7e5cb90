// SPDX-License-Identifier: MIT
/* Steps that check what they read, under an active extent: a table of graphs. */
#include "rlx/graph.h"
#include "selftests/lib/checked_rows.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { UPPER = 8, POISON = 0xa5, MOST = 8 };

/* @below: what indices of the input named "at" are below */
struct net {
	const char		*name;
	struct rlx_graph	*g;
	int64_t			 below;
};

static rlx_value data(struct net *n, const char *name, struct rlx_type t)
{
	t.dtype = RLX_F32;
	return rlx_input(n->g, name, t);
}

static rlx_value at(struct net *n, int64_t below, struct rlx_type t)
{
	t.dtype = RLX_I64;
	n->below = below;
	return rlx_input(n->g, "at", t);
}

/* Numbers that nobody's rows are. */
static rlx_value table(struct net *n, struct rlx_type t)
{
	int64_t k, count = rlx_type_count(&t);
	float *v = malloc((size_t)count * sizeof(*v));
	rlx_value c;

	for (k = 0; k < count; k++)
		v[k] = (float)(k % 97) / 97;
	t.dtype = RLX_F32;
	c = rlx_constant(n->g, t, v);
	free(v);
	return c;
}

static void gather_rows(struct net *n)
{
	rlx_output(n->g, "y", rlx_emit(n->g, gather,
		.x = table(n, rlx_type(RLX_F32, 20, 16)),
		.indices = at(n, 20, rlx_type(RLX_I64, UPPER, 3))));
}

/* Of columns the first one alone is always somebody's. */
static void gather_columns(struct net *n)
{
	rlx_value y = rlx_emit(n->g, gather, .x = data(n, "x", rlx_type(RLX_F32, UPPER, 5)),
			       .axis = 1, .indices = at(n, 5, rlx_type(RLX_I64, UPPER)));

	rlx_output(n->g, "y", rlx_emit(n->g, slice, .x = y, .starts = RLX_INTS(0),
				       .ends = RLX_INTS(1), .axes = RLX_INTS(1)));
}

static void gather_tuples(struct net *n)
{
	rlx_output(n->g, "y", rlx_emit(n->g, gather_nd,
		.x = table(n, rlx_type(RLX_F32, 6, 5, 4)),
		.indices = at(n, 5, rlx_type(RLX_I64, UPPER, 3, 2))));
}

static void gather_tuples_by_batch(struct net *n)
{
	rlx_output(n->g, "y", rlx_emit(n->g, gather_nd, .batch_dims = 1,
		.x = data(n, "x", rlx_type(RLX_F32, UPPER, 5, 4)),
		.indices = at(n, 5, rlx_type(RLX_I64, UPPER, 3, 1))));
}

static void gather_elements_in_rows(struct net *n)
{
	rlx_output(n->g, "y", rlx_emit(n->g, gather_elements, .axis = 1,
		.x = data(n, "x", rlx_type(RLX_F32, UPPER, 9)),
		.indices = at(n, 9, rlx_type(RLX_I64, UPPER, 4))));
}

static void gather_elements_down(struct net *n)
{
	rlx_output(n->g, "y", rlx_emit(n->g, gather_elements, .axis = 0,
		.x = table(n, rlx_type(RLX_F32, 9, 4)),
		.indices = at(n, 9, rlx_type(RLX_I64, UPPER, 4))));
}

static void gather_elements_of_one_axis(struct net *n)
{
	rlx_output(n->g, "y", rlx_emit(n->g, gather_elements, .axis = 0,
		.x = table(n, rlx_type(RLX_F32, 30)),
		.indices = at(n, 30, rlx_type(RLX_I64, 2 * UPPER))));
}

static void scatter_into_rows(struct net *n)
{
	rlx_output(n->g, "y", rlx_emit(n->g, scatter_elements, .axis = 1,
		.x = data(n, "x", rlx_type(RLX_F32, UPPER, 9)),
		.indices = at(n, 9, rlx_type(RLX_I64, UPPER, 4)),
		.updates = data(n, "u", rlx_type(RLX_F32, UPPER, 4)),
		.reduction = RLX_SCATTER_MAX));
}

/* All updates at a time, where the last one wins. */
static void scatter_into_long_rows(struct net *n)
{
	rlx_output(n->g, "y", rlx_emit(n->g, scatter_elements, .axis = 1,
		.x = data(n, "x", rlx_type(RLX_F32, UPPER, 200)),
		.indices = at(n, 200, rlx_type(RLX_I64, UPPER, 100)),
		.updates = data(n, "u", rlx_type(RLX_F32, UPPER, 100))));
}

/* Rows without data change nothing of what they would be added to. */
static void scatter_down(struct net *n)
{
	rlx_output(n->g, "all", rlx_emit(n->g, scatter_elements, .axis = 0,
		.x = table(n, rlx_type(RLX_F32, 9, 4)),
		.indices = at(n, 9, rlx_type(RLX_I64, UPPER, 4)),
		.updates = data(n, "u", rlx_type(RLX_F32, UPPER, 4)),
		.reduction = RLX_SCATTER_ADD));
}

static void scatter_tuples(struct net *n)
{
	rlx_output(n->g, "all", rlx_emit(n->g, scatter_nd,
		.x = table(n, rlx_type(RLX_F32, 20, 4)),
		.indices = at(n, 20, rlx_type(RLX_I64, UPPER, 1)),
		.updates = data(n, "u", rlx_type(RLX_F32, UPPER, 4)),
		.reduction = RLX_SCATTER_ADD));
}

/* Of a dtype that no kernel adds: by the reference evaluator. */
static void scatter_on_the_host(struct net *n)
{
	rlx_value u = rlx_emit(n->g, cast, .x = data(n, "u", rlx_type(RLX_F32, UPPER, 4)),
			       .to = RLX_F8E4M3);
	rlx_value x = rlx_emit(n->g, cast, .x = table(n, rlx_type(RLX_F32, 20, 4)),
			       .to = RLX_F8E4M3);

	rlx_output(n->g, "all", rlx_emit(n->g, cast, .to = RLX_F32,
		.x = rlx_emit(n->g, scatter_nd, .x = x, .updates = u,
			      .indices = at(n, 20, rlx_type(RLX_I64, UPPER, 1)),
			      .reduction = RLX_SCATTER_ADD)));
}

static void rope_by_positions(struct net *n)
{
	rlx_output(n->g, "y", rlx_emit(n->g, rope, .heads = 2,
		.x = data(n, "x", rlx_type(RLX_F32, UPPER, 3, 16)),
		.cos = table(n, rlx_type(RLX_F32, 10, 4)),
		.sin = table(n, rlx_type(RLX_F32, 10, 4)),
		.pos = at(n, 10, rlx_type(RLX_I64, UPPER, 3))));
}

/* In double, for which there is no kernel. */
static void rope_on_the_host(struct net *n)
{
	rlx_value x = rlx_emit(n->g, cast, .x = data(n, "x", rlx_type(RLX_F32, UPPER, 3, 16)),
			       .to = RLX_F64);
	rlx_value t = rlx_emit(n->g, cast, .x = table(n, rlx_type(RLX_F32, 10, 4)), .to = RLX_F64);

	rlx_output(n->g, "y", rlx_emit(n->g, cast, .to = RLX_F32,
		.x = rlx_emit(n->g, rope, .heads = 2, .x = x, .cos = t, .sin = t,
			      .pos = at(n, 10, rlx_type(RLX_I64, UPPER, 3)))));
}

static void pool_regions(struct net *n)
{
	rlx_output(n->g, "y", rlx_emit(n->g, roi_align, .out_h = 2, .out_w = 2, .sampling = 2,
		.spatial_scale = 1, .x = table(n, rlx_type(RLX_F32, 2, 3, 6, 6)),
		.rois = data(n, "rois", rlx_type(RLX_F32, UPPER, 4)),
		.batch_indices = at(n, 2, rlx_type(RLX_I64, UPPER))));
}

static void multiply_by_groups(struct net *n)
{
	rlx_output(n->g, "y", rlx_emit(n->g, grouped_matmul,
		.x = data(n, "x", rlx_type(RLX_F32, UPPER * 2, 16)),
		.w = table(n, rlx_type(RLX_F32, 4, 16, 8)),
		.idx = at(n, 4, rlx_type(RLX_I64, UPPER * 2))));
}

/* By how many rows an expert has depends in which order is summed: all sums are exact. */
static void multiply_by_packed_groups(struct net *n)
{
	rlx_value x = data(n, "x", rlx_type(RLX_F32, UPPER * 2, 32));
	static uint8_t w[4][8][18];
	size_t i;

	for (i = 0; i < sizeof(w); i++)	/* scales are 1/32 */
		((uint8_t *)w)[i] = (uint8_t)(i % 18 == 1 ? 0x28 : i % 18 ? i * 29 : 0);
	x = rlx_emit(n->g, mul, .a = x, .b = rlx_scalar_const(n->g, RLX_F32, 16));
	rlx_output(n->g, "y", rlx_emit(n->g, dequant_grouped_matmul,
		.x = rlx_emit(n->g, floor, .x = x),
		.w = rlx_constant(n->g, rlx_type(RLX_U8, 4, 8, 18), w),
		.scheme = RLX_SCHEME_Q4_0, .idx = at(n, 4, rlx_type(RLX_I64, UPPER * 2))));
}

static void draw_columns(struct net *n)
{
	rlx_output(n->g, "y", rlx_emit(n->g, cast, .to = RLX_F32,
		.x = rlx_emit(n->g, sample, .logits = data(n, "x", rlx_type(RLX_F32, UPPER, 12)),
			      .top_p = 1)));
}

static void look_labels_up(struct net *n)
{
	rlx_output(n->g, "y", rlx_emit(n->g, cross_entropy,
		.logits = data(n, "x", rlx_type(RLX_F32, UPPER, 12)),
		.labels = at(n, 12, rlx_type(RLX_I64, UPPER))));
}

static void reverse_by_lengths(struct net *n)
{
	rlx_output(n->g, "y", rlx_emit(n->g, reverse_sequence, .time_axis = 1, .batch_axis = 0,
		.x = data(n, "x", rlx_type(RLX_F32, UPPER, 5)),
		.lens = at(n, 6, rlx_type(RLX_I64, UPPER))));
}

/* Indices that are made of indices, as positions are of a mask. */
static void look_sums_up(struct net *n)
{
	rlx_value sum = rlx_emit(n->g, cumsum, .x = at(n, 3, rlx_type(RLX_I64, UPPER, 4)),
				 .axis = 1);

	rlx_output(n->g, "y", rlx_emit(n->g, gather,
		.x = table(n, rlx_type(RLX_F32, 9, 4)), .indices = sum));
}

/* Picked rows, normalised, multiplied: one launch on a GPU. */
static void pick_norm_multiply(struct net *n)
{
	struct rlx_type t = rlx_type(RLX_F32, 384);
	rlx_value x = rlx_emit(n->g, cast, .to = RLX_F16,
			       .x = table(n, rlx_type(RLX_F32, 50, 384)));
	rlx_value w = rlx_emit(n->g, cast, .to = RLX_F16,
			       .x = table(n, rlx_type(RLX_F32, 384, 32)));
	rlx_value rows = rlx_emit(n->g, gather, .x = x,
				  .indices = at(n, 50, rlx_type(RLX_I64, UPPER)));
	rlx_value norm = rlx_emit(n->g, layer_norm, .x = rows, .gamma = table(n, t),
				  .beta = table(n, t), .axis = -1, .eps = 1e-5f);

	rlx_output(n->g, "y", rlx_emit(n->g, cast, .to = RLX_F32,
				       .x = rlx_emit(n->g, matmul, .a = norm, .b = w)));
}

static const struct {
	const char	*name;
	void		(*make)(struct net *n);
} nets[] = {
#define NET(n)	{ #n, n }
	NET(gather_rows), NET(gather_columns), NET(gather_tuples), NET(gather_tuples_by_batch),
	NET(gather_elements_in_rows), NET(gather_elements_down),
	NET(gather_elements_of_one_axis), NET(scatter_into_rows), NET(scatter_into_long_rows),
	NET(scatter_down), NET(scatter_tuples), NET(scatter_on_the_host), NET(rope_by_positions),
	NET(rope_on_the_host), NET(pool_regions), NET(multiply_by_groups),
	NET(multiply_by_packed_groups), NET(draw_columns), NET(look_labels_up),
	NET(reverse_by_lengths), NET(look_sums_up), NET(pick_norm_multiply),
#undef NET
};

/* Rows from @first on hold nothing that may be read, or (@calm) zeros. */
static void fill(struct rlx_session *s, const struct net *n, int64_t first, bool calm)
{
	struct rlx_program *p = rlx_session_program(s);
	unsigned int i, count = rlx_program_io_count(p, RLX_IO_INPUT);
	uint64_t seed = 3;

	for (i = 0; i < count; i++) {
		const char *name = rlx_program_io_name(p, RLX_IO_INPUT, i);
		const struct rlx_type *t = rlx_program_io_type(p, RLX_IO_INPUT, i);
		int64_t k, m = rlx_type_count(t), live = m / UPPER * first;
		int64_t *at = malloc((size_t)m * sizeof(*at));
		float *x = (void *)at;

		for (k = 0; k < m; k++) {
			double u = rlx_test_uniform(&seed, 0, 1);

			if (t->dtype == RLX_I64)
				at[k] = k < live ? (int64_t)(u * (double)n->below) :
					calm ? 0 : (int64_t)1 << 40;
			else
				x[k] = k < live ? (float)u : calm ? 0 : NAN;
		}
		CHECKF(!rlx_session_set(s, RLX_IO_INPUT, name, *t, at), "%s",
		       rlx_session_error(s)->text);
		free(at);
	}
}

/* One in the last row that carries data is out of range. */
static void spoil(struct rlx_session *s, const struct net *n, int64_t live)
{
	struct rlx_buf b = rlx_session_buf(s, RLX_IO_INPUT, n->below ? "at" : "x");
	uint64_t at = b.bytes / UPPER * (uint64_t)live - (n->below ? 8 : 4);

	if (n->below)
		memcpy((char *)rlx_buf_ptr(b) + at, &(int64_t){ n->below + 1000 }, 8);
	else
		memcpy((char *)rlx_buf_ptr(b) + at, &(float){ NAN }, 4);
}

static void check_rows(struct rlx_session *s, const struct net *n, int64_t live)
{
	struct rlx_program *p = rlx_session_program(s);
	const char *name = rlx_program_io_name(p, RLX_IO_OUTPUT, 0);
	const struct rlx_type *t = rlx_program_io_type(p, RLX_IO_OUTPUT, 0);
	int64_t k, count = rlx_type_count(t), part = count;
	float *want = malloc((size_t)count * sizeof(*want));
	float *got = malloc((size_t)count * sizeof(*got));

	if (strcmp(name, "all"))
		part = count / UPPER * live;
	CHECK_EQ(rlx_session_extent(s, 0, UPPER), 0);
	fill(s, n, live, true);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, name, *t, want), 0);
	CHECK_EQ(rlx_session_extent(s, live, UPPER), 0);
	fill(s, n, live, false);
	memset(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, name)), POISON, (size_t)count * 4);
	CHECKF(!rlx_session_run(s), "%s, %lld rows: %s", n->name, (long long)live,
	       rlx_session_error(s)->text);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, name, *t, got), 0);
	for (k = 0; k < part; k++)
		CHECKF(got[k] == want[k], "%s, %lld rows: [%lld] is %g, not %g",
		       n->name, (long long)live, (long long)k, (double)got[k],
		       (double)want[k]);
	spoil(s, n, live);
	CHECKF(rlx_session_run(s) == RLX_ERANGE, "%s, %lld rows: a bad one is taken",
	       n->name, (long long)live);
	free(want);
	free(got);
}

void checked_rows(const char *device)
{
	unsigned int i;
	int64_t live;

	for (i = 0; i < sizeof(nets) / sizeof(nets[0]); i++) {
		struct rlx_compile_opts o = { .size = sizeof(o), .device = device };
		struct net n = { .name = nets[i].name };
		struct rlx_session *s;

		/* there are no rows that evaluation could leave out */
		if (nets[i].make == gather_columns && !strcmp(device, "ref"))
			continue;
		n.g = rlx_graph_new(n.name);
		nets[i].make(&n);
		CHECKF(!rlx_graph_finish(n.g), "%s: %s", n.name, rlx_graph_error(n.g)->text);
		s = rig_session(rlx_graph_get(n.g), &o);
		for (live = 1; live < UPPER; live += 2)
			check_rows(s, &n, live);
		rlx_session_free(s);
		rlx_graph_put(n.g);
	}
}
