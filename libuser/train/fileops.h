/* SPDX-License-Identifier: MIT */
/*
 * The one seam through which data path and checkpoints use files, as allocations have theirs
 * in base/alloc.h: tests make the n-th call fail or kill the process around it, and write
 * down what was asked of the disk. Each returns 0, or a descriptor or a count, or -errno.
 */
#ifndef RLX_TRAIN_FILEOPS_H
#define RLX_TRAIN_FILEOPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "rlx/status.h"

enum file_op {
	FILE_OPEN, FILE_MKDIR, FILE_READ, FILE_WRITE, FILE_ALLOCATE, FILE_TRUNCATE, FILE_SYNC,
	FILE_RENAME, FILE_SYMLINK, FILE_UNLINK, FILE_RMDIR, FILE_LOCK, FILE_STAT,
};

struct file_call {
	enum file_op	 op;
	const char	*path;	/* of the file, directory or link; NULL where there is an @fd */
	const char	*to;	/* the new name, what a link shall hold */
	int		 fd, flags;
	const void	*data;	/* of a write */
	uint64_t	 offset, bytes;
};

struct file_hook {
	/* Before the call; an errno fails it without its being made, 0 lets it be made. */
	int	(*before)(void *ctx, const struct file_call *c);
	/* After it, with what it gave. Reads and writes of a ring: once they are done. */
	void	(*after)(void *ctx, const struct file_call *c, int64_t result);
	void	*ctx;
};

/* @h: not copied; NULL: none. A call under way may still see the one before. */
void file_hook_set(const struct file_hook *h);

/* O_CLOEXEC is added; it does not wait for the other end of a FIFO. */
int64_t file_open(const char *path, int flags, mode_t mode);
int64_t file_mkdir(const char *path);
/* Whole, unless the file ends; after a signal they go on. */
int64_t file_read(int fd, void *p, uint64_t bytes, uint64_t offset);
int64_t file_write(int fd, const void *p, uint64_t bytes, uint64_t offset);
int64_t file_allocate(int fd, uint64_t bytes);
int64_t file_truncate(int fd, uint64_t bytes);
int64_t file_sync(int fd);
/* NEW: @to must not be there; SWAP: both are, and exchange their names at once. */
enum file_rename { FILE_RENAME_NEW, FILE_RENAME_REPLACE, FILE_RENAME_SWAP };
int64_t file_rename(const char *from, const char *to, enum file_rename how);
int64_t file_symlink(const char *holds, const char *path);
int64_t file_unlink(const char *path);
int64_t file_rmdir(const char *path);
int64_t file_lock(int fd);
int64_t file_stat(const char *path, struct stat *out);
int64_t file_fstat(int fd, struct stat *out);
/* fsync of a directory by its name. */
int64_t file_sync_dir(const char *path);

/*
 * What direct I/O of @fd is aligned to, in the file and in memory alike (at most 4096); 0: the
 * file system has none. tmpfs takes the flag O_DIRECT and copies all the same, but says so here.
 */
uint32_t file_direct_align(int fd);

/* For reads and writes that a ring makes: ask before, tell after. 0 or an errno. */
int file_before(const struct file_call *c);
void file_after(const struct file_call *c, int64_t result);

/* What -errno of a file means as a status. */
enum rlx_status file_status(int64_t result);

#endif
