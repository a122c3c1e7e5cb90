// SPDX-License-Identifier: GPL-2.0-only
/* Opening and closing /dev/rlx; who pays for what is made through it. */
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/user.h>
#include <linux/slab.h>

#include "device.h"
#include "session.h"
#include "trace.h"

static struct rlx_user *rlx_user_find(struct user_struct *kuser)
	__must_hold(&rlx_dev.lock)
{
	struct rlx_user *user;

	list_for_each_entry(user, &rlx_dev.users, node)
		if (user->user == kuser)
			return user;
	return NULL;
}

/* Counts a session of the caller's; -ENOSPC when it has too many. */
static struct rlx_user *rlx_user_open(void)
{
	struct rlx_user *fresh, *user;

	fresh = kzalloc(sizeof(*fresh), GFP_KERNEL_ACCOUNT);
	if (!fresh)
		return ERR_PTR(-ENOMEM);

	mutex_lock(&rlx_dev.lock);
	user = rlx_user_find(current_user());
	if (!user) {
		user = fresh;
		fresh = NULL;
		user->user = get_uid(current_user());
		atomic64_set(&user->bytes, 0);
		list_add(&user->node, &rlx_dev.users);
	}
	user->refs++;
	if (user->sessions >= READ_ONCE(rlx_max_sessions)) {
		mutex_unlock(&rlx_dev.lock);
		rlx_user_put(user);
		kfree(fresh);
		return ERR_PTR(-ENOSPC);
	}
	user->sessions++;
	mutex_unlock(&rlx_dev.lock);
	kfree(fresh);
	return user;
}

struct rlx_user *rlx_user_get(struct rlx_user *user)
{
	mutex_lock(&rlx_dev.lock);
	user->refs++;
	mutex_unlock(&rlx_dev.lock);
	return user;
}

void rlx_user_put(struct rlx_user *user)
{
	mutex_lock(&rlx_dev.lock);
	if (--user->refs) {
		mutex_unlock(&rlx_dev.lock);
		return;
	}
	list_del(&user->node);
	mutex_unlock(&rlx_dev.lock);
	WARN_ON_ONCE(atomic64_read(&user->bytes));
	free_uid(user->user);
	kfree(user);
}

int rlx_session_open(struct inode *inode, struct file *file)
{
	struct rlx_session *s;
	struct rlx_user *user;

	s = kzalloc(sizeof(*s), GFP_KERNEL_ACCOUNT);
	if (!s)
		return -ENOMEM;
	user = rlx_user_open();
	if (IS_ERR(user)) {
		kfree(s);
		return PTR_ERR(user);
	}
	kref_init(&s->ref);
	s->id = rlx_id_new();
	s->user = user;
	s->owner = get_pid(task_tgid(current));
	atomic_set(&s->arenas, 0);

	mutex_lock(&rlx_dev.lock);
	list_add_tail(&s->node, &rlx_dev.sessions);
	mutex_unlock(&rlx_dev.lock);
	rlx_stat_inc(RLX_STAT_SESSIONS);

	file->private_data = s;
	return 0;
}

static void rlx_session_free(struct kref *ref)
{
	struct rlx_session *s = container_of(ref, struct rlx_session, ref);

	WARN_ON_ONCE(atomic_read(&s->arenas));
	put_pid(s->owner);
	rlx_user_put(s->user);
	kfree(s);
}

struct rlx_session *rlx_session_get(struct rlx_session *session)
{
	kref_get(&session->ref);
	return session;
}

void rlx_session_put(struct rlx_session *session)
{
	kref_put(&session->ref, rlx_session_free);
}

kuid_t rlx_session_uid(const struct rlx_session *session)
{
	return session->user->user->uid;
}

/* What was made through the session lives on; only the right to make ends. */
int rlx_session_release(struct inode *inode, struct file *file)
{
	struct rlx_session *s = file->private_data;

	mutex_lock(&rlx_dev.lock);
	list_del(&s->node);
	s->user->sessions--;
	mutex_unlock(&rlx_dev.lock);
	rlx_stat_dec(RLX_STAT_SESSIONS);
	rlx_session_put(s);
	return 0;
}
