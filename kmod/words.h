/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Small structs to and from user space, word by word: each word is read once, and
 * where a request is 48 bytes the start of a string move would cost more than it.
 */
#ifndef RLX_WORDS_H
#define RLX_WORDS_H

#include <linux/uaccess.h>

/* @nr words of 8 bytes; 0 or -EFAULT. */
static inline int rlx_words_from_user(void *dst, const void __user *src, u32 nr)
{
	const u64 __user *from = src;
	u64 *to = dst;

	if (!user_read_access_begin(from, nr * sizeof(*from)))
		return -EFAULT;
	for (; nr; nr--, to++, from++)
		unsafe_get_user(*to, from, out_fault);
	user_read_access_end();
	return 0;

out_fault:
	user_read_access_end();
	return -EFAULT;
}

static inline int rlx_words_to_user(void __user *dst, const void *src, u32 nr)
{
	u64 __user *to = dst;
	const u64 *from = src;

	if (!user_write_access_begin(to, nr * sizeof(*to)))
		return -EFAULT;
	for (; nr; nr--, to++, from++)
		unsafe_put_user(*from, to, out_fault);
	user_write_access_end();
	return 0;

out_fault:
	user_write_access_end();
	return -EFAULT;
}

#endif
