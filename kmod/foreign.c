// SPDX-License-Identifier: GPL-2.0-only
/*
 * Arenas of a dma-buf that somebody else exports: memory of a GPU, a heap or udmabuf that
 * requests can name. Pages of it, where there are any, are the exporter's: they are never
 * looked at here, nor pinned or charged. What can be done with the memory the exporter
 * does.
 */
#include <linux/dma-buf.h>
#include <linux/fs.h>
#include <linux/mm.h>

#include "arena.h"
#include "dmabuf.h"
#include "foreign.h"
#include "ioctl.h"

static bool rlx_foreign_release(struct rlx_arena *a)
{
	dma_buf_put(a->source);
	return true;
}

/*
 * Becomes a mapping of the dma-buf's file, as all of one are: that is where its exporter
 * looks for mappings to take away. The file may be writable where ours is not, but what
 * is mapped by a file that is not is not VM_SHARED, and remap_file_pages(), which would
 * map it anew by that file, wants that. So no mapping may lose the right to be written
 * in any other way: such arenas take no seals against writing.
 */
static int rlx_foreign_mmap(struct rlx_arena *a, struct vm_area_struct *vma)
{
	return dma_buf_mmap(a->source, vma, vma->vm_pgoff);
}

/* Whoever else has the dma-buf, its exporter first of all, may write. */
static int rlx_foreign_seal(struct rlx_arena *a)
{
	return -EBUSY;
}

static const struct rlx_arena_ops rlx_foreign_ops = {
	.foreign	= true,
	.release	= rlx_foreign_release,
	.mmap		= rlx_foreign_mmap,
	.seal		= rlx_foreign_seal,
};

static int rlx_foreign_check(const struct dma_buf *buf,
			     const struct rlx_ioc_arena_create *c)
{
	fmode_t mode = buf->file->f_mode;

	if (c->size != buf->size)
		return -EINVAL;
	if (!(mode & FMODE_READ) ||
	    (!(c->flags & RLX_AF_RDONLY) && !(mode & FMODE_WRITE)))
		return -EACCES;
	return 0;
}

struct rlx_arena *rlx_foreign_arena(struct rlx_session *session,
				    const struct rlx_ioc_arena_create *c)
{
	struct rlx_arena *a;
	struct dma_buf *buf;
	int ret;

	if (c->flags & ~(RLX_AF_RDONLY | RLX_AF_NOEXPORT) || c->addr || c->nodes ||
	    c->numa_node != NUMA_NO_NODE)
		return ERR_PTR(-EINVAL);
	buf = dma_buf_get(c->memfd);
	if (IS_ERR(buf))
		return ERR_CAST(buf);
	ret = rlx_foreign_check(buf, c);
	a = ret ? ERR_PTR(ret) : rlx_arena_new(session, &rlx_foreign_ops, c);
	if (IS_ERR(a)) {
		dma_buf_put(buf);
		return a;
	}
	a->source = buf;
	rlx_arena_publish(a);
	return a;
}

/*
 * The dma-buf itself. Its importers are not asked what they do with it, so it is for who
 * may write, and all of it; when it is given up we are not told, so it is not counted.
 */
long rlx_foreign_export(struct rlx_call *call)
{
	const struct rlx_ioc_arena_export *arg = call->arg;
	struct rlx_arena *a = call->priv;
	struct dma_buf *buf = a->source;

	if (arg->offset || arg->length != a->size)
		return -EINVAL;
	if (!(arg->access & RLX_W))
		return -EACCES;
	if (rlx_arena_seals(a) & RLX_KSEAL_NO_EXPORT)
		return -EPERM;
	call->newfile = get_file(buf->file);
	return 0;
}

long rlx_foreign_sync(struct rlx_arena *a, const struct rlx_ioc_arena_sync *arg)
{
	enum dma_data_direction dir = rlx_sync_direction(arg->access);

	return arg->op == RLX_SYNC_END ? dma_buf_end_cpu_access(a->source, dir) :
					 dma_buf_begin_cpu_access(a->source, dir);
}
