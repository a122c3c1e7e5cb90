// SPDX-License-Identifier: MIT
/* 8-bit convolution at every ISA level: equal, to the bit, to integer sums. */
#include "kernels/conv_i8_dw.h"
#include "selftests/kernels/amx_emu.h"
#include "selftests/kernels/kernel_test.h"

struct data {
	uint8_t	*x, *w;
	int32_t	*bias, *w_zero, *y;
	float	*scale;
	size_t	nx, nw, ny;
};

static size_t volume(const size_t d[3])
{
	return d[0] * d[1] * d[2];
}

static int32_t byte(uint8_t v, bool is_signed)
{
	return is_signed ? (int8_t)v : v;
}

#define EACH(v, dims)							\
	for (v[0] = 0; v[0] < (dims)[0]; v[0]++)			\
		for (v[1] = 0; v[1] < (dims)[1]; v[1]++)		\
			for (v[2] = 0; v[2] < (dims)[2]; v[2]++)

static size_t flat(const size_t v[3], const size_t dims[3])
{
	return (v[0] * dims[1] + v[1]) * dims[2] + v[2];
}

static int32_t sum_ref(const struct rlx_k_conv_i8 *a, const struct data *d,
		       size_t n, size_t oc, const size_t o[3])
{
	const struct rlx_k_conv_nd *s = &a->shape;
	size_t icg = s->ic / s->groups, g = oc / (s->oc / s->groups), k[3];
	int64_t sum = a->bias ? d->bias[oc] : 0, x, w;

	EACH(k, s->k) {
		size_t i[3], in = true;

		for (int j = 0; j < 3; j++) {
			i[j] = o[j] * s->s[j] + k[j] * s->d[j] - s->p[j];
			in = in && i[j] < s->in[j];
		}
		for (size_t c = 0; in && c < icg; c++) {
			x = byte(d->x[(n * s->ic + g * icg + c) *
				      volume(s->in) + flat(i, s->in)],
				 a->x_signed) - a->x_zero;
			w = byte(d->w[(oc * icg + c) * volume(s->k) +
				      flat(k, s->k)], a->w_signed) -
			    (a->w_zero ? d->w_zero[oc] : 0);
			sum += x * w;
		}
	}
	return (int32_t)(uint32_t)(uint64_t)sum;
}

static void reference(const struct rlx_k_conv_i8 *a, struct data *d)
{
	const struct rlx_k_conv_nd *s = &a->shape;
	size_t n, oc, o[3], at = 0;

	for (n = 0; n < s->n; n++)
		for (oc = 0; oc < s->oc; oc++)
			EACH(o, s->out) {
				int32_t v = sum_ref(a, d, n, oc, o);

				if (a->out != RLX_CONV_I32) {
					double f = rintf((float)v *
							 d->scale[oc]);

					f = (isnan(f) ? 0 : f) + a->y_zero;
					v = (int32_t)fmin(fmax(f, a->lo), a->hi);
				}
				d->y[at++] = v;
			}
}

static void shape_random(struct rlx_k_conv_i8 *a, uint64_t *s)
{
	struct rlx_k_conv_nd *p = &a->shape;
	size_t dims = kt_pick(s, 1, 3), j, span;

	*a = (struct rlx_k_conv_i8){
		.x_signed = kt_pick(s, 0, 1), .w_signed = kt_pick(s, 0, 1),
		.out = kt_pick(s, 0, 2),
	};
	a->x_zero = (int32_t)kt_pick(s, 0, 255) - (a->x_signed ? 128 : 0);
	a->lo = a->out == RLX_CONV_I8 ? -128 : 0;
	a->hi = a->lo + 255;
	a->y_zero = (int32_t)kt_pick(s, 0, 255) + a->lo;
	if (kt_pick(s, 0, 1))
		a->lo = a->y_zero;
	p->n = kt_pick(s, 1, 2);
	p->groups = kt_pick(s, 1, 3);
	p->ic = p->groups * kt_pick(s, 1, kt_pick(s, 0, 2) ? kt_pick(s, 0, 3) ? 20 : 200 : 2);
	p->oc = p->groups * kt_pick(s, 1, 30);
	for (j = 0; j < 3; j++) {
		bool used = j + dims >= 3;

		do {
			p->in[j] = used ? kt_pick(s, 1, dims > 2 ? 6 : 16) : 1;
			p->k[j] = used ? kt_pick(s, 1, j == 2 ? 6 : 3) : 1;
			p->s[j] = used ? kt_pick(s, 1, 3) : 1;
			p->d[j] = used ? kt_pick(s, 1, 2) : 1;
			p->p[j] = used ? kt_pick(s, 0, 2) : 0;
			span = (p->k[j] - 1) * p->d[j] + 1;
		} while (p->in[j] + 2 * p->p[j] < span);
		p->out[j] = (p->in[j] + 2 * p->p[j] - span) / p->s[j] + 1;
	}
}

/* @d's results and those at @a. */
static void compare(enum rlx_isa isa, const struct rlx_k_conv_i8 *a, const struct data *d)
{
	size_t i;

	for (i = 0; i < d->ny; i++) {
		int32_t v = a->out == RLX_CONV_I32 ? ((int32_t *)a->y)[i] :
			    byte(((uint8_t *)a->y)[i], a->out == RLX_CONV_I8);

		CHECKF(v == d->y[i], "level %d [%zu] is %d, not %d; x %s w %s "
		       "x_zero %d w_zero %d out %d", isa, i, v, d->y[i],
		       a->x_signed ? "s8" : "u8", a->w_signed ? "s8" : "u8",
		       a->x_zero, !!a->w_zero, a->out);
	}
}

static void level_run(enum rlx_isa isa, const struct rlx_k_conv_i8 *shape,
		      const struct data *d, uint64_t *seed)
{
	const struct rlx_kernels *k = amx_kernels(isa);
	struct rlx_k_conv_i8 a = *shape;
	struct rlx_k_conv_i8_pack pk = { .conv = &a, .src = d->w };
	size_t esize = a.out == RLX_CONV_I32 ? 4 : 1;
	void *x;

	a.shape.x_n = a.shape.ic * volume(a.shape.in);
	a.shape.y_n = a.shape.oc * volume(a.shape.out);
	CHECK(rlx_conv_i8_init(isa, &a));
	pk.dst = kt_new(rlx_conv_i8_wsize(&a));
	kt_run(k->conv_i8_pack, &pk, a.shape.groups, 0, seed);
	a.x = d->x;
	a.y = x = kt_new(rlx_conv_i8_xsize(&a));
	kt_run(k->conv_i8_group, &a, rlx_conv_i8_xunits(&a), 0, seed);
	a.x = x;
	a.w = pk.dst;
	a.y = kt_new(d->ny * esize);
	kt_run(k->conv_i8, &a, rlx_conv_i8_units(&a), rlx_conv_i8_scratch(&a),
	       seed);
	compare(isa, &a, d);
	kt_free(a.y, d->ny * esize);
	kt_free(pk.dst, rlx_conv_i8_wsize(&a));
	kt_free(x, rlx_conv_i8_xsize(&a));
}

/* The same by streams of floats, where these have few enough terms. */
static void level_streams(enum rlx_isa isa, const struct rlx_k_conv_i8 *shape,
			  const struct data *d, uint64_t *seed)
{
	struct rlx_k_conv_i8 a = *shape;
	size_t bytes = d->ny * (a.out == RLX_CONV_I32 ? 4 : 1);

	if (!rlx_conv_i8_dw_fits(&a.shape))
		return;
	a.shape.x_n = a.shape.ic * volume(a.shape.in);
	a.shape.y_n = a.shape.oc * volume(a.shape.out);
	a.x = d->x;
	a.w = d->w;
	a.y = kt_new(bytes);
	kt_run(rlx_kernels_get(isa)->conv_i8_dw, &a, rlx_conv_i8_dw_units(&a.shape),
	       rlx_conv_i8_dw_scratch(&a.shape), seed);
	compare(isa, &a, d);
	kt_free(a.y, bytes);
}

static void data_fill(const struct rlx_k_conv_i8 *a, struct data *d,
		      bool extreme, uint64_t *s)
{
	size_t i;

	for (i = 0; i < d->nx; i++)
		d->x[i] = extreme ? (a->x_signed ? 0x80 : 0xff) :
			  (uint8_t)rlx_test_rand(s);
	for (i = 0; i < d->nw; i++)
		d->w[i] = extreme ? (a->w_signed ? 0x80 : 0xff) :
			  (uint8_t)rlx_test_rand(s);
	for (i = 0; i < a->shape.oc; i++) {
		d->bias[i] = (int32_t)rlx_test_rand(s) / 1000;
		d->scale[i] = (float)rlx_test_uniform(s, 1e-4, 5e-3);
		d->w_zero[i] = (int32_t)kt_pick(s, 0, 255) -
			       (a->w_signed ? 128 : 0);
	}
}

static void one(const struct rlx_k_conv_i8 *shape, bool extreme, bool groups, uint64_t *seed)
{
	struct rlx_k_conv_i8 a = *shape;
	struct data d = {
		.nx = a.shape.n * a.shape.ic * volume(a.shape.in),
		.nw = a.shape.oc * (a.shape.ic / a.shape.groups) * volume(a.shape.k),
		.ny = a.shape.n * a.shape.oc * volume(a.shape.out),
	};

	d.x = kt_new(d.nx);
	d.w = kt_new(d.nw);
	d.bias = kt_new(a.shape.oc * 4);
	d.w_zero = kt_new(a.shape.oc * 4);
	d.scale = kt_new(a.shape.oc * 4);
	d.y = kt_new(d.ny * 4);
	data_fill(&a, &d, extreme, seed);
	if (!kt_pick(seed, 0, 9))
		d.scale[kt_pick(seed, 0, a.shape.oc - 1)] = INFINITY;
	a.bias = kt_pick(seed, 0, 1) ? d.bias : NULL;
	a.w_zero = kt_pick(seed, 0, 1) ? d.w_zero : NULL;
	a.scale = d.scale;
	reference(&a, &d);
	for (enum rlx_isa isa = 0; isa < RLX_ISA_COUNT; isa++)
		if (kt_isa_runs(isa)) {
			if (groups)
				level_run(isa, &a, &d, seed);
			level_streams(isa, &a, &d, seed);
		}
	if (groups) {
		amx_emulated = true;
		level_run(RLX_ISA_V4_AMX, &a, &d, seed);
		amx_emulated = false;
	}
	kt_free(d.x, d.nx);
	kt_free(d.w, d.nw);
	kt_free(d.bias, a.shape.oc * 4);
	kt_free(d.w_zero, a.shape.oc * 4);
	kt_free(d.scale, a.shape.oc * 4);
	kt_free(d.y, d.ny * 4);
}

TEST(conv_i8_random)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_k_conv_i8 a;

	for (int i = 0; i < 200; i++) {
		shape_random(&a, &seed);
		one(&a, i % 5 == 0, true, &seed);
	}
}

/* Whole steps of AMX tiles, strides of 1: most is read where it lies. */
TEST(steps_of_channels)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_k_conv_i8 a;
	unsigned int in_place = 0;

	for (int i = 0; i < 60; i++) {
		struct rlx_k_conv_nd *p = &a.shape;
		size_t span, j;

		shape_random(&a, &seed);
		p->groups = kt_pick(&seed, 1, 2);
		p->ic = p->groups * 64 * kt_pick(&seed, 1, 2);
		p->oc = p->groups * kt_pick(&seed, 1, 70);
		for (j = 0; j < 3; j++) {
			p->s[j] = 1;
			p->k[j] = kt_pick(&seed, 1, j ? 4 : kt_pick(&seed, 1, 3));
			p->p[j] = kt_pick(&seed, 0, p->k[j]);
			span = (p->k[j] - 1) * p->d[j] + 1;
			p->in[j] = span + kt_pick(&seed, 0, j ? 15 : p->k[0] - 1);
			p->out[j] = p->in[j] + 2 * p->p[j] - span + 1;
		}
		a.shape.x_n = p->ic * volume(p->in);
		a.shape.y_n = p->oc * volume(p->out);
		CHECK(rlx_conv_i8_init(RLX_ISA_V4_AMX, &a));
		in_place += a.in_place;
		one(&a, i % 5 == 0, true, &seed);
	}
	CHECKF(in_place > 10 && in_place < 60, "%u of 60 in place", in_place);
}

/* Of few channels a group, and larger: several units of rows, and of columns. */
TEST(few_channels_a_group)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_k_conv_i8 a;

	for (int i = 0; i < 60; i++) {
		struct rlx_k_conv_nd *p = &a.shape;
		size_t span, j;

		shape_random(&a, &seed);
		p->groups = kt_pick(&seed, 1, 4);
		p->ic = p->groups * kt_pick(&seed, 1, kt_pick(&seed, 0, 2) ? 1 : 4);
		p->oc = p->groups * kt_pick(&seed, 1, kt_pick(&seed, 0, 1) ? 1 : 3);
		p->in[0] = p->out[0] = p->k[0] = p->s[0] = p->d[0] = 1;
		p->p[0] = 0;
		for (j = 1; j < 3; j++) {
			p->k[j] = kt_pick(&seed, 1, 7);
			p->p[j] = kt_pick(&seed, 0, p->k[j]);
			span = (p->k[j] - 1) * p->d[j] + 1;
			p->in[j] = span + kt_pick(&seed, 0, kt_pick(&seed, 0, 3) ? 12 : 70);
			if (j == 2 && p->in[1] < 8)
				p->in[j] += 1200;
			p->out[j] = (p->in[j] + 2 * p->p[j] - span) / p->s[j] + 1;
		}
		one(&a, i % 5 == 0, false, &seed);
	}
}

TEST(conv_i8_refuses)
{
	struct rlx_k_conv_i8 a = { .shape = {
		.n = 1, .ic = 4, .oc = 4, .groups = 1, .in = { 1, 1, 4 },
		.out = { 1, 1, 4 }, .k = { 1, 1, 1 }, .s = { 1, 1, 1 },
		.d = { 1, 1, 1 },
	} };

	CHECK(rlx_conv_i8_init(RLX_ISA_V3, &a));
	a.shape.transposed = true;
	CHECK(!rlx_conv_i8_init(RLX_ISA_V3, &a));
	a.shape.transposed = false;
	a.shape.groups = 0;
	CHECK(!rlx_conv_i8_init(RLX_ISA_V3, &a));
}

TEST_MAIN()
