// SPDX-License-Identifier: MIT
/*
 * Gradients of ops that read where other inputs say. grid_sample and roi_align (but for its
 * largest) are linear in x, so that <dx, x> is <dy, y> whatever the coordinates are: on edges,
 * between elements, far away, infinite or no number.
 */
#include "ir/element.h"
#include "rlx/grad.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

static int64_t pick(uint64_t *seed, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(seed) % (uint64_t)(hi - lo + 1));
}

/* A coordinate of an axis of @n elements: anywhere, on an element or an edge, or odd. */
static double coordinate(uint64_t *seed, int64_t n)
{
	static const double odd[] = { NAN, INFINITY, -INFINITY, 1e9, -1e9, 0, 1, -1, 0.5 };

	switch (pick(seed, 0, 3)) {
	case 0:
		return odd[pick(seed, 0, 8)];
	case 1:
		return (2 * (double)pick(seed, -3, n + 2) - (double)(n - 1)) /
		       (double)(n > 1 ? n - 1 : 1);
	default:
		return rlx_test_uniform(seed, -2, 2);
	}
}

/* Outputs of the rig: y, gradients by @x and @by for a random dy, which is input @at. */
static void derive(struct rig *r, rlx_value y, rlx_value x, rlx_value by)
{
	rlx_value dy = rig_random(r, *rlx_type_of(r->g, y), -1, 1), d[2];

	rlx_vjp(r->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &y, 1 },
					.seed = { &dy, 1 }, .wrt = RLX_VALUES(x, by) }, d);
	rig_output(r, y);
	rig_output(r, d[0]);
	rig_output(r, d[1]);
	rig_run(r);
}

/* Input 0 is x, the last one dy. */
static void check(const struct rig *r, const char *what, double tol)
{
	int64_t nx = rlx_type_count(&r->in[0].type), ny = rlx_type_count(&r->out[0].type), i;
	double in = 0, out = 0, size = 1;

	for (i = 0; i < nx; i++) {
		in += rig_get(r, 1, i) * rig_in(r, 0, i);
		size += fabs(rig_get(r, 1, i) * rig_in(r, 0, i));
	}
	for (i = 0; i < ny; i++)
		out += rig_get(r, 0, i) * rig_in(r, r->n_in - 1, i);
	CHECKF(fabs(in - out) <= tol * size, "%s: <dx, x> is %.15g, <dy, y> %.15g", what, in,
	       out);
}

static void one_grid(struct rig *r, uint64_t *seed)
{
	int64_t nd = pick(seed, 1, 3), rows = pick(seed, 0, 2), out = 1, i;
	struct rlx_type xt = { RLX_F64, (uint32_t)nd + 2, { rows, pick(seed, 1, 3) } }, gt = xt;
	int mode = (int)pick(seed, 0, 2), padding = (int)pick(seed, 0, 2);
	bool corners = pick(seed, 0, 1);
	double *at;
	char what[80];
	rlx_value x, grid;

	for (i = 0; i < nd; i++) {
		xt.dim[2 + i] = pick(seed, 1, 5);
		gt.dim[1 + i] = pick(seed, 0, 4);
		out *= gt.dim[1 + i];
	}
	gt.dim[nd + 1] = nd;
	at = malloc((size_t)(rows * out * nd) * sizeof(*at) + 1);
	CHECK(at);
	for (i = 0; i < rows * out * nd; i++)
		at[i] = coordinate(seed, xt.dim[2 + nd - 1 - i % nd]);
	snprintf(what, sizeof(what), "mode %d, padding %d, align_corners %d, %lld axes", mode,
		 padding, corners, (long long)nd);
	x = rig_random(r, xt, -1, 1);
	grid = rig_input(r, gt, at);
	derive(r, rlx_emit(r->g, grid_sample, .x = x, .grid = grid, .mode = mode,
			   .padding = padding, .align_corners = corners), x, grid);
	check(r, what, 1e-12);
	/* odd coordinates have no slope, and do not take others' away */
	for (i = 0; i < rows * out * nd; i++)
		CHECKF(!isnan(rig_get(r, 2, i)) && (isfinite(rig_in(r, 1, i)) ||
		       rig_get(r, 2, i) == 0), "%s: slope %g at %g", what, rig_get(r, 2, i),
		       rig_in(r, 1, i));
	free(at);
}

EVERYWHERE(grids)
{
	uint64_t seed = rlx_test_seed();
	int i;

	for (i = 0; i < 150; i++) {
		one_grid(r, &seed);
		rig_reset(r);
	}
}

/* On the elements themselves the slope is that to the next one. */
EVERYWHERE(grid_on_elements)
{
	static const double x[] = { 1, 4, 2 }, at[] = { -1, 0 };
	rlx_value v[2] = { rig_input(r, rlx_type(RLX_F64, 1, 1, 3), x),
			   rig_input(r, rlx_type(RLX_F64, 1, 2, 1), at) }, y, d;

	y = rlx_emit(r->g, grid_sample, .x = v[0], .grid = v[1], .mode = RLX_RESIZE_LINEAR,
		     .align_corners = true);
	y = rlx_emit(r->g, reduce, .x = y);
	rlx_vjp(r->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &y, 1 },
					.wrt = { &v[1], 1 } }, &d);
	rig_output(r, d);
	rig_run(r);
	rig_want(r, 0, 0, 3, 1e-14);
	rig_want(r, 0, 1, -2, 1e-14);
}

static void one_region(struct rig *r, uint64_t *seed)
{
	int64_t n = pick(seed, 1, 3), regions = pick(seed, 0, 4), i;
	struct rlx_type xt = rlx_type(RLX_F64, n, pick(seed, 1, 3), pick(seed, 1, 7),
				      pick(seed, 1, 7));
	double rois[16];
	int64_t image[4];
	rlx_value x, by;

	for (i = 0; i < 4 * regions; i++)
		rois[i] = pick(seed, 0, 2) ? rlx_test_uniform(seed, -3, 20) :
					     (double)pick(seed, -2, 16);
	for (i = 0; i < regions; i++)
		image[i] = pick(seed, -n, n - 1);
	x = rig_random(r, xt, -1, 1);
	by = rig_input(r, rlx_type(RLX_F64, regions, 4), rois);
	derive(r, rlx_emit(r->g, roi_align, .x = x, .rois = by, .batch_indices =
			   rig_input(r, rlx_type(RLX_I64, regions), image),
			   .out_h = pick(seed, 1, 3), .out_w = pick(seed, 1, 3),
			   .sampling = pick(seed, 1, 3), .spatial_scale = 0.5f,
			   .half_pixel = pick(seed, 0, 1)), x, by);
	check(r, "regions", 1e-12);
}

EVERYWHERE(regions)
{
	uint64_t seed = rlx_test_seed();
	int i;

	for (i = 0; i < 150; i++) {
		one_region(r, &seed);
		rig_reset(r);
	}
}

/*
 * The regions have a sample just where images end, a pixel off them: roundings decide on which
 * side of it the sample lies, and there it counts in both directions.
 */
static void one_edge(struct rig *r, enum rlx_dtype dt, uint64_t *seed)
{
	enum { N = 3 };
	int64_t n = pick(seed, 1, 9), out = pick(seed, 1, 6), steps = pick(seed, 1, 6), i;
	bool half = pick(seed, 0, 1);
	double rois[4 * N];
	float narrow[4 * N];
	int64_t image[N] = { 0 };
	rlx_value x, by;

	for (i = 0; i < 2 * N; i++) {
		double to_edge = ((double)pick(seed, 0, out * steps - 1) + 0.5) /
				 (double)(out * steps);
		double edge = pick(seed, 0, 1) ? (double)n : -1, end = (double)pick(seed, 0, 7) / 7;
		double from = edge > 0 ? end : edge - to_edge * (end + 4);
		double size = edge > 0 ? (edge - from) / to_edge : end + 4;

		rois[i / 2 * 4 + i % 2] = 2 * (from + (half ? 0.5 : 0));
		rois[i / 2 * 4 + i % 2 + 2] = 2 * (from + size + (half ? 0.5 : 0));
	}
	for (i = 0; i < 4 * N; i++)
		narrow[i] = (float)rois[i];
	x = rig_random(r, rlx_type(dt, 1, 2, n, n), -1, 1);
	by = rig_input(r, rlx_type(dt, N, 4), dt == RLX_F32 ? (void *)narrow : rois);
	derive(r, rlx_emit(r->g, roi_align, .x = x, .rois = by, .batch_indices =
			   rig_input(r, rlx_type(RLX_I64, N), image),
			   .out_h = out, .out_w = out, .sampling = steps,
			   .spatial_scale = 0.5f, .half_pixel = half), x, by);
	check(r, "regions at an edge", dt == RLX_F32 ? 1e-5 : 1e-12);
}

EVERYWHERE(regions_at_edges)
{
	uint64_t seed = rlx_test_seed();
	int i;

	for (i = 0; i < 100; i++) {
		one_edge(r, i % 2 ? RLX_F32 : RLX_F64, &seed);
		rig_reset(r);
	}
}

/* The first of each gets what its value is given. */
EVERYWHERE(distinct_values)
{
	static const double x[] = { 3, 1, 2, 1, 3, 5 }, dy[] = { 10, 20, 30, 40 };
	static const double rows[] = { 4, 5, 1, 2, 4, 5 }, drows[] = { 1, 2, 3, 4 };
	static const double want[] = { 30, 10, 20, 0, 0, 40 }, want_rows[] = { 3, 4, 1, 2, 0, 0 };
	rlx_value v[2] = { rig_input(r, rlx_type(RLX_F64, 2, 3), x),
			   rig_input(r, rlx_type(RLX_F64, 3, 2), rows) }, y[2], d[2];
	int64_t i;

	y[0] = rlx_emit(r->g, unique, .x = v[0], .flat = true, .count = 4);
	y[1] = rlx_emit(r->g, unique, .x = v[1], .count = 2);
	rlx_vjp(r->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { y, 2 },
		.wrt = { v, 2 }, .seed = RLX_VALUES(
			rig_input(r, rlx_type(RLX_F64, 4), dy),
			rig_input(r, rlx_type(RLX_F64, 2, 2), drows)) }, d);
	rig_output(r, d[0]);
	rig_output(r, d[1]);
	rig_run(r);
	for (i = 0; i < 6; i++) {
		rig_want(r, 0, i, want[i], 0);
		rig_want(r, 1, i, want_rows[i], 0);
	}
}

TEST_MAIN()
