// SPDX-License-Identifier: MIT
/* The provider on /dev/rlx: the module's memory, pinned from the start. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/capability.h>

#include "base/proc.h"
#include "mem/arena.h"
#include "uapi/linux/rlx.h"

#define NODE		RLX_KMOD_NODE
#define TELLS		"'rlx doctor' tells more"
/* The module itself answers so to nobody who has the right to lock memory. */
#define FILTERED	"a seccomp filter of this process, or another policy, forbids it"

const uint32_t rlx_kmod_abi = RLX_ABI;

/* The name of a group, without asking name services. */
static void group_name(unsigned int gid, char *out, size_t size)
{
	struct rlx_lines l;
	char *s, *x;
	unsigned int g;

	snprintf(out, size, "%u", gid);
	if (!rlx_lines_open(&l, "/etc/group"))
		return;
	while ((s = rlx_lines_next(&l))) {
		x = strchr(s, ':');
		if (x && (*x = 0, x = strchr(x + 1, ':')) &&
		    sscanf(x, ":%u", &g) == 1 && g == gid) {
			snprintf(out, size, "%s", s);
			break;
		}
	}
	rlx_lines_close(&l);
}

/* Why the device could not be opened. */
static enum rlx_status fail_open(int e, struct rlx_error *err)
{
	char group[64] = "render";
	struct stat st;

	switch (e) {
	case ENOENT:
		return rlx_fail(err, RLX_ENODEV,
				"no " NODE ": the module is not loaded (modprobe "
				"rlx) or not installed (rlx-dkms); " TELLS);
	case ENXIO:
	case ENODEV:
		return rlx_fail(err, RLX_ENODEV,
				NODE " is there, but no module behind it: modprobe "
				"rlx; " TELLS);
	case EACCES:
	case EPERM:
		if (!stat(NODE, &st))
			group_name(st.st_gid, group, sizeof(group));
		return rlx_fail(err, RLX_EACCES,
				NODE ": %s; it is for the group %s: usermod -aG %s "
				"USER, and log in again; " TELLS, strerror(e), group,
				group);
	}
	return rlx_fail(err, RLX_ENOMEM, NODE ": %s", strerror(e));
}

/* A session, and what its module can do. */
static enum rlx_status session_open(int *fd, struct rlx_ioc_query *q,
				    struct rlx_error *err)
{
	enum rlx_status st;
	int e;

	*q = (struct rlx_ioc_query){ 0 };
	*fd = open(NODE, O_RDWR | O_CLOEXEC);
	if (*fd < 0)
		return fail_open(errno, err);
	e = ioctl(*fd, RLX_IOC_QUERY, q) ? errno : 0;
	if (!e && q->abi == RLX_ABI)
		return RLX_OK;
	st = e == EPERM || e == EACCES ?
		 rlx_fail(err, RLX_EACCES, NODE ": query: %s; " FILTERED, strerror(e)) :
	     e ? rlx_fail(err, RLX_ENOSUP,
			  NODE ": not a device of this module, or of an older one: "
			  "install rlx-dkms and librlx1 of one version, then "
			  "modprobe -r rlx && modprobe rlx: %s", strerror(e)) :
		 rlx_fail(err, RLX_ENOSUP,
			  NODE ": the module speaks ABI %u, this library %u: "
			  "install rlx-dkms and librlx1 of one version, then "
			  "modprobe -r rlx && modprobe rlx", q->abi, RLX_ABI);
	close(*fd);
	*fd = -1;
	return st;
}

static bool may_lock_all(void)
{
	struct __user_cap_header_struct h = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct d[2] = { 0 };

	return !syscall(SYS_capget, &h, d) &&
	       d[0].effective & (1u << CAP_IPC_LOCK);
}

/* Why the module did not give memory; @e is its errno. */
static enum rlx_status fail_create(const struct rlx_arena *a, int e,
				   const struct rlx_ioc_query *q,
				   struct rlx_error *err)
{
	unsigned long long size = a->size;
	struct rlimit lim = { 0 };

	getrlimit(RLIMIT_MEMLOCK, &lim);
	if (e == EACCES || (e == EPERM && lim.rlim_cur >= rlx_page_bytes()))
		return rlx_fail(err, RLX_EACCES,
				NODE ": arena of %llu bytes: %s; " FILTERED, size,
				strerror(e));
	if (e == EPERM)
		return rlx_fail(err, RLX_EACCES,
				NODE ": RLIMIT_MEMLOCK is 0 and CAP_IPC_LOCK is "
				"lacking: raise it (ulimit -l, LimitMEMLOCK=)");
	if (e == EINVAL && size > q->limits[RLX_LIMIT_ARENA_BYTES])
		return rlx_fail(err, RLX_ENOMEM,
				NODE ": an arena of %llu bytes is over the "
				"module's limit of %llu", size, (unsigned long long)
				q->limits[RLX_LIMIT_ARENA_BYTES]);
	if (e != ENOMEM)
		return rlx_fail(err, e == EMFILE || e == ENFILE || e == ENOSPC ?
				RLX_ENOMEM : RLX_EIO,
				NODE ": arena of %llu bytes: %s", size,
				strerror(e));
	if (lim.rlim_cur != RLIM_INFINITY && !may_lock_all())
		return rlx_fail(err, RLX_ENOMEM,
				NODE ": arena of %llu bytes: RLIMIT_MEMLOCK is "
				"%llu bytes, for all that this user locks; raise "
				"it (ulimit -l, LimitMEMLOCK=) or give "
				"CAP_IPC_LOCK", size,
				(unsigned long long)lim.rlim_cur);
	return rlx_fail(err, RLX_ENOMEM,
			NODE ": arena of %llu bytes: memory, or a cap of the "
			"module (%llu bytes a user, %llu in all, 0 none), ran "
			"out", size,
			(unsigned long long)q->limits[RLX_LIMIT_USER_BYTES],
			(unsigned long long)q->limits[RLX_LIMIT_TOTAL_BYTES]);
}

/* Make the file; one node is what the module takes, without it any will do. */
static enum rlx_status create(struct rlx_arena *a, uint32_t flags,
			      struct rlx_ioc_query *q, struct rlx_error *err)
{
	struct rlx_ioc_arena_create c = {
		.size = a->size, .kind = RLX_KIND_KERNEL, .flags = flags,
		.numa_node = a->nodes ? __builtin_ctzll(a->nodes) : -1,
		.memfd = -1,
	};
	enum rlx_status st;
	int session, e;

	st = session_open(&session, q, err);
	if (st)
		return st;
	st = rlx_place_room(a, err);	/* takes longer than to see that there is no module */
	if (st) {
		close(session);
		return st;
	}
	a->fd = ioctl(session, RLX_IOC_ARENA_CREATE, &c);
	if (a->fd < 0 && errno == EINVAL && a->nodes) {
		snprintf(a->why_node, RLX_WHY, "this machine has no node %d",
			 c.numa_node);
		c.numa_node = -1;
		a->fd = ioctl(session, RLX_IOC_ARENA_CREATE, &c);
	} else if (a->nodes & (a->nodes - 1)) {
		snprintf(a->why_node, RLX_WHY, "the module takes one node, not "
			 "several: it was asked for node %d", c.numa_node);
	}
	e = errno;
	close(session);
	return a->fd < 0 ? fail_create(a, e, q, err) : RLX_OK;
}

/* What came of the wishes for pages and nodes; @huge: bytes of a huge page. */
static void explain(struct rlx_arena *a, const struct rlx_ioc_arena_info *i,
		    uint64_t huge)
{
	uint64_t want = huge ? a->size / huge : 0;

	if (a->pages == RLX_PAGES_SMALL)
		want = 0;
	else if (!huge)
		snprintf(a->why_pages, RLX_WHY, "this kernel has no huge pages");
	else if (!want)
		snprintf(a->why_pages, RLX_WHY, "smaller than a huge page");
	if (i->nr_huge < want)
		snprintf(a->why_pages, RLX_WHY,
			 "the module got %llu of %llu huge pages: memory is in "
			 "pieces", (unsigned long long)i->nr_huge,
			 (unsigned long long)want);
	if (a->nodes && !a->why_node[0] && i->numa_node >= 0 &&
	    i->numa_node != __builtin_ctzll(a->nodes))
		snprintf(a->why_node, RLX_WHY, "node %d had too little; it began "
			 "with node %d", __builtin_ctzll(a->nodes), i->numa_node);
}

/* The pages are there: failing to map them now costs a fault later. */
static void kmod_settle(struct rlx_arena *a, bool write)
{
	if (!(a->flags & RLX_ARENA_LAZY))
		(void)rlx_place_fill(a, write);
}

static enum rlx_status map(struct rlx_arena *a, struct rlx_error *err)
{
	if (!rlx_place_map(a)) {
		int e = errno;
		bool denied = e == EPERM || e == EACCES;

		return rlx_fail(err, e == ENODEV ? RLX_ENOSUP :
				denied ? RLX_EACCES : RLX_ENOMEM,
				"arena of %llu bytes of " NODE ": mmap: %s%s",
				(unsigned long long)a->size, strerror(e),
				denied ? "; " FILTERED :
				e == ENODEV ? " (pinned memory of a process: it is "
				"for devices only)" : "");
	}
	kmod_settle(a, !(a->flags & RLX_ARENA_RDONLY));
	a->flags |= RLX_ARENA_SHARED;
	a->locked = a->size;
	return RLX_OK;
}

/* LAZY and NOLOCK ask for what this memory is not; the pool is hugetlbfs's. */
static bool kmod_suits(const struct rlx_arena_opts *o, char *why)
{
	const char *what = NULL;

	if (o->pages == RLX_PAGES_HUGETLB)
		what = "pages of the hugetlb pool were asked for, the module's "
		       "are not";
	else if (o->flags & RLX_ARENA_LAZY)
		what = "lazy memory was asked for, the module takes all at once";
	else if (o->flags & RLX_ARENA_NOLOCK)
		what = "unlocked memory was asked for, the module's is pinned";
	if (what)
		snprintf(why, RLX_WHY, "%s", what);
	return !what;
}

static enum rlx_status kmod_new(struct rlx_arena *a,
				const struct rlx_arena_opts *o,
				struct rlx_error *err)
{
	uint64_t page = rlx_page_bytes();
	struct rlx_ioc_arena_info i = { 0 };
	struct rlx_ioc_query q;
	enum rlx_status st;

	if (o->pages == RLX_PAGES_HUGETLB)
		return rlx_fail(err, RLX_ENOSUP,
				"arena of the hugetlb pool: memfd can, kmod cannot");
	a->page = page;
	a->size = (o->size + page - 1) & ~(page - 1);
	st = create(a, o->pages == RLX_PAGES_SMALL ? 0 : RLX_AF_HUGE_TRY, &q,
		    err);
	if (st)
		return st;
	if (!ioctl(a->fd, RLX_IOC_ARENA_INFO, &i))
		explain(a, &i, q.features & RLX_FEAT_HUGE ?
			q.limits[RLX_LIMIT_HUGE_BYTES] : 0);
	st = map(a, err);
	if (!st)
		st = rlx_place_exact(a, err);
	if (st)
		rlx_place_unmap(a);
	return st;
}

/* A foreign file might do anything when sent an ioctl: look at its kind first. */
static bool kmod_claims(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && (uint32_t)fs.f_type == RLX_FS_MAGIC &&
	       !ioctl(fd, RLX_IOC_ARENA_INFO, &(struct rlx_ioc_arena_info){ 0 });
}

static enum rlx_status kmod_open(struct rlx_arena *a, int fd,
				 struct rlx_error *err)
{
	const uint32_t fixed = RLX_KSEAL_NO_WRITE | RLX_KSEAL_FUTURE_WRITE;
	struct rlx_ioc_arena_info i = { 0 };
	enum rlx_status st;

	if (ioctl(fd, RLX_IOC_ARENA_INFO, &i))
		return rlx_fail(err, RLX_EBADFD, "fd %d: not an arena: %s", fd,
				strerror(errno));
	a->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (a->fd < 0)
		return rlx_fail(err, RLX_ENOMEM, "arena: dup of fd %d: %s", fd,
				strerror(errno));
	a->page = rlx_page_bytes();
	a->size = i.size;
	if (!(i.access & RLX_W) || i.seals & fixed)
		a->flags |= RLX_ARENA_RDONLY;
	snprintf(a->why_pages, RLX_WHY, "as the process that made it chose");
	st = map(a, err);
	if (st)
		rlx_place_unmap(a);
	return st;
}

static int kmod_reopen(struct rlx_arena *a)
{
	struct rlx_ioc_arena_dup d = { .access = RLX_R };
	int fd = ioctl(a->fd, RLX_IOC_ARENA_DUP, &d);

	return fd < 0 ? -errno : fd;
}

static int kmod_add_seals(struct rlx_arena *a, uint32_t seals)
{
	struct rlx_ioc_arena_seal s = { 0 };
	int e;

	if (seals & RLX_SEAL_FUTURE_WRITE)
		s.seals |= RLX_KSEAL_FUTURE_WRITE;
	if (seals & RLX_SEAL_WRITE)
		s.seals |= RLX_KSEAL_NO_WRITE;
	if (seals & RLX_SEAL_SEAL)
		s.seals |= RLX_KSEAL_SEAL;
	e = ioctl(a->fd, RLX_IOC_ARENA_SEAL, &s) ? -errno : 0;
	/* To see who else has a page, the module takes them out of all mappings. */
	if (seals & RLX_SEAL_WRITE)
		kmod_settle(a, false);
	return e;
}

static uint32_t kmod_seals(struct rlx_arena *a)
{
	struct rlx_ioc_arena_info i = { 0 };

	if (ioctl(a->fd, RLX_IOC_ARENA_INFO, &i))
		return 0;
	return (i.seals & RLX_KSEAL_FUTURE_WRITE ? RLX_SEAL_FUTURE_WRITE : 0) |
	       (i.seals & RLX_KSEAL_NO_WRITE ? RLX_SEAL_WRITE : 0) |
	       (i.seals & RLX_KSEAL_SEAL ? RLX_SEAL_SEAL : 0);
}

static enum rlx_status kmod_export(struct rlx_arena *a, struct rlx_buf r,
				   bool write, int *out_fd,
				   struct rlx_error *err)
{
	struct rlx_ioc_arena_export x = {
		.offset = r.offset, .length = r.bytes,
		.access = write ? RLX_R | RLX_W : RLX_R,
	};
	int fd = ioctl(a->fd, RLX_IOC_ARENA_EXPORT, &x), e = errno;

	if (fd >= 0) {
		*out_fd = fd;
		return RLX_OK;
	}
	return rlx_fail(err, e == EACCES || e == EPERM ? RLX_EACCES :
			e == EOPNOTSUPP || e == ENOTTY ? RLX_ENOSUP : RLX_ENOMEM,
			"arena export of %llu bytes: %s%s",
			(unsigned long long)r.bytes, strerror(e), e != EPERM ?
			"" : " (the arena is sealed, or a seccomp filter forbids it)");
}

const struct rlx_arena_provider rlx_arena_kmod = {
	.name	 = "kmod",
	.suits	 = kmod_suits,
	.new	 = kmod_new,
	.claims	 = kmod_claims,
	.open	 = kmod_open,
	.reopen	 = kmod_reopen,
	.add_seals = kmod_add_seals,
	.seals	 = kmod_seals,
	.settle	 = kmod_settle,
	.export	 = kmod_export,
	.free	 = rlx_place_unmap,
};
