/* SPDX-License-Identifier: MIT */
/* Layers of experts in a row, y = x w[route], whose routes are inputs. */
#ifndef SELFTESTS_EXPERT_NET_H
#define SELFTESTS_EXPERT_NET_H

#include "rlx/moe.h"

/*
 * @layers products: input "x"[rows, width] of @real, "w0"[experts, width, width] by "route0" and
 * so on, output "y" of f32.
 * @constant: the weights are constants, not params
 * @w: all weights, in order; multiples of 1/64, which f16 and bf16 hold
 */
struct expert_net {
	int		 layers;
	int64_t		 rows, width, experts;
	enum rlx_dtype	 real;
	bool		 constant;
	uint32_t	 flags;
	float		*w;
};

/* Weights of one layer. */
static inline int64_t expert_net_count(const struct expert_net *m)
{
	return m->experts * m->width * m->width;
}

/* @m->w, malloc()ed the first time; the caller frees it. */
void expert_net_draw(struct expert_net *m, uint64_t *seed);
struct rlx_graph *expert_net_graph(const struct expert_net *m);
/* Set its params. */
enum rlx_status expert_net_fill(struct rlx_session *s, const struct expert_net *m);
/* Compiled for @device, with its params; a failure fails the test. */
struct rlx_session *expert_net_session(const struct expert_net *m, const char *device);
/* One run; @routes: layer by layer. *@y is poisoned before, and set if it went well. */
enum rlx_status expert_net_try(struct rlx_session *s, const struct expert_net *m, const float *x,
			       const int32_t *routes, float *y);
/* The same; a failure fails the test. */
void expert_net_run(struct rlx_session *s, const struct expert_net *m, const float *x,
		    const int32_t *routes, float *y);
/* In double, each layer's result rounded to f32. */
void expert_net_wanted(const struct expert_net *m, const float *x, const int32_t *routes, float *y);

#endif
