// SPDX-License-Identifier: GPL-2.0-only
/* The dispatcher: copies structs in and out, reserves and installs fds. */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/ioctl.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "ioctl.h"
#include "pure.h"
#include "testing.h"
#include "words.h"

bool rlx_ioctl_is_zero(const void *p, size_t bytes)
{
	return !memchr_inv(p, 0, bytes);
}

int rlx_ioctl_copy_in(void *dst, size_t ksize, size_t min,
		      const void __user *src, size_t usize)
{
	if (usize < min)
		return -EINVAL;
	/* Nearly always. All our structs are made of words. */
	if (likely(usize == ksize))
		return rlx_words_from_user(dst, src, ksize / sizeof(u64));
	return copy_struct_from_user(dst, ksize, src, usize);
}

/* What lies behind @ksize in a larger struct is zero: copying in saw to that. */
static int rlx_ioctl_copy_out(void __user *dst, size_t usize, const void *src,
			      size_t ksize)
{
	return copy_to_user(dst, src, min(usize, ksize)) ? -EFAULT : 0;
}

/* By direction, type and number: the size is the caller's version. */
static const struct rlx_ioctl *rlx_ioctl_find(const struct rlx_ioctl *rows,
					      size_t nr, unsigned int cmd)
{
	const unsigned int mask = ~(_IOC_SIZEMASK << _IOC_SIZESHIFT);
	size_t i;

	for (i = 0; i < nr; i++)
		if ((rows[i].cmd & mask) == (cmd & mask))
			return &rows[i];
	return NULL;
}

static long rlx_ioctl_call(const struct rlx_ioctl *row, struct rlx_call *call,
			   void __user *uarg, size_t usize)
{
	int fd = -1;
	long ret;

	if (row->flags & RLX_IOCTL_FD) {
		fd = get_unused_fd_flags(O_CLOEXEC);
		if (fd < 0)
			return fd;
	}
	ret = row->fn(call);
	/* From the start again would be longer than was asked for. */
	if (ret == -ERESTARTNOHAND && (row->flags & RLX_IOCTL_LEFT) &&
	    rlx_ioctl_copy_out(uarg, usize, call->arg, _IOC_SIZE(row->cmd)))
		ret = -EINTR;
	if (ret < 0)
		goto out_put_fd;
	rlx_stall("done");

	if (row->flags & RLX_IOCTL_OUT) {
		ret = rlx_ioctl_copy_out(uarg, usize, call->arg,
					 _IOC_SIZE(row->cmd)) ?: ret;
		if (ret < 0)
			goto out_undo;
	}
	if (fd < 0)
		return ret;
	fd_install(fd, call->newfile);
	return fd;

out_undo:
	if (row->undo)
		row->undo(call);
	if (call->newfile)
		fput(call->newfile);
out_put_fd:
	if (fd >= 0)
		put_unused_fd(fd);
	return ret;
}

long rlx_ioctl_dispatch(struct file *file, unsigned int cmd, unsigned long arg,
			const struct rlx_ioctl *rows, size_t nr)
{
	u64 buf[RLX_IOCTL_ARG_MAX / sizeof(u64)] RLX_UNINIT;
	struct rlx_call call = {
		.file = file,
		.priv = file->private_data,
		.arg = buf,
	};
	void __user *uarg = (void __user *)arg;
	const struct rlx_ioctl *row;
	int ret;

	row = rlx_ioctl_find(rows, nr, cmd);
	if (!row)
		return -ENOTTY;
	if (WARN_ON_ONCE(_IOC_SIZE(row->cmd) > sizeof(buf)))
		return -ENOTTY;
	ret = rlx_ioctl_copy_in(buf, _IOC_SIZE(row->cmd), row->min, uarg,
				_IOC_SIZE(cmd));
	if (ret)
		return ret;
	rlx_stall("copied");
	return rlx_ioctl_call(row, &call, uarg, _IOC_SIZE(cmd));
}
