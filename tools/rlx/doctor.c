// SPDX-License-Identifier: MIT
/* rlx doctor: checks what RLX needs of a machine, and names what is missing. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/proc.h"
#include "tools/rlx/doctor.h"
#include "tools/rlx/tool.h"

#define SECURE_BOOT "/sys/firmware/efi/efivars/" \
	"SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

static const char *const states[] = { "ok", "info", "weak", "missing" };

void found(struct finding *f, enum finding_state s, const char *fmt, ...)
{
	va_list ap;

	f->state = s;
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
}

void fix(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->fix, sizeof(f->fix), fmt, ap);
	va_end(ap);
}

const char *patient_path(const struct patient *p, char buf[PATIENT_PATH],
			 const char *fmt, ...)
{
	size_t n = strlen(p->root);
	va_list ap;

	if (n >= PATIENT_PATH)
		n = 0;
	memcpy(buf, p->root, n);
	va_start(ap, fmt);
	vsnprintf(buf + n, PATIENT_PATH - n, fmt, ap);
	va_end(ap);
	return buf;
}

bool patient_has(const struct patient *p, const char *path)
{
	char buf[PATIENT_PATH];

	return !access(patient_path(p, buf, "%s", path), F_OK);
}

bool patient_line(const struct patient *p, const char *path, char *out,
		  size_t size)
{
	char buf[PATIENT_PATH];

	if (!rlx_proc_text(patient_path(p, buf, "%s", path), out, size))
		return false;
	out[strcspn(out, "\n")] = 0;
	return true;
}

bool patient_u64(const struct patient *p, const char *path, uint64_t *out)
{
	char buf[PATIENT_PATH];

	return rlx_proc_u64(patient_path(p, buf, "%s", path), out);
}

bool patient_key(const struct patient *p, const char *path, const char *key,
		 char *out, size_t size)
{
	char buf[PATIENT_PATH], *s;
	size_t n = strlen(key);
	struct rlx_lines l;
	bool got = false;

	if (!rlx_lines_open(&l, patient_path(p, buf, "%s", path)))
		return false;
	while (!got && (s = rlx_lines_next(&l))) {
		got = !strncmp(s, key, n) && strchr(": \t", s[n]);
		if (got)
			snprintf(out, size, "%s", s + n + strspn(s + n, ": \t"));
	}
	rlx_lines_close(&l);
	return got;
}

char *patient_file(const struct patient *p, const char *path, size_t *size)
{
	char buf[PATIENT_PATH], *data = NULL, *more;
	size_t n = 0, cap = 0;
	ssize_t got = -1;
	int fd = open(patient_path(p, buf, "%s", path), O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	do {
		if (n + 1 >= cap) {
			cap = cap ? 2 * cap : 64 << 10;
			more = realloc(data, cap);
			if (!more) {
				got = -1;
				break;
			}
			data = more;
		}
		got = read(fd, data + n, cap - n - 1);
		n += got > 0 ? (size_t)got : 0;
	} while (got > 0);
	close(fd);
	if (got < 0) {
		free(data);
		return NULL;
	}
	data[n] = 0;
	*size = n;
	return data;
}

bool patient_in_group(const struct patient *p, unsigned int gid)
{
	char line[4096], *s = line, *end;

	if (patient_key(p, "/proc/self/status", "Gid", line, sizeof(line)) &&
	    strtoul(line + strcspn(line, "\t "), NULL, 10) == gid)
		return true;
	if (!patient_key(p, "/proc/self/status", "Groups", line, sizeof(line)))
		return false;
	for (;; s = end) {
		unsigned long g = strtoul(s, &end, 10);

		if (end == s)
			return false;
		if (g == gid)
			return true;
	}
}

void patient_group(const struct patient *p, unsigned int gid, char *out,
		   size_t size)
{
	char buf[PATIENT_PATH], *s, *x;
	struct rlx_lines l;
	unsigned int g;

	snprintf(out, size, "%u", gid);
	if (!rlx_lines_open(&l, patient_path(p, buf, "/etc/group")))
		return;
	while ((s = rlx_lines_next(&l))) {
		x = strchr(s, ':');
		if (!x)
			continue;
		*x = 0;
		x = strchr(x + 1, ':');
		if (x && sscanf(x, ":%u", &g) == 1 && g == gid) {
			snprintf(out, size, "%s", s);
			break;
		}
	}
	rlx_lines_close(&l);
}

static void examine(struct patient *p, const char *root)
{
	char line[256];
	size_t n;
	char *s;

	*p = (struct patient){ .root = root };
	if (!patient_line(p, "/proc/sys/kernel/osrelease", p->release,
			  sizeof(p->release)))
		snprintf(p->release, sizeof(p->release), "unknown");
	p->loaded = patient_has(p, "/sys/module/rlx");
	p->efi = patient_has(p, "/sys/firmware/efi");
	s = patient_file(p, SECURE_BOOT, &n);	/* 4 bytes of attributes, one */
	p->secure = s && n == 5 && s[4] == 1;
	free(s);
	if (patient_key(p, "/proc/self/status", "Uid", line, sizeof(line)))
		p->uid = strtol(line + strcspn(line, "\t "), NULL, 10);
	if (patient_key(p, "/proc/self/status", "CapEff", line, sizeof(line)))
		p->caps = strtoull(line, NULL, 16);
}

static void report(struct out *o, const char *name, const struct finding *f)
{
	if (o->json) {
		out_section(o, name);
		out_str(o, "state", states[f->state]);
		out_str(o, "found", f->text);
		out_str(o, "fix", f->fix);
		out_section_end(o);
		return;
	}
	printf("%-8s %-12s %s\n", states[f->state], name, f->text);
	if (f->fix[0])
		printf("%21s fix: %s\n", "", f->fix);
}

/* Gives how many were missing. */
static unsigned int run(struct out *o, const struct patient *p,
			const struct check *c, bool no_module)
{
	unsigned int missing = 0;

	for (; c->name; c++) {
		struct finding f = { 0 };

		c->fn(p, &f);
		if (c->module && no_module && f.state > FINDING_INFO)
			f.state = FINDING_INFO;
		missing += f.state == FINDING_MISSING;
		report(o, c->name, &f);
	}
	return missing;
}

int cmd_doctor(int argc, char **argv)
{
	bool json = false, no_module = false;
	const char *root = "";
	const struct arg arg[] = {
		{ "json", ARG_FLAG, &json, NULL, "print JSON" },
		{ "no-module", ARG_FLAG, &no_module, NULL,
		  "do without the module: what it lacks is told, not held against\n"
		  "the machine" },
		{ "root", ARG_STR, &root, "DIR",
		  "for tests: look at the files below DIR, as if at /" },
	};
	const struct args a = {
		"doctor", "[--json] [--no-module]",
		"Checks what RLX needs of this machine: the kernel module and why it is\n"
		"not there, the right to use it, Secure Boot, limits on locked memory,\n"
		"huge pages, io_uring, the kernel and the CPU. Each finding is 'ok',\n"
		"'info', 'weak' (it works, with less) or 'missing'; the last two come\n"
		"with the commands that mend them.",
		arg, N_ELEM(arg), .mismatch = "something is missing",
	};
	unsigned int missing;
	struct patient p;
	struct out o;
	int rc;

	if (!args_parse(&a, argc, argv, &rc))
		return rc;
	examine(&p, root);
	out_begin(&o, json);
	if (json)
		out_section(&o, "checks");
	missing = run(&o, &p, doctor_module, no_module);
	missing += run(&o, &p, doctor_host, no_module);
	out_section_end(&o);
	if (json)
		out_int(&o, "missing", missing);
	else
		printf("%u missing\n", missing);
	if (!out_end(&o))
		return tool_fail("doctor", TOOL_FAILED,
				 "cannot write to standard output");
	return missing ? TOOL_MISMATCH : TOOL_OK;
}
