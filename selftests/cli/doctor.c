// SPDX-License-Identifier: MIT
/*
 * rlx doctor: each failure is made by files that describe a machine, and must be
 * named in its row with the command that mends it, and in no other row.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "selftests/cli/cli.h"
#include "uapi/linux/rlx.h"

/* As the module's sysfs says it. */
#define STRING(x)	#x
#define STRING_OF(x)	STRING(x)
#define MODULE_ABI	STRING_OF(RLX_ABI)

#define REL	"6.1.0-99-amd64"
#define MODULES	"/lib/modules/" REL
#define DKMS	"/var/lib/dkms/rlx"
#define EFIVARS	"/sys/firmware/efi/efivars/"
#define SECURE	EFIVARS "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
#define MOKLIST	EFIVARS "MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"

static int rm_one(const char *path, const struct stat *st, int kind, struct FTW *f)
{
	(void)st;
	(void)kind;
	(void)f;
	return remove(path);
}

static void rm_root(void)
{
	nftw(cli_dir, rm_one, 16, FTW_DEPTH | FTW_PHYS);
}

static char *at(const char *path)
{
	static char full[512];

	snprintf(full, sizeof(full), "%s/root%s", cli_dir, path);
	return full;
}

/* A file with all its folders; @n bytes, or a string for -1. */
static void put_bytes(const char *path, const void *data, long n)
{
	char *s, *full = at(path);
	int fd;

	for (s = full + strlen(cli_dir) + 1; (s = strchr(s, '/')); s++) {
		*s = 0;
		CHECK(!mkdir(full, 0755) || errno == EEXIST);
		*s = '/';
	}
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	CHECKF(fd >= 0, "%s: %s", full, strerror(errno));
	if (n < 0)
		n = (long)strlen(data);
	CHECK_EQ(write(fd, data, (size_t)n), n);
	close(fd);
}

static void put(const char *path, const char *text)
{
	put_bytes(path, text, -1);
}

static void drop(const char *path)
{
	CHECK(!nftw(at(path), rm_one, 16, FTW_DEPTH | FTW_PHYS));
}

/* The ids in Uid, Gid and Groups are ours or nobody's. */
static void put_status(unsigned int uid, unsigned int group, uint64_t caps)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "Name:\trlx\nUid:\t%u\t%u\t%u\t%u\nGid:\t54321\t54321\t54321\t54321\n"
		 "Groups:\t54322 %u \nCapEff:\t%016llx\n", uid, uid, uid, uid, group,
		 (unsigned long long)caps);
	put("/proc/self/status", text);
}

static void put_limit(const char *soft)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "Limit                     Soft Limit           Hard Limit\n"
		 "Max stack size            8388608              unlimited\n"
		 "Max locked memory         %-20s unlimited            bytes\n", soft);
	put("/proc/self/limits", text);
}

/* A machine that lacks nothing. */
static void healthy(void)
{
	char text[128];

	CHECK(mkdtemp(cli_dir));
	atexit(rm_root);
	CHECK(!chdir(cli_dir));
	put("/proc/sys/kernel/osrelease", REL "\n");
	put("/proc/sys/kernel/modules_disabled", "0\n");
	put("/proc/modules", "rlx 65536 0 - Live 0x0\n");
	put_status(1000, (unsigned int)getgid(), 0);
	put_limit("unlimited");
	put("/proc/self/cgroup", "0::/user.slice/a.scope\n");
	put("/sys/fs/cgroup/user.slice/memory.max", "max\n");
	put("/proc/meminfo", "MemTotal: 8000000 kB\nMemAvailable:    4194304 kB\n"
	    "HugePages_Total:       4\nHugePages_Free:        3\n"
	    "Hugepagesize:       2048 kB\n");
	put("/proc/cpuinfo", "processor\t: 0\nflags\t\t: sse avx2 bmi2 fma f16c movbe\n");
	put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
	put("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
	    "always within_size [advise] never deny force\n");
	put("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
	put("/sys/module/rlx/version", RLX_VERSION "\n");
	put("/sys/class/misc/rlx/abi", MODULE_ABI "\n");
	put("/dev/kmsg", "6,1,2,-;rlx: loading out-of-tree module taints kernel.\n");
	put("/dev/rlx", "");
	CHECK(!chmod(at("/dev/rlx"), 0660));
	snprintf(text, sizeof(text), "root:x:0:\nrender:x:%u:\n",
		 (unsigned int)getgid());
	put("/etc/group", getgid() ? text : "render:x:0:\n");
	put(MODULES "/modules.dep", "kernel/fs/fuse/fuse.ko:\nupdates/dkms/rlx.ko:\n");
	put(MODULES "/build/Makefile", "");
	put(MODULES "/updates/dkms/rlx.ko", "ELF~Module signature appended~\n");
	put(DKMS "/" RLX_VERSION "/" REL "/x86_64/log/make.log", "");
	put("/dev/dri/renderD128", "");
}

static const char *field(const struct rlx_json *j, const char *row,
			 const char *key)
{
	uint32_t at = rlx_json_get(j, rlx_json_get(j, 0, "checks"), row);

	CHECKF(at, "no row %s", row);
	at = rlx_json_get(j, at, key);
	CHECK(at);
	return rlx_json_text(j, at);
}

static bool among(const char *rows, const char *row)
{
	size_t n = strlen(row);
	const char *s;

	for (s = rows; (s = strstr(s, row)); s++)
		if ((s == rows || s[-1] == ' ') && (!s[n] || s[n] == ' '))
			return true;
	return false;
}

/* Only rows named in @rows ("a b") are in @state; all others are below it. */
static struct rlx_json *examined(int status, const char *rows, const char *state)
{
	static const char *const all[] = {
		"module", "secure_boot", "kernel_log", "device", "abi", "memlock",
		"huge_pages", "hugetlb", "io_uring", "kernel", "cpu", "memory", "gpu",
	};
	struct said *s = RLX("doctor", "--json", "--root", at(""));
	static struct rlx_json j;
	struct rlx_error err = { 0 };
	unsigned int i;

	CHECKF(s->status == status, "exit %d: %s%s", s->status, s->out, s->err);
	rlx_json_fini(&j);
	CHECKF(!rlx_json_parse(&j, s->out, s->n_out, NULL, "output", &err), "%s",
	       err.text);
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const char *is = field(&j, all[i], "state");
		bool want = among(rows, all[i]);

		CHECKF(want == !strcmp(is, state) &&
		       (want || strcmp(is, "missing")), "%s is %s: %s", all[i], is,
		       field(&j, all[i], "found"));
	}
	return &j;
}

static void says(const struct rlx_json *j, const char *row, const char *found,
		 const char *fix)
{
	const char *f = field(j, row, "found");
	const char *x = field(j, row, "fix");

	CHECKF(strstr(f, found), "%s: \"%s\" lacks \"%s\"", row, f, found);
	CHECKF(strstr(x, fix), "%s: \"%s\" lacks \"%s\"", row, x, fix);
}

/* One thing is missing: the row, what it says, and how to mend it. */
static void missing(const char *row, const char *found, const char *fix)
{
	says(examined(1, row, "missing"), row, found, fix);
}

static void weak(const char *row, const char *found, const char *fix)
{
	says(examined(0, row, "weak"), row, found, fix);
}

/* As it is before the module was ever loaded: the device is missing too. */
static void unload(void)
{
	drop("/sys/module/rlx");
	drop("/sys/class/misc/rlx");
	drop("/dev/rlx");
	put("/dev/kmsg", "");
}

static void module_missing(const char *found, const char *fix)
{
	struct rlx_json *j = examined(1, "module device", "missing");

	says(j, "module", found, fix);
	says(j, "device", "not loaded", "see module");
}

TEST(nothing_is_missing)
{
	struct said *s;

	healthy();
	says(examined(0, "gpu", "info"), "gpu", "/dev/dri/renderD128", "");
	s = RLX("doctor", "--root", at(""));
	ENDS(s, 0, out, "ok       module       loaded, " RLX_VERSION);
	ENDS(s, 0, out, "0 missing\n");
	CHECK(!strstr(s->out, "fix:"));
}

TEST(usage)
{
	cli_begin();
	ENDS(RLX("doctor", "--help"), 0, out, "1 something is missing");
	ENDS(RLX("doctor", "--rot"), 2, err, "--rot");
	ENDS(RLX("doctor", "x"), 2, err, "x");
}

TEST(this_machine_is_told_about)
{
	struct said *s;

	cli_begin();
	s = RLX("doctor");
	CHECK(s->status <= 1);
	CHECK(strstr(s->out, " missing\n") && strstr(s->out, " kernel "));
	s = RLX("doctor", "--no-module");
	CHECK(!strstr(s->out, "missing  module"));
}

TEST(module_not_installed)
{
	healthy();
	unload();
	drop("/var/lib/dkms/rlx");
	put(MODULES "/modules.dep", "kernel/fs/fuse/fuse.ko:\n");
	module_missing("not installed", "apt install rlx-dkms linux-headers-" REL);
	ENDS(RLX("doctor", "--root", at(""), "--no-module"), 0, out,
	     "info     module       the module is not installed");
}

TEST(module_not_loaded)
{
	healthy();
	unload();
	module_missing("installed (/lib/modules/" REL "/updates/dkms/rlx.ko), but "
		       "not loaded", "modprobe rlx");
}

TEST(module_of_another_version)
{
	healthy();
	put("/sys/module/rlx/version", "9.9\n");
	weak("module", "loaded, 9.9", "modprobe -r rlx && modprobe rlx");
	unload();
	drop(DKMS "/" RLX_VERSION);
	put(DKMS "/9.9/source/dkms.conf", "");
	put(MODULES "/modules.dep", "");
	module_missing("another version", "--only-upgrade rlx-dkms");
}

TEST(headers_missing)
{
	healthy();
	unload();
	put(MODULES "/modules.dep", "");
	drop(DKMS "/" RLX_VERSION "/" REL);
	drop(MODULES "/build");
	module_missing("headers are missing", "apt install linux-headers-" REL);
}

TEST(build_failed)
{
	healthy();
	unload();
	put(MODULES "/modules.dep", "");
	drop(DKMS "/" RLX_VERSION "/" REL);
	put(DKMS "/" RLX_VERSION "/build/make.log", "error\n");
	module_missing("building it failed", DKMS "/" RLX_VERSION "/build/make.log");
}

TEST(never_built_and_never_installed)
{
	healthy();
	unload();
	put(MODULES "/modules.dep", "");
	module_missing("not installed into it",
		       "dkms install rlx/" RLX_VERSION " -k " REL);
	drop(DKMS "/" RLX_VERSION "/" REL);
	module_missing("not built for this kernel (" REL ")",
		       "dkms install rlx/" RLX_VERSION " -k " REL);
}

TEST(kernel_that_takes_no_modules)
{
	healthy();
	unload();
	put("/proc/sys/kernel/modules_disabled", "1\n");
	module_missing("forbidden after boot", "modules-load.d/rlx.conf");
	drop("/proc/modules");
	module_missing("cannot load modules", "CONFIG_MODULES");
}

TEST(container)
{
	healthy();
	unload();
	drop("/lib/modules");
	drop("/var/lib/dkms");
	module_missing("a container?", "--device /dev/rlx");
}

/* Secure Boot on, the module built, and nothing loaded. */
static void secure(void)
{
	healthy();
	unload();
	put_bytes(SECURE, "\6\0\0\0\1", 5);
	put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
	put("/var/lib/dkms/mok.pub", "DER of the key");
	put(MOKLIST, "....DER of another key....DER of the key....");
}

static void secure_missing(const char *found, const char *fix)
{
	struct rlx_json *j = examined(1, "module device secure_boot", "missing");

	says(j, "secure_boot", found, fix);
	says(j, "module", "not loaded", "modprobe rlx");
}

TEST(secure_boot_step_by_step)
{
	healthy();
	put_bytes(SECURE, "\6\0\0\0\1", 5);
	says(examined(0, "gpu", "info"), "secure_boot", "was accepted", "");
	rm_root();
	strcpy(cli_dir, "/tmp/rlx-cli-XXXXXX");
	secure();
	says(examined(1, "module device", "missing"), "secure_boot", "enrolled", "");
	put(MOKLIST, "....DER of another key....");
	secure_missing("does not know the key",
		       "mokutil --import /var/lib/dkms/mok.pub");
	drop("/var/lib/dkms/mok.pub");
	secure_missing("no key to sign", "dkms install --force rlx/" RLX_VERSION);
	put("/var/lib/dkms/mok.pub", "DER of the key");
	put(MOKLIST, "DER of the key");
	put(MODULES "/updates/dkms/rlx.ko", "ELF without");
	secure_missing("has no signature", "dkms install --force rlx/" RLX_VERSION);
	/* Compressed files cannot be looked into here: no false alarm. */
	put(MODULES "/modules.dep", "updates/dkms/rlx.ko.xz:\n");
	examined(1, "module device", "missing");
	put_bytes(SECURE, "\6\0\0\0\0", 5);
	put("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
	says(examined(1, "module device", "missing"), "secure_boot", "off:", "");
}

TEST(signatures_enforced_without_secure_boot)
{
	healthy();
	unload();
	put("/sys/module/module/parameters/sig_enforce", "Y\n");
	secure_missing("signed modules only", "mokutil --import");
}

TEST(kernel_log_says_why)
{
	static const struct {
		const char *line, *found, *fix;
	} cases[] = {
		{ "5,9,1,-;Loading of unsigned module is rejected\n",
		  "unsigned module was refused", "see secure_boot" },
		{ "5,9,1,-;Lockdown: modprobe: unsigned module loading is restricted; "
		  "see man kernel_lockdown.7\n",
		  "unsigned module was refused", "see secure_boot" },
		{ "5,9,1,-;Loading of module with unavailable key is rejected\n",
		  "nobody enrolled the key", "see secure_boot" },
		{ "3,9,1,-;rlx: version magic '6.1.0-1' should be '6.1.0-99'\n",
		  "another kernel", "dkms install --force rlx/" RLX_VERSION },
		{ "3,9,1,-;rlx: Unknown symbol foo (err -2)\n",
		  "another kernel", "dkms install --force rlx/" RLX_VERSION },
	};
	unsigned int i;

	healthy();
	unload();
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put("/dev/kmsg", cases[i].line);
		says(examined(1, "module device kernel_log", "missing"),
		     "kernel_log", cases[i].found, cases[i].fix);
	}
	drop("/dev/kmsg");
	says(examined(1, "module device", "missing"), "kernel_log",
	     "not for us to read", "sudo");
}

TEST(device_not_made)
{
	healthy();
	drop("/dev/rlx");
	missing("device", "udev did not make it", "udevadm trigger");
}

TEST(device_not_permitted)
{
	healthy();
	put_status(1000, 54399, 0);
	missing("device", "for the group render (mode 0660)",
		"usermod -aG render");
	put("/etc/group", getgid() ? "x:x:0:\n" : "root:x:0:\n");
	missing("device", "mode 0660", getgid() ? "usermod" : "--reinstall rlx-dkms");
	CHECK(!chmod(at("/dev/rlx"), 0666));
	examined(0, "gpu", "info");
	CHECK(!chmod(at("/dev/rlx"), 0600));
	put_status(1000, (unsigned int)getgid(), 0);
	missing("device", "mode 0600", "");
	put_status(0, 54399, 0);		/* root may */
	examined(0, "gpu", "info");
}

TEST(abi_of_another_version)
{
	healthy();
	put("/sys/class/misc/rlx/abi", "7\n");
	missing("abi", "the module speaks 7, the library " MODULE_ABI,
		"modprobe -r rlx && modprobe rlx");
}

TEST(memlock)
{
	healthy();
	put_limit("8388608");
	missing("memlock", "only 8192 KiB", "/etc/security/limits.d/rlx.conf");
	put_limit("134217728");
	weak("memlock", "only 131072 KiB", "LimitMEMLOCK=infinity");
	put_limit("1073741824");
	examined(0, "gpu", "info");
	put_limit("0");
	missing("memlock", "only 0 KiB", "memlock unlimited");
	put_status(1000, (unsigned int)getgid(), 1u << 14);
	says(examined(0, "gpu", "info"), "memlock", "CAP_IPC_LOCK", "");
}

TEST(huge_pages)
{
	healthy();
	put("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
	    "always within_size advise [never] deny force\n");
	says(examined(0, "gpu huge_pages", "info"), "huge_pages", "'never'", "");
	unload();
	says(examined(1, "module device", "missing"), "huge_pages", "'never'",
	     "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled");
	drop("/sys/kernel/mm/transparent_hugepage");
	says(examined(1, "module device", "missing"), "huge_pages",
	     "no transparent huge pages", "");
	put("/proc/meminfo", "HugePages_Total: 0\nHugePages_Free: 0\n"
	    "Hugepagesize: 2048 kB\n");
	says(examined(1, "module device", "missing"), "hugetlb", "empty", "");
}

TEST(io_uring_off)
{
	healthy();
	put("/proc/sys/kernel/io_uring_disabled", "2\n");
	missing("io_uring", "switched off", "sysctl -w kernel.io_uring_disabled=0");
	put("/proc/sys/kernel/io_uring_disabled", "1\n");
	put("/proc/sys/kernel/io_uring_group", "77\n");
	missing("io_uring", "disabled = 1", "sysctl");
	put("/proc/sys/kernel/io_uring_group", "54322\n");
	says(examined(0, "gpu", "info"), "io_uring", "allowed to you", "");
	put("/proc/sys/kernel/io_uring_disabled", "0\n");
	examined(0, "gpu", "info");
}

TEST(kernel_and_cpu_too_old)
{
	healthy();
	put("/proc/sys/kernel/osrelease", "5.10.0-30-amd64\n");
	missing("kernel", "5.10.0-30-amd64", "linux-image-amd64");
	put("/proc/sys/kernel/osrelease", REL "\n");
	put("/proc/cpuinfo", "flags\t\t: sse avx2 bmi2 fma f16c movbexyz\n");
	weak("cpu", "below x86-64-v3", "");
	put("/proc/cpuinfo", "flags\t\t: avx2 bmi2 fma f16c movbe avx512f avx512bw "
	    "avx512cd avx512dq avx512vl avx512_bf16\n");
	says(examined(0, "gpu", "info"), "cpu", "x86-64-v4, bf16", "");
}

TEST(cgroup_too_small)
{
	healthy();
	put("/sys/fs/cgroup/user.slice/a.scope/memory.max", "104857600\n");
	weak("memory", "100 MiB", "MemoryMax=");
	put("/sys/fs/cgroup/user.slice/a.scope/memory.max", "max\n");
	put("/sys/fs/cgroup/user.slice/memory.max", "1073741824\n");
	says(examined(0, "gpu memory", "info"), "memory", "1024 MiB", "");
}

TEST_MAIN()
