/* SPDX-License-Identifier: MIT */
/* The text of pointwise kernels as it is being written, by pointwise.c and pointwise_parts.c. */
#ifndef RLX_BACKENDS_GPU_POINTWISE_TEXT_H
#define RLX_BACKENDS_GPU_POINTWISE_TEXT_H

#include <stdarg.h>
#include <stdio.h>

#include "backends/gpu/gpu.h"
#include "ir/graph.h"
#include "kernels/gpu/pointwise_interp.h"

enum { MOST_TEXT = 24576, THREADS = 256, MOST_BLOCKS = 1 << 20, VECTOR_BYTES = 16, MOST_VEC = 8,
       VECTORS_BYTES = 144,	/* of a thread's operands */
       VECTORS_FROM = 1 << 17,	/* elements: fewer leave multiprocessors without threads */
       FUNCTIONS = 4 };		/* of an element, that take longer than its loads */

/* How an operand is walked. */
enum walk { WALK_ALONG, WALK_ONE, WALK_STRIDES };

/* What is being written. */
struct writer {
	struct rlx_lower *lo;
	struct rlx_g_ew	*a;
	uint32_t	 n_in, n_out;
	enum walk	 walk[RLX_G_EW_IN];
	enum rlx_dtype	 type[RLX_G_EW_IN], out_type[RLX_G_EW_OUT];
	uint32_t	 n_op, n_function;
	bool		 strides;		/* some operand is walked so */
	struct rlx_g_any *any;			/* no compiler: the same as data; else NULL */
	bool		 any_fits;
	uint32_t	 value[RLX_G_ANY_VALUES], n_value;	/* graph's, by number there */
	size_t		 n;
	bool		 ok;
	char		 text[MOST_TEXT];
};

__attribute__((format(printf, 2, 3)))
static inline void put(struct writer *w, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(w->text + w->n, sizeof(w->text) - w->n, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(w->text) - w->n)
		w->ok = false;
	else
		w->n += (size_t)n;
}

/* What an element of this dtype is in the kernel. */
static inline const char *class_of(enum rlx_dtype dt)
{
	return dt == RLX_F64 ? "double" : rlx_dtype_is_float(dt) ? "F" :
	       dt == RLX_U64 ? "uint64_t" : "int64_t";
}

static inline bool supports_dtype(enum rlx_dtype dt)
{
	return dt > RLX_NODTYPE && dt <= RLX_BOOL;
}

static inline size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

/*
 * pointwise_ordered.c: does the step round, so that with strict bits its function is written from
 * the CPU's program? Of a single op; of body @b, whose values @value operands are.
 */
static inline bool gpu_is_ordered(const struct rlx_lower *lo)
{
	return lo->strict && gpu_step_rounds(lo) && lo->st->def->index != RLX_OP_cast;
}

enum rlx_status gpu_put_ordered_one(struct writer *w);
enum rlx_status gpu_put_ordered_body(struct writer *w, const struct rlx_graph *b,
				     const uint32_t *value);

/* NULL: out of memory. What it holds is not set. */
struct writer *gpu_writer_alloc(struct rlx_lower *lo);
/* Begin the function of one element: inputs i0 .., results o0 .. */
void gpu_put_head(struct writer *w);
/* The steps of body @b, of whose values operands are @value, and its outputs. */
enum rlx_status gpu_put_body(struct writer *w, const struct rlx_graph *b, const uint32_t *value);
/* Call what was written; it is compiled when it is known that nothing else does it. */
enum rlx_status gpu_call_text(struct writer *w, int64_t blocks);

/* A region that joins parts. */
enum rlx_status gpu_lower_parts(struct rlx_lower *lo);

#endif
