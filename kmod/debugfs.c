// SPDX-License-Identifier: GPL-2.0-only
/*
 * What there is, object by object, in debugfs rlx/: a file a kind, a line an object,
 * for root alone. Ids and counts, and processes as the reader numbers them; nothing
 * prints an address.
 */
#include <linux/cred.h>
#include <linux/debugfs.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/sched/user.h>
#include <linux/seq_file.h>

#include "arena.h"
#include "channel.h"
#include "device.h"
#include "session.h"

/* A file. One of the two tells its lines. */
struct rlx_list {
	const char *name;
	const char *head;
	void (*all)(struct seq_file *m);	/* rlx_dev.lock held */
	void (*of)(struct seq_file *m, struct rlx_service *svc); /* its lock held */
};

/* 0 if the reader cannot see it. */
static pid_t rlx_list_pid(struct pid *pid)
{
	return pid_nr_ns(pid, task_active_pid_ns(current));
}

static uid_t rlx_list_uid(kuid_t uid)
{
	return from_kuid_munged(current_user_ns(), uid);
}

static void rlx_list_sessions(struct seq_file *m)
{
	struct rlx_session *s;

	list_for_each_entry(s, &rlx_dev.sessions, node)
		seq_printf(m, "%llu %d %u %d %lld\n", s->id,
			   rlx_list_pid(s->owner), rlx_list_uid(s->user->user->uid),
			   atomic_read(&s->arenas),
			   (s64)atomic64_read(&s->user->bytes));
}

static void rlx_list_arenas(struct seq_file *m)
{
	struct rlx_arena *a;

	list_for_each_entry(a, &rlx_dev.arenas, node)
		seq_printf(m, "%llu %llu %d %u %x %x %llu %lu %lu %ld %ld %llx\n",
			   a->id, a->session->id, rlx_list_pid(a->session->owner),
			   a->kind, a->flags, rlx_arena_seals(a), a->size, a->nr_huge,
			   a->nr_chunks, rlx_arena_nr_leases(a),
			   rlx_arena_nr_exports(a), a->cookie);
}

static void rlx_list_service(struct seq_file *m, struct rlx_service *svc)
{
	seq_printf(m, "%llu %llu %d %u %x %u %u %u %u %u %llx\n", svc->id,
		   svc->session->id, rlx_list_pid(svc->session->owner),
		   rlx_list_uid(svc->owner), svc->flags, svc->nr_queues, svc->depth,
		   rlx_service_state(svc), svc->generation, svc->nr_channels,
		   svc->user_tag);
}

static void rlx_list_queues(struct seq_file *m, struct rlx_service *svc)
{
	struct rlx_queue_counts c;
	u32 i;

	for (i = 0; i < svc->nr_queues; i++) {
		rlx_queue_count(&svc->queue[i], &c);
		seq_printf(m, "%llu %u %u %u %u %llu %llu %llu\n", svc->id, i, c.ready,
			   c.delivered, c.parked, c.submitted, c.committed,
			   c.cancelled);
	}
}

static void rlx_list_executor(struct seq_file *m, struct rlx_service *svc)
{
	const struct rlx_executor *ex = svc->exec;

	if (ex)
		seq_printf(m, "%llu %d %u %x %d\n", svc->id, rlx_list_pid(ex->owner),
			   ex->gen, ex->flags, atomic_read(&ex->nr_holding));
}

static void rlx_list_channels(struct seq_file *m, struct rlx_service *svc)
{
	struct rlx_channel *ch;
	unsigned long id;

	xa_for_each(&svc->channels, id, ch) {
		/* Its session is not held any more. */
		if (ch->gone)
			continue;
		seq_printf(m, "%u %llu %llu %d %u %x %u %u %u %u %llx\n", ch->id,
			   svc->id, ch->session->id, rlx_list_pid(ch->session->owner),
			   ch->q->index, ch->flags, ch->depth,
			   READ_ONCE(ch->lane.nr[RLX_SLOT_READY]),
			   READ_ONCE(ch->lane.nr[RLX_SLOT_DELIVERED]),
			   rlx_lane_done(&ch->lane), ch->user_tag);
	}
}

static const struct rlx_list rlx_lists[] = {
	{ .name = "sessions", .all = rlx_list_sessions,
	  .head = "id pid uid arenas user_bytes\n" },
	{ .name = "arenas", .all = rlx_list_arenas,
	  .head = "id session pid kind flags seals size huge chunks leases exports cookie\n" },
	{ .name = "services", .of = rlx_list_service,
	  .head = "id session pid uid flags queues depth state generation channels tag\n" },
	{ .name = "queues", .of = rlx_list_queues,
	  .head = "service queue ready delivered parked submitted committed cancelled\n" },
	{ .name = "executors", .of = rlx_list_executor,
	  .head = "service pid generation flags parked\n" },
	{ .name = "channels", .of = rlx_list_channels,
	  .head = "id service session pid queue flags depth ready delivered done tag\n" },
};

/*
 * A service's lock is not taken under rlx_dev.lock; one that is held meanwhile stays
 * on the list, and so leads on to the next.
 */
static void rlx_list_of(struct seq_file *m, const struct rlx_list *list)
{
	struct rlx_service *svc, *held = NULL;

	mutex_lock(&rlx_dev.lock);
	list_for_each_entry(svc, &rlx_dev.services, node) {
		if (!kref_get_unless_zero(&svc->ref))
			continue;
		mutex_unlock(&rlx_dev.lock);
		if (held)
			rlx_service_put(held);
		held = svc;
		mutex_lock(&svc->lock);
		list->of(m, svc);
		mutex_unlock(&svc->lock);
		mutex_lock(&rlx_dev.lock);
	}
	mutex_unlock(&rlx_dev.lock);
	if (held)
		rlx_service_put(held);
}

static int rlx_list_show(struct seq_file *m, void *unused)
{
	const struct rlx_list *list = m->private;

	seq_puts(m, list->head);
	if (list->of) {
		rlx_list_of(m, list);
		return 0;
	}
	mutex_lock(&rlx_dev.lock);
	list->all(m);
	mutex_unlock(&rlx_dev.lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(rlx_list);

void rlx_debugfs_init(void)
{
	size_t i;

	rlx_dev.debugfs = debugfs_create_dir("rlx", NULL);
	for (i = 0; i < ARRAY_SIZE(rlx_lists); i++)
		debugfs_create_file(rlx_lists[i].name, 0400, rlx_dev.debugfs,
				    (void *)&rlx_lists[i], &rlx_list_fops);
}

void rlx_debugfs_fini(void)
{
	debugfs_remove_recursive(rlx_dev.debugfs);
}
