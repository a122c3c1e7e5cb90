// SPDX-License-Identifier: GPL-2.0-only
/* Charging pinned pages to a user, a process and the module. */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>

#include "account.h"
#include "device.h"
#include "session.h"

/* Adds @n to @sum unless that passes @cap; a cap of 0 is none. */
static bool rlx_budget_take(atomic64_t *sum, u64 n, u64 cap)
{
	s64 old = atomic64_read(sum);

	do {
		if (cap && (n > cap || (u64)old > cap - n))
			return false;
	} while (!atomic64_try_cmpxchg(sum, &old, old + n));
	return true;
}

/* As io_uring does it: per user, so that fork() is no way around. */
static int rlx_account_lock(struct user_struct *user, unsigned long pages,
			    unsigned long *locked)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	unsigned long old, new;

	*locked = 0;
	if (capable(CAP_IPC_LOCK))
		return 0;
	if (!limit)
		return -EPERM;
	old = atomic_long_read(&user->locked_vm);
	do {
		new = old + pages;
		if (new < old || new > limit)
			return -ENOMEM;
	} while (!atomic_long_try_cmpxchg(&user->locked_vm, (long *)&old, new));
	*locked = pages;
	return 0;
}

/* From all budgets or from none. */
static int rlx_account_take(struct rlx_user *user, unsigned long pages,
			    unsigned long *locked)
{
	u64 bytes = (u64)pages << PAGE_SHIFT;
	int ret;

	ret = rlx_account_lock(user->user, pages, locked);
	if (ret)
		return ret;

	ret = -ENOMEM;
	if (!rlx_budget_take(&user->bytes, bytes, READ_ONCE(rlx_max_user_bytes)))
		goto out_unlock;
	if (!rlx_budget_take(&rlx_dev.bytes, bytes,
			     READ_ONCE(rlx_max_total_bytes)))
		goto out_user;
	return 0;

out_user:
	atomic64_sub(bytes, &user->bytes);
out_unlock:
	atomic_long_sub(*locked, &user->user->locked_vm);
	return ret;
}

int rlx_account_charge(struct rlx_charge *charge, struct rlx_session *session,
		       unsigned long pages)
{
	int ret;

	ret = rlx_account_take(session->user, pages, &charge->locked);
	if (ret)
		return ret;

	charge->pages = pages;
	charge->user = rlx_user_get(session->user);
	if (current->mm) {
		mmgrab(current->mm);
		charge->mm = current->mm;
		atomic64_add(pages, &charge->mm->pinned_vm);
	}
	return 0;
}

int rlx_account_charge_more(struct rlx_charge *charge, unsigned long pages)
{
	unsigned long locked;
	int ret;

	ret = rlx_account_take(charge->user, pages, &locked);
	if (ret)
		return ret;

	charge->pages += pages;
	charge->locked += locked;
	if (charge->mm)
		atomic64_add(pages, &charge->mm->pinned_vm);
	return 0;
}

void rlx_account_uncharge(struct rlx_charge *charge)
{
	u64 bytes = (u64)charge->pages << PAGE_SHIFT;

	if (!charge->user)
		return;
	if (charge->mm) {
		atomic64_sub(charge->pages, &charge->mm->pinned_vm);
		mmdrop(charge->mm);
	}
	atomic64_sub(bytes, &rlx_dev.bytes);
	atomic64_sub(bytes, &charge->user->bytes);
	atomic_long_sub(charge->locked, &charge->user->user->locked_vm);
	rlx_user_put(charge->user);
	*charge = (struct rlx_charge){};
}
