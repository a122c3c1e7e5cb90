// SPDX-License-Identifier: MIT
/* KServe's shared memory extension: regions by name. */
#include <string.h>

#include "tools/rlxd/api.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/region.h"
#include "tools/rlxd/req.h"
#include "tools/rlxd/server.h"

struct region_owner shm_owner(const struct req *r)
{
	const char *name = r->client->name;

	return (struct region_owner){ strncmp(name, "key:", 4) ? "" : name + 4, r->uid };
}

/* May this peer name shared memory? False: no, the reply says so. */
static bool is_allowed(struct req *r, struct region_owner *out)
{
	int64_t mode = r->loop->server->limits.shared_memory;

	*out = shm_owner(r);
	if (r->conn->listener->off_host) {
		req_fail(r, 403, "shared memory is for peers of this machine, not of others");
		return false;
	}
	if (mode == CONF_SHM_LOCAL || (mode == CONF_SHM_UNIX && r->uid >= 0))
		return true;
	req_fail(r, 403, mode == CONF_SHM_UNIX ?
		 "shared memory is for peers of the unix socket here (shared_memory = unix)" :
		 "shared memory is turned off here (shared_memory in rlxd.conf)");
	return false;
}

bool shm_status(struct req *r)
{
	struct region_owner owner;

	if (!is_allowed(r, &owner))
		return true;
	req_ok(r, "application/json");
	if (!region_status(&owner, *r->region ? r->region : NULL, &r->reply.body))
		req_fail(r, 404, "no shared memory region '%s' is registered", r->region);
	return true;
}

static bool get_size(struct req *r, const char *key, bool needed, uint64_t *out)
{
	uint32_t node = rlx_json_get(&r->json, 0, key);
	int64_t v = 0;

	*out = 0;
	if ((!node && needed) || (node && (!rlx_json_int(&r->json, node, &v) || v < 0))) {
		req_fail(r, 400, "'%s' is %s", key, node ? "no size" : "missing");
		return false;
	}
	*out = (uint64_t)v;
	return true;
}

bool shm_register(struct req *r)
{
	struct rlx_json_limits lim = { .bytes = 1 << 16, .nodes = 64, .depth = 4 };
	const struct conf_server *cf = &r->loop->server->limits;
	struct region_quota quota = { (unsigned int)cf->max_regions,
				      (uint64_t)cf->max_region_bytes };
	struct rlx_error err = { 0 };
	struct region_owner owner;
	struct region_place p;
	uint32_t key;

	if (!is_allowed(r, &owner))
		return true;
	if (rlx_json_parse(&r->json, r->body, r->body_n, &lim, "request", &err)) {
		req_fail(r, 400, "%s", err.text);
		return true;
	}
	key = rlx_json_get(&r->json, 0, "key");
	if (!key || rlx_json_kind(&r->json, key) != RLX_JSON_STR ||
	    strlen(rlx_json_text(&r->json, key)) != rlx_json_len(&r->json, key)) {
		req_fail(r, 400, "'key' is missing: the name of POSIX shared memory");
		return true;
	}
	p.name = r->region;
	p.key = rlx_json_text(&r->json, key);
	if (!get_size(r, "offset", false, &p.offset) ||
	    !get_size(r, "byte_size", true, &p.bytes))
		return true;
	if (region_register(&owner, &quota, &p, &err)) {
		r->err_status = err.status == RLX_EACCES ? 403 :
				err.status == RLX_EEXIST || err.status == RLX_EBUSY ? 409 : 400;
		req_fail_err(r, &err);
		return true;
	}
	req_ok(r, "application/json");
	obuf_str(&r->reply.body, "{}");
	return true;
}

bool shm_unregister(struct req *r)
{
	struct region_owner owner;

	if (!is_allowed(r, &owner))
		return true;
	/* Unregistering what is not there is no failure, as with Triton. */
	region_unregister(&owner, *r->region ? r->region : NULL);
	req_ok(r, "application/json");
	obuf_str(&r->reply.body, "{}");
	return true;
}
