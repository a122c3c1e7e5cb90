// SPDX-License-Identifier: GPL-2.0-only
/* Timelines: the counter, its waiters, its file and its shared page. */
#include <linux/eventfd.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/poll.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <linux/rlx.h>

#include "compat.h"
#include "device.h"
#include "fs.h"
#include "ioctl.h"
#include "stats.h"
#include "timeline.h"
#include "timeline_wait.h"

/* What a timeline's fd carries. */
struct rlx_timeline_file {
	struct rlx_timeline *tl;
	u64 seen;	/* value at the last QUERY; under tl->lock */
};

static const struct file_operations rlx_timeline_fops;

/* ---- waiters ----------------------------------------------------------- */

static void rlx_timeline_link(struct rlx_timeline *tl,
			      struct rlx_timeline_waiter *w)
{
	struct rb_node **p = &tl->waiters.rb_root.rb_node, *parent = NULL;
	bool leftmost = true;

	lockdep_assert_held(&tl->lock);
	while (*p) {
		parent = *p;
		if (w->value < rb_entry(parent, struct rlx_timeline_waiter,
					node)->value) {
			p = &parent->rb_left;
		} else {
			p = &parent->rb_right;
			leftmost = false;
		}
	}
	rb_link_node(&w->node, parent, p);
	rb_insert_color_cached(&w->node, &tl->waiters, leftmost);
	tl->nr_waiters++;
	rlx_stat_inc(RLX_STAT_WAITERS);
}

static void rlx_timeline_unlink(struct rlx_timeline *tl,
				struct rlx_timeline_waiter *w)
{
	lockdep_assert_held(&tl->lock);
	rb_erase_cached(&w->node, &tl->waiters);
	RB_CLEAR_NODE(&w->node);
	tl->nr_waiters--;
	rlx_stat_dec(RLX_STAT_WAITERS);
}

/* 1: reached, also on a poisoned timeline; 0: not yet; -errno: it never will be. */
static int rlx_timeline_look_locked(struct rlx_timeline *tl, u64 value)
{
	lockdep_assert_held(&tl->lock);
	return value <= tl->value ? 1 : tl->error;
}

/* Waiters woken under one hold of the lock, which keeps interrupts off. */
#define RLX_TIMELINE_WAKES	64

/* Whether waiters are left that were reached or poisoned. */
static bool rlx_timeline_fires(struct rlx_timeline *tl)
{
	struct rb_node *node = rb_first_cached(&tl->waiters);

	return node && rlx_timeline_look_locked(tl, rb_entry(node,
				struct rlx_timeline_waiter, node)->value);
}

/*
 * Wakes some of what has been reached, or of everything when poisoned: whoever
 * changed the timeline sees to the rest, by rlx_timeline_finish(). The waiter is
 * unlinked before its callback, so that the callback may free it.
 */
static void rlx_timeline_fire(struct rlx_timeline *tl)
{
	struct rlx_timeline_waiter *w;
	unsigned int i;
	int ret;

	lockdep_assert_held(&tl->lock);
	for (i = 0; i < RLX_TIMELINE_WAKES && rlx_timeline_fires(tl); i++) {
		w = rb_entry(rb_first_cached(&tl->waiters),
			     struct rlx_timeline_waiter, node);
		ret = rlx_timeline_look_locked(tl, w->value);
		rlx_timeline_unlink(tl, w);
		w->wake(w, min(ret, 0));
	}
}

/* With a reference, or none left. Process context, no locks held. */
static void rlx_timeline_finish(struct rlx_timeline *tl)
{
	bool more;

	do {
		spin_lock_irq(&tl->lock);
		rlx_timeline_fire(tl);
		more = rlx_timeline_fires(tl);
		spin_unlock_irq(&tl->lock);
		cond_resched();
	} while (more);
}

static void rlx_timeline_finish_work(struct work_struct *work)
{
	struct rlx_timeline *tl = container_of(work, struct rlx_timeline, finish);

	rlx_timeline_finish(tl);
	rlx_timeline_put(tl);
}

/* Where nothing sleeps, with the lock held. */
static void rlx_timeline_finish_later(struct rlx_timeline *tl)
{
	lockdep_assert_held(&tl->lock);
	/* Without a reference the last one's end is under way, and finishes. */
	if (!rlx_timeline_fires(tl) || !kref_get_unless_zero(&tl->ref))
		return;
	/* Queued already: it has a reference, and takes the lock before it gives it. */
	if (!queue_work(rlx_dev.wq, &tl->finish))
		rlx_timeline_put(tl);
}

/*
 * After a change: waiters and pollers. Under the lock: whoever frees the timeline
 * takes it once more, and so comes after this.
 */
static void rlx_timeline_changed(struct rlx_timeline *tl)
{
	rlx_timeline_fire(tl);
	wake_up_poll(&tl->poll, EPOLLIN | EPOLLRDNORM |
		     (tl->error ? EPOLLERR : 0));
}

static int rlx_timeline_raise_locked(struct rlx_timeline *tl, u64 value)
{
	lockdep_assert_held(&tl->lock);
	if (value == U64_MAX)
		return -EOVERFLOW;
	if (tl->error)
		return tl->error;
	if (value <= tl->value)
		return -EINVAL;
	tl->value = value;
	/* Pairs with the load-acquire of whoever mapped the page. */
	smp_store_release(&tl->shared->value, value);
	rlx_timeline_changed(tl);
	return 0;
}

/* The first error stays. */
static void rlx_timeline_poison_locked(struct rlx_timeline *tl, int error)
{
	lockdep_assert_held(&tl->lock);
	if (tl->error)
		return;
	tl->error = error;
	smp_store_release(&tl->shared->error, error);
	rlx_timeline_changed(tl);
}

static void rlx_timeline_unsignal_locked(struct rlx_timeline *tl)
{
	lockdep_assert_held(&tl->lock);
	if (!--tl->signallers)
		rlx_timeline_poison_locked(tl, -EOWNERDEAD);
}

int rlx_timeline_raise(struct rlx_timeline *tl, u64 value)
{
	bool more;
	int ret;

	spin_lock_irq(&tl->lock);
	ret = rlx_timeline_raise_locked(tl, value);
	more = rlx_timeline_fires(tl);
	spin_unlock_irq(&tl->lock);
	if (more)
		rlx_timeline_finish(tl);
	return ret;
}

void rlx_timeline_import_done(struct rlx_timeline *tl, u64 value, int error)
{
	lockdep_assert_held(&tl->lock);
	if (error)
		rlx_timeline_poison_locked(tl, error);
	else
		rlx_timeline_raise_locked(tl, value);
	rlx_timeline_unsignal_locked(tl);
	rlx_timeline_finish_later(tl);
}

int rlx_timeline_look(struct rlx_timeline *tl, u64 value)
{
	unsigned long flags;
	int ret;

	spin_lock_irqsave(&tl->lock, flags);
	ret = rlx_timeline_look_locked(tl, value);
	spin_unlock_irqrestore(&tl->lock, flags);
	return ret;
}

int rlx_timeline_wait_add(struct rlx_timeline *tl,
			  struct rlx_timeline_waiter *w)
{
	unsigned long flags;
	int ret;

	RB_CLEAR_NODE(&w->node);
	spin_lock_irqsave(&tl->lock, flags);
	ret = rlx_timeline_look_locked(tl, w->value);
	if (!ret && tl->nr_waiters >= RLX_TIMELINE_WAITERS)
		ret = -ENOSPC;
	if (!ret)
		rlx_timeline_link(tl, w);
	spin_unlock_irqrestore(&tl->lock, flags);
	return ret;
}

bool rlx_timeline_wait_del(struct rlx_timeline *tl,
			   struct rlx_timeline_waiter *w)
{
	unsigned long flags;
	bool mine;

	spin_lock_irqsave(&tl->lock, flags);
	mine = !RB_EMPTY_NODE(&w->node);
	if (mine)
		rlx_timeline_unlink(tl, w);
	spin_unlock_irqrestore(&tl->lock, flags);
	return mine;
}

/* ---- the object -------------------------------------------------------- */

static void rlx_timeline_release(struct kref *ref)
{
	struct rlx_timeline *tl = container_of(ref, struct rlx_timeline, ref);

	rlx_fence_drain(tl);
	/* Eventfds: what else waits has a reference. */
	rlx_timeline_finish(tl);
	WARN_ON_ONCE(!RB_EMPTY_ROOT(&tl->waiters.rb_root));
	__free_page(tl->page);
	rlx_stat_dec(RLX_STAT_TIMELINES);
	/* A fence's callback may still be leaving the lock. */
	kfree_rcu(tl, rcu);
}

void rlx_timeline_put(struct rlx_timeline *tl)
{
	if (tl)
		kref_put(&tl->ref, rlx_timeline_release);
}

static struct rlx_timeline *rlx_timeline_new(u64 initial)
{
	struct rlx_timeline *tl;

	if (initial == U64_MAX)
		return ERR_PTR(-EOVERFLOW);
	tl = kzalloc(sizeof(*tl), GFP_KERNEL_ACCOUNT);
	if (!tl)
		return ERR_PTR(-ENOMEM);
	tl->page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!tl->page) {
		kfree(tl);
		return ERR_PTR(-ENOMEM);
	}
	rlx_stat_inc(RLX_STAT_TIMELINES);
	kref_init(&tl->ref);
	spin_lock_init(&tl->lock);
	init_waitqueue_head(&tl->poll);
	INIT_LIST_HEAD(&tl->imports);
	INIT_WORK(&tl->finish, rlx_timeline_finish_work);
	tl->waiters = RB_ROOT_CACHED;
	tl->shared = page_address(tl->page);
	tl->id = rlx_id_new();
	tl->value = initial;
	tl->shared->value = initial;
	return tl;
}

/* A new file of @tl, with its own reference; @tl must not be dead. */
static struct file *rlx_timeline_open(struct rlx_timeline *tl, bool writable)
{
	struct rlx_timeline_file *tf;
	struct file *file;

	tf = kzalloc(sizeof(*tf), GFP_KERNEL_ACCOUNT);
	if (!tf)
		return ERR_PTR(-ENOMEM);
	file = rlx_file_new("rlx-timeline", &rlx_timeline_fops, tf,
			    writable ? O_RDWR : O_RDONLY);
	if (IS_ERR(file)) {
		kfree(tf);
		return file;
	}
	tf->tl = rlx_timeline_get(tl);
	spin_lock_irq(&tl->lock);
	tf->seen = tl->value;
	if (writable)
		tl->signallers++;
	spin_unlock_irq(&tl->lock);
	return file;
}

static int rlx_timeline_fop_release(struct inode *inode, struct file *file)
{
	struct rlx_timeline_file *tf = file->private_data;
	struct rlx_timeline *tl = tf->tl;

	if (file->f_mode & FMODE_WRITE) {
		spin_lock_irq(&tl->lock);
		rlx_timeline_unsignal_locked(tl);
		spin_unlock_irq(&tl->lock);
		rlx_timeline_finish(tl);
	}
	rlx_timeline_put(tl);
	kfree(tf);
	return 0;
}

struct rlx_timeline *rlx_timeline_of_file(struct file *file)
{
	struct rlx_timeline_file *tf = file->private_data;

	return tf->tl;
}

struct rlx_timeline *rlx_timeline_get_file(struct file *file, fmode_t mode)
{
	if (file->f_op != &rlx_timeline_fops)
		return ERR_PTR(-EINVAL);
	if ((file->f_mode & mode) != mode)
		return ERR_PTR(-EACCES);
	return rlx_timeline_get(rlx_timeline_of_file(file));
}

struct rlx_timeline *rlx_timeline_get_fd(int fd, fmode_t mode)
{
	struct file *file = fget(fd);
	struct rlx_timeline *tl;

	if (!file)
		return ERR_PTR(-EBADF);
	tl = rlx_timeline_get_file(file, mode);
	fput(file);
	return tl;
}

/* ---- mmap, poll, fdinfo ------------------------------------------------ */

static vm_fault_t rlx_timeline_fault(struct vm_fault *vmf)
{
	struct rlx_timeline_file *tf = vmf->vma->vm_file->private_data;

	if (vmf->pgoff)
		return VM_FAULT_SIGBUS;
	get_page(tf->tl->page);
	vmf->page = tf->tl->page;
	return 0;
}

static const struct vm_operations_struct rlx_timeline_vm_ops = {
	.fault = rlx_timeline_fault,
};

static int rlx_timeline_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct rlx_timeline_file *tf = file->private_data;
	struct file *reader;

	if (rlx_vma_is_cow(vma) || vma->vm_pgoff ||
	    vma->vm_end - vma->vm_start != PAGE_SIZE)
		return -EINVAL;
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;
	/*
	 * The mapping keeps a file of its own that may only read: a forgotten
	 * mapping of a writable fd would else count as a living signaller.
	 */
	reader = rlx_timeline_open(tf->tl, false);
	if (IS_ERR(reader))
		return PTR_ERR(reader);
	vma_set_file(vma, reader);
	fput(reader);
	rlx_vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	rlx_vm_flags_clear(vma, VM_MAYWRITE);
	vma->vm_ops = &rlx_timeline_vm_ops;
	return 0;
}

static __poll_t rlx_timeline_poll(struct file *file, poll_table *wait)
{
	struct rlx_timeline_file *tf = file->private_data;
	struct rlx_timeline *tl = tf->tl;
	__poll_t mask = 0;

	poll_wait(file, &tl->poll, wait);
	spin_lock_irq(&tl->lock);
	if (tl->value != tf->seen)
		mask |= EPOLLIN | EPOLLRDNORM;
	if (tl->error)
		mask |= EPOLLERR;
	spin_unlock_irq(&tl->lock);
	return mask;
}

static void rlx_timeline_fdinfo(struct seq_file *m, struct file *file)
{
	struct rlx_timeline_file *tf = file->private_data;
	struct rlx_timeline *tl = tf->tl;
	unsigned int waiters, signallers;
	u64 value;
	int error;

	spin_lock_irq(&tl->lock);
	value = tl->value;
	error = tl->error;
	waiters = tl->nr_waiters;
	signallers = tl->signallers;
	spin_unlock_irq(&tl->lock);
	rlx_stats_fdinfo(m, "timeline", tl->id);
	seq_printf(m, "rlx-value:\t%llu\n", value);
	seq_printf(m, "rlx-error:\t%d\n", error);
	seq_printf(m, "rlx-waiters:\t%u\n", waiters);
	seq_printf(m, "rlx-signallers:\t%u\n", signallers);
}

/* ---- ioctls ------------------------------------------------------------ */

/* On a session. */
long rlx_timeline_ioctl_create(struct rlx_call *call)
{
	struct rlx_ioc_timeline_create *arg = call->arg;
	struct rlx_timeline *tl;
	struct file *file;

	if (arg->flags || arg->pad || !RLX_IS_ZERO(arg->reserved))
		return -EINVAL;
	tl = rlx_timeline_new(arg->initial);
	if (IS_ERR(tl))
		return PTR_ERR(tl);
	file = rlx_timeline_open(tl, true);
	rlx_timeline_put(tl);
	if (IS_ERR(file))
		return PTR_ERR(file);
	call->newfile = file;
	return 0;
}

static long rlx_timeline_ioctl_query(struct rlx_call *call)
{
	struct rlx_timeline_file *tf = call->priv;
	struct rlx_ioc_timeline_query *arg = call->arg;
	struct rlx_timeline *tl = tf->tl;

	if (arg->value || arg->error || arg->waiters ||
	    !RLX_IS_ZERO(arg->reserved))
		return -EINVAL;
	spin_lock_irq(&tl->lock);
	arg->value = tl->value;
	arg->error = tl->error;
	arg->waiters = tl->nr_waiters;
	tf->seen = tl->value;
	spin_unlock_irq(&tl->lock);
	return 0;
}

static long rlx_timeline_ioctl_signal(struct rlx_call *call)
{
	struct rlx_ioc_timeline_signal *arg = call->arg;

	if (arg->reserved)
		return -EINVAL;
	if (!(call->file->f_mode & FMODE_WRITE))
		return -EACCES;
	return rlx_timeline_raise(rlx_timeline_of_file(call->file), arg->value);
}

static long rlx_timeline_ioctl_dup(struct rlx_call *call)
{
	struct rlx_ioc_timeline_dup *arg = call->arg;
	struct file *file;

	if (arg->flags || arg->reserved || !(arg->access & RLX_R) ||
	    (arg->access & ~(RLX_R | RLX_W)))
		return -EINVAL;
	if ((arg->access & RLX_W) && !(call->file->f_mode & FMODE_WRITE))
		return -EACCES;
	file = rlx_timeline_open(rlx_timeline_of_file(call->file), arg->access & RLX_W);
	if (IS_ERR(file))
		return PTR_ERR(file);
	call->newfile = file;
	return 0;
}

struct rlx_timeline_eventfd {
	struct rlx_timeline_waiter waiter;
	struct eventfd_ctx *ctx;
};

static void rlx_timeline_eventfd_wake(struct rlx_timeline_waiter *w, int error)
{
	struct rlx_timeline_eventfd *ev =
		container_of(w, struct rlx_timeline_eventfd, waiter);

	rlx_eventfd_signal(ev->ctx);
	eventfd_ctx_put(ev->ctx);
	kfree(ev);
}

static long rlx_timeline_ioctl_eventfd(struct rlx_call *call)
{
	struct rlx_ioc_timeline_eventfd *arg = call->arg;
	struct rlx_timeline_eventfd *ev;
	struct eventfd_ctx *ctx;
	int ret;

	if (arg->pad)
		return -EINVAL;
	ctx = eventfd_ctx_fdget(arg->eventfd);
	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	ev = kzalloc(sizeof(*ev), GFP_KERNEL_ACCOUNT);
	if (!ev) {
		eventfd_ctx_put(ctx);
		return -ENOMEM;
	}
	ev->ctx = ctx;
	ev->waiter.value = arg->value;
	ev->waiter.wake = rlx_timeline_eventfd_wake;
	ret = rlx_timeline_wait_add(rlx_timeline_of_file(call->file), &ev->waiter);
	if (!ret)
		return 0;
	if (ret > 0)
		rlx_eventfd_signal(ctx);
	eventfd_ctx_put(ctx);
	kfree(ev);
	return ret > 0 ? 0 : ret;
}

static long rlx_timeline_ioctl_import(struct rlx_call *call)
{
	struct rlx_ioc_timeline_import *arg = call->arg;

	if (arg->pad)
		return -EINVAL;
	if (!(call->file->f_mode & FMODE_WRITE))
		return -EACCES;
	if (arg->value == U64_MAX)
		return -EOVERFLOW;
	return rlx_fence_import(rlx_timeline_of_file(call->file), arg->sync_file,
				arg->value);
}

static long rlx_timeline_ioctl_wait_one(struct rlx_call *call)
{
	struct rlx_ioc_timeline_wait_one *arg = call->arg;

	return rlx_timeline_wait_one(rlx_timeline_of_file(call->file), arg->value,
				     arg->deadline_ns);
}

static const struct rlx_ioctl rlx_timeline_rows[] = {
	RLX_IOCTL_ROW(RLX_IOC_TIMELINE_QUERY, RLX_IOCTL_OUT,
		      rlx_timeline_ioctl_query),
	RLX_IOCTL_ROW(RLX_IOC_TIMELINE_SIGNAL, 0, rlx_timeline_ioctl_signal),
	RLX_IOCTL_ROW(RLX_IOC_TIMELINE_DUP, RLX_IOCTL_FD,
		      rlx_timeline_ioctl_dup),
	RLX_IOCTL_ROW(RLX_IOC_TIMELINE_EVENTFD, 0, rlx_timeline_ioctl_eventfd),
	RLX_IOCTL_ROW(RLX_IOC_TIMELINE_IMPORT, 0, rlx_timeline_ioctl_import),
	RLX_IOCTL_ROW(RLX_IOC_TIMELINE_WAIT_ONE, 0,
		      rlx_timeline_ioctl_wait_one),
};

static long rlx_timeline_fop_ioctl(struct file *file, unsigned int cmd,
			       unsigned long arg)
{
	return rlx_ioctl_dispatch(file, cmd, arg, rlx_timeline_rows,
				  ARRAY_SIZE(rlx_timeline_rows));
}

static const struct file_operations rlx_timeline_fops = {
	.owner = THIS_MODULE,
	.release = rlx_timeline_fop_release,
	.unlocked_ioctl = rlx_timeline_fop_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.uring_cmd = rlx_timeline_uring_cmd,
	.mmap = rlx_timeline_mmap,
	.poll = rlx_timeline_poll,
	.llseek = noop_llseek,
	.show_fdinfo = rlx_timeline_fdinfo,
};
