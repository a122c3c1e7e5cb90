// SPDX-License-Identifier: MIT
/* Texts of files as streams of bytes in record files. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "io/formats/file.h"
#include "tools/rlx/train.h"

enum { PATH = 4096, MOST = 1 << 30 };

struct text {
	char		*p;
	uint32_t	 n, cap;
};

/* Append what @path holds; what is no regular file is left out. */
static bool append(struct text *t, const char *path, struct rlx_error *err)
{
	struct rlx_error why = { 0 };
	struct rlx_file f;

	if (rlx_file_map(&f, path, &why)) {
		if (why.status != RLX_EBADFD)
			*err = why;
		return !err->status;
	}
	if (f.n > MOST - t->n || !rlx_grow(&t->p, &t->cap, t->n + (uint32_t)f.n, 1)) {
		rlx_fail(err, RLX_ENOMEM, "%s: over 1 GiB of text, or out of memory", path);
	} else {
		memcpy(t->p + t->n, f.p, f.n);
		t->n += (uint32_t)f.n;
	}
	rlx_file_unmap(&f);
	return !err->status;
}

static bool read_folder(struct text *t, const char *folder, struct rlx_error *err)
{
	struct dirent **e = NULL;
	int n = scandir(folder, &e, NULL, alphasort), i;
	char path[PATH];

	if (n < 0 && errno == ENOTDIR)
		return append(t, folder, err);
	if (n < 0) {
		rlx_fail(err, errno == ENOENT ? RLX_ENOENT : RLX_EACCES, "%s cannot be read: %s",
			 folder, strerror(errno));
		return false;
	}
	for (i = 0; i < n; i++) {
		struct stat st;

		/* several names of one text would be so many copies of it */
		if (!err->status && e[i]->d_name[0] != '.' &&
		    snprintf(path, sizeof(path), "%s/%s", folder, e[i]->d_name) < PATH &&
		    !lstat(path, &st) && S_ISREG(st.st_mode))
			append(t, path, err);
		free(e[i]);	/* scandir's own */
	}
	free(e);
	return !err->status;
}

static bool write_stream(const char *folder, const char *name, const char *p, uint64_t n,
			 struct rlx_error *err)
{
	struct rlx_field field = { .name = "tokens", .type = rlx_scalar(RLX_U8) };
	struct rlx_record_opts o = { .size = sizeof(o), .flags = RLX_RECORD_STREAM };
	struct rlx_record_writer *w = NULL;
	const void *data[1] = { p };
	char path[PATH];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (rlx_record_create(path, &field, 1, &o, &w, err))
		return false;
	if (rlx_record_add(w, data, n, err)) {
		rlx_record_abort(w);
		return false;
	}
	return !rlx_record_commit(w, err);
}

bool train_text(const char *from, const char *folder, struct rlx_error *err)
{
	struct text t = { 0 };
	uint64_t cut;
	bool ok = read_folder(&t, from, err);

	if (ok && t.n < 1000) {
		rlx_fail(err, RLX_EINVAL, "%s has %u bytes of text; 1,000 at least are needed",
			 from, t.n);
		ok = false;
	}
	cut = t.n - t.n / 10;
	ok = ok && write_stream(folder, "text.rlxr", t.p, cut, err) &&
	     write_stream(folder, "text-test.rlxr", t.p + cut, t.n - cut, err);
	rlx_free(t.p);
	return ok;
}
