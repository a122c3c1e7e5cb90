/* SPDX-License-Identifier: MIT */
/*
 * Which experts of a mixture lie in a device's memory.
 *
 * A program that is compiled with RLX_COMPILE_PLACE leaves the weights of experts (matrices of
 * grouped_matmul that rows choose) in host memory, where they were given: params in their arenas,
 * constants where the graph has them. Each session says which experts its device is to have as
 * well. Those are resident: each has a slot in the device's memory, filled once. The others are
 * streamed: a run that hits one brings it by a stream of its own to one of two buffers that all
 * of the session's layers share, while the experts before it are multiplied. A device that has no
 * room for a model's experts so runs it all the same, and what is hit often can be kept there:
 *
 *	bool resident[EXPERTS];
 *	uint64_t hits[EXPERTS];
 *	unsigned int target[EXPERTS], n;
 *
 *	every some runs, for each layer:
 *		rlx_moe_hits(s, layer, hits, EXPERTS);
 *		n = rlx_moe_target(hits, EXPERTS, budget, target);
 *		rlx_moe_refresh(resident, EXPERTS, target, n, NULL, NULL);
 *		rlx_moe_place(s, layer, resident, EXPERTS);
 *
 * One kernel multiplies them all, wherever they lie, so that results are the same bits under any
 * placement; none is multiplied by the host for that reason. Packed experts
 * (dequant_grouped_matmul) lie packed in slots and buffers, and become floats one by one, for the
 * product alone.
 *
 * Which experts are hit is known on the device alone: before the products of a layer the host
 * waits for the counts, and launches of such a program are not one graph. So runs of a program
 * whose experts all fit take longer than without RLX_COMPILE_PLACE.
 *
 * On "cpu" the device's memory is the host's: every placement is taken, nothing moves, and all
 * rows count as the device's.
 */
#ifndef RLX_MOE_H
#define RLX_MOE_H

#include "rlx/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct rlx_moe_layer - a layer of experts: products that choose by one value.
 * @name:         of the param that the experts of its first product are; NULL: a constant. Lives
 *                as long as the session
 * @experts:      how many there are
 * @products:     in which each has a matrix: three of a gated network
 * @resident:     experts that are placed in the device's memory
 * @expert_bytes: of one expert, in all products
 */
struct rlx_moe_layer {
	const char	*name;
	unsigned int	 experts, products, resident;
	uint64_t	 expert_bytes;
};

/**
 * struct rlx_moe_stats - what runs did with experts; each row counts once a layer and expert that
 * it chose, not once a product.
 * @rows_device, @rows_host:   rows whose expert was resident, and was not
 * @calls_device, @calls_host: experts that had rows in a run, added up over runs: likewise
 * @streamed, @streamed_bytes: matrices that were brought for one use, and their bytes
 * @promoted, @demoted:        experts that got a slot, and that lost theirs
 */
struct rlx_moe_stats {
	uint64_t	rows_device, rows_host, calls_device, calls_host;
	uint64_t	streamed, streamed_bytes, promoted, demoted;
	uint64_t	reserved[4];
};

/**
 * rlx_moe_layers - how many layers of experts there are, in the order of the graph: layer 0 is the
 * one that RLX_COMPILE_EXPERTS calls "experts.0".
 * Return: 0 if the program was compiled without RLX_COMPILE_PLACE, or @s is NULL.
 */
RLX_EXPORT unsigned int rlx_moe_layers(const struct rlx_session *s);

/**
 * rlx_moe_layer - tell what layer @layer is.
 * Context: neither sleeps nor allocates. Return: RLX_EINVAL (no @out; the program was compiled
 * without RLX_COMPILE_PLACE), RLX_ERANGE (there are not so many), RLX_EBUSY (a run is under way);
 * *@out is then not written.
 */
RLX_EXPORT enum rlx_status
rlx_moe_layer(struct rlx_session *s, unsigned int layer, struct rlx_moe_layer *out);

/**
 * rlx_moe_place - say which experts are resident from the next run on.
 * @layer:    which layer; -1: all of them, in place of what was said of each before
 * @resident: by expert
 * @n:        how many are given; those beyond are resident. 0: all are, as in a new session
 *
 * The next run gives up slots of those that are not to be resident any more, takes memory for
 * what it lacks, and fills it; it fails with RLX_ENOMEM if the device has no such room, and then
 * runs as soon as fewer are placed. Slots are the session's own. A param that is bound or set
 * anew is brought anew, as far as its experts are resident.
 * Context: neither sleeps nor allocates; copies nothing.
 * Return: RLX_EINVAL (no @resident; the program was compiled without RLX_COMPILE_PLACE), RLX_ERANGE
 * (no such layer; it has fewer than @n experts), RLX_ENOSUP (some product of the layer, which the
 * message names, has not been compiled for it: the backend is none of "cpu", "cuda" and "rocm", or
 * has no kernel for the product; on a GPU also because a step of the program makes the weights,
 * turns them say, because something else reads them, or because packed ones meet rows that are not
 * of f32), RLX_EBUSY (a run is under way). Then all is as it was.
 */
RLX_EXPORT enum rlx_status
rlx_moe_place(struct rlx_session *s, int layer, const bool *resident, unsigned int n);

/**
 * rlx_moe_stats - take what was counted of layer @layer since it was taken last; -1: of all,
 * added up. A run that failed is counted as far as it came.
 * Context: neither sleeps nor allocates. Return: as rlx_moe_place(), or RLX_EINVAL (no @out);
 * nothing is taken then.
 */
RLX_EXPORT enum rlx_status
rlx_moe_stats(struct rlx_session *s, int layer, struct rlx_moe_stats *out);

/**
 * rlx_moe_hits - take how many rows chose each expert of a layer since that was taken last.
 * @out: room for @n numbers, as many as the layer has experts
 *
 * Rows beyond an active extent, and those whose index is out of range, chose none.
 * Context: neither sleeps nor allocates. Return: as rlx_moe_place(), or RLX_EINVAL (no @out),
 * RLX_ERANGE (@n is another number); nothing is taken then.
 */
RLX_EXPORT enum rlx_status
rlx_moe_hits(struct rlx_session *s, unsigned int layer, uint64_t *out, unsigned int n);

/**
 * rlx_moe_budget - how many experts a layer may have resident: (@free - @reserve) / (@expert_bytes
 * @layers), rounded down; 0 if @reserve is more than is free. Bytes. With @expert_bytes or @layers
 * 0 nothing limits them: UINT_MAX.
 */
RLX_EXPORT unsigned int
rlx_moe_budget(uint64_t free, uint64_t reserve, uint64_t expert_bytes, unsigned int layers);

/**
 * rlx_moe_target - the experts that are worth a slot: the @budget that were hit most, the lower
 * number first of those hit as often; never one that was not hit.
 * @hits:   of @n experts
 * @target: room for @budget numbers, or @n if that is less; the most hit first
 *
 * Pure; takes time as the square of @n. Return: how many there are.
 */
RLX_EXPORT unsigned int
rlx_moe_target(const uint64_t *hits, unsigned int n, unsigned int budget, unsigned int *target);

/**
 * rlx_moe_refresh - come from what is resident to a target with as few moves: what is missing of
 * the target is promoted, as many that are not in it are demoted, those of lower numbers first,
 * and the rest stays as it is. So as many are resident as before, or, where all that are not in
 * the target are demoted, those of the target.
 * @resident: by expert, @n of them; changed
 * @target:   @n_target numbers below @n, each once; others are not looked at
 * @promoted, @demoted: how many were; may be NULL
 *
 * Pure. The rule of rlx_moe_target() and this is TIDE's.
 */
RLX_EXPORT void
rlx_moe_refresh(bool *resident, unsigned int n, const unsigned int *target, unsigned int n_target,
		unsigned int *promoted, unsigned int *demoted);

#ifdef __cplusplus
}
#endif
#endif
