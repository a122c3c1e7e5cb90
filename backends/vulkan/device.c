// SPDX-License-Identifier: MIT
/* A Vulkan device: what is told of it, opening, closing, and what went wrong. */
#include <stdio.h>
#include <string.h>

#include "backends/vulkan/vk.h"
#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "base/proc.h"

static bool is_unified(const struct vk_physical *p)
{
	return p->props.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ||
	       p->props.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
}

/* For tests of what is copied where there is no such device. */
static bool acts_discrete(void)
{
	static const char *const words[] = { "0", "1" };
	static atomic_bool told;

	return rlx_env_word("RLX_VK_DISCRETE", words, 2, &told) == 1;
}

static unsigned int probe(struct rlx_dev_info *info, unsigned int first, unsigned int max)
{
	const struct vk_driver *d = vk_driver_get(NULL);
	unsigned int n = d ? d->devices : 0, i;
	uint32_t h;

	for (i = first; i < n && i - first < max; i++) {
		struct rlx_dev_info *out = &info[i - first];
		const struct vk_physical *p = &d->device[i];

		*out = (struct rlx_dev_info){ .backend = "" };
		snprintf(out->backend, sizeof(out->backend), i ? "vulkan:%u" : "vulkan", i);
		snprintf(out->name, sizeof(out->name), "%.63s", p->props.deviceName);
		snprintf(out->isa, sizeof(out->isa), "%u.%u.%u",
			 VK_API_VERSION_MAJOR(p->props.apiVersion),
			 VK_API_VERSION_MINOR(p->props.apiVersion),
			 VK_API_VERSION_PATCH(p->props.apiVersion));
		snprintf(out->pci, sizeof(out->pci), "%s", p->pci);
		out->driver = p->driver_number;
		out->by_name = p->props.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
		out->threads = out->by_name ? rlx_cpu_allowed() : p->units;
		for (h = 0; h < p->memory.memoryHeapCount && !is_unified(p); h++)
			if (p->memory.memoryHeaps[h].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
				out->memory += p->memory.memoryHeaps[h].size;
	}
	return n;
}

static const char *why_none(void)
{
	const char *why;

	vk_driver_get(&why);
	return why;
}

/* ---- errors ---- */

enum rlx_status vk_check(struct vk_device *d, VkResult r, const char *what,
			 struct rlx_error *err)
{
	const char *name = d->base.name, *text = vk_result_name(r);

	if (r >= 0)
		return RLX_OK;
	if (r == VK_ERROR_OUT_OF_DEVICE_MEMORY || r == VK_ERROR_OUT_OF_HOST_MEMORY)
		return rlx_fail(err, RLX_ENOMEM, "%s: %s: out of memory: %s", name, what, text);
	if (r != VK_ERROR_DEVICE_LOST)
		return rlx_fail(err, RLX_EIO, "%s: %s: %s (%d)", name, what, text, (int)r);
	if (!atomic_exchange(&d->lost, true))
		rlx_log(RLX_LOG_WARN, "%s (%s) failed while %s", name, d->is->props.deviceName,
			what);
	return rlx_fail(err, RLX_ELOST, "%s: %s: the device failed: %s", name, what, text);
}

enum rlx_status vk_alive(struct vk_device *d, struct rlx_error *err)
{
	if (atomic_load_explicit(&d->lost, memory_order_relaxed))
		return rlx_fail(err, RLX_ELOST, "%s failed before: free what was made on it, and "
				"compile again", d->base.name);
	return RLX_OK;
}

/* ---- opening ---- */

static bool load_device_api(struct vk_device *d)
{
	PFN_vkGetDeviceProcAddr get = d->driver->api.GetDeviceProcAddr;
	bool ok = true;

#define GLOBAL(n)
#define INST(n)
#define DEV(n)		ok = ok && (d->api.n = (PFN_vk##n)get(d->dev, "vk" #n));
#include "backends/vulkan/vk.def"
#undef GLOBAL
#undef INST
#undef DEV
	return ok;
}

static VkResult make_device(struct vk_device *d)
{
	const struct vk_physical *p = d->is;
	const float priority = 1;
	const VkDeviceQueueCreateInfo queue = {
		.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
		.queueFamilyIndex = p->family, .queueCount = 1, .pQueuePriorities = &priority };
	VkPhysicalDeviceSubgroupSizeControlFeatures size = {
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
		.subgroupSizeControl = VK_TRUE, .computeFullSubgroups = VK_TRUE };
	struct vk_bfloat16_features bfloat16 = { VK_BFLOAT16_FEATURES, &size, .on = VK_TRUE,
						 .coopmat = VK_TRUE };
	struct vk_coopmat_features coopmat = { VK_COOPMAT_FEATURES,
		p->has.coopmat_bf16 ? (void *)&bfloat16 : &size, .on = VK_TRUE };
	VkPhysicalDeviceVulkan12Features v12 = {
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
		p->has.coopmat ? (void *)&coopmat : p->has.subgroup_size ? &size : NULL,
		.shaderFloat16 = p->has.coopmat, .vulkanMemoryModel = p->has.coopmat,
		.bufferDeviceAddress = VK_TRUE, .timelineSemaphore = VK_TRUE,
		.scalarBlockLayout = VK_TRUE, .storageBuffer8BitAccess = VK_TRUE,
		.shaderInt8 = VK_TRUE };
	VkPhysicalDeviceVulkan11Features v11 = {
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &v12,
		.storageBuffer16BitAccess = VK_TRUE };
	const VkPhysicalDeviceFeatures2 f = { VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &v11,
		.features = { .shaderInt64 = VK_TRUE, .shaderInt16 = VK_TRUE,
			      .shaderFloat64 = VK_TRUE } };
	const char *ext[4];
	uint32_t n = 0;
	VkResult r;

	ext[n++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
	if (p->has.subgroup_size)
		ext[n++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
	if (p->has.coopmat)
		ext[n++] = VK_COOPMAT;
	if (p->has.coopmat_bf16)
		ext[n++] = VK_BFLOAT16;

	const VkDeviceCreateInfo how = {
		.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = &f,
		.queueCreateInfoCount = 1, .pQueueCreateInfos = &queue,
		.enabledExtensionCount = n, .ppEnabledExtensionNames = ext };

	r = d->driver->api.CreateDevice(p->pd, &how, NULL, &d->dev);
	if (r)
		return r;
	if (!load_device_api(d))
		return VK_ERROR_INCOMPATIBLE_DRIVER;
	d->api.GetDeviceQueue(d->dev, p->family, 0, &d->queue);
	return VK_SUCCESS;
}

static VkResult make_layout(struct vk_device *d)
{
	const VkPushConstantRange push = { VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(uint64_t) };
	const VkPipelineLayoutCreateInfo how = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
		.pushConstantRangeCount = 1, .pPushConstantRanges = &push };

	return d->api.CreatePipelineLayout(d->dev, &how, NULL, &d->layout);
}

enum rlx_status vk_open(struct rlx_device *dev, struct rlx_error *err)
{
	struct vk_device *d = (struct vk_device *)dev;
	enum rlx_status st;
	const char *why;
	VkResult r;

	d->driver = vk_driver_get(&why);
	if (!d->driver)
		return rlx_fail(err, RLX_ENODEV, "vulkan: %s", why);
	if (dev->ordinal >= d->driver->devices)
		return rlx_fail(err, RLX_ENODEV, "vulkan:%u: there are %u", dev->ordinal,
				d->driver->devices);
	d->is = &d->driver->device[dev->ordinal];
	d->discrete = !is_unified(d->is) || acts_discrete();
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->upload.lock, NULL);
	pthread_mutex_init(&d->queue_lock, NULL);
	r = make_device(d);
	if (!r)
		r = make_layout(d);
	st = vk_check(d, r, "opening", err);
	if (st) {
		vk_close(dev);
		return st;
	}
	vk_cache_load(d);
	dev->threads = d->is->props.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ?
		       rlx_cpu_allowed() : 1;
	return RLX_OK;
}

void vk_close(struct rlx_device *dev)
{
	struct vk_device *d = (struct vk_device *)dev;

	if (d->dev && d->api.DestroyDevice) {
		d->api.DeviceWaitIdle(d->dev);
		vk_cache_store(d);
		vk_pipelines_free(d);
		vk_upload_free(d);
		vk_memory_free(d);
		d->api.DestroyPipelineCache(d->dev, d->cache, NULL);
		d->api.DestroyPipelineLayout(d->dev, d->layout, NULL);
		d->api.DestroyDevice(d->dev, NULL);
	}
	pthread_mutex_destroy(&d->queue_lock);
	pthread_mutex_destroy(&d->lock);
	pthread_mutex_destroy(&d->upload.lock);
	d->dev = VK_NULL_HANDLE;
}

/* ---- the backend ---- */

static void target(const struct rlx_device *dev, struct rlx_target *t)
{
	t->fuse = true;
	t->bf16 = true;
	t->f16 = true;
	t->mma16 = true;
	t->widen_aside = true;
	/* those of a CPU: nobody has measured others */
	t->repeats = (struct rlx_repeats){
		.few = 1024, .row = 128, .run = 16, .large = 8 << 20, .piece = 512, .whole = 16 };
	(void)dev;
}

__attribute__((visibility("default")))
const struct rlx_backend rlx_backend_vulkan = {
	.abi = RLX_BACKEND_ABI,
	.name = "vulkan",
	.own_threads = true,
	.device_size = sizeof(struct vk_device),
	.code_size = sizeof(struct vk_code),
	.exec_size = sizeof(struct vk_exec),
	.probe = probe, .why = why_none, .open = vk_open, .close = vk_close,
	.target = target, .supports = vk_supports,
	.compile = vk_compile, .release = vk_release,
	.init = vk_init, .fini = vk_fini, .bind = vk_bind,
	.submit = vk_submit, .wait = vk_wait, .keep = vk_keep, .fetch = vk_fetch,
	.has = vk_has,
};
