/* SPDX-License-Identifier: MIT */
/* What if, while and scan share: checking sub-graphs and calling them. */
#ifndef RLX_OPS_SUBGRAPH_H
#define RLX_OPS_SUBGRAPH_H

#include "base/alloc.h"
#include "ir/graph.h"
#include "ops/emit.h"

static inline uint32_t sub_inputs(const struct rlx_graph *g)
{
	return rlx_graph_io_count(g, RLX_IO_INPUT);
}

static inline uint32_t sub_outputs(const struct rlx_graph *g)
{
	return rlx_graph_io_count(g, RLX_IO_OUTPUT);
}

/* Type of input or output @i; never NULL for an @i in range. */
static inline const struct rlx_type *sub_type(const struct rlx_graph *g,
					      enum rlx_io io, uint32_t i)
{
	return rlx_type_of(g, rlx_graph_io_value(g, io, i));
}

/*
 * @g is given, finished, has no params and takes @n inputs; @what names it.
 */
enum rlx_status sub_infer(struct rlx_infer *q, const struct rlx_graph *g,
			  const char *what, uint32_t n);
/* Input or output @i of @g has type @t; @what names the graph. */
enum rlx_status sub_need_type(struct rlx_infer *q, const struct rlx_graph *g,
			      enum rlx_io io, uint32_t i, const struct rlx_type *t,
			      const char *what);
/* Bytes of a tensor, rounded up so that the next one is aligned. */
static inline size_t sub_aligned_bytes(const struct rlx_type *t)
{
	return ((size_t)rlx_type_bytes(t) + 64) / 64 * 64;
}

/*
 * What a step wrote to @next is what the next one reads, from @in; that one writes where the
 * last one read, or, after the first, to @scratch: what came in is never written.
 */
static inline void sub_next_iteration(struct rlx_tensor *in, struct rlx_tensor *next, uint32_t n,
				      char *scratch)
{
	void *read;
	uint32_t i;

	for (i = 0; i < n; i++) {
		read = in[i].data;
		in[i].data = next[i].data;
		next[i].data = scratch ? scratch : read;
		if (scratch)
			scratch += sub_aligned_bytes(&in[i].type);
	}
}

/* The carries are where they are in the end: bring them to the outputs. */
static inline void sub_settle(const struct rlx_tensor *in, const struct rlx_tensor *out,
			      uint32_t n)
{
	size_t bytes;
	uint32_t i;

	for (i = 0; i < n; i++) {
		bytes = (size_t)rlx_type_bytes(&in[i].type);
		if (bytes && in[i].data != out[i].data)
			memcpy(out[i].data, in[i].data, bytes);
	}
}

#endif
