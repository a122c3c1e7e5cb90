// SPDX-License-Identifier: MIT
/* The table of ONNX ops: which handler takes which opset. */
#include "io/onnx/handlers.h"

/* What a row's argument points to where only its presence matters. */
const int onnx_yes = 1;

static const char ai[] = "", training[] = "ai.onnx.preview.training",
	ms[] = "com.microsoft";

#define MAX	INT64_MAX
#define IN0	1u
#define IN1	2u
#define IN2	4u
#define IN3	8u
#define IN4	16u

static const struct onnx_row rows[] = {
#define OP(dom, op, lo, hi, known, handler, what)			\
	{ .domain = dom, .name = #op, .from = lo, .to = hi,		\
	  .host = known, .fn = handler, .arg = what },
#include "io/onnx/ops.def"
#undef OP
};

const struct onnx_row *onnx_row_find(struct rlx_str domain,
				     struct rlx_str name, int64_t opset,
				     bool *known)
{
	size_t i;

	if (onnx_str_is(domain, "ai.onnx"))
		domain.n = 0;
	*known = false;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].name[0] != (name.n ? name.p[0] : 0) ||
		    !onnx_str_is(name, rows[i].name) ||
		    !onnx_str_is(domain, rows[i].domain))
			continue;
		*known = true;
		if (opset >= rows[i].from && opset <= rows[i].to)
			return &rows[i];
	}
	return NULL;
}
