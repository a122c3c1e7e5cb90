// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pseudo file system that arenas have their inodes on. A device node's inode
 * has size 0, which keeps the kernel from mapping huge pages, and lies where
 * writeback may be, which keeps mappings from being pinned.
 */
#include <linux/anon_inodes.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>
#include <linux/rlx.h>

#include "compat.h"
#include "fs.h"

static int rlx_fs_init_context(struct fs_context *fc)
{
	if (!init_pseudo(fc, RLX_FS_MAGIC))
		return -ENOMEM;
	fc->s_iflags |= SB_I_NOEXEC;
	return 0;
}

/*
 * The mount lives while an inode of ours does, and with it a reference to the
 * module: the last steps of closing a file run after its own reference is gone.
 */
static struct file_system_type rlx_fs_type = {
	.name			= "rlx",
	.owner			= THIS_MODULE,
	.init_fs_context	= rlx_fs_init_context,
	.kill_sb		= kill_anon_super,
};

/* Without it ftruncate() could make the inode small. */
static int rlx_fs_setattr(struct rlx_mnt_idmap *idmap, struct dentry *dentry,
			  struct iattr *attr)
{
	return -EPERM;
}

static const struct inode_operations rlx_fs_inode_ops = {
	.setattr	= rlx_fs_setattr,
};

static struct vfsmount *rlx_fs_mount;
static int rlx_fs_users;

struct inode *rlx_fs_inode_new(void)
{
	struct inode *inode;
	int ret;

	ret = simple_pin_fs(&rlx_fs_type, &rlx_fs_mount, &rlx_fs_users);
	if (ret)
		return ERR_PTR(ret);
	inode = alloc_anon_inode(rlx_fs_mount->mnt_sb);
	if (IS_ERR(inode)) {
		simple_release_fs(&rlx_fs_mount, &rlx_fs_users);
		return inode;
	}
	inode->i_op = &rlx_fs_inode_ops;
	i_size_write(inode, MAX_LFS_FILESIZE);
	return inode;
}

void rlx_fs_inode_free(struct inode *inode)
{
	iput(inode);
	simple_release_fs(&rlx_fs_mount, &rlx_fs_users);
}

struct file *rlx_fs_file_new(struct inode *inode, const char *name, int flags,
			     const struct file_operations *fops, void *priv)
{
	struct file *file;

	/* Closing puts the owner; only open() and anon inodes get it. */
	__module_get(fops->owner);
	ihold(inode);
	file = alloc_file_pseudo(inode, rlx_fs_mount, name, flags, fops);
	if (IS_ERR(file)) {
		iput(inode);
		module_put(fops->owner);
		return file;
	}
	file->private_data = priv;
	return file;
}

struct file *rlx_file_new(const char *name, const struct file_operations *fops,
			  void *priv, int flags)
{
	return anon_inode_getfile(name, fops, priv, flags);
}
