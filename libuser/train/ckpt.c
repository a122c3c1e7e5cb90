// SPDX-License-Identifier: MIT
/* Checkpoints: the folder and its lock, the thread that writes, and what callers are told. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "rlx/comm.h"
#include "train/ckpt.h"
#include "train/fileops.h"

enum { SLOTS_MAX = 16 };

static struct ckpt_slot *next_full(struct rlx_ckpt *ck)
{
	unsigned int i;

	for (i = 0; i < ck->o.slots; i++)
		if (ck->slot[i].full && ck->slot[i].sequence == ck->written)
			return &ck->slot[i];
	return NULL;
}

/* With the lock. */
static void count_save(struct rlx_ckpt *ck, const struct ckpt_slot *s, enum rlx_status st,
		       uint64_t ns)
{
	ck->info.write_ns = ns;
	ck->info.failed += !!st;
	if (st)
		return;
	ck->info.saved++;
	ck->info.some = true;
	ck->info.published = s->step;
	if (!ckpt_follows(ck))
		ck->info.bytes_written += s->image[0].bytes + s->image[1].bytes;
	if (s->n_part)
		ck->info.bytes_written += s->part->bytes;
}

static void *write_slots(void *arg)
{
	struct rlx_ckpt *ck = arg;

	pthread_mutex_lock(&ck->mutex);
	for (;;) {
		struct ckpt_slot *s = next_full(ck);
		struct rlx_error err = { 0 };
		enum rlx_status st;
		uint64_t t0;

		if (!s && ck->stop)
			break;
		if (!s) {
			pthread_cond_wait(&ck->work, &ck->mutex);
			continue;
		}
		pthread_mutex_unlock(&ck->mutex);
		t0 = rlx_now();
		st = ckpt_write(ck, s, &err);
		t0 = rlx_now() - t0;
		pthread_mutex_lock(&ck->mutex);
		count_save(ck, s, st, t0);
		if (st && !ck->untold.status)
			ck->untold = err;
		s->full = false;
		ck->written++;
		pthread_cond_broadcast(&ck->idle);
	}
	pthread_mutex_unlock(&ck->mutex);
	return NULL;
}

/* Who holds the lock, as it wrote into the file. */
static void holder(int fd, char *buf, size_t n)
{
	int64_t got = file_read(fd, buf, n - 1, 0);

	buf[got > 0 ? got : 0] = 0;
	buf[strcspn(buf, "\n")] = 0;
}

static enum rlx_status take_lock(struct rlx_ckpt *ck, struct rlx_error *err)
{
	char path[PATH_MAX], text[40];
	int64_t e;

	ckpt_path(path, ck, NULL, 0, "lock");
	e = file_open(path, O_RDWR | O_CREAT, 0666);
	if (e < 0)
		return rlx_fail(err, file_status(e), "%s: %s", path, strerror((int)-e));
	ck->lock_fd = (int)e;
	e = file_lock(ck->lock_fd);
	if (e == -EWOULDBLOCK) {
		holder(ck->lock_fd, text, sizeof(text));
		return rlx_fail(err, RLX_EBUSY,
				"%s: another process writes there (%s); one at a time", ck->dir,
				*text ? text : "it did not say which");
	}
	if (e < 0)
		return rlx_fail(err, file_status(e), "%s: %s", path, strerror((int)-e));
	snprintf(text, sizeof(text), "pid %d\n", (int)getpid());
	file_truncate(ck->lock_fd, 0);		/* a word for people: it may fail */
	file_write(ck->lock_fd, text, strlen(text), 0);
	return RLX_OK;
}

/* With the lock held nobody else is at these: who made them is dead. */
static void sweep(struct rlx_ckpt *ck)
{
	DIR *d = opendir(ck->dir);
	char path[PATH_MAX];
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (strncmp(e->d_name, ".tmp-", 5) && strncmp(e->d_name, ".del-", 5))
			continue;
		if (strlen(e->d_name) > 60)
			continue;
		ckpt_path(path, ck, NULL, 0, e->d_name);
		ckpt_remove(path);
	}
	if (d)
		closedir(d);
}

/* The folder and its lock are rank 0's. */
static enum rlx_status take_folder(struct rlx_ckpt *ck, struct rlx_error *err)
{
	enum rlx_status st;
	int64_t e;

	if (ck->o.readonly || ckpt_follows(ck))
		return RLX_OK;
	e = file_mkdir(ck->dir);
	if (e < 0 && e != -EEXIST)
		return rlx_fail(err, file_status(e), "%s: %s", ck->dir, strerror((int)-e));
	st = take_lock(ck, err);
	if (!st)
		sweep(ck);
	return st;
}

static enum rlx_status set_up(struct rlx_ckpt *ck, struct rlx_error *err)
{
	enum rlx_status st = take_folder(ck, err);
	int64_t e;

	/* what others are to find there is there when rank 0 has come so far */
	st = ckpt_together(ck, &ck->slot[0], st, err);
	if (!st)
		st = ckpt_list(ck, err);
	if (!st && ck->steps) {
		ck->info.some = true;
		ck->info.published = ck->step[ck->steps - 1].step;
	}
	if (st || ck->o.readonly || ckpt_ranks(ck) > 1)
		return st;
	e = -rlx_thread_new(&ck->thread, write_slots, ck);
	if (e < 0)
		return rlx_fail(err, RLX_ENOMEM, "%s: no thread: %s", ck->dir, strerror((int)-e));
	ck->running = true;
	return RLX_OK;
}

enum rlx_status rlx_ckpt_open(const char *dir, const struct rlx_ckpt_opts *opts,
			      struct rlx_ckpt **out, struct rlx_error *err)
{
	struct rlx_ckpt_opts o = { 0 };
	struct rlx_ckpt *ck;
	enum rlx_status st;

	if (!out || !dir || !*dir || strlen(dir) > 3900)
		return rlx_fail(err, RLX_EINVAL, "checkpoint: no folder, or out is NULL");
	*out = NULL;
	if (opts && (opts->size < sizeof(opts->size) || opts->size > sizeof(o)))
		return rlx_fail(err, RLX_EINVAL, "%s: rlx_ckpt_opts.size is %zu", dir, opts->size);
	if (opts)
		memcpy(&o, opts, opts->size);
	if (o.slots > SLOTS_MAX || o.best > RLX_CKPT_GREATEST)
		return rlx_fail(err, RLX_EINVAL, "%s: over %d slots, or no such best", dir,
				SLOTS_MAX);
	if (rlx_comm_ranks(o.comm) > CKPT_PARTS_MAX)
		return rlx_fail(err, RLX_EINVAL, "%s: %u ranks write; there are %d at most", dir,
				rlx_comm_ranks(o.comm), CKPT_PARTS_MAX);
	o.slots = o.slots ? o.slots : 1;
	o.keep = o.keep ? o.keep : 3;
	ck = rlx_calloc(1, sizeof(*ck));
	if (!ck)
		return rlx_fail(err, RLX_ENOMEM, "%s: no memory", dir);
	ck->o = o;
	ck->lock_fd = -1;
	pthread_mutex_init(&ck->mutex, NULL);
	pthread_cond_init(&ck->work, NULL);
	rlx_cond_init(&ck->idle);
	ck->dir = rlx_strdup(dir);
	ck->slot = rlx_calloc(o.slots, sizeof(*ck->slot));
	st = ck->dir && ck->slot ? set_up(ck, err) :
	     rlx_fail(err, RLX_ENOMEM, "%s: no memory", dir);
	if (st)
		rlx_ckpt_close(ck);
	else
		*out = ck;
	return st;
}

void rlx_ckpt_close(struct rlx_ckpt *ck)
{
	unsigned int i;

	if (!ck)
		return;
	if (ck->running) {
		pthread_mutex_lock(&ck->mutex);
		ck->stop = true;
		pthread_cond_signal(&ck->work);
		pthread_mutex_unlock(&ck->mutex);
		pthread_join(ck->thread, NULL);
	}
	for (i = 0; ck->slot && i < ck->o.slots; i++)
		ckpt_slot_fini(&ck->slot[i]);
	if (ck->lock_fd >= 0)
		close(ck->lock_fd);
	pthread_cond_destroy(&ck->idle);
	pthread_cond_destroy(&ck->work);
	pthread_mutex_destroy(&ck->mutex);
	rlx_free(ck->slot);
	rlx_free(ck->step);
	rlx_free(ck->dir);
	rlx_free(ck);
}

const struct rlx_error *rlx_ckpt_error(const struct rlx_ckpt *ck)
{
	return ck ? &ck->err : &rlx_error_null;
}

/* Tell the first failure that nobody was told. With the lock. */
static enum rlx_status tell(struct rlx_ckpt *ck)
{
	struct rlx_error e = ck->untold;

	ck->untold = (struct rlx_error){ 0 };
	return e.status ? rlx_fail(&ck->err, e.status, "%s", e.text) : RLX_OK;
}

/* Ranks that write together wait for each other, and so does the call. */
static enum rlx_status save_together(struct rlx_ckpt *ck, const struct rlx_ckpt_set *set,
				     uint64_t step)
{
	struct ckpt_slot *s = &ck->slot[0];
	uint64_t t0 = rlx_now(), t1;
	enum rlx_status st;

	s->step = step;
	st = ckpt_snapshot(ck, s, set, &ck->err);
	st = ckpt_together(ck, s, st, &ck->err);
	t1 = rlx_now();
	if (!st)
		st = ckpt_write_together(ck, s, &ck->err);
	pthread_mutex_lock(&ck->mutex);
	ck->info.snapshot_ns = t1 - t0;
	count_save(ck, s, st, rlx_now() - t1);
	snprintf(ck->info.writer, sizeof(ck->info.writer), "%s", reader_text(s->reader));
	pthread_mutex_unlock(&ck->mutex);
	return st;
}

enum rlx_status rlx_ckpt_save_set(struct rlx_ckpt *ck, const struct rlx_ckpt_set *set,
				  uint64_t step)
{
	struct ckpt_slot *s = NULL;
	enum rlx_status st;
	uint64_t t0 = rlx_now();
	unsigned int i;

	if (!ck)
		return RLX_EINVAL;
	ck->err = (struct rlx_error){ 0 };
	if (ck->o.readonly)
		return rlx_fail(&ck->err, RLX_EACCES, "%s: opened to load alone", ck->dir);
	if (step > INT64_MAX)
		return rlx_fail(&ck->err, RLX_ERANGE, "%s: step %llu", ck->dir,
				(unsigned long long)step);
	if (ckpt_ranks(ck) > 1)
		return save_together(ck, set, step);
	pthread_mutex_lock(&ck->mutex);
	for (i = 0; i < ck->o.slots && !s; i++)
		if (!ck->slot[i].full)
			s = &ck->slot[i];
	pthread_mutex_unlock(&ck->mutex);
	if (!s)
		return rlx_fail(&ck->err, RLX_EAGAIN, "%s: %u snapshots wait to be written",
				ck->dir, ck->o.slots);
	st = ckpt_snapshot(ck, s, set, &ck->err);
	if (st)
		return st;
	s->step = step;
	pthread_mutex_lock(&ck->mutex);
	s->sequence = ck->queued++;
	s->full = true;
	ck->info.snapshot_ns = rlx_now() - t0;
	snprintf(ck->info.writer, sizeof(ck->info.writer), "%s", reader_text(s->reader));
	pthread_cond_signal(&ck->work);
	st = tell(ck);
	pthread_mutex_unlock(&ck->mutex);
	return st;
}

enum rlx_status rlx_ckpt_wait(struct rlx_ckpt *ck, int64_t timeout_ns)
{
	uint64_t until = rlx_now() + (timeout_ns > 0 ? (uint64_t)timeout_ns : 0);
	struct timespec t = { (time_t)(until / 1000000000), (long)(until % 1000000000) };
	enum rlx_status st = RLX_OK;
	bool late = false;

	if (!ck)
		return RLX_EINVAL;
	ck->err = (struct rlx_error){ 0 };
	pthread_mutex_lock(&ck->mutex);
	while (ck->written < ck->queued && !late) {
		if (timeout_ns < 0)
			pthread_cond_wait(&ck->idle, &ck->mutex);
		else
			late = !timeout_ns || pthread_cond_timedwait(&ck->idle, &ck->mutex, &t);
	}
	if (ck->written < ck->queued)
		st = rlx_fail(&ck->err, RLX_ETIME, "%s: a save is still being written", ck->dir);
	else
		st = tell(ck);
	pthread_mutex_unlock(&ck->mutex);
	return st;
}

void rlx_ckpt_info(const struct rlx_ckpt *ck, struct rlx_ckpt_info *out)
{
	struct rlx_ckpt *c = (struct rlx_ckpt *)ck;

	if (!c || !out) {
		if (out)
			*out = (struct rlx_ckpt_info){ 0 };
		return;
	}
	pthread_mutex_lock(&c->mutex);
	*out = c->info;
	pthread_mutex_unlock(&c->mutex);
}
