/* SPDX-License-Identifier: GPL-2.0-only */
/* Pinned memory and who pays: RLIMIT_MEMLOCK, VmPin, caps of the module. */
#ifndef RLX_ACCOUNT_H
#define RLX_ACCOUNT_H

#include <linux/types.h>

struct mm_struct;
struct rlx_session;
struct rlx_user;

/**
 * struct rlx_charge - what was charged, to be given back to the same.
 * @user:   whose caps; NULL: nothing is charged
 * @mm:     whose VmPin; alive as a struct only
 * @pages:  charged
 * @locked: of them counted against RLIMIT_MEMLOCK: all or, for who may lock
 *          without limit (then), none
 */
struct rlx_charge {
	struct rlx_user		*user;
	struct mm_struct	*mm;
	unsigned long		pages;
	unsigned long		locked;
};

/**
 * rlx_account_charge - charge @pages for as long as they stay pinned.
 * @charge:  zeroed
 * @session: whose user pays
 * @pages:   how many, not 0
 *
 * Return: 0, -EPERM (no right to lock memory at all), -ENOMEM (more than a
 * limit). Process context; VmPin is the caller's.
 */
int rlx_account_charge(struct rlx_charge *charge, struct rlx_session *session,
		       unsigned long pages);

/**
 * rlx_account_charge_more - what came along with what was charged.
 * @charge: of rlx_account_charge(), by the same process; not yet seen by others
 * @pages:  how many more
 *
 * Return: as rlx_account_charge(); what was charged before stays.
 */
int rlx_account_charge_more(struct rlx_charge *charge, unsigned long pages);

/* Gives it back, and zeroes @charge; nothing for a zeroed one. May sleep. */
void rlx_account_uncharge(struct rlx_charge *charge);

#endif
