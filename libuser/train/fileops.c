// SPDX-License-Identifier: MIT
/* File calls behind one hook. */
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "train/fileops.h"

static const struct file_hook *_Atomic hook;

void file_hook_set(const struct file_hook *h)
{
	hook = h;
}

int file_before(const struct file_call *c)
{
	const struct file_hook *h = hook;

	return h && h->before ? h->before(h->ctx, c) : 0;
}

void file_after(const struct file_call *c, int64_t result)
{
	const struct file_hook *h = hook;

	if (h && h->after)
		h->after(h->ctx, c, result);
}

/* Make call @c by @expr, whose failure is -1 with errno. */
#define MAKE(c, expr)							\
	({								\
		const struct file_call call_ = c;			\
		int64_t r_ = -file_before(&call_);			\
									\
		if (!r_) {						\
			do						\
				r_ = (expr);				\
			while (r_ < 0 && errno == EINTR);		\
			if (r_ < 0)					\
				r_ = -errno;				\
		}							\
		file_after(&call_, r_);					\
		r_;							\
	})
#define CALL(o, file, ...)	((struct file_call){ .op = (o), .fd = (file), __VA_ARGS__ })

/* A FIFO's other end may never come: whoever asks fstat() afterwards has to get there. */
int64_t file_open(const char *path, int flags, mode_t mode)
{
	int64_t fd = MAKE(CALL(FILE_OPEN, -1, .path = path, .flags = flags),
			  open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode));
	int now = fd < 0 ? -1 : fcntl((int)fd, F_GETFL);

	if (now >= 0)		/* a ring gives EAGAIN instead of waiting for the disk */
		fcntl((int)fd, F_SETFL, now & ~O_NONBLOCK);
	return fd;
}

int64_t file_mkdir(const char *path)
{
	return MAKE(CALL(FILE_MKDIR, -1, .path = path), mkdir(path, 0777));
}

int64_t file_read(int fd, void *p, uint64_t bytes, uint64_t offset)
{
	uint64_t done = 0;
	int64_t r = 1;

	for (; done < bytes && r > 0; done += r > 0 ? (uint64_t)r : 0)
		r = MAKE(CALL(FILE_READ, fd, .offset = offset + done,
			      .bytes = bytes - done),
			 pread(fd, (char *)p + done, bytes - done, (off_t)(offset + done)));
	return r < 0 ? r : (int64_t)done;
}

int64_t file_write(int fd, const void *p, uint64_t bytes, uint64_t offset)
{
	const char *s = p;
	uint64_t done = 0;
	int64_t r = 1;

	for (; done < bytes && r > 0; done += r > 0 ? (uint64_t)r : 0)
		r = MAKE(CALL(FILE_WRITE, fd, .data = s + done, .offset = offset + done,
			      .bytes = bytes - done),
			 pwrite(fd, s + done, bytes - done, (off_t)(offset + done)));
	if (!r)		/* as if the disk had no more to give: no progress is a failure */
		return -ENOSPC;
	return r < 0 ? r : (int64_t)done;
}

/*
 * Without support in the file system posix_fallocate() would write a byte to each block: the
 * writes that follow do that themselves.
 */
int64_t file_allocate(int fd, uint64_t bytes)
{
	int64_t r = !bytes ? 0 : MAKE(CALL(FILE_ALLOCATE, fd, .bytes = bytes),
				      fallocate(fd, 0, 0, (off_t)bytes));

	return r == -EOPNOTSUPP || r == -ENOSYS ? 0 : r;
}

int64_t file_truncate(int fd, uint64_t bytes)
{
	return MAKE(CALL(FILE_TRUNCATE, fd, .bytes = bytes), ftruncate(fd, (off_t)bytes));
}

int64_t file_sync(int fd)
{
	return MAKE(CALL(FILE_SYNC, fd), fsync(fd));
}

/* By its number: glibc has renameat2() from 2.28 on, other libcs do not. */
int64_t file_rename(const char *from, const char *to, enum file_rename how)
{
	static const unsigned int flags[] = {
		[FILE_RENAME_NEW] = 1,		/* RENAME_NOREPLACE */
		[FILE_RENAME_SWAP] = 2,		/* RENAME_EXCHANGE */
	};

	if (how == FILE_RENAME_REPLACE)
		return MAKE(CALL(FILE_RENAME, -1, .path = from, .to = to), rename(from, to));
	return MAKE(CALL(FILE_RENAME, -1, .path = from, .to = to, .flags = how),
		    syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags[how]));
}

int64_t file_symlink(const char *holds, const char *path)
{
	return MAKE(CALL(FILE_SYMLINK, -1, .path = path, .to = holds), symlink(holds, path));
}

int64_t file_unlink(const char *path)
{
	return MAKE(CALL(FILE_UNLINK, -1, .path = path), unlink(path));
}

int64_t file_rmdir(const char *path)
{
	return MAKE(CALL(FILE_RMDIR, -1, .path = path), rmdir(path));
}

int64_t file_lock(int fd)
{
	return MAKE(CALL(FILE_LOCK, fd), flock(fd, LOCK_EX | LOCK_NB));
}

int64_t file_stat(const char *path, struct stat *out)
{
	return MAKE(CALL(FILE_STAT, -1, .path = path), stat(path, out));
}

int64_t file_fstat(int fd, struct stat *out)
{
	return MAKE(CALL(FILE_STAT, fd), fstat(fd, out));
}

int64_t file_sync_dir(const char *path)
{
	int64_t fd = file_open(path, O_RDONLY | O_DIRECTORY, 0), r;

	if (fd < 0)
		return fd;
	r = file_sync((int)fd);
	close((int)fd);
	return r;
}

uint32_t file_direct_align(int fd)
{
#ifdef STATX_DIOALIGN
	struct statx x;

	/* the system call: libc's struct may be older than the kernel's */
	if (!syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &x) &&
	    x.stx_mask & STATX_DIOALIGN && x.stx_dio_offset_align &&
	    x.stx_dio_offset_align <= 4096 && x.stx_dio_mem_align <= 4096)
		return x.stx_dio_offset_align > x.stx_dio_mem_align ? x.stx_dio_offset_align :
		       x.stx_dio_mem_align;
#endif
	return 0;
}

enum rlx_status file_status(int64_t result)
{
	switch (-result) {
	case ENOENT: case ENOTDIR: case ENAMETOOLONG: case ELOOP:
		return RLX_ENOENT;
	case EACCES: case EPERM: case EROFS:
		return RLX_EACCES;
	case ENOMEM: case EMFILE: case ENFILE:
		return RLX_ENOMEM;
	case EEXIST:
		return RLX_EEXIST;
	default:
		return RLX_EIO;
	}
}
