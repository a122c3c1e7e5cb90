/* SPDX-License-Identifier: MIT */
/*
 * Communicators: processes, called ranks, that run the same program on data of their own and
 * add up what they got. Part of librlx-train (-lrlx-train -lrlx).
 *
 *	rlx_comm_new(NULL, &comm, &err);		as torchrun, mpirun or srun says
 *	opts.ranks = rlx_comm_ranks(comm);		of rlx_train_step()
 *	...
 *	rlx_session_collective(session, rlx_comm_collective(comm));
 *
 * All ranks are of one host. Over shared memory ("shm") tensors of the CPU are summed: rank r
 * adds part r of all ranks' in the order of their numbers, so that sums are the bits that one
 * process gets which adds them in that order, and the same on all. On GPUs NCCL or RCCL, opened
 * when it is wanted, sums in the device's memory; the shared memory then only tells who lives.
 *
 * A rank that dies, leaves or fails gives the others an error that names it, never a hang. After
 * an error a communicator is of no more use: every later call gives the same error.
 *
 * All ranks make the same calls in the same order; what differs is told where it can be seen
 * (RLX_EPROTO). One thread at a time uses a communicator, but for rlx_comm_fail().
 */
#ifndef RLX_COMM_H
#define RLX_COMM_H

#include "rlx/collective.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rlx_comm;

enum rlx_comm_kind { RLX_COMM_SHM, RLX_COMM_NCCL, RLX_COMM_RCCL };

/**
 * struct rlx_comm_opts - zero means the default everywhere.
 * @size:    sizeof(struct rlx_comm_opts)
 * @kind:    enum rlx_comm_kind
 * @ranks:   how many; 0: it, @rank and @name are what the environment says: RANK, WORLD_SIZE and
 *           LOCAL_WORLD_SIZE (torchrun), OMPI_COMM_WORLD_RANK, _SIZE and _LOCAL_SIZE, PMI_RANK
 *           and PMI_SIZE, SLURM_PROCID and SLURM_NTASKS, in this order; without any of these
 *           one rank. RLX_COMM_FD is a descriptor of rlx_comm_arena() to meet at
 * @rank:    which of them this is
 * @name:    ranks of one name and user find each other (by an abstract Unix socket, which
 *           no other user can join or answer at); NULL: made of the job that the environment
 *           names, or of MASTER_ADDR and MASTER_PORT
 * @arena:   of rlx_comm_arena(), to meet at; NULL: by name
 * @timeout_ns: how long is waited for ranks that live, without the time in which this one was
 *           stopped itself; 0: 10 minutes
 */
struct rlx_comm_opts {
	size_t			 size;
	int			 kind;
	unsigned int		 ranks, rank;
	const char		*name;
	struct rlx_arena	*arena;
	int64_t			 timeout_ns;
};

/**
 * rlx_comm_new - become a rank, and wait for the others.
 * @opts: NULL: the defaults
 *
 * NCCL itself is begun by the first sum, on the device that it is on; its library is opened
 * here: libnccl.so.2, librccl.so.1, or what RLX_NCCL names.
 * Context: sleeps, allocates; a thread of its own watches the others where a GPU waits for them.
 * Return: RLX_EINVAL (rank and ranks do not fit, here or what the environment says), RLX_EEXIST
 * (another has this rank), RLX_EPROTO (others have another number of ranks, or another kind),
 * RLX_ETIME (some did not come: which), RLX_EOWNERDEAD, RLX_ENOSUP (ranks of several hosts),
 * RLX_ENODEV (no such library), RLX_ENOMEM, RLX_EIO.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_comm_new(const struct rlx_comm_opts *opts, struct rlx_comm **out, struct rlx_error *err);

/* Leave: others that still wait for this rank get RLX_EPIPE. NULL is fine. */
RLX_EXPORT void rlx_comm_free(struct rlx_comm *c);

/**
 * rlx_comm_arena - memory for @ranks to meet at, for who starts them: they inherit its
 * descriptor (rlx_arena_fd()) and have its number in RLX_COMM_FD.
 * Ownership: rlx_arena_put() by the caller. Return: RLX_EINVAL, RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_comm_arena(unsigned int ranks, struct rlx_arena **out, struct rlx_error *err);

/* Of NULL: rank 0 of one. */
RLX_EXPORT unsigned int rlx_comm_rank(const struct rlx_comm *c);
RLX_EXPORT unsigned int rlx_comm_ranks(const struct rlx_comm *c);

/* For rlx_session_collective(); lives as long as @c. NULL of NULL. */
RLX_EXPORT const struct rlx_collective *rlx_comm_collective(const struct rlx_comm *c);

/*
 * The same for runs that only add up gradients (all but the last of rlx_train_opts.accumulate):
 * what would be summed stays the rank's own, and nobody waits. Only the last run must have
 * rlx_comm_collective(); all may, which takes longer and makes no difference.
 */
RLX_EXPORT const struct rlx_collective *rlx_comm_idle(const struct rlx_comm *c);

/* The failure after which it is of no more use, or one with status RLX_OK. */
RLX_EXPORT const struct rlx_error *rlx_comm_error(const struct rlx_comm *c);

/*
 * In host memory, whatever the kind. Return: RLX_EOWNERDEAD (a rank died), RLX_EPIPE (one left),
 * RLX_ECANCELED (one failed, with what it said), RLX_ETIME, RLX_EPROTO; all name the rank.
 *
 * rlx_comm_all_reduce - @data[count] becomes the sum over all ranks, in their order.
 * rlx_comm_reduce_scatter - @dst[count] becomes elements rank * count to (rank + 1) * count - 1 of
 *                       the sum of @src[ranks * count]: the bits that rlx_comm_all_reduce() gives.
 * rlx_comm_all_gather - @dst[ranks * bytes] becomes @src[bytes] of all ranks, in their order; the
 *                       two do not overlap.
 * rlx_comm_broadcast  - @data of @bytes becomes what rank 0 has there.
 * rlx_comm_barrier    - wait until all are here.
 * rlx_comm_agree      - RLX_EPROTO unless @value, the @what, is the same on all ranks.
 */
RLX_EXPORT enum rlx_status
rlx_comm_all_reduce(struct rlx_comm *c, void *data, uint64_t count, enum rlx_dtype dtype);
RLX_EXPORT enum rlx_status
rlx_comm_reduce_scatter(struct rlx_comm *c, const void *src, void *dst, uint64_t count,
			enum rlx_dtype dtype);
RLX_EXPORT enum rlx_status
rlx_comm_all_gather(struct rlx_comm *c, const void *src, void *dst, size_t bytes);
RLX_EXPORT enum rlx_status rlx_comm_broadcast(struct rlx_comm *c, void *data, size_t bytes);
RLX_EXPORT enum rlx_status rlx_comm_barrier(struct rlx_comm *c);
RLX_EXPORT enum rlx_status
rlx_comm_agree(struct rlx_comm *c, const char *what, uint64_t value);

/* Tell the others that this rank gives up, and why. Context: any thread. NULL is fine. */
RLX_EXPORT void rlx_comm_fail(struct rlx_comm *c, const char *why);

#ifdef __cplusplus
}
#endif
#endif
