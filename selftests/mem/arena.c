// SPDX-License-Identifier: MIT
/* Arenas: what they promise about content, sharing, seals, pages and locks. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"
#include "mem/arena.h"
#include "selftests/lib/fds.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/mem/provider.h"

static struct rlx_arena *make(uint64_t size, uint32_t flags, uint32_t pages)
{
	struct rlx_arena_opts o = {
		.size = size, .flags = flags, .pages = pages, .name = "test",
	};
	struct rlx_error err = { 0 };
	struct rlx_arena *a;

	if (rlx_arena_new(&o, &a, &err))
		rlx_test_fail(__FILE__, __LINE__, "%s", err.text);
	return a;
}

TEST(reads_as_zero_and_keeps_what_is_written)
{
	uint64_t size = 5 * 4096 + 17, i, seed = rlx_test_seed(), again = seed;
	struct rlx_arena *a = make(size, 0, RLX_PAGES_AUTO);
	unsigned char *p = rlx_arena_base(a);

	CHECK(rlx_arena_size(a) >= size);
	CHECK_EQ(rlx_arena_size(a) % 4096, 0);
	for (i = 0; i < rlx_arena_size(a); i++)
		CHECK_EQ(p[i], 0);
	for (i = 0; i < rlx_arena_size(a); i++)
		p[i] = (unsigned char)rlx_test_rand(&seed);
	for (i = 0; i < rlx_arena_size(a); i++)
		CHECK_EQ(p[i], (unsigned char)rlx_test_rand(&again));
	rlx_arena_put(a);
}

TEST(memory_is_there_before_the_call_returns)
{
	struct rlx_arena_info info;
	struct rlx_arena *a = make(3 << 20, 0, RLX_PAGES_SMALL);
	struct rlx_arena *lazy = make(3 << 20,
				      RLX_ARENA_LAZY | RLX_ARENA_NOLOCK,
				      RLX_PAGES_SMALL);

	rlx_arena_info(a, &info);
	CHECK_EQ(info.bytes_there, 3 << 20);
	CHECK_STR(info.provider, provider());
	CHECK_STR(info.why_provider, "");
	CHECK_EQ(info.page_bytes, 4096);
	CHECK_STR(info.why_pages, "");
	rlx_arena_info(lazy, &info);
	CHECK_EQ(info.bytes_there, 0);
	/* The module's memory is taken and pinned whatever was asked for. */
	CHECK_EQ(info.bytes_locked, on_kmod() ? 3 << 20 : 0);
	CHECK(on_kmod() || strstr(info.why_lock, "NOLOCK"));
	rlx_arena_put(a);
	rlx_arena_put(lazy);
}

TEST(references_are_counted)
{
	struct rlx_arena *a = make(4096, 0, RLX_PAGES_SMALL);
	char *p = rlx_arena_base(a);
	unsigned char vec;

	CHECK(rlx_arena_get(a) == a);
	rlx_arena_put(a);
	p[0] = 7;
	CHECK_EQ(p[0], 7);
	rlx_arena_put(a);
	CHECK(mincore(p, 4096, &vec) == -1 && errno == ENOMEM);
	rlx_arena_put(NULL);
	CHECK(!rlx_arena_get(NULL));
}

/* In the child: map what comes, see 0x11 at byte 9, answer 0x22. */
static int peer(int sock)
{
	struct rlx_arena *b;
	unsigned char *p;
	int fd = rlx_test_recv_fd(sock);

	if (rlx_arena_open_fd(fd, 0, &b, NULL))
		return 10;
	close(fd);
	p = rlx_arena_base(b);
	if (p[9] != 0x11 || rlx_arena_size(b) != 1 << 20)
		return 11;
	if (rlx_arena_flags(b) & RLX_ARENA_RDONLY)
		return 12;
	p[9] = 0x22;
	rlx_arena_put(b);
	return 0;
}

TEST(shares_bytes_with_a_process_that_got_the_fd)
{
	struct rlx_arena *a = make(1 << 20, 0, RLX_PAGES_SMALL);
	unsigned char *p = rlx_arena_base(a);
	int sock[2], st;
	pid_t pid;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	pid = fork();
	if (!pid) {
		/* Forget the inherited mapping: only the fd may connect us. */
		munmap(p, 1 << 20);
		_exit(peer(sock[1]));
	}
	p[9] = 0x11;
	rlx_test_send_fd(sock[0], rlx_arena_fd(a));
	CHECK(waitpid(pid, &st, 0) == pid);
	CHECK_EQ(st, 0);
	CHECK_EQ(p[9], 0x22);
	rlx_arena_put(a);
}

TEST(readonly_dup_cannot_be_mapped_writable)
{
	struct rlx_arena *a = make(8192, 0, RLX_PAGES_SMALL), *b;
	struct rlx_error err = { 0 };
	void *p;
	int fd;

	CHECK(!rlx_arena_dup_readonly(a, &fd, &err));
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p == MAP_FAILED && errno == EACCES);
	CHECK(write(fd, "x", 1) < 0);
	p = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	CHECK(mprotect(p, 8192, PROT_READ | PROT_WRITE) && errno == EACCES);
	CHECK(ftruncate(fd, 0));
	strcpy(rlx_arena_base(a), "seen");
	CHECK_STR(p, "seen");

	CHECK(!rlx_arena_open_fd(fd, 0, &b, &err));
	CHECK(rlx_arena_flags(b) & RLX_ARENA_RDONLY);
	CHECK_STR(rlx_arena_base(b), "seen");
	CHECK(mprotect(rlx_arena_base(b), 8192, PROT_WRITE));
	CHECK_EQ(rlx_arena_seal(b, RLX_SEAL_WRITE, NULL), RLX_EACCES);
	rlx_arena_put(b);
	close(fd);
	rlx_arena_put(a);
}

static int reopen(int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags);
}

TEST(future_write_seal_binds_every_descriptor_but_not_us)
{
	struct rlx_arena *a = make(8192, 0, RLX_PAGES_SMALL), *b;
	struct rlx_arena_info info;
	char *p = rlx_arena_base(a);
	int fd;

	CHECK(!rlx_arena_seal(a, RLX_SEAL_FUTURE_WRITE, NULL));
	rlx_arena_info(a, &info);
	CHECK_EQ(info.seals, RLX_SEAL_FUTURE_WRITE);
	fd = reopen(rlx_arena_fd(a), O_RDWR);
	if (on_kmod()) {	/* that way is closed; take the one we have */
		CHECK(fd < 0);
		fd = dup(rlx_arena_fd(a));
	}
	CHECK(fd >= 0);
	CHECK(mmap(NULL, 8192, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	CHECK(pwrite(fd, "x", 1, 0) < 0 && (errno == EPERM || on_kmod()));
	CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			4096));
	p[0] = 'w';
	CHECK(!rlx_arena_open_fd(fd, 0, &b, NULL));
	CHECK(rlx_arena_flags(b) & RLX_ARENA_RDONLY);
	CHECK_EQ(*(char *)rlx_arena_base(b), 'w');
	close(fd);
	rlx_arena_put(b);
	rlx_arena_put(a);
}

static bool writes(volatile char *p)
{
	int st;
	pid_t pid = fork();

	if (!pid) {
		signal(SIGSEGV, SIG_DFL);	/* a sanitizer would report */
		*p = 1;
		_exit(0);
	}
	CHECK(waitpid(pid, &st, 0) == pid);
	return st == 0;
}

TEST(write_seal_makes_our_mapping_readonly_too)
{
	struct rlx_arena *a = make(1 << 20, 0, RLX_PAGES_SMALL);
	char *p = rlx_arena_base(a);
	struct rlx_arena_info info;
	uint64_t locked;

	rlx_arena_info(a, &info);
	locked = info.bytes_locked;
	memset(p, 0x5a, 1 << 20);
	CHECK(writes(p));
	p[0] = 0x5a;
	CHECK(!rlx_arena_seal(a, RLX_SEAL_WRITE | RLX_SEAL_SEAL, NULL));
	CHECK(rlx_arena_base(a) == p);
	CHECK_EQ(p[0], 0x5a);
	CHECK_EQ(p[(1 << 20) - 1], 0x5a);
	CHECK(!writes(p));
	CHECK(rlx_arena_flags(a) & RLX_ARENA_RDONLY);
	rlx_arena_info(a, &info);
	CHECK_EQ(info.seals, RLX_SEAL_WRITE | RLX_SEAL_SEAL);
	CHECK_EQ(info.bytes_there, 1 << 20);
	CHECK_EQ(info.bytes_locked, locked);
	CHECK_EQ(rlx_arena_seal(a, RLX_SEAL_FUTURE_WRITE, NULL), RLX_EACCES);
	rlx_arena_put(a);
}

TEST(write_seal_is_refused_while_a_peer_can_write)
{
	struct rlx_arena *a = make(8192, 0, RLX_PAGES_SMALL), *b;
	struct rlx_error err = { 0 };
	char *p = rlx_arena_base(a);

	CHECK(!rlx_arena_open_fd(rlx_arena_fd(a), 0, &b, NULL));
	CHECK_EQ(rlx_arena_seal(a, RLX_SEAL_WRITE, &err), RLX_EBUSY);
	CHECK(strstr(err.text, "still write"));
	p[0] = 3;		/* unchanged: still ours to write */
	CHECK_EQ(*(char *)rlx_arena_base(b), 3);
	CHECK(!(rlx_arena_flags(a) & RLX_ARENA_RDONLY));
	rlx_arena_put(b);
	CHECK_EQ(rlx_arena_seal(a, RLX_SEAL_WRITE, NULL), RLX_OK);
	rlx_arena_put(a);
}

TEST(size_is_sealed)
{
	struct rlx_arena *a = make(8192, 0, RLX_PAGES_SMALL);

	CHECK(ftruncate(rlx_arena_fd(a), 4096));
	CHECK(errno == EPERM || on_kmod());
	CHECK(ftruncate(rlx_arena_fd(a), 1 << 20));
	CHECK(errno == EPERM || on_kmod());
	rlx_arena_put(a);
}

TEST(wrapped_memory_is_used_in_place_and_released_once)
{
	struct rlx_arena *a;
	struct rlx_arena_info info;
	struct rlx_stats s0, s1;
	char *mem = malloc(1000);
	int fd;

	CHECK(!rlx_arena_wrap(&(struct rlx_arena_user){
		.base = mem + 1, .size = 999 }, &a, NULL));
	CHECK(rlx_arena_base(a) == mem + 1);
	CHECK_EQ(rlx_arena_size(a), 999);
	CHECK_EQ(rlx_arena_fd(a), -1);
	CHECK_EQ(rlx_arena_dup_readonly(a, &fd, NULL), RLX_ENOSUP);
	CHECK_EQ(rlx_arena_seal(a, RLX_SEAL_WRITE, NULL), RLX_ENOSUP);
	rlx_arena_info(a, &info);
	CHECK_STR(info.provider, "user");
	CHECK(info.why_lock[0] && info.why_pages[0]);
	rlx_stats_read(&s0);
	rlx_arena_put(a);
	rlx_stats_read(&s1);
	CHECK_EQ(s0.arenas - s1.arenas, 1);
	CHECK_EQ(s0.bytes_mapped, s1.bytes_mapped);
	free(mem);
}

static void on_release(void *ctx, void *base, uint64_t size)
{
	int *n = ctx;

	CHECK_EQ(size, 64);
	*n += 1;
	free(base);
}

TEST(release_is_called_by_the_last_put)
{
	int n = 0;
	struct rlx_arena_user u = {
		.base = malloc(64), .size = 64, .release = on_release,
		.ctx = &n,
	};
	struct rlx_arena *a;

	CHECK(!rlx_arena_wrap(&u, &a, NULL));
	rlx_arena_get(a);
	rlx_arena_put(a);
	CHECK_EQ(n, 0);
	rlx_arena_put(a);
	CHECK_EQ(n, 1);
}

TEST(stats_follow_arenas)
{
	struct rlx_stats s0, s1, s2;
	struct rlx_arena_info info;
	struct rlx_arena *a;

	rlx_stats_read(&s0);
	a = make(1 << 20, 0, RLX_PAGES_SMALL);
	rlx_arena_info(a, &info);
	rlx_stats_read(&s1);
	CHECK_EQ(s1.arenas - s0.arenas, 1);
	CHECK_EQ(s1.arenas_made - s0.arenas_made, 1);
	CHECK_EQ(s1.bytes_mapped - s0.bytes_mapped, 1 << 20);
	CHECK_EQ(s1.bytes_pinned - s0.bytes_pinned, info.bytes_locked);
	rlx_stat_copied(123);
	rlx_arena_put(a);
	rlx_stats_read(&s2);
	CHECK_EQ(s2.arenas, s0.arenas);
	CHECK_EQ(s2.bytes_mapped, s0.bytes_mapped);
	CHECK_EQ(s2.bytes_pinned, s0.bytes_pinned);
	CHECK_EQ(s2.bytes_copied - s0.bytes_copied, 123);
	CHECK_EQ(s2.copies - s0.copies, 1);
}

TEST(lock_stops_at_the_limit_and_says_so)
{
	struct rlimit lim = { 1 << 20, 1 << 20 };
	struct rlx_arena_info info;
	struct rlx_error err = { 0 };
	struct rlx_arena_opts o = {
		.size = 4 << 20, .flags = RLX_ARENA_EXACT,
		.pages = RLX_PAGES_SMALL,
	};
	struct rlx_arena *a, *b;
	uint64_t locked = 0;

	if (on_kmod())
		rlx_test_skip("of memfd: the module locks all or gives none");
	CHECK(!setrlimit(RLIMIT_MEMLOCK, &lim));
	if (!geteuid() && setuid(65534))	/* root may lock all it likes */
		rlx_test_skip("cannot give up CAP_IPC_LOCK");
	a = make(4 << 20, 0, RLX_PAGES_SMALL);
	rlx_arena_info(a, &info);
	CHECK_EQ(info.bytes_locked, 1 << 20);
	CHECK(strstr(info.why_lock, "RLIMIT_MEMLOCK is 1048576"));
	CHECK(strstr(info.why_lock, "locked 1048576 of 4194304"));
	CHECK(rlx_proc_key("/proc/self/status", "VmLck", &locked));
	CHECK_EQ(locked, 1 << 20);
	b = make(1 << 20, 0, RLX_PAGES_SMALL);	/* nothing is left */
	rlx_arena_info(b, &info);
	CHECK_EQ(info.bytes_locked, 0);
	rlx_arena_put(b);
	rlx_arena_put(a);
	CHECK_EQ(rlx_arena_new(&o, &a, &err), RLX_EACCES);
	CHECK(!a && strstr(err.text, "RLIMIT_MEMLOCK"));
	CHECK(rlx_proc_key("/proc/self/status", "VmLck", &locked));
	CHECK_EQ(locked, 0);
}

/* What may be locked is enough for it, if not for whole huge pages. */
TEST(an_exact_arena_is_as_large_as_asked)
{
	struct rlx_arena_opts o = { .size = 5 << 19, .flags = RLX_ARENA_EXACT };
	struct rlimit lim = { o.size, o.size };
	struct rlx_error err = { 0 };
	struct rlx_arena *a;

	if (on_kmod())
		rlx_test_skip("of memfd: the module locks all or gives none");
	CHECK(!setrlimit(RLIMIT_MEMLOCK, &lim));
	if (!geteuid() && setuid(65534))	/* root may lock all it likes */
		rlx_test_skip("cannot give up CAP_IPC_LOCK");
	CHECKF(!rlx_arena_new(&o, &a, &err), "%s", err.text);
	rlx_arena_put(a);
}

TEST(huge_pages_are_counted_or_explained)
{
	struct rlx_arena *a = make(8 << 20, 0, RLX_PAGES_HUGE);
	struct rlx_arena_info info;

	CHECK_EQ((uintptr_t)rlx_arena_base(a) & ((2 << 20) - 1), 0);
	rlx_arena_info(a, &info);
	printf("# huge %llu of %llu, page %llu: %s\n",
	       (unsigned long long)info.bytes_huge,
	       (unsigned long long)info.bytes,
	       (unsigned long long)info.page_bytes, info.why_pages);
	CHECK(info.bytes_there == info.bytes);
	CHECK(info.bytes_huge == info.bytes || info.why_pages[0]);
	CHECK(!(info.bytes_huge == info.bytes && info.why_pages[0]));
	rlx_arena_put(a);
	a = make(8 << 20, 0, RLX_PAGES_AUTO);
	rlx_arena_info(a, &info);
	printf("# auto: huge %llu: %s\n", (unsigned long long)info.bytes_huge,
	       info.why_pages);
	CHECK(info.bytes_huge == info.bytes || info.why_pages[0]);
	rlx_arena_put(a);
}

TEST(collapse_gives_huge_pages_where_the_kernel_can)
{
	struct rlx_arena *a = make(8 << 20, 0, RLX_PAGES_AUTO);
	struct rlx_arena_info info;

	rlx_arena_info(a, &info);
	if (info.bytes_huge < info.bytes)
		rlx_test_skip("no huge pages: %s", info.why_pages);
	memset(rlx_arena_base(a), 1, 8 << 20);
	CHECK_EQ(((char *)rlx_arena_base(a))[(8 << 20) - 1], 1);
	rlx_arena_put(a);
}

/* A huge page costs less than the small ones of a quarter of it, and is not begun for fewer. */
TEST(tails_of_a_quarter_of_a_huge_page_become_one)
{
	static const struct {
		uint64_t		size, got;
		enum rlx_pages		pages;
	} c[] = {
		{ 5 << 19, 4 << 20, RLX_PAGES_AUTO },
		{ (5 << 19) - 4096, (5 << 19) - 4096, RLX_PAGES_AUTO },
		{ (7 << 20) + 1, 8 << 20, RLX_PAGES_AUTO },
		{ 8 << 20, 8 << 20, RLX_PAGES_AUTO },
		{ 1 << 20, 1 << 20, RLX_PAGES_AUTO },
		{ 3 << 20, 3 << 20, RLX_PAGES_SMALL },
	};

	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct rlx_arena *a = make(c[i].size, RLX_ARENA_LAZY | RLX_ARENA_NOLOCK,
					   c[i].pages);
		struct rlx_arena_info info;

		rlx_arena_info(a, &info);
		if (info.page_bytes == 4096 && !strcmp(info.provider, "memfd"))
			CHECK_EQ(rlx_arena_size(a), c[i].got);
		rlx_arena_put(a);
	}
}

TEST(hugetlb_pool_is_used_or_named)
{
	struct rlx_arena_opts o = {
		.size = 3 << 20, .pages = RLX_PAGES_HUGETLB,
	};
	struct rlx_arena_info info;
	struct rlx_error err = { 0 };
	struct rlx_arena *a, *b;
	enum rlx_status st = rlx_arena_new(&o, &a, &err);

	if (st == RLX_ENOSUP) {
		CHECK(strstr(err.text, "hugetlb"));
		rlx_test_skip("hugetlb: %s", err.text);
	}
	CHECK_EQ(st, RLX_OK);
	rlx_arena_info(a, &info);
	CHECK(info.page_bytes >= 2 << 20);
	CHECK_EQ(info.bytes % info.page_bytes, 0);
	CHECK_EQ(info.bytes_huge, info.bytes);
	CHECK_EQ(info.bytes_there, info.bytes);
	CHECK_EQ(info.bytes_locked, info.bytes);
	CHECK_STR(info.why_pages, "");
	memset(rlx_arena_base(a), 7, info.bytes);
	CHECK(!rlx_arena_open_fd(rlx_arena_fd(a), 0, &b, &err));
	CHECK_EQ(((char *)rlx_arena_base(b))[info.bytes - 1], 7);
	rlx_arena_put(b);
	CHECK_EQ(rlx_arena_seal(a, RLX_SEAL_WRITE, NULL), RLX_OK);
	CHECK(!writes(rlx_arena_base(a)));
	rlx_arena_put(a);
}

TEST(nodes_are_got_or_explained)
{
	struct rlx_arena_opts o = { .size = 1 << 20, .nodes = 1 };
	struct rlx_arena_info info;
	struct rlx_arena *a;

	CHECK(!rlx_arena_new(&o, &a, NULL));
	rlx_arena_info(a, &info);
	printf("# node %d, %s\n", info.node, info.why_node);
	CHECK(info.why_node[0] || info.node == 0);
	rlx_arena_put(a);
	o.nodes = 1ull << 63;
	CHECK(!rlx_arena_new(&o, &a, NULL));
	rlx_arena_info(a, &info);
	CHECK(info.why_node[0]);
	rlx_arena_put(a);
	o.flags = RLX_ARENA_EXACT | RLX_ARENA_NOLOCK;
	CHECK_EQ(rlx_arena_new(&o, &a, NULL), RLX_EACCES);
}

TEST(open_fills_holes_of_a_sparse_file)
{
	int fd = memfd_create("sparse", MFD_ALLOW_SEALING);
	struct rlx_arena_info info;
	struct rlx_arena *a;

	CHECK(!ftruncate(fd, 1 << 20));
	CHECK(!rlx_arena_open_fd(fd, 0, &a, NULL));
	rlx_arena_info(a, &info);
	CHECK_EQ(info.bytes_there, 1 << 20);
	CHECK(ftruncate(fd, 0) && errno == EPERM);	/* sealed by open */
	rlx_arena_put(a);
	close(fd);
}

TEST(open_of_an_odd_size_maps_all_of_it)
{
	int fd = memfd_create("odd", MFD_ALLOW_SEALING);
	struct rlx_arena *a;

	CHECK(!ftruncate(fd, 4096 + 5));
	CHECK_EQ(pwrite(fd, "Z", 1, 4096 + 4), 1);
	CHECK(!rlx_arena_open_fd(fd, RLX_ARENA_RDONLY, &a, NULL));
	CHECK_EQ(rlx_arena_size(a), 4096 + 5);
	CHECK_EQ(((char *)rlx_arena_base(a))[4096 + 4], 'Z');
	CHECK(rlx_arena_flags(a) & RLX_ARENA_RDONLY);
	rlx_arena_put(a);
	close(fd);
}

TEST(buffers_do_not_overlap_and_merge_back)
{
	enum { N = 200 };
	struct rlx_arena *a = make(1 << 20, 0, RLX_PAGES_SMALL);
	uint64_t seed = rlx_test_seed();
	struct rlx_buf b[N] = { 0 };
	struct rlx_arena_info info;
	unsigned char tag[N];
	uint64_t used = 0;
	int round, i;

	for (round = 0; round < 4000; round++) {
		i = (int)(rlx_test_rand(&seed) % N);
		if (b[i].bytes) {
			unsigned char *p = rlx_buf_ptr(b[i]);
			uint64_t k;

			for (k = 0; k < b[i].bytes; k++)
				CHECK_EQ(p[k], tag[i]);
			CHECK(!rlx_buf_free(b[i], NULL));
			b[i].bytes = 0;
		} else {
			uint64_t n = 1 + rlx_test_rand(&seed) % 9000;
			uint64_t al = 1ull << rlx_test_rand(&seed) % 14;

			if (rlx_buf_new(a, n, al, &b[i], NULL)) {
				b[i].bytes = 0;
				continue;
			}
			CHECK_EQ((uintptr_t)rlx_buf_ptr(b[i]) % al, 0);
			CHECK_EQ(b[i].offset % 64, 0);
			tag[i] = (unsigned char)rlx_test_rand(&seed);
			memset(rlx_buf_ptr(b[i]), tag[i], n);
		}
	}
	for (i = 0; i < N; i++)
		used += (b[i].bytes + 63) & ~63ull;
	rlx_arena_info(a, &info);
	CHECK_EQ(info.bytes_used, used);
	for (i = 0; i < N; i++)
		CHECK(!rlx_buf_free(b[i], NULL));
	rlx_arena_info(a, &info);
	CHECK_EQ(info.buffers, 0);
	CHECK_EQ(info.bytes_used, 0);
	CHECK(!rlx_buf_new(a, 1 << 20, 0, &b[0], NULL));	/* one gap again */
	CHECK_EQ(b[0].offset, 0);
	CHECK_EQ(rlx_buf_new(a, 1, 0, &b[1], NULL), RLX_ENOMEM);
	rlx_arena_put(a);
}

TEST(buffers_fill_an_odd_wrapped_arena_to_the_last_byte)
{
	static char mem[1000];
	struct rlx_arena *a;
	struct rlx_buf x, y;

	CHECK(!rlx_arena_wrap(&(struct rlx_arena_user){
		.base = mem + 3, .size = 997 }, &a, NULL));
	CHECK(!rlx_buf_new(a, 500, 0, &x, NULL));
	CHECK_EQ((uintptr_t)rlx_buf_ptr(x) % 64, 0);
	y = rlx_buf_whole(a);
	CHECK_EQ(y.bytes, 997);
	/* From the next step after x to the very end. */
	CHECK(!rlx_buf_new(a, 997 - (x.offset + 512), 0, &y, NULL));
	CHECK_EQ(y.offset + y.bytes, 997);
	CHECK(!rlx_buf_free(x, NULL));
	CHECK(!rlx_buf_free(y, NULL));
	rlx_arena_put(a);
}

TEST(slices_are_checked)
{
	struct rlx_arena *a = make(8192, 0, RLX_PAGES_SMALL);
	struct rlx_buf w = rlx_buf_whole(a), s;
	struct rlx_error err = { 0 };

	CHECK(!rlx_buf_slice(w, 100, 50, &s, NULL));
	CHECK_EQ(s.offset, 100);
	CHECK(rlx_buf_ptr(s) == (char *)rlx_arena_base(a) + 100);
	CHECK(!rlx_buf_slice(s, 10, 40, &s, NULL));
	CHECK_EQ(s.offset, 110);
	CHECK_EQ(rlx_buf_slice(s, 0, 41, &s, &err), RLX_ERANGE);
	CHECK(strstr(err.text, "40 bytes"));
	CHECK_EQ(rlx_buf_slice(w, UINT64_MAX, 2, &s, NULL), RLX_ERANGE);
	CHECK_EQ(rlx_buf_slice(w, 8193, 0, &s, NULL), RLX_ERANGE);
	CHECK(!rlx_buf_slice(w, 8192, 0, &s, NULL));
	w.offset = UINT64_MAX - 10;
	w.bytes = 100;
	CHECK_EQ(rlx_buf_slice(w, 0, 1, &s, NULL), RLX_ERANGE);
	CHECK(!rlx_buf_ptr(w));
	rlx_arena_put(a);
}

struct churn {
	struct rlx_arena	*a;
	uint64_t		 seed;
};

static void *churn(void *arg)
{
	struct churn *c = arg;
	struct rlx_buf b;
	int i;

	for (i = 0; i < 500; i++) {
		uint64_t n = 1 + rlx_test_rand(&c->seed) % 5000;
		unsigned char tag = (unsigned char)c->seed, *p;
		uint64_t k;

		rlx_arena_get(c->a);
		if (!rlx_buf_new(c->a, n, 0, &b, NULL)) {
			p = rlx_buf_ptr(b);
			memset(p, tag, n);
			sched_yield();
			for (k = 0; k < n; k++)
				CHECK_EQ(p[k], tag);
			CHECK(!rlx_buf_free(b, NULL));
		}
		rlx_arena_put(c->a);
	}
	return NULL;
}

TEST(threads_share_an_arena)
{
	struct rlx_arena *a = make(64 << 10, 0, RLX_PAGES_SMALL);
	struct rlx_arena_info info;
	struct churn c[4];
	pthread_t t[4];
	int i;

	for (i = 0; i < 4; i++) {
		c[i] = (struct churn){ a, rlx_test_seed() + (uint64_t)i };
		CHECK(!pthread_create(&t[i], NULL, churn, &c[i]));
	}
	for (i = 0; i < 20; i++)
		rlx_arena_info(a, &info);
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	rlx_arena_info(a, &info);
	CHECK_EQ(info.buffers, 0);
	rlx_arena_put(a);
}

TEST_MAIN()
