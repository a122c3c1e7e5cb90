// SPDX-License-Identifier: MIT
/*
 * Convolutions of f16 and bf16 on a Vulkan device against sums in double: by cooperative matrices
 * where the device has them, by the plain kernel elsewhere. Shapes are such that tiles, slices,
 * images and vectors end apart.
 */
#include <math.h>

#include "rlx/act.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { CASES = 60, MOST_CHECKED = 3000 };

/* Over @nd dimensions; of arrays the first so many are used. */
struct shape {
	int64_t		nd, n, ic, oc, groups, in[3], k[3], s[3], d[3], p[3], out[3];
	bool		bias, residual;
	int		act;
	enum rlx_dtype	dtype, bias_dtype;
};

static int64_t any_of(uint64_t *seed, const int64_t *v, uint64_t n)
{
	return v[rlx_test_rand(seed) % n];
}

static int64_t within(uint64_t *seed, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(seed) % (uint64_t)(hi - lo + 1));
}

static void draw_window(struct shape *c, uint64_t *seed)
{
	static const int64_t size[] = { 1, 4, 7, 8, 14, 20, 28, 33 };
	const bool pointwise = rlx_test_rand(seed) % 3 == 0;
	int64_t i;

	for (i = 0; i < c->nd; i++) {
		c->in[i] = c->nd == 3 ? within(seed, 1, 9) : any_of(seed, size, 8);
		c->k[i] = pointwise ? 1 : within(seed, 1, c->nd == 2 ? 7 : 3);
		c->s[i] = pointwise ? 1 : within(seed, 1, 3);
		c->d[i] = within(seed, 1, 2);
		c->p[i] = pointwise ? 0 : within(seed, 0, 3);
		if (c->in[i] + 2 * c->p[i] < (c->k[i] - 1) * c->d[i] + 1)
			c->in[i] = (c->k[i] - 1) * c->d[i] + 1;
		c->out[i] = (c->in[i] + 2 * c->p[i] - (c->k[i] - 1) * c->d[i] - 1) / c->s[i] + 1;
	}
}

static struct shape draw(uint64_t *seed)
{
	static const int64_t in[] = { 1, 3, 8, 16, 24, 40, 64, 100 };
	static const int64_t out[] = { 1, 8, 16, 24, 64, 65, 128, 136, 200 };
	static const int acts[] = { RLX_ACT_NONE, RLX_ACT_RELU, RLX_ACT_SILU };
	uint64_t bits = rlx_test_rand(seed);
	struct shape c = {
		.nd = any_of(seed, (const int64_t[]){ 1, 2, 2, 2, 3 }, 5), .n = within(seed, 1, 5),
		.groups = bits & 3 ? 1 : 2, .ic = any_of(seed, in, 8), .oc = any_of(seed, out, 9),
		.bias = bits & 4, .residual = bits & 8,
		.dtype = bits & 16 ? RLX_F16 : RLX_BF16,
	};

	c.bias_dtype = bits & 32 ? c.dtype : RLX_F32;
	c.ic *= c.groups;
	c.oc *= c.groups;
	c.act = acts[rlx_test_rand(seed) % 3];
	draw_window(&c, seed);
	return c;
}

static struct rlx_type type_of(enum rlx_dtype dt, int64_t n, int64_t c, const int64_t *dim,
			       int64_t nd)
{
	struct rlx_type t = { .dtype = dt, .rank = (int)nd + 2, .dim = { n, c } };
	int64_t i;

	for (i = 0; i < nd; i++)
		t.dim[2 + i] = dim[i];
	return t;
}

static int64_t pixels(const int64_t *dim, int64_t nd)
{
	return nd ? dim[0] * pixels(dim + 1, nd - 1) : 1;
}

/* Which pixel tap @t of output pixel @o reads; -1: padding */
static int64_t read_at(const struct shape *c, int64_t o, int64_t t)
{
	int64_t at = 0, step = 1, i;

	for (i = c->nd - 1; i >= 0; i--) {
		const int64_t x = o % c->out[i] * c->s[i] - c->p[i] + t % c->k[i] * c->d[i];

		if (x < 0 || x >= c->in[i])
			return -1;
		at += x * step;
		step *= c->in[i];
		o /= c->out[i];
		t /= c->k[i];
	}
	return at;
}

static double activated(int act, double x)
{
	return act == RLX_ACT_RELU ? fmax(x, 0) : act == RLX_ACT_SILU ? x / (1 + exp(-x)) : x;
}

/* Output pixel @o of channel @oc of image @n */
static void check_element(const struct rig *r, const struct shape *c, int64_t n, int64_t oc,
			  int64_t o)
{
	const int64_t taps = pixels(c->k, c->nd), image = pixels(c->in, c->nd);
	const int64_t ic = c->ic / c->groups, group = oc / (c->oc / c->groups);
	const int64_t at = (n * c->oc + oc) * pixels(c->out, c->nd) + o;
	const double step = c->dtype == RLX_F16 ? 0x1p-11 : 0x1p-8;
	double sum = 0, size = 0, got;
	unsigned int in = 2;
	int64_t i, t, p;

	for (t = 0; t < taps; t++)
		for (i = 0, p = read_at(c, o, t); p >= 0 && i < ic; i++) {
			const double x = rig_in(r, 0, (n * c->ic + group * ic + i) * image + p) *
					 rig_in(r, 1, (oc * ic + i) * taps + t);

			sum += x;
			size += fabs(x);
		}
	if (c->bias)
		sum += rig_in(r, in++, oc);
	if (c->residual)
		sum += rig_in(r, in, at);
	sum = activated(c->act, sum);
	got = rig_get(r, 0, at);
	CHECKF(fabs(got - sum) <= 2e-6 * (size + 1) + step * fabs(sum) + 0x1p-25,
	       "%s %lld x %lld to %lld, %lld groups, %lld dims, %lldx%lldx%lld by %lldx%lldx%lld, "
	       "%s%sact %d: %lld,%lld,%lld is %.9g, not %.9g", rlx_dtype_name(c->dtype),
	       (long long)c->n, (long long)c->ic, (long long)c->oc, (long long)c->groups,
	       (long long)c->nd, (long long)c->in[0], (long long)c->in[1], (long long)c->in[2],
	       (long long)c->k[0], (long long)c->k[1], (long long)c->k[2], c->bias ? "bias " : "",
	       c->residual ? "residual " : "", c->act, (long long)n, (long long)oc, (long long)o,
	       got, sum);
}

static struct rlx_ints list(const int64_t *v, int64_t n)
{
	return (struct rlx_ints){ .v = v, .n = (uint32_t)n };
}

static void check_shape(struct rig *r, const struct shape *c)
{
	const struct rlx_type y = type_of(c->dtype, c->n, c->oc, c->out, c->nd);
	const int64_t out = pixels(c->out, c->nd), all = c->n * c->oc * out;
	const int64_t pad[6] = { c->p[0], c->nd > 1 ? c->p[1] : c->p[0],
				 c->nd == 3 ? c->p[2] : c->p[0], c->nd == 2 ? c->p[1] : c->p[0],
				 c->p[1], c->p[2] };
	rlx_value x = rig_random(r, type_of(c->dtype, c->n, c->ic, c->in, c->nd), -1, 1);
	rlx_value w = rig_random(r, type_of(c->dtype, c->oc, c->ic / c->groups, c->k, c->nd), -1,
				 1);
	rlx_value b = c->bias ? rig_random(r, rlx_type(c->bias_dtype, c->oc), -1, 1) : RLX_NONE;
	rlx_value res = c->residual ? rig_random(r, y, -1, 1) : RLX_NONE;
	int64_t i;

	rig_output(r, rlx_emit(r->g, fused_conv, .x = x, .w = w, .bias = b, .residual = res,
			       .stride = list(c->s, c->nd), .pad = list(pad, 2 * c->nd),
			       .dilation = list(c->d, c->nd), .groups = c->groups, .act = c->act));
	rig_run(r);
	for (i = 0; i < all; i += 1 + all / MOST_CHECKED)
		check_element(r, c, i / out / c->oc, i / out % c->oc, i % out);
	rig_reset(r);
}

TEST(shapes)
{
	struct rig r;
	int i;

	rig_init(&r, "vulkan");
	for (i = 0; i < CASES; i++) {
		struct shape c = draw(&r.seed);

		check_shape(&r, &c);
	}
	rig_fini(&r);
}

TEST_MAIN()
