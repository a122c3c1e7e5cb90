// SPDX-License-Identifier: GPL-2.0-only
/* One fault for each of W=1, sparse and clang. */
#include <linux/compiler.h>
#include <linux/module.h>

/* W=1 wants a declaration. */
int rlx_wrong_undeclared(int a)
{
	a = a;		/* clang: assigned to itself */
	return a;
}

/* sparse: memory of user space read as if it were ours. */
static int __init wrong_init(void)
{
	int __user *p = (int __user *)16;

	return *p;
}

module_init(wrong_init);
MODULE_DESCRIPTION("Wrong on purpose, to test the checks; never loaded");
MODULE_LICENSE("GPL");
