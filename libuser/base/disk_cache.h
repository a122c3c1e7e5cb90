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

/* Keep @data. A failure leaves nothing behind, but for folders, and may be ignored. */
enum rlx_status rlx_disk_cache_store(const char *dir, const char *key, const void *data,
				size_t bytes);

#endif
