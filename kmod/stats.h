/* SPDX-License-Identifier: GPL-2.0-only */
/* What exists now, as sysfs, debugfs and fdinfo show it. */
#ifndef RLX_STATS_H
#define RLX_STATS_H

#include <linux/types.h>

struct attribute_group;
struct seq_file;

/* One file each in /sys/class/misc/rlx/; all 0 when nothing is left. */
enum rlx_stat {
	RLX_STAT_SESSIONS,
	RLX_STAT_ARENAS,
	RLX_STAT_BYTES,		/* of arenas */
	RLX_STAT_HUGE_BYTES,	/* of them in huge pages */
	RLX_STAT_LEASES,	/* attachments of arenas */
	RLX_STAT_DMABUFS,
	RLX_STAT_BUFFERS,	/* fixed buffers of io_uring rings */
	RLX_STAT_TIMELINES,
	RLX_STAT_WAITERS,	/* of timelines */
	RLX_STAT_SERVICES,
	RLX_STAT_EXECUTORS,
	RLX_STAT_CHANNELS,
	RLX_STAT_SLOTS,		/* not FREE */
	RLX_STAT_NR
};

/* Any context. */
void rlx_stat_add(enum rlx_stat stat, s64 n);

static inline void rlx_stat_inc(enum rlx_stat stat)
{
	rlx_stat_add(stat, 1);
}

static inline void rlx_stat_dec(enum rlx_stat stat)
{
	rlx_stat_add(stat, -1);
}

/* For miscdevice.groups. */
extern const struct attribute_group *rlx_stats_groups[];

/* debugfs rlx/. */
void rlx_debugfs_init(void);
void rlx_debugfs_fini(void);

/* First lines of every show_fdinfo: "rlx-kind", "rlx-id". */
void rlx_stats_fdinfo(struct seq_file *m, const char *kind, u64 id);

#endif
