/* SPDX-License-Identifier: MIT */
/*
 * StableHLO text out of steps. An op's function reads e->in and sets e->out by what follows;
 * the first thing that cannot be said leaves a reason in e->why, and the text is then dropped.
 * Values are "%17"; 0 is none. Functions that make a value return none once something failed,
 * and take none, so that callers need not look at each.
 */
#ifndef RLX_BACKENDS_PJRT_EMIT_H
#define RLX_BACKENDS_PJRT_EMIT_H

#include "plan/plan.h"

enum { HLO_RANK = 2 * RLX_MAX_RANK, HLO_IN = 64, HLO_OUT = RLX_MAX_OUT };

/* As struct rlx_type, with room for dimensions that stand between two reshapes. */
struct hlo_type {
	enum rlx_dtype	dtype;
	uint32_t	rank;
	int64_t		dim[HLO_RANK];
};

struct hlo {
	uint32_t	id;
	struct hlo_type	t;
};

struct hlo_text {
	char	*p;
	size_t	 n, cap;
	bool	 failed;		/* out of memory, or over 2 GiB in one hlo_put() */
};

/*
 * @bad: what the step found wrong with indices: a bool, and one for each that was looked at;
 * none: it looks at none
 */
struct hlo_emit {
	struct hlo_text		 text;
	uint32_t		 last;		/* id that was given out */
	const char		*why;		/* static */
	const struct rlx_op_def	*def;		/* of the step at work */
	const void		*args;
	struct hlo		 in[HLO_IN];
	uint32_t		 n_in, n_out;
	struct rlx_type		 type[HLO_OUT];	/* that out must have */
	struct hlo		 out[HLO_OUT];
	struct hlo		 bad, each_bad;
};

/* ---- text.c ---- */

void hlo_put(struct hlo_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Of any length */
void hlo_put_text(struct hlo_text *t, const struct hlo_text *more);
void hlo_put_type(struct hlo_text *t, const struct hlo_type *type);
/* "1, 2, 3" */
void hlo_put_list(struct hlo_text *t, const int64_t *v, uint32_t n);
/* "f32"; NULL: it has no such type */
const char *hlo_dtype_name(enum rlx_dtype dt);

/* ---- emit.c: values and the plainest ops ---- */

struct hlo_type hlo_type(const struct rlx_type *t);
int64_t hlo_count(const struct hlo_type *t);
bool hlo_same_shape(const struct hlo_type *a, const struct hlo_type *b);
/* Leaves @why, unless there is one. */
struct hlo hlo_fail(struct hlo_emit *e, const char *why);
/* A new value of type @t; the caller writes "%id = ...". */
struct hlo hlo_new(struct hlo_emit *e, const struct hlo_type *t);

/* " : (A, B) -> C" and the end of the line, which most have */
void hlo_put_signature(struct hlo_emit *e, const struct hlo *x, uint32_t n,
		       const struct hlo_type *to);

/* @op of one value, of two of one type; "add", "chlo.erf" */
struct hlo hlo_1(struct hlo_emit *e, const char *op, struct hlo x);
struct hlo hlo_2(struct hlo_emit *e, const char *op, struct hlo a, struct hlo b);
/* The larger, with @min the smaller; NaN if one of them is */
struct hlo hlo_extremum(struct hlo_emit *e, bool min, struct hlo a, struct hlo b);
/* @m, a maximum by XLA, or NaN where @nan says that there was one: see hlo_extremum() */
struct hlo hlo_or_nan(struct hlo_emit *e, struct hlo m, struct hlo nan);
/* Bools: @how is EQ NE LT LE GT GE */
struct hlo hlo_compare(struct hlo_emit *e, const char *how, struct hlo a, struct hlo b);
struct hlo hlo_select(struct hlo_emit *e, struct hlo cond, struct hlo a, struct hlo b);
/* A number in the shape of @t and its dtype; wraps integers. */
struct hlo hlo_number(struct hlo_emit *e, const struct hlo_type *t, double x);
struct hlo hlo_integer(struct hlo_emit *e, const struct hlo_type *t, int64_t x);
/* Of @t, which has no elements; complex too, of which there is no number. */
struct hlo hlo_nothing(struct hlo_emit *e, const struct hlo_type *t);
/* The identity of a maximum (or minimum): -inf, the least integer. */
struct hlo hlo_lowest(struct hlo_emit *e, const struct hlo_type *t, bool highest);
struct hlo hlo_vector(struct hlo_emit *e, enum rlx_dtype dt, const double *v, int64_t n);
struct hlo hlo_indices(struct hlo_emit *e, const int64_t *v, int64_t n);
struct hlo hlo_iota(struct hlo_emit *e, const struct hlo_type *t, uint32_t axis);

/* What XLA's own conversion makes of it: for what cannot overflow */
struct hlo hlo_convert(struct hlo_emit *e, struct hlo x, enum rlx_dtype to);
/* By the rules of the op cast */
struct hlo hlo_cast(struct hlo_emit *e, struct hlo x, enum rlx_dtype to);
/* Floats of 16 and 8 bits as f32, others as they are */
struct hlo hlo_widen(struct hlo_emit *e, struct hlo x);

struct hlo hlo_reshape(struct hlo_emit *e, struct hlo x, const struct hlo_type *shape);
/* The same bytes: also c64 as f32 with a last dimension of 2, and the other way round */
struct hlo hlo_view(struct hlo_emit *e, struct hlo x, const struct hlo_type *want);
struct hlo hlo_transpose(struct hlo_emit *e, struct hlo x, const int64_t *perm);
/* Dimension i of @x becomes dimension @dims[i] of @shape; NULL: the last ones, as numpy does */
struct hlo hlo_broadcast(struct hlo_emit *e, struct hlo x, const struct hlo_type *shape,
			 const int64_t *dims);
/* Axes in @mask go, by @op ("add"), from @init on */
struct hlo hlo_reduce(struct hlo_emit *e, const char *op, struct hlo x, struct hlo init,
		      uint32_t mask);
/* @x, whose axes in @mask are gone, repeated along them to @shape */
struct hlo hlo_spread(struct hlo_emit *e, struct hlo x, const struct hlo_type *shape,
		      uint32_t mask);
struct hlo hlo_concat(struct hlo_emit *e, const struct hlo *x, uint32_t n, uint32_t axis);
struct hlo hlo_slice(struct hlo_emit *e, struct hlo x, const int64_t *start, const int64_t *step,
		     const int64_t *n);
struct hlo hlo_pad(struct hlo_emit *e, struct hlo x, struct hlo value, const int64_t *low,
		   const int64_t *high);
struct hlo hlo_reverse(struct hlo_emit *e, struct hlo x, uint32_t mask);
/* Contracts and batches axes; the result: batch axes, a's others, b's others, of @dt */
struct hlo_dot {
	int64_t		batch[2][HLO_RANK], contract[2][HLO_RANK];
	uint32_t	n_batch, n_contract;
};
struct hlo hlo_dot(struct hlo_emit *e, struct hlo a, struct hlo b, const struct hlo_dot *d,
		   enum rlx_dtype dt);

/* ---- emit_index.c ---- */

/* x's slices along @axis at @at, i32 or i64 within it */
struct hlo hlo_take(struct hlo_emit *e, struct hlo x, uint32_t axis, struct hlo at);

/* ---- steps.c: which op does what ---- */

typedef void hlo_fn(struct hlo_emit *e);

/* Is there text for an op with these types? If not, @why says what is missing. */
bool hlo_supports(const struct rlx_infer *q, struct rlx_error *why);
/* Emit e->def; false: e->why says why not, and e->text is as it was. */
bool hlo_step(struct hlo_emit *e);

#define EMIT(op) hlo_fn hlo_emit_##op;
#include "backends/pjrt/emit.def"
#undef EMIT

#endif
