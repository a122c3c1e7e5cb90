/* SPDX-License-Identifier: GPL-2.0-only */
/* Files of ours that are not on any file system a user sees. */
#ifndef RLX_FS_H
#define RLX_FS_H

#include <linux/fs.h>

/*
 * An inode for an arena's fds: of the largest size, without writeback. Process
 * context; fini wants every file of it to hold the arena, so that none is left.
 */
struct inode *rlx_fs_inode_new(void);
void rlx_fs_inode_free(struct inode *inode);

/* A file of @inode, which stays the caller's; @flags O_RDONLY or O_RDWR. */
struct file *rlx_fs_file_new(struct inode *inode, const char *name, int flags,
			     const struct file_operations *fops, void *priv);

/* A file that needs no inode of its own: services, channels, timelines. */
struct file *rlx_file_new(const char *name, const struct file_operations *fops,
			  void *priv, int flags);

#endif
