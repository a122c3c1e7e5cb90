// SPDX-License-Identifier: GPL-2.0-only
/* The parameters stall_at, stalled and seen of test builds. */
#include <linux/atomic.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/wait.h>

#include "slot.h"
#include "testing.h"

static DECLARE_WAIT_QUEUE_HEAD(rlx_stall_wait);
static DEFINE_SPINLOCK(rlx_stall_lock);	/* protects rlx_stall_at */
static char rlx_stall_at[32];
static atomic_t rlx_stalled = ATOMIC_INIT(0);

DEFINE_STATIC_KEY_FALSE(rlx_seeing);
static unsigned long rlx_seen_nr[RLX_SLOT_STATES][RLX_SLOT_EVENTS];

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

static unsigned int rlx_first = 1;

u32 rlx_first_channel(void)
{
	return READ_ONCE(rlx_first);
}

/* Slots of two queues may lose a count to each other: whether there is one counts. */
void rlx_seen_count(unsigned int state, unsigned int event)
{
	unsigned long *nr = &rlx_seen_nr[state][event];

	WRITE_ONCE(*nr, READ_ONCE(*nr) + 1);
}

static int rlx_seen_set(const char *val, const struct kernel_param *kp)
{
	bool on;
	int err = kstrtobool(val, &on);

	if (err)
		return err;
	if (on) {
		memset(rlx_seen_nr, 0, sizeof(rlx_seen_nr));
		static_branch_enable(&rlx_seeing);
	} else {
		static_branch_disable(&rlx_seeing);
	}
	return 0;
}

/* "EVENT STATE COUNT" a line, by number, those that were. */
static int rlx_seen_get(char *buf, const struct kernel_param *kp)
{
	unsigned int state, event;
	int len = 0;

	for (event = 0; event < RLX_SLOT_EVENTS; event++)
		for (state = 0; state < RLX_SLOT_STATES; state++)
			if (READ_ONCE(rlx_seen_nr[state][event]))
				len += scnprintf(buf + len, PAGE_SIZE - len,
						 "%u %u %lu\n", event, state,
						 READ_ONCE(rlx_seen_nr[state][event]));
	return len;
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

static const struct kernel_param_ops rlx_seen_ops = {
	.set = rlx_seen_set,
	.get = rlx_seen_get,
};

module_param_cb(stall_at, &rlx_stall_at_ops, NULL, 0600);
MODULE_PARM_DESC(stall_at, "tests: name of the place where calls stop");
module_param_cb(stalled, &rlx_stalled_ops, NULL, 0400);
MODULE_PARM_DESC(stalled, "tests: how many calls have stopped");
module_param_named(first_channel, rlx_first, uint, 0600);
MODULE_PARM_DESC(first_channel, "tests: id of the first channel of services made from now on");
module_param_cb(seen, &rlx_seen_ops, NULL, 0600);
MODULE_PARM_DESC(seen, "tests: which events came to which states of slots, once it is 1");
