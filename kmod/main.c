// SPDX-License-Identifier: GPL-2.0-only
/* /dev/rlx: the module's beginning and end, its parameters, QUERY. */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/workqueue.h>

#include "arena.h"
#include "channel.h"
#include "compat.h"
#include "device.h"
#include "ioctl.h"
#include "session.h"
#include "timeline.h"
#include "timeline_wait.h"

unsigned long rlx_max_arena_bytes = 64UL << 30;
module_param_named(max_arena_bytes, rlx_max_arena_bytes, ulong, 0644);
MODULE_PARM_DESC(max_arena_bytes, "size of the largest arena");

unsigned long rlx_max_user_bytes;
module_param_named(max_user_bytes, rlx_max_user_bytes, ulong, 0644);
MODULE_PARM_DESC(max_user_bytes, "arenas of one user together, 0: no cap");

unsigned long rlx_max_total_bytes;
module_param_named(max_total_bytes, rlx_max_total_bytes, ulong, 0644);
MODULE_PARM_DESC(max_total_bytes, "arenas of all users together, 0: no cap");

unsigned int rlx_max_sessions = 1024;
module_param_named(max_sessions, rlx_max_sessions, uint, 0644);
MODULE_PARM_DESC(max_sessions, "open sessions of one user");

unsigned int rlx_max_arenas = 4096;
module_param_named(max_arenas, rlx_max_arenas, uint, 0644);
MODULE_PARM_DESC(max_arenas, "arenas of one session");

u64 rlx_features(void)
{
	u64 features = 0;

	if (IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE))
		features |= RLX_FEAT_HUGE;
	features |= RLX_FEAT_USER | RLX_FEAT_DMABUF | RLX_FEAT_DMABUF_ARENA;
#ifdef RLX_HAVE_SYNC_FILE
	features |= RLX_FEAT_SYNC_FILE;
#endif
#ifdef RLX_HAVE_MEMFD_PIN_FOLIOS
	features |= RLX_FEAT_MEMFD;
#endif
	features |= RLX_FEAT_URING;
#ifdef RLX_HAVE_CMD_CANCELABLE
	features |= RLX_FEAT_URING_ASYNC;
#endif
#ifdef RLX_HAVE_CMD_MSHOT
	features |= RLX_FEAT_URING_MSHOT;
#endif
#ifdef RLX_HAVE_BUFFER_BVEC
	features |= RLX_FEAT_URING_BUFFERS;
#endif
#ifdef RLX_TESTING
	features |= RLX_FEAT_TESTING;
#endif
	return features;
}

static long rlx_main_ioctl_query(struct rlx_call *call)
{
	struct rlx_ioc_query *q = call->arg;

	if (q->pad)
		return -EINVAL;
	memset(q, 0, sizeof(*q));
	q->abi = RLX_ABI;
	q->features = rlx_features();
	q->limits[RLX_LIMIT_ARENA_BYTES] = min_t(u64, READ_ONCE(rlx_max_arena_bytes),
						 RLX_ARENA_BYTES_MAX);
	q->limits[RLX_LIMIT_USER_BYTES] = READ_ONCE(rlx_max_user_bytes);
	q->limits[RLX_LIMIT_TOTAL_BYTES] = READ_ONCE(rlx_max_total_bytes);
	q->limits[RLX_LIMIT_SESSIONS] = READ_ONCE(rlx_max_sessions);
	q->limits[RLX_LIMIT_ARENAS] = READ_ONCE(rlx_max_arenas);
	q->limits[RLX_LIMIT_CHANNELS] = RLX_SERVICE_CHANNELS_MAX;
	q->limits[RLX_LIMIT_ATTACHMENTS] = RLX_LANE_ARENAS;
	q->limits[RLX_LIMIT_QUEUES] = RLX_SERVICE_QUEUES_MAX;
	q->limits[RLX_LIMIT_QUEUE_DEPTH] = RLX_SLOTS_DEPTH_MAX;
	q->limits[RLX_LIMIT_SLICES] = RLX_RQ_SLICES_MAX;
	q->limits[RLX_LIMIT_WAITERS] = RLX_TIMELINE_WAITERS;
	q->limits[RLX_LIMIT_HUGE_BYTES] = PMD_SIZE;
	return 0;
}

static const struct rlx_ioctl rlx_main_ioctls[] = {
	RLX_IOCTL_ROW(RLX_IOC_QUERY, RLX_IOCTL_OUT, rlx_main_ioctl_query),
	RLX_IOCTL_ROW(RLX_IOC_ARENA_CREATE, RLX_IOCTL_FD,
		      rlx_arena_ioctl_create),
	RLX_IOCTL_ROW(RLX_IOC_TIMELINE_CREATE, RLX_IOCTL_FD,
		      rlx_timeline_ioctl_create),
	RLX_IOCTL_ROW(RLX_IOC_TIMELINE_WAIT, RLX_IOCTL_OUT,
		      rlx_timeline_ioctl_wait),
	RLX_IOCTL_ROW(RLX_IOC_SERVICE_CREATE, RLX_IOCTL_FD, rlx_service_create),
	RLX_IOCTL_ROW(RLX_IOC_CONNECT, RLX_IOCTL_FD | RLX_IOCTL_OUT,
		      rlx_channel_connect),
};

static long rlx_main_ioctl(struct file *file, unsigned int cmd,
			   unsigned long arg)
{
	return rlx_ioctl_dispatch(file, cmd, arg, rlx_main_ioctls,
				  ARRAY_SIZE(rlx_main_ioctls));
}

static void rlx_main_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct rlx_session *s = file->private_data;

	rlx_stats_fdinfo(m, "session", s->id);
	seq_printf(m, "rlx-arenas:\t%d\n", atomic_read(&s->arenas));
}

static const struct file_operations rlx_main_fops = {
	.owner		= THIS_MODULE,
	.open		= rlx_session_open,
	.release	= rlx_session_release,
	.unlocked_ioctl	= rlx_main_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.show_fdinfo	= rlx_main_show_fdinfo,
};

struct rlx_device rlx_dev = {
	.misc = {
		.minor	= MISC_DYNAMIC_MINOR,
		.name	= "rlx",
		.fops	= &rlx_main_fops,
		.groups	= rlx_stats_groups,
		.mode	= 0660,
	},
	.lock		= __MUTEX_INITIALIZER(rlx_dev.lock),
	.users		= LIST_HEAD_INIT(rlx_dev.users),
	.sessions	= LIST_HEAD_INIT(rlx_dev.sessions),
	.arenas		= LIST_HEAD_INIT(rlx_dev.arenas),
	.services	= LIST_HEAD_INIT(rlx_dev.services),
	.end_lock	= __SPIN_LOCK_UNLOCKED(rlx_dev.end_lock),
	.ending		= LIST_HEAD_INIT(rlx_dev.ending),
	.ended		= __WAIT_QUEUE_HEAD_INITIALIZER(rlx_dev.ended),
};

static int __init rlx_main_init(void)
{
	int ret;

	/*
	 * Not WQ_MEM_RECLAIM, though memory comes back by it: the last end unmounts, and
	 * that flushes a queue of the kernel's (6.1) which is not.
	 */
	rlx_dev.end_wq = alloc_workqueue("rlx_end", WQ_UNBOUND, 0);
	if (!rlx_dev.end_wq)
		return -ENOMEM;
	rlx_dev.wq = alloc_workqueue("rlx", WQ_UNBOUND, 0);
	if (!rlx_dev.wq) {
		ret = -ENOMEM;
		goto out_end_wq;
	}
	rlx_debugfs_init();
	ret = misc_register(&rlx_dev.misc);
	if (ret)
		goto out_debugfs;
	return 0;

out_debugfs:
	rlx_debugfs_fini();
	destroy_workqueue(rlx_dev.wq);
out_end_wq:
	destroy_workqueue(rlx_dev.end_wq);
	return ret;
}

/* No fd, mapping or export is left; what their ends put off may be. */
static void __exit rlx_main_exit(void)
{
	misc_deregister(&rlx_dev.misc);
	rcu_barrier();			/* queue_rcu_work() */
	flush_workqueue(rlx_dev.wq);	/* rlx_service_bury(), by which channels drain */
	flush_workqueue(rlx_dev.wq);	/* rlx_channel_drained(), which puts arenas and services */
	flush_workqueue(rlx_dev.end_wq);
	rcu_barrier();			/* kfree_rcu() and so on, of that work */
	destroy_workqueue(rlx_dev.wq);
	destroy_workqueue(rlx_dev.end_wq);
	/* Who gave back the last of it, a ring perhaps, may not have left our code yet. */
	synchronize_rcu_tasks();
	rlx_debugfs_fini();
	WARN_ON(!list_empty(&rlx_dev.arenas) || !list_empty(&rlx_dev.sessions) ||
		!list_empty(&rlx_dev.users) || !list_empty(&rlx_dev.services));
}

module_init(rlx_main_init);
module_exit(rlx_main_exit);

MODULE_AUTHOR("The RLX authors");
MODULE_DESCRIPTION("Pinned DMA-shareable arenas and request channels");
MODULE_LICENSE("GPL");
MODULE_VERSION(RLX_VERSION);
