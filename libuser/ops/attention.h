/* SPDX-License-Identifier: MIT */
/* What attention and its gradient have in common: their operands' heads, and the scores. */
#ifndef RLX_OPS_ATTENTION_H
#define RLX_OPS_ATTENTION_H

#include "ops/batch.h"

/* One operand as [batch, heads, rows, width], with element strides. */
struct op_heads {
	int64_t b, h, s, d, sb, sh, ss;
};

/* @heads are those of rank 3; of rank 4 the shape has them, as @layout says. */
struct op_heads op_heads_of(const struct rlx_type *t, int32_t heads, int32_t layout);
/* Those of q, k and v, whose types are good. */
void op_attention_heads(const struct rlx_type *const *in, const struct rlx_op_attention *a,
			struct op_heads out[3]);

/*
 * Check inputs 0 to 4 of @q, q, k, v, bias and lens, against the attributes of @a; *@out_y is
 * what attention makes of them, without an out_dtype.
 */
enum rlx_status op_attention_infer(struct rlx_infer *q, const struct rlx_op_attention *a,
				   struct rlx_type *out_y, struct op_heads out[3]);

/*
 * The batching rule of both: instances as more batches, of all inputs but the bias, which has to
 * be the same for all batches.
 */
enum rlx_status op_attention_batch(struct rlx_batching *q);

/* What .eval knows of the scores; inputs 0 to 4 are those of attention. */
struct op_attend {
	const struct rlx_op_attention *a;
	struct op_heads	 q, k, v;
	int64_t		 sbias[RLX_MAX_RANK];
	double		 scale;
};

void op_attend_begin(const struct rlx_eval *q, const struct rlx_op_attention *a,
		     struct op_attend *t);
/*
 * The score of key @j for row @at[2] of head @at[1] of batch row @at[0]; -inf: not seen.
 * *@out_slope, unless NULL: its derivative by the scaled product, which softcap makes.
 */
double op_attend_score(const struct rlx_eval *q, const struct op_attend *t, const int64_t at[3],
		       int64_t j, double *out_slope);

/* ---- in simpler ops: everything as [batch, key heads, group, rows, width] ---- */

/* What is lower than any score, yet finite: a row without keys has no NaN to hide. */
#define OP_ATTENTION_FLOOR	(-1e30)

struct op_scores {
	struct op_heads	qh, kh, vh;
	rlx_value	q, k, v;	/* q scaled */
	rlx_value	s;		/* scores, OP_ATTENTION_FLOOR for those that are not seen */
	rlx_value	tanh;		/* with softcap, else none */
	rlx_value	seen;		/* none: all */
};

rlx_value op_attention_split(struct rlx_graph *g, rlx_value x, const struct op_heads *h,
			     int64_t kv, int32_t layout);
/* And back: a value of heads as type @t. */
rlx_value op_attention_join(struct rlx_graph *g, rlx_value x, const struct op_heads *h,
			    int32_t layout, const struct rlx_type *t);
void op_attention_scores(struct rlx_expand *q, const struct rlx_op_attention *a,
			 struct op_scores *out);

#endif
