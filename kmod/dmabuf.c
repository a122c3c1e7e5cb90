// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ranges of arenas as dma-bufs, for importers that know nothing of arenas.
 *
 * The pages never move, so this is a static exporter: no pin, no unpin, no
 * notification. What is mapped by way of a dma-buf is VM_PFNMAP, as everywhere
 * in this subsystem; the mapping that can be pinned is the arena's own.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include <linux/rlx.h>

#include "arena.h"
#include "compat.h"
#include "device.h"
#include "dmabuf.h"
#include "foreign.h"
#include "ioctl.h"
#include "trace.h"

RLX_IMPORT_DMA_BUF;

/* Pages put in at one fault of a dma-buf's mapping. */
#define RLX_EXPORT_AROUND	16
/* How long between two looks whether the fences of a dead dma-buf are done. */
#define RLX_EXPORT_LINGER	msecs_to_jiffies(50)

/*
 * Held by the dma-buf, and for a moment by SYNC. Everything up to @lock is set
 * before the dma-buf exists and does not change.
 */
struct rlx_export {
	struct kref ref;
	struct rlx_arena *arena;	/* rlx_arena_export_get() */
	struct list_head node;		/* in arena->export_list, by export_lock */
	struct dma_resv resv;		/* the dma-buf's; has its own lock */
	struct delayed_work linger;
	unsigned long first;		/* page of the arena */
	unsigned long nr;		/* pages */
	u32 access;			/* RLX_R, RLX_W */
	/* Protects @mappings and @vaddr; below resv and mmap_lock. */
	struct mutex lock;
	struct list_head mappings;
	void *vaddr;			/* of the one kernel mapping */
};

/* One answer to map_dma_buf. */
struct rlx_mapping {
	struct list_head node;
	struct sg_table sgt;
	struct device *dev;
	enum dma_data_direction dir;
};

/* ---- life -------------------------------------------------------------- */

static void rlx_export_free(struct rlx_export *exp)
{
	dma_resv_fini(&exp->resv);
	mutex_destroy(&exp->lock);
	rlx_arena_export_put(exp->arena, exp->access);
	kfree(exp);
}

/*
 * An importer may be gone while its device still works on the pages: as long
 * as a fence says so, they may not go back to the kernel.
 */
static void rlx_export_linger(struct work_struct *work)
{
	struct rlx_export *exp =
		container_of(work, struct rlx_export, linger.work);

	if (!dma_resv_test_signaled(&exp->resv, DMA_RESV_USAGE_BOOKKEEP)) {
		queue_delayed_work(rlx_dev.wq, &exp->linger, RLX_EXPORT_LINGER);
		return;
	}
	rlx_export_free(exp);
	/* Module exit waits for this queue. */
	module_put(THIS_MODULE);
}

static void rlx_export_last(struct kref *ref)
{
	struct rlx_export *exp = container_of(ref, struct rlx_export, ref);

	if (dma_resv_test_signaled(&exp->resv, DMA_RESV_USAGE_BOOKKEEP)) {
		rlx_export_free(exp);
		return;
	}
	__module_get(THIS_MODULE);
	queue_delayed_work(rlx_dev.wq, &exp->linger, RLX_EXPORT_LINGER);
}

static void rlx_export_put(struct rlx_export *exp)
{
	kref_put(&exp->ref, rlx_export_last);
}

static void rlx_export_link(struct rlx_export *exp)
{
	struct rlx_arena *arena = exp->arena;

	mutex_lock(&arena->export_lock);
	list_add(&exp->node, &arena->export_list);
	mutex_unlock(&arena->export_lock);
}

static void rlx_export_unlink(struct rlx_export *exp)
{
	struct rlx_arena *arena = exp->arena;

	mutex_lock(&arena->export_lock);
	list_del(&exp->node);
	mutex_unlock(&arena->export_lock);
	rlx_export_put(exp);
}

static void rlx_export_release(struct dma_buf *buf)
{
	rlx_export_unlink(buf->priv);
}

/* ---- devices ----------------------------------------------------------- */

/*
 * Calls for each physically contiguous piece of at most @max bytes; with no
 * @sg it only counts them. It stops short where the caller is killed: a user
 * says how many there are.
 */
static unsigned long rlx_export_fill(struct rlx_export *exp, size_t max,
				     struct scatterlist *sg)
{
	unsigned long at = exp->first, end = exp->first + exp->nr, run;
	unsigned long n = 0;
	struct page *page;

	for (; at < end && !rlx_killed(); at += run) {
		run = rlx_arena_run(exp->arena, at,
				    min(end - at, max >> PAGE_SHIFT), &page);
		if (WARN_ON_ONCE(!run))
			break;
		if (sg) {
			sg_set_page(sg, page, run << PAGE_SHIFT, 0);
			sg = sg_next(sg);
		}
		n++;
	}
	return n;
}

/*
 * A fresh table for every caller, in pieces its device can take. Called with
 * the reservation held from 6.2 on, without it before: nothing here needs it.
 */
static struct sg_table *rlx_export_map(struct dma_buf_attachment *at,
				       enum dma_data_direction dir)
{
	struct rlx_export *exp = at->dmabuf->priv;
	size_t max = min_t(size_t, dma_get_max_seg_size(at->dev), SZ_2G);
	struct rlx_mapping *map;
	unsigned long pieces;
	int ret;

	/* A device that may write would write to pages that are read-only. */
	if (!(exp->access & RLX_W) && dir != DMA_TO_DEVICE)
		return ERR_PTR(-EACCES);
	max = round_down(max, PAGE_SIZE);
	if (!max)
		return ERR_PTR(-EINVAL);
	map = kzalloc(sizeof(*map), GFP_KERNEL_ACCOUNT);
	if (!map)
		return ERR_PTR(-ENOMEM);
	map->dev = at->dev;
	map->dir = dir;
	pieces = rlx_export_fill(exp, max, NULL);
	ret = pieces > UINT_MAX ? -ENOMEM : rlx_killed() ? -EINTR :
				  sg_alloc_table(&map->sgt, pieces, GFP_KERNEL_ACCOUNT);
	if (ret)
		goto out_free;
	rlx_export_fill(exp, max, map->sgt.sgl);
	/* Who is killed only now may have left it half filled. */
	ret = rlx_killed() ? -EINTR : 0;
	if (ret)
		goto out_table;
	/*
	 * The caches are seen to apart from the mapping: many devices may have
	 * the same pages, which a mapping that syncs would not allow.
	 */
	ret = dma_map_sgtable(at->dev, &map->sgt, dir, DMA_ATTR_SKIP_CPU_SYNC);
	if (ret)
		goto out_table;
	dma_sync_sgtable_for_device(at->dev, &map->sgt, dir);
	mutex_lock(&exp->lock);
	list_add(&map->node, &exp->mappings);
	mutex_unlock(&exp->lock);
	return &map->sgt;
out_table:
	sg_free_table(&map->sgt);
out_free:
	kfree(map);
	return ERR_PTR(ret);
}

static void rlx_export_unmap(struct dma_buf_attachment *at,
			     struct sg_table *sgt, enum dma_data_direction dir)
{
	struct rlx_export *exp = at->dmabuf->priv;
	struct rlx_mapping *map = container_of(sgt, struct rlx_mapping, sgt);

	mutex_lock(&exp->lock);
	list_del(&map->node);
	mutex_unlock(&exp->lock);
	dma_sync_sgtable_for_cpu(map->dev, sgt, map->dir);
	dma_unmap_sgtable(map->dev, sgt, map->dir, DMA_ATTR_SKIP_CPU_SYNC);
	sg_free_table(sgt);
	kfree(map);
}

/* What the mapping was made for narrows what the CPU says it will do. */
static enum dma_data_direction rlx_mapping_dir(struct rlx_mapping *map,
					       enum dma_data_direction dir)
{
	return map->dir == DMA_BIDIRECTIONAL ? dir : map->dir;
}

/*
 * Before 6.10 each piece of each mapping is looked at, coherent or not: who is killed meanwhile
 * gets to see none of it.
 */
static int rlx_export_begin(struct rlx_export *exp, enum dma_data_direction dir)
{
	struct rlx_mapping *map;
	int ret = 0;

	if (mutex_lock_killable(&exp->lock))
		return -EINTR;
	if (exp->vaddr)
		invalidate_kernel_vmap_range(exp->vaddr,
					     exp->nr << PAGE_SHIFT);
	list_for_each_entry(map, &exp->mappings, node) {
		if (rlx_killed()) {
			ret = -EINTR;
			break;
		}
		dma_sync_sgtable_for_cpu(map->dev, &map->sgt,
					 rlx_mapping_dir(map, dir));
	}
	mutex_unlock(&exp->lock);
	return ret;
}

static int rlx_export_end(struct rlx_export *exp, enum dma_data_direction dir)
{
	struct rlx_mapping *map;
	int ret = 0;

	if (mutex_lock_killable(&exp->lock))
		return -EINTR;
	if (exp->vaddr)
		flush_kernel_vmap_range(exp->vaddr, exp->nr << PAGE_SHIFT);
	list_for_each_entry(map, &exp->mappings, node) {
		if (rlx_killed()) {
			ret = -EINTR;
			break;
		}
		dma_sync_sgtable_for_device(map->dev, &map->sgt,
					    rlx_mapping_dir(map, dir));
	}
	mutex_unlock(&exp->lock);
	return ret;
}

static int rlx_export_begin_access(struct dma_buf *buf,
				   enum dma_data_direction dir)
{
	return rlx_export_begin(buf->priv, dir);
}

static int rlx_export_end_access(struct dma_buf *buf,
				 enum dma_data_direction dir)
{
	return rlx_export_end(buf->priv, dir);
}

/* ---- the CPU ----------------------------------------------------------- */

static vm_fault_t rlx_export_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct rlx_export *exp = vma->vm_private_data;
	unsigned long off = vmf->pgoff, last;
	unsigned long addr = vmf->address & PAGE_MASK;
	vm_fault_t ret;

	if (off >= exp->nr)
		return VM_FAULT_SIGBUS;
	last = min3(round_down(off, RLX_EXPORT_AROUND) + RLX_EXPORT_AROUND,
		    exp->nr, off + ((vma->vm_end - addr) >> PAGE_SHIFT));
	ret = vmf_insert_pfn(vma, addr,
			     page_to_pfn(rlx_arena_page(exp->arena,
							exp->first + off)));
	/* The neighbours are a courtesy: no error of theirs counts. */
	while (ret == VM_FAULT_NOPAGE && ++off < last) {
		addr += PAGE_SIZE;
		if (vmf_insert_pfn(vma, addr,
				   page_to_pfn(rlx_arena_page(exp->arena,
							      exp->first + off)))
		    != VM_FAULT_NOPAGE)
			break;
	}
	return ret;
}

static const struct vm_operations_struct rlx_export_vm_ops = {
	.fault = rlx_export_fault,
};

/*
 * Also called for mappings of an importer's file, so the rights are those of
 * the export, not of any file. The dma-buf in vm_file keeps @exp.
 */
static int rlx_export_mmap(struct dma_buf *buf, struct vm_area_struct *vma)
{
	struct rlx_export *exp = buf->priv;

	if (rlx_vma_is_cow(vma))
		return -EINVAL;
	if (!(exp->access & RLX_W)) {
		if (vma->vm_flags & VM_WRITE)
			return -EACCES;
		rlx_vm_flags_clear(vma, VM_MAYWRITE);
	}
	rlx_vm_flags_set(vma, VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_private_data = exp;
	vma->vm_ops = &rlx_export_vm_ops;
	return 0;
}

/* The dma-buf core calls this for the first user only. */
static int rlx_export_vmap(struct dma_buf *buf, struct iosys_map *map)
{
	struct rlx_export *exp = buf->priv;
	struct page **pages;
	unsigned long i;
	void *vaddr;

	if (exp->nr > UINT_MAX)
		return -ENOMEM;
	pages = kvmalloc_array(exp->nr, sizeof(*pages), GFP_KERNEL_ACCOUNT);
	if (!pages)
		return -ENOMEM;
	for (i = 0; i < exp->nr; i++) {
		pages[i] = rlx_arena_page(exp->arena, exp->first + i);
		if (!(i % RLX_RUN_MAX) && rlx_killed()) {
			kvfree(pages);
			return -EINTR;
		}
	}
	vaddr = vmap(pages, exp->nr, VM_MAP,
		     exp->access & RLX_W ? PAGE_KERNEL : PAGE_KERNEL_RO);
	kvfree(pages);
	if (!vaddr)
		return -ENOMEM;
	mutex_lock(&exp->lock);
	exp->vaddr = vaddr;
	mutex_unlock(&exp->lock);
	iosys_map_set_vaddr(map, vaddr);
	return 0;
}

static void rlx_export_vunmap(struct dma_buf *buf, struct iosys_map *map)
{
	struct rlx_export *exp = buf->priv;

	mutex_lock(&exp->lock);
	exp->vaddr = NULL;
	mutex_unlock(&exp->lock);
	vunmap(map->vaddr);
	iosys_map_clear(map);
}

static const struct dma_buf_ops rlx_export_ops = {
	.map_dma_buf = rlx_export_map,
	.unmap_dma_buf = rlx_export_unmap,
	.release = rlx_export_release,
	.begin_cpu_access = rlx_export_begin_access,
	.end_cpu_access = rlx_export_end_access,
	.mmap = rlx_export_mmap,
	.vmap = rlx_export_vmap,
	.vunmap = rlx_export_vunmap,
};

/* ---- ioctls ------------------------------------------------------------ */

/* What EXPORT and SYNC ask alike: a range, and no more than the fd may. */
static int rlx_export_check(struct rlx_call *call, u64 offset, u64 length,
			    u32 access)
{
	int ret;

	if (!access || (access & ~(RLX_R | RLX_W)))
		return -EINVAL;
	ret = rlx_arena_check_range(call->priv, offset, length);
	if (ret)
		return ret;
	if ((access & RLX_W) && !(call->file->f_mode & FMODE_WRITE))
		return -EACCES;
	return 0;
}

/* Owns what rlx_arena_export_get() gave, until rlx_export_free(). */
static struct rlx_export *rlx_export_new(struct rlx_arena *arena, u32 access)
{
	struct rlx_export *exp;
	int ret;

	exp = kzalloc(sizeof(*exp), GFP_KERNEL_ACCOUNT);
	if (!exp)
		return ERR_PTR(-ENOMEM);
	ret = rlx_arena_export_get(arena, access);
	if (ret) {
		kfree(exp);
		return ERR_PTR(ret);
	}
	exp->arena = arena;
	exp->access = access;
	kref_init(&exp->ref);
	dma_resv_init(&exp->resv);
	mutex_init(&exp->lock);
	INIT_LIST_HEAD(&exp->mappings);
	INIT_DELAYED_WORK(&exp->linger, rlx_export_linger);
	return exp;
}

long rlx_dmabuf_ioctl_export(struct rlx_call *call)
{
	struct rlx_arena *arena = call->priv;
	struct rlx_ioc_arena_export *arg = call->arg;
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct rlx_export *exp;
	struct dma_buf *buf;
	int ret;

	if (arg->flags & ~RLX_EXPORT_LARGE || !RLX_IS_ZERO(arg->reserved) ||
	    !(arg->access & RLX_R) ||
	    (arg->length > U32_MAX && !(arg->flags & RLX_EXPORT_LARGE)) ||
	    !PAGE_ALIGNED(arg->offset) || !PAGE_ALIGNED(arg->length))
		return -EINVAL;
	ret = rlx_export_check(call, arg->offset, arg->length, arg->access);
	if (ret)
		return ret;
	if (arena->ops->foreign)
		return rlx_foreign_export(call);
	exp = rlx_export_new(arena, arg->access);
	if (IS_ERR(exp))
		return PTR_ERR(exp);
	exp->first = arg->offset >> PAGE_SHIFT;
	exp->nr = arg->length >> PAGE_SHIFT;
	info.exp_name = "rlx";
	info.ops = &rlx_export_ops;
	info.size = arg->length;
	info.flags = arg->access & RLX_W ? O_RDWR : O_RDONLY;
	info.resv = &exp->resv;
	info.priv = exp;
	rlx_export_link(exp);
	/* Of its struct alone no cgroup pays; it has a file and an inode, which are paid for. */
	buf = dma_buf_export(&info);
	if (IS_ERR(buf)) {
		rlx_export_unlink(exp);
		return PTR_ERR(buf);
	}
	/* From here on @exp belongs to the dma-buf, and that to its file. */
	call->newfile = buf->file;
	trace_rlx_export(arena->id, arg->offset, arg->length);
	return 0;
}

/*
 * References to the exports that have a page of the range. There are as many as a user has
 * descriptors: who is killed on the way has those up to there, and who waits is let go.
 */
static struct rlx_export **rlx_export_find(struct rlx_arena *arena, u64 offset,
					   u64 end, size_t *found)
{
	u64 first = offset >> PAGE_SHIFT;
	u64 last = DIV_ROUND_UP(end, PAGE_SIZE);
	struct rlx_export **list, *exp;
	size_t n = 1;

	if (mutex_lock_killable(&arena->export_lock))
		return ERR_PTR(-EINTR);
	list_for_each_entry(exp, &arena->export_list, node) {
		if (rlx_killed())
			break;
		n++;
	}
	list = kvcalloc(n, sizeof(struct rlx_export *), GFP_KERNEL_ACCOUNT);
	n = 0;
	if (!list) {
		list = ERR_PTR(-ENOMEM);
		goto out_unlock;
	}
	list_for_each_entry(exp, &arena->export_list, node) {
		if (rlx_killed())
			break;
		if (exp->first < last && exp->first + exp->nr > first &&
		    kref_get_unless_zero(&exp->ref))
			list[n++] = exp;
	}
out_unlock:
	mutex_unlock(&arena->export_lock);
	*found = n;
	return list;
}

static int rlx_export_sync(struct rlx_export *exp, u32 access, u32 op)
{
	enum dma_data_direction dir = rlx_sync_direction(access);
	bool write = access & RLX_W;
	long ret;

	if (op == RLX_SYNC_END)
		return rlx_export_end(exp, dir);
	ret = dma_resv_wait_timeout(&exp->resv, dma_resv_usage_rw(write), true,
				    MAX_SCHEDULE_TIMEOUT);
	return ret < 0 ? ret : rlx_export_begin(exp, dir);
}

long rlx_dmabuf_ioctl_sync(struct rlx_call *call)
{
	struct rlx_arena *arena = call->priv;
	struct rlx_ioc_arena_sync *arg = call->arg;
	struct rlx_export **list;
	size_t i, n;
	long ret;

	if (arg->op > RLX_SYNC_END)
		return -EINVAL;
	ret = rlx_export_check(call, arg->offset, arg->length, arg->access);
	if (ret)
		return ret;
	if (arena->ops->foreign)
		return rlx_foreign_sync(arena, arg);
	list = rlx_export_find(arena, arg->offset,
			       arg->offset + arg->length, &n);
	if (IS_ERR(list))
		return PTR_ERR(list);
	for (i = 0; i < n; i++) {
		if (!ret)
			ret = rlx_killed() ? -EINTR :
			      rlx_export_sync(list[i], arg->access, arg->op);
		rlx_export_put(list[i]);
	}
	kvfree(list);
	return ret;
}
