/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One dispatcher for every kind of fd. A kind has a static table of rows; its
 * functions see a kernel copy of the struct and never touch the caller's.
 */
#ifndef RLX_IOCTL_H
#define RLX_IOCTL_H

#include <linux/build_bug.h>
#include <linux/kernel.h>
#include <linux/types.h>

struct file;

/* Largest struct of any command. */
#define RLX_IOCTL_ARG_MAX	192

/**
 * struct rlx_call - one command under way.
 * @file:    the fd it came on; held for the length of the call
 * @priv:    @file->private_data
 * @arg:     kernel copy of the command's struct, zero-extended; what a row with
 *           RLX_IOCTL_OUT leaves here is what the caller sees
 * @newfile: RLX_IOCTL_FD: set by the function, with the reference that the fd
 *           will own
 */
struct rlx_call {
	struct file	*file;
	void		*priv;
	void		*arg;
	struct file	*newfile;
};

/* Returns an fd: @newfile goes into a descriptor reserved beforehand. */
#define RLX_IOCTL_FD		0x1
/* The struct is copied back after success. */
#define RLX_IOCTL_OUT		0x2
/*
 * A wait with a timeout: on -ERESTARTNOHAND the struct is copied back with the time that is
 * left, for the call may be made again; as select() does it. No restart_block, with its
 * absolute time: that calls what it was given whenever user space calls
 * restart_syscall(2), from a handler or long after one left by longjmp(), and nobody is told
 * when it is dropped. A function of a module would need a reference to the module that
 * nothing could give back, and the descriptor may be closed by then.
 */
#define RLX_IOCTL_LEFT		0x4

/**
 * struct rlx_ioctl - a row.
 * @cmd:   command number with the present size of its struct
 * @min:   size of its first version
 * @flags: RLX_IOCTL_*
 * @fn:    does it; negative errno, or what the caller gets (without
 *         RLX_IOCTL_FD). Process context, no locks held
 * @undo:  what @fn did and nobody will hear of, because copying back failed;
 *         NULL if nothing is left behind (a @newfile is put by the dispatcher)
 */
struct rlx_ioctl {
	unsigned int	cmd;
	u16		min;
	u16		flags;
	long		(*fn)(struct rlx_call *call);
	void		(*undo)(struct rlx_call *call);
};

/* A row whose struct is still that of its first version. */
#define RLX_IOCTL_ROW(_cmd, _flags, _fn) {				\
	.cmd = (_cmd),							\
	.min = _IOC_SIZE(_cmd) +					\
	       BUILD_BUG_ON_ZERO(_IOC_SIZE(_cmd) > RLX_IOCTL_ARG_MAX ||	\
				 _IOC_SIZE(_cmd) % 8),			\
	.flags = (_flags),						\
	.fn = (_fn),							\
}

/**
 * rlx_ioctl_dispatch - find the row and do it.
 * @file: with the object in ->private_data
 * @cmd:  as the caller gave it, its size too
 * @arg:  user address
 * @rows: the kind's table
 * @nr:   rows of it
 *
 * The descriptor of RLX_IOCTL_FD is installed when nothing can fail any more.
 *
 * Return: what ioctl(2) returns; -ENOTTY without a row.
 */
long rlx_ioctl_dispatch(struct file *file, unsigned int cmd, unsigned long arg,
			const struct rlx_ioctl *rows, size_t nr);

/**
 * rlx_ioctl_copy_in - a struct of @usize bytes into one of @ksize.
 * @dst:   kernel struct
 * @ksize: its size
 * @min:   size of its first version
 * @src:   user struct
 * @usize: its size
 *
 * Return: 0, -EINVAL (smaller than @min), -E2BIG (something behind what we
 * know), -EFAULT.
 */
int rlx_ioctl_copy_in(void *dst, size_t ksize, size_t min,
		      const void __user *src, size_t usize);

/* Whether the @bytes at @p are all zero: reserved fields. */
bool rlx_ioctl_is_zero(const void *p, size_t bytes);
#define RLX_IS_ZERO(field)	rlx_ioctl_is_zero(&(field), sizeof(field))

#endif
