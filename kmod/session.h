/* SPDX-License-Identifier: GPL-2.0-only */
/* An open /dev/rlx, and the user it counts for. */
#ifndef RLX_SESSION_H
#define RLX_SESSION_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/uidgid.h>

struct file;
struct inode;
struct pid;
struct user_struct;

/**
 * struct rlx_user - what one user has, over all sessions.
 * @user:     the kernel's; holds a reference
 * @bytes:    charged; against rlx_max_user_bytes
 * @node:     in rlx_dev.users     } protected by
 * @refs:     sessions and charges } rlx_dev.lock
 * @sessions: open ones            }
 */
struct rlx_user {
	struct user_struct	*user;
	atomic64_t		bytes;
	struct list_head	node;
	unsigned int		refs;
	unsigned int		sessions;
};

/**
 * struct rlx_session - one open().
 * @ref:    the file's, and one of everything made through it
 * @id:     for the reader of debug output
 * @user:   who opened it, and pays
 * @owner:  the process that opened it
 * @arenas: made through it and alive; against rlx_max_arenas
 * @node:   in rlx_dev.sessions while it is open; protected by rlx_dev.lock
 */
struct rlx_session {
	struct kref		ref;
	u64			id;
	struct rlx_user		*user;
	struct pid		*owner;
	atomic_t		arenas;
	struct list_head	node;
};

int rlx_session_open(struct inode *inode, struct file *file);
int rlx_session_release(struct inode *inode, struct file *file);

/* Process context for put. */
struct rlx_session *rlx_session_get(struct rlx_session *session);
void rlx_session_put(struct rlx_session *session);

/* Who pays for what is made through it. */
kuid_t rlx_session_uid(const struct rlx_session *session);

struct rlx_user *rlx_user_get(struct rlx_user *user);
void rlx_user_put(struct rlx_user *user);

#endif
