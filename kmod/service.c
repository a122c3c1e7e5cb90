// SPDX-License-Identifier: GPL-2.0-only
/* Services: what clients connect to, and what outlives their executors. */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/log2.h>
#include <linux/poll.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "channel.h"
#include "compat.h"
#include "device.h"
#include "fs.h"
#include "ioctl.h"
#include "session.h"
#include "testing.h"

static const struct file_operations rlx_service_fops;

/* ---- lifetime ---- */

static void rlx_service_free(struct work_struct *work)
{
	struct rlx_service *svc = container_of(to_rcu_work(work), struct rlx_service,
					       free);
	u32 i;

	cancel_delayed_work_sync(&svc->orphans);
	mutex_lock(&rlx_dev.lock);
	list_del(&svc->node);
	mutex_unlock(&rlx_dev.lock);
	for (i = 0; i < svc->nr_queues; i++)
		rlx_queue_fini(&svc->queue[i]);
	xa_destroy(&svc->channels);
	mutex_destroy(&svc->lock);
	rlx_session_put(svc->session);
	rlx_stat_dec(RLX_STAT_SERVICES);
	kvfree(svc);
}

static void rlx_service_release_ref(struct kref *ref)
{
	struct rlx_service *svc = container_of(ref, struct rlx_service, ref);

	queue_rcu_work(rlx_dev.wq, &svc->free);
}

struct rlx_service *rlx_service_get(struct rlx_service *svc)
{
	kref_get(&svc->ref);
	return svc;
}

void rlx_service_put(struct rlx_service *svc)
{
	kref_put(&svc->ref, rlx_service_release_ref);
}

/* Tells requests that there is no executor now, and everybody who polls. */
static void rlx_service_bury(struct work_struct *work)
{
	struct rlx_service *svc = container_of(work, struct rlx_service, bury);
	struct rlx_channel *ch;
	unsigned long id;
	u32 i;

	for (i = 0; i < svc->nr_queues; i++)
		rlx_queue_bury(&svc->queue[i]);
	wake_up_all(&svc->wait);
	rcu_read_lock();
	xa_for_each(&svc->channels, id, ch)
		wake_up_all(&ch->wait);
	rcu_read_unlock();
	rlx_service_put(svc);
}

void rlx_service_lose(struct rlx_service *svc, bool gone)
{
	unsigned long flags;
	u32 i;

	lockdep_assert_held(&svc->lock);
	for (i = 0; i < svc->nr_queues; i++) {
		struct rlx_queue *q = &svc->queue[i];

		spin_lock_irqsave(&q->slots.lock, flags);
		rlx_slots_detach(&q->slots, gone);
		q->ring = NULL;
		spin_unlock_irqrestore(&q->slots.lock, flags);
	}
	rlx_service_get(svc);
	if (!queue_work(rlx_dev.wq, &svc->bury))
		rlx_service_put(svc);
}

/* ---- executors that hang with requests of the dead ---- */

void rlx_service_mourn(struct rlx_service *svc)
{
	/* Who died first is looked at first; the work knows of the others. */
	if (svc->orphan_ms)
		queue_delayed_work(rlx_dev.wq, &svc->orphans,
				   msecs_to_jiffies(svc->orphan_ms) + 1);
}

/* How long the executor may still hold what @ch left: MAX_JIFFY_OFFSET: nothing. */
static unsigned long rlx_service_patience(const struct rlx_channel *ch)
{
	unsigned long over = 0, flags;
	bool orphans;

	rlx_stall("patience");
	spin_lock_irqsave(&ch->q->slots.lock, flags);
	orphans = ch->lane.shut && ch->lane.nr[RLX_SLOT_ORPHAN];
	/* Not before: of one that dies meanwhile it is still to be set. */
	if (orphans)
		over = ch->died + msecs_to_jiffies(ch->svc->orphan_ms);
	spin_unlock_irqrestore(&ch->q->slots.lock, flags);
	if (!orphans)
		return MAX_JIFFY_OFFSET;
	return time_after(jiffies, over) ? 0 : over - jiffies + 1;
}

static void rlx_service_orphans(struct work_struct *work)
{
	struct rlx_service *svc = container_of(to_delayed_work(work),
					       struct rlx_service, orphans);
	unsigned long left = MAX_JIFFY_OFFSET, id;
	struct rlx_channel *ch;

	mutex_lock(&svc->lock);
	xa_for_each(&svc->channels, id, ch)
		left = min(left, rlx_service_patience(ch));
	if (!left)
		rlx_executor_retire(svc);
	else if (left != MAX_JIFFY_OFFSET)
		queue_delayed_work(rlx_dev.wq, &svc->orphans, left);
	mutex_unlock(&svc->lock);
}

static struct rlx_service *rlx_service_new(struct rlx_session *session,
					   const struct rlx_ioc_service_create *c)
{
	struct rlx_service *svc;
	int err;

	svc = kvzalloc(struct_size(svc, queue, c->queues), GFP_KERNEL_ACCOUNT);
	if (!svc)
		return ERR_PTR(-ENOMEM);
	kref_init(&svc->ref);
	INIT_RCU_WORK(&svc->free, rlx_service_free);
	INIT_WORK(&svc->bury, rlx_service_bury);
	INIT_DELAYED_WORK(&svc->orphans, rlx_service_orphans);
	init_waitqueue_head(&svc->wait);
	mutex_init(&svc->lock);
	/* Nodes are charged by this flag; those of the first try know no other. */
	xa_init_flags(&svc->channels, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	svc->id = rlx_id_new();
	svc->user_tag = c->user_tag;
	svc->owner = current_euid();
	svc->flags = c->flags;
	svc->max_slices = c->max_slices ?: RLX_RQ_SLICES;
	svc->depth = c->depth;
	svc->user_slots = c->user_slots;
	svc->user_channels = c->user_channels;
	svc->orphan_ms = c->orphan_ms;
	svc->session = session;
	svc->next_channel = rlx_first_channel();
	while (svc->nr_queues < c->queues) {
		err = rlx_queue_init(&svc->queue[svc->nr_queues], svc,
				     svc->nr_queues);
		if (err)
			goto out_fini_queues;
		svc->nr_queues++;
	}
	rlx_session_get(session);
	rlx_stat_inc(RLX_STAT_SERVICES);
	mutex_lock(&rlx_dev.lock);
	list_add_tail(&svc->node, &rlx_dev.services);
	mutex_unlock(&rlx_dev.lock);
	return svc;

out_fini_queues:
	while (svc->nr_queues)
		rlx_queue_fini(&svc->queue[--svc->nr_queues]);
	kvfree(svc);
	return ERR_PTR(err);
}

/* A file that takes a reference of its own. */
static struct file *rlx_service_file_new(struct rlx_service *svc, u32 access)
{
	bool writer = access & RLX_W;
	struct file *file;

	file = rlx_file_new("rlx-service", &rlx_service_fops, svc,
			    writer ? O_RDWR : O_RDONLY);
	if (IS_ERR(file))
		return file;
	rlx_service_get(svc);
	if (writer) {
		mutex_lock(&svc->lock);
		svc->writers++;
		mutex_unlock(&svc->lock);
	}
	return file;
}

static int rlx_service_release(struct inode *inode, struct file *file)
{
	struct rlx_service *svc = file->private_data;

	if (file->f_mode & FMODE_WRITE) {
		mutex_lock(&svc->lock);
		if (!--svc->writers && !svc->exec)
			rlx_service_lose(svc, true);
		mutex_unlock(&svc->lock);
	}
	rlx_service_put(svc);
	return 0;
}

struct rlx_service *rlx_service_get_fd(int fd)
{
	struct file *file = fget(fd);
	struct rlx_service *svc;

	if (!file)
		return ERR_PTR(-EBADF);
	if (file->f_op == &rlx_service_fops)
		svc = rlx_service_get(file->private_data);
	else
		svc = ERR_PTR(-EINVAL);
	fput(file);
	return svc;
}

/* ---- commands ---- */

long rlx_service_create(struct rlx_call *call)
{
	const struct rlx_ioc_service_create *c = call->arg;
	struct rlx_service *svc;
	struct file *file;

	if (c->flags & ~(RLX_SERVICE_REQUEUE | RLX_SERVICE_SINGLE_USER) || c->pad ||
	    !RLX_IS_ZERO(c->reserved) ||
	    !c->queues || c->queues > RLX_SERVICE_QUEUES_MAX ||
	    !is_power_of_2(c->depth) || c->depth > RLX_SLOTS_DEPTH_MAX ||
	    c->max_slices > RLX_RQ_SLICES_MAX || c->user_slots > c->depth ||
	    c->user_channels > RLX_SERVICE_CHANNELS_MAX)
		return -EINVAL;
	svc = rlx_service_new(call->priv, c);
	if (IS_ERR(svc))
		return PTR_ERR(svc);
	file = rlx_service_file_new(svc, RLX_R | RLX_W);
	rlx_service_put(svc);
	if (IS_ERR(file))
		return PTR_ERR(file);
	call->newfile = file;
	return 0;
}

static long rlx_service_dup(struct rlx_call *call)
{
	const struct rlx_ioc_service_dup *d = call->arg;
	struct file *file;

	if (d->flags || d->reserved ||
	    (d->access != RLX_R && d->access != (RLX_R | RLX_W)))
		return -EINVAL;
	if ((d->access & RLX_W) && !(call->file->f_mode & FMODE_WRITE))
		return -EACCES;
	file = rlx_service_file_new(call->priv, d->access);
	if (IS_ERR(file))
		return PTR_ERR(file);
	call->newfile = file;
	return 0;
}

/*
 * The generation first, which is written after its executor: a first one that comes is
 * never seen as one that is gone already.
 */
u32 rlx_service_state(struct rlx_service *svc)
{
	u32 generation = smp_load_acquire(&svc->generation);

	if (READ_ONCE(svc->exec))
		return RLX_SERVICE_LIVE;
	return generation ? RLX_SERVICE_DEAD : RLX_SERVICE_NEW;
}

long rlx_service_fill_info(struct rlx_service *svc, struct rlx_ioc_service_info *info)
{
	u32 i;

	if (info->pad || !RLX_IS_ZERO(info->reserved))
		return -EINVAL;
	memset(info, 0, sizeof(*info));
	info->queues = svc->nr_queues;
	info->depth = svc->depth;
	info->flags = svc->flags;
	mutex_lock(&svc->lock);
	info->state = rlx_service_state(svc);
	info->generation = svc->generation;
	info->channels = svc->nr_channels;
	mutex_unlock(&svc->lock);
	for (i = 0; i < svc->nr_queues; i++) {
		struct rlx_queue_counts c;

		rlx_queue_count(&svc->queue[i], &c);
		info->ready += c.ready;
		info->delivered += c.delivered;
		info->submitted += c.submitted;
		info->committed += c.committed;
		info->cancelled += c.cancelled;
	}
	return 0;
}

static long rlx_service_info(struct rlx_call *call)
{
	return rlx_service_fill_info(call->priv, call->arg);
}

static const struct rlx_ioctl rlx_service_ioctls[] = {
	RLX_IOCTL_ROW(RLX_IOC_SERVICE_INFO, RLX_IOCTL_OUT, rlx_service_info),
	RLX_IOCTL_ROW(RLX_IOC_SERVICE_DUP, RLX_IOCTL_FD, rlx_service_dup),
	RLX_IOCTL_ROW(RLX_IOC_EXECUTOR_ATTACH, RLX_IOCTL_FD | RLX_IOCTL_OUT,
		      rlx_executor_attach),
};

static long rlx_service_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return rlx_ioctl_dispatch(file, cmd, arg, rlx_service_ioctls,
				  ARRAY_SIZE(rlx_service_ioctls));
}

static __poll_t rlx_service_poll(struct file *file, poll_table *wait)
{
	struct rlx_service *svc = file->private_data;

	poll_wait(file, &svc->wait, wait);
	switch (rlx_service_state(svc)) {
	case RLX_SERVICE_LIVE:
		return EPOLLOUT;
	case RLX_SERVICE_DEAD:
		return EPOLLHUP;
	default:
		return 0;
	}
}

static void rlx_service_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct rlx_service *svc = file->private_data;

	rlx_stats_fdinfo(m, "service", svc->id);
	seq_printf(m, "rlx-state:\t%u\n", rlx_service_state(svc));
	seq_printf(m, "rlx-generation:\t%u\n", READ_ONCE(svc->generation));
	seq_printf(m, "rlx-queues:\t%u\n", svc->nr_queues);
	seq_printf(m, "rlx-depth:\t%u\n", svc->depth);
	seq_printf(m, "rlx-channels:\t%u\n", READ_ONCE(svc->nr_channels));
	seq_printf(m, "rlx-tag:\t%llu\n", svc->user_tag);
}

static const struct file_operations rlx_service_fops = {
	.owner		= THIS_MODULE,
	.release	= rlx_service_release,
	.unlocked_ioctl	= rlx_service_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.poll		= rlx_service_poll,
	.show_fdinfo	= rlx_service_show_fdinfo,
	.llseek		= noop_llseek,
};
