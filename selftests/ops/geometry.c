// SPDX-License-Identifier: MIT
/* Neighbours, windows as matrices, and ops of training beside them: numbers that are known. */
#include <stdlib.h>

#include "ir/element.h"
#include "rlx/grad.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

static void want_all(struct rig *r, unsigned int out, const double *want, int64_t n, double tol)
{
	int64_t i;

	for (i = 0; i < n; i++)
		rig_want(r, out, i, want[i], tol);
}

/* An input of floats, told as doubles. */
static rlx_value input(struct rig *r, struct rlx_type t, const double *v)
{
	int64_t n = rlx_type_count(&t), i;
	rlx_value x;
	float *f;

	if (t.dtype == RLX_F64)
		return rig_input(r, t, v);
	f = malloc((size_t)n * sizeof(*f));
	CHECK(f);
	for (i = 0; i < n; i++)
		f[i] = (float)v[i];
	x = rig_input(r, t, f);
	free(f);
	return x;
}

/* The gradient of sum(weight y) to each of @wrt, as outputs. */
static void gradients(struct rig *r, rlx_value y, const double *weight, const rlx_value *wrt,
		      unsigned int n)
{
	rlx_value d[4], w = rlx_emit(r->g, cast, .x = rig_input(r, rlx_type(RLX_F64,
				     rlx_type_count(rlx_type_of(r->g, y))), weight),
				     .to = rlx_type_of(r->g, y)->dtype);
	unsigned int i;

	w = rlx_emit(r->g, reshape, .x = w, .shape = { rlx_type_of(r->g, y)->dim,
						       rlx_type_of(r->g, y)->rank });
	y = rlx_emit(r->g, reduce, .x = rlx_emit(r->g, mul, .a = y, .b = w));
	rlx_vjp(r->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = RLX_VALUES(y),
				        .wrt = { wrt, n } }, d);
	for (i = 0; i < n; i++)
		rig_output(r, d[i]);
}

EVERYWHERE(r185_neighbours_of_points_on_a_line)
{
	static const double points[] = { 0, 1, 3, 7 };
	static const double ids[] = { 1, 2, 0, 2, 1, 0, 2, 1 };
	static const double distance[] = { 1, 3, 1, 2, 2, 3, 4, 6 };
	rlx_value x = input(r, rlx_type(RLX_F32, 4, 1), points);
	rlx_value y = rlx_emit(r->g, knn, .x = x, .k = 2);

	rig_output(r, y);
	rig_output(r, rlx_out(r->g, y, 1));
	y = rlx_emit(r->g, knn, .x = x, .y = x, .k = 1, .metric = RLX_KNN_L2SQ);
	rig_output(r, y);
	rig_run(r);
	want_all(r, 0, distance, 8, 1e-6);
	want_all(r, 1, ids, 8, 0);
	want_all(r, 2, (double[]){ 0, 0, 0, 0 }, 4, 0);
}

/* Of equal ones the lower; one that is not a number last, and to it all are as far. */
EVERYWHERE(neighbours_that_are_alike_or_none)
{
	static const double points[] = { 2, 2, 2, 2, NAN, 5 };
	static const double ids[] = { 1, 2, 3, 5, 4, 0, 2, 3, 5, 4, 0, 1, 3, 5, 4,
				      0, 1, 2, 5, 4, 0, 1, 2, 3, 5, 0, 1, 2, 3, 4 };
	rlx_value x = input(r, rlx_type(RLX_F32, 6, 1), points);
	rlx_value y = rlx_emit(r->g, knn, .x = x, .k = 5);

	rig_output(r, y);
	rig_output(r, rlx_out(r->g, y, 1));
	rig_run(r);
	want_all(r, 1, ids, 30, 0);
	rig_want(r, 0, 3, 3, 1e-6);
	rig_want(r, 0, 4, INFINITY, 0);
	rig_want(r, 0, 20, INFINITY, 0);
}

/* d|a - b| = (a - b) / |a - b|, of each pair that was chosen; 0 between equal points. */
EVERYWHERE(gradient_of_neighbours)
{
	static const double points[] = { 0, 0, 3, 4, 3, 4 }, weight[] = { 2, 1, 1 };
	/* 0's neighbour is 1, and each of those is the other's, at no distance. */
	static const double want[] = { -1.2, -1.6, 1.2, 1.6, 0, 0 };
	rlx_value x = rig_input(r, rlx_type(RLX_F64, 3, 2), points);

	gradients(r, rlx_emit(r->g, knn, .x = x, .k = 1), weight, &x, 1);
	rig_run(r);
	want_all(r, 0, want, 6, 1e-12);
}

EVERYWHERE(neighbours_by_angle_and_product)
{
	static const double x[] = { 1, 0 }, y[] = { 0, 0, 3, 3, 0.1, 0, -1, 0, 10, 20 };
	static const double cosine[] = { 2, 1, 4, 0, 3 }, product[] = { 4, 1, 2, 0, 3 };
	rlx_value a = input(r, rlx_type(RLX_F32, 1, 2), x);
	rlx_value b = input(r, rlx_type(RLX_F32, 5, 2), y), v;

	v = rlx_emit(r->g, knn, .x = a, .y = b, .k = 5, .metric = RLX_KNN_COS);
	rig_output(r, v);
	rig_output(r, rlx_out(r->g, v, 1));
	v = rlx_emit(r->g, knn, .x = a, .y = b, .k = 5, .metric = RLX_KNN_IP);
	rig_output(r, v);
	rig_output(r, rlx_out(r->g, v, 1));
	rig_run(r);
	want_all(r, 0, (double[]){ 0, 1 - sqrt(0.5), 1 - sqrt(0.2), 1, 2 }, 5, 1e-6);
	want_all(r, 1, cosine, 5, 0);
	want_all(r, 2, (double[]){ -10, -3, -0.1, 0, 1 }, 5, 1e-6);
	want_all(r, 3, product, 5, 0);
}

TEST(more_neighbours_than_there_are)
{
	struct rlx_graph *g = rlx_graph_new("knn");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4, 2));

	rlx_emit(g, knn, .x = x, .k = 4);
	CHECK_EQ(rlx_graph_error(g)->status, RLX_ERANGE);
	CHECKF(strstr(rlx_graph_error(g)->text, "k is 4"), "%s", rlx_graph_error(g)->text);
	rlx_graph_put(g);
}

/* A search of many points, as it was drawn. */
struct drawn {
	enum rlx_dtype	type;
	int32_t		metric;
	bool		self, grid;	/* whole numbers, of which many are alike */
	int64_t		n, m, d, k;
};

/* What two points are ordered by; @size: of what is summed up. */
static double distance_of(const struct drawn *s, const double *x, const double *y, double *size)
{
	double xx = 0, yy = 0, xy = 0, square = 0;
	int64_t p;

	for (p = 0; p < s->d; p++) {
		xx += x[p] * x[p];
		yy += y[p] * y[p];
		xy += x[p] * y[p];
		square += (x[p] - y[p]) * (x[p] - y[p]);
	}
	*size = s->metric == RLX_KNN_IP ? sqrt(xx * yy) : 1;
	if (s->metric == RLX_KNN_COS && (xx == 0 || yy == 0))
		return 1;
	return s->metric == RLX_KNN_IP ? -xy : s->metric == RLX_KNN_COS ? 1 - xy / sqrt(xx * yy) :
	       s->metric == RLX_KNN_L2 ? sqrt(square) : square;
}

/* Points of its type, and in @out as that holds them. */
static rlx_value draw_points(struct rig *r, const struct drawn *s, int64_t n, double **out,
			     uint64_t *seed)
{
	struct rlx_type t = rlx_type(s->type, n, s->d);
	void *bytes = calloc((size_t)(n * s->d), sizeof(double));
	struct rlx_tensor view = { .type = t, .data = bytes };
	rlx_value v;
	int64_t i;

	*out = calloc((size_t)(n * s->d), sizeof(**out));
	CHECK(bytes && *out);
	for (i = 0; i < n * s->d; i++) {
		double u = rlx_test_uniform(seed, -4, 4);

		el_set(&view, i, s->grid ? floor(u) : u);
		(*out)[i] = el_get(&view, i);
	}
	v = rig_input(r, t, bytes);
	free(bytes);
	return v;
}

/* Each row's distances are those of a sort, and each is that of the point it names, once. */
static void as_a_sort_has_them(struct rig *r, const struct drawn *s, uint64_t *seed)
{
	double *x, *y = NULL, *all = calloc((size_t)s->m, sizeof(*all)), tol, size;
	rlx_value a = draw_points(r, s, s->n, &x, seed), b = RLX_NONE, v;
	int64_t i, j, at, best, id;

	if (!s->self)
		b = draw_points(r, s, s->m, &y, seed);
	v = rlx_emit(r->g, knn, .x = a, .y = b, .k = s->k, .metric = s->metric);
	rig_output(r, v);
	rig_output(r, rlx_out(r->g, v, 1));
	rig_run(r);
	CHECK(all);
	for (i = 0; i < s->n; i += 1 + s->n / 50) {
		for (j = 0; j < s->m; j++)
			all[j] = s->self && i == j ? INFINITY :
				 distance_of(s, x + i * s->d, (y ? y : x) + j * s->d, &size);
		for (at = 0; at < s->k; at++) {
			for (best = j = 0; j < s->m; j++)
				best = all[j] < all[best] ? j : best;
			id = (int64_t)rig_get(r, 1, i * s->k + at);
			distance_of(s, x + i * s->d, (y ? y : x) + best * s->d, &size);
			tol = 1e-6 * (size + fabs(all[best]));
			if (s->grid && s->metric != RLX_KNN_COS)
				CHECK_EQ(id, best);
			CHECKF(id >= 0 && id < s->m && fabs(all[id] - all[best]) <= tol,
			       "%s metric %d n %d m %d d %d k %d: [%d, %d] is %d, not %d",
			       rlx_dtype_name(s->type), (int)s->metric, (int)s->n, (int)s->m,
			       (int)s->d, (int)s->k, (int)i, (int)at, (int)id, (int)best);
			rig_want(r, 0, i * s->k + at, all[id], tol);
			all[id] = INFINITY;
		}
	}
	free(all);
	free(x);
	free(y);
}

EVERYWHERE(neighbours_of_many)
{
	static const enum rlx_dtype type[] = { RLX_F32, RLX_F16, RLX_BF16, RLX_F64 };
	static const int64_t most[] = { 2, 20, 200 };	/* neighbours: few, some, a sort */
	uint64_t seed = rlx_test_seed();
	int i;

	for (i = 0; i < 12; i++) {
		struct drawn s = { .type = type[i % 4], .metric = (i + i / 4) % 4 };

		s.self = rlx_test_rand(&seed) % 2;
		s.grid = rlx_test_rand(&seed) % 2;
		s.n = 1 + (int64_t)(rlx_test_rand(&seed) % 90);
		s.m = s.self ? s.n += 1 : 1 + (int64_t)(rlx_test_rand(&seed) % 400);
		s.d = 1 + (int64_t)(rlx_test_rand(&seed) % 40);
		s.k = 1 + (int64_t)(rlx_test_rand(&seed) % (uint64_t)most[i % 3]);
		s.k = s.k < s.m - s.self ? s.k : s.m - s.self;
		as_a_sort_has_them(r, &s, &seed);
		rig_reset(r);
	}
}

EVERYWHERE(r178_windows_as_rows)
{
	static const double x[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
	static const double plain[] = { 1, 2, 4, 5, 2, 3, 5, 6, 4, 5, 7, 8, 5, 6, 8, 9 };
	static const double padded[] = { 0, 0, 0, 1, 0, 0, 2, 3, 0, 4, 0, 7, 5, 6, 8, 9 };
	static const double ones[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
	static const double counts[] = { 1, 2, 1, 2, 4, 2, 1, 2, 1 };
	rlx_value v = input(r, rlx_type(RLX_F32, 1, 1, 3, 3), x), y;

	y = rlx_emit(r->g, im2col, .x = v, .kernel = RLX_INTS(2, 2));
	rig_output(r, y);
	rig_output(r, rlx_emit(r->g, im2col, .x = v, .kernel = RLX_INTS(2, 2),
			       .stride = RLX_INTS(2, 2), .pad = RLX_INTS(1, 1, 1, 1)));
	gradients(r, y, ones, &v, 1);
	rig_run(r);
	want_all(r, 0, plain, 16, 0);
	want_all(r, 1, padded, 16, 0);
	want_all(r, 2, counts, 9, 1e-6);
}

EVERYWHERE(e1_learned_step)
{
	static const double x[] = { -1, -0.2, 0.1, 0.3 }, s[] = { 0.5 }, ones[] = { 1, 1, 1, 1 };
	rlx_value v[2] = { input(r, rlx_type(RLX_F32, 4), x), input(r, rlx_type(RLX_F32), s) };
	rlx_value y = rlx_emit(r->g, fake_quantize_lsq, .x = v[0], .s = v[1], .bits = 2);

	rig_output(r, y);
	gradients(r, y, ones, v, 2);
	rig_run(r);
	want_all(r, 0, (double[]){ -0.5, 0, 0, 0.5 }, 4, 1e-6);
	want_all(r, 1, (double[]){ 0, 1, 1, 1 }, 4, 0);
	rig_want(r, 2, 0, -0.4, 1e-6);
}

EVERYWHERE(e2_layer_norm_that_comes_with_the_input)
{
	static const double x[] = { 1, 3 }, one[] = { 1 }, half[] = { 0.5 };

	rig_output(r, rlx_emit(r->g, ada_layer_norm, .x = input(r, rlx_type(RLX_F32, 1, 2), x),
			       .scale = input(r, rlx_type(RLX_F32, 1, 1), one),
			       .shift = input(r, rlx_type(RLX_F32, 1), half), .eps = 1e-12f));
	rig_run(r);
	want_all(r, 0, (double[]){ -1.5, 2.5 }, 2, 1e-6);
}

EVERYWHERE(e3_labels_that_are_probabilities)
{
	static const double z[] = { 0, 1.0986122886681098, 0, -INFINITY };
	static const double p[] = { 0.5, 0.5, 1, 0 }, ones[] = { 1, 1 };
	rlx_value v = input(r, rlx_type(RLX_F32, 2, 2), z);
	rlx_value y = rlx_emit(r->g, cross_entropy, .logits = v,
			       .labels = input(r, rlx_type(RLX_F32, 2, 2), p));

	rig_output(r, y);
	gradients(r, y, ones, &v, 1);
	rig_run(r);
	want_all(r, 0, (double[]){ 0.836988, 0 }, 2, 1e-6);
	want_all(r, 1, (double[]){ -0.25, 0.25, 0, 0 }, 4, 1e-6);
}

TEST_MAIN()
