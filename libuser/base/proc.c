// SPDX-License-Identifier: MIT
/* What /proc, /sys and the cgroup tree say about this process's limits. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/proc.h"

bool rlx_lines_open(struct rlx_lines *l, const char *path)
{
	l->at = l->len = 0;
	l->fd = open(path, O_RDONLY | O_CLOEXEC);
	return l->fd >= 0;
}

void rlx_lines_close(struct rlx_lines *l)
{
	close(l->fd);
}

/* Move what is left to the front and read behind it. */
static bool refill(struct rlx_lines *l)
{
	ssize_t n;

	memmove(l->buf, l->buf + l->at, l->len - l->at);
	l->len -= l->at;
	l->at = 0;
	if (l->len == sizeof(l->buf) - 1)
		return false;
	n = read(l->fd, l->buf + l->len, sizeof(l->buf) - 1 - l->len);
	if (n <= 0)
		return false;
	l->len += (size_t)n;
	return true;
}

char *rlx_lines_next(struct rlx_lines *l)
{
	char *line, *end;

	while (!(end = memchr(l->buf + l->at, '\n', l->len - l->at)))
		if (!refill(l))
			break;
	if (!end && l->at == l->len)
		return NULL;
	line = l->buf + l->at;
	if (!end) {		/* no newline at the end, or a line cut */
		l->buf[l->len] = 0;
		l->at = l->len;
		return line;
	}
	*end = 0;
	l->at = (size_t)(end - l->buf) + 1;
	return line;
}

bool rlx_proc_text(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	out[0] = 0;
	if (fd < 0)
		return false;
	n = read(fd, out, size - 1);
	close(fd);
	if (n < 0)
		return false;
	out[n] = 0;
	return true;
}

static bool number(const char *s, uint64_t *out)
{
	char *end;

	*out = strtoull(s, &end, 10);
	if (end == s)
		return false;
	if (!strncmp(end, " kB", 3))
		*out *= 1024;
	return true;
}

bool rlx_proc_u64(const char *path, uint64_t *out)
{
	char text[64];

	return rlx_proc_text(path, text, sizeof(text)) && number(text, out);
}

bool rlx_proc_key(const char *path, const char *key, uint64_t *out)
{
	size_t n = strlen(key);
	struct rlx_lines l;
	bool found = false;
	char *s;

	if (!rlx_lines_open(&l, path))
		return false;
	while (!found && (s = rlx_lines_next(&l))) {
		if (strncmp(s, key, n) || (s[n] != ':' && s[n] != ' '))
			continue;
		s += n;
		found = number(s + strspn(s, ": \t"), out);
	}
	rlx_lines_close(&l);
	return found;
}

/* Is @name one of the comma-separated controllers between @s and @end? */
static bool listed(const char *s, const char *end, const char *name)
{
	size_t n = strlen(name);

	while (s < end) {
		const char *comma = memchr(s, ',', (size_t)(end - s));
		const char *stop = comma ? comma : end;

		if ((size_t)(stop - s) == n && !memcmp(s, name, n))
			return true;
		s = stop + 1;
	}
	return false;
}

/*
 * Walk from the folder up to the mount point. In a container without its own
 * cgroup namespace the path may lie outside what is mounted; the folders that
 * do not exist then read as "no limit", and the mount point itself counts.
 */
static void climb(const char *root, const char *path, bool v2,
		  void (*fn)(void *, const char *, bool), void *ctx)
{
	size_t stop = strlen(root), n;
	char dir[1024];
	int len;

	len = snprintf(dir, sizeof(dir), "%s%s", root, path);
	if (len < 0 || (size_t)len >= sizeof(dir))
		return;
	n = (size_t)len;
	for (;;) {
		while (n > stop && dir[n - 1] == '/')
			dir[--n] = 0;
		fn(ctx, dir, v2);
		if (n <= stop)
			return;
		while (n > stop && dir[n - 1] != '/')
			dir[--n] = 0;
	}
}

void rlx_cgroup_each(const char *controller,
		     void (*fn)(void *ctx, const char *dir, bool v2),
		     void *ctx)
{
	struct rlx_lines l;
	char root[128];
	char *s;

	if (!rlx_lines_open(&l, "/proc/self/cgroup"))
		return;
	while ((s = rlx_lines_next(&l))) {
		char *list = strchr(s, ':'), *path;

		path = list ? strchr(list + 1, ':') : NULL;
		if (!path)
			continue;
		list++;
		if (list == path) {
			climb("/sys/fs/cgroup", path + 1, true, fn, ctx);
			continue;
		}
		if (!listed(list, path, controller))
			continue;
		snprintf(root, sizeof(root), "/sys/fs/cgroup/%s", controller);
		climb(root, path + 1, false, fn, ctx);
	}
	rlx_lines_close(&l);
}

static void min_quota(void *ctx, const char *dir, bool v2)
{
	unsigned long long quota = 0, period = 0;
	char path[1100], text[64];
	unsigned int *best = ctx;
	uint64_t a, b, n;

	if (v2) {
		snprintf(path, sizeof(path), "%s/cpu.max", dir);
		if (!rlx_proc_text(path, text, sizeof(text)) ||
		    sscanf(text, "%llu %llu", &quota, &period) != 2)
			return;
	} else {
		snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", dir);
		if (!rlx_proc_u64(path, &a) || (int64_t)a <= 0)
			return;		/* -1 is "no limit" */
		snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", dir);
		if (!rlx_proc_u64(path, &b))
			return;
		quota = a;
		period = b;
	}
	if (!period)
		return;
	/* A part of a CPU counts as one: fewer would leave it idle. */
	n = quota / period + !!(quota % period);
	if (n < *best)
		*best = n ? (unsigned int)n : 1;
}

unsigned int rlx_cpu_allowed(void)
{
	unsigned int n = 1;
	cpu_set_t set;
	long conf;

	if (!sched_getaffinity(0, sizeof(set), &set)) {
		n = (unsigned int)CPU_COUNT(&set);
	} else {	/* more CPUs than cpu_set_t holds */
		conf = sysconf(_SC_NPROCESSORS_ONLN);
		n = conf > 0 ? (unsigned int)conf : 1;
	}
	rlx_cgroup_each("cpu", min_quota, &n);
	return n ? n : 1;
}

static void min_memory(void *ctx, const char *dir, bool v2)
{
	uint64_t *best = ctx, limit, used, cache = 0, room;
	char path[1100];

	snprintf(path, sizeof(path), "%s/%s", dir,
		 v2 ? "memory.max" : "memory.limit_in_bytes");
	if (!rlx_proc_u64(path, &limit))	/* "max" is no number */
		return;
	snprintf(path, sizeof(path), "%s/%s", dir,
		 v2 ? "memory.current" : "memory.usage_in_bytes");
	if (!rlx_proc_u64(path, &used))
		return;
	if (limit > used && limit - used >= *best)
		return;		/* without the cache: what says how much that is takes longest */
	snprintf(path, sizeof(path), "%s/memory.stat", dir);
	if (!rlx_proc_key(path, v2 ? "inactive_file" : "total_inactive_file",
			  &cache))
		cache = 0;
	used = used > cache ? used - cache : 0;
	room = limit > used ? limit - used : 0;
	if (room < *best)
		*best = room;
}

uint64_t rlx_mem_available(void)
{
	uint64_t n;

	if (!rlx_proc_key("/proc/meminfo", "MemAvailable", &n))
		n = UINT64_MAX;
	rlx_cgroup_each("memory", min_memory, &n);
	return n;
}
