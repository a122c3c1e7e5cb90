// SPDX-License-Identifier: GPL-2.0-only
/* Totals in sysfs, and the common part of fdinfo. Nothing prints an address. */
#include <linux/device.h>
#include <linux/seq_file.h>
#include <linux/sysfs.h>

#include "device.h"
#include "stats.h"

void rlx_stat_add(enum rlx_stat stat, s64 n)
{
	atomic64_add(n, &rlx_dev.stats[stat]);
}

/* ---- sysfs: totals ------------------------------------------------------ */

static ssize_t rlx_stats_show(struct device *dev, struct device_attribute *attr,
			      char *buf)
{
	struct dev_ext_attribute *ext =
		container_of(attr, struct dev_ext_attribute, attr);
	unsigned long stat = (unsigned long)ext->var;

	return sysfs_emit(buf, "%lld\n",
			  (s64)atomic64_read(&rlx_dev.stats[stat]));
}

static ssize_t abi_show(struct device *dev, struct device_attribute *attr,
			char *buf)
{
	return sysfs_emit(buf, "%u\n", RLX_ABI);
}
static DEVICE_ATTR_RO(abi);

static ssize_t features_show(struct device *dev, struct device_attribute *attr,
			     char *buf)
{
	return sysfs_emit(buf, "0x%llx\n", rlx_features());
}
static DEVICE_ATTR_RO(features);

#define RLX_STATS_ATTR(_name, _stat)					\
static struct dev_ext_attribute rlx_stats_##_name = {			\
	.attr = __ATTR(_name, 0444, rlx_stats_show, NULL),		\
	.var = (void *)(unsigned long)(_stat),				\
}

RLX_STATS_ATTR(nr_sessions, RLX_STAT_SESSIONS);
RLX_STATS_ATTR(nr_arenas, RLX_STAT_ARENAS);
RLX_STATS_ATTR(bytes, RLX_STAT_BYTES);
RLX_STATS_ATTR(huge_bytes, RLX_STAT_HUGE_BYTES);
RLX_STATS_ATTR(nr_leases, RLX_STAT_LEASES);
RLX_STATS_ATTR(nr_dmabufs, RLX_STAT_DMABUFS);
RLX_STATS_ATTR(nr_buffers, RLX_STAT_BUFFERS);
RLX_STATS_ATTR(nr_timelines, RLX_STAT_TIMELINES);
RLX_STATS_ATTR(nr_waiters, RLX_STAT_WAITERS);
RLX_STATS_ATTR(nr_services, RLX_STAT_SERVICES);
RLX_STATS_ATTR(nr_executors, RLX_STAT_EXECUTORS);
RLX_STATS_ATTR(nr_channels, RLX_STAT_CHANNELS);
RLX_STATS_ATTR(nr_slots, RLX_STAT_SLOTS);

static struct attribute *rlx_stats_attrs[] = {
	&dev_attr_abi.attr,
	&dev_attr_features.attr,
	&rlx_stats_nr_sessions.attr.attr,
	&rlx_stats_nr_arenas.attr.attr,
	&rlx_stats_bytes.attr.attr,
	&rlx_stats_huge_bytes.attr.attr,
	&rlx_stats_nr_leases.attr.attr,
	&rlx_stats_nr_dmabufs.attr.attr,
	&rlx_stats_nr_buffers.attr.attr,
	&rlx_stats_nr_timelines.attr.attr,
	&rlx_stats_nr_waiters.attr.attr,
	&rlx_stats_nr_services.attr.attr,
	&rlx_stats_nr_executors.attr.attr,
	&rlx_stats_nr_channels.attr.attr,
	&rlx_stats_nr_slots.attr.attr,
	NULL
};

static const struct attribute_group rlx_stats_group = {
	.attrs = rlx_stats_attrs,
};

const struct attribute_group *rlx_stats_groups[] = {
	&rlx_stats_group,
	NULL
};

/* ---- fdinfo ------------------------------------------------------------- */

void rlx_stats_fdinfo(struct seq_file *m, const char *kind, u64 id)
{
	seq_printf(m, "rlx-kind:\t%s\n", kind);
	seq_printf(m, "rlx-id:\t%llu\n", id);
}
