// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mappings of arenas: struct pages by fault, so that they are huge where the
 * pages are, and can be pinned for as long as a device likes.
 */
#include <linux/fs.h>
#include <linux/mm.h>

#include "arena.h"
#include "compat.h"

/*
 * A mapping that may be made writable counts as a writer all its life: mprotect
 * asks nobody. A split or fork() makes another one of what is there.
 */
static void rlx_mmap_open(struct vm_area_struct *vma)
{
	struct rlx_arena *a = vma->vm_file->private_data;

	if (vma->vm_flags & VM_MAYWRITE)
		rlx_arena_writer_copy(a);
}

static void rlx_mmap_close(struct vm_area_struct *vma)
{
	struct rlx_arena *a = vma->vm_file->private_data;

	if (vma->vm_flags & VM_MAYWRITE)
		rlx_arena_writer_put(a);
}

/* No lock: the table does not change, and the VMA holds the file. */
static vm_fault_t rlx_mmap_fault(struct vm_fault *vmf)
{
	struct rlx_arena *a = vmf->vma->vm_file->private_data;
	struct page *page = rlx_arena_page(a, vmf->pgoff);

	if (!page)
		return VM_FAULT_SIGBUS;
	get_page(page);
	vmf->page = page;
	return 0;
}

/* No page_mkwrite and no access: either would keep mappings from being pinned. */
static const struct vm_operations_struct rlx_mmap_ops = {
	.open	= rlx_mmap_open,
	.close	= rlx_mmap_close,
	.fault	= rlx_mmap_fault,
};

int rlx_arena_mmap_pages(struct rlx_arena *a, struct vm_area_struct *vma)
{
	if (vma->vm_flags & VM_MAYWRITE && rlx_arena_writer_get(a)) {
		if (vma->vm_flags & VM_WRITE)
			return -EPERM;
		rlx_vm_flags_clear(vma, VM_MAYWRITE);
	}
	vma->vm_ops = &rlx_mmap_ops;
	return 0;
}

int rlx_arena_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct rlx_arena *a = file->private_data;
	unsigned long pages = a->size >> PAGE_SHIFT;

	if (!a->ops->mmap)
		return -ENODEV;
	if (!(vma->vm_flags & VM_MAYSHARE) || rlx_vma_is_cow(vma))
		return -EINVAL;
	if (vma->vm_pgoff >= pages || vma_pages(vma) > pages - vma->vm_pgoff)
		return -EINVAL;
	rlx_vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	return a->ops->mmap(a, vma);
}
