/* SPDX-License-Identifier: MIT */
/*
 * Prepared weights that outlive a program and the process that made them.
 *
 * Compiling for a device packs weights into the layout that its kernels read. With
 * a store in the compile options they are packed into an arena, once for all
 * programs compiled with it. Sealed, the arena can be handed to another process
 * (or kept by somebody until the next one starts): what that one compiles finds
 * its weights there, packs nothing, and reads no weights from the model's file.
 *
 *	rlx_arena_new(&(struct rlx_arena_opts){ .size = 4 * model_bytes,
 *		      .flags = RLX_ARENA_LAZY | RLX_ARENA_NOLOCK }, &arena, &err);
 *	rlx_store_new(arena, NULL, &store, &err);
 *	rlx_compile(g, &(struct rlx_compile_opts){ .size = sizeof(struct rlx_compile_opts),
 *		    .store = store }, &program, &err);
 *	rlx_store_seal(store, &err);
 *
 * Then send rlx_arena_fd(arena), and there:
 *
 *	rlx_arena_open_fd(fd, RLX_ARENA_RDONLY | RLX_ARENA_LAZY |
 *			  RLX_ARENA_NOLOCK, &arena, &err);
 *	rlx_store_open(arena, NULL, &store, &err);
 *
 * and rlx_compile() as above.
 *
 * An entry is found by where its weights came from (a file's identity and the place
 * in it; else their contents, which the store has as well, to compare), by kind and
 * parameters of the layout, and by size.
 * A store serves only the build of the library and the instruction set that made it.
 */
#ifndef RLX_STORE_H
#define RLX_STORE_H

#include "rlx/arena.h"
#include "rlx/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rlx_store;

/**
 * rlx_store_new - an empty store in @arena, to be filled by compiling.
 * @arena:  referenced; all of it is the store's. With RLX_ARENA_LAZY it may be far
 *          larger than what comes to lie in it: memory is taken as it fills, and
 *          weights that find no room are packed into memory of the process
 * @device: what programs will be compiled for, as in struct rlx_compile_opts
 * Context: any thread; allocates. Ownership: one reference is the caller's.
 * Return: RLX_EINVAL, RLX_ERANGE (the arena has no room for a header), RLX_EACCES
 * (it is read-only), RLX_ENODEV, RLX_ENOSUP (the program that this library is
 * linked into carries no build id), RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_store_new(struct rlx_arena *arena, const char *device, struct rlx_store **out,
	      struct rlx_error *err);

/**
 * rlx_store_open - adopt a store that was sealed, by this or another process.
 * @arena:  as it came, opened without RLX_ARENA_UNSEALED; referenced
 * @device: as above
 *
 * Nothing in the arena is believed: header and table are checked, all places must
 * lie inside, and nobody may be able to write to it any more. That the weights are
 * what the table says is the word of whoever made it: take stores of your own user.
 * Context: any thread; allocates; maps the pages that are in use.
 * Return: RLX_EACCES if it is not sealed against writing; RLX_EPARSE if it is no
 * store, cut short or damaged; RLX_ENOSUP, naming both sides, if it is of another
 * build, format or instruction set; else as rlx_store_new(). All mean: make a new
 * one.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_store_open(struct rlx_arena *arena, const char *device, struct rlx_store **out,
	       struct rlx_error *err);

/**
 * rlx_store_seal - write the table and forbid writing for good.
 *
 * Programs compiled with it go on. Later ones find what is there and pack the rest
 * into memory of the process.
 * Context: any thread; sleeps. Return: RLX_EBUSY while a program is being compiled
 * with it or another process or device can write; RLX_ERANGE if the table finds no
 * room; RLX_EACCES if it is sealed; RLX_ENOMEM. A failure leaves it unsealed.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_store_seal(struct rlx_store *s, struct rlx_error *err);

/* Take and drop a reference; programs hold one. NULL is fine. */
RLX_EXPORT struct rlx_store *rlx_store_get(struct rlx_store *s);
RLX_EXPORT void rlx_store_put(struct rlx_store *s);

/* The arena, referenced by the store. */
RLX_EXPORT struct rlx_arena *rlx_store_arena(const struct rlx_store *s);

/**
 * struct rlx_store_info - what is in a store and how it was used.
 * @layout:  device and instruction set, "cpu v4"
 * @sealed:  nothing is added any more
 * @entries: in it, @bytes: of the arena in use
 * @found:   asked for by programs of this process and there already
 * @made:    asked for and added
 * @missed:  asked for and not to be had: sealed, or no room
 */
struct rlx_store_info {
	char		layout[32];
	bool		sealed;
	uint32_t	entries;
	uint64_t	bytes, found, made, missed;
};

/* Fill @out. Context: any thread. */
RLX_EXPORT void rlx_store_info(struct rlx_store *s, struct rlx_store_info *out);

#ifdef __cplusplus
}
#endif
#endif
