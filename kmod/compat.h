/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The differences between kernels, and the only place that knows them. What is
 * asked here was answered by conftest.sh.
 */
#ifndef RLX_COMPAT_H
#define RLX_COMPAT_H

#include <linux/eventfd.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>

#include "rlx_conf.h"

#ifdef RLX_HAVE_IO_URING_CMD_H
#include <linux/io_uring/cmd.h>
#else
#include <linux/io_uring.h>
#endif

/*
 * Commands are parked where the task work that sends one back from io-wq has uring_lock:
 * from 6.10. Before, a cancel may come into the middle of parking, and what is sent back
 * again for want of the lock may be run again at once, for ever.
 */
#ifdef RLX_HAVE_TW_UNLOCKED
#undef RLX_HAVE_CMD_CANCELABLE
#endif

/* ---- memory ----------------------------------------------------------- */

/* What a PMD maps; MAX_ORDER has meant three things. */
#define RLX_HUGE_ORDER	(PMD_SHIFT - PAGE_SHIFT)
#define RLX_HUGE_PAGES	(1UL << RLX_HUGE_ORDER)

/* The page @n after @page in physical memory: nth_page() went with 7.2. */
static inline struct page *rlx_page_after(struct page *page, unsigned long n)
{
	return pfn_to_page(page_to_pfn(page) + n);
}

/* Private, and may become writable: is_cow_mapping() went with 7.3. */
static inline bool rlx_vma_is_cow(const struct vm_area_struct *vma)
{
	return (vma->vm_flags & (VM_SHARED | VM_MAYWRITE)) == VM_MAYWRITE;
}

static inline void rlx_vm_flags_set(struct vm_area_struct *vma,
				    unsigned long flags)
{
#ifdef RLX_HAVE_VM_FLAGS_SET
	vm_flags_set(vma, flags);
#else
	vma->vm_flags |= flags;
#endif
}

static inline void rlx_vm_flags_clear(struct vm_area_struct *vma,
				      unsigned long flags)
{
#ifdef RLX_HAVE_VM_FLAGS_SET
	vm_flags_clear(vma, flags);
#else
	vma->vm_flags &= ~flags;
#endif
}

/* Sets, then clears. */
static inline void rlx_vm_flags_mod(struct vm_area_struct *vma,
				    unsigned long set, unsigned long clear)
{
	rlx_vm_flags_set(vma, set);
	rlx_vm_flags_clear(vma, clear);
}

/* The mmap of another file, from ours. */
static inline int rlx_call_mmap(struct file *file, struct vm_area_struct *vma)
{
#ifdef RLX_HAVE_VFS_MMAP
	return vfs_mmap(file, vma);
#else
	return call_mmap(file, vma);
#endif
}

/*
 * Where to map @len bytes of @file: so that huge pages fit, or anywhere on kernels
 * without them, as Debian's PREEMPT_RT.
 */
static inline unsigned long
rlx_huge_area(struct file *file, unsigned long addr, unsigned long len,
	      unsigned long pgoff, unsigned long flags)
{
#if defined(CONFIG_TRANSPARENT_HUGEPAGE)
	return thp_get_unmapped_area(file, addr, len, pgoff, flags);
#elif defined(RLX_HAVE_MM_AREA_OF_FILE)
	return mm_get_unmapped_area(file, addr, len, pgoff, flags);
#elif defined(RLX_HAVE_MM_AREA)
	return mm_get_unmapped_area(current->mm, file, addr, len, pgoff, flags);
#else
	return current->mm->get_unmapped_area(file, addr, len, pgoff, flags);
#endif
}

/* First argument of inode operations. */
#ifdef RLX_HAVE_SETATTR_IDMAP
#define rlx_mnt_idmap	mnt_idmap
#else
#define rlx_mnt_idmap	user_namespace
#endif

/* ---- timers ------------------------------------------------------------ */

static inline void
rlx_hrtimer_setup(struct hrtimer *timer,
		  enum hrtimer_restart (*fn)(struct hrtimer *),
		  clockid_t clock, enum hrtimer_mode mode)
{
#ifdef RLX_HAVE_HRTIMER_SETUP
	hrtimer_setup(timer, fn, clock, mode);
#else
	hrtimer_init(timer, clock, mode);
	timer->function = fn;
#endif
}

/* ---- eventfd, namespaces ---------------------------------------------- */

static inline void rlx_eventfd_signal(struct eventfd_ctx *ctx)
{
#ifdef RLX_HAVE_EVENTFD_SIGNAL_N
	eventfd_signal(ctx, 1);
#else
	eventfd_signal(ctx);
#endif
}

#ifdef RLX_HAVE_IMPORT_NS_IDENT
#define RLX_IMPORT_DMA_BUF	MODULE_IMPORT_NS(DMA_BUF)
#else
#define RLX_IMPORT_DMA_BUF	MODULE_IMPORT_NS("DMA_BUF")
#endif

/* ---- io_uring commands ------------------------------------------------ */

/* The payload of a 64-byte entry (16 bytes) and of a 128-byte one (80). */
#if defined(RLX_HAVE_SQE_CMD_TYPE)
#define rlx_cmd_payload(cmd, type)	io_uring_sqe_cmd((cmd)->sqe, type)
#define rlx_cmd_payload128(cmd, type)	io_uring_sqe128_cmd((cmd)->sqe, type)
#elif defined(RLX_HAVE_SQE_CMD)
#define rlx_cmd_payload(cmd, type) \
	((const type *)io_uring_sqe_cmd((cmd)->sqe))
#define rlx_cmd_payload128(cmd, type)	rlx_cmd_payload(cmd, type)
#else
#define rlx_cmd_payload(cmd, type)	((const type *)(cmd)->cmd)
#define rlx_cmd_payload128(cmd, type)	rlx_cmd_payload(cmd, type)
#endif

#ifdef RLX_HAVE_CMD_TO_PDU
#define rlx_cmd_pdu(cmd, type)		io_uring_cmd_to_pdu(cmd, type)
#else
#define rlx_cmd_pdu(cmd, type) ({					\
	BUILD_BUG_ON(sizeof(type) > sizeof_field(struct io_uring_cmd, pdu)); \
	(type *)&(cmd)->pdu;						\
})
#endif

/*
 * Completes @cmd, once. Takes the ring's mutex if @flags has IO_URING_F_UNLOCKED
 * and the command is cancelable: never under a spinlock.
 */
static inline void rlx_cmd_done(struct io_uring_cmd *cmd, s32 ret,
				unsigned int flags)
{
#ifdef RLX_HAVE_CMD_DONE_RES2
	io_uring_cmd_done(cmd, ret, 0, flags);
#else
	io_uring_cmd_done(cmd, ret, flags);
#endif
}

/* The same with the second result that a ring of 32-byte CQEs shows. */
static inline void rlx_cmd_done32(struct io_uring_cmd *cmd, s32 ret, u64 res2,
				  unsigned int flags)
{
#ifdef RLX_HAVE_CMD_DONE_RES2
	io_uring_cmd_done(cmd, ret, res2, flags);
#else
	io_uring_cmd_done32(cmd, ret, res2, flags);
#endif
}

/*
 * Defines the task work NAME for io_uring_cmd_complete_in_task(): BODY(cmd,
 * flags, dead) is called in the submitter's task, or with dead set where that
 * task is on its way out and its memory must not be touched.
 */
#ifdef RLX_HAVE_CMD_TW_REQ
#define RLX_DEFINE_TW(name, body)					\
static void name(struct io_tw_req tw_req, io_tw_token_t tw)		\
{									\
	body(io_uring_cmd_from_tw(tw_req),				\
	     IO_URING_CMD_TASK_WORK_ISSUE_FLAGS, tw.cancel);		\
}
#elif defined(RLX_HAVE_TASK_DEAD)
#define RLX_DEFINE_TW(name, body)					\
static void name(struct io_uring_cmd *cmd, unsigned int flags)		\
{									\
	body(cmd, flags & ~IO_URING_F_TASK_DEAD,			\
	     !!(flags & IO_URING_F_TASK_DEAD));				\
}
#else
#define RLX_DEFINE_TW(name, body)					\
static void name(struct io_uring_cmd *cmd, unsigned int flags)		\
{									\
	body(cmd, flags, !!(current->flags & (PF_EXITING | PF_KTHREAD))); \
}
#endif

/*
 * From 6.10 a command may be parked: the ring's end cancels it by calling
 * ->uring_cmd with IO_URING_F_CANCEL.
 */
#ifdef RLX_HAVE_CMD_CANCELABLE
#define RLX_CMD_CANCEL		IO_URING_F_CANCEL
static inline void rlx_cmd_mark_cancelable(struct io_uring_cmd *cmd,
					   unsigned int flags)
{
	io_uring_cmd_mark_cancelable(cmd, flags);
}
#else
#define RLX_CMD_CANCEL		0U
#endif

/* From 6.18 one may be answered many times, each time in a buffer of the ring's. */
#ifdef RLX_HAVE_CMD_MSHOT
#define rlx_cmd_is_mshot(cmd)	(!!((cmd)->flags & IORING_URING_CMD_MULTISHOT))
#else
#define rlx_cmd_is_mshot(cmd)	false
#endif

#endif
