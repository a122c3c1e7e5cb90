// SPDX-License-Identifier: MIT
/*
 * What the holder of an arena reaches, and what its seals promise: no page outside the
 * arena, no write after a seal, no reading where nobody gave it, no memory that nobody
 * pays for.
 */
/* rig: timeout=120 */
#include <errno.h>
#include <fcntl.h>
#include <linux/rlx.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"
#include "lib/chan.h"

#define PAGE	4096ul
#define MIB	(1ul << 20)
#define HUGE	(2 * MIB)
#define RW	(RLX_R | RLX_W)
#define PROT_RW	(PROT_READ | PROT_WRITE)
#define SECRET	0x5ec4e75ec4e75ec4ull
#define INSIDE	0x1111111111111111ull

/* Pages of a memfd, of any size, and which of them are the arena. */
#define PAGES	8u
#define FIRST	3u
#define NR	2u

static long pin(int s, uint32_t kind, uint64_t addr, uint64_t size, int memfd,
		uint32_t flags)
{
	struct rlx_ioc_arena_create c = {
		.size = size, .kind = kind, .flags = flags, .numa_node = -1,
		.memfd = memfd, .addr = addr,
	};

	return k_ioctl(s, RLX_IOC_ARENA_CREATE, &c);
}

static void need_memfd(int s)
{
	if (!(k_features(s) & RLX_FEAT_MEMFD))
		rlx_test_skip("no memfd_pin_folios in this kernel");
}

static int make_memfd(uint64_t size, unsigned int flags, unsigned int seals)
{
	int fd = memfd_create("confine", MFD_ALLOW_SEALING | flags);

	CHECK(fd >= 0);
	CHECK(!ftruncate(fd, size));
	CHECK(!fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

static int seal_memfd(int fd, unsigned int seals)
{
	return fcntl(fd, F_ADD_SEALS, seals) ? -errno : 0;
}

static long remap(void *p, size_t size, size_t pgoff)
{
	return syscall(SYS_remap_file_pages, p, size, 0, pgoff, 0) ? -errno : 0;
}

/* ---- the range ----------------------------------------------------------- */

/*
 * A memfd whose middle is an arena; @arena maps it, and whatever is done to the
 * mapping shows no word but those of the arena, nor writes any other.
 */
static void kept_within(int arena, const uint64_t *v, size_t step, int prot)
{
	const size_t words = step / 8;
	volatile uint64_t *p;
	size_t at, i;

	for (at = 0; at < PAGES; at++) {
		p = k_map(arena, NR * step, prot, 0);
		for (i = 0; i < NR; i++)
			CHECK_EQ(p[i * words], INSIDE + FIRST + i);
		/* In the file's pages, and in the arena's. */
		if (!remap((void *)p, step, at * (step / PAGE))) {
			CHECKF(p[0] >= INSIDE && p[0] < INSIDE + PAGES,
			       "page %zu of the memfd shows through the arena", at);
			if (prot & PROT_WRITE)
				p[0] = p[0];
		}
		CHECK(mremap((void *)p, NR * step, PAGES * step, MREMAP_MAYMOVE) ==
		      MAP_FAILED);
		CHECK(mremap((void *)p, 0, PAGES * step, MREMAP_MAYMOVE) == MAP_FAILED);
		/* What may not be mapped cannot be punched either. */
		madvise((void *)p, step, MADV_REMOVE);
		munmap((void *)p, NR * step);
	}
	for (at = 0; at < PAGES; at++)
		CHECK_EQ(v[at * words], at < FIRST || at >= FIRST + NR ? SECRET + at :
							INSIDE + at);
}

static void confined(unsigned int flags, size_t step)
{
	struct k_scene sc = k_scene_new(&(struct k_scene_opts){ .depth = 8 });
	struct rlx_ioc_exec_arena ea;
	int fd, a, got, ro;
	uint64_t *v;
	long h;

	need_memfd(sc.session);
	fd = make_memfd(PAGES * step, flags, F_SEAL_SHRINK);
	v = k_map(fd, PAGES * step, PROT_RW, 0);
	for (size_t at = 0; at < PAGES; at++)
		v[at * step / 8] = at < FIRST || at >= FIRST + NR ? SECRET + at : INSIDE + at;
	a = pin(sc.session, RLX_KIND_MEMFD, FIRST * step, NR * step, fd, 0);
	CHECKF(a >= 0, "pin: %d", a);
	ro = k_dup(a, RLX_R);
	kept_within(a, v, step, PROT_RW);
	kept_within(ro, v, step, PROT_READ);
	/* As the executor of a channel gets it. */
	h = k_attach(sc.ch, a, RW);
	CHECK(h > 0);
	got = k_exec_arena(sc.ex, sc.id, h, &ea);
	CHECK(got >= 0);
	kept_within(got, v, step, PROT_RW);
	close(got);
	CHECK_EQ(k_detach(sc.ch, h), 0);
	close(a);
	close(ro);
	munmap(v, PAGES * step);
	close(fd);
	k_scene_free(&sc);
}

TEST(range_of_a_memfd)
{
	confined(0, PAGE);
}

TEST(range_of_a_huge_memfd)
{
	confined(MFD_HUGETLB, HUGE);
}

/* ---- seals ---------------------------------------------------------------- */

static void nobody_writes(int fd, const uint64_t *v)
{
	uint64_t was = *v;
	uint64_t *p;

	CHECK(mmap(NULL, HUGE, PROT_RW, MAP_SHARED, fd, 0) == MAP_FAILED &&
	      errno == EPERM);
	p = k_map(fd, HUGE, PROT_READ, 0);
	CHECK_EQ(*p, was);
	CHECK(mprotect(p, HUGE, PROT_RW) && errno == EACCES);
	remap(p, HUGE, 0);
	CHECK(mprotect(p, HUGE, PROT_RW));
	CHECK_EQ(*v, was);
	munmap(p, HUGE);
	CHECK_EQ(k_export(fd, 0, HUGE, RW), -EPERM);
	CHECK_EQ(k_dup(fd, RW), -EPERM);
}

TEST(future_write_holds)
{
	static const unsigned int flags[] = { 0, MFD_HUGETLB };
	int s = k_open(), fd, a;
	uint64_t *v;

	a = k_arena(s, HUGE, 0);
	v = k_map(a, HUGE, PROT_READ, 0);
	CHECK_EQ(k_seal(a, RLX_KSEAL_FUTURE_WRITE), 0);
	nobody_writes(a, v);
	need_memfd(s);
	for (int i = 0; i < 2; i++) {
		fd = make_memfd(3 * HUGE, flags[i], F_SEAL_SHRINK);
		v = k_map(fd, 3 * HUGE, PROT_RW, 0);
		v[HUGE / 8] = INSIDE;
		a = pin(s, RLX_KIND_MEMFD, HUGE, HUGE, fd, 0);
		CHECK(a >= 0);
		CHECK_EQ(k_seal(a, RLX_KSEAL_FUTURE_WRITE), 0);
		nobody_writes(a, v + HUGE / 8);
		munmap(v, 3 * HUGE);
		close(fd);
		close(a);
	}
}

/* What the memfd's owner seals holds for the arena's holders. */
TEST(seals_of_the_memfd_hold)
{
	static const unsigned int flags[] = { 0, MFD_HUGETLB };
	struct k_scene sc = k_scene_new(&(struct k_scene_opts){ .depth = 8 });
	int s = sc.session, fd, a, i;
	uint64_t *v;
	long h;

	need_memfd(s);
	for (i = 0; i < 2; i++) {
		fd = make_memfd(HUGE, flags[i], F_SEAL_SHRINK);
		v = k_map(fd, HUGE, PROT_READ, 0);
		a = pin(s, RLX_KIND_MEMFD, 0, HUGE, fd, 0);
		CHECK(a >= 0);
		CHECK_EQ(k_attach(sc.ch, a, RLX_W), -EINVAL);
		CHECK_EQ(seal_memfd(fd, F_SEAL_FUTURE_WRITE), 0);
		nobody_writes(a, v);
		CHECK_EQ(k_attach(sc.ch, a, RW), -EPERM);
		h = k_attach(sc.ch, a, RLX_R);
		CHECK(h > 0);
		CHECK_EQ(k_detach(sc.ch, h), 0);
		munmap(v, HUGE);
		close(fd);
		close(a);
	}
	k_scene_free(&sc);
}

/* Pages that were punched out are seen by no scan of the memfd; writers are. */
TEST(writable_arenas_keep_the_memfd_writable)
{
	static const unsigned int flags[] = { 0, MFD_HUGETLB };
	int s = k_open(), fd, a, map, i;
	uint64_t *p;

	need_memfd(s);
	for (i = 0; i < 4; i++) {
		fd = make_memfd(HUGE, flags[i & 1], F_SEAL_SHRINK);
		a = pin(s, RLX_KIND_MEMFD, 0, HUGE, fd, 0);
		CHECK(a >= 0);
		CHECK(!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, HUGE));
		CHECK_EQ(seal_memfd(fd, F_SEAL_WRITE), -EBUSY);
		CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), -EBUSY);
		map = i & 2;
		p = k_map(a, HUGE, PROT_RW, 0);
		if (!map)
			munmap(p, HUGE);
		close(a);
		CHECK_EQ(seal_memfd(fd, F_SEAL_WRITE), map ? -EBUSY : 0);
		munmap(p, HUGE);
		CHECK_EQ(seal_memfd(fd, F_SEAL_WRITE), 0);
		close(fd);
	}
}

/* Who pinned a page before it left the memfd writes it when he likes. */
TEST(pins_that_nobody_sees)
{
	int s = k_open(), fd, a, u, buf;
	uint64_t *q, *d;

	need_memfd(s);
	fd = make_memfd(PAGE, 0, F_SEAL_SHRINK);
	q = k_map(fd, PAGE, PROT_RW, 0);
	q[0] = INSIDE;
	a = pin(s, RLX_KIND_MEMFD, 0, PAGE, fd, 0);
	u = pin(s, RLX_KIND_USER, (uintptr_t)q, PAGE, -1, 0);
	CHECK(a >= 0 && u >= 0);
	buf = k_export(u, 0, PAGE, RW);
	d = k_map(buf, PAGE, PROT_RW, 0);
	munmap(q, PAGE);
	CHECK(!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE));
	seal_memfd(fd, F_SEAL_WRITE);
	CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), -EBUSY);
	d[0] = SECRET;
}

/*
 * What has a reference to a page may write it, as direct I/O before 6.3 does when its mapping is
 * gone; a pipe has just such ones. Who reads a mapping is none, however large the page.
 */
TEST(seal_waits_for_references)
{
	static const uint32_t flags[] = { 0, RLX_AF_HUGE_TRY };
	int s = k_open(), a, ro, i, p[2];
	char part[2 * PAGE];
	uint64_t *w, *r;

	CHECK(!pipe(p));
	for (i = 0; i < 2; i++) {
		a = k_arena(s, HUGE, flags[i]);
		w = k_map(a, HUGE, PROT_RW, 0);
		k_fill(w, HUGE, 7);
		struct iovec v = { (char *)w + 3 * PAGE, sizeof(part) };

		CHECK_EQ(vmsplice(p[1], &v, 1, 0), sizeof(part));
		munmap(w, HUGE);
		ro = (int)k_dup(a, RLX_R);
		r = k_map(ro, HUGE, PROT_READ, 0);
		k_compare(r, HUGE, 7);
		CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), -EBUSY);
		k_compare(r, HUGE, 7);
		CHECK_EQ(read(p[0], part, sizeof(part)), sizeof(part));
		CHECK_EQ(k_seal(a, RLX_KSEAL_NO_WRITE), 0);
		k_compare(r, HUGE, 7);
		munmap(r, HUGE);
		close(ro);
		close(a);
	}
	close(p[0]);
	close(p[1]);
	close(s);
}

/* The way to weights that nobody writes: the memfd's seal first. */
TEST(sealed_memfd_is_a_sealed_arena)
{
	static const unsigned int flags[] = { 0, MFD_HUGETLB };
	int s = k_open(), fd, a, b, i;
	uint64_t *p, *d;

	need_memfd(s);
	for (i = 0; i < 2; i++) {
		fd = make_memfd(HUGE, flags[i], F_SEAL_SHRINK);
		p = k_map(fd, HUGE, PROT_RW, 0);
		k_fill(p, HUGE, 5);
		a = pin(s, RLX_KIND_MEMFD, 0, HUGE, fd, RLX_AF_RDONLY);
		CHECK(a >= 0);
		CHECK_EQ(k_arena_info(a).seals, 0);
		close(a);
		munmap(p, HUGE);
		CHECK_EQ(seal_memfd(fd, F_SEAL_WRITE), 0);
		CHECK_EQ(pin(s, RLX_KIND_MEMFD, 0, HUGE, fd, 0), -EINVAL);
		a = pin(s, RLX_KIND_MEMFD, 0, HUGE, fd, RLX_AF_RDONLY);
		b = pin(s, RLX_KIND_MEMFD, 0, HUGE, fd, RLX_AF_RDONLY);
		CHECK(a >= 0 && b >= 0);
		CHECK_EQ(k_arena_info(a).seals, RLX_KSEAL_NO_WRITE);
		CHECK_EQ(k_arena_info(b).seals, RLX_KSEAL_NO_WRITE);
		CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, HUGE));
		p = k_map(a, HUGE, PROT_READ, 0);
		d = k_map(k_export(b, 0, HUGE, RLX_R), HUGE, PROT_READ, 0);
		k_compare(p, HUGE, 5);
		k_compare(d, HUGE, 5);
		CHECK(mprotect(p, HUGE, PROT_RW));
		munmap(p, HUGE);
		munmap(d, HUGE);
		close(a);
		close(b);
		close(fd);
	}
}

/* ---- what is given away --------------------------------------------------- */

/* Memory is never for writing alone: who may write reads what is there. */
TEST(write_only_attachments)
{
	struct k_scene sc = k_scene_new(&(struct k_scene_opts){ .depth = 8 });
	int a = k_arena(sc.session, PAGE, 0);
	struct rlx_ioc_attach at = { .fd = a, .access = RLX_W };

	CHECK_EQ(k_attach(sc.ch, a, RLX_W), -EINVAL);
	CHECK_EQ(k_ioctl(sc.ch, RLX_IOC_ATTACH, &at), -EINVAL);
	CHECK_EQ(k_arena_info(a).nr_leases, 0);
	close(a);
	k_scene_free(&sc);
}

/*
 * A thread that makes as many exports, or attachments, as it can until it is told that
 * it may not; another seals. What INFO tells after the seal is all there will be.
 */
#define MADE	512
#define RACES	200u

struct maker {
	struct k_scene *sc;
	int arena;
	bool attach;
	long made[MADE];
	uint32_t n;
	long err;
};

static void *make_until_sealed(void *arg)
{
	struct maker *m = arg;
	long ret;

	for (; m->n < MADE; m->n++) {
		ret = m->attach ? k_attach(m->sc->ch, m->arena, RLX_R) :
				  k_export(m->arena, 0, PAGE, RLX_R);
		if (ret < 0) {
			m->err = ret;
			break;
		}
		m->made[m->n] = ret;
	}
	return NULL;
}

static void unmake(struct maker *m)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (m->attach)
			CHECK_EQ(k_detach(m->sc->ch, m->made[i]), 0);
		else
			close((int)m->made[i]);
}

static void sealed_in_flight(bool attach, uint32_t seal)
{
	struct k_scene sc = k_scene_new(&(struct k_scene_opts){ .depth = 8 });
	uint32_t met = 0, i;

	/* On a busy machine the two meet more rarely: then more often is tried. */
	for (i = 0; i < RACES || (met <= RACES / 40 && i < 20 * RACES); i++) {
		struct maker m = { .sc = &sc, .attach = attach };
		struct rlx_ioc_arena_info info;
		uint64_t there;
		pthread_t id;

		m.arena = k_arena(sc.session, PAGE, 0);
		CHECK(!pthread_create(&id, NULL, make_until_sealed, &m));
		/* Until it is at it. */
		while (!(attach ? k_arena_info(m.arena).nr_leases :
				  k_arena_info(m.arena).nr_exports))
			;
		CHECK_EQ(k_seal(m.arena, seal), 0);
		info = k_arena_info(m.arena);
		there = attach ? info.nr_leases : info.nr_exports;
		CHECK(!pthread_join(id, NULL));
		met += m.err == -EPERM;
		CHECKF(m.n <= there, "%u %s, of which %llu were there when it was sealed",
		       m.n, attach ? "attachments" : "exports",
		       (unsigned long long)there);
		unmake(&m);
		close(m.arena);
	}
	CHECKF(met > RACES / 40, "the seal came while something was made %u times of %u",
	       met, i);
	k_scene_free(&sc);
}

TEST(exports_that_race_with_the_seal)
{
	sealed_in_flight(false, RLX_KSEAL_NO_EXPORT);
}

TEST(attachments_that_race_with_the_seal)
{
	sealed_in_flight(true, RLX_KSEAL_NO_ATTACH);
}

/* ---- who pays -------------------------------------------------------------- */

/* A user who may lock @limit bytes; what the child returns is its status. */
static void as_user(uint64_t limit, void (*fn)(void *arg), void *arg)
{
	struct rlimit l = { limit, limit };
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(!setresgid(105, 105, 105));
		CHECK(!setrlimit(RLIMIT_MEMLOCK, &l));
		CHECK(!setresuid(1000, 1000, 1000));
		fn(arg);
		fflush(stdout);
		_exit(0);
	}
	CHECKF(waitpid(pid, &status, 0) == pid && !status, "status %#x", status);
}

/* One page of each huge page: the whole of it stays in memory. */
static void pieces_of_huge_memfd(void *arg)
{
	int s = k_open(), fd = *(int *)arg;

	for (uint64_t i = 0; i < 4; i++)
		CHECK_EQ(pin(s, RLX_KIND_MEMFD, i * HUGE, PAGE, fd, 0), -ENOMEM);
	close(s);
}

static void one_huge_page_each(void *arg)
{
	int s = k_open(), fd = *(int *)arg, a;

	/* Any part of one costs one, a part of two costs two. */
	a = pin(s, RLX_KIND_MEMFD, 3 * PAGE, PAGE, fd, 0);
	CHECKF(a >= 0, "%d", a);
	CHECK_EQ(pin(s, RLX_KIND_MEMFD, HUGE, PAGE, fd, 0), -ENOMEM);
	close(a);
	CHECK_EQ(pin(s, RLX_KIND_MEMFD, HUGE - PAGE, 2 * PAGE, fd, 0), -ENOMEM);
	a = pin(s, RLX_KIND_MEMFD, HUGE, HUGE, fd, 0);
	CHECKF(a >= 0, "%d", a);
	close(a);
	close(s);
}

TEST(memlock_of_hugetlb)
{
	int s = k_open(), fd;

	need_memfd(s);
	fd = make_memfd(4 * HUGE, MFD_HUGETLB, F_SEAL_SHRINK);
	CHECK(!fallocate(fd, 0, 0, 4 * HUGE));
	as_user(64 << 10, pieces_of_huge_memfd, &fd);
	as_user(HUGE + 64 * 1024, one_huge_page_each, &fd);
	close(fd);
	close(s);
}

TEST(memlock_of_huge_shmem)
{
	int s = k_open(), fd;
	char *p;

	need_memfd(s);
	fd = make_memfd(4 * HUGE, 0, F_SEAL_SHRINK);
	p = k_map(fd, 4 * HUGE, PROT_RW, 0);
	madvise(p, 4 * HUGE, MADV_HUGEPAGE);
	memset(p, 1, 4 * HUGE);
	if (k_file_field("/proc/meminfo", "ShmemHugePages:") < 8192)
		rlx_test_skip("no huge pages of shmem in this kernel");
	munmap(p, 4 * HUGE);
	as_user(64 << 10, pieces_of_huge_memfd, &fd);
	as_user(HUGE + 64 * 1024, one_huge_page_each, &fd);
	close(fd);
	close(s);
}

static char *huge_anon(size_t size)
{
	char *p = mmap(NULL, size + HUGE, PROT_RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	p = (char *)(((uintptr_t)p + HUGE - 1) & -HUGE);
	madvise(p, size, MADV_HUGEPAGE);
	memset(p, 1, size);
	return p;
}

static void pieces_of_anon(void *arg)
{
	char *p = huge_anon(4 * HUGE), *q;
	int s = k_open(), a;

	(void)arg;
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pin(s, RLX_KIND_USER, (uintptr_t)p + i * HUGE, PAGE, -1, 0),
			 -ENOMEM);
	/* Small ones cost what they are. */
	q = mmap(NULL, 8 * PAGE, PROT_RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(q != MAP_FAILED);
	madvise(q, 8 * PAGE, MADV_NOHUGEPAGE);
	a = pin(s, RLX_KIND_USER, (uintptr_t)q, 8 * PAGE, -1, 0);
	CHECKF(a >= 0, "%d", a);
	close(a);
	close(s);
}

/* Of one huge page in pieces, other pages between them, it is paid for once. */
static void a_page_in_pieces(void *arg)
{
	char *p = huge_anon(HUGE), *q;
	int s = k_open(), a;

	(void)arg;
	q = mmap(NULL, 8 * PAGE, PROT_RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(q != MAP_FAILED);
	madvise(q, 8 * PAGE, MADV_NOHUGEPAGE);
	memset(q, 2, 8 * PAGE);
	for (int i = 0; i < 8; i++)
		CHECK(mremap(q + i * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
			     p + (2 * i + 1) * PAGE) != MAP_FAILED);
	a = pin(s, RLX_KIND_USER, (uintptr_t)p, 16 * PAGE, -1, 0);
	CHECKF(a >= 0, "%d", a);
	close(a);
	close(s);
}

TEST(memlock_of_huge_anonymous_memory)
{
	char *p = huge_anon(4 * HUGE);

	if (k_file_field("/proc/meminfo", "AnonHugePages:") < 8192)
		rlx_test_skip("no transparent huge pages in this kernel");
	munmap(p, 4 * HUGE);
	as_user(64 << 10, pieces_of_anon, NULL);
	as_user(HUGE + 128 * 1024, a_page_in_pieces, NULL);
}

TEST_MAIN()
