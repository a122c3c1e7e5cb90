// SPDX-License-Identifier: GPL-2.0-only
/* The parameters stall_at and stalled of test builds. */
#include <linux/atomic.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/wait.h>

#include "testing.h"

static DECLARE_WAIT_QUEUE_HEAD(rlx_stall_wait);
static DEFINE_SPINLOCK(rlx_stall_lock);	/* protects rlx_stall_at */
static char rlx_stall_at[32];
static atomic_t rlx_stalled = ATOMIC_INIT(0);

static bool rlx_stall_here(const char *where)
{
	bool here;

	/* Nearly always: figures are taken with these builds too. */
	if (!READ_ONCE(rlx_stall_at[0]))
		return false;
	spin_lock(&rlx_stall_lock);
	here = !strcmp(rlx_stall_at, where);
	spin_unlock(&rlx_stall_lock);
	return here;
}

void rlx_stall(const char *where)
{
	if (!rlx_stall_here(where))
		return;
	atomic_inc(&rlx_stalled);
	wait_event_killable(rlx_stall_wait, !rlx_stall_here(where));
	atomic_dec(&rlx_stalled);
}

static int rlx_stall_at_set(const char *val, const struct kernel_param *kp)
{
	char name[sizeof(rlx_stall_at)];

	if (strscpy(name, val, sizeof(name)) < 0)
		return -EINVAL;
	spin_lock(&rlx_stall_lock);
	strscpy(rlx_stall_at, strim(name), sizeof(rlx_stall_at));
	spin_unlock(&rlx_stall_lock);
	wake_up_all(&rlx_stall_wait);
	return 0;
}

static int rlx_stall_at_get(char *buf, const struct kernel_param *kp)
{
	int len;

	spin_lock(&rlx_stall_lock);
	len = scnprintf(buf, PAGE_SIZE, "%s\n", rlx_stall_at);
	spin_unlock(&rlx_stall_lock);
	return len;
}

static int rlx_stalled_get(char *buf, const struct kernel_param *kp)
{
	return scnprintf(buf, PAGE_SIZE, "%d\n", atomic_read(&rlx_stalled));
}

static const struct kernel_param_ops rlx_stall_at_ops = {
	.set = rlx_stall_at_set,
	.get = rlx_stall_at_get,
};

static const struct kernel_param_ops rlx_stalled_ops = {
	.get = rlx_stalled_get,
};

module_param_cb(stall_at, &rlx_stall_at_ops, NULL, 0600);
MODULE_PARM_DESC(stall_at, "tests: name of the place where calls stop");
module_param_cb(stalled, &rlx_stalled_ops, NULL, 0400);
MODULE_PARM_DESC(stalled, "tests: how many calls have stopped");
