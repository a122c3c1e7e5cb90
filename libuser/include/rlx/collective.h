/* SPDX-License-Identifier: MIT */
/*
 * What ops all_reduce, reduce_scatter and all_gather call while a program runs: sums over ranks,
 * processes that run the same program on data of their own, and what is theirs brought together.
 * librlx only calls it; rlx/comm.h has communicators that are such, over shared memory and over
 * NCCL or RCCL.
 */
#ifndef RLX_COLLECTIVE_H
#define RLX_COLLECTIVE_H

#include "rlx/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct rlx_reduction - one sum over all ranks, element by element, or what all have.
 * @src, @dst: of all_reduce @count elements of @dtype each; they are either one place or apart,
 *             of a device always one. Of reduce_scatter @src has ranks times @count, of all_gather
 *             @dst, and they are apart: rank r's are the @count from r * @count on
 * @device:    NULL: host memory. Else the backend whose memory it is ("cuda", "rocm"), and its
 *             context is the calling thread's
 * @stream:    of a device: what the sum comes after, and what comes after it
 */
struct rlx_reduction {
	const void	*src;
	void		*dst;
	uint64_t	 count;
	enum rlx_dtype	 dtype;		/* f64 f32 i64 i32; of all_gather any */
	const char	*device;
	void		*stream;
};

/**
 * struct rlx_collective - who sums.
 * @rank, @ranks: which of how many this process is
 * @all_reduce: all ranks call it in the same order with the same counts and dtypes. Of host
 *              memory it has been done on return; of a device it is in the stream. Context:
 *              the thread that runs the session
 * @reduce_scatter, @all_gather: likewise; programs without such steps need none (NULL). Sums of
 *              reduce_scatter are the bits that @all_reduce gives, of host memory
 * @ended:      NULL, or called when a run has ended: what came of its sums that @all_reduce
 *              could not know yet. Its failure is the run's
 */
struct rlx_collective {
	unsigned int	 rank, ranks;
	void		*ctx;
	enum rlx_status	(*all_reduce)(void *ctx, const struct rlx_reduction *r,
				      struct rlx_error *err);
	enum rlx_status	(*ended)(void *ctx, struct rlx_error *err);
	enum rlx_status	(*reduce_scatter)(void *ctx, const struct rlx_reduction *r,
					  struct rlx_error *err);
	enum rlx_status	(*all_gather)(void *ctx, const struct rlx_reduction *r,
				      struct rlx_error *err);
};

/**
 * rlx_session_collective - who sums what all_reduce steps of later runs have, and does what
 * reduce_scatter and all_gather steps do.
 * @c: outlives the session, or what is set next; NULL: nobody, and runs with such steps (own_part
 *     ones, too) over more than one rank fail with RLX_EINVAL
 *
 * Such steps are not the session's alone: a run that fails on one rank leaves the others
 * waiting until their communicator finds out.
 * Return: RLX_EBUSY (a run is under way), RLX_EINVAL.
 */
RLX_EXPORT enum rlx_status
rlx_session_collective(struct rlx_session *s, const struct rlx_collective *c);

#ifdef __cplusplus
}
#endif
#endif
