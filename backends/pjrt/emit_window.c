// SPDX-License-Identifier: MIT
/* Convolutions and pools over 1 to 3 spatial dimensions. */
#include <string.h>

#include "backends/pjrt/emit.h"

enum { SPATIAL = 3 };

/* Per spatial dimension; @base: what elements of x are apart, for transposes */
struct window {
	uint32_t	nd;
	int64_t		k[SPATIAL], stride[SPATIAL], dil[SPATIAL], base[SPATIAL];
	int64_t		low[SPATIAL], high[SPATIAL];
};

static int64_t at(struct rlx_ints l, uint32_t i, int64_t absent)
{
	return l.n ? l.v[i] : absent;
}

static void take(struct window *w, const struct hlo_type *x, struct rlx_ints stride,
		 struct rlx_ints pad, struct rlx_ints dilation)
{
	uint32_t i;

	w->nd = x->rank - 2;
	for (i = 0; i < w->nd; i++) {
		w->stride[i] = at(stride, i, 1);
		w->dil[i] = at(dilation, i, 1);
		w->base[i] = 1;
		w->low[i] = at(pad, i, 0);
		w->high[i] = at(pad, i + w->nd, 0);
	}
}

static void put_dims(struct hlo_emit *e, const char *first, uint32_t nd)
{
	uint32_t i;

	hlo_put(&e->text, "[%s", first);
	for (i = 0; i < nd; i++)
		hlo_put(&e->text, ", %u", i);
	hlo_put(&e->text, "]");
}

static struct hlo convolved(struct hlo_emit *e, struct hlo x, struct hlo k,
			    const struct window *w, int64_t groups, const struct hlo_type *t)
{
	struct hlo v = hlo_new(e, t);
	uint32_t i;

	hlo_put(&e->text, "stablehlo.convolution(%%%u, %%%u) dim_numbers = ", x.id, k.id);
	put_dims(e, "b, f", w->nd);
	hlo_put(&e->text, "x");
	put_dims(e, "o, i", w->nd);
	hlo_put(&e->text, "->");
	put_dims(e, "b, f", w->nd);
	hlo_put(&e->text, ", window = {stride = [");
	hlo_put_list(&e->text, w->stride, w->nd);
	hlo_put(&e->text, "], pad = [");
	for (i = 0; i < w->nd; i++)
		hlo_put(&e->text, "%s[%lld, %lld]", i ? ", " : "", (long long)w->low[i],
			(long long)w->high[i]);
	hlo_put(&e->text, "], lhs_dilate = [");
	hlo_put_list(&e->text, w->base, w->nd);
	hlo_put(&e->text, "], rhs_dilate = [");
	hlo_put_list(&e->text, w->dil, w->nd);
	hlo_put(&e->text, "]} {feature_group_count = %lld : i64, batch_group_count = 1 : i64, "
		"precision_config = [#stablehlo<precision HIGHEST>, "
		"#stablehlo<precision HIGHEST>]} : (", (long long)groups);
	hlo_put_type(&e->text, &x.t);
	hlo_put(&e->text, ", ");
	hlo_put_type(&e->text, &k.t);
	hlo_put(&e->text, ") -> ");
	hlo_put_type(&e->text, t);
	hlo_put(&e->text, "\n");
	return v;
}

static enum rlx_dtype compute(const struct hlo_emit *e)
{
	return e->type[0].dtype == RLX_F64 ? RLX_F64 : RLX_F32;
}

static void finish(struct hlo_emit *e, struct hlo y)
{
	static const int64_t channel[1] = { 1 };
	struct hlo bias = e->n_in > 2 ? e->in[2] : (struct hlo){ 0 };

	if (bias.id)
		y = hlo_2(e, "add", y, hlo_broadcast(e, hlo_cast(e, bias, y.t.dtype), &y.t,
						     channel));
	e->out[0] = hlo_cast(e, y, e->type[0].dtype);
}

void hlo_emit_conv(struct hlo_emit *e)
{
	const struct rlx_op_conv *a = e->args;
	struct hlo x = hlo_cast(e, e->in[0], compute(e)), k = hlo_cast(e, e->in[1], compute(e));
	struct hlo_type t = hlo_type(&e->type[0]);
	struct window w = { 0 };

	t.dtype = compute(e);
	take(&w, &x.t, a->stride, a->pad, a->dilation);
	finish(e, convolved(e, x, k, &w, a->groups, &t));
}

/* [ci, co / groups, ..] as [co, ci / groups, ..], turned round */
static struct hlo turned(struct hlo_emit *e, struct hlo k, int64_t groups)
{
	struct hlo_type t = k.t;
	int64_t perm[HLO_RANK];
	uint32_t i;

	memmove(t.dim + 1, t.dim, t.rank * sizeof(*t.dim));
	t.rank++;
	t.dim[0] = groups;
	t.dim[1] = k.t.dim[0] / groups;
	for (i = 0; i < t.rank; i++)
		perm[i] = i;
	perm[1] = 2;
	perm[2] = 1;
	k = hlo_transpose(e, hlo_reshape(e, k, &t), perm);
	t = k.t;
	t.dim[0] *= t.dim[1];
	t.rank--;
	memmove(t.dim + 1, t.dim + 2, (t.rank - 1) * sizeof(*t.dim));
	return hlo_reverse(e, hlo_reshape(e, k, &t), ((1u << t.rank) - 1) & ~3u);
}

void hlo_emit_conv_transpose(struct hlo_emit *e)
{
	const struct rlx_op_conv_transpose *a = e->args;
	struct hlo x = hlo_cast(e, e->in[0], compute(e)), k = hlo_cast(e, e->in[1], compute(e));
	struct hlo_type t = hlo_type(&e->type[0]);
	struct window w = { 0 };
	int64_t reach;
	uint32_t i;

	t.dtype = compute(e);
	take(&w, &x.t, a->stride, a->pad, a->dilation);
	for (i = 0; i < w.nd; i++) {
		reach = (k.t.dim[i + 2] - 1) * w.dil[i];
		w.base[i] = w.stride[i];
		w.stride[i] = 1;
		w.low[i] = reach - w.low[i];
		w.high[i] = reach - w.high[i] + at(a->output_pad, i, 0);
	}
	finish(e, convolved(e, x, turned(e, k, a->groups), &w, a->groups, &t));
}

/* ---- pools ---- */

static void put_array(struct hlo_emit *e, const char *name, const int64_t *v, uint32_t nd)
{
	hlo_put(&e->text, "%s = array<i64: 1, 1, ", name);
	hlo_put_list(&e->text, v, nd);
	hlo_put(&e->text, ">, ");
}

static struct hlo pooled(struct hlo_emit *e, const char *op, struct hlo x, struct hlo init,
			 const struct window *w)
{
	struct hlo_type t = hlo_type(&e->type[0]), one = init.t;
	struct hlo v;
	uint32_t i;

	t.dtype = x.t.dtype;
	v = hlo_new(e, &t);
	hlo_put(&e->text, "\"stablehlo.reduce_window\"(%%%u, %%%u) <{", x.id, init.id);
	put_array(e, "window_dimensions", w->k, w->nd);
	put_array(e, "window_strides", w->stride, w->nd);
	put_array(e, "window_dilations", w->dil, w->nd);
	hlo_put(&e->text, "padding = dense<[[0, 0], [0, 0]");
	for (i = 0; i < w->nd; i++)
		hlo_put(&e->text, ", [%lld, %lld]", (long long)w->low[i], (long long)w->high[i]);
	hlo_put(&e->text, "]> : tensor<%ux2xi64>}> ({\n  ^bb0(%%a: ", x.t.rank);
	hlo_put_type(&e->text, &one);
	hlo_put(&e->text, ", %%b: ");
	hlo_put_type(&e->text, &one);
	hlo_put(&e->text, "):\n    %%r = stablehlo.%s %%a, %%b : ", op);
	hlo_put_type(&e->text, &one);
	hlo_put(&e->text, "\n    stablehlo.return %%r : ");
	hlo_put_type(&e->text, &one);
	hlo_put(&e->text, "\n  }) : (");
	hlo_put_type(&e->text, &x.t);
	hlo_put(&e->text, ", ");
	hlo_put_type(&e->text, &one);
	hlo_put(&e->text, ") -> ");
	hlo_put_type(&e->text, &t);
	hlo_put(&e->text, "\n");
	return v;
}

/* How many elements each window has; with @padding those that were asked for count. */
static struct hlo counts(struct hlo_emit *e, const struct hlo_type *x, struct window w,
			 bool padding)
{
	const struct rlx_op_pool *a = e->args;
	struct hlo_type t = *x, one = { .dtype = x->dtype };
	uint32_t i;

	for (i = 0; padding && i < w.nd; i++) {
		int64_t low = at(a->pad, i, 0), high = at(a->pad, i + w.nd, 0);

		t.dim[i + 2] += low + high;
		w.low[i] -= low;
		w.high[i] -= high;
	}
	return pooled(e, "add", hlo_number(e, &t, 1), hlo_number(e, &one, 0), &w);
}

/* What the last windows reach over the end is padding as well; what they leave is cropped. */
static void fit(const struct hlo_emit *e, struct window *w)
{
	uint32_t i;

	for (i = 0; i < w->nd; i++)
		w->high[i] = (e->type[0].dim[i + 2] - 1) * w->stride[i] +
			     (w->k[i] - 1) * w->dil[i] + 1 - e->in[0].t.dim[i + 2] - w->low[i];
}

void hlo_emit_pool(struct hlo_emit *e)
{
	const struct rlx_op_pool *a = e->args;
	struct hlo x = hlo_widen(e, e->in[0]), y, zero;
	struct hlo_type one = { .dtype = x.t.dtype };
	struct window w = { 0 };
	uint32_t i;

	if (a->indices) {
		hlo_fail(e, "positions of maxima");
		return;
	}
	take(&w, &x.t, a->stride, a->pad, a->dilation);
	for (i = 0; i < w.nd; i++)
		w.k[i] = a->kernel.v[i];
	fit(e, &w);
	zero = hlo_integer(e, &one, 0);
	if (a->kind == RLX_POOL_MAX) {
		y = pooled(e, "maximum", x, hlo_lowest(e, &one, false), &w);
		one.dtype = RLX_BOOL;
		if (rlx_dtype_is_float(x.t.dtype))
			y = hlo_or_nan(e, y, pooled(e, "or", hlo_compare(e, "NE", x, x),
						    hlo_integer(e, &one, 0), &w));
	} else if (a->kind == RLX_POOL_AVG) {
		y = pooled(e, "add", x, zero, &w);
		y = hlo_2(e, "divide", y, counts(e, &x.t, w, a->include_pad));
	} else {
		x = hlo_1(e, "abs", x);
		x = hlo_2(e, "power", x, hlo_number(e, &x.t, a->p));
		y = pooled(e, "add", x, zero, &w);
		y = hlo_2(e, "power", y, hlo_number(e, &y.t, 1.0 / a->p));
	}
	e->out[0] = hlo_cast(e, y, e->type[0].dtype);
}
