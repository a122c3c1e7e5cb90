// SPDX-License-Identifier: MIT
/* Drawing quantized convolutions; see qdq_conv.h. */
#include "selftests/lib/qdq_conv.h"
#include "selftests/lib/rlx_test.h"

#define X_SCALE	0.025

static int64_t upto(uint64_t *seed, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(seed) >> 16) % (hi - lo + 1);
}

/* Evenly by logarithm, every other one a multiple of 8 where it reaches that. */
static int64_t size(uint64_t *seed, double lo, double hi)
{
	int64_t v = (int64_t)lround(exp(rlx_test_uniform(seed, log(lo), log(hi))));

	return v >= 8 && rlx_test_rand(seed) >> 20 & 1 ? v / 8 * 8 : v;
}

static bool flip(uint64_t *seed)
{
	return rlx_test_rand(seed) >> 20 & 1;
}

static void draw_channels(struct qdq_conv *c, uint64_t *seed)
{
	int64_t i;

	c->n = upto(seed, 1, 4) == 1 ? 2 : 1;
	c->ic = size(seed, 1, 256);
	c->oc = size(seed, 1, 256);
	c->groups = 1;
	switch (upto(seed, 0, 4)) {
	case 0:		/* depthwise, at times of several channels for one */
		c->groups = c->ic;
		c->oc = c->ic * (upto(seed, 1, 4) == 1 ? 2 : 1);
		break;
	case 1:
		i = upto(seed, 2, 8);
		c->groups = i;
		c->ic = (c->ic + i - 1) / i * i;
		c->oc = (c->oc + i - 1) / i * i;
		break;
	}
}

/* False: no output is left. */
static bool draw_space(struct qdq_conv *c, uint64_t *seed, double *elements)
{
	static const double most[] = { 4096, 112, 24 };
	bool alike = flip(seed), point = upto(seed, 0, 3) == 0;
	double out = 1, in = 1;
	uint32_t i, from;

	c->dims = (uint32_t)upto(seed, 0, 3) % 3 + 1;
	c->dims = c->dims == 1 && flip(seed) ? 2 : c->dims;
	for (i = 0; i < c->dims; i++) {
		from = alike ? 0 : i;
		c->in[i] = from < i ? c->in[0] : size(seed, 3, most[c->dims - 1]);
		c->k[i] = point ? 1 : from < i ? c->k[0] : upto(seed, 1, 5);
		c->stride[i] = from < i ? c->stride[0] : upto(seed, 0, 3) == 0 ? 2 : 1;
		c->dilation[i] = from < i ? c->dilation[0] : upto(seed, 0, 5) == 0 ? 2 : 1;
		c->pad[i] = upto(seed, 0, c->k[i] / 2 * c->dilation[i]);
		c->pad[c->dims + i] = alike ? c->pad[i] : upto(seed, 0, c->k[i] / 2);
		in *= (double)c->in[i];
		from = (uint32_t)((c->k[i] - 1) * c->dilation[i] + 1);
		if (c->in[i] + c->pad[i] + c->pad[c->dims + i] < from)
			return false;
		out *= (double)((c->in[i] + c->pad[i] + c->pad[c->dims + i] - from) /
				c->stride[i] + 1);
		c->flops *= (double)c->k[i];
	}
	c->flops *= 2.0 * (double)c->n * (double)c->oc * (double)(c->ic / c->groups) * out;
	*elements = (double)c->n * fmax((double)c->ic * in, (double)c->oc * out);
	return true;
}

void qdq_conv_draw(struct qdq_conv *c, uint64_t *seed, int64_t most, double least,
		   double flops)
{
	double elements = 0, weights;
	uint32_t i;

	do {
		*c = (struct qdq_conv){ .flops = 1 };
		draw_channels(c, seed);
		if (!draw_space(c, seed, &elements))
			elements = (double)most + 1;
		weights = (double)c->oc * (double)(c->ic / c->groups);
		for (i = 0; i < c->dims; i++)
			weights *= (double)c->k[i];
	} while (elements > (double)most || weights > (double)most || c->flops < least ||
		 c->flops > flops);
	c->x_signed = flip(seed);
	c->w_signed = flip(seed);
	c->per_channel = flip(seed);
	c->zeros = flip(seed);
	c->bias = flip(seed);
	c->whole_bias = flip(seed);
	c->quantized = flip(seed);
}

void qdq_conv_name(const struct qdq_conv *c, char *to, size_t n)
{
	FILE *f = fmemopen(to, n, "w");
	uint32_t i;

	CHECK(f);
	fprintf(f, "n%lld %lld->%lld g%lld", (long long)c->n, (long long)c->ic,
		(long long)c->oc, (long long)c->groups);
	for (i = 0; i < c->dims; i++)
		fprintf(f, "%s%lld k%lld s%lld d%lld p%lld,%lld", i ? " x " : " ",
			(long long)c->in[i], (long long)c->k[i], (long long)c->stride[i],
			(long long)c->dilation[i], (long long)c->pad[i],
			(long long)c->pad[c->dims + i]);
	fprintf(f, " %c8 by %c8%s%s%s%s", c->x_signed ? 'i' : 'u', c->w_signed ? 'i' : 'u',
		c->per_channel ? " channels" : "", c->zeros ? " zeros" : "",
		!c->bias ? "" : c->whole_bias ? " i32 bias" : " f32 bias",
		c->quantized ? " to bytes" : "");
	fclose(f);
}

struct rlx_type qdq_conv_input(const struct qdq_conv *c)
{
	struct rlx_type t = { .dtype = RLX_F32, .rank = 2 + c->dims };
	uint32_t i;

	t.dim[0] = c->n;
	t.dim[1] = c->ic;
	for (i = 0; i < c->dims; i++)
		t.dim[2 + i] = c->in[i];
	return t;
}

static struct rlx_type weight_type(const struct qdq_conv *c, enum rlx_dtype dtype)
{
	struct rlx_type t = { .dtype = dtype, .rank = 2 + c->dims };
	uint32_t i;

	t.dim[0] = c->oc;
	t.dim[1] = c->ic / c->groups;
	for (i = 0; i < c->dims; i++)
		t.dim[2 + i] = c->k[i];
	return t;
}

static rlx_value conv(struct xy_net *n, const struct qdq_conv *c, rlx_value x, rlx_value w,
		      rlx_value b)
{
	return rlx_emit(n->g, conv, .x = x, .w = w, .bias = b, .groups = (int32_t)c->groups,
			.stride = { c->stride, c->dims }, .dilation = { c->dilation, c->dims },
			.pad = { c->pad, 2 * c->dims });
}

/* Quantized and dequantized, but for what comes in bytes and what shall leave so. */
static rlx_value round_trip(struct xy_net *n, rlx_value x, bool is_signed, double scale,
			    bool bytes)
{
	enum rlx_dtype to = is_signed ? RLX_I8 : RLX_U8;
	rlx_value s = rlx_scalar_const(n->g, RLX_F32, scale);
	rlx_value z = rlx_scalar_const(n->g, to, is_signed ? -7 : 120);

	if (rlx_type_of(n->g, x)->dtype == RLX_F32)
		x = rlx_emit(n->g, quantize, .x = x, .scale = s, .zp = z, .to = to);
	return bytes ? x : rlx_emit(n->g, dequantize, .x = x, .scale = s, .zp = z);
}

/* In units of the sums, as ONNX demands; or one in floats. */
static rlx_value bias_of(struct xy_net *n, const struct qdq_conv *c, const float *scale)
{
	struct rlx_type t = rlx_type(RLX_I32, c->oc), unit = rlx_type(RLX_F32, c->oc);
	static int32_t whole[XY_MOST];
	static float units[XY_MOST];
	int64_t i;

	if (!c->bias)
		return RLX_NONE;
	if (!c->whole_bias)
		return xy_floats(n, unit, -2, 2);
	for (i = 0; i < c->oc; i++) {
		whole[i] = (int32_t)(rlx_test_rand(&n->seed) >> 40) % 20000 - 10000;
		units[i] = (float)X_SCALE * scale[c->per_channel ? i : 0];
	}
	return rlx_emit(n->g, dequantize, .x = rlx_constant(n->g, t, whole), .axis = 0,
			.scale = rlx_constant(n->g, unit, units));
}

double qdq_conv_step(const struct qdq_conv *c)
{
	struct rlx_type t = weight_type(c, RLX_F32);
	double terms = (double)(rlx_type_count(&t) / c->oc);

	/* terms are below 8 */
	return c->quantized ? 0.02 * sqrt(terms) : 1e-6 * terms;
}

static rlx_value weights(struct xy_net *n, const struct qdq_conv *c, const float *scale)
{
	enum rlx_dtype dt = c->w_signed ? RLX_I8 : RLX_U8;
	struct rlx_type s = c->per_channel ? rlx_type(RLX_F32, c->oc) : rlx_scalar(RLX_F32);
	struct rlx_type z = s;

	z.dtype = dt;
	return rlx_emit(n->g, dequantize, .x = xy_bytes(n, weight_type(c, dt)), .axis = 0,
			.scale = rlx_constant(n->g, s, scale),
			.zp = c->zeros ? xy_bytes(n, z) : RLX_NONE);
}

rlx_value qdq_conv(struct xy_net *n, const struct qdq_conv *c, rlx_value x, bool floats)
{
	bool bytes = rlx_type_of(n->g, x)->dtype != RLX_F32;
	static float scale[XY_MOST];
	rlx_value w, y;
	int64_t i;

	for (i = 0; i < c->oc; i++)
		scale[i] = (float)rlx_test_uniform(&n->seed, 0.001, 0.01);
	w = floats ? xy_floats(n, weight_type(c, RLX_F32), -1, 1) : weights(n, c, scale);
	y = conv(n, c, round_trip(n, x, c->x_signed, X_SCALE, false), w, bias_of(n, c, scale));
	if (c->quantized)
		y = round_trip(n, y, c->x_signed, qdq_conv_step(c), bytes);
	return y;
}

rlx_value qdq_conv_f32(struct xy_net *n, const struct qdq_conv *c, rlx_value x)
{
	rlx_value b = c->bias ? xy_floats(n, rlx_type(RLX_F32, c->oc), -2, 2) : RLX_NONE;

	return conv(n, c, x, xy_floats(n, weight_type(c, RLX_F32), -1, 1), b);
}
