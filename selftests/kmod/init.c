// SPDX-License-Identifier: MIT
/*
 * The first process of a test guest: mounts, loads the module, runs programs one
 * after the other with a time limit, and gates each for leaks.
 *
 * Results go to the second serial port, where every line of ours begins "#rig";
 * the kernel's log has the first to itself, with "rig: begin NAME" and "rig: end
 * NAME" in it. rig.awk makes TAP of the two. /rig/list holds the work:
 *
 *	insmod FILE [PARAMS]		a module the programs need, kept loaded
 *	module FILE			ours, loaded anew for each program
 *	kunit NAME FILE			a module of KUnit suites
 *	run NAME SECONDS UID PARAMS COMMAND ...		PARAMS of ours, "-" if none
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define CGROUP		"/sys/fs/cgroup/rig"
#define KMEMLEAK	"/sys/kernel/debug/kmemleak"
#define KCSAN		"/sys/kernel/debug/kcsan"
#define COUNTERS	"/sys/class/misc/rlx"
#define RENDER_GID	105
#define OUTPUT_MAX	(4u << 20)	/* of one program */
#define ALIVE_SECONDS	20		/* the rig ends a guest that is silent (run-qemu.sh) */
#define WORK		20000000		/* steps of a computation that is timed */
#define PAGE_STACKS	"/sys/kernel/debug/page_owner_stacks/show_stacks"
/*
 * What page counters may be off by; less than the smallest huge page. The debug
 * kernel's checkers keep memory of their own, but there page_owner tells.
 */
#define DRIFT_MAX_KB	768
#define DRIFT_MAX_DEBUG_KB (24 << 10)

struct job {
	char	*name, *params, *command;
	int	seconds, uid;
};

/*
 * How many times as long as on a machine with nothing else to do things take: what the
 * host measured before the boot (rig.slow, in hundredths), by how much longer than at
 * the boot a computation takes now. Limits are multiplied by it.
 */
static double slow_at_boot = 1, work_at_boot;

static char *module_file;
static bool module_in, debug_kernel, stuck;
static int leaks;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static double time_work(void)
{
	volatile unsigned int x = 0;
	double start = now();
	unsigned int i;

	for (i = 0; i < WORK; i++)
		x += i;
	return now() - start;
}

static double slowness(void)
{
	double more = time_work() / work_at_boot;

	return slow_at_boot * (more < 1 ? 1 : more > 20 ? 20 : more);
}

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
	va_list ap;

	printf("#rig ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = write(fd, text, strlen(text));
	close(fd);
	return n >= 0;
}

/* What sleeps in the kernel, and what runs there: neither can be killed. */
static void tell_stacks(void)
{
	put("/proc/sysrq-trigger", "w");
	put("/proc/sysrq-trigger", "l");
}

static void put_log(const char *what, const char *name)
{
	char line[160];

	snprintf(line, sizeof(line), "<6>rig: %s %s", what, name);
	put("/dev/kmsg", line);
}

/* The text of a small file in a static buffer; "" when it cannot be read. */
static char *get(const char *path)
{
	static char buf[8192];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = 0, got;

	if (fd >= 0) {
		while (n < (ssize_t)sizeof(buf) - 1 &&
		       (got = read(fd, buf + n, sizeof(buf) - 1 - n)) > 0)
			n += got;
		close(fd);
	}
	buf[n] = '\0';
	return buf;
}

static void make_node(const char *path, mode_t mode, int major, int minor)
{
	mknod(path, mode, makedev(major, minor));
	chmod(path, mode & 07777);
}

static void mount_all(void)
{
	static const struct { const char *type, *where, *opts; } m[] = {
		{ "proc", "/proc", NULL },
		{ "sysfs", "/sys", NULL },
		{ "devtmpfs", "/dev", NULL },
		{ "tmpfs", "/tmp", "mode=1777" },
		{ "tmpfs", "/dev/shm", "mode=1777" },
		{ "devpts", "/dev/pts", NULL },
		{ "hugetlbfs", "/dev/hugepages", "mode=1777" },
		{ "debugfs", "/sys/kernel/debug", NULL },
		{ "tracefs", "/sys/kernel/tracing", NULL },
		{ "configfs", "/sys/kernel/config", NULL },
		{ "cgroup2", "/sys/fs/cgroup", NULL },
	};
	size_t i;

	for (i = 0; i < sizeof(m) / sizeof(m[0]); i++) {
		mkdir(m[i].where, 0755);
		mount(m[i].type, m[i].where, m[i].type, 0, m[i].opts);
	}
	make_node("/dev/null", S_IFCHR | 0666, 1, 3);
	symlink("/proc/self/fd", "/dev/fd");
}

static void open_results(void)
{
	struct termios t;
	int fd = open("/dev/ttyS1", O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (!tcgetattr(fd, &t)) {
		cfmakeraw(&t);
		cfsetspeed(&t, B115200);
		tcsetattr(fd, TCSANOW, &t);
	}
	dup2(fd, 1);
	dup2(fd, 2);
}

static void set_up(void)
{
	int fd;

	mount_all();
	fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd < 3)
		fd = dup(fd);
	open_results();
	klogctl(8, NULL, 8);		/* all of the log to the console */
	put("/proc/sys/kernel/printk_ratelimit", "0");
	put("/proc/sys/kernel/hung_task_timeout_secs", "40");
	put("/proc/sys/vm/nr_hugepages", "32");
	/* The stock kernel spends a THP on any large mapping; so do we. */
	put("/sys/kernel/mm/transparent_hugepage/enabled", "always");
	put("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "advise");
	put("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	put("/sys/fs/cgroup/cgroup.subtree_control", "+pids");
	mkdir(CGROUP, 0755);
	put(CGROUP "/cgroup.subtree_control", "+memory");
	put(CGROUP "/cgroup.subtree_control", "+pids");
	debug_kernel = !access(KMEMLEAK, F_OK);
	put(KMEMLEAK, "scan=off");
	setenv("PATH", "/bin:/rig/bin", 1);
	setenv("HOME", "/tmp", 1);
}

/* What programs are to know of the machine: the limit of a test, in seconds, and by how
 * much to multiply limits of their own, in hundredths. @seconds: the program's own limit. */
static void tell_slowness(double slow, int seconds)
{
	/* A wake through PREEMPT_RT's threads costs several times what it does else. */
	int limit = debug_kernel || !access(KCSAN, F_OK) ? 120 :
		    access("/sys/kernel/realtime", F_OK) ? 30 : 90;
	char text[32];

	/* A program that is long has tests that are; the rest of its time is the others'. */
	if (limit < seconds / 2)
		limit = seconds / 2;
	snprintf(text, sizeof(text), "%.0f", slow * limit);
	setenv("RLX_TEST_TIMEOUT", text, 1);
	snprintf(text, sizeof(text), "%.0f", slow * 100);
	setenv("RIG_SLOW", text, 1);
}

static int load(const char *file, const char *params)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return errno;
	rc = syscall(SYS_finit_module, fd, params, 0) ? errno : 0;
	close(fd);
	return rc == EEXIST ? 0 : rc;
}

/* What udev would do for us. */
static void give_device(void)
{
	if (chown("/dev/rlx", 0, RENDER_GID) && errno != ENOENT)
		say("note chown /dev/rlx: %s", strerror(errno));
}

static bool load_ours(const char *params)
{
	int rc;

	if (!module_file)
		return true;
	rc = load(module_file, strcmp(params, "-") ? params : "");
	if (rc) {
		say("leak insmod %s %s: %s", module_file, params, strerror(rc));
		return false;
	}
	module_in = true;
	give_device();
	return true;
}

/* The kernel's name of a module file: without folders, end and dashes. */
static void module_name(const char *file, char *name, size_t size)
{
	const char *base = strrchr(file, '/');
	char *p;

	snprintf(name, size, "%s", base ? base + 1 : file);
	p = strchr(name, '.');
	if (p)
		*p = '\0';
	for (p = name; *p; p++)
		if (*p == '-')
			*p = '_';
}

static int unload(const char *file)
{
	char name[64];

	module_name(file, name, sizeof(name));
	return syscall(SYS_delete_module, name, O_NONBLOCK) ? errno : 0;
}

/*
 * Pages that no counter of meminfo owns, in KiB: what a driver took by pages.
 * Slab is left to kmemleak.
 */
static long unowned_kb(void)
{
	static const char *const owned[] = {
		"MemFree:", "Buffers:", "Cached:", "SwapCached:", "AnonPages:",
		"Slab:", "KernelStack:", "PageTables:", "SecPageTables:",
		"VmallocUsed:", "Percpu:", "Hugetlb:",
	};
	long total = 0, v;
	char *line, *save, key[64];
	size_t i;

	for (line = strtok_r(get("/proc/meminfo"), "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		if (sscanf(line, "%63s %ld", key, &v) != 2)
			continue;
		if (!strcmp(key, "MemTotal:"))
			total += v;
		for (i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
			if (!strcmp(key, owned[i]))
				total -= v;
	}
	return total;
}

/* Free pages that wait on per-CPU lists, which MemFree leaves out. */
static long per_cpu_kb(void)
{
	FILE *f = fopen("/proc/zoneinfo", "r");
	long pages = 0, v;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, " count: %ld", &v) == 1)
			pages += v;
	if (f)
		fclose(f);
	return pages * 4;
}

static long settled_kb(void)
{
	put("/proc/sys/vm/drop_caches", "7");	/* 4: without a word in the log */
	return unowned_kb() - per_cpu_kb();
}

/* The first counter of ours that is not zero, as text; NULL when all are. */
static const char *busy_counter(void)
{
	static char what[128];
	DIR *dir = opendir(COUNTERS);
	struct dirent *d;
	const char *hit = NULL;
	char path[300];
	long v;

	if (!dir)
		return NULL;
	while (!hit && (d = readdir(dir))) {
		if (strncmp(d->d_name, "nr_", 3) &&
		    !strstr(d->d_name, "bytes"))
			continue;
		snprintf(path, sizeof(path), COUNTERS "/%s", d->d_name);
		v = atol(get(path));
		if (v) {
			snprintf(what, sizeof(what), "%.64s is %ld", d->d_name, v);
			hit = what;
		}
	}
	closedir(dir);
	return hit;
}

static void leak(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void leak(const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	leaks++;
	say("leak %s", text);
}

/* Pages that others keep, though a call of ours was the occasion. */
static bool is_kept_elsewhere(const char *stack)
{
	static const char *const by[] = {
		"slab", "stack_depot", "kasan_", "pcpu_", "kmemleak",
		"__pte_alloc", "__pmd_alloc", "__pud_alloc", "__p4d_alloc",
	};
	size_t i;

	for (i = 0; i < sizeof(by) / sizeof(by[0]); i++)
		if (strstr(stack, by[i]))
			return true;
	return false;
}

/* With page_owner: the stacks of pages that a call of ours took and nobody freed. */
static void find_pages(void)
{
	FILE *f = fopen(PAGE_STACKS, "r");
	char stack[4096], line[256], name[64], ours[80];
	size_t len = 0, n;

	module_name(module_file, name, sizeof(name));
	snprintf(ours, sizeof(ours), "[%s]", name);
	stack[0] = '\0';
	while (f && fgets(line, sizeof(line), f)) {
		n = strlen(line);
		if (n > 1) {
			if (len + n < sizeof(stack)) {
				memcpy(stack + len, line, n + 1);
				len += n;
			}
			continue;
		}
		if (strstr(stack, ours) && !is_kept_elsewhere(stack)) {
			char *save, *l = strtok_r(stack, "\n", &save);

			for (; l; l = strtok_r(NULL, "\n", &save))
				leak("pages: %s", l);
		}
		len = 0;
		stack[0] = '\0';
	}
	if (f)
		fclose(f);
}

/*
 * Pages are counted from the boot on, so that small leaks add up, and from the program
 * before on, so that what others gave back meanwhile hides nothing.
 */
struct pages_in_use {
	long	boot_kb, last_kb;
};

static struct pages_in_use pages_now(void)
{
	long kb = settled_kb();

	return (struct pages_in_use){ kb, kb };
}

/* After a program: nothing of ours may be in use, and the module goes away. */
static void gate(struct pages_in_use *pages)
{
	const char *busy = NULL;
	double slow = slowness(), end = now() + slow * (debug_kernel ? 20 : 15);
	long used = 0, kb = 0, limit = debug_kernel ? DRIFT_MAX_DEBUG_KB : DRIFT_MAX_KB;
	int rc = EBUSY;

	if (!module_in)
		return;
	while (now() < end && (busy = busy_counter()))
		usleep(20000);
	if (busy)
		leak("counter %s", busy);
	find_pages();
	while ((rc = unload(module_file)) && now() < end)
		usleep(20000);
	if (rc) {
		leak("rmmod: %s", strerror(rc));
		return;
	}
	module_in = false;
	for (end = now() + slow * 10; now() < end; usleep(50000)) {
		used = settled_kb();
		kb = used - pages->boot_kb;
		if (kb < used - pages->last_kb)
			kb = used - pages->last_kb;
		if (kb <= limit)
			break;
	}
	say("drift %ld KiB", used - pages->boot_kb);
	pages->last_kb = used;
	if (kb > limit) {
		leak("%ld KiB of pages did not come back", kb);
		pages->boot_kb = used;	/* the next one is not to blame */
	}
}

static void enter(const struct job *j, const char *group)
{
	static const gid_t groups[] = { RENDER_GID };
	static char *argv[64];
	char path[300], *save;
	int n = 0;

	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	put(path, "0");
	setsid();
	if (chdir("/tmp"))
		_exit(126);
	argv[n] = strtok_r(j->command, " ", &save);
	while (argv[n] && n < 62)
		argv[++n] = strtok_r(NULL, " ", &save);
	if (j->uid) {
		if (setgroups(1, groups) || setgid((gid_t)j->uid) ||
		    setuid((uid_t)j->uid))
			_exit(126);
	}
	execv(argv[0], argv);
	printf("# %s: %s\n", argv[0], strerror(errno));
	fflush(stdout);
	_exit(127);
}

/* Relays what came; false at the end of it. */
static bool relay(int fd, size_t *total, char *last)
{
	char buf[4096];
	ssize_t n = read(fd, buf, sizeof(buf));

	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	*total += (size_t)n;
	if (*total <= OUTPUT_MAX) {
		fwrite(buf, 1, (size_t)n, stdout);
		fflush(stdout);
		*last = buf[n - 1];
	}
	return true;
}

static void kill_group(const char *group)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/cgroup.kill", group);
	put(path, "1");
}

static bool group_is_empty(const char *group)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	return !get(path)[0];
}

/* Reaps whoever ended; true once pid did, with its status. */
static bool reap(pid_t pid, int *status)
{
	bool hit = false;
	pid_t p;
	int st;

	while ((p = waitpid(-1, &st, WNOHANG)) > 0)
		if (p == pid) {
			*status = st;
			hit = true;
		}
	return hit;
}

/* Waits for pid to end, relaying its output; kills it when the time is over. */
static int watch(const struct job *j, pid_t pid, int fd, const char *group)
{
	double start = now(), slow = slowness(), end = start + slow * j->seconds, killed = 0;
	double said = start;
	bool more = true, gone = false;
	size_t total = 0;
	char last = '\n';
	int st = 0;

	while (!gone) {
		struct pollfd p = { .fd = more ? fd : -1, .events = POLLIN };

		if (poll(&p, 1, 20) > 0) {
			more = relay(fd, &total, &last);
		} else if (now() > said + ALIVE_SECONDS) {
			printf("%s", last == '\n' ? "" : "\n");
			last = '\n';
			say("alive");
			said = now();
		}
		gone = reap(pid, &st);
		if (gone || now() < end)
			continue;
		if (killed == 0 && slowness() > 1.1 * slow) {
			slow *= 1.1;	/* slower than at the start: it has longer */
			end = start + slow * j->seconds;
		} else if (killed == 0) {
			killed = now();
			tell_stacks();
			say("timeout %s after %.0f s, %d s by a slowness of %.2f", j->name,
			    now() - start, j->seconds, slow);
			kill(pid, SIGKILL);
			kill_group(group);
		} else if (now() > killed + 60) {
			stuck = true;
			break;
		}
	}
	kill_group(group);
	for (end = now() + 60; !group_is_empty(group); usleep(5000)) {
		reap(-2, &st);
		if (now() > end) {
			stuck = true;
			break;
		}
	}
	while (more && total < OUTPUT_MAX) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		if (poll(&p, 1, 0) <= 0)
			break;
		more = relay(fd, &total, &last);
	}
	if (last != '\n')
		printf("\n");
	return st;
}

static void run_job(const struct job *j, struct pages_in_use *pages)
{
	char group[256];
	double start = now();
	int p[2], st;
	pid_t pid;

	/* Huge pages for each, however the one before tore memory up. */
	put("/proc/sys/vm/compact_memory", "1");
	put_log("begin", j->name);
	say("begin %s", j->name);
	leaks = 0;
	snprintf(group, sizeof(group), CGROUP "/%s", j->name);
	mkdir(group, 0755);
	if (!load_ours(j->params) || pipe2(p, O_CLOEXEC) || (pid = fork()) < 0) {
		leak("could not start: %s", strerror(errno));
		say("end %s 1 0", j->name);
		put_log("end", j->name);
		return;
	}
	if (!pid) {
		tell_slowness(slowness(), j->seconds);
		dup2(p[1], 1);
		dup2(p[1], 2);
		enter(j, group);
	}
	close(p[1]);
	fcntl(p[0], F_SETFL, O_NONBLOCK);
	st = watch(j, pid, p[0], group);
	close(p[0]);
	if (stuck) {
		tell_stacks();
		leak("processes that cannot be killed");
	} else {
		rmdir(group);
		gate(pages);
	}
	say("end %s %d %.0f", j->name, WIFSIGNALED(st) ?
	    128 + WTERMSIG(st) : WEXITSTATUS(st), 1e3 * (now() - start));
	put_log("end", j->name);
}

/* KUnit leaves its KTAP in one file a suite, for as long as the module stays. */
static void run_kunit(const char *name, const char *file)
{
	static const char root[] = "/sys/kernel/debug/kunit";
	double start = now();
	struct dirent *d;
	char path[512];
	DIR *dir;
	int rc;

	put_log("begin", name);
	say("begin %s", name);
	rc = load(file, "");
	if (rc)
		leak("insmod %s: %s", file, strerror(rc));
	dir = opendir(root);
	while (dir && (d = readdir(dir))) {
		FILE *f;
		char line[1024];

		if (d->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s/results", root, d->d_name);
		f = fopen(path, "r");
		while (f && fgets(line, sizeof(line), f))
			printf("#kunit %s", line);
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	rc = rc ? 0 : unload(file);
	if (rc)
		leak("rmmod: %s", strerror(rc));
	say("end %s 0 %.0f", name, 1e3 * (now() - start));
	put_log("end", name);
}

/*
 * kmemleak speaks of a block when two scans missed it and it is 5 s old. Unless it was to be
 * off, it is a finding if it is: it turns itself off where it has no memory.
 */
static void find_leaks(void)
{
	char line[512];
	double start = now();
	int i;
	FILE *f;

	if (!debug_kernel || strstr(get("/proc/cmdline"), "kmemleak=off"))
		return;
	say("begin kmemleak");
	sleep(6);
	for (i = 0; i < 2; i++)
		if (!put(KMEMLEAK, "scan"))
			printf("#rig leak kmemleak is off\n");
	f = fopen(KMEMLEAK, "r");
	while (f && fgets(line, sizeof(line), f))
		printf("#rig leak %s", line);
	if (f)
		fclose(f);
	say("end kmemleak %d %.0f", f ? 0 : 1, 1e3 * (now() - start));
}

static void work(FILE *list)
{
	static char line[4096];
	char name[128], params[512], file[256], *p;
	struct pages_in_use pages = pages_now();
	struct job j;
	int at, rc;

	while (!stuck && fgets(line, sizeof(line), list)) {
		line[strcspn(line, "\n")] = '\0';
		params[0] = '\0';
		if (sscanf(line, "insmod %255s %511[^\n]", file, params) >= 1) {
			rc = load(file, params);
			if (rc)
				say("note insmod %s: %s", file, strerror(rc));
			pages = pages_now();
		} else if (sscanf(line, "module %255s", file) == 1) {
			module_file = strdup(file);
			/* Once in and out, for what only the first load takes. */
			if (load_ours("-"))
				gate(&pages);
			pages = pages_now();
		} else if (sscanf(line, "kunit %127s %255s", name, file) == 2) {
			run_kunit(name, file);
		} else if (sscanf(line, "run %127s %d %d %511s %n", name,
				  &j.seconds, &j.uid, params, &at) >= 4) {
			for (p = params; (p = strchr(p, '+')); )
				*p = ' ';
			j.name = name;
			j.params = params;
			j.command = line + at;
			run_job(&j, &pages);
		} else if (line[0]) {
			say("note not understood: %s", line);
		}
	}
	if (!stuck)
		find_leaks();
}

static void run_shell(void)
{
	pid_t pid = fork();

	if (!pid) {
		int fd;

		setsid();
		fd = open("/dev/ttyS0", O_RDWR);
		dup2(fd, 0);
		dup2(fd, 1);
		dup2(fd, 2);
		execl("/bin/busybox", "sh", "-l", (char *)NULL);
		_exit(127);
	}
	while (waitpid(-1, NULL, 0) != pid)
		;
}

int main(void)
{
	const char *line;
	FILE *list;

	if (getpid() != 1) {
		fprintf(stderr, "this is the first process of a test guest\n");
		return 2;
	}
	set_up();
	work_at_boot = time_work();
	line = strstr(get("/proc/cmdline"), "rig.slow=");
	if (line && atof(line + 9) > 100)
		slow_at_boot = atof(line + 9) / 100;
	tell_slowness(slow_at_boot, 0);
	say("up %.2f, slowness %.2f, a computation of %.0f ms", now(), slow_at_boot,
	    work_at_boot * 1e3);
	if (strstr(get("/proc/cmdline"), "rig.shell")) {
		load("/rig/rlx.ko", "");
		give_device();
		run_shell();
	}
	list = fopen("/rig/list", "r");
	if (list)
		work(list);
	say("%s %.2f", stuck ? "stuck" : "done", now());
	tcdrain(1);
	/* That kernel cannot switch off; for QEMU both are an end (-no-reboot). */
	reboot(access(KCSAN, F_OK) ? RB_POWER_OFF : RB_AUTOBOOT);
	return 0;
}
