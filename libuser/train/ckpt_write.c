// SPDX-License-Identifier: MIT
/*
 * A save, in an order in which a crash at any point leaves what was there. Each line is
 * flushed before the next begins:
 *
 *	DIR/.tmp-<step>-<pid>/{model.safetensors, optim.safetensors}	their data; by each rank
 *		that has a part, optim-<rank + 1>-of-<ranks>.safetensors
 *	DIR/.tmp-<step>-<pid>/manifest.json				with crcs of all
 *	DIR/.tmp-<step>-<pid>						the names in it
 *	DIR/step-<step>							published
 *	DIR/latest							a hint
 *	DIR/.del-<step>-<pid>						retention: gone, then removed
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "rlx/comm.h"
#include "train/ckpt.h"
#include "train/fileops.h"

const char *ckpt_file_name(char to[40], unsigned int f, unsigned int ranks)
{
	if (f < CKPT_FILES)
		return f == RLX_CKPT_MODEL ? "model.safetensors" : "optim.safetensors";
	snprintf(to, 40, "optim-%05u-of-%05u.safetensors", (f - CKPT_FILES + 1) % 100000,
		 ranks % 100000);
	return to;
}

void ckpt_path(char out[PATH_MAX], const struct rlx_ckpt *ck, const char *what, uint64_t step,
	       const char *file)
{
	char name[80] = "", *slash = file ? "/" : "";

	if (what && *what == '.')
		snprintf(name, sizeof(name), "/%s%09llu-%d", what, (unsigned long long)step,
			 ck->pid ? (int)ck->pid : (int)getpid());
	else if (what)
		snprintf(name, sizeof(name), "/%s%09llu", what, (unsigned long long)step);
	snprintf(out, PATH_MAX, "%.3900s%s%s%.60s", ck->dir, name, slash, file ? file : "");
}

bool ckpt_parse_name(const char *name, uint64_t *step)
{
	char *end;

	if (strncmp(name, "step-", 5) || name[5] < '0' || name[5] > '9')
		return false;
	errno = 0;
	*step = strtoull(name + 5, &end, 10);
	return !*end && !errno && *step <= INT64_MAX;
}

static enum rlx_status failed(const struct ckpt_slot *s, const char *doing, const char *path,
			      int64_t e, struct rlx_error *err)
{
	return rlx_fail(err, file_status(e),
			"checkpoint of step %llu: %s %.300s: %s; it was dropped",
			(unsigned long long)s->step, doing, path, strerror((int)-e));
}

void ckpt_remove(const char *path)
{
	static const char *const names[] = { "model.safetensors", "optim.safetensors",
					     "manifest.json" };
	char file[PATH_MAX + 300];
	struct dirent *e;
	unsigned int i;
	DIR *d;

	for (i = 0; i < 3; i++) {
		snprintf(file, sizeof(file), "%s/%s", path, names[i]);
		file_unlink(file);
	}
	d = opendir(path);
	while (d && (e = readdir(d))) {
		if (strncmp(e->d_name, "optim-", 6))
			continue;
		snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
		file_unlink(file);
	}
	if (d)
		closedir(d);
	file_rmdir(path);
}

static int64_t create(const char *path)
{
	return file_open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
}

/* @f: from CKPT_FILES on the rank's part. */
static enum rlx_status write_image(struct rlx_ckpt *ck, struct ckpt_slot *s, unsigned int f,
				   struct rlx_error *err)
{
	struct ckpt_image *m = ckpt_image(s, f);
	const char *doing = "creating";
	char path[PATH_MAX], name[40];
	int64_t fd, e;

	if (f >= CKPT_FILES)
		f += rlx_comm_rank(ck->o.comm);
	ckpt_path(path, ck, ".tmp-", s->step, ckpt_file_name(name, f, ckpt_ranks(ck)));
	fd = e = create(path);
	if (e >= 0) {
		doing = "making room for";
		e = file_allocate((int)fd, m->bytes);
	}
	if (e >= 0) {
		doing = "writing";
		e = -ckpt_transfer(s, m, (int)fd, true);
	}
	if (e >= 0)
		e = file_truncate((int)fd, m->bytes);
	if (e >= 0) {
		doing = "flushing";
		e = file_sync((int)fd);
	}
	if (fd >= 0)
		close((int)fd);
	return e < 0 ? failed(s, doing, path, e, err) : RLX_OK;
}

static enum rlx_status write_manifest(struct rlx_ckpt *ck, struct ckpt_slot *s,
				      struct rlx_error *err)
{
	char path[PATH_MAX], *text;
	int64_t fd, e;
	size_t len;

	text = ckpt_manifest_text(s, &len);
	if (!text)
		return rlx_fail(err, RLX_ENOMEM,
				"checkpoint of step %llu: no memory for its manifest; "
				"it was dropped",
				(unsigned long long)s->step);
	ckpt_path(path, ck, ".tmp-", s->step, "manifest.json");
	fd = e = create(path);
	if (e >= 0)
		e = file_write((int)fd, text, len, 0);
	if (e >= 0)
		e = file_sync((int)fd);
	if (fd >= 0)
		close((int)fd);
	free(text);	/* open_memstream's */
	return e < 0 ? failed(s, "writing", path, e, err) : RLX_OK;
}

/*
 * Give the folder its name. One of that step, which a run resumed before it left, gives way.
 * @named: it has its name, even if that could not be flushed; what then has the other name is
 * left for the next open to remove, for after a crash either may be back.
 */
static enum rlx_status publish(struct rlx_ckpt *ck, struct ckpt_slot *s, bool *named,
			       struct rlx_error *err)
{
	char tmp[PATH_MAX], path[PATH_MAX], gone[PATH_MAX];
	bool swapped;
	int64_t e;

	ckpt_path(tmp, ck, ".tmp-", s->step, NULL);
	ckpt_path(path, ck, "step-", s->step, NULL);
	e = file_sync_dir(tmp);
	if (e < 0)
		return failed(s, "flushing", tmp, e, err);
	e = file_rename(tmp, path, FILE_RENAME_NEW);
	if (e == -EINVAL || e == -ENOSYS)	/* a file system without the flag */
		e = access(path, F_OK) ? file_rename(tmp, path, FILE_RENAME_REPLACE) : -EEXIST;
	swapped = e == -EEXIST;
	if (swapped)
		e = file_rename(tmp, path, FILE_RENAME_SWAP);
	if (e < 0)
		return failed(s, "publishing", path, e, err);
	*named = true;
	e = file_sync_dir(ck->dir);
	if (e < 0)
		return rlx_fail(err, file_status(e),
				"checkpoint of step %llu: flushing its name: %s; "
				"it is whole, and may be gone after a power cut",
				(unsigned long long)s->step, strerror((int)-e));
	ckpt_path(gone, ck, ".del-", s->step, NULL);
	if (swapped && file_rename(tmp, gone, FILE_RENAME_NEW) >= 0)
		ckpt_remove(gone);
	return RLX_OK;
}

/* For people and scripts; nothing here reads it, so failures are none of the save's. */
static void point_latest(const struct rlx_ckpt *ck, uint64_t step)
{
	char link[PATH_MAX], latest[PATH_MAX], holds[40];

	snprintf(holds, sizeof(holds), "step-%09llu", (unsigned long long)step);
	ckpt_path(link, ck, NULL, 0, ".latest");
	ckpt_path(latest, ck, NULL, 0, "latest");
	file_unlink(link);
	if (file_symlink(holds, link) >= 0 &&
	    file_rename(link, latest, FILE_RENAME_REPLACE) >= 0)
		file_sync_dir(ck->dir);
}

static int by_step(const void *a, const void *b)
{
	const struct ckpt_step *x = a, *y = b;

	return x->step < y->step ? -1 : x->step > y->step;
}

static bool append(struct rlx_ckpt *ck, const struct ckpt_step *s)
{
	if (!rlx_grow(&ck->step, &ck->cap_steps, ck->steps + 1, sizeof(*ck->step)))
		return false;
	ck->step[ck->steps++] = *s;
	return true;
}

static enum rlx_status add_step(struct rlx_ckpt *ck, const struct ckpt_step *s)
{
	uint32_t i;

	for (i = 0; i < ck->steps; i++)
		if (ck->step[i].step == s->step) {
			ck->step[i] = *s;
			return RLX_OK;
		}
	if (!append(ck, s))
		return RLX_ENOMEM;
	qsort(ck->step, ck->steps, sizeof(*ck->step), by_step);
	return RLX_OK;
}

/* As add_step() keeps the list; of those of one step, whose names have more zeros, one. */
static void sort_steps(struct rlx_ckpt *ck)
{
	uint32_t i, n = 0;

	if (ck->steps)
		qsort(ck->step, ck->steps, sizeof(*ck->step), by_step);
	for (i = 0; i < ck->steps; i++)
		if (!n || ck->step[n - 1].step != ck->step[i].step)
			ck->step[n++] = ck->step[i];
	ck->steps = n;
}

enum rlx_status ckpt_list(struct rlx_ckpt *ck, struct rlx_error *err)
{
	struct dirent *e;
	bool ok = true;
	DIR *d = opendir(ck->dir);

	ck->steps = 0;
	if (!d)
		return rlx_fail(err, file_status(-errno), "%s: %s", ck->dir, strerror(errno));
	while (ok && (e = readdir(d))) {
		struct ckpt_manifest m;
		struct ckpt_step s = { 0 };

		if (!ckpt_parse_name(e->d_name, &s.step))
			continue;
		if (ck->o.best && !ckpt_manifest_read(ck, s.step, &m, NULL)) {
			s.has_metric = m.has_metric;
			s.metric = m.metric;
			rlx_json_fini(&m.json);
		}
		ok = append(ck, &s);
	}
	closedir(d);
	sort_steps(ck);
	return ok ? RLX_OK : rlx_fail(err, RLX_ENOMEM, "%s: no memory for a list of checkpoints",
				      ck->dir);
}

/* The best by its metric, or steps if there is none. */
static uint32_t best_of(const struct rlx_ckpt *ck)
{
	uint32_t i, best = ck->steps;

	for (i = 0; i < ck->steps && ck->o.best; i++) {
		const struct ckpt_step *s = &ck->step[i];

		if (!s->has_metric || s->metric != s->metric)
			continue;
		if (best == ck->steps || (ck->o.best == RLX_CKPT_LEAST ?
		    s->metric <= ck->step[best].metric : s->metric >= ck->step[best].metric))
			best = i;
	}
	return best;
}

/* Those behind @kept, which is on the disk, are left alone: a run went back before them. */
static void retain(struct rlx_ckpt *ck, uint64_t kept)
{
	uint32_t i, n = 0, newer = 0, best = best_of(ck);

	for (i = 0; i < ck->steps; i++)
		newer += ck->step[i].step > kept;
	for (i = 0; i < ck->steps; i++) {
		struct ckpt_step s = ck->step[i];
		bool stays = s.step >= kept || i == best || i + newer + ck->o.keep >= ck->steps ||
			     (ck->o.every && s.step % ck->o.every == 0);
		char path[PATH_MAX], gone[PATH_MAX];

		ckpt_path(path, ck, "step-", s.step, NULL);
		ckpt_path(gone, ck, ".del-", s.step, NULL);
		if (!stays && file_rename(path, gone, FILE_RENAME_NEW) >= 0) {
			file_sync_dir(ck->dir);
			ckpt_remove(gone);
			continue;
		}
		ck->step[n++] = s;
	}
	ck->steps = n;
}

static enum rlx_status make_folder(struct rlx_ckpt *ck, struct ckpt_slot *s,
				   struct rlx_error *err)
{
	char tmp[PATH_MAX];
	int64_t e;

	ckpt_path(tmp, ck, ".tmp-", s->step, NULL);
	e = file_mkdir(tmp);
	if (e == -EEXIST) {		/* a save of that step that failed, and its removal too */
		ckpt_remove(tmp);
		e = file_mkdir(tmp);
	}
	return e < 0 ? failed(s, "making", tmp, e, err) : RLX_OK;
}

/* The manifest, the name, and what follows from that. */
static enum rlx_status end(struct rlx_ckpt *ck, struct ckpt_slot *s, enum rlx_status st,
			   struct rlx_error *err)
{
	struct ckpt_step step = { s->step, s->has_metric, s->metric };
	bool named = false;
	char tmp[PATH_MAX];

	if (!st)
		st = write_manifest(ck, s, err);
	if (!st)
		st = publish(ck, s, &named, err);
	if (!named) {
		ckpt_path(tmp, ck, ".tmp-", s->step, NULL);
		ckpt_remove(tmp);
		return st;
	}
	/* without its place in the list retention would not know it: then it rests */
	if (add_step(ck, &step))
		rlx_log(RLX_LOG_WARN, "%s: no memory for retention: nothing was removed", ck->dir);
	else if (!st)
		retain(ck, s->step);
	if (!st)
		point_latest(ck, s->step);
	return st;
}

enum rlx_status ckpt_write(struct rlx_ckpt *ck, struct ckpt_slot *s, struct rlx_error *err)
{
	enum rlx_status st;
	unsigned int f;

	for (f = 0; f < CKPT_FILES; f++)
		ckpt_image_crc(&s->image[f]);
	st = make_folder(ck, s, err);
	if (st)
		return st;
	for (f = 0; f < CKPT_FILES && !st; f++)
		st = write_image(ck, s, f, err);
	return end(ck, s, st, err);
}

/* Parts are on the disk before rank 0 says in the manifest that they are. */
enum rlx_status ckpt_write_together(struct rlx_ckpt *ck, struct ckpt_slot *s,
				    struct rlx_error *err)
{
	unsigned int f, n = CKPT_FILES + s->n_part;
	bool follows = ckpt_follows(ck), made;
	enum rlx_status st = RLX_OK;

	for (f = follows ? CKPT_FILES : 0; f < n; f++)
		ckpt_image_crc(ckpt_image(s, f));
	ck->pid = 0;
	if (!follows)
		st = make_folder(ck, s, err);
	made = !follows && !st;
	st = ckpt_together(ck, s, st, err);
	for (f = follows ? CKPT_FILES : 0; f < n && !st; f++)
		st = write_image(ck, s, f, err);
	if (!st || !ckpt_lost(ck))
		st = ckpt_together(ck, s, st, err);
	if (!st && s->n_part)
		st = ckpt_gather_parts(ck, s, err);
	if (made)
		st = end(ck, s, st, err);
	return ckpt_lost(ck) ? st : ckpt_together(ck, s, st, err);
}
