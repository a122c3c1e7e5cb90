/* SPDX-License-Identifier: MIT */
/* Programs kept by what they compute, so that equal graphs are compiled once. */
#ifndef RLX_CACHE_H
#define RLX_CACHE_H

#include "rlx/compile.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rlx_cache;

/**
 * rlx_cache_new - an empty cache.
 * @capacity: programs kept; beyond it the one unused for longest is dropped
 *            (sessions over it go on). 0: 64
 * Context: any thread. Return: NULL if memory runs out.
 */
RLX_EXPORT struct rlx_cache *rlx_cache_new(unsigned int capacity);
/* Drops the cache's references. NULL is fine. No call may be under way. */
RLX_EXPORT void rlx_cache_free(struct rlx_cache *c);

/**
 * rlx_cache_compile - the program of an equal graph and equal options, or a new one.
 *
 * Graphs are equal if they have the same ops, attributes, types, names, constants and
 * scopes (rlx_scope_begin()), whoever built them; the key is computed here and compared
 * in full, so that two graphs never share a program by accident. @opts->dump is not part
 * of it and is called only when the graph is compiled.
 * Context: any thread, also at once: the second caller of one graph waits for the
 * first. Ownership and errors: as rlx_compile().
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_cache_compile(struct rlx_cache *c, struct rlx_graph *g,
		  const struct rlx_compile_opts *opts, struct rlx_program **out,
		  struct rlx_error *err);

/* Calls answered from the cache, calls that compiled, programs held now. */
struct rlx_cache_stats {
	uint64_t	hits, misses;
	unsigned int	held;
};

/** rlx_cache_stats - since it was made; all 0 for NULL. Context: any thread; takes a lock. */
RLX_EXPORT void rlx_cache_stats(struct rlx_cache *c, struct rlx_cache_stats *out);

#ifdef __cplusplus
}
#endif
#endif
