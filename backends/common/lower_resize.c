// SPDX-License-Identifier: MIT
/* resize: the op's coordinate rules turned into tables of taps and weights. */
#include "backends/common/lower.h"
#include "ir/element.h"
#include "kernels/resize.h"
#include "ops/resize_axis.h"

/* Beyond this an axis' table costs more than the image. */
enum { MOST_TAPS = 1 << 12, MOST_TABLE = 1 << 26 };

/* Neighbouring dimensions that keep their size count as one. */
struct run {
	struct op_resize_axis	ax;	/* its in and out of a merged run */
	int64_t			size;	/* of a run that stays */
	bool			same;
};

/*
 * A crop to all of an axis: each output is the input at its place. @exact: not the sum of
 * parts of it either, which may be a little less.
 */
static bool stays(const struct rlx_op_resize *a, const struct op_resize_axis *ax, bool exact)
{
	double w[4], sum;
	int64_t at[4], o, i;
	bool same = ax->in == ax->out && ax->taps <= 4;

	for (o = 0; o < ax->out && same; o++) {
		same = !op_resize_outside(a, ax, o);
		if (a->mode == RLX_RESIZE_NEAREST) {
			same = same && op_resize_nearest(a, ax, o) == o;
			continue;
		}
		op_resize_weights(a, ax, o, w, at);
		for (i = 0, sum = 0; i < ax->taps; sum += w[i++])
			same = same && (w[i] == 0 || (at[i] == o && (!exact || w[i] == 1)));
		same = same && sum == 1;
	}
	return same;
}

/* Is it summed in double, to the bit as the op says? */
static bool is_wide(enum rlx_dtype dt)
{
	return dt == RLX_F64 || rlx_dtype_is_int(dt);
}

/* Dimensions as runs; returns how many, or -1 when they are over @most. */
static int find_runs(const struct rlx_lower *lo, struct run *r, int most)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	int n = 0;

	for (uint32_t i = 0; i < x->rank; i++) {
		struct op_resize_axis ax = op_resize_axis_of(lo->args, x, i);

		ax.same = ax.same || stays(lo->args, &ax, is_wide(x->dtype));
		if (ax.same && n && r[n - 1].same) {
			r[n - 1].size *= ax.in;
			continue;
		}
		if (n == most)
			return -1;
		r[n++] = (struct run){ ax, ax.in, ax.same };
	}
	return n;
}

static bool is_outside(const struct rlx_lower *lo, const struct run *r, int n)
{
	for (int i = 0; i < n; i++)
		for (int64_t o = 0; !r[i].same && o < r[i].ax.out; o++)
			if (op_resize_outside(lo->args, &r[i].ax, o))
				return true;
	return false;
}

/* The tables of one axis, and room for the taps of one position. */
struct tables {
	int32_t	*index;
	float	*weight;	/* NULL: nearest, or wide */
	double	*wide;
	double	*w;
	int64_t	*at;
};

/*
 * At an edge many taps may be one input, and sums in floats would add up errors. The weight of
 * all is parted into powers of two of it, the last one a half: such sums are exact. None is 0
 * on that account, for an infinite input times that is no number.
 */
static void join_taps(double *w, const int64_t *at, int64_t taps)
{
	int64_t i, end, k;
	double sum;

	for (i = 0; i < taps; i = end) {
		for (end = i, sum = 0; end < taps && at[end] == at[i]; end++)
			sum += w[end];
		for (k = end - 1; k > i && k >= end - 32; k--) {
			sum /= 2;
			w[k] = sum;
		}
		/* what is left of very many does not count */
		for (sum /= (double)(k - i + 1); k >= i; k--)
			w[k] = sum;
	}
}

/* One position: its taps' inputs, or -1 outside, and weights where there are any. */
static void fill_position(const struct rlx_op_resize *a, const struct op_resize_axis *ax,
			  const struct tables *t, int64_t o)
{
	int64_t taps = t->w ? ax->taps : 1, i;

	if (op_resize_outside(a, ax, o)) {
		t->index[o * taps] = -1;
	} else if (t->wide) {
		op_resize_weights(a, ax, o, &t->wide[o * taps], t->at);
		for (i = 0; i < taps; i++)
			t->index[o * taps + i] = (int32_t)t->at[i];
	} else if (!t->weight) {
		t->index[o] = (int32_t)op_resize_nearest(a, ax, o);
	} else {
		op_resize_weights(a, ax, o, t->w, t->at);
		join_taps(t->w, t->at, taps);
		for (i = 0; i < taps; i++) {
			t->index[o * taps + i] = (int32_t)t->at[i];
			t->weight[o * taps + i] = (float)t->w[i];
		}
	}
}

static enum rlx_status fill_axis(struct rlx_lower *lo, const struct run *r,
				 struct rlx_k_resize_axis *to)
{
	const struct rlx_op_resize *a = lo->args;
	int64_t taps = a->mode == RLX_RESIZE_NEAREST ? 1 : r->ax.taps, o;
	bool wide = is_wide(rlx_lower_in(lo, 0)->dtype);
	struct tables t = { .index = NULL };

	*to = (struct rlx_k_resize_axis){ .in = (size_t)r->size, .out = (size_t)r->size,
					  .taps = 1 };
	if (r->same)
		return RLX_OK;
	if (r->ax.in > INT32_MAX || taps > MOST_TAPS || r->ax.out > MOST_TABLE / taps)
		return rlx_lower_unsupported(lo, "the tables of an axis would be too large");
	t.index = rlx_lower_keep(lo, (size_t)(r->ax.out * taps), sizeof(*t.index));
	if (a->mode != RLX_RESIZE_NEAREST) {
		if (wide)
			t.wide = rlx_lower_keep(lo, (size_t)(r->ax.out * taps), sizeof(*t.wide));
		else
			t.weight = rlx_lower_keep(lo, (size_t)(r->ax.out * taps),
						  sizeof(*t.weight));
		t.w = rlx_lower_keep(lo, (size_t)taps, sizeof(*t.w));
		t.at = rlx_lower_keep(lo, (size_t)taps, sizeof(*t.at));
	}
	if (lo->status)
		return lo->status;
	for (o = 0; o < r->ax.out; o++)
		fill_position(a, &r->ax, &t, o);
	*to = (struct rlx_k_resize_axis){ .in = (size_t)r->ax.in, .out = (size_t)r->ax.out,
					  .taps = (size_t)taps };
	rlx_lower_ref_keep(lo, &to->index, t.index, (size_t)(r->ax.out * taps) * sizeof(*t.index));
	rlx_lower_ref_keep(lo, &to->weight, t.weight,
			   (size_t)(r->ax.out * taps) * sizeof(*t.weight));
	rlx_lower_ref_keep(lo, &to->wide, t.wide, (size_t)(r->ax.out * taps) * sizeof(*t.wide));
	return RLX_OK;
}

/* Which kernel, and how many floats it takes for one element (0: bytes). */
static enum rlx_kernel_id pick_kernel(struct rlx_lower *lo, const struct run *r, int n,
				      size_t *lanes)
{
	const struct rlx_op_resize *a = lo->args;
	enum rlx_dtype dt = rlx_lower_in(lo, 0)->dtype;

	*lanes = 0;
	if (dt == RLX_F32 && n > 1 && r[n - 1].same && lo->block && r[n - 1].size == lo->block) {
		*lanes = lo->block;
		return RLX_KERNEL_resize_c;
	}
	if (a->mode == RLX_RESIZE_NEAREST && dt != RLX_C64 && !is_outside(lo, r, n))
		return RLX_KERNEL_resize_nearest;
	*lanes = 1;
	if (dt == RLX_F32)
		return RLX_KERNEL_resize_f32;
	if (is_wide(dt))
		return RLX_KERNEL_resize_wide;
	rlx_lower_unsupported(lo, "no kernel interpolates, or extrapolates, this dtype");
	return RLX_KERNEL_COUNT;
}

enum rlx_status rlx_lower_resize(struct rlx_lower *lo)
{
	const struct rlx_op_resize *op = lo->args;
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	struct rlx_k_resize *a = rlx_lower_args(lo, sizeof(*a));
	struct rlx_tensor fill = { rlx_scalar(y->dtype), &a->fill };
	struct run r[5];
	size_t lanes, planes = 1, scratch;
	int n = find_runs(lo, r, 5), first, i;
	enum rlx_kernel_id id;
	double taps = 1;

	if (!rlx_type_count(y))
		return lo->status;
	if (n < 0)
		return rlx_lower_unsupported(lo, "too many axes change their size");
	id = pick_kernel(lo, r, n, &lanes);
	n -= lanes > 1;
	first = n > 1 && r[0].same;
	if (first)
		planes = (size_t)r[0].size;
	if (lo->status || n - first > 3)
		return rlx_lower_unsupported(lo, "over three axes change their size");
	a->planes = planes;
	a->outside = op->extrapolation;
	a->esize = rlx_dtype_size(y->dtype);
	a->type = (uint8_t)y->dtype;
	a->nearest = op->mode == RLX_RESIZE_NEAREST;
	el_set(&fill, 0, (double)op->extrapolation);
	for (i = 0; i < 3; i++) {
		int k = i - 3 + n;

		a->axis[i] = (struct rlx_k_resize_axis){ .in = 1, .out = 1, .taps = 1 };
		if (k >= first && fill_axis(lo, &r[k], &a->axis[i]))
			return lo->status;
		taps *= (double)a->axis[i].taps;
	}
	scratch = id == RLX_KERNEL_resize_wide ? rlx_resize_wide_scratch(a) :
		  lanes ? rlx_resize_scratch(a, lanes) : 0;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return rlx_lower_call(lo, id, planes * a->axis[0].out * a->axis[1].out,
			      (double)rlx_type_count(y) * (taps + 1), scratch);
}
