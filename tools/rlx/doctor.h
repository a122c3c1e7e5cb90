/* SPDX-License-Identifier: MIT */
/* rlx doctor: what a check gets to look at, and what it finds. */
#ifndef RLX_TOOLS_DOCTOR_H
#define RLX_TOOLS_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum finding_state {
	FINDING_OK,
	FINDING_INFO,		/* neither good nor bad */
	FINDING_WEAK,		/* it works, with less */
	FINDING_MISSING,	/* something needed is not there */
};

struct finding {
	enum finding_state	state;
	char			text[400];
	char			fix[400];	/* commands; may be empty */
};

/* The machine under examination: ours, or a tree of files that describes one. */
struct patient {
	const char	*root;		/* "" for this machine */
	char		 release[128];	/* of the kernel that runs */
	bool		 loaded;	/* the module is in the kernel */
	bool		 efi, secure;	/* booted by EFI; with Secure Boot on */
	long		 uid;
	uint64_t	 caps;		/* effective */
};

struct check {
	const char	*name;
	bool		 module;	/* only of interest to who wants the module */
	void		(*fn)(const struct patient *p, struct finding *f);
};

/* One table a file; they end with a row of NULLs. */
extern const struct check doctor_module[], doctor_host[];

/* What was found; @text may be written once, @fix too. */
void found(struct finding *f, enum finding_state s, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void fix(struct finding *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

enum { PATIENT_PATH = 1024 };
/* The name of a file of the patient, in @buf, which is given back. */
const char *patient_path(const struct patient *p, char buf[PATIENT_PATH],
			 const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
bool patient_has(const struct patient *p, const char *path);
/* The first line of a file. */
bool patient_line(const struct patient *p, const char *path, char *buf,
		  size_t size);
bool patient_u64(const struct patient *p, const char *path, uint64_t *out);
/* The rest of the line of @path that starts with @key and a separator. */
bool patient_key(const struct patient *p, const char *path, const char *key,
		 char *buf, size_t size);
/* A whole file in memory, to be freed; NULL if it cannot be read. */
char *patient_file(const struct patient *p, const char *path, size_t *size);
bool patient_in_group(const struct patient *p, unsigned int gid);
/* The name of a group, or its number. */
void patient_group(const struct patient *p, unsigned int gid, char *buf,
		   size_t size);

#endif
