// SPDX-License-Identifier: MIT
/* Adopts kept weights, or makes some and has them kept. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rlx/resident.h"
#include "rt/rt.h"
#include "tools/rlxd/fd_store.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/node.h"
#include "tools/rlxd/weights.h"

static void name_of(const struct model *m, const char *prefix, char out[128])
{
	snprintf(out, 128, "%s%s", prefix, m->name);
}

static void say_no(const struct model *m, const char *why)
{
	log_event(LOG_NOTE, "weights not adopted", L_STR("model", m->name), L_STR("why", why));
}

/* A store from descriptor @fd, which is closed; NULL, with a line in the log: no. */
static struct rlx_store *adopt(struct model *m, int fd)
{
	struct rlx_error err = { 0 };
	struct rlx_store *s = NULL;
	struct rlx_arena *a = NULL;

	if (fd < 0)
		return NULL;
	if (rlx_arena_open_fd(fd, RLX_ARENA_RDONLY | RLX_ARENA_LAZY | RLX_ARENA_NOLOCK, &a,
			      &err) ||
	    rlx_store_open(a, m->conf.device, &s, &err))
		say_no(m, err.text);
	rlx_arena_put(a);
	close(fd);
	return s;
}

/*
 * Larger than what will lie in it: memory is taken as it fills. Of weights of 16 bits, made f32
 * and packed, there are both: what is in no file is kept beside what is prepared of it. NULL:
 * without one.
 */
static struct rlx_store *make(struct model *m)
{
	struct rlx_arena_opts o = { .name = "rlxd-weights", .size = 64 << 20,
				    .flags = RLX_ARENA_LAZY | RLX_ARENA_NOLOCK,
				    .nodes = node_mask() };	/* all read them */
	struct rlx_error err = { 0 };
	struct rlx_store *s = NULL;
	struct rlx_arena *a = NULL;
	const struct file_mark *f;

	for (f = m->mark; f; f = f->next)
		o.size += f->bytes * 6;
	if (rlx_arena_new(&o, &a, &err) || rlx_store_new(a, m->conf.device, &s, &err))
		log_event(LOG_WARN, "weights are not kept", L_STR("model", m->name),
			  L_STR("why", err.text));
	rlx_arena_put(a);
	return s;
}

bool weights_are_whole(const struct model *m)
{
	struct rlx_store_info info;

	rlx_store_info(m->store, &info);
	return info.sealed && !info.missed;
}

static void let_go(struct model *m, void (*unload)(struct model *m))
{
	unload(m);
	rlx_resident_put(m->resident);
	m->resident = NULL;
	rlx_store_put(m->store);
	m->store = NULL;
}

/* By @fd, which is closed, another server's; -1: bring them there. */
static enum rlx_status take(struct model *m, int fd, struct rlx_error *err)
{
	struct rlx_arena *a = rlx_store_arena(m->store);
	struct rlx_store_info info;
	enum rlx_status st;

	rlx_store_info(m->store, &info);
	if (fd < 0)
		return rlx_resident_new(a, info.bytes, m->conf.device, &m->resident, err);
	st = rlx_resident_open_fd(a, info.bytes, fd, m->conf.device, &m->resident, err);
	close(fd);
	return st;
}

/*
 * The sealed weights in the GPU's memory, once for all servers that keep them together:
 * before programs are compiled, which then use them there. A server that cannot have
 * that brings a copy of its own; a CPU has no such memory.
 */
static void share_on_device(struct model *m)
{
	struct rlx_error err = { 0 };
	enum rlx_status st;
	int fd, other = -1;
	uint64_t seen;
	char name[128];

	if (!m->device->be->memory || m->conf.threads)	/* see rlx_resident_new() */
		return;
	name_of(m, FD_STORE_RESIDENT, name);
	fd = fd_store_get(name, &seen);
	if (fd >= 0 && !take(m, fd, &err)) {
		log_event(LOG_NOTE, "weights adopted on the device", L_STR("model", m->name));
		return;
	}
	if (fd >= 0)
		log_event(LOG_NOTE, "weights not adopted on the device",
			  L_STR("model", m->name), L_STR("why", err.text));
	err = (struct rlx_error){ 0 };
	st = take(m, -1, &err);
	if (!st)
		st = rlx_resident_fd(m->resident, &fd, &err);
	if (st) {
		log_event(LOG_NOTE, "weights are not shared on the device",
			  L_STR("model", m->name), L_STR("why", err.text));
		return;
	}
	if (fd_store_put(name, seen, fd, &other))
		log_event(LOG_NOTE, "weights kept on the device", L_STR("model", m->name));
	close(fd);
	if (other < 0)
		return;
	/* Two servers began at once. */
	rlx_resident_put(m->resident);
	m->resident = NULL;
	if (take(m, other, &err))
		log_event(LOG_NOTE, "weights not adopted on the device",
			  L_STR("model", m->name), L_STR("why", err.text));
}

/* Seal what was made and have it kept. Gives somebody else's, if they were faster. */
static int keep(struct model *m, const char *name, uint64_t seen)
{
	struct rlx_store_info info;
	struct rlx_error err = { 0 };
	int other = -1;

	rlx_store_info(m->store, &info);
	/* Shapes that come with requests are compiled then, and added then. */
	if (!info.entries)
		return -1;
	if (rlx_store_seal(m->store, &err))
		log_event(LOG_WARN, "weights are not kept", L_STR("model", m->name),
			  L_STR("why", err.text));
	else if (fd_store_put(name, seen, rlx_arena_fd(rlx_store_arena(m->store)), &other))
		log_event(LOG_NOTE, "weights kept", L_STR("model", m->name),
			  L_INT("bytes", info.bytes));
	return other;
}

enum rlx_status weights_load(struct model *m,
			     enum rlx_status (*load)(struct model *m, struct rlx_error *err),
			     void (*unload)(struct model *m), struct rlx_error *err)
{
	struct rlx_store *s;
	enum rlx_status st;
	char name[128];
	uint64_t seen;

	name_of(m, FD_STORE_WEIGHTS, name);
	s = adopt(m, fd_store_get(name, &seen));
	if (s) {
		m->store = s;
		share_on_device(m);
		st = load(m, err);
		m->adopted = !st && weights_are_whole(m);
		if (m->adopted)
			log_event(LOG_NOTE, "weights adopted", L_STR("model", m->name));
		if (st || m->adopted)
			return st;
		say_no(m, "they are of other files or options");
		let_go(m, unload);
	}
	m->store = make(m);
	st = load(m, err);
	if (st || !m->store)
		return st;
	/* Two servers began at once: one copy is enough for both. */
	s = adopt(m, keep(m, name, seen));
	if (!s && !weights_are_whole(m))
		return RLX_OK;
	/* Load it as any later process will: nothing of the file is in use then. */
	if (!s)
		s = rlx_store_get(m->store);
	let_go(m, unload);
	m->store = s;
	share_on_device(m);
	return load(m, err);
}

static bool is_named(void *ctx, const char *name)
{
	const struct conf *c = ctx;
	unsigned int i;

	for (i = 0; i < c->n_model; i++)
		if (!strcmp(c->model[i].name, name))
			return true;
	return false;
}

void weights_prune(const struct conf *c, const struct model_set *old)
{
	void *ctx = (void *)(uintptr_t)c;
	char name[128];
	unsigned int i;

	for (i = 0; i < old->n; i++)
		if (!is_named(ctx, old->model[i]->name)) {
			name_of(old->model[i], FD_STORE_WEIGHTS, name);
			fd_store_drop(name);
			name_of(old->model[i], FD_STORE_RESIDENT, name);
			fd_store_drop(name);
		}
	if (!old->n)
		fd_store_prune(is_named, ctx);
}
