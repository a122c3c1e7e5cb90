// SPDX-License-Identifier: GPL-2.0-only
/* Does one thing wrong when it is loaded, the one that "how" names. */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/sysfs.h>

static char *how = "nothing";
module_param(how, charp, 0444);
MODULE_PARM_DESC(how, "what to do wrong");

static DEFINE_MUTEX(lock_a);
static DEFINE_MUTEX(lock_b);
static DEFINE_SPINLOCK(lock_s);
static bool have_counter;

static ssize_t nr_things_show(struct device *dev, struct device_attribute *attr,
			      char *buf)
{
	return sysfs_emit(buf, "1\n");
}
static DEVICE_ATTR_RO(nr_things);

static struct attribute *bad_attrs[] = { &dev_attr_nr_things.attr, NULL };
ATTRIBUTE_GROUPS(bad);

static struct miscdevice bad_misc = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "rlx",
	.groups	= bad_groups,
};

static void bad_warn(void)
{
	WARN_ON(1);
}

static void bad_pages(void)
{
	int i;

	/*
	 * 2 MiB that nothing remembers: more than is let pass by as much as others may
	 * give back at the same time, and more.
	 */
	for (i = 0; i < 2; i++)
		if (!alloc_pages(GFP_KERNEL, 8))
			pr_info("no pages\n");
}

static void bad_slab(void)
{
	int i;

	for (i = 0; i < 16; i++) {
		char *p = kmalloc(200, GFP_KERNEL);

		if (p)
			p[0] = 1;
	}
}

/*
 * Allocators that check do so when the block is given out again: the next one where
 * there are others like it in its page, else by and by.
 */
static void bad_use_after_free(void)
{
	static char *some[64], *more[4096];
	int i;

	for (i = 0; i < ARRAY_SIZE(some); i++)
		some[i] = kmalloc(64, GFP_KERNEL);
	for (i = 0; i < ARRAY_SIZE(some); i++)
		kfree(some[i]);
	for (i = 0; i < ARRAY_SIZE(some); i += ARRAY_SIZE(some) / 2) {
		char *p = some[i];

		OPTIMIZER_HIDE_VAR(p);
		if (p)
			p[8] = 1;
	}
	for (i = 0; i < ARRAY_SIZE(more); i++)
		more[i] = kmalloc(64, GFP_KERNEL);
	for (i = 0; i < ARRAY_SIZE(more); i++)
		kfree(more[i]);
}

static void bad_refcount(void)
{
	refcount_t r = REFCOUNT_INIT(1);

	if (refcount_dec_and_test(&r))
		refcount_dec(&r);
}

static void bad_order(void)
{
	mutex_lock(&lock_a);
	mutex_lock(&lock_b);
	mutex_unlock(&lock_b);
	mutex_unlock(&lock_a);
	mutex_lock(&lock_b);
	mutex_lock(&lock_a);
	mutex_unlock(&lock_a);
	mutex_unlock(&lock_b);
}

static void bad_sleep(void)
{
	spin_lock(&lock_s);
	might_sleep();
	spin_unlock(&lock_s);
}

static void bad_reference(void)
{
	__module_get(THIS_MODULE);
}

static void bad_counter(void)
{
	have_counter = !misc_register(&bad_misc);
}

static void bad_oops(void)
{
	int *p = NULL;

	OPTIMIZER_HIDE_VAR(p);
	*p = 1;
}

static unsigned int raced;

static int bad_racer(void *unused)
{
	while (!kthread_should_stop()) {
		raced++;
		cond_resched();
	}
	return 0;
}

static void bad_race(void)
{
	struct task_struct *t[2];
	int i;

	for (i = 0; i < 2; i++)
		t[i] = kthread_run(bad_racer, NULL, "racer");
	msleep(1000);
	for (i = 0; i < 2; i++)
		if (!IS_ERR(t[i]))
			kthread_stop(t[i]);
}

static const struct {
	const char *name;
	void (*fn)(void);
} kinds[] = {
	{ "warn", bad_warn },
	{ "pages", bad_pages },
	{ "slab", bad_slab },
	{ "uaf", bad_use_after_free },
	{ "refcount", bad_refcount },
	{ "order", bad_order },
	{ "sleep", bad_sleep },
	{ "reference", bad_reference },
	{ "counter", bad_counter },
	{ "oops", bad_oops },
	{ "race", bad_race },
};

static int __init bad_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(how, kinds[i].name))
			kinds[i].fn();
	return 0;
}

static void __exit bad_exit(void)
{
	if (have_counter)
		misc_deregister(&bad_misc);
}

module_init(bad_init);
module_exit(bad_exit);
MODULE_DESCRIPTION("Does wrong on purpose, to test the tests");
MODULE_LICENSE("GPL");
