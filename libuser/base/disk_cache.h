/* SPDX-License-Identifier: MIT */
/*
 * What can be made anew, on disk, in a folder that processes share: compiled kernels,
 * measurements. A file is written aside and renamed, so that readers see all of it or
 * none; it carries its key, length and checksum, and one that does not fit is taken away
 * and made anew.
 */
#ifndef RLX_BASE_DISK_CACHE_H
#define RLX_BASE_DISK_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "rlx/status.h"

/* The user's folder for @kind ("gpu", "pick"); false: there is none. Makes nothing. */
bool rlx_disk_cache_dir(const char *kind, char *buf, size_t size);

/*
 * What is stored under @key in folder @dir. RLX_ENOENT: nothing; RLX_EPARSE: something damaged,
 * which is taken away; RLX_EACCES: something that others may have written. Ownership:
 * rlx_free(*@out).
 */
enum rlx_status rlx_disk_cache_load(const char *dir, const char *key, void **out,
			       size_t *out_bytes);

/*
 * Write @data into @dir, which is made where there is none, and take nothing else away: for
 * folders that somebody named, where each file is wanted. A failure leaves nothing behind, but
 * for folders.
 */
enum rlx_status rlx_disk_cache_write(const char *dir, const char *key, const void *data,
				size_t bytes);

/*
 * The same into a cache: beyond 256 MiB its files that were not used for longest go. A failure
 * may be ignored.
 */
enum rlx_status rlx_disk_cache_store(const char *dir, const char *key, const void *data,
				size_t bytes);

#endif
