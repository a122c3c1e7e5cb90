// SPDX-License-Identifier: GPL-2.0-only
/*
 * Arenas of pages that were somebody's before: user memory and memfds.
 *
 * What devices wrote is not in any page table, so pages that may be written are
 * marked dirty when they are let go; else reclaim would drop the data.
 */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/pagemap.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <linux/xarray.h>
#include <uapi/linux/falloc.h>
#include <uapi/linux/fcntl.h>

#include "arena.h"
#include "compat.h"
#include "device.h"
#include "pin.h"

/* Pages, or folios, asked for at once. */
#define RLX_PIN_BATCH	512

static bool rlx_pin_writable(const struct rlx_arena *a)
{
	return !(a->flags & RLX_AF_RDONLY);
}

/* What KERNEL arenas are asked for at allocation is looked up here. */
static int rlx_pin_count_huge(struct rlx_arena *a)
{
	unsigned long at;
	struct page *page;

	for (at = 0; at + RLX_HUGE_PAGES <= a->table.nr; at += RLX_HUGE_PAGES) {
		if (rlx_arena_run(a, at, RLX_HUGE_PAGES, &page) ==
		    RLX_HUGE_PAGES &&
		    IS_ALIGNED(page_to_pfn(page), RLX_HUGE_PAGES))
			a->nr_huge++;
		if (rlx_killed())
			return -EINTR;
	}
	if (a->flags & RLX_AF_HUGE_REQUIRE &&
	    a->nr_huge * RLX_HUGE_PAGES != a->table.nr)
		return -ENOMEM;
	return 0;
}

/* Common to both; what differs is the address and the fd. */
static int rlx_pin_check(const struct rlx_ioc_arena_create *c)
{
	u64 end;

	if (c->numa_node != NUMA_NO_NODE || c->nodes ||
	    c->flags & (RLX_AF_NUMA_BIND | RLX_AF_NUMA_INTERLEAVE) ||
	    !PAGE_ALIGNED(c->addr))
		return -EINVAL;
	if (check_add_overflow(c->addr, c->size, &end))
		return -EOVERFLOW;
	return 0;
}

/* How much of the folio at @page belongs to the @left pages that follow. */
static unsigned long rlx_pin_folio_run(struct page *page, unsigned long left)
{
	struct folio *folio = page_folio(page);

	return min_t(unsigned long, left, folio_nr_pages(folio) -
					  folio_page_idx(folio, page));
}

/*
 * A folio of which a part is pinned stays in memory as a whole. Pages of those that
 * are in the arena in part alone, each folio once, without the pages that are in it;
 * 0 or less where those are in it more than once.
 */
static int rlx_pin_count_rest(const struct rlx_arena *a, struct xarray *seen, long *rest)
{
	unsigned long at, n;
	int ret;

	for (at = 0; at < a->table.filled; at += n) {
		struct page *page = rlx_arena_page(a, at);
		struct folio *folio = page_folio(page);
		unsigned long all = folio_nr_pages(folio);

		/* Contiguous in the arena too? */
		n = rlx_arena_run(a, at, rlx_pin_folio_run(page, a->table.filled - at),
				  &page);
		if (rlx_killed())
			return -EINTR;
		if (n == all)
			continue;
		ret = xa_insert(seen, folio_pfn(folio), xa_mk_value(0), GFP_KERNEL_ACCOUNT);
		if (ret && ret != -EBUSY)
			return ret;
		*rest += ret ? -(long)n : (long)(all - n);
	}
	return 0;
}

/* As io_uring does it with its buffers. */
static int rlx_pin_charge_rest(struct rlx_arena *a)
{
	struct xarray seen;
	long rest = 0;
	int ret;

	xa_init_flags(&seen, XA_FLAGS_ACCOUNT);
	ret = rlx_pin_count_rest(a, &seen, &rest);
	xa_destroy(&seen);
	if (ret || rest <= 0)
		return ret;
	return rlx_account_charge_more(&a->charge, rest);
}

/* Publishes what was pinned, or lets it go. */
static struct rlx_arena *rlx_pin_finish(struct rlx_arena *a, int ret)
{
	if (!ret)
		ret = rlx_pin_charge_rest(a);
	if (!ret)
		ret = rlx_pin_count_huge(a);
	if (ret) {
		rlx_arena_put_now(a);
		return ERR_PTR(ret);
	}
	rlx_arena_publish(a);
	return a;
}

/* ---- user memory ------------------------------------------------------- */

static bool rlx_pin_user_release(struct rlx_arena *a)
{
	struct page *page;
	unsigned long n;

	while (a->let_go < a->table.filled) {
		if (rlx_arena_stop())
			return false;
		n = rlx_arena_run(a, a->let_go, min(a->table.filled - a->let_go, RLX_RUN_MAX),
				  &page);
		unpin_user_page_range_dirty_lock(page, n, rlx_pin_writable(a));
		a->let_go += n;
	}
	return true;
}

/* The owner maps them as it likes, and may write. */
static int rlx_pin_user_seal(struct rlx_arena *a)
{
	return -EBUSY;
}

static const struct rlx_arena_ops rlx_pin_user_ops = {
	.release	= rlx_pin_user_release,
	.seal		= rlx_pin_user_seal,
};

/* Pages that follow each other in memory, among @n. */
static unsigned long rlx_pin_run(struct page **pages, unsigned long n)
{
	unsigned long i = 1;

	while (i < n && page_to_pfn(pages[i]) == page_to_pfn(pages[0]) + i)
		i++;
	return i;
}

/* Puts @n pinned pages into the table; those that did not get in are let go. */
static int rlx_pin_append(struct rlx_arena *a, struct page **pages,
			  unsigned long n)
{
	unsigned long first = a->table.filled, at = 0, run;
	int ret = 0;

	while (at < n && !ret) {
		run = rlx_pin_run(pages + at, n - at);
		ret = rlx_table_append(&a->table, pages[at], run);
		at += run;
	}
	at = a->table.filled - first;
	if (at < n)
		unpin_user_pages(pages + at, n - at);
	return ret;
}

static int rlx_pin_user_fill(struct rlx_arena *a, unsigned long addr,
			     struct page **pages)
{
	unsigned int flags = FOLL_LONGTERM;
	long n;
	int ret;

	if (rlx_pin_writable(a))
		flags |= FOLL_WRITE;
	while (a->table.filled < a->table.nr) {
		unsigned long at = a->table.filled;

		if (rlx_killed())
			return -EINTR;
		n = min(a->table.nr - at, (unsigned long)RLX_PIN_BATCH);
		n = pin_user_pages_fast(addr + (at << PAGE_SHIFT), n, flags,
					pages);
		if (n <= 0)
			return n ? n : -EFAULT;
		ret = rlx_pin_append(a, pages, n);
		if (ret)
			return ret;
	}
	return 0;
}

struct rlx_arena *rlx_pin_user_arena(struct rlx_session *session,
				     const struct rlx_ioc_arena_create *c)
{
	struct page **pages;
	struct rlx_arena *a;
	int ret;

	if (c->memfd != -1)
		return ERR_PTR(-EINVAL);
	ret = rlx_pin_check(c);
	if (ret)
		return ERR_PTR(ret);
	if (c->addr + c->size > ULONG_MAX)
		return ERR_PTR(-EFAULT);
	pages = kmalloc_array(RLX_PIN_BATCH, sizeof(*pages), GFP_KERNEL_ACCOUNT);
	if (!pages)
		return ERR_PTR(-ENOMEM);
	a = rlx_arena_new(session, &rlx_pin_user_ops, c);
	if (!IS_ERR(a))
		a = rlx_pin_finish(a, rlx_pin_user_fill(a, c->addr, pages));
	kfree(pages);
	return a;
}

/* ---- memfds ------------------------------------------------------------ */

#ifdef RLX_HAVE_MEMFD_PIN_FOLIOS

/*
 * What such an arena was made of. As long as it may be written it counts as a
 * writable mapping of the memfd (mapping_map_writable()): the memfd cannot be
 * sealed against writing, whatever became of the pages that are pinned.
 */
struct rlx_pin_memfd {
	struct file *file;	/* with a reference */
	struct file *map;	/* the same memory, for vm_file; see there */
	unsigned long first;	/* page of it that is the arena's first */
	bool counted;		/* as a writable mapping */
};

/*
 * fput() by a work item leaves the file to yet another one, and who waited for the end
 * of the arena would find the memory not back. It may be called here: no lock is held,
 * and no other end of ours is within that of a memfd.
 */
static void rlx_pin_fput(struct file *file)
{
	if (current->flags & PF_KTHREAD)
		__fput_sync(file);
	else
		fput(file);
}

static bool rlx_pin_memfd_release(struct rlx_arena *a)
{
	struct rlx_pin_memfd *m = a->source;

	while (a->let_go < a->table.filled) {
		struct page *page = rlx_arena_page(a, a->let_go);
		struct folio *folio = page_folio(page);

		if (rlx_arena_stop())
			return false;
		a->let_go += rlx_pin_folio_run(page, a->table.filled - a->let_go);
		if (rlx_pin_writable(a)) {
			folio_lock(folio);
			folio_mark_dirty(folio);
			folio_unlock(folio);
		}
		unpin_folio(folio);
	}
	if (m->counted)
		mapping_unmap_writable(m->file->f_mapping);
	if (m->map)
		rlx_pin_fput(m->map);
	rlx_pin_fput(m->file);
	kfree(m);
	return true;
}

/*
 * Seals are added with the inode's lock held: who relies on one that is not there
 * holds it shared, who looks for one that is there need not.
 */
static unsigned int rlx_pin_memfd_seals(struct file *memfd)
{
	struct inode *inode = file_inode(memfd);

	return READ_ONCE(*(is_file_hugepages(memfd) ? &HUGETLBFS_I(inode)->seals :
						      &SHMEM_I(inode)->seals));
}

/* A write(2) holds it while its source is faulted in, by a user's pager perhaps. */
static int rlx_pin_memfd_lock(struct rlx_pin_memfd *m)
{
	return down_read_killable(&file_inode(m->file)->i_rwsem) ? -EINTR : 0;
}

/*
 * Who has the memfd maps and writes it as he likes, and what he pinned before he
 * punched a hole nobody can see any more. Only the memfd's own seal keeps all of
 * them out, and it can only be there before an arena: see rlx_pin_memfd_sealed().
 */
static int rlx_pin_memfd_seal(struct rlx_arena *a)
{
	return -EBUSY;
}

/* Whoever seals the memfd means the arena's new mappings, exports and leases too. */
static bool rlx_pin_memfd_write_sealed(const struct rlx_arena *a)
{
	const struct rlx_pin_memfd *m = a->source;

	return rlx_pin_memfd_seals(m->file) & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE);
}

/* ---- mapping a memfd's arena ---- */

static unsigned long rlx_pin_area(struct file *memfd, unsigned long addr,
				  unsigned long len, unsigned long pgoff,
				  unsigned long flags)
{
	const struct file_operations *fops = file_inode(memfd)->i_fop;

	return fops->get_unmapped_area(memfd, addr, len, pgoff, flags);
}

/*
 * Mappings of a MEMFD arena are mappings of the memfd, with its vm_ops, so that they
 * are pages that rmap finds where they are (a hole that is punched unmaps them; one of
 * ours that showed the pinned page after that would be a mapped page without a
 * mapping, which mm calls bad, and whose table khugepaged would take away). But their
 * file is none that anybody could map by himself: mm maps vm_file again, at any
 * offset, where remap_file_pages() asks. This one, without mmap, fallocate and all
 * else, refuses; and no descriptor ever is of it.
 */
static const struct file_operations rlx_pin_map_fops = {
	.owner			= THIS_MODULE,
	.get_unmapped_area	= rlx_pin_area,
};

static const struct file_operations rlx_pin_map_huge_fops = {
	.owner			= THIS_MODULE,
	.get_unmapped_area	= rlx_pin_area,
	.fop_flags		= FOP_HUGE_PAGES,
};

static struct file *rlx_pin_map_new(struct file *memfd, bool write)
{
	struct file *file;

	file = dentry_open(&memfd->f_path, (write ? O_RDWR : O_RDONLY) | O_LARGEFILE,
			   current_cred());
	if (IS_ERR(file))
		return file;
	/* Given back by the last fput(). */
	__module_get(THIS_MODULE);
	replace_fops(file, is_file_hugepages(memfd) ? &rlx_pin_map_huge_fops :
						      &rlx_pin_map_fops);
	return file;
}

/*
 * Such a mapping does not keep the arena, and need not: the memfd keeps the pages. It
 * is added to the memfd's writable ones without being asked whether there may be any:
 * that there may, the arena stands for (counted), which the caller's file keeps.
 */
static int rlx_pin_memfd_mmap(struct rlx_arena *a, struct vm_area_struct *vma)
{
	struct rlx_pin_memfd *m = a->source;

	if (is_file_hugepages(m->file) &&
	    !IS_ALIGNED(vma->vm_start | vma->vm_end,
			huge_page_size(hstate_file(m->file))))
		return -EINVAL;
	if (!m->counted || rlx_arena_write_sealed(a)) {
		if (vma->vm_flags & VM_WRITE)
			return -EPERM;
		rlx_vm_flags_clear(vma, VM_MAYWRITE);
	}
	vma->vm_pgoff += m->first;
	vma_set_file(vma, m->map);
	return rlx_call_mmap(m->file, vma);
}

static unsigned long rlx_pin_memfd_area(struct rlx_arena *a, struct file *file,
					unsigned long addr, unsigned long len,
					unsigned long pgoff, unsigned long flags)
{
	struct rlx_pin_memfd *m = a->source;

	return rlx_pin_area(m->file, addr, len, pgoff + m->first, flags);
}

static const struct rlx_arena_ops rlx_pin_memfd_ops = {
	.release	= rlx_pin_memfd_release,
	.mmap		= rlx_pin_memfd_mmap,
	.area		= rlx_pin_memfd_area,
	.seal		= rlx_pin_memfd_seal,
	.write_sealed	= rlx_pin_memfd_write_sealed,
};

/*
 * Puts @n pinned folios into the table. The first may begin @skip pages before
 * what was asked for, the last end behind. A folio of which a part is in the
 * table is the release's to unpin; the others are let go.
 */
static int rlx_pin_folios(struct rlx_arena *a, struct folio **folios, long n,
			  unsigned long skip)
{
	int ret = 0;
	long i;

	for (i = 0; i < n && !ret; i++) {
		unsigned long first = a->table.filled;
		unsigned long take = folio_nr_pages(folios[i]) - skip;

		ret = rlx_table_append(&a->table, folio_page(folios[i], skip),
				       min(a->table.nr - first, take));
		if (a->table.filled == first)
			break;
		skip = 0;
	}
	if (i < n)
		unpin_folios(folios + i, n - i);
	return ret;
}

static int rlx_pin_memfd_fill(struct rlx_arena *a, struct folio **folios)
{
	struct rlx_pin_memfd *m = a->source;
	loff_t last = ((loff_t)(m->first + a->table.nr) << PAGE_SHIFT) - 1;
	pgoff_t offset;
	loff_t start;
	long n;
	int ret;

	while (a->table.filled < a->table.nr) {
		if (rlx_killed())
			return -EINTR;
		start = (loff_t)(m->first + a->table.filled) << PAGE_SHIFT;
		n = memfd_pin_folios(m->file, start, last, folios,
				     RLX_PIN_BATCH, &offset);
		if (n <= 0)
			return n ? n : -EINVAL;
		ret = rlx_pin_folios(a, folios, n, offset >> PAGE_SHIFT);
		if (ret)
			return ret;
	}
	return 0;
}

/*
 * Kernels before 6.17 fill a hole in a hugetlb memfd with a page that another
 * one has reserved, and lose count, or stop at a BUG(). So holes are filled
 * here first, with a reservation, and none may be left: under the inode's lock
 * nobody punches one.
 */
static int rlx_pin_huge_fill(struct file *memfd,
			     const struct rlx_ioc_arena_create *c)
{
	int ret;

	/* Looked at again under the lock; here it keeps the file as it is. */
	if (c->addr + c->size > i_size_read(file_inode(memfd)))
		return -EINVAL;
	if (c->flags & RLX_AF_RDONLY)
		return 0;
	ret = vfs_fallocate(memfd, FALLOC_FL_KEEP_SIZE, c->addr, c->size);
	switch (ret) {
	case -ENOSPC:
		return -ENOMEM;
	case -EPERM:	/* sealed against writing */
	case -EFBIG:
		return -EINVAL;
	default:
		return ret;
	}
}

static int rlx_pin_huge_present(struct file *memfd,
				const struct rlx_ioc_arena_create *c)
{
	unsigned long step = pages_per_huge_page(hstate_file(memfd));
	pgoff_t at = round_down(c->addr >> PAGE_SHIFT, step);
	pgoff_t end = (c->addr + c->size) >> PAGE_SHIFT;
	struct folio *folio;

	for (; at < end; at += step) {
		folio = filemap_get_folio(memfd->f_mapping, at);
		if (IS_ERR(folio))
			return -EINVAL;
		folio_put(folio);
		if (rlx_killed())
			return -EINTR;
	}
	return 0;
}

/* What must hold of the seals as long as the pages are being pinned. */
static int rlx_pin_memfd_check(struct file *memfd,
			       const struct rlx_ioc_arena_create *c)
{
	unsigned int seals = rlx_pin_memfd_seals(memfd);

	if (!(seals & F_SEAL_SHRINK))
		return -EINVAL;
	if (!(c->flags & RLX_AF_RDONLY) &&
	    seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		return -EINVAL;
	if (c->addr + c->size > i_size_read(file_inode(memfd)))
		return -EINVAL;
	return is_file_hugepages(memfd) ? rlx_pin_huge_present(memfd, c) : 0;
}

/* An arena that owns a reference to @memfd; without pages yet. */
static struct rlx_arena *rlx_pin_memfd_new(struct rlx_session *session,
					   struct file *memfd,
					   const struct rlx_ioc_arena_create *c)
{
	struct rlx_pin_memfd *m;
	struct rlx_arena *a;

	m = kzalloc(sizeof(*m), GFP_KERNEL_ACCOUNT);
	if (!m)
		return ERR_PTR(-ENOMEM);
	a = rlx_arena_new(session, &rlx_pin_memfd_ops, c);
	if (IS_ERR(a)) {
		kfree(m);
		return a;
	}
	m->file = get_file(memfd);
	m->first = c->addr >> PAGE_SHIFT;
	a->source = m;
	m->map = rlx_pin_map_new(memfd, rlx_pin_writable(a));
	if (IS_ERR(m->map)) {
		struct file *err = m->map;

		m->map = NULL;
		rlx_arena_put_now(a);
		return ERR_CAST(err);
	}
	return a;
}

/*
 * With the inode's lock: the memfd's seals do not change. A page that is still in a
 * memfd sealed against writing is pinned for writing by nobody: the seal was refused
 * while one was, and nobody can map for writing since, nor punch a hole. So the arena
 * is sealed too, and INFO tells its peers.
 */
static int rlx_pin_memfd_claim(struct rlx_arena *a)
{
	struct rlx_pin_memfd *m = a->source;

	if (!rlx_pin_writable(a)) {
		if (rlx_pin_memfd_seals(m->file) & F_SEAL_WRITE)
			rlx_arena_born_sealed(a);
		return 0;
	}
	/* What the seals said; they and this count go together. */
	if (mapping_map_writable(m->file->f_mapping))
		return -EINVAL;
	m->counted = true;
	return 0;
}

/*
 * The lock is held across check and pinning: a write seal added between the two
 * would not see our pins. Afterwards it does, and is refused.
 */
static int rlx_pin_memfd_pages(struct rlx_arena *a,
			       const struct rlx_ioc_arena_create *c)
{
	struct rlx_pin_memfd *m = a->source;
	struct folio **folios;
	int ret;

	if (is_file_hugepages(m->file)) {
		ret = rlx_pin_huge_fill(m->file, c);
		if (ret)
			return ret;
	}
	folios = kmalloc_array(RLX_PIN_BATCH, sizeof(*folios), GFP_KERNEL_ACCOUNT);
	if (!folios)
		return -ENOMEM;
	ret = rlx_pin_memfd_lock(m);
	if (ret)
		goto out_free;
	ret = rlx_pin_memfd_check(m->file, c);
	if (!ret)
		ret = rlx_pin_memfd_claim(a);
	if (!ret)
		ret = rlx_pin_memfd_fill(a, folios);
	inode_unlock_shared(file_inode(m->file));
out_free:
	kfree(folios);
	return ret;
}

static int rlx_pin_memfd_kind(struct file *memfd,
			      const struct rlx_ioc_arena_create *c)
{
	if (!shmem_file(memfd) && !is_file_hugepages(memfd))
		return -EBADFD;
	if (!(memfd->f_mode & FMODE_READ))
		return -EACCES;
	if (!(c->flags & RLX_AF_RDONLY) && !(memfd->f_mode & FMODE_WRITE))
		return -EACCES;
	return 0;
}

struct rlx_arena *rlx_pin_memfd_arena(struct rlx_session *session,
				      const struct rlx_ioc_arena_create *c)
{
	struct rlx_arena *a;
	struct file *memfd;
	int ret;

	ret = rlx_pin_check(c);
	if (ret)
		return ERR_PTR(ret);
	memfd = fget(c->memfd);
	if (!memfd)
		return ERR_PTR(-EBADF);
	ret = rlx_pin_memfd_kind(memfd, c);
	a = ret ? ERR_PTR(ret) : rlx_pin_memfd_new(session, memfd, c);
	fput(memfd);
	if (IS_ERR(a))
		return a;
	return rlx_pin_finish(a, rlx_pin_memfd_pages(a, c));
}
#else
struct rlx_arena *rlx_pin_memfd_arena(struct rlx_session *session,
				      const struct rlx_ioc_arena_create *c)
{
	return ERR_PTR(-EOPNOTSUPP);
}
#endif
