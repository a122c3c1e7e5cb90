/* SPDX-License-Identifier: MIT */
/* Whole files mapped for reading, and files written whole or not at all. */
#ifndef RLX_IO_FILE_H
#define RLX_IO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "rlx/status.h"

/* Bytes of a mapped file, or of memory that somebody else owns. */
struct rlx_file {
	const uint8_t	*p;	/* never NULL once open, even if empty */
	size_t		 n;
	void		*map;	/* NULL: nothing to unmap */
	uint64_t	 source;	/* for rlx_blob_set_source(); 0: no file */
	/* Of external data: where the model has it, links as they are; else NULL */
	const char	*path;
};

/* What an errno of a file means: RLX_ENOENT, RLX_EACCES, RLX_ENOMEM, RLX_EIO. */
enum rlx_status rlx_file_status(int e);
struct stat;
/*
 * Open a regular file to read, without waiting for a FIFO's writer. RLX_ENOENT, RLX_EACCES,
 * RLX_EIO; RLX_EBADFD: it is of another kind.
 */
enum rlx_status __rlx_must_check
rlx_file_open(const char *path, int *out_fd, struct stat *sb, struct rlx_error *err);
/* As rlx_file_open(); RLX_ENOMEM. */
enum rlx_status __rlx_must_check
rlx_file_map(struct rlx_file *f, const char *path, struct rlx_error *err);
void rlx_file_unmap(struct rlx_file *f);
/* The source that a mapping of @path would have now; 0: it is no regular file. */
uint64_t rlx_file_source(const char *path, uint64_t *out_bytes);

struct rlx_safetensors;

/* What @f maps; @map is NULL if it was opened from memory. Valid while @f lives. */
const struct rlx_file *rlx_safetensors_mapped(const struct rlx_safetensors *f);

/*
 * Write @path through a file beside it that takes its name at the end, so that
 * a reader never sees half of it; what links lead to is replaced, and only a regular
 * file is (else RLX_EBADFD). @end either way.
 */
struct rlx_file_writer {
	FILE		*f;
	const char	*path;
	char		*to, *tmp;
	bool		 durable;	/* on the disk before it takes the name */
};

enum rlx_status __rlx_must_check
rlx_file_write_begin(struct rlx_file_writer *w, const char *path,
		     struct rlx_error *err);
/* @st: what came of the writing; if it failed, the file beside goes away. */
enum rlx_status __rlx_must_check
rlx_file_write_end(struct rlx_file_writer *w, enum rlx_status st,
		   struct rlx_error *err);
enum rlx_status __rlx_must_check
rlx_file_put(struct rlx_file_writer *w, const void *p, size_t n,
	     struct rlx_error *err);

#endif
