// SPDX-License-Identifier: MIT
/* Folders of files that can be made anew: compiled kernels, measurements. See disk_cache.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/disk_cache.h"
#include "base/map.h"

enum { MOST = 1 << 28 };	/* bytes of a file that is believed */
/* Of all files in a folder: some thousand kernels. Beyond it the least used go. */
enum { MOST_OF_ALL = 256 << 20 };

struct head {
	char		magic[8];
	uint64_t	key_bytes, data_bytes, sum[2];
};
static const char magic[8] = "RLXGPU1";

static void sums(uint64_t sum[2], const void *p, size_t n)
{
	sum[0] = rlx_hash_bytes(p, n, 0x9e3779b97f4a7c15);
	sum[1] = rlx_hash_bytes(p, n, 0xc2b2ae3d27d4eb4f);
}

bool rlx_disk_cache_dir(const char *kind, char *buf, size_t size)
{
	const char *base = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
	int n;

	if (base && *base == '/')
		n = snprintf(buf, size, "%s/rlx/%s", base, kind);
	else if (home && *home == '/')
		n = snprintf(buf, size, "%s/.cache/rlx/%s", home, kind);
	else
		return false;
	return n > 0 && (size_t)n < size;
}

/* @dir/HASH@suffix; false: too long. */
static bool path_of(const char *dir, const char *key, const char *suffix, char *buf,
		    size_t size)
{
	uint64_t h[2];
	int n;

	sums(h, key, strlen(key));
	n = snprintf(buf, size, "%s/%016llx%016llx%s", dir, (unsigned long long)h[0],
		     (unsigned long long)h[1], suffix);
	return n > 0 && (size_t)n < size;
}

/* The data behind the head and the key, if all of it is as it was written. */
static bool fits(const char *file, size_t n, const char *key, size_t *out_at)
{
	struct head h;
	uint64_t sum[2];

	if (n < sizeof(h))
		return false;
	memcpy(&h, file, sizeof(h));
	if (memcmp(h.magic, magic, sizeof(magic)) || h.key_bytes != strlen(key) ||
	    h.key_bytes > n - sizeof(h) || h.data_bytes != n - sizeof(h) - h.key_bytes ||
	    memcmp(file + sizeof(h), key, h.key_bytes))
		return false;
	sums(sum, file + sizeof(h), n - sizeof(h));
	*out_at = sizeof(h) + h.key_bytes;
	return sum[0] == h.sum[0] && sum[1] == h.sum[1];
}

enum rlx_status rlx_disk_cache_load(const char *dir, const char *key, void **out,
			       size_t *out_bytes)
{
	char path[4096], *file = NULL;
	enum rlx_status st = RLX_ENOENT;
	struct stat s;
	FILE *f = NULL;
	size_t n, at;
	int fd;

	if (!path_of(dir, key, ".bin", path, sizeof(path)))
		return RLX_ENOENT;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return RLX_ENOENT;
	/* it becomes code: nobody but us and root may have written it */
	if (fstat(fd, &s) || !S_ISREG(s.st_mode) || (s.st_uid && s.st_uid != geteuid()) ||
	    s.st_mode & (S_IWGRP | S_IWOTH)) {
		st = RLX_EACCES;
		goto out_close;
	}
	n = s.st_size > 0 && s.st_size <= MOST ? (size_t)s.st_size : 0;
	file = n ? rlx_malloc(n) : NULL;
	if (n && !file) {
		st = RLX_ENOMEM;
		goto out_close;
	}
	f = fdopen(fd, "rb");
	if (!n || !f || fread(file, 1, n, f) != n || !fits(file, n, key, &at)) {
		unlink(path);
		st = RLX_EPARSE;
		goto out_close;
	}
	futimens(fd, NULL);	/* used just now, as trim() sees it; ours or not, no matter */
	memmove(file, file + at, n - at);
	*out = file;
	*out_bytes = n - at;
	file = NULL;
	st = RLX_OK;
out_close:
	rlx_free(file);
	if (f)
		fclose(f);
	else
		close(fd);
	return st;
}

struct kept {
	struct timespec	when;
	uint64_t	bytes;
	char		name[48];
};

static int older(const void *a, const void *b)
{
	const struct timespec *x = &((const struct kept *)a)->when;
	const struct timespec *y = &((const struct kept *)b)->when;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

/* A name that path_of() gives; what is written aside has six letters or digits instead of "bin". */
static bool is_ours(const char *name)
{
	static const char hex[] = "0123456789abcdef", random[] = "0123456789"
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	const char *end = name + strspn(name, hex);

	if (end - name != 32 || *end++ != '.')
		return false;
	return !strcmp(end, "bin") || (strspn(end, random) == 6 && !end[6]);
}

/* All files of ours in @dir, also those that somebody died over while writing. */
static struct kept *list_files(DIR *d, size_t *out_n, uint64_t *out_bytes)
{
	struct kept *list = NULL, *more;
	size_t n = 0, cap = 0;
	struct dirent *e;
	struct stat s;

	*out_bytes = 0;
	while ((e = readdir(d))) {
		if (!is_ours(e->d_name) ||
		    fstatat(dirfd(d), e->d_name, &s, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(s.st_mode))
			continue;
		if (n == cap) {
			cap = cap ? 2 * cap : 256;
			more = rlx_realloc(list, cap * sizeof(*list));
			if (!more)
				break;	/* fewer go */
			list = more;
		}
		list[n].when = s.st_mtim;
		list[n].bytes = (uint64_t)s.st_size;
		strcpy(list[n++].name, e->d_name);
		*out_bytes += (uint64_t)s.st_size;
	}
	*out_n = n;
	return list;
}

/*
 * After a store: where there is too much, take away what was not used for longest, a
 * quarter of it. Others may do the same, and who has opened a file keeps it.
 */
static void trim(const char *dir, uint64_t most)
{
	DIR *d = opendir(dir);
	struct kept *list;
	uint64_t bytes;
	size_t n, i;

	if (!d)
		return;
	list = list_files(d, &n, &bytes);
	if (bytes > most) {
		qsort(list, n, sizeof(*list), older);
		for (i = 0; i < n && bytes > most / 4 * 3; i++)
			if (!unlinkat(dirfd(d), list[i].name, 0))
				bytes -= list[i].bytes;
	}
	rlx_free(list);
	closedir(d);
}

/* Every folder of @path that is not there yet. */
static bool make_folders(const char *path)
{
	char part[4096];
	size_t n = strlen(path), i;

	if (n >= sizeof(part))
		return false;
	for (i = 1; i <= n; i++) {
		if (path[i] && path[i] != '/')
			continue;
		memcpy(part, path, i);
		part[i] = 0;
		if (mkdir(part, 0700) && errno != EEXIST)
			return false;
	}
	return true;
}

enum rlx_status rlx_disk_cache_write(const char *dir, const char *key, const void *data,
				size_t bytes)
{
	char path[4096], aside[4096];
	size_t nk = strlen(key), n;
	struct head h = { .key_bytes = nk, .data_bytes = bytes };
	char *file;
	FILE *f;
	bool ok;
	int fd;

	if (!path_of(dir, key, ".bin", path, sizeof(path)) ||
	    !path_of(dir, key, ".XXXXXX", aside, sizeof(aside)) ||
	    !rlx_add(sizeof(h) + nk, bytes, &n) || n > MOST)
		return RLX_ERANGE;
	if (!make_folders(dir))
		return RLX_EACCES;
	file = rlx_malloc(n);
	if (!file)
		return RLX_ENOMEM;
	memcpy(h.magic, magic, sizeof(magic));
	memcpy(file + sizeof(h), key, nk);
	memcpy(file + sizeof(h) + nk, data, bytes);
	sums(h.sum, file + sizeof(h), nk + bytes);
	memcpy(file, &h, sizeof(h));
	fd = mkostemp(aside, O_CLOEXEC);
	if (fd < 0) {
		rlx_free(file);
		return RLX_EACCES;
	}
	f = fdopen(fd, "wb");
	ok = f && fwrite(file, 1, n, f) == n;
	ok = !(f ? fclose(f) : close(fd)) && ok;	/* some file systems tell only now */
	ok = ok && !rename(aside, path);
	if (!ok)
		unlink(aside);
	rlx_free(file);
	return ok ? RLX_OK : RLX_EIO;
}

enum rlx_status rlx_disk_cache_store(const char *dir, const char *key, const void *data,
				size_t bytes)
{
	enum rlx_status st = rlx_disk_cache_write(dir, key, data, bytes);

	if (!st)
		trim(dir, MOST_OF_ALL);
	return st;
}
