/* SPDX-License-Identifier: MIT */
/*
 * Weights in the memory of a GPU, once for all processes that use it.
 *
 * Each process that compiles or binds weights for a GPU brings a copy of its own
 * there. Where they lie in an arena that is sealed against writing (a sealed store's,
 * rlx/store.h, or one that a model was read into), one process brings the arena there
 * and hands a descriptor to the others, together with the arena's:
 *
 *	rlx_resident_new(arena, bytes, "cuda", &r, &err);
 *	rlx_resident_fd(r, &fd, &err);		send it and rlx_arena_fd(arena), and there:
 *
 *	rlx_arena_open_fd(arena_fd, RLX_ARENA_RDONLY, &arena, &err);
 *	rlx_resident_open_fd(arena, bytes, fd, "cuda", &r, &err);
 *
 * From then on constants and params that lie in the arena, at multiples of 16 bytes, are
 * used where they are on the device, in programs compiled and sessions bound there. The
 * memory is there until the last process that has it ends, however it ends.
 */
#ifndef RLX_RESIDENT_H
#define RLX_RESIDENT_H

#include "rlx/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rlx_resident;

/**
 * rlx_resident_new - bring an arena into a device's memory.
 * @arena:  sealed with RLX_SEAL_WRITE, as its bytes and the device's must stay the
 *          same; referenced
 * @bytes:  from its start on; 0: all of it
 * @device: as in struct rlx_compile_opts
 *
 * Context: any thread; sleeps, allocates; time grows with the size.
 * Ownership: rlx_resident_put() by the caller.
 * Return: RLX_EACCES if somebody may write to the arena; RLX_ERANGE if @bytes is more
 * than it has; RLX_ENODEV; RLX_ENOSUP on devices without shareable memory of their
 * own; RLX_ENOMEM, also of the device; RLX_EBUSY if the device has it already; RLX_EIO.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_resident_new(struct rlx_arena *arena, uint64_t bytes, const char *device,
		 struct rlx_resident **out, struct rlx_error *err);

/**
 * rlx_resident_open_fd - use what another process brought to the device.
 * @arena:  the same one as there, of its descriptor; referenced
 * @bytes:  the same as there
 * @fd:     from rlx_resident_fd(); the caller keeps it and may close it
 *
 * The device's bytes are the word of whoever gave the descriptor; only that they are
 * meant for this arena is checked.
 * Context: any thread; sleeps, allocates. Return: RLX_EBADFD if @fd is no memory of
 * this device or of another size; RLX_EPARSE if it is another arena's; else as rlx_resident_new().
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_resident_open_fd(struct rlx_arena *arena, uint64_t bytes, int fd, const char *device,
		     struct rlx_resident **out, struct rlx_error *err);

/**
 * rlx_resident_fd - a descriptor for other processes.
 * Ownership: close(*@out) by the caller. Context: any thread.
 * Return: RLX_EINVAL, RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_resident_fd(struct rlx_resident *r, int *out, struct rlx_error *err);

/**
 * rlx_resident_put - end it; NULL is fine. Programs and sessions that use it go on
 * and keep its memory. Context: any thread; sleeps.
 */
RLX_EXPORT void rlx_resident_put(struct rlx_resident *r);

#ifdef __cplusplus
}
#endif
#endif
