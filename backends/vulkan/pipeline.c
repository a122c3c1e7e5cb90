// SPDX-License-Identifier: MIT
/* Kernels as pipelines: each compiled by the driver once, and its cache on disk. */
#include <stdio.h>
#include <string.h>

#include "backends/vulkan/vk.h"
#include "base/alloc.h"
#include "base/disk_cache.h"
#include "base/log.h"
#include "base/map.h"

#include "vk/kernels.h"

bool vk_kernel_find(const char *name, struct vk_kernel *out)
{
	size_t i;

	for (i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
		if (!strcmp(kernels[i].name, name)) {
			*out = (struct vk_kernel){ .name = kernels[i].name,
				.code = kernels[i].code, .words = kernels[i].bytes / 4 };
			return true;
		}
	return false;
}

struct vk_pipeline {
	struct vk_pipeline	*next;
	uint64_t		 hash[2];
	uint32_t		 spec[VK_MOST_SPEC], n_spec;
	VkPipeline		 p;
};

static struct vk_pipeline *find(struct vk_device *d, const struct vk_pipeline *like)
{
	struct vk_pipeline *p;

	for (p = d->pipelines; p; p = p->next)
		if (!memcmp(p->hash, like->hash, sizeof(p->hash)) &&
		    !memcmp(p->spec, like->spec, sizeof(p->spec)))
			break;
	return p;
}

/*
 * What @k's module asks of the driver's arithmetic, where the device has it. Drivers may else
 * take -0 for 0, and that no value is an infinity or NaN; and round and flush f16 as they like.
 */
struct mode {
	bool		has;
	uint32_t	capability, mode, bits;
};

enum { MODES = 5 };

static void modes_of(const struct vk_has *has, struct mode out[MODES])
{
	enum { DENORM_PRESERVE = 4459, SIGNED_ZERO_INF_NAN = 4461, ROUNDING_RTE = 4462,
	       CAPABILITY = 5 };	/* numbers of capabilities are so much higher */
	const struct mode all[MODES] = {
		{ has->signed_zero[0], SIGNED_ZERO_INF_NAN + CAPABILITY, SIGNED_ZERO_INF_NAN, 32 },
		{ has->signed_zero[1], SIGNED_ZERO_INF_NAN + CAPABILITY, SIGNED_ZERO_INF_NAN, 64 },
		{ has->f16, SIGNED_ZERO_INF_NAN + CAPABILITY, SIGNED_ZERO_INF_NAN, 16 },
		{ has->f16, DENORM_PRESERVE + CAPABILITY, DENORM_PRESERVE, 16 },
		{ has->f16, ROUNDING_RTE + CAPABILITY, ROUNDING_RTE, 16 },
	};

	memcpy(out, all, sizeof(all));
}

/* @k's module with those modes. NULL: out of memory */
static uint32_t *put_modes(const struct vk_device *d, const struct vk_kernel *k,
			   size_t *out_words)
{
	enum { HEADER = 5, ENTRY_POINT = 15, EXECUTION_MODE = 16, CAPABILITY = 17 };
	uint32_t *w = rlx_malloc((k->words + 6 * MODES) * sizeof(*w));
	size_t n = HEADER, at = HEADER, len;
	struct mode mode[MODES];
	unsigned int i;

	if (!w)
		return NULL;
	modes_of(&d->is->has, mode);
	memcpy(w, k->code, HEADER * sizeof(*w));
	for (i = 0; i < MODES; i++)	/* a capability may stand there twice */
		if (mode[i].has) {
			w[n++] = 2 << 16 | CAPABILITY;
			w[n++] = mode[i].capability;
		}
	for (; at < k->words; at += len) {
		len = k->code[at] >> 16;
		memcpy(w + n, k->code + at, len * sizeof(*w));
		n += len;
		for (i = 0; (k->code[at] & 0xffff) == ENTRY_POINT && i < MODES; i++) {
			if (!mode[i].has)
				continue;
			w[n++] = 4 << 16 | EXECUTION_MODE;
			w[n++] = k->code[at + 2];
			w[n++] = mode[i].mode;
			w[n++] = mode[i].bits;
		}
	}
	*out_words = n;
	return w;
}

/* As the device takes it. NULL: out of memory */
static uint32_t *text_of(const struct vk_device *d, const struct vk_kernel *k, size_t *words)
{
	uint32_t *w, *khr;

	w = put_modes(d, k, words);
	if (!w || !vk_coopmat_is(w, *words))
		return w;
	khr = vk_coopmat_text(w, *words, k->spec[VK_COOPMAT_TYPE] == RLX_BF16, words);
	rlx_free(w);
	return khr;
}

/*
 * The group's first constant is its size: one that is a subgroup wants subgroups to be so, and
 * one of several to have whole ones alone.
 */
static VkResult create(struct vk_device *d, const struct vk_kernel *k, VkPipeline *out)
{
	enum { FULL_SUBGROUPS = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT };
	VkSpecializationMapEntry entry[VK_MOST_SPEC + 1];
	uint32_t value[VK_MOST_SPEC + 1];
	VkSpecializationInfo spec = { k->n_spec + 1, entry, (k->n_spec + 1) * 4, value };
	const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
		VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
		.requiredSubgroupSize = d->is->subgroup };
	VkShaderModuleCreateInfo module = {
		.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO };
	VkComputePipelineCreateInfo how = {
		.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
		.stage = { .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
			   .stage = VK_SHADER_STAGE_COMPUTE_BIT, .pName = "main",
			   .pSpecializationInfo = &spec },
		.layout = d->layout, .basePipelineIndex = -1 };
	size_t words = 0;
	uint32_t *code = text_of(d, k, &words), i;
	VkResult r;

	if (!code)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	module.pCode = code;
	module.codeSize = words * sizeof(*code);
	for (i = 0; i <= k->n_spec; i++)
		entry[i] = (VkSpecializationMapEntry){ i, i * 4, 4 };
	memcpy(value, k->spec, k->n_spec * sizeof(value[0]));
	entry[k->n_spec].constantID = VK_HAS_F16;
	value[k->n_spec] = d->is->has.f16;
	if (d->is->has.subgroup_size) {
		how.stage.pNext = &size;
		if (k->spec[0] % d->is->subgroup == 0)
			how.stage.flags = FULL_SUBGROUPS;
	}
	r = d->api.CreateShaderModule(d->dev, &module, NULL, &how.stage.module);
	rlx_free(code);
	if (r)
		return r;
	r = d->api.CreateComputePipelines(d->dev, d->cache, 1, &how, NULL, out);
	d->api.DestroyShaderModule(d->dev, how.stage.module, NULL);
	return r;
}

/* The lock is not held while the driver compiles: of two who make the same one's is kept. */
enum rlx_status vk_pipeline_get(struct vk_device *d, const struct vk_kernel *k, VkPipeline *out,
				struct rlx_error *err)
{
	struct vk_pipeline like = { .n_spec = k->n_spec }, *p, *mine;
	VkResult r;

	memcpy(like.spec, k->spec, k->n_spec * sizeof(uint32_t));
	like.hash[0] = rlx_hash_bytes(k->code, k->words * 4, 0x9e3779b97f4a7c15);
	like.hash[1] = rlx_hash_bytes(k->code, k->words * 4, 0xc2b2ae3d27d4eb4f);
	pthread_mutex_lock(&d->lock);
	p = find(d, &like);
	pthread_mutex_unlock(&d->lock);
	if (p) {
		*out = p->p;
		return RLX_OK;
	}
	mine = rlx_malloc(sizeof(*mine));
	if (!mine)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", d->base.name);
	*mine = like;
	r = create(d, k, &mine->p);
	if (r) {
		char what[96];

		snprintf(what, sizeof(what), "compiling kernel %.60s", k->name);
		rlx_free(mine);
		return vk_check(d, r, what, err);
	}
	pthread_mutex_lock(&d->lock);
	p = find(d, &like);
	if (!p) {
		mine->next = d->pipelines;
		d->pipelines = p = mine;
	}
	pthread_mutex_unlock(&d->lock);
	if (p != mine) {
		d->api.DestroyPipeline(d->dev, mine->p, NULL);
		rlx_free(mine);
	}
	*out = p->p;
	return RLX_OK;
}

void vk_pipelines_free(struct vk_device *d)
{
	struct vk_pipeline *p;

	while ((p = d->pipelines)) {
		d->pipelines = p->next;
		d->api.DestroyPipeline(d->dev, p->p, NULL);
		rlx_free(p);
	}
}

/* ---- the driver's cache ---- */

static void hex(char *out, const uint8_t *p, size_t n)
{
	for (; n--; p++, out += 2)
		snprintf(out, 3, "%02x", *p);
}

/*
 * All that its content may depend on. The cache's own UUID is not enough: there are drivers
 * that have the same in all versions.
 */
static void cache_key(const struct vk_device *d, char *out, size_t size)
{
	const struct vk_physical *p = d->is;
	char id[3][2 * VK_UUID_SIZE + 1];

	hex(id[0], p->id.deviceUUID, VK_UUID_SIZE);
	hex(id[1], p->id.driverUUID, VK_UUID_SIZE);
	hex(id[2], p->props.pipelineCacheUUID, VK_UUID_SIZE);
	snprintf(out, size, "vulkan pipelines %s\n%s\n%x %x %x %d %s\n%s %s %s", RLX_VERSION,
		 p->props.deviceName, p->props.vendorID, p->props.deviceID,
		 p->props.driverVersion, (int)p->driver, p->driver_text, id[0], id[1], id[2]);
}

/* Does it begin as this device's do? Drivers are to check that as well, and some did not. */
static bool is_ours(const struct vk_device *d, const void *data, size_t n)
{
	const VkPhysicalDeviceProperties *is = &d->is->props;
	VkPipelineCacheHeaderVersionOne h;

	if (n < sizeof(h))
		return false;
	memcpy(&h, data, sizeof(h));
	return h.headerSize == sizeof(h) &&
	       h.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
	       h.vendorID == is->vendorID && h.deviceID == is->deviceID &&
	       !memcmp(h.pipelineCacheUUID, is->pipelineCacheUUID, VK_UUID_SIZE);
}

/* Without a cache nothing is wrong but the time that compiling takes. */
void vk_cache_load(struct vk_device *d)
{
	VkPipelineCacheCreateInfo how = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO };
	char key[512], dir[4096];
	void *data = NULL;
	size_t n = 0;

	cache_key(d, key, sizeof(key));
	if (rlx_disk_cache_dir("vulkan", dir, sizeof(dir)) &&
	    !rlx_disk_cache_load(dir, key, &data, &n) && is_ours(d, data, n)) {
		how.pInitialData = data;
		how.initialDataSize = n;
		d->cached = n;
	}
	if (d->api.CreatePipelineCache(d->dev, &how, NULL, &d->cache))
		d->cache = VK_NULL_HANDLE;
	rlx_free(data);
}

void vk_cache_store(struct vk_device *d)
{
	char key[512], dir[4096];
	size_t n = 0;
	void *data;

	if (!d->cache || atomic_load(&d->lost) || !rlx_disk_cache_dir("vulkan", dir, sizeof(dir)) ||
	    d->api.GetPipelineCacheData(d->dev, d->cache, &n, NULL) || n == d->cached || !n)
		return;
	data = rlx_malloc(n);
	cache_key(d, key, sizeof(key));
	if (data && !d->api.GetPipelineCacheData(d->dev, d->cache, &n, data) &&
	    rlx_disk_cache_store(dir, key, data, n) && rlx_debug_on(RLX_DEBUG_RUN))
		rlx_log(RLX_LOG_DEBUG, "%s: compiled kernels could not be kept in %s", d->base.name,
			dir);
	rlx_free(data);
}
