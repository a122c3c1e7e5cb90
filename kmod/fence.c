// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fences of other drivers, as sync_files, raise timelines. The other direction
 * does not exist: nothing here makes a dma_fence, since user space alone
 * decides when a timeline moves.
 */
#include <linux/dma-fence.h>
#include <linux/file.h>
#include <linux/slab.h>
#include <linux/sync_file.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "device.h"
#include "stats.h"
#include "timeline.h"

#ifdef RLX_HAVE_SYNC_FILE

struct rlx_import {
	struct dma_fence_cb cb;
	struct list_head node;	/* in tl->imports; empty once claimed */
	struct rlx_timeline *tl;
	struct dma_fence *fence;
	u64 value;
	struct work_struct free;
};

static void rlx_import_unlink(struct rlx_import *imp)
{
	lockdep_assert_held(&imp->tl->lock);
	list_del_init(&imp->node);
	imp->tl->nr_waiters--;
	rlx_stat_dec(RLX_STAT_WAITERS);
}

static void rlx_import_free(struct rlx_import *imp)
{
	dma_fence_put(imp->fence);
	kfree(imp);
}

static void rlx_import_free_work(struct work_struct *work)
{
	rlx_import_free(container_of(work, struct rlx_import, free));
}

/*
 * Called below fence->lock, perhaps in an interrupt. Whoever takes the import
 * off the list under tl->lock frees it; without it there (the drain was first)
 * nothing of the timeline may move any more.
 */
static void rlx_import_signalled(struct dma_fence *fence,
				 struct dma_fence_cb *cb)
{
	struct rlx_import *imp = container_of(cb, struct rlx_import, cb);
	struct rlx_timeline *tl = imp->tl;
	unsigned long flags;

	spin_lock_irqsave(&tl->lock, flags);
	if (!list_empty(&imp->node)) {
		rlx_import_unlink(imp);
		rlx_timeline_import_done(tl, imp->value, fence->error);
		/*
		 * Not freed here: the reference may be the last one, and what
		 * releases the fence may want fence->lock (sw_sync's does, and
		 * has it when its timeline is closed). Queued under the lock:
		 * the last close takes it, so module exit finds the work.
		 */
		queue_work(rlx_dev.wq, &imp->free);
	}
	spin_unlock_irqrestore(&tl->lock, flags);
}

/* Put on the list, and counted as a signaller, before the fence knows it. */
static int rlx_import_publish(struct rlx_import *imp)
{
	struct rlx_timeline *tl = imp->tl;
	int ret = 0;

	spin_lock_irq(&tl->lock);
	if (tl->error) {
		ret = tl->error;
	} else if (tl->nr_waiters >= RLX_TIMELINE_WAITERS) {
		ret = -ENOSPC;
	} else {
		list_add(&imp->node, &tl->imports);
		tl->nr_waiters++;
		tl->signallers++;
		rlx_stat_inc(RLX_STAT_WAITERS);
	}
	spin_unlock_irq(&tl->lock);
	return ret;
}

/* sync_file_get_fence() says NULL for no file and for another file alike. */
static struct dma_fence *rlx_fence_get_fd(int fd)
{
	struct file *file = fget(fd);
	struct dma_fence *fence;

	if (!file)
		return ERR_PTR(-EBADF);
	fence = sync_file_get_fence(fd);
	fput(file);
	return fence ? fence : ERR_PTR(-EINVAL);
}

int rlx_fence_import(struct rlx_timeline *tl, int sync_file, u64 value)
{
	struct rlx_import *imp;
	int ret;

	imp = kzalloc(sizeof(*imp), GFP_KERNEL_ACCOUNT);
	if (!imp)
		return -ENOMEM;
	INIT_LIST_HEAD(&imp->node);
	INIT_WORK(&imp->free, rlx_import_free_work);
	imp->tl = tl;
	imp->value = value;
	imp->fence = rlx_fence_get_fd(sync_file);
	if (IS_ERR(imp->fence)) {
		ret = PTR_ERR(imp->fence);
		kfree(imp);
		return ret;
	}
	ret = rlx_import_publish(imp);
	if (ret) {
		rlx_import_free(imp);
		return ret;
	}
	/*
	 * From here on the callback may free @imp. It is not called if the
	 * fence has signalled already: then its work is done here.
	 */
	if (dma_fence_add_callback(imp->fence, &imp->cb, rlx_import_signalled))
		rlx_import_signalled(imp->fence, &imp->cb);
	return 0;
}

/*
 * The last reference is gone, nobody adds imports any more. An import is taken
 * off the list first; dma_fence_remove_callback() takes fence->lock, under
 * which callbacks run, so afterwards none is under way.
 */
void rlx_fence_drain(struct rlx_timeline *tl)
{
	struct rlx_import *imp;

	spin_lock_irq(&tl->lock);
	while (!list_empty(&tl->imports)) {
		imp = list_first_entry(&tl->imports, struct rlx_import, node);
		rlx_import_unlink(imp);
		/* The last signaller, perhaps: eventfds may still wait for it. */
		rlx_timeline_import_done(tl, imp->value, -EOWNERDEAD);
		spin_unlock_irq(&tl->lock);
		dma_fence_remove_callback(imp->fence, &imp->cb);
		rlx_import_free(imp);
		spin_lock_irq(&tl->lock);
	}
	spin_unlock_irq(&tl->lock);
}

#else	/* the kernel has no sync_files that one could be given */

int rlx_fence_import(struct rlx_timeline *tl, int sync_file, u64 value)
{
	return -EOPNOTSUPP;
}

void rlx_fence_drain(struct rlx_timeline *tl)
{
}

#endif
