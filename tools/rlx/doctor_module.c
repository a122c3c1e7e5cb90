// SPDX-License-Identifier: MIT
/* Checks of rlx doctor about the kernel module: built, accepted, usable. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/proc.h"
#include "mem/arena.h"
#include "tools/rlx/doctor.h"

#define DKMS		"/var/lib/dkms/rlx/"
#define KEY		"/var/lib/dkms/mok.pub"
#define NODE		RLX_KMOD_NODE
#define ENROLLED	"/sys/firmware/efi/efivars/" \
			"MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"
#define SIGNED		"~Module signature appended~\n"

/* The module's file for the running kernel, below /lib/modules/RELEASE. */
static bool module_file(const struct patient *p, char *out, size_t size)
{
	char buf[PATIENT_PATH], *s, *end, *name;
	struct rlx_lines l;
	bool got = false;

	if (!rlx_lines_open(&l, patient_path(p, buf, "/lib/modules/%s/modules.dep",
					     p->release)))
		return false;
	while (!got && (s = rlx_lines_next(&l))) {
		end = strchr(s, ':');
		if (!end)
			continue;
		*end = 0;
		name = strrchr(s, '/') ? strrchr(s, '/') + 1 : s;
		got = !strncmp(name, "rlx.ko", 6) && (!name[6] || name[6] == '.');
		if (got)
			snprintf(out, size, "/lib/modules/%s/%s", p->release, s);
	}
	rlx_lines_close(&l);
	return got;
}

static bool has_headers(const struct patient *p)
{
	char buf[PATIENT_PATH];

	return !access(patient_path(p, buf, "/lib/modules/%s/build/Makefile",
				    p->release), F_OK);
}

/* The state of DKMS's tree where no module is installed for this kernel. */
static void check_dkms(const struct patient *p, struct finding *f)
{
	char dir[128], path[PATIENT_PATH];

	snprintf(dir, sizeof(dir), DKMS "%s", RLX_VERSION);
	if (!patient_has(p, DKMS)) {
		found(f, FINDING_MISSING, "the module is not installed");
		fix(f, "apt install rlx-dkms linux-headers-%s", p->release);
	} else if (!patient_has(p, dir)) {
		found(f, FINDING_MISSING,
		      "rlx-dkms is of another version than this tool (%s)",
		      RLX_VERSION);
		fix(f, "apt install --only-upgrade rlx-dkms rlx-tools");
	} else if (!access(patient_path(p, path, "%s/%s/", dir, p->release),
			   F_OK)) {
		found(f, FINDING_MISSING,
		      "built for this kernel, but not installed into it");
		fix(f, "dkms install rlx/%s -k %s", RLX_VERSION, p->release);
	} else if (!has_headers(p)) {
		found(f, FINDING_MISSING,
		      "not built for this kernel: its headers are missing");
		fix(f, "apt install linux-headers-%s", p->release);
	} else if (!access(patient_path(p, path, "%s/build/make.log", dir),
			   F_OK)) {
		found(f, FINDING_MISSING,
		      "building it failed; the reason stands in %s/build/make.log",
		      dir);
		fix(f, "less %s/build/make.log", dir);
	} else {
		found(f, FINDING_MISSING, "not built for this kernel (%s)",
		      p->release);
		fix(f, "dkms install rlx/%s -k %s", RLX_VERSION, p->release);
	}
}

static void check_module(const struct patient *p, struct finding *f)
{
	char text[256], dir[192];
	uint64_t v;

	snprintf(dir, sizeof(dir), "/lib/modules/%s", p->release);
	if (p->loaded) {
		if (!patient_line(p, "/sys/module/rlx/version", text, sizeof(text)))
			snprintf(text, sizeof(text), "of unknown version");
		found(f, FINDING_OK, "loaded, %s", text);
		if (strcmp(text, RLX_VERSION)) {
			found(f, FINDING_WEAK, "loaded, %s; this tool is %s", text,
			      RLX_VERSION);
			fix(f, "modprobe -r rlx && modprobe rlx");
		}
	} else if (!patient_has(p, "/proc/modules")) {
		found(f, FINDING_MISSING, "this kernel cannot load modules");
		fix(f, "run a kernel with CONFIG_MODULES; or do without the module: "
		    "rlx doctor --no-module");
	} else if (patient_u64(p, "/proc/sys/kernel/modules_disabled", &v) && v) {
		found(f, FINDING_MISSING,
		      "loading modules was forbidden after boot "
		      "(kernel.modules_disabled)");
		fix(f, "echo rlx > /etc/modules-load.d/rlx.conf && reboot");
	} else if (module_file(p, text, sizeof(text))) {
		found(f, FINDING_MISSING, "installed (%s), but not loaded", text);
		fix(f, "modprobe rlx");
	} else if (!patient_has(p, dir) && !patient_has(p, DKMS)) {
		found(f, FINDING_MISSING,
		      "not loaded, and this system does not hold the modules of "
		      "its kernel (a container?): load it on the host");
		fix(f, "on the host: apt install rlx-dkms; then give the container "
		    NODE " (docker run --device " NODE ")");
	} else {
		check_dkms(p, f);
	}
}

/* Is the signature's marker at the end of the file? Compressed: unknown, yes. */
static bool is_signed(const struct patient *p, const char *path)
{
	size_t n, k = strlen(SIGNED);
	char *s;
	bool yes;

	if (strcmp(path + strlen(path) - 3, ".ko"))
		return true;
	s = patient_file(p, path, &n);
	yes = !s || (n > k && !memcmp(s + n - k, SIGNED, k));
	free(s);
	return yes;
}

/* Is the certificate DKMS signs with among those the firmware handed on? */
static bool is_enrolled(const struct patient *p)
{
	size_t nk = 0, nl = 0;
	char *key = patient_file(p, KEY, &nk);
	char *list = patient_file(p, ENROLLED, &nl);
	bool yes = key && list && nk && memmem(list, nl, key, nk);

	free(key);
	free(list);
	return yes;
}

static void check_secure_boot(const struct patient *p, struct finding *f)
{
	char lock[64], enforce[8], file[512];

	if (!patient_line(p, "/sys/kernel/security/lockdown", lock, sizeof(lock)))
		snprintf(lock, sizeof(lock), "[none]");
	if (!patient_line(p, "/sys/module/module/parameters/sig_enforce", enforce,
			  sizeof(enforce)))
		snprintf(enforce, sizeof(enforce), "N");
	if (!p->secure && strstr(lock, "[none]") && *enforce != 'Y') {
		found(f, FINDING_OK, "off%s: modules need no signature",
		      p->efi ? "" : " (no EFI)");
		return;
	}
	if (p->loaded) {
		found(f, FINDING_OK, "on, and the module was accepted");
		return;
	}
	if (!patient_has(p, KEY)) {
		found(f, FINDING_MISSING,
		      "%s, and there is no key to sign modules with",
		      p->secure ? "on" : "the kernel takes signed modules only");
		fix(f, "apt install openssl mokutil && dkms install --force rlx/%s "
		    "&& mokutil --import " KEY " && reboot", RLX_VERSION);
	} else if (!is_enrolled(p)) {
		found(f, FINDING_MISSING,
		      "on, and the firmware does not know the key that DKMS signs "
		      "with (" KEY ")");
		fix(f, "mokutil --import " KEY " && reboot, then 'Enroll MOK' in "
		    "the blue screen");
	} else if (module_file(p, file, sizeof(file)) && !is_signed(p, file)) {
		found(f, FINDING_MISSING,
		      "on, and %s has no signature, though there is a key", file);
		fix(f, "dkms install --force rlx/%s -k %s && modprobe rlx",
		    RLX_VERSION, p->release);
	} else {
		found(f, FINDING_OK, "on, with the key of DKMS enrolled");
	}
}

/* Words of the kernel log, and what they mean. */
static const struct {
	const char *words, *means;
} refusals[] = {
	{ "unsigned module is rejected", "an unsigned module was refused" },
	{ "unsigned module loading is restricted", "an unsigned module was refused" },
	{ "unavailable key is rejected",
	  "a module was refused: nobody enrolled the key it is signed with" },
	{ "Key was rejected",
	  "a module was refused: nobody enrolled the key it is signed with" },
	{ "rlx: version magic", "the module was built for another kernel" },
	{ "rlx: disagrees about version", "the module was built for another kernel" },
	{ "rlx: Unknown symbol", "the module was built for another kernel" },
};

static void look_at_record(const char *s, struct finding *f)
{
	unsigned int i;
	const char *at;

	for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		if (!strstr(s, refusals[i].words))
			continue;
		at = strchr(s, ';');
		found(f, FINDING_MISSING, "%s: \"%.160s\"", refusals[i].means,
		      at ? at + 1 : s);
	}
}

/* The last word of the log counts, while the module is not loaded. */
static void check_log(const struct patient *p, struct finding *f)
{
	char path[PATIENT_PATH], rec[8192], *s, *end;
	ssize_t n;
	int fd = open(patient_path(p, path, "/dev/kmsg"),
		      O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	found(f, FINDING_OK, "nothing was refused");
	if (p->loaded)
		goto out;
	if (fd < 0) {
		found(f, FINDING_INFO, "the kernel log is not for us to read");
		fix(f, "sudo rlx doctor");
		return;
	}
	for (;;) {
		n = read(fd, rec, sizeof(rec) - 1);
		if (n < 0 && errno == EPIPE)	/* overwritten meanwhile */
			continue;
		if (n <= 0)
			break;
		rec[n] = 0;
		for (s = rec; s; s = end) {
			end = strchr(s, '\n');
			if (end)
				*end++ = 0;
			look_at_record(s, f);
		}
	}
	if (f->state == FINDING_MISSING && strstr(f->text, "another kernel"))
		fix(f, "dkms install --force rlx/%s -k %s && modprobe rlx",
		    RLX_VERSION, p->release);
	else if (f->state == FINDING_MISSING)
		fix(f, "see secure_boot, then modprobe rlx");
out:
	if (fd >= 0)
		close(fd);
}

static bool may(const struct patient *p, const struct stat *st)
{
	unsigned int want = 06, mode = st->st_mode;

	if (!p->uid)
		return true;
	if (p->uid == (long)st->st_uid)
		return (mode >> 6 & want) == want;
	if (patient_in_group(p, st->st_gid))
		return (mode >> 3 & want) == want;
	return (mode & want) == want;
}

static void check_device(const struct patient *p, struct finding *f)
{
	char path[PATIENT_PATH], group[64];
	struct stat st;
	int fd;

	if (stat(patient_path(p, path, NODE), &st)) {
		found(f, FINDING_MISSING, "no " NODE "%s", p->loaded ?
		      ", though the module is loaded: udev did not make it" :
		      ": the module is not loaded");
		fix(f, p->loaded ? "udevadm trigger --settle /sys/class/misc/rlx" :
		    "see module");
		return;
	}
	patient_group(p, st.st_gid, group, sizeof(group));
	if (!may(p, &st)) {
		found(f, FINDING_MISSING,
		      NODE " is for the group %s (mode %04o), and you are not in it",
		      group, (unsigned int)st.st_mode & 07777);
		if (strcmp(group, "root"))
			fix(f, "usermod -aG %s USER, then log in again", group);
		else
			fix(f, "apt install --reinstall rlx-dkms && udevadm control "
			    "--reload && udevadm trigger /sys/class/misc/rlx");
		return;
	}
	found(f, FINDING_OK, NODE " may be used (group %s, mode %04o)", group,
	      (unsigned int)st.st_mode & 07777);
	if (*p->root)
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		found(f, FINDING_MISSING, NODE " cannot be opened: %s",
		      strerror(errno));
		fix(f, errno == ENXIO || errno == ENODEV ? "modprobe rlx" :
		    "a container or policy forbids it: docker run --device " NODE);
		return;
	}
	close(fd);
}

static void check_abi(const struct patient *p, struct finding *f)
{
	uint64_t v;

	if (!patient_u64(p, "/sys/class/misc/rlx/abi", &v)) {
		found(f, FINDING_INFO, "this tool speaks %u; no module to ask",
		      rlx_kmod_abi);
	} else if (v == rlx_kmod_abi) {
		found(f, FINDING_OK, "module and library speak %u",
		      rlx_kmod_abi);
	} else {
		found(f, FINDING_MISSING, "the module speaks %llu, the library %u",
		      (unsigned long long)v, rlx_kmod_abi);
		fix(f, "apt install rlx-dkms librlx1 && modprobe -r rlx && "
		    "modprobe rlx");
	}
}

const struct check doctor_module[] = {
	{ "module",	 true, check_module },
	{ "secure_boot", true, check_secure_boot },
	{ "kernel_log",	 true, check_log },
	{ "device",	 true, check_device },
	{ "abi",	 true, check_abi },
	{ 0 }
};
