/* SPDX-License-Identifier: MIT */
/*
 * Plan files: programs compiled ahead of time (AOT), to start without compiling.
 *
 *	rlx_compile(g, NULL, &program, &err);
 *	rlx_program_save(program, "bert.rlxp", &err);		once, then in every process
 *
 *	rlx_program_load("bert.rlxp", NULL, &program, &err);
 *	rlx_session_new(program, NULL, &session, &err);
 *
 * A plan file holds the graphs after all passes, the weights as the kernels of one instruction
 * set read them, and of the other constants what is needed as it is. Loading runs no pass and
 * packs nothing: it maps the file, whose pages all processes that have it share, and lays out
 * memory and kernel arguments. These follow from types that are inferred anew, and are never
 * read from the file: a plan file is data, not code. Whatever is in it, loading and running touch
 * no memory but their own. What it computes is the word of whoever wrote it, as with every model.
 *
 * Shared pages are those of the file, of 4 KiB, where rlx_compile() packs into huge ones if it can:
 * one thread that streams large weights may take up to a quarter longer for a run, several less.
 *
 * It serves libraries built of the sources, and the instruction set, that it was made with, and
 * says what is different elsewhere.
 */
#ifndef RLX_AOT_H
#define RLX_AOT_H

#include "rlx/compile.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * rlx_program_save - write a program to a plan file.
 * @p:    of a device whose programs can be written, which is "cpu"; one that was loaded, too
 * @path: takes the place of what was there, once all of it is on the disk; else stays as it was
 *
 * Context: any thread, also while sessions run; allocates, sleeps. Values of params and states,
 * which are the sessions', are not in it.
 * Return: RLX_ENOSUP (a device without plan files; an op of the program's own), RLX_ENOENT,
 * RLX_EACCES, RLX_EIO for the file, RLX_EBADFD if @path is a device, FIFO or folder, RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_program_save(const struct rlx_program *p, const char *path, struct rlx_error *err);

/* What rlx_program_load() does besides. */
enum rlx_load_flags {
	RLX_LOAD_VERIFY	= 1u << 0,	/* read all weights and compare their hashes */
};

/**
 * struct rlx_load_opts - zero means the default everywhere.
 * @size:    sizeof(struct rlx_load_opts), so that it may grow
 * @device:  to run on; NULL: the one that the file is for
 * @threads: as in struct rlx_compile_opts
 * @flags:   of enum rlx_load_flags
 */
struct rlx_load_opts {
	size_t		 size;
	const char	*device;
	unsigned int	 threads;
	uint32_t	 flags;
};

/**
 * rlx_program_load - a program out of a plan file.
 * @path: stays mapped as long as the program or its graph is there; it must not be cut short
 *        or written over meanwhile: replace it by renaming another one over it, as
 *        rlx_program_save() does
 * @opts: NULL for the defaults
 *
 * The result runs as the program that was saved did, and gives the same bits. Its graph
 * (rlx_program_graph()) has the types and ops, but zeros for weights that were prepared: it
 * cannot be compiled again.
 *
 * Header, tables and graphs are checked against a hash in every load; weights only under
 * RLX_LOAD_VERIFY, which reads the file whole.
 *
 * Context: any thread; allocates, maps. Ownership: one reference is the caller's.
 * Return: RLX_ENOENT, RLX_EACCES, RLX_EBADFD, RLX_EIO for the file; RLX_EPARSE (no plan file,
 * cut short, damaged); RLX_ENOSUP, naming both sides (other sources, format or instruction set,
 * or another device than @opts asks for): compile the model again there; RLX_EINVAL (NULL, an
 * unknown flag); RLX_ENODEV, RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_program_load(const char *path, const struct rlx_load_opts *opts,
		 struct rlx_program **out, struct rlx_error *err);

/**
 * struct rlx_program_file_info - what a plan file says of itself.
 * @version: of the library that wrote it
 * @layout:  device and instruction set, "cpu v4"
 * @sources: SHA-256 of the sources that what is in it depends on: ops, lowerings, kernels
 * @threads: of the program that was saved
 * @graphs:  its own, and those of its control flow
 * @weights: arrays in the file, and their bytes: as they are, and prepared
 * @left_out: constants of which only what was prepared is there
 * @bytes:   of the file
 * @usable:  this library, on this machine, loads it
 */
struct rlx_program_file_info {
	char		version[32], layout[32], sources[65];
	unsigned int	threads, graphs, weights, left_out;
	uint64_t	raw_bytes, prepared_bytes, bytes;
	bool		usable;
};

/* Read that, of files for other machines as well. Return: as rlx_program_load(). */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_program_file_info(const char *path, struct rlx_program_file_info *out, struct rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
