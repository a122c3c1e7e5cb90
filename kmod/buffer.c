// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ranges of arenas as fixed buffers of io_uring rings: the arena's own pages, which
 * nobody maps, pins or pays for again.
 *
 * The ring lets a buffer go where it likes: with the entry of its table, at the end of
 * the last request that uses it, or of the last ring that has a clone of it.
 */
#include <linux/bvec.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "arena.h"
#include "buffer.h"
#include "compat.h"
#include "device.h"
#include "ioctl.h"

#ifdef RLX_HAVE_BUFFER_BVEC

/* As large as io_uring lets those of user memory be. */
#define RLX_BUFFER_BYTES_MAX	SZ_1G

struct rlx_buffer {
	struct rlx_arena *arena;	/* rlx_arena_buffer_get() */
	u32 access;
};

/*
 * Some context that may hold the ring's lock. The module outlives this call: the arena
 * keeps it until its work item has run, and leaving waits for who is here.
 */
static void rlx_buffer_release(void *priv)
{
	struct rlx_buffer *b = priv;
	struct rlx_arena *a = b->arena;
	u32 access = b->access;

	kfree(b);
	rlx_arena_buffer_put(a, access);
}

/*
 * One entry for each piece of a folio: what the network takes of an entry it takes one
 * reference for. Without @bv they are only counted. It stops short where the caller is
 * killed: a user says how many there are.
 */
static unsigned int rlx_buffer_fill(const struct rlx_arena *a, u64 offset, u64 length,
				    struct bio_vec *bv)
{
	unsigned int n = 0;

	for (; length && !rlx_killed(); n++) {
		unsigned long at = offset >> PAGE_SHIFT, run;
		size_t skip = offset_in_page(offset), take;
		struct page *page;
		struct folio *folio;

		page = rlx_arena_page(a, at);
		if (WARN_ON_ONCE(!page))
			return 0;
		/* No run is followed beyond the folio: neighbours would be walked for each. */
		folio = page_folio(page);
		run = folio_nr_pages(folio) - folio_page_idx(folio, page);
		run = min_t(u64, run, DIV_ROUND_UP(skip + length, PAGE_SIZE));
		run = rlx_arena_run(a, at, run, &page);
		take = min_t(u64, length, (run << PAGE_SHIFT) - skip);
		if (bv)
			bvec_set_page(&bv[n], page, take, skip);
		offset += take;
		length -= take;
	}
	return n;
}

/* What the ring may do: take data out of the buffer, put some into it. */
static u8 rlx_buffer_dir(u32 access)
{
	return (access & RLX_R ? IO_BUF_SOURCE : 0) | (access & RLX_W ? IO_BUF_DEST : 0);
}

static int rlx_buffer_check(struct io_uring_cmd *cmd,
			    const struct rlx_ioc_buffer_register *r)
{
	struct rlx_arena *a = cmd->file->private_data;
	int ret;

	/* Memory of somebody else's, which may be no pages at all. */
	if (a->ops->foreign)
		return -ENODEV;
	if (!r->access || r->access & ~(RLX_R | RLX_W) || !RLX_IS_ZERO(r->reserved))
		return -EINVAL;
	ret = rlx_arena_check_range(a, r->offset, r->length);
	if (ret)
		return ret;
	if (r->length > RLX_BUFFER_BYTES_MAX)
		return -EINVAL;
	if (r->access & RLX_W && !(cmd->file->f_mode & FMODE_WRITE))
		return -EACCES;
	return 0;
}

static int rlx_buffer_register(struct io_uring_cmd *cmd, const void __user *from,
			       unsigned int flags)
{
	struct rlx_arena *a = cmd->file->private_data;
	struct rlx_ioc_buffer_register r;
	struct rlx_buffer *b;
	struct bio_vec *bv;
	unsigned int nr;
	int ret;

	if (copy_from_user(&r, from, sizeof(r)))
		return -EFAULT;
	ret = rlx_buffer_check(cmd, &r);
	if (ret)
		return ret;
	nr = rlx_buffer_fill(a, r.offset, r.length, NULL);
	if (rlx_killed())
		return -EINTR;
	bv = kvmalloc_array(nr, sizeof(*bv), GFP_KERNEL_ACCOUNT);
	b = kmalloc(sizeof(*b), GFP_KERNEL_ACCOUNT);
	ret = bv && b ? rlx_arena_buffer_get(a, r.access) : -ENOMEM;
	if (ret)
		goto out_free;
	b->arena = a;
	b->access = r.access;
	rlx_buffer_fill(a, r.offset, r.length, bv);
	ret = rlx_killed() ? -EINTR : 0;
	if (ret)
		goto out_put;
	/* Copies @bv; from success on @b is the ring's, and may be gone. */
	ret = io_buffer_register_bvec(cmd, bv, nr, rlx_buffer_release, b,
				      rlx_buffer_dir(r.access), r.index, flags);
	if (!ret)
		b = NULL;
out_put:
	if (ret)
		rlx_arena_buffer_put(a, r.access);
out_free:
	kfree(b);
	kvfree(bv);
	return ret;
}

/* Whose buffer it is does not matter: the table is the caller's. */
static int rlx_buffer_unregister(struct io_uring_cmd *cmd, const void __user *from,
				 unsigned int flags)
{
	struct rlx_ioc_buffer_unregister u;

	if (copy_from_user(&u, from, sizeof(u)))
		return -EFAULT;
	if (u.pad || u.reserved)
		return -EINVAL;
	return io_buffer_unregister(cmd, u.index, flags);
}

int rlx_arena_uring_cmd(struct io_uring_cmd *cmd, unsigned int flags)
{
	const struct rlx_uring_cmd *p = rlx_cmd_payload(cmd, struct rlx_uring_cmd);
	const void __user *from = u64_to_user_ptr(READ_ONCE(p->addr));

	if (cmd->cmd_op != RLX_IOC_BUFFER_REGISTER &&
	    cmd->cmd_op != RLX_IOC_BUFFER_UNREGISTER)
		return -EOPNOTSUPP;
	if (READ_ONCE(p->flags) || READ_ONCE(p->pad))
		return -EINVAL;
	return cmd->cmd_op == RLX_IOC_BUFFER_REGISTER ?
	       rlx_buffer_register(cmd, from, flags) :
	       rlx_buffer_unregister(cmd, from, flags);
}

#else

int rlx_arena_uring_cmd(struct io_uring_cmd *cmd, unsigned int flags)
{
	return -EOPNOTSUPP;
}

#endif
