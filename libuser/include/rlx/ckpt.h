/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints: named tensors and a few opaque bytes, written to a folder while training goes
 * on, and found again whatever ended the run.
 *
 *	rlx_ckpt_open("ckpt", NULL, &ck, &err);
 *	if (rlx_ckpt_load(ck, states, ld, &step) == RLX_ENOENT)
 *		rlx_states_init(states, vars, seed, &err);	nothing there yet: begin anew
 *	for (; step < n; step++) {
 *		...
 *		if (step % 500 == 499)
 *			rlx_ckpt_save(ck, session, ld, step + 1);
 *	}
 *	rlx_ckpt_wait(ck, -1);
 *
 * A save takes a snapshot and returns; a thread writes it as DIR/step-<step>/ with
 * model.safetensors, optim.safetensors and manifest.json, flushes each to the disk, and only
 * then gives the folder its name. Whatever happens before that leaves the checkpoints that
 * were there; docs/formats.md tells the order and what a crash at each point leaves.
 *
 * Part of librlx-train (-lrlx-train -lrlx).
 */
#ifndef RLX_CKPT_H
#define RLX_CKPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rlx/data.h"
#include "rlx/run.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rlx_ckpt;
struct rlx_comm;

/*
 * Which file a tensor goes to: what a model's users want, and what only training does;
 * RLX_CKPT_PART is of the latter, and each of the ranks that write together has a part of it.
 */
enum rlx_ckpt_file { RLX_CKPT_MODEL, RLX_CKPT_OPTIM, RLX_CKPT_PART };

/**
 * struct rlx_ckpt_tensor - one tensor of a checkpoint.
 * @name:  unique in its file
 * @buf:   at least the type's bytes, that a save reads and a load writes
 * @file:  enum rlx_ckpt_file
 * @whole: of RLX_CKPT_PART: elements of all parts, as rlx_train_opts.zero cuts a variable of so
 *         many; of others not looked at
 */
struct rlx_ckpt_tensor {
	const char	*name;
	struct rlx_type	 type;
	struct rlx_buf	 buf;
	uint32_t	 file;
	int64_t		 whole;
};

/**
 * struct rlx_ckpt_blob - a few bytes by name, kept in the manifest: a loader's position, a
 * seed. A load wants the same number of bytes.
 * @key: unique; below 64 bytes
 * @bytes: at most 1 MiB
 */
struct rlx_ckpt_blob {
	const char	*key;
	void		*data;
	size_t		 bytes;
};

/**
 * struct rlx_ckpt_set - all that a checkpoint holds.
 * @size:       sizeof(struct rlx_ckpt_set)
 * @graph_hash: of the program (rlx_graph_hash()); 0: none. A load refuses another
 * @has_metric, @metric: how good it is, for rlx_ckpt_opts.best
 */
struct rlx_ckpt_set {
	size_t				 size;
	const struct rlx_ckpt_tensor	*tensor;
	const struct rlx_ckpt_blob	*blob;
	unsigned int			 n, n_blob;
	uint64_t			 graph_hash;
	bool				 has_metric;
	double				 metric;
};

/* Which metric is the best: none is kept for it, the least, the greatest. */
enum rlx_ckpt_best { RLX_CKPT_NO_BEST, RLX_CKPT_LEAST, RLX_CKPT_GREATEST };

/**
 * struct rlx_ckpt_opts - zero is the default everywhere.
 * @size:  sizeof(struct rlx_ckpt_opts)
 * @keep:  the latest so many stay; 0: 3
 * @every: and for good those whose step is a multiple of it; 0: none
 * @best:  enum rlx_ckpt_best: and the one with the best metric
 * @slots: snapshots that may wait to be written; 0: 1. Each takes a checkpoint's bytes
 * @readonly: only to load: no lock is taken, nothing removed, saving is RLX_EACCES
 * @arena: where snapshots lie; NULL: arenas of its own
 * @comm:  ranks that write and load together, by the same calls in the same order; it outlives
 *         this. Each writes its parts (RLX_CKPT_PART), rank 0 all else, and the manifest when
 *         all parts are on the disk. A save then returns when it is published, or came to nothing
 *         for all (the failure of any rank; RLX_EOWNERDEAD and what else rlx/comm.h names), and a
 *         load takes the newest checkpoint that is whole for all. One that another number of ranks
 *         wrote, or one alone, is cut anew. NULL: nobody else
 */
struct rlx_ckpt_opts {
	size_t			 size;
	unsigned int		 keep, every, slots;
	uint32_t		 best;
	bool			 readonly;
	struct rlx_arena	*arena;
	struct rlx_comm		*comm;
};

/**
 * rlx_ckpt_open - open a folder of checkpoints, made if it is not there.
 *
 * One process at a time writes: DIR/lock is held. What dead writers left half done is
 * removed.
 * Context: any thread; starts a thread. Ownership: rlx_ckpt_close().
 * Return: RLX_EBUSY if another process has the lock, naming it; RLX_ENOENT, RLX_EACCES,
 * RLX_EIO for the folder; RLX_EINVAL; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_ckpt_open(const char *dir, const struct rlx_ckpt_opts *opts, struct rlx_ckpt **out,
	      struct rlx_error *err);

/* Finish what is being written, then free. NULL is fine. */
RLX_EXPORT void rlx_ckpt_close(struct rlx_ckpt *ck);

/* The failure of the last call, or one with RLX_OK. */
RLX_EXPORT const struct rlx_error *rlx_ckpt_error(const struct rlx_ckpt *ck);

/**
 * rlx_ckpt_save_set - take a snapshot of @set and begin to write it.
 * @step: names it; one that is there is replaced, once the new one is on the disk
 *
 * Returns when the snapshot is taken: the tensors may change. That a write failed (a full
 * disk) is told by rlx_ckpt_wait() and by the next save, once; what was there before stays,
 * and later saves work as the disk does.
 * Context: one thread per @ck; copies all tensors; the first time allocates as much.
 * Return: RLX_EAGAIN if all slots wait to be written: nothing was done, go on training;
 * RLX_EINVAL for a malformed set; RLX_EEXIST for a name that comes twice; RLX_ERANGE for a
 * buffer that is too small; RLX_EACCES (readonly); RLX_ENOMEM; the failure of the save
 * before, if nobody was told yet: this one is then written all the same.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_ckpt_save_set(struct rlx_ckpt *ck, const struct rlx_ckpt_set *set, uint64_t step);

/**
 * rlx_ckpt_wait - wait until all saves are published, or failed.
 * @timeout_ns: < 0 waits for ever, 0 polls
 * Return: RLX_ETIME; the first failure that nobody was told yet, its reason in
 * rlx_ckpt_error(): RLX_EIO (the disk is full, and others).
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_ckpt_wait(struct rlx_ckpt *ck, int64_t timeout_ns);

/**
 * enum rlx_ckpt_load_flags
 * @RLX_CKPT_PARTIAL: take what both have, by name and type; leave the rest, and the graph's
 *                    hash, as they are: for fine-tuning
 */
enum rlx_ckpt_load_flags { RLX_CKPT_PARTIAL = 1 << 0 };

/**
 * rlx_ckpt_load_set - fill @set from the newest checkpoint that is whole.
 * @out_step: its step; may be NULL
 *
 * Sizes and crcs of all its bytes are checked first. One that is damaged is named in the log
 * (rlx/log.h) and the one before it taken. Nothing of @set is written unless all of it is.
 * Context: as save; waits for saves. Return: RLX_ENOENT if there is none; RLX_ESHAPE if names
 * or types differ, naming tensor, have and want, or the graph's hash does; RLX_EIO;
 * RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_ckpt_load_set(struct rlx_ckpt *ck, const struct rlx_ckpt_set *set, uint32_t flags,
		  uint64_t *out_step);

/**
 * rlx_ckpt_save - rlx_ckpt_save_set() of all states of a session, and a loader's position.
 * @s:  no run may be under way. States that a device keeps are brought back first. Those of
 *      optimizers and of the step (rlx_train_keeps()) and averages of weights ("ema.") go to
 *      optim.safetensors, the others to model.safetensors; a rank's parts ("zero.", without which
 *      they are named there) to optim-<rank + 1>-of-<ranks>.safetensors
 * @ld: may be NULL. What it has fed counts as seen
 * Return: also RLX_EINVAL if a state has no value yet, and what rlx_session_bound_at() leaves.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_ckpt_save(struct rlx_ckpt *ck, struct rlx_session *s, struct rlx_loader *ld,
	      uint64_t step);

/**
 * rlx_ckpt_load - rlx_ckpt_load_set() of what rlx_ckpt_save() saved, before the first run of a
 * session that has @states.
 * @ld: moved to the position (rlx_loader_seek()); may be NULL
 * Return: also what rlx_loader_seek() does: then the states are loaded, and the loader is not
 * moved.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_ckpt_load(struct rlx_ckpt *ck, struct rlx_states *states, struct rlx_loader *ld,
	      uint64_t *out_step);

/**
 * struct rlx_ckpt_info - counts since it was opened.
 * @published:    the latest step that is on the disk; 0 with @some false: none
 * @saved, @failed: saves that were published, that came to nothing
 * @damaged:      checkpoints that a load found damaged and left out
 * @bytes_written: of files
 * @snapshot_ns, @write_ns: how long the last snapshot and the last write took
 * @writer:       how files are written
 */
struct rlx_ckpt_info {
	uint64_t	published, saved, failed, damaged;
	uint64_t	bytes_written, snapshot_ns, write_ns;
	bool		some;
	char		writer[160];
	uint64_t	reserved[8];
};

/* Context: any thread. */
RLX_EXPORT void rlx_ckpt_info(const struct rlx_ckpt *ck, struct rlx_ckpt_info *out);

#ifdef __cplusplus
}
#endif
#endif
