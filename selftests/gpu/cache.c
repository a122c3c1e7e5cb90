// SPDX-License-Identifier: MIT
/* The folder of compiled kernels: damaged and foreign files, full disks, races. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/disk_cache.h"
#include "base/alloc.h"
#include "selftests/lib/rlx_test.h"

static char dir[64];

/* A folder that nothing is in; its parents are made by the first store. */
static void new_folder(void)
{
	char tmp[] = "/tmp/rlx-cache-XXXXXX";

	CHECK(mkdtemp(tmp));
	snprintf(dir, sizeof(dir), "%s/a/b", tmp);
}

/* The one file there. */
static void the_file(char *path, size_t size)
{
	char cmd[160];
	FILE *f;

	snprintf(cmd, sizeof(cmd), "ls -d %s/* 2>/dev/null", dir);
	f = popen(cmd, "r");
	CHECK(f && fgets(path, (int)size, f));
	path[strcspn(path, "\n")] = 0;
	CHECKF(!fgets(cmd, sizeof(cmd), f), "more than one file: %s", cmd);
	pclose(f);
}

static bool holds(const char *key, const char *text)
{
	void *p = NULL;
	size_t n = 0;
	bool same;

	if (rlx_disk_cache_load(dir, key, &p, &n))
		return false;
	same = n == strlen(text) && !memcmp(p, text, n);
	CHECKF(same, "something else came back (%zu bytes)", n);
	rlx_free(p);
	return true;
}

static void store(const char *key, const char *text)
{
	CHECK_EQ(rlx_disk_cache_store(dir, key, text, strlen(text)), 0);
}

TEST(what_was_stored_comes_back)
{
	new_folder();
	CHECK(!holds("k", "v"));
	store("k", "value");
	store("k2", "");
	CHECK(holds("k", "value"));
	CHECK(holds("k2", ""));
	CHECK(!holds("k3", ""));
	store("k", "anew");
	CHECK(holds("k", "anew"));
}

/* Every byte changed, every length: never something else, and the file goes. */
TEST(damaged_files_are_not_used)
{
	static const char text[] = "a compiled kernel, more or less";
	char path[512];
	unsigned char file[512];
	ssize_t n, i;
	int fd;

	new_folder();
	store("key", text);
	the_file(path, sizeof(path));
	fd = open(path, O_RDONLY);
	n = read(fd, file, sizeof(file));
	close(fd);
	CHECK(n > (ssize_t)strlen(text));
	for (i = 0; i < 2 * n; i++) {
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		file[i % n] ^= 0x40;
		CHECK(write(fd, file, (size_t)(i < n ? n : i - n)) >= 0);
		file[i % n] ^= 0x40;
		close(fd);
		CHECKF(!holds("key", text), "damaged at %zd", i);
		CHECKF(access(path, F_OK), "left there, damaged at %zd", i);
	}
	store("key", text);
	CHECK(holds("key", text));
}

/* A file of another key under this key's name: two keys of one hash. */
TEST(a_file_of_another_key_is_not_used)
{
	char mine[512], cmd[2048];

	new_folder();
	store("mine", "mine");
	the_file(mine, sizeof(mine));
	snprintf(cmd, sizeof(cmd), "mv %s %s.kept", mine, mine);
	CHECK(!system(cmd));
	store("other", "theirs");
	snprintf(cmd, sizeof(cmd), "rm %s.kept; mv %s/*.bin %s", mine, dir, mine);
	CHECK(!system(cmd));
	CHECK(!holds("mine", "mine"));
}

TEST(files_that_others_can_write_are_not_used)
{
	char path[512], cmd[2048];

	new_folder();
	store("key", "text");
	the_file(path, sizeof(path));
	CHECK(!chmod(path, 0666));
	CHECK(!holds("key", "text"));
	CHECK(!chmod(path, 0600));
	CHECK(holds("key", "text"));
	snprintf(cmd, sizeof(cmd), "mv %s %s/../file && ln -s ../file %s", path, dir, path);
	CHECK(!system(cmd));
	CHECKF(!holds("key", "text"), "a link was followed");
	snprintf(cmd, sizeof(cmd), "rm %s; mkfifo %s", path, path);
	CHECK(!system(cmd));
	CHECKF(!holds("key", "text"), "a pipe was read");
	snprintf(cmd, sizeof(cmd), "rm %s; mkdir %s", path, path);
	CHECK(!system(cmd));
	CHECK(!holds("key", "text"));
	CHECK(rlx_disk_cache_store(dir, "key", "text", 4) != RLX_OK);
}

TEST(folders_that_cannot_be_written)
{
	char keep[64];

	CHECK(rlx_disk_cache_store("/proc/nowhere", "k", "v", 1) != RLX_OK);
	CHECK(rlx_disk_cache_store("/dev/null/x", "k", "v", 1) != RLX_OK);
	new_folder();
	strcpy(keep, dir);
	memset(dir, 'a', sizeof(dir) - 1);
	CHECK(!holds("k", "v"));
	strcpy(dir, keep);
}

/* As on a full disk, a write ends early: nothing is left, not even part of a file. */
TEST(a_full_disk_leaves_nothing)
{
	struct rlimit small = { 100, 100 };
	char cmd[160];

	new_folder();
	store("key", "text");
	CHECK(!setrlimit(RLIMIT_FSIZE, &small));
	signal(SIGXFSZ, SIG_IGN);
	CHECK_EQ(rlx_disk_cache_store(dir, "large", dir, 60), RLX_EIO);
	CHECK(!holds("large", ""));
	snprintf(cmd, sizeof(cmd), "test $(ls %s | wc -l) = 1", dir);
	CHECK(!system(cmd));
	CHECK(holds("key", "text"));
}

/* Two processes write, one reads: it sees one or the other, whole. */
TEST(processes_at_once)
{
	static char text[2][100000];
	int i, k, st, seen;
	pid_t pid[2];
	void *p;
	size_t n;

	new_folder();
	for (k = 0; k < 2; k++) {
		memset(text[k], 'a' + k, sizeof(text[k]));
		pid[k] = fork();
		if (pid[k])
			continue;
		for (i = 0; i < 200; i++)
			if (rlx_disk_cache_store(dir, "key", text[k], sizeof(text[k])))
				_exit(1);
		_exit(0);
	}
	for (seen = 0; seen < 300;) {
		if (rlx_disk_cache_load(dir, "key", &p, &n))
			continue;	/* nobody has written yet */
		CHECK_EQ(n, sizeof(text[0]));
		CHECK(!memcmp(p, text[*(char *)p - 'a'], n));
		rlx_free(p);
		seen++;
	}
	for (k = 0; k < 2; k++) {
		CHECK_EQ(waitpid(pid[k], &st, 0), pid[k]);
		CHECK_EQ(st, 0);
	}
	CHECK(!rlx_disk_cache_load(dir, "key", &p, &n));
	rlx_free(p);
}

/* A file of @mib, last used @days ago, that takes no room. */
static void sparse_file(const char *name, off_t mib, time_t days)
{
	struct timespec when[2] = { { .tv_sec = time(NULL) - days * 86400 } };
	char path[512];
	int fd;

	when[1] = when[0];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	CHECK(fd >= 0 && !ftruncate(fd, mib << 20) && !futimens(fd, when));
	close(fd);
}

static bool is_there(const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return !access(path, F_OK);
}

#define NAME(c, end) c "123456789abcdef0123456789abcdef" end

/* Beyond 256 MiB what was not used for longest goes, also what somebody died over. */
TEST(the_folder_is_bounded)
{
	char path[512];
	struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };

	new_folder();
	store("old", "but used");
	the_file(path, sizeof(path));
	sparse_file(NAME("a", ".bin"), 60, 3);
	sparse_file(NAME("b", ".x7Yz01"), 90, 4);
	sparse_file(NAME("c", ".bin"), 90, 1);
	store("new", "one");	/* 240 MiB: all may stay */
	CHECK(is_there(NAME("a", ".bin")) && is_there(NAME("b", ".x7Yz01")) &&
	      is_there(NAME("c", ".bin")));
	CHECK(!utimensat(AT_FDCWD, path, old, 0));
	CHECK(holds("old", "but used"));
	sparse_file(NAME("d", ".bin"), 30, 2);
	store("newer", "one");	/* 270: down to 192 */
	CHECK(!is_there(NAME("b", ".x7Yz01")));
	CHECK(is_there(NAME("a", ".bin")) && is_there(NAME("c", ".bin")) &&
	      is_there(NAME("d", ".bin")));
	CHECK(holds("old", "but used") && holds("new", "one") && holds("newer", "one"));
}

/* Files that no store has made neither count nor go. */
TEST(what_others_keep_there_stays)
{
	static const char *const theirs[] = {
		"notes.txt", ".hidden", "a.bin", NAME("0", ".bin.orig"), NAME("0", ""),
		NAME("0", ".backup1"), NAME("0", ".bin~~~"), NAME("00", ".bin"), NAME("G", ".bin"),
	};
	unsigned int i;

	new_folder();
	store("first", "makes the folder");
	for (i = 0; i < sizeof(theirs) / sizeof(*theirs); i++)
		sparse_file(theirs[i], 300, 9);
	store("second", "finds room");
	for (i = 0; i < sizeof(theirs) / sizeof(*theirs); i++)
		CHECKF(is_there(theirs[i]), "%s is gone", theirs[i]);
	CHECK(holds("first", "makes the folder") && holds("second", "finds room"));
}

/* A folder that somebody named, of prebuilt kernels, has all that is written into it. */
TEST(what_is_written_stays)
{
	new_folder();
	store("first", "makes the folder");
	sparse_file(NAME("a", ".bin"), 200, 9);
	sparse_file(NAME("b", ".bin"), 200, 8);
	CHECK(!rlx_disk_cache_write(dir, "second", "one", 3));
	CHECK(is_there(NAME("a", ".bin")) && is_there(NAME("b", ".bin")));
	CHECK(holds("first", "makes the folder") && holds("second", "one"));
}

TEST(no_memory)
{
	void *p;
	size_t n;

	new_folder();
	rlx_alloc_fail_nth(1);
	CHECK_EQ(rlx_disk_cache_store(dir, "key", "text", 4), RLX_ENOMEM);
	rlx_alloc_fail_nth(0);
	store("key", "text");
	rlx_alloc_fail_nth(1);
	CHECK_EQ(rlx_disk_cache_load(dir, "key", &p, &n), RLX_ENOMEM);
	rlx_alloc_fail_nth(0);
	CHECK(holds("key", "text"));
}

TEST(the_users_folder)
{
	char buf[128];

	setenv("XDG_CACHE_HOME", "/x", 1);
	CHECK(rlx_disk_cache_dir("gpu", buf, sizeof(buf)));
	CHECK_STR(buf, "/x/rlx/gpu");
	CHECK(!rlx_disk_cache_dir("gpu", buf, 5));
	setenv("XDG_CACHE_HOME", "not/absolute", 1);
	setenv("HOME", "/h", 1);
	CHECK(rlx_disk_cache_dir("gpu", buf, sizeof(buf)));
	CHECK_STR(buf, "/h/.cache/rlx/gpu");
	unsetenv("HOME");
	CHECK(!rlx_disk_cache_dir("gpu", buf, sizeof(buf)));
}

TEST_MAIN()
