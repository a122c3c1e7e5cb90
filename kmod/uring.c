// SPDX-License-Identifier: GPL-2.0-only
/*
 * The io_uring front end. What is answered at once calls what the ioctls call; what
 * parks is claimed under the queue's lock, by the rules at the top of channel.h.
 *
 * Parking happens in the task that owns the ring, with uring_lock held, so no cancel
 * can come between marking a command cancelable and publishing it. From io-wq it is
 * sent back there as task work first.
 */
#include <linux/io_uring_types.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "channel.h"
#include "compat.h"
#include "uring.h"

/* ---- results ---- */

/*
 * What ->uring_cmd returns for a result. -EAGAIN would mean "try again from a thread
 * that may block", and a count is taken for a failure by 6.1, which even forgets it
 * if it comes from such a thread: both are given by hand.
 */
static int rlx_uring_end(struct io_uring_cmd *cmd, int ret, unsigned int flags)
{
	if (ret == -EIOCBQUEUED || (ret <= 0 && ret != -EAGAIN))
		return ret;
	rlx_cmd_done(cmd, ret, flags);
	return -EIOCBQUEUED;
}

/* The payload's first 16 bytes, each word read once: user memory may be behind. */
static struct rlx_uring_cmd rlx_uring_payload(struct io_uring_cmd *cmd)
{
	const struct rlx_uring_cmd *from = rlx_cmd_payload(cmd, struct rlx_uring_cmd);

	return (struct rlx_uring_cmd){
		.addr = READ_ONCE(from->addr),
		.flags = READ_ONCE(from->flags),
		.pad = READ_ONCE(from->pad),
	};
}

#ifdef RLX_HAVE_CMD_CANCELABLE
#define RLX_CMD_PARKS	1

/* What a parked command remembers, in the 32 bytes it has for that. */
struct rlx_parked {
	union {
		u64 seq;			/* SUBMIT */
		struct rlx_fetcher *fetcher;	/* the others */
	};
	u64 aux;
	u32 tag;
	s32 result;
	u32 large;		/* IO_URING_F_SQE128 of who is sent to its task */
	bool submit;
};

static void rlx_uring_answered(struct io_uring_cmd *cmd, unsigned int flags, bool dead)
{
	const struct rlx_parked *p = rlx_cmd_pdu(cmd, struct rlx_parked);

	/* Nobody may be there to look, but the command has to end all the same. */
	rlx_cmd_done32(cmd, p->result, p->aux, flags);
}
RLX_DEFINE_TW(rlx_uring_answer_tw, rlx_uring_answered)

void rlx_uring_answer(struct io_uring_cmd *cmd, s32 result, u64 aux)
{
	struct rlx_parked *p = rlx_cmd_pdu(cmd, struct rlx_parked);

	p->result = result;
	p->aux = aux;
	/* Lazy: a batch wakes its waiter once, when that has what it waits for. */
	io_uring_cmd_do_in_task_lazy(cmd, rlx_uring_answer_tw);
}

void rlx_uring_parked(struct io_uring_cmd *cmd, u32 tag, u64 seq)
{
	struct rlx_parked *p = rlx_cmd_pdu(cmd, struct rlx_parked);

	p->tag = tag;
	p->seq = seq;
}

/* ---- parked FETCH ---- */

/* A claimed fetcher's end. Completing may drop the last reference to the file. */
static void rlx_fetcher_end(struct rlx_fetcher *f, long ret, unsigned int flags)
{
	struct rlx_queue *q = f->q;
	unsigned long irq;

	spin_lock_irqsave(&q->slots.lock, irq);
	q->nr_fetchers--;
	spin_unlock_irqrestore(&q->slots.lock, irq);
	/* Before the reference goes, so that never more are counted than there are. */
	if (f->holds)
		atomic_dec(&f->ex->nr_holding);
	rlx_queue_pass_on(q);
	rlx_cmd_done(f->cmd, ret, flags);
	kfree(f);
}

/*
 * Lock not held: on the list, unless there is something to take or an end to tell.
 * From then on @f may be claimed and gone. What is too little for it may be enough for
 * another, who was not told when @f was.
 */
static bool rlx_fetcher_park(struct rlx_fetcher *f)
{
	struct rlx_queue *q = f->q;
	struct rlx_todo todo = {};
	unsigned long flags;
	bool parked = false;

	rcu_read_lock();
	spin_lock_irqsave(&q->slots.lock, flags);
	if (q->slots.live && q->slots.gen == f->ex->gen && !rlx_queue_has(q, f->req.min)) {
		f->claimed = false;
		list_add_tail(&f->node, &q->fetchers);
		parked = true;
		rlx_queue_kick(q, &todo);
	}
	spin_unlock_irqrestore(&q->slots.lock, flags);
	rlx_queue_act(q, NULL, 0, &todo);
	rcu_read_unlock();
	return parked;
}

#ifdef RLX_HAVE_CMD_MSHOT
#define RLX_CMD_MSHOT	1

/* CQEs in one go: then what else there is to do in this task has its turn. */
#define RLX_SHOTS	32

/*
 * One CQE, with some tags in a buffer of the ring's; how many, -EAGAIN where there are
 * none, and the buffer is the ring's again. What finds no room among the completions
 * is for others, and an end: io_uring would not tell of it.
 */
static long rlx_fetcher_shoot(struct rlx_fetcher *f, unsigned int flags)
{
	struct rlx_slot_ref ref[RLX_CHUNK] RLX_UNINIT;
	struct io_br_sel sel;
	size_t bytes = 0;
	u32 room;
	int n;

	sel = io_uring_cmd_buffer_select(f->cmd, f->buf_group, &bytes, flags);
	if (sel.val < 0)
		return sel.val;
	if (!sel.addr)
		return -ENOBUFS;
	room = min_t(size_t, f->req.max, bytes / sizeof(u32));
	n = room ? rlx_executor_take_chunk(f->ex, f->q, sel.addr, 1, room, ref) : -ENOBUFS;
	/* In the place of the address; with nothing in it the buffer is given back. */
	sel.val = n > 0 ? n * (ssize_t)sizeof(u32) : 0;
	if (!io_uring_mshot_cmd_post_cqe(f->cmd, &sel, flags))
		return n;
	if (n > 0) {
		rlx_executor_return(f->ex, f->q, ref, n);
		return -ENOSPC;
	}
	return n ?: -EAGAIN;
}

/* Tells what is there, and parks, or is to go on; false where *@ret is the end. */
static bool rlx_fetcher_shots(struct rlx_fetcher *f, long *ret, unsigned int flags)
{
	int i;

	for (i = 0; i < RLX_SHOTS; i++) {
		if (rlx_fetcher_park(f))
			return true;
		*ret = rlx_fetcher_shoot(f, flags);
		if (*ret < 0 && *ret != -EAGAIN)
			return false;
	}
	rlx_uring_wake(f);
	return true;
}
#else
#define RLX_CMD_MSHOT	0

static bool rlx_fetcher_shots(struct rlx_fetcher *f, long *ret, unsigned int flags)
{
	*ret = -EOPNOTSUPP;
	return false;
}
#endif

/* Takes, or parks; true if it was parked. */
static bool rlx_fetcher_try(struct rlx_fetcher *f, long *ret, unsigned int flags)
{
	if (f->mshot)
		return rlx_fetcher_shots(f, ret, flags);
	for (;;) {
		*ret = rlx_executor_take(f->ex, &f->req);
		if (*ret != -EAGAIN)
			return false;
		if (rlx_fetcher_park(f))
			return true;
	}
}

static void rlx_uring_woken(struct io_uring_cmd *cmd, unsigned int flags, bool dead)
{
	struct rlx_fetcher *f = rlx_cmd_pdu(cmd, struct rlx_parked)->fetcher;
	struct rlx_executor *ex = f->ex;
	long ret = -ECANCELED;

	/* With the task its memory is gone: what it parked elsewhere ends too. */
	if (dead)
		rlx_uring_muster(ex);
	else if (rlx_fetcher_try(f, &ret, flags))
		return;
	rlx_fetcher_end(f, ret, flags);
}
RLX_DEFINE_TW(rlx_uring_woken_tw, rlx_uring_woken)

void rlx_uring_wake(struct rlx_fetcher *f)
{
	io_uring_cmd_complete_in_task(f->cmd, rlx_uring_woken_tw);
}

void rlx_uring_muster(struct rlx_executor *ex)
{
	struct rlx_fetcher *f, *next;
	unsigned long flags;
	LIST_HEAD(list);
	u32 i;

	for (i = 0; i < ex->svc->nr_queues; i++) {
		struct rlx_queue *q = &ex->svc->queue[i];

		spin_lock_irqsave(&q->slots.lock, flags);
		list_for_each_entry_safe(f, next, &q->fetchers, node) {
			rlx_fetcher_claim(f);
			list_add_tail(&f->node, &list);
		}
		spin_unlock_irqrestore(&q->slots.lock, flags);
	}
	list_for_each_entry_safe(f, next, &list, node) {
		list_del_init(&f->node);
		rlx_uring_wake(f);
	}
}

static struct rlx_fetcher *rlx_fetcher_new(struct rlx_executor *ex,
					   struct io_uring_cmd *cmd,
					   const struct rlx_ioc_fetch *req)
{
	struct rlx_queue *q = rlx_service_queue(ex->svc, req->queue);
	struct rlx_fetcher *f;
	unsigned long flags;
	bool full;

	f = kzalloc(sizeof(*f), GFP_KERNEL_ACCOUNT);
	if (!f)
		return ERR_PTR(-ENOMEM);
	INIT_LIST_HEAD(&f->node);
	f->ex = ex;
	f->q = q;
	f->cmd = cmd;
	f->req = *req;
	f->req.min = max_t(u32, req->min, 1);
	f->mshot = rlx_cmd_is_mshot(cmd);
	f->buf_group = READ_ONCE(cmd->sqe->buf_group);
	f->claimed = true;
	spin_lock_irqsave(&q->slots.lock, flags);
	full = q->nr_fetchers >= RLX_QUEUE_PARKED_MAX;
	if (!full)
		q->nr_fetchers++;
	spin_unlock_irqrestore(&q->slots.lock, flags);
	if (full) {
		kfree(f);
		return ERR_PTR(-ENOSPC);
	}
	/* Of a registered file the table has the reference. */
	f->holds = !(cmd_to_io_kiocb(cmd)->flags & REQ_F_FIXED_FILE);
	if (f->holds)
		atomic_inc(&ex->nr_holding);
	return f;
}

static int rlx_uring_park_fetch(struct rlx_executor *ex, struct io_uring_cmd *cmd,
				const struct rlx_ioc_fetch *req, unsigned int flags)
{
	struct rlx_parked *p = rlx_cmd_pdu(cmd, struct rlx_parked);
	struct rlx_fetcher *f = rlx_fetcher_new(ex, cmd, req);
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	p->submit = false;
	p->fetcher = f;
	rlx_cmd_mark_cancelable(cmd, flags);
	/* Marked, it can only end by being completed. */
	if (!rlx_fetcher_try(f, &ret, flags))
		rlx_fetcher_end(f, ret, flags);
	return -EIOCBQUEUED;
}

static void rlx_uring_cancel_fetch(struct rlx_fetcher *f, unsigned int flags)
{
	unsigned long irq;
	bool mine;

	spin_lock_irqsave(&f->q->slots.lock, irq);
	mine = !f->claimed;
	if (mine)
		rlx_fetcher_claim(f);
	spin_unlock_irqrestore(&f->q->slots.lock, irq);
	/* Else task work is on its way, and will complete it. */
	if (mine)
		rlx_fetcher_end(f, -ECANCELED, flags);
}

/* ---- parked SUBMIT ---- */

static void rlx_uring_cancel_submit(struct rlx_channel *ch, struct io_uring_cmd *cmd,
				    unsigned int flags)
{
	const struct rlx_parked *p = rlx_cmd_pdu(cmd, struct rlx_parked);
	struct rlx_queue *q = ch->q;
	struct rlx_todo todo = {};
	struct rlx_slot_out out;
	unsigned long irq;
	int err;

	rcu_read_lock();
	spin_lock_irqsave(&q->slots.lock, irq);
	err = rlx_slot_abandon(&q->slots, p->tag, p->seq, cmd, &out);
	if (!err) {
		q->cancelled++;
		if (q->slots.slot[out.tag].state == RLX_SLOT_ORPHAN)
			rlx_queue_unwanted(q, out.tag);
		rlx_queue_settle(q, &out, 1, &todo);
	}
	spin_unlock_irqrestore(&q->slots.lock, irq);
	if (!err) {
		out.acts &= ~RLX_ACT_CMD;
		rlx_queue_act(q, &out, 1, &todo);
	}
	rcu_read_unlock();
	/* Else somebody has claimed it, and his task work will complete it. */
	if (!err)
		rlx_cmd_done(cmd, -ECANCELED, flags);
}

static int rlx_uring_park_submit(struct rlx_channel *ch, struct io_uring_cmd *cmd,
				 const struct rlx_rq __user *urq,
				 const struct rlx_rq *rq, unsigned int flags)
{
	struct rlx_parked *p = rlx_cmd_pdu(cmd, struct rlx_parked);
	int err;

	p->submit = true;
	p->seq = 0;
	p->tag = 0;
	rlx_cmd_mark_cancelable(cmd, flags);
	err = rlx_channel_submit_one(ch, urq, rq, cmd);
	if (err)
		rlx_cmd_done(cmd, err, flags);
	return -EIOCBQUEUED;
}

/* ---- back from io-wq to the task ---- */

static int rlx_channel_issue(struct io_uring_cmd *cmd, unsigned int flags);
static int rlx_executor_issue(struct io_uring_cmd *cmd, unsigned int flags);

static void rlx_uring_reissue(struct io_uring_cmd *cmd, unsigned int flags, bool dead)
{
	int ret = -ECANCELED;

	/* Task work is not told how large the entries are. */
	flags |= rlx_cmd_pdu(cmd, struct rlx_parked)->large;
	if (!dead)
		ret = cmd->file->f_op == &rlx_channel_fops ?
		      rlx_channel_issue(cmd, flags) : rlx_executor_issue(cmd, flags);
	if (ret != -EIOCBQUEUED)
		rlx_cmd_done(cmd, ret, flags & ~IO_URING_F_SQE128);
}
RLX_DEFINE_TW(rlx_uring_reissue_tw, rlx_uring_reissue)

static int rlx_uring_punt(struct io_uring_cmd *cmd, unsigned int flags)
{
	rlx_cmd_pdu(cmd, struct rlx_parked)->large = flags & IO_URING_F_SQE128;
	io_uring_cmd_complete_in_task(cmd, rlx_uring_reissue_tw);
	return -EIOCBQUEUED;
}

static int rlx_uring_cancel(struct io_uring_cmd *cmd, unsigned int flags)
{
	const struct rlx_parked *p = rlx_cmd_pdu(cmd, struct rlx_parked);

	if (p->submit)
		rlx_uring_cancel_submit(cmd->file->private_data, cmd, flags);
	else
		rlx_uring_cancel_fetch(p->fetcher, flags);
	return 0;
}

#else /* nothing parks */
#define RLX_CMD_PARKS	0
#define RLX_CMD_MSHOT	0

void rlx_uring_answer(struct io_uring_cmd *cmd, s32 result, u64 aux) { }
void rlx_uring_parked(struct io_uring_cmd *cmd, u32 tag, u64 seq) { }
void rlx_uring_wake(struct rlx_fetcher *f) { }
void rlx_uring_muster(struct rlx_executor *ex) { }

static int rlx_uring_park_fetch(struct rlx_executor *ex, struct io_uring_cmd *cmd,
				const struct rlx_ioc_fetch *req, unsigned int flags)
{
	return -EOPNOTSUPP;
}

static int rlx_uring_park_submit(struct rlx_channel *ch, struct io_uring_cmd *cmd,
				 const struct rlx_rq __user *urq,
				 const struct rlx_rq *rq, unsigned int flags)
{
	return -EOPNOTSUPP;
}

static int rlx_uring_punt(struct io_uring_cmd *cmd, unsigned int flags)
{
	return -EOPNOTSUPP;
}

static int rlx_uring_cancel(struct io_uring_cmd *cmd, unsigned int flags)
{
	return 0;
}

#endif

/* ---- channels ---- */

/* A request inside a large SQE: a whole one, of its words read once. */
static void rlx_uring_embedded(struct io_uring_cmd *cmd, struct rlx_rq *rq)
{
	const struct rlx_uring_rq *from = rlx_cmd_payload128(cmd, struct rlx_uring_rq);
	u32 i;

	memset(rq, 0, sizeof(*rq));
	rq->opcode = READ_ONCE(from->opcode);
	rq->flags = READ_ONCE(from->flags);
	rq->nr_slices = READ_ONCE(from->nr_slices);
	rq->deadline_ns = READ_ONCE(from->deadline_ns);
	rq->user_data = cmd_to_io_kiocb(cmd)->cqe.user_data;
	for (i = 0; i < ARRAY_SIZE(from->slice); i++) {
		rq->slice[i].arena = READ_ONCE(from->slice[i].arena);
		rq->slice[i].access = READ_ONCE(from->slice[i].access);
		rq->slice[i].offset = READ_ONCE(from->slice[i].offset);
		rq->slice[i].length = READ_ONCE(from->slice[i].length);
	}
}

static int rlx_channel_submit_cmd(struct rlx_channel *ch, struct io_uring_cmd *cmd,
				  const struct rlx_rq __user *urq,
				  const struct rlx_rq *rq, bool post,
				  unsigned int flags)
{
	if (post)
		return rlx_channel_submit_one(ch, urq, rq, NULL);
	if (flags & IO_URING_F_UNLOCKED)
		return rlx_uring_punt(cmd, flags);
	return rlx_uring_park_submit(ch, cmd, urq, rq, flags);
}

static int rlx_channel_issue(struct io_uring_cmd *cmd, unsigned int flags)
{
	struct rlx_channel *ch = cmd->file->private_data;
	struct rlx_uring_cmd p = rlx_uring_payload(cmd);
	struct rlx_rq rq;

	if (cmd->cmd_op != RLX_IOC_SUBMIT)
		return -EOPNOTSUPP;
	if (p.flags & ~(RLX_URING_EMBEDDED | RLX_URING_POST))
		return -EINVAL;
	if (!(p.flags & RLX_URING_EMBEDDED)) {
		if (p.pad)
			return -EINVAL;
		return rlx_channel_submit_cmd(ch, cmd, u64_to_user_ptr(p.addr), NULL,
					      p.flags & RLX_URING_POST, flags);
	}
	/* Before anything behind the first 64 bytes is touched. */
	if (!(flags & IO_URING_F_SQE128) || p.addr)
		return -EINVAL;
	rlx_uring_embedded(cmd, &rq);
	if (rq.flags & ~RLX_RQ_USER_FLAGS || rq.nr_slices > 2)
		return -EINVAL;
	return rlx_channel_submit_cmd(ch, cmd, NULL, &rq, p.flags & RLX_URING_POST,
				      flags);
}

int rlx_channel_uring_cmd(struct io_uring_cmd *cmd, unsigned int flags)
{
	if (flags & RLX_CMD_CANCEL)
		return rlx_uring_cancel(cmd, flags);
	return rlx_uring_end(cmd, rlx_channel_issue(cmd, flags), flags);
}

/* ---- executors ---- */

/* @committed: less than a request is no failure any more. */
static int rlx_executor_fetch_cmd(struct rlx_executor *ex, struct io_uring_cmd *cmd,
				  const struct rlx_ioc_fetch *req, bool committed,
				  unsigned int flags)
{
	long ret = rlx_executor_take(ex, req);

	if (ret != -EAGAIN)
		return ret;
	if (req->flags & RLX_FETCH_NOWAIT)
		return committed ? 0 : ret;
	return rlx_uring_park_fetch(ex, cmd, req, flags);
}

static int rlx_executor_check_cmd(struct rlx_executor *ex,
				  const struct rlx_ioc_fetch *req)
{
	int err = rlx_executor_check_fetch(ex, req);

	if (err || (req->flags & RLX_FETCH_NOWAIT))
		return err;
	if (!RLX_CMD_PARKS)
		return -EOPNOTSUPP;
	return req->timeout_ns == ~0ULL ? 0 : -EINVAL;
}

/* Buffers of the ring's take the place of @tags; what comes is told at once. */
static int rlx_executor_issue_mshot(struct rlx_executor *ex, struct io_uring_cmd *cmd,
				    const struct rlx_ioc_fetch *req, unsigned int flags)
{
	int err = rlx_executor_check_cmd(ex, req);

	if (err)
		return err;
	if (req->flags & RLX_FETCH_NOWAIT || req->tags || req->min > 1 || ex->ring)
		return -EINVAL;
	return rlx_uring_park_fetch(ex, cmd, req, flags);
}

static int rlx_executor_issue_both(struct rlx_executor *ex, struct io_uring_cmd *cmd,
				   const void __user *from, unsigned int flags)
{
	struct rlx_ioc_commit_fetch cf;
	long ret;

	if (copy_from_user(&cf, from, sizeof(cf)))
		return -EFAULT;
	ret = rlx_executor_check_cmd(ex, &cf.fetch);
	if (!ret)
		ret = rlx_executor_commit(ex, &cf.commit);
	if (ret < 0 && ret != -ESTALE)
		return ret;
	return rlx_executor_fetch_cmd(ex, cmd, &cf.fetch, true, flags);
}

static int rlx_executor_issue(struct io_uring_cmd *cmd, unsigned int flags)
{
	struct rlx_executor *ex = cmd->file->private_data;
	struct rlx_uring_cmd p = rlx_uring_payload(cmd);
	const void __user *from = u64_to_user_ptr(p.addr);
	struct rlx_ioc_commit c;
	struct rlx_ioc_fetch f;
	int err;

	switch (cmd->cmd_op) {
	case RLX_IOC_FETCH:
	case RLX_IOC_COMMIT:
	case RLX_IOC_COMMIT_AND_FETCH:
		break;
	default:
		return -EOPNOTSUPP;
	}
	if (p.flags & RLX_URING_MULTISHOT && !RLX_CMD_MSHOT)
		return -EOPNOTSUPP;
	/* io_uring is told of it as well, and has buffers for it. */
	if (p.flags & ~RLX_URING_MULTISHOT || p.pad ||
	    !!(p.flags & RLX_URING_MULTISHOT) != rlx_cmd_is_mshot(cmd) ||
	    (p.flags && cmd->cmd_op != RLX_IOC_FETCH))
		return -EINVAL;
	if (cmd->cmd_op == RLX_IOC_COMMIT) {
		if (copy_from_user(&c, from, sizeof(c)))
			return -EFAULT;
		return rlx_executor_commit(ex, &c);
	}
	/* What may park does so in its task, and does nothing before. */
	if ((flags & IO_URING_F_UNLOCKED) && RLX_CMD_PARKS)
		return rlx_uring_punt(cmd, flags);
	if (cmd->cmd_op == RLX_IOC_COMMIT_AND_FETCH)
		return rlx_executor_issue_both(ex, cmd, from, flags);
	if (copy_from_user(&f, from, sizeof(f)))
		return -EFAULT;
	if (p.flags & RLX_URING_MULTISHOT)
		return rlx_executor_issue_mshot(ex, cmd, &f, flags);
	err = rlx_executor_check_cmd(ex, &f);
	return err ?: rlx_executor_fetch_cmd(ex, cmd, &f, false, flags);
}

int rlx_executor_uring_cmd(struct io_uring_cmd *cmd, unsigned int flags)
{
	if (flags & RLX_CMD_CANCEL)
		return rlx_uring_cancel(cmd, flags);
	return rlx_uring_end(cmd, rlx_executor_issue(cmd, flags), flags);
}
