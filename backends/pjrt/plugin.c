// SPDX-License-Identifier: MIT
/*
 * Opening a plugin: that which RLX_PJRT_PLUGIN names by its path, and no other, for some ask the
 * network when they are opened. It and its client stay until the process ends.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/pjrt/pjrt.h"
#include "base/alloc.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pjrt_plugin *plugins;

/* ---- calls ---- */

static void destroy_error(const struct pjrt_plugin *p, struct pjrt_error *e)
{
	struct pjrt_object a = { PJRT_HEAD(a, object), e };

	p->api->fn[PJRT_ERROR_DESTROY](&a);
}

enum rlx_status pjrt_call(const struct pjrt_plugin *p, enum pjrt_slot slot, void *args,
			  const char *what, struct rlx_error *err)
{
	struct pjrt_error *e = p->api->fn[slot](args);
	struct pjrt_error_message m = { .head = PJRT_HEAD(m, size), .error = e };
	struct pjrt_error_code c = { .head = PJRT_HEAD(c, code), .error = e };
	enum rlx_status st = RLX_EIO;
	const char *end;
	size_t n;

	if (!e)
		return RLX_OK;
	p->api->fn[PJRT_ERROR_MESSAGE](&m);
	p->api->fn[PJRT_ERROR_GET_CODE](&c);
	n = m.message ? m.size : 0;	/* no 0 need follow */
	end = n ? memchr(m.message, '\n', n) : NULL;
	n = end ? (size_t)(end - m.message) : n;
	if (c.code == PJRT_RESOURCE_EXHAUSTED)
		st = RLX_ENOMEM;
	else if (c.code == PJRT_UNIMPLEMENTED)
		st = RLX_ENOSUP;
	rlx_fail(err, st, "pjrt: %s: %s: %.*s", p->platform[0] ? p->platform : p->path, what,
		 (int)(n < 400 ? n : 400), m.message ? m.message : "");
	destroy_error(p, e);
	return st;
}

void pjrt_destroy(const struct pjrt_plugin *p, enum pjrt_slot slot, void *object)
{
	struct pjrt_object a = { PJRT_HEAD(a, object), object };
	struct pjrt_error *e = object ? p->api->fn[slot](&a) : NULL;

	if (e)
		destroy_error(p, e);
}

enum rlx_status pjrt_await(const struct pjrt_plugin *p, struct pjrt_event *event,
			   const char *what, struct rlx_error *err)
{
	struct pjrt_object a = { PJRT_HEAD(a, object), event };
	enum rlx_status st = event ? pjrt_call(p, PJRT_EVENT_AWAIT, &a, what, err) : RLX_OK;

	pjrt_destroy(p, PJRT_EVENT_DESTROY, event);
	return st;
}

/* ---- opening ---- */

static void take_text(const struct pjrt_plugin *p, enum pjrt_slot slot, const void *of, char *out,
		      size_t size)
{
	struct pjrt_text a = { .head = PJRT_HEAD(a, size), .of = of };

	if (!pjrt_call(p, slot, &a, "asking for a name", NULL) && a.text)
		snprintf(out, size, "%.*s", (int)(a.size < size ? a.size : size), a.text);
}

static bool is_usable(struct pjrt_plugin *p, const struct pjrt_api *api)
{
	static const uint8_t called[] = {
		PJRT_ERROR_DESTROY, PJRT_ERROR_MESSAGE, PJRT_ERROR_GET_CODE,
		PJRT_PLUGIN_INITIALIZE, PJRT_EVENT_DESTROY, PJRT_EVENT_AWAIT, PJRT_CLIENT_CREATE,
		PJRT_CLIENT_PLATFORM_NAME, PJRT_CLIENT_ADDRESSABLE_DEVICES, PJRT_CLIENT_COMPILE,
		PJRT_CLIENT_BUFFER_FROM_HOST, PJRT_DESCRIPTION_KIND, PJRT_DEVICE_DESCRIPTION,
		PJRT_LOADED_DESTROY, PJRT_LOADED_EXECUTE, PJRT_BUFFER_DESTROY,
		PJRT_BUFFER_TO_HOST,
	};
	const size_t needed = offsetof(struct pjrt_api, fn) + PJRT_NEEDED * sizeof(api->fn[0]);
	size_t i;

	if (api->version.major || api->version.minor < PJRT_OLDEST) {
		snprintf(p->why, sizeof(p->why), "%.160s has PJRT API %d.%d; 0.%d or a later "
			 "0.x is needed: take a newer plugin", p->path, api->version.major,
			 api->version.minor, PJRT_OLDEST);
		return false;
	}
	if (api->head.size < needed) {
		snprintf(p->why, sizeof(p->why), "%.160s gives a table of %zu bytes; %zu are "
			 "needed: take a newer plugin", p->path, api->head.size, needed);
		return false;
	}
	for (i = 0; i < sizeof(called); i++)
		if (!api->fn[called[i]]) {
			snprintf(p->why, sizeof(p->why), "%.160s lacks function %u of the PJRT "
				 "API: take another plugin", p->path, called[i]);
			return false;
		}
	return true;
}

static enum rlx_status make_client(struct pjrt_plugin *p, struct rlx_error *err)
{
	struct pjrt_head init = { sizeof(init), NULL };
	struct pjrt_client_create c = { .head = PJRT_HEAD(c, try_get_arg) };
	struct pjrt_devices d = { .head = PJRT_HEAD(d, n) };
	struct pjrt_member m = { .head = PJRT_HEAD(m, out) };
	enum rlx_status st = pjrt_call(p, PJRT_PLUGIN_INITIALIZE, &init, "initialising it", err);

	if (!st)
		st = pjrt_call(p, PJRT_CLIENT_CREATE, &c, "opening its device", err);
	if (st)
		return st;
	p->client = d.client = c.client;
	st = pjrt_call(p, PJRT_CLIENT_ADDRESSABLE_DEVICES, &d, "listing its devices", err);
	if (!st && !d.n)
		st = rlx_fail(err, RLX_ENODEV, "%s has no device", p->path);
	if (st)
		return st;
	p->hw = d.device[0];
	take_text(p, PJRT_CLIENT_PLATFORM_NAME, p->client, p->platform, sizeof(p->platform));
	p->is_cpu = !strcmp(p->platform, "cpu");
	m.of = p->hw;
	if (!pjrt_call(p, PJRT_DEVICE_DESCRIPTION, &m, "describing its device", NULL))
		take_text(p, PJRT_DESCRIPTION_KIND, m.out, p->kind, sizeof(p->kind));
	return RLX_OK;
}

static void open_plugin(struct pjrt_plugin *p)
{
	const struct pjrt_api *(*get)(void), *api;
	struct rlx_error err = { 0 };
	void *lib;

	if (!strchr(p->path, '/')) {
		snprintf(p->why, sizeof(p->why), "RLX_PJRT_PLUGIN is '%.100s', which is no path: "
			 "plugins are not searched for, so write it with a /", p->path);
		return;
	}
	lib = dlopen(p->path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		snprintf(p->why, sizeof(p->why), "RLX_PJRT_PLUGIN: %.280s", dlerror());
		return;
	}
	get = (const struct pjrt_api *(*)(void))dlsym(lib, "GetPjrtApi");
	api = get ? get() : NULL;
	if (!api) {
		snprintf(p->why, sizeof(p->why), "%.240s is no PJRT plugin: it has no GetPjrtApi()",
			 p->path);
		dlclose(lib);
		return;
	}
	if (!is_usable(p, api))
		return;
	snprintf(p->version, sizeof(p->version), "%u.%u", (unsigned int)api->version.major % 1000,
		 (unsigned int)api->version.minor % 100000);
	p->api = api;
	if (!make_client(p, &err))
		return;
	snprintf(p->why, sizeof(p->why), "%.300s", err.text);
	p->api = NULL;
}

struct pjrt_plugin *pjrt_plugin_get(const char **why)
{
	const char *path = secure_getenv("RLX_PJRT_PLUGIN");	/* it names code to run */
	struct pjrt_plugin *p;

	*why = "set RLX_PJRT_PLUGIN to the path of a PJRT plugin, a file such as "
	       "pjrt_c_api_cpu_plugin.so";
	if (!path || !*path)
		return NULL;
	pthread_mutex_lock(&lock);
	for (p = plugins; p && strcmp(p->path, path); p = p->next)
		;
	if (!p)
		p = rlx_calloc(1, sizeof(*p));
	if (p && !p->path) {
		p->path = rlx_strdup(path);
		if (p->path) {
			open_plugin(p);
			p->next = plugins;
			plugins = p;
		} else {
			rlx_free(p);
			p = NULL;
		}
	}
	pthread_mutex_unlock(&lock);
	*why = p ? p->why : "out of memory";
	return p && p->api ? p : NULL;
}
