// SPDX-License-Identifier: GPL-2.0-only
/* Arenas: their life, their counts, and the ioctls on their fds. */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/overflow.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "arena.h"
#include "buffer.h"
#include "compat.h"
#include "device.h"
#include "dmabuf.h"
#include "foreign.h"
#include "fs.h"
#include "ioctl.h"
#include "pin.h"
#include "session.h"
#include "testing.h"
#include "trace.h"

/* Added to a count by its seal: below 0 from then on, and still a count. */
#define RLX_ARENA_SEALED	(LONG_MIN / 2)

#define RLX_ARENA_WRITE_SEALS	(RLX_KSEAL_NO_WRITE | RLX_KSEAL_FUTURE_WRITE)

/* How long who is refused waits for what is ending; in jiffies. */
#define RLX_ARENA_END_WAIT	(2 * HZ)

#define RLX_ARENA_NUMA_FLAGS	(RLX_AF_NUMA_BIND | RLX_AF_NUMA_INTERLEAVE)

static const struct file_operations rlx_arena_fops;

/* ---- life -------------------------------------------------------------- */

static int rlx_arena_count(struct rlx_session *session)
{
	int max = READ_ONCE(rlx_max_arenas);

	if (atomic_inc_return(&session->arenas) > max) {
		atomic_dec(&session->arenas);
		return -ENOSPC;
	}
	return 0;
}

static void rlx_arena_free(struct rlx_arena *a)
{
	rlx_table_fini(&a->table);
	if (a->inode)
		rlx_fs_inode_free(a->inode);
	rlx_account_uncharge(&a->charge);
	atomic_dec(&a->session->arenas);
	rlx_session_put(a->session);
	mutex_destroy(&a->export_lock);
	mutex_destroy(&a->seal_lock);
	kfree(a);
}

/* What is in memory for its sake. */
static u64 rlx_arena_own_bytes(const struct rlx_arena *a)
{
	return (u64)a->table.nr << PAGE_SHIFT;
}

static void rlx_arena_retract(struct rlx_arena *a)
{
	mutex_lock(&rlx_dev.lock);
	list_del(&a->node);
	mutex_unlock(&rlx_dev.lock);
	/* Before the counts: who reads there that it is gone finds it in the trace as well. */
	trace_rlx_arena_free(a->id, a->size, a->nr_huge);
	rlx_stat_dec(RLX_STAT_ARENAS);
	rlx_stat_add(RLX_STAT_BYTES, -(s64)rlx_arena_own_bytes(a));
	rlx_stat_add(RLX_STAT_HUGE_BYTES,
		     -(s64)((u64)a->nr_huge << PMD_SHIFT));
}

/* How many there are, sealed or not. */
static long rlx_arena_counted(long word)
{
	return word < 0 ? word - RLX_ARENA_SEALED : word;
}

long rlx_arena_nr_leases(const struct rlx_arena *a)
{
	return rlx_arena_counted(atomic_long_read(&a->leases));
}

long rlx_arena_nr_exports(const struct rlx_arena *a)
{
	return rlx_arena_counted(atomic_long_read(&a->exports));
}

long rlx_arena_nr_buffers(const struct rlx_arena *a)
{
	return atomic_long_read(&a->buffers);
}

bool rlx_arena_stop(void)
{
	rlx_stall("arena-lets-go");
	return rlx_killed();
}

/* False: the task was killed meanwhile, and somebody else is to do the rest. */
static bool rlx_arena_end(struct rlx_arena *a)
{
	WARN_ON_ONCE(rlx_arena_counted(atomic_long_read(&a->writers)));
	WARN_ON_ONCE(rlx_arena_nr_leases(a));
	WARN_ON_ONCE(rlx_arena_nr_exports(a));
	WARN_ON_ONCE(rlx_arena_nr_buffers(a));
	if ((a->table.top || a->source) && !a->ops->release(a))
		return false;
	/* Only now, for it is counted as long as it has memory. */
	if (!list_empty(&a->node))
		rlx_arena_retract(a);
	rlx_arena_free(a);
	return true;
}

static void rlx_arena_put_work(struct work_struct *work)
{
	struct rlx_arena *a = container_of(work, struct rlx_arena, put_work);
	struct rlx_arena_ending ending = { .seq = a->ending.seq };	/* outlives @a */

	spin_lock_irq(&rlx_dev.end_lock);
	list_replace(&a->ending.node, &ending.node);
	spin_unlock_irq(&rlx_dev.end_lock);
	rlx_stall("arena-ends");
	while (!rlx_arena_end(a))	/* nobody kills a worker */
		;
	spin_lock_irq(&rlx_dev.end_lock);
	list_del(&ending.node);
	spin_unlock_irq(&rlx_dev.end_lock);
	wake_up_all(&rlx_dev.ended);
}

static void rlx_arena_end_later(struct kref *ref)
{
	struct rlx_arena *a = container_of(ref, struct rlx_arena, ref);
	unsigned long flags;

	spin_lock_irqsave(&rlx_dev.end_lock, flags);
	a->ending.seq = ++rlx_dev.end_seq;
	list_add_tail(&a->ending.node, &rlx_dev.ending);
	spin_unlock_irqrestore(&rlx_dev.end_lock, flags);
	queue_work(rlx_dev.end_wq, &a->put_work);
}

u64 rlx_arena_end_seq(void)
{
	const struct rlx_arena_ending *first;
	u64 seq;

	spin_lock_irq(&rlx_dev.end_lock);
	first = list_first_entry_or_null(&rlx_dev.ending, struct rlx_arena_ending, node);
	seq = first ? first->seq : rlx_dev.end_seq + 1;
	spin_unlock_irq(&rlx_dev.end_lock);
	return seq;
}

/*
 * For those that were ending when it was refused, so that later deaths cannot make it
 * longer, and not for ever: an end may be huge, or stuck in what is not ours, and it is
 * some other user's perhaps. One that came to its end between the refusal and this look
 * left its room after the refusal, which is why @first is from before.
 */
bool rlx_arena_wait_ended(u64 first)
{
	u64 last;

	spin_lock_irq(&rlx_dev.end_lock);
	last = rlx_dev.end_seq;
	spin_unlock_irq(&rlx_dev.end_lock);
	if (first > last)
		return false;
	return wait_event_killable_timeout(rlx_dev.ended, rlx_arena_end_seq() > last,
					   RLX_ARENA_END_WAIT) >= 0;
}

static void rlx_arena_end_now(struct kref *ref)
{
	if (!rlx_arena_end(container_of(ref, struct rlx_arena, ref)))
		rlx_arena_end_later(ref);
}

struct rlx_arena *rlx_arena_get(struct rlx_arena *a)
{
	kref_get(&a->ref);
	return a;
}

void rlx_arena_put(struct rlx_arena *a)
{
	kref_put(&a->ref, rlx_arena_end_later);
}

/*
 * Who is killed, before or meanwhile, or exits, is not to wait for a million pages: they
 * stay charged until the work item has let them go, which so bounds what can be put off.
 */
void rlx_arena_put_now(struct rlx_arena *a)
{
	bool dying = current->flags & PF_EXITING || fatal_signal_pending(current);

	might_sleep();
	kref_put(&a->ref, dying ? rlx_arena_end_later : rlx_arena_end_now);
}

static void rlx_arena_init(struct rlx_arena *a,
			   const struct rlx_ioc_arena_create *c)
{
	kref_init(&a->ref);
	a->id = rlx_id_new();
	a->size = c->size;
	a->cookie = c->cookie;
	a->kind = c->kind;
	a->flags = c->flags;
	if (c->flags & RLX_AF_NOEXPORT) {
		a->seals = RLX_KSEAL_NO_EXPORT;
		atomic_long_set(&a->exports, RLX_ARENA_SEALED);
	}
	mutex_init(&a->seal_lock);
	mutex_init(&a->export_lock);
	INIT_LIST_HEAD(&a->export_list);
	INIT_LIST_HEAD(&a->node);
	INIT_WORK(&a->put_work, rlx_arena_put_work);
}

struct rlx_arena *rlx_arena_new(struct rlx_session *session,
				const struct rlx_arena_ops *ops,
				const struct rlx_ioc_arena_create *c)
{
	struct rlx_arena *a;
	int ret;

	ret = rlx_arena_count(session);
	if (ret)
		return ERR_PTR(ret);
	a = kzalloc(sizeof(*a), GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_RETRY_MAYFAIL);
	if (!a) {
		atomic_dec(&session->arenas);
		return ERR_PTR(-ENOMEM);
	}
	rlx_arena_init(a, c);
	a->session = rlx_session_get(session);
	a->ops = ops;

	if (!ops->foreign) {
		ret = rlx_account_charge(&a->charge, session, c->size >> PAGE_SHIFT);
		if (ret)
			goto out_free;
	}
	a->inode = rlx_fs_inode_new();
	if (IS_ERR(a->inode)) {
		ret = PTR_ERR(a->inode);
		a->inode = NULL;
		goto out_free;
	}
	if (!ops->foreign) {
		ret = rlx_table_init(&a->table, c->size >> PAGE_SHIFT);
		if (ret)
			goto out_free;
	}
	return a;

out_free:
	rlx_arena_free(a);
	return ERR_PTR(ret);
}

void rlx_arena_born_sealed(struct rlx_arena *a)
{
	a->seals |= RLX_KSEAL_NO_WRITE;
	atomic_long_set(&a->writers, RLX_ARENA_SEALED);
}

static unsigned long rlx_arena_count_chunks(const struct rlx_arena *a)
{
	unsigned long at = 0, chunks = 0, next = 0, n;
	struct page *page;

	/* Who dies asks for no count. */
	while (!rlx_killed() && (n = rlx_arena_run(a, at, RLX_RUN_MAX, &page))) {
		chunks += !at || page_to_pfn(page) != next;
		next = page_to_pfn(page) + n;
		at += n;
	}
	return chunks;
}

void rlx_arena_publish(struct rlx_arena *a)
{
	WARN_ON_ONCE(a->table.filled != (a->ops->foreign ? 0 : a->size >> PAGE_SHIFT));
	a->nr_chunks = rlx_arena_count_chunks(a);

	rlx_stat_inc(RLX_STAT_ARENAS);
	rlx_stat_add(RLX_STAT_BYTES, rlx_arena_own_bytes(a));
	rlx_stat_add(RLX_STAT_HUGE_BYTES, (u64)a->nr_huge << PMD_SHIFT);
	trace_rlx_arena_create(a->id, a->size, a->nr_huge);
	mutex_lock(&rlx_dev.lock);
	list_add_tail(&a->node, &rlx_dev.arenas);
	mutex_unlock(&rlx_dev.lock);
}

/* ---- files ------------------------------------------------------------- */

struct file *rlx_arena_file_new(struct rlx_arena *a, u32 access)
{
	struct file *file;

	file = rlx_fs_file_new(a->inode, "rlx-arena",
			       access & RLX_W ? O_RDWR : O_RDONLY,
			       &rlx_arena_fops, a);
	if (!IS_ERR(file))
		rlx_arena_get(a);
	return file;
}

static int rlx_arena_release(struct inode *inode, struct file *file)
{
	rlx_arena_put_now(file->private_data);
	return 0;
}

static u32 rlx_arena_file_access(const struct file *file)
{
	return RLX_R | (file->f_mode & FMODE_WRITE ? RLX_W : 0);
}

struct rlx_arena *rlx_arena_get_fd(int fd, u32 *access)
{
	struct rlx_arena *a = ERR_PTR(-EINVAL);
	struct file *file = fget(fd);

	if (!file)
		return ERR_PTR(-EBADF);
	if (file->f_op == &rlx_arena_fops) {
		a = rlx_arena_get(file->private_data);
		if (access)
			*access = rlx_arena_file_access(file);
	}
	fput(file);
	return a;
}

/* ---- counts ------------------------------------------------------------ */

int rlx_arena_check_range(const struct rlx_arena *a, u64 offset, u64 length)
{
	u64 end;

	if (check_add_overflow(offset, length, &end))
		return -EOVERFLOW;
	return length && end <= a->size ? 0 : -EINVAL;
}

int rlx_arena_read(const struct rlx_arena *a, u64 offset, void *dst, size_t n)
{
	while (n) {
		struct page *page = rlx_arena_page(a, offset >> PAGE_SHIFT);
		size_t at = offset_in_page(offset);
		size_t take = min_t(size_t, n, PAGE_SIZE - at);

		if (!page)
			return -EINVAL;
		memcpy_from_page(dst, page, at, take);
		dst += take;
		offset += take;
		n -= take;
	}
	return 0;
}

bool rlx_arena_write_sealed(const struct rlx_arena *a)
{
	return rlx_arena_seals(a) & RLX_ARENA_WRITE_SEALS ||
	       (a->ops->write_sealed && a->ops->write_sealed(a));
}

int rlx_arena_writer_get(struct rlx_arena *a)
{
	if (a->ops->write_sealed && a->ops->write_sealed(a))
		return -EPERM;
	return atomic_long_inc_unless_negative(&a->writers) ? 0 : -EPERM;
}

void rlx_arena_writer_copy(struct rlx_arena *a)
{
	WARN_ON_ONCE(!rlx_arena_counted(atomic_long_fetch_inc(&a->writers)));
}

void rlx_arena_writer_put(struct rlx_arena *a)
{
	WARN_ON_ONCE(!rlx_arena_counted(atomic_long_fetch_dec(&a->writers)));
}

/*
 * A use of the arena, counted in @count until its seal: one step that is before the
 * seal, and then there for who asks after it, or refused.
 */
static int rlx_arena_use_get(struct rlx_arena *a, u32 access, atomic_long_t *count)
{
	int ret;

	if (!atomic_long_inc_unless_negative(count))
		return -EPERM;
	if (access & RLX_W) {
		ret = rlx_arena_writer_get(a);
		if (ret) {
			atomic_long_dec(count);
			return ret;
		}
	}
	rlx_arena_get(a);
	return 0;
}

static void rlx_arena_use_put(struct rlx_arena *a, u32 access, atomic_long_t *count)
{
	if (access & RLX_W)
		rlx_arena_writer_put(a);
	WARN_ON_ONCE(!rlx_arena_counted(atomic_long_fetch_dec(count)));
	rlx_arena_put(a);
}

int rlx_arena_lease(struct rlx_arena *a, u32 access)
{
	int ret = rlx_arena_use_get(a, access, &a->leases);

	if (!ret)
		rlx_stat_inc(RLX_STAT_LEASES);
	return ret;
}

void rlx_arena_unlease(struct rlx_arena *a, u32 access)
{
	rlx_stat_dec(RLX_STAT_LEASES);
	rlx_arena_use_put(a, access, &a->leases);
}

struct rlx_arena *rlx_arena_attach_get(int fd, u32 access)
{
	struct rlx_arena *a;
	u32 may;
	int ret;

	a = rlx_arena_get_fd(fd, &may);
	if (IS_ERR(a))
		return a;
	ret = access & ~may ? -EACCES : rlx_arena_lease(a, access);
	rlx_arena_put_now(a);
	return ret ? ERR_PTR(ret) : a;
}

int rlx_arena_export_get(struct rlx_arena *a, u32 access)
{
	int ret = rlx_arena_use_get(a, access, &a->exports);

	if (!ret)
		rlx_stat_inc(RLX_STAT_DMABUFS);
	return ret;
}

void rlx_arena_export_put(struct rlx_arena *a, u32 access)
{
	rlx_stat_dec(RLX_STAT_DMABUFS);
	rlx_arena_use_put(a, access, &a->exports);
}

/* No seal but those against writing: who has the fd could map it and do the same. */
int rlx_arena_buffer_get(struct rlx_arena *a, u32 access)
{
	int ret = rlx_arena_use_get(a, access, &a->buffers);

	if (!ret)
		rlx_stat_inc(RLX_STAT_BUFFERS);
	return ret;
}

void rlx_arena_buffer_put(struct rlx_arena *a, u32 access)
{
	rlx_stat_dec(RLX_STAT_BUFFERS);
	rlx_arena_use_put(a, access, &a->buffers);
}

/* ---- ioctls ------------------------------------------------------------ */

static bool rlx_arena_node_ok(int nid)
{
	return nid >= 0 && nid < MAX_NUMNODES && node_online(nid);
}

/* One node to begin with, or some for BIND and INTERLEAVE. */
static int rlx_arena_check_nodes(const struct rlx_ioc_arena_create *c)
{
	u64 nodes;

	if (!(c->flags & RLX_ARENA_NUMA_FLAGS)) {
		if (c->nodes || (c->numa_node != NUMA_NO_NODE &&
				 !rlx_arena_node_ok(c->numa_node)))
			return -EINVAL;
		return 0;
	}
	if (!c->nodes || c->numa_node != NUMA_NO_NODE)
		return -EINVAL;
	for (nodes = c->nodes; nodes; nodes &= nodes - 1)
		if (!rlx_arena_node_ok(__ffs64(nodes)))
			return -EINVAL;
	return 0;
}

static int rlx_arena_check_kernel(const struct rlx_ioc_arena_create *c)
{
	if (c->flags & RLX_AF_RDONLY || c->addr || c->memfd != -1)
		return -EINVAL;
	if (c->flags & RLX_AF_HUGE_REQUIRE && c->size & (PMD_SIZE - 1))
		return -EINVAL;
	return rlx_arena_check_nodes(c);
}

static int rlx_arena_check_create(const struct rlx_ioc_arena_create *c)
{
	const u32 flags = RLX_AF_HUGE_TRY | RLX_AF_HUGE_REQUIRE |
			  RLX_AF_RDONLY | RLX_AF_NOEXPORT | RLX_ARENA_NUMA_FLAGS;

	if (c->flags & ~flags || !RLX_IS_ZERO(c->reserved))
		return -EINVAL;
	if (!c->size || !PAGE_ALIGNED(c->size) ||
	    c->size > READ_ONCE(rlx_max_arena_bytes) ||
	    c->size > RLX_ARENA_BYTES_MAX)
		return -EINVAL;
	return 0;
}

static struct rlx_arena *rlx_arena_make(struct rlx_session *session,
					const struct rlx_ioc_arena_create *c)
{
	int ret;

	switch (c->kind) {
	case RLX_KIND_KERNEL:
		ret = rlx_arena_check_kernel(c);
		return ret ? ERR_PTR(ret) : rlx_alloc_arena(session, c);
	case RLX_KIND_MEMFD:
		return rlx_pin_memfd_arena(session, c);
	case RLX_KIND_USER:
		return rlx_pin_user_arena(session, c);
	case RLX_KIND_DMABUF:
		return rlx_foreign_arena(session, c);
	default:
		return ERR_PTR(-EINVAL);
	}
}

long rlx_arena_ioctl_create(struct rlx_call *call)
{
	struct rlx_ioc_arena_create *c = call->arg;
	struct rlx_session *session = call->priv;
	struct rlx_arena *a;
	u64 first;
	int ret;

	ret = rlx_arena_check_create(c);
	if (ret)
		return ret;
	first = rlx_arena_end_seq();
	a = rlx_arena_make(session, c);
	if ((a == ERR_PTR(-ENOMEM) || a == ERR_PTR(-ENOSPC)) && rlx_arena_wait_ended(first))
		a = rlx_arena_make(session, c);
	if (IS_ERR(a))
		return PTR_ERR(a);

	rlx_stall("arena-made");
	call->newfile = rlx_arena_file_new(a, c->flags & RLX_AF_RDONLY ?
					   RLX_R : RLX_R | RLX_W);
	rlx_arena_put_now(a);
	return PTR_ERR_OR_ZERO(call->newfile);
}

static long rlx_arena_ioctl_info(struct rlx_call *call)
{
	struct rlx_ioc_arena_info *info = call->arg;
	struct rlx_arena *a = call->priv;
	struct page *first = rlx_arena_page(a, 0);

	if (!RLX_IS_ZERO(info->reserved) || info->pad)
		return -EINVAL;
	*info = (struct rlx_ioc_arena_info){
		.size = a->size,
		.cookie = a->cookie,
		.id = a->id,
		.kind = a->kind,
		.flags = a->flags,
		.access = rlx_arena_file_access(call->file),
		.seals = rlx_arena_seals(a),
		.nr_huge = a->nr_huge,
		.nr_chunks = a->nr_chunks,
		.nr_leases = rlx_arena_nr_leases(a),
		.nr_exports = rlx_arena_nr_exports(a),
		.numa_node = first ? page_to_nid(first) : NUMA_NO_NODE,
		.nr_buffers = rlx_arena_nr_buffers(a),
	};
	return 0;
}

static long rlx_arena_ioctl_dup(struct rlx_call *call)
{
	const struct rlx_ioc_arena_dup *d = call->arg;
	struct rlx_arena *a = call->priv;

	if (d->flags || !RLX_IS_ZERO(d->reserved))
		return -EINVAL;
	if (!(d->access & RLX_R) || d->access & ~(RLX_R | RLX_W))
		return -EINVAL;
	if (d->access & ~rlx_arena_file_access(call->file))
		return -EACCES;
	if (d->access & RLX_W && rlx_arena_write_sealed(a))
		return -EPERM;
	call->newfile = rlx_arena_file_new(a, d->access);
	return PTR_ERR_OR_ZERO(call->newfile);
}

/*
 * Keeps new writers out first, then looks for those that no count shows. What
 * FUTURE_WRITE keeps out already stays out.
 */
static int rlx_arena_seal_write(struct rlx_arena *a)
	__must_hold(&a->seal_lock)
{
	bool fresh = !(a->seals & RLX_ARENA_WRITE_SEALS);
	int ret = 0;

	lockdep_assert_held(&a->seal_lock);
	if (fresh) {
		if (atomic_long_cmpxchg(&a->writers, 0, RLX_ARENA_SEALED))
			return -EBUSY;
	} else if (rlx_arena_counted(atomic_long_read(&a->writers))) {
		return -EBUSY;
	}
	if (a->ops->seal)
		ret = a->ops->seal(a);
	if (ret && fresh)
		atomic_long_set(&a->writers, 0);
	return ret;
}

static int rlx_arena_seal_locked(struct rlx_arena *a, u32 seals)
	__must_hold(&a->seal_lock)
{
	int ret;

	lockdep_assert_held(&a->seal_lock);
	if (a->seals & RLX_KSEAL_SEAL)
		return -EPERM;
	if (seals & RLX_KSEAL_NO_WRITE) {
		ret = rlx_arena_seal_write(a);
		if (ret)
			return ret;
	} else if (seals & RLX_KSEAL_FUTURE_WRITE &&
		   !(a->seals & RLX_ARENA_WRITE_SEALS)) {
		if (a->ops->foreign)
			return -EBUSY;
		atomic_long_add(RLX_ARENA_SEALED, &a->writers);
	}
	seals &= ~a->seals;
	if (seals & RLX_KSEAL_NO_ATTACH)
		atomic_long_add(RLX_ARENA_SEALED, &a->leases);
	if (seals & RLX_KSEAL_NO_EXPORT)
		atomic_long_add(RLX_ARENA_SEALED, &a->exports);
	WRITE_ONCE(a->seals, a->seals | seals);
	return 0;
}

static long rlx_arena_ioctl_seal(struct rlx_call *call)
{
	const struct rlx_ioc_arena_seal *s = call->arg;
	const u32 all = RLX_KSEAL_NO_WRITE | RLX_KSEAL_NO_EXPORT |
			RLX_KSEAL_NO_ATTACH | RLX_KSEAL_SEAL |
			RLX_KSEAL_FUTURE_WRITE;
	struct rlx_arena *a = call->priv;
	int ret;

	if (!s->seals || s->seals & ~all || s->pad || s->reserved)
		return -EINVAL;
	if (!(call->file->f_mode & FMODE_WRITE))
		return -EACCES;
	if (mutex_lock_killable(&a->seal_lock))
		return -EINTR;
	ret = rlx_arena_seal_locked(a, s->seals);
	mutex_unlock(&a->seal_lock);
	return ret;
}

static const struct rlx_ioctl rlx_arena_ioctls[] = {
	RLX_IOCTL_ROW(RLX_IOC_ARENA_INFO, RLX_IOCTL_OUT, rlx_arena_ioctl_info),
	RLX_IOCTL_ROW(RLX_IOC_ARENA_DUP, RLX_IOCTL_FD, rlx_arena_ioctl_dup),
	RLX_IOCTL_ROW(RLX_IOC_ARENA_SEAL, 0, rlx_arena_ioctl_seal),
	RLX_IOCTL_ROW(RLX_IOC_ARENA_EXPORT, RLX_IOCTL_FD,
		      rlx_dmabuf_ioctl_export),
	RLX_IOCTL_ROW(RLX_IOC_ARENA_SYNC, 0, rlx_dmabuf_ioctl_sync),
};

static long rlx_arena_ioctl(struct file *file, unsigned int cmd,
			    unsigned long arg)
{
	return rlx_ioctl_dispatch(file, cmd, arg, rlx_arena_ioctls,
				  ARRAY_SIZE(rlx_arena_ioctls));
}

static unsigned long rlx_arena_area(struct file *file, unsigned long addr,
				    unsigned long len, unsigned long pgoff,
				    unsigned long flags)
{
	struct rlx_arena *a = file->private_data;

	if (a->ops->area)
		return a->ops->area(a, file, addr, len, pgoff, flags);
	return rlx_huge_area(file, addr, len, pgoff, flags);
}

static void rlx_arena_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct rlx_arena *a = file->private_data;

	rlx_stats_fdinfo(m, "arena", a->id);
	seq_printf(m, "rlx-size:\t%llu\n", a->size);
	seq_printf(m, "rlx-huge:\t%lu\n", a->nr_huge);
	seq_printf(m, "rlx-access:\t%u\n", rlx_arena_file_access(file));
	seq_printf(m, "rlx-seals:\t%u\n", rlx_arena_seals(a));
	seq_printf(m, "rlx-leases:\t%ld\n", rlx_arena_nr_leases(a));
	seq_printf(m, "rlx-exports:\t%ld\n", rlx_arena_nr_exports(a));
	seq_printf(m, "rlx-buffers:\t%ld\n", rlx_arena_nr_buffers(a));
}

static const struct file_operations rlx_arena_fops = {
	.owner			= THIS_MODULE,
	.release		= rlx_arena_release,
	.unlocked_ioctl		= rlx_arena_ioctl,
	.compat_ioctl		= compat_ptr_ioctl,
	.uring_cmd		= rlx_arena_uring_cmd,
	.mmap			= rlx_arena_mmap,
	.fsync			= noop_fsync,
	.get_unmapped_area	= rlx_arena_area,
	.show_fdinfo		= rlx_arena_show_fdinfo,
};
