// SPDX-License-Identifier: MIT
/* rlx data convert --images: a folder of folders of images, one a class. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/rlx/data.h"
#include "tools/rlx/image.h"
#include "base/alloc.h"

struct images {
	const struct data_args		*a;
	struct rlx_record_writer	*w;
	struct image			 first;		/* its size is all others' */
	char				 first_path[300];
	int64_t				 label;
	uint64_t			 n;
};

static enum rlx_status add(struct images *m, const char *path, struct rlx_error *err)
{
	struct rlx_field f[2] = { { "image" }, { "label", { RLX_I64, 0 } } };
	struct image p;
	const void *data[2] = { NULL, &m->label };
	enum rlx_status st = image_read(path, &p, err);

	if (st)
		return st;
	if (!m->w) {
		m->first = p;
		snprintf(m->first_path, sizeof(m->first_path), "%.299s", path);
		f[0].type = rlx_type(RLX_U8, p.h, p.w, p.c);
		f[0].type.rank = p.c == 1 ? 2 : 3;
		f[0].type.dim[2] = p.c == 1 ? 0 : 3;
		st = data_create(m->a, f, 2, 0, &m->w, err);
	} else if (p.w != m->first.w || p.h != m->first.h || p.c != m->first.c) {
		st = rlx_fail(err, RLX_ESHAPE,
			      "%s: %u x %u of %u channels, but %.200s has %u x %u of "
			      "%u: make them alike first",
			      path, p.w, p.h, p.c, m->first_path, m->first.w, m->first.h,
			      m->first.c);
	}
	data[0] = p.p;
	if (!st)
		st = rlx_record_add(m->w, data, 1, err);
	rlx_free(p.p);
	m->n += !st;
	return st;
}

static bool is_folder(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* Call @fn for what is in @dir, in order of names: folders, or files. */
static enum rlx_status each(const char *dir, bool folders, struct images *m,
			    enum rlx_status (*fn)(struct images *, const char *, struct rlx_error *),
			    struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	struct dirent **e;
	int n = scandir(dir, &e, NULL, alphasort), i;
	char path[4096];

	if (n < 0)
		return rlx_fail(err, errno == EACCES ? RLX_EACCES : RLX_ENOENT, "%s: %s", dir,
				strerror(errno));
	for (i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%.3800s/%.255s", dir, e[i]->d_name);
		if (!st && e[i]->d_name[0] != '.' && is_folder(path) == folders)
			st = fn(m, path, err);
		free(e[i]);
	}
	free(e);
	return st;
}

static enum rlx_status add_class(struct images *m, const char *path, struct rlx_error *err)
{
	enum rlx_status st = each(path, false, m, add, err);

	if (!st)
		printf("class %lld: %s\n", (long long)m->label, strrchr(path, '/') + 1);
	m->label++;
	return st;
}

enum rlx_status data_convert_images(const struct data_args *a, const char *dir,
				    struct rlx_error *err)
{
	struct images m = { .a = a };
	enum rlx_status st = each(dir, true, &m, add_class, err);

	if (!st && !m.n)
		st = rlx_fail(err, RLX_ENOENT, "%s: no folders with images in it", dir);
	if (st) {
		rlx_record_abort(m.w);
		return st;
	}
	return rlx_record_commit(m.w, err);
}
