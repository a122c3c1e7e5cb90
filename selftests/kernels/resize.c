// SPDX-License-Identifier: MIT
/* Resize kernels at every ISA level against sums over all taps in double. */
#include "kernels/conv.h"
#include "kernels/resize.h"
#include "kernels/type.h"
#include "selftests/kernels/kernel_test.h"

/* The blocks of a level, or none, as any axis may go without. */
static void blocks_new(struct rlx_k_resize_axis *a, enum rlx_isa isa, uint64_t *s)
{
	struct rlx_resize_block *block;
	size_t lanes = rlx_resize_lanes(a, isa), n = (a->out + lanes - 1) / lanes;
	void *lane;

	if (!rlx_resize_has_blocks(a, isa) || !kt_pick(s, 0, 3))
		return;
	block = calloc(n, sizeof(*block));
	lane = calloc(4 * n, rlx_isa_vector_bytes(isa));
	CHECK(block && lane);
	rlx_resize_blocks(a, isa, block, lane);
	a->block = block;
	a->lane = lane;
}

static void blocks_free(struct rlx_k_resize_axis *a)
{
	free((void *)a->block);
	free((void *)a->lane);
	a->block = NULL;
	a->lane = NULL;
}

/*
 * Random tables, of every other axis by neighbours; a position is sometimes outside where that is
 * allowed.
 */
static void axis_random(struct rlx_k_resize_axis *a, bool used, bool nearest,
			uint64_t *s)
{
	static const size_t taps[] = { 1, 2, 2, 4, 7 };
	size_t i, j, whole, far;
	int32_t *index;
	float *weight;

	*a = (struct rlx_k_resize_axis){ .in = 1, .out = 1, .taps = 1 };
	if (!used)
		return;
	a->in = a->out = kt_pick(s, 1, 40);
	if (kt_pick(s, 0, 4) == 0)
		return;
	whole = nearest ? 2 * kt_pick(s, 0, 2) : 0;
	a->out = whole ? a->in * whole : kt_pick(s, 1, 50);
	a->taps = nearest ? 1 : taps[kt_pick(s, 0, 4)];
	index = malloc(a->out * a->taps * sizeof(*index));
	weight = malloc(a->out * a->taps * sizeof(*weight));
	CHECK(index && weight);
	far = kt_pick(s, 0, 1) ? a->in - 1 : kt_pick(s, 0, 2);
	for (i = 0; i < a->out; i++)
		for (j = 0; j < a->taps; j++) {
			const size_t from = i * a->in / a->out, to = from + far;

			index[i * a->taps + j] = (int32_t)kt_pick(s, far == a->in - 1 ? 0 : from,
								  to < a->in ? to : a->in - 1);
			weight[i * a->taps + j] =
				(float)rlx_test_uniform(s, -1, 1);
		}
	/* each input twice or four times */
	for (i = 0; nearest && whole && i < a->out; i++)
		index[i] = (int32_t)(i / whole);
	if (!nearest && kt_pick(s, 0, 2) == 0)
		index[kt_pick(s, 0, a->out - 1) * a->taps] = -1;
	a->index = index;
	a->weight = weight;
	if (a->taps == 1 && (nearest || kt_pick(s, 0, 1))) {
		free(weight);
		a->weight = NULL;
	}
}

static ptrdiff_t at(const struct rlx_k_resize_axis *a, size_t o, size_t t)
{
	return a->index ? a->index[o * a->taps + t] : (ptrdiff_t)o;
}

static double sum_ref(const struct rlx_k_resize *a, const float *x,
		      const size_t o[3])
{
	const struct rlx_k_resize_axis *ax = a->axis;
	double sum = 0;
	size_t t[3];

	for (int j = 0; j < 3; j++)
		if (at(&ax[j], o[j], 0) < 0)
			return a->outside;
	for (t[0] = 0; t[0] < ax[0].taps; t[0]++)
		for (t[1] = 0; t[1] < ax[1].taps; t[1]++)
			for (t[2] = 0; t[2] < ax[2].taps; t[2]++) {
				double w = 1;
				size_t i = 0;

				for (int j = 0; j < 3; j++) {
					if (ax[j].weight)
						w *= ax[j].weight[o[j] *
							ax[j].taps + t[j]];
					i = i * ax[j].in +
					    (size_t)at(&ax[j], o[j], t[j]);
				}
				sum += w * x[i];
			}
	return sum;
}

/* @lanes elements lie together; 1 in the plain layout. */
static void check(const struct rlx_k_resize *a, size_t lanes, const char *what)
{
	const struct rlx_k_resize_axis *ax = a->axis;
	size_t px = ax[0].in * ax[1].in * ax[2].in, p, l, i, o[3], n = 0;
	const float *x = a->x, *y = a->y;
	float *one = malloc(px * sizeof(*one));

	CHECK(one != NULL);
	for (p = 0; p < a->planes; p++)
		for (o[0] = 0; o[0] < ax[0].out; o[0]++)
			for (o[1] = 0; o[1] < ax[1].out; o[1]++)
				for (o[2] = 0; o[2] < ax[2].out; o[2]++, n++) {
					l = n % lanes;
					for (i = 0; i < px; i++)
						one[i] = x[(p * px + i) *
							   lanes + l];
					CHECKF(fabs(sum_ref(a, one, o) -
						    y[n * lanes + l]) <= 4e-6,
					       "%s [%zu] lane %zu: %g, not %g",
					       what, n, l, y[n * lanes + l],
					       sum_ref(a, one, o));
				}
	free(one);
}

static void fini(struct rlx_k_resize *a)
{
	for (int j = 0; j < 3; j++) {
		free((void *)a->axis[j].index);
		free((void *)a->axis[j].weight);
	}
}

static void level_run(enum rlx_isa isa, struct rlx_k_resize *a, bool blocked,
		      uint64_t *s)
{
	const struct rlx_kernels *k = rlx_kernels_get(isa);
	size_t lanes = blocked ? rlx_conv_block(isa) : 1;
	size_t nx = a->planes * lanes, ny = nx;
	float *x, *y;

	for (int j = 0; j < 3; j++) {
		nx *= a->axis[j].in;
		ny *= a->axis[j].out;
	}
	x = kt_new(nx * 4);
	y = kt_new(ny * 4);
	kt_fill(x, nx, s);
	a->x = x;
	a->y = y;
	if (!blocked)
		blocks_new(&a->axis[2], isa, s);
	kt_run(blocked ? k->resize_c : k->resize_f32, a,
	       a->planes * a->axis[0].out * a->axis[1].out,
	       rlx_resize_scratch(a, lanes), s);
	blocks_free(&a->axis[2]);
	check(a, lanes, blocked ? "resize_c" : "resize_f32");
	kt_free(x, nx * 4);
	kt_free(y, ny * 4);
}

static void random_run(bool blocked)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 60; i++) {
		struct rlx_k_resize a = { .planes = kt_pick(&seed, 1, 3),
					  .outside = -7.5f };
		size_t dims = kt_pick(&seed, 1, i % 8 ? 2 : 3);

		for (size_t j = 0; j < 3; j++)
			axis_random(&a.axis[j], j + dims >= 3, false, &seed);
		for (enum rlx_isa isa = 0; isa < RLX_ISA_COUNT; isa++)
			if (kt_isa_runs(isa) && (i % 8 || isa % 2))
				level_run(isa, &a, blocked, &seed);
		fini(&a);
	}
}

TEST(resize_f32)
{
	random_run(false);
}

TEST(resize_c)
{
	random_run(true);
}

TEST(resize_nearest)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 100; i++) {
		struct rlx_k_resize a = { .planes = kt_pick(&seed, 1, 3),
					  .esize = (size_t)1 << i % 4 };
		const struct rlx_k_resize_axis *ax = a.axis;
		size_t nx = a.planes * a.esize, ny = nx, n, e, o[3], from;
		enum rlx_isa isa = i / 4 % RLX_ISA_COUNT;
		unsigned char *x, *y;

		if (!kt_isa_runs(isa))
			continue;
		for (size_t j = 0; j < 3; j++) {
			axis_random(&a.axis[j], j > 0 || i % 3 == 0, true,
				    &seed);
			nx *= ax[j].in;
			ny *= ax[j].out;
		}
		x = kt_new(nx);
		y = kt_new(ny);
		for (n = 0; n < nx; n++)
			x[n] = (unsigned char)rlx_test_rand(&seed);
		a.x = x;
		a.y = y;
		kt_run(rlx_kernels_get(isa)->resize_nearest, &a,
		       a.planes * ax[0].out * ax[1].out, 0, &seed);
		for (n = 0; n < ny / a.esize; n++) {
			o[2] = n % ax[2].out;
			o[1] = n / ax[2].out % ax[1].out;
			o[0] = n / ax[2].out / ax[1].out;
			from = o[0] / ax[0].out * ax[0].in +
			       (size_t)at(&ax[0], o[0] % ax[0].out, 0);
			from = from * ax[1].in + (size_t)at(&ax[1], o[1], 0);
			from = from * ax[2].in + (size_t)at(&ax[2], o[2], 0);
			for (e = 0; e < a.esize; e++)
				CHECK_EQ(y[n * a.esize + e],
					 x[from * a.esize + e]);
		}
		kt_free(x, nx);
		kt_free(y, ny);
		fini(&a);
	}
}

/* What sums of double along axis @j and those before it are, in the order of the op. */
static double wide_ref(const struct rlx_k_resize *a, const double *x, const size_t o[3], int j,
		       size_t in[3])
{
	const struct rlx_k_resize_axis *ax;
	double sum = 0;

	if (j < 0)
		return x[(in[0] * a->axis[1].in + in[1]) * a->axis[2].in + in[2]];
	ax = &a->axis[j];
	for (size_t t = 0; t < ax->taps; t++) {
		double w = ax->wide ? ax->wide[o[j] * ax->taps + t] : 1;

		in[j] = (size_t)at(ax, o[j], t);
		sum += w * wide_ref(a, x, o, j - 1, in);
	}
	return sum;
}

static double *wide_weights(const struct rlx_k_resize_axis *a, uint64_t *seed)
{
	double *w = a->index ? malloc(a->out * a->taps * sizeof(*w)) : NULL;

	CHECK(w || !a->index);
	for (size_t i = 0; w && i < a->out * a->taps; i++)
		w[i] = rlx_test_uniform(seed, 0, 1.0 / (double)a->taps);
	return w;
}

/* Sums that are truncated are the same at every level. */
static void wide_run(enum rlx_isa isa, struct rlx_k_resize *a, const double *x, uint64_t *seed)
{
	const struct rlx_k_resize_axis *ax = a->axis;
	size_t in[3], o[3], rows = ax[0].out * ax[1].out, n = rows * ax[2].out, i;
	unsigned char *y = kt_new(n * a->esize);
	double got, want;

	a->y = y;
	blocks_new(&a->axis[2], isa, seed);
	kt_run(rlx_kernels_get(isa)->resize_wide, a, rows, rlx_resize_wide_scratch(a), seed);
	blocks_free(&a->axis[2]);
	for (i = 0; i < n; i++) {
		o[2] = i % ax[2].out;
		o[1] = i / ax[2].out % ax[1].out;
		o[0] = i / ax[2].out / ax[1].out;
		if (at(&ax[0], o[0], 0) < 0 || at(&ax[1], o[1], 0) < 0 || at(&ax[2], o[2], 0) < 0)
			want = a->type == RLX_U8 ? 9 : 0;
		else
			want = wide_ref(a, x, o, 2, in);
		if (a->type == RLX_U8)
			want = (uint8_t)want;
		got = a->type == RLX_U8 ? y[i] : ((double *)(void *)y)[i];
		CHECKF(got == want, "level %d, type %d, element %zu is %.17g, not %.17g", isa,
		       a->type, i, got, want);
	}
	kt_free(y, n * a->esize);
}

TEST(resize_wide)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 60; i++) {
		struct rlx_k_resize a = { .planes = 1, .esize = i % 2 ? 8 : 1,
					  .type = i % 2 ? RLX_F64 : RLX_U8, .fill = i % 2 ? 0 : 9 };
		size_t nx = 1;
		unsigned char *x;
		double *d;

		a.x_type = a.type;
		for (size_t j = 0; j < 3; j++) {
			axis_random(&a.axis[j], j > 0 || i % 3 == 0, false, &seed);
			a.axis[j].wide = wide_weights(&a.axis[j], &seed);
			nx *= a.axis[j].in;
		}
		x = kt_new(nx * a.esize);
		d = malloc(nx * sizeof(*d));
		CHECK(d != NULL);
		for (size_t n = 0; n < nx; n++) {
			x[n * a.esize] = (unsigned char)rlx_test_rand(&seed);
			d[n] = a.esize == 1 ? x[n] : rlx_test_uniform(&seed, -9, 9);
		}
		if (a.esize == 8)
			memcpy(x, d, nx * sizeof(*d));
		a.x = x;
		for (enum rlx_isa isa = 0; isa < RLX_ISA_COUNT; isa++)
			if (kt_isa_runs(isa))
				wide_run(isa, &a, d, &seed);
		kt_free(x, nx * a.esize);
		free(d);
		for (int j = 0; j < 3; j++)
			free((void *)a.axis[j].wide);
		fini(&a);
	}
}

TEST_MAIN()
