// SPDX-License-Identifier: MIT
/* Mapping files for reading; writing them whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/replace.h"
#include "io/formats/file.h"

enum rlx_status rlx_file_status(int e)
{
	switch (e) {
	case ENOENT:
	case ENOTDIR:
		return RLX_ENOENT;
	case EACCES:
	case EPERM:
	case EROFS:
		return RLX_EACCES;
	case ENOMEM:
		return RLX_ENOMEM;
	default:
		return RLX_EIO;
	}
}

/*
 * What tells a file and its version from all others of this machine. Whoever writes
 * into a file changes a time of it; a copy is another file.
 */
static uint64_t file_source(const struct stat *sb)
{
	const int64_t id[] = {
		(int64_t)sb->st_dev, (int64_t)sb->st_ino, (int64_t)sb->st_size,
		sb->st_mtim.tv_sec, sb->st_mtim.tv_nsec,
		sb->st_ctim.tv_sec, sb->st_ctim.tv_nsec,
	};

	return rlx_hash_bytes(id, sizeof(id), 0) | 1;
}

uint64_t rlx_file_source(const char *path, uint64_t *out_bytes)
{
	struct stat sb;
	bool is_file = !stat(path, &sb) && S_ISREG(sb.st_mode);

	*out_bytes = is_file ? (uint64_t)sb.st_size : 0;
	return is_file ? file_source(&sb) : 0;
}

enum rlx_status rlx_file_open(const char *path, int *out_fd, struct stat *sb,
			      struct rlx_error *err)
{
	/* not blocking: a FIFO must not hang us before fstat sees it */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	*out_fd = fd;
	if (fd < 0)
		return rlx_fail(err, rlx_file_status(errno), "%s: %s", path,
				strerror(errno));
	if (!fstat(fd, sb) && S_ISREG(sb->st_mode))
		return RLX_OK;
	close(fd);
	return rlx_fail(err, RLX_EBADFD, "%s: not a regular file", path);
}

enum rlx_status rlx_file_map(struct rlx_file *f, const char *path,
			     struct rlx_error *err)
{
	enum rlx_status st;
	struct stat sb;
	void *p;
	int fd;

	*f = (struct rlx_file){ .p = (const uint8_t *)"" };
	if (!path)
		return rlx_fail(err, RLX_EINVAL, "path is NULL");
	st = rlx_file_open(path, &fd, &sb, err);
	if (st)
		return st;
	f->source = file_source(&sb);
	if (sb.st_size) {
		p = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED) {
			st = rlx_fail(err, rlx_file_status(errno), "%s: mmap: %s", path,
				      strerror(errno));
		} else {
			f->map = p;
			f->p = p;
			f->n = (size_t)sb.st_size;
		}
	}
	close(fd);
	return st;
}

void rlx_file_unmap(struct rlx_file *f)
{
	if (f->map)
		munmap(f->map, f->n);
	*f = (struct rlx_file){ .p = (const uint8_t *)"" };
}

enum rlx_status rlx_file_write_begin(struct rlx_file_writer *w, const char *path,
				     struct rlx_error *err)
{
	static const char suffix[] = ".XXXXXX";
	enum rlx_status st;
	size_t n;
	mode_t mask;
	int fd;

	*w = (struct rlx_file_writer){ .path = path };
	if (!path)
		return rlx_fail(err, RLX_EINVAL, "path is NULL");
	st = rlx_replace_target(path, &w->to, err);
	if (st)
		return st;
	n = strlen(w->to);
	w->tmp = rlx_malloc(n + sizeof(suffix));
	if (!w->tmp) {
		st = rlx_fail(err, RLX_ENOMEM, "%s: no memory", path);
		goto out_free_name;
	}
	memcpy(w->tmp, w->to, n);
	memcpy(w->tmp + n, suffix, sizeof(suffix));
	fd = mkstemp(w->tmp);
	if (fd < 0) {
		st = rlx_fail(err, rlx_file_status(errno), "%s: %s", path,
			      strerror(errno));
		goto out_free_name;
	}
	/* as open() would have made it; mkstemp() is stricter */
	mask = umask(0);
	umask(mask);
	if (!fchmod(fd, 0666 & ~mask))
		w->f = fdopen(fd, "wb");
	if (w->f)
		return RLX_OK;
	st = rlx_fail(err, rlx_file_status(errno), "%s: %s", path, strerror(errno));
	close(fd);
	unlink(w->tmp);
out_free_name:
	rlx_free(w->tmp);
	rlx_free(w->to);
	*w = (struct rlx_file_writer){ 0 };
	return st;
}

enum rlx_status rlx_file_put(struct rlx_file_writer *w, const void *p, size_t n,
			     struct rlx_error *err)
{
	if (n && fwrite(p, 1, n, w->f) != n)
		return rlx_fail(err, RLX_EIO, "%s: write: %s", w->path,
				strerror(errno));
	return RLX_OK;
}

enum rlx_status rlx_file_write_end(struct rlx_file_writer *w, enum rlx_status st,
				   struct rlx_error *err)
{
	if (w->durable && !st && (fflush(w->f) || fsync(fileno(w->f))))
		st = rlx_fail(err, RLX_EIO, "%s: write: %s", w->path, strerror(errno));
	if (fclose(w->f) && !st)
		st = rlx_fail(err, RLX_EIO, "%s: write: %s", w->path,
			      strerror(errno));
	if (!st && rename(w->tmp, w->to))
		st = rlx_fail(err, rlx_file_status(errno), "%s: rename: %s", w->path,
			      strerror(errno));
	if (st)
		unlink(w->tmp);
	rlx_free(w->tmp);
	rlx_free(w->to);
	*w = (struct rlx_file_writer){ 0 };
	return st;
}
