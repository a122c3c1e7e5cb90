// SPDX-License-Identifier: MIT
/* The Vulkan loader, and of the devices that it lists those that the backend can use. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "backends/vulkan/vk.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct vk_driver driver;

const char *vk_result_name(VkResult r)
{
	switch (r) {
#define NAME(n)	case n: return #n;
	NAME(VK_ERROR_OUT_OF_HOST_MEMORY)
	NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY)
	NAME(VK_ERROR_INITIALIZATION_FAILED)
	NAME(VK_ERROR_DEVICE_LOST)
	NAME(VK_ERROR_MEMORY_MAP_FAILED)
	NAME(VK_ERROR_LAYER_NOT_PRESENT)
	NAME(VK_ERROR_EXTENSION_NOT_PRESENT)
	NAME(VK_ERROR_FEATURE_NOT_PRESENT)
	NAME(VK_ERROR_INCOMPATIBLE_DRIVER)
	NAME(VK_ERROR_TOO_MANY_OBJECTS)
	NAME(VK_ERROR_INVALID_EXTERNAL_HANDLE)
	NAME(VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS)
	NAME(VK_TIMEOUT)
#undef NAME
	default: return "an error of Vulkan";
	}
}

/* Features that kernels use, and what a device without is told. */
static const struct feature {
	size_t		at;		/* in struct features */
	const char	*name;
} wanted[] = {
#define BASE(m)	{ offsetof(VkPhysicalDeviceFeatures2, features.m), #m }
	BASE(shaderInt64), BASE(shaderInt16), BASE(shaderFloat64),
#undef BASE
}, wanted11[] = {
	{ offsetof(VkPhysicalDeviceVulkan11Features, storageBuffer16BitAccess),
	  "storageBuffer16BitAccess" },
}, wanted12[] = {
#define V12(m)	{ offsetof(VkPhysicalDeviceVulkan12Features, m), #m }
	V12(bufferDeviceAddress), V12(timelineSemaphore), V12(scalarBlockLayout),
	V12(storageBuffer8BitAccess), V12(shaderInt8),
#undef V12
};

static const char *lacks(const void *s, const struct feature *f, size_t n)
{
	VkBool32 on;

	for (; n--; f++) {
		memcpy(&on, (const char *)s + f->at, sizeof(on));
		if (!on)
			return f->name;
	}
	return NULL;
}

#define LACKS(s, table)	lacks(s, table, sizeof(table) / sizeof((table)[0]))

static const char *missing_feature(const struct vk_driver *d, VkPhysicalDevice pd)
{
	VkPhysicalDeviceVulkan12Features v12 = {
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES };
	VkPhysicalDeviceVulkan11Features v11 = {
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &v12 };
	VkPhysicalDeviceFeatures2 base = { VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &v11 };
	const char *name;

	d->api.GetPhysicalDeviceFeatures2(pd, &base);
	name = LACKS(&base, wanted);
	if (!name)
		name = LACKS(&v11, wanted11);
	return name ? name : LACKS(&v12, wanted12);
}

void vk_subgroup_size_find(const struct vk_driver *d, struct vk_physical *p)
{
	VkPhysicalDeviceSubgroupSizeControlFeatures f = {
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES };
	VkPhysicalDeviceSubgroupSizeControlProperties is = {
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES };
	VkPhysicalDeviceFeatures2 base = { VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &f };
	VkPhysicalDeviceProperties2 props = { VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
					      &is };

	if (!p->has.subgroup_size)
		return;
	d->api.GetPhysicalDeviceFeatures2(p->pd, &base);
	d->api.GetPhysicalDeviceProperties2(p->pd, &props);
	p->has.subgroup_size = f.subgroupSizeControl && f.computeFullSubgroups &&
		is.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT &&
		is.minSubgroupSize <= p->subgroup && p->subgroup <= is.maxSubgroupSize;
}

/* Extensions are not all: fragments of this size and type, in subgroups as kernels' are. */
static void find_coopmat(const struct vk_driver *d, struct vk_physical *p)
{
	struct vk_bfloat16_features b = { .type = VK_BFLOAT16_FEATURES };
	VkPhysicalDeviceVulkan12Features v12 = {
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
		p->has.coopmat_bf16 ? &b : NULL };
	VkPhysicalDeviceFeatures2 base = { VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &v12 };
	bool f16 = false, bf16 = false;

	d->api.GetPhysicalDeviceFeatures2(p->pd, &base);
	if (p->has.coopmat && p->has.subgroup_size && p->subgroup == 32 && v12.shaderFloat16 &&
	    v12.vulkanMemoryModel && p->props.limits.maxComputeSharedMemorySize >= 40960)
		vk_coopmat_find(d, p->pd, &f16, &bf16);
	p->has.coopmat = f16;
	p->has.coopmat_bf16 = f16 && bf16 && b.on && b.coopmat;
}

static void read_extensions(const struct vk_driver *d, struct vk_physical *p)
{
	VkExtensionProperties ext[512];
	uint32_t n = sizeof(ext) / sizeof(ext[0]), i;

	if (d->api.EnumerateDeviceExtensionProperties(p->pd, NULL, &n, ext) < 0)
		return;
	for (i = 0; i < n; i++) {
		const char *s = ext[i].extensionName;

		p->has.external_host |= !strcmp(s, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
		p->has.coopmat |= !strcmp(s, VK_COOPMAT);
		p->has.coopmat_bf16 |= !strcmp(s, VK_BFLOAT16);
		p->has.pci |= !strcmp(s, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
		p->has.sm_count |= !strcmp(s, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME);
		p->has.subgroup_size |=
			!strcmp(s, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
	}
}

/* A family of queues that computes, and nothing else if there is one */
static bool find_family(const struct vk_driver *d, struct vk_physical *p)
{
	VkQueueFamilyProperties f[32];
	uint32_t n = sizeof(f) / sizeof(f[0]), i;
	bool any = false;

	d->api.GetPhysicalDeviceQueueFamilyProperties(p->pd, &n, f);
	for (i = 0; i < n; i++) {
		bool graphics = f[i].queueFlags & VK_QUEUE_GRAPHICS_BIT;

		if (!(f[i].queueFlags & VK_QUEUE_COMPUTE_BIT) || (any && graphics))
			continue;
		p->family = i;
		any = true;
	}
	return any;
}

/* Into the list that begins with @head, if the device has what it asks about. */
static void ask(void *head, void *about, bool has)
{
	VkBaseOutStructure *first = head, *one = about;

	if (!has)
		return;
	one->pNext = first->pNext;
	first->pNext = one;
}

/* Every vendor's driver numbers its releases its own way. */
static int driver_number(const struct vk_physical *p)
{
	const uint32_t v = p->props.driverVersion;
	uint32_t part[3] = { VK_API_VERSION_MAJOR(v), VK_API_VERSION_MINOR(v),
			     VK_API_VERSION_PATCH(v) };

	if (p->driver == VK_DRIVER_ID_NVIDIA_PROPRIETARY) {
		part[0] = v >> 22;
		part[1] = v >> 14 & 0xff;
		part[2] = v >> 6 & 0xff;
	}
	return (int)(part[0] * 1000000 + part[1] % 1000 * 1000 + part[2] % 1000);
}

/*
 * Turns of a thread's loops, all together. Mesa's llvmpipe ends every loop after the first turn
 * once there were so many, which it tells nobody (LP_MAX_TGSI_LOOP_ITERATIONS).
 */
static uint64_t most_turns(VkDriverId id)
{
	return id == VK_DRIVER_ID_MESA_LLVMPIPE ? 65535 : UINT64_MAX;
}

static void read_properties(const struct vk_driver *d, struct vk_physical *p,
			    VkPhysicalDeviceSubgroupProperties *sub)
{
	const VkShaderFloatControlsIndependence all = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL;
	VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT };
	VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT };
	VkPhysicalDeviceMaintenance4Properties m4 = {
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES };
	VkPhysicalDeviceMaintenance3Properties m3 = {
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES };
	VkPhysicalDeviceDriverProperties drv = {
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES };
	VkPhysicalDeviceFloatControlsProperties floats = {
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES };
	VkPhysicalDeviceShaderSMBuiltinsPropertiesNV sms = {
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV };
	VkPhysicalDeviceProperties2 props = { VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2 };

	p->id.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
	ask(&props, sub, true);
	ask(&props, &p->id, true);
	ask(&props, &m3, true);
	ask(&props, &drv, true);
	ask(&props, &floats, true);
	ask(&props, &host, p->has.external_host);
	ask(&props, &pci, p->has.pci);
	ask(&props, &sms, p->has.sm_count);
	ask(&props, &m4, p->props.apiVersion >= VK_API_VERSION_1_3);
	d->api.GetPhysicalDeviceProperties2(p->pd, &props);
	p->props = props.properties;
	p->id.pNext = NULL;
	sub->pNext = NULL;
	p->driver = drv.driverID;
	p->driver_number = driver_number(p);
	snprintf(p->driver_text, sizeof(p->driver_text), "%.30s %.30s", drv.driverName,
		 drv.driverInfo);
	p->units = sms.shaderSMCount;
	p->most_turns = most_turns(p->driver);
	p->subgroup = sub->subgroupSize;
	vk_subgroup_size_find(d, p);
	find_coopmat(d, p);
	p->has.signed_zero[0] = floats.shaderSignedZeroInfNanPreserveFloat32;
	p->has.signed_zero[1] = floats.shaderSignedZeroInfNanPreserveFloat64;
	/* other widths are left as they are */
	p->has.f16 = floats.denormBehaviorIndependence == all &&
		     floats.roundingModeIndependence == all &&
		     floats.shaderDenormPreserveFloat16 && floats.shaderRoundingModeRTEFloat16 &&
		     floats.shaderSignedZeroInfNanPreserveFloat16;
	p->host_align = host.minImportedHostPointerAlignment;
	p->most_buffer = m4.maxBufferSize ? m4.maxBufferSize : m3.maxMemoryAllocationSize;
	if (p->has.pci)
		snprintf(p->pci, sizeof(p->pci), "%04x:%02x:%02x.%x", pci.pciDomain, pci.pciBus,
			 pci.pciDevice, pci.pciFunction);
}

/* True: *@p is filled. False: *@why is why it is of no use. */
static bool look_at(const struct vk_driver *d, VkPhysicalDevice pd, struct vk_physical *p,
		    char *why, size_t size)
{
	const VkSubgroupFeatureFlags need = VK_SUBGROUP_FEATURE_BASIC_BIT |
		VK_SUBGROUP_FEATURE_ARITHMETIC_BIT | VK_SUBGROUP_FEATURE_BALLOT_BIT;
	VkPhysicalDeviceSubgroupProperties sub = {
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES };
	VkPhysicalDeviceProperties2 first = { VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2 };
	const char *name, *text = NULL;

	*p = (struct vk_physical){ .pd = pd };
	d->api.GetPhysicalDeviceProperties2(pd, &first);
	p->props = first.properties;
	if (p->props.apiVersion < VK_API_VERSION_1_2) {
		snprintf(why, size, "%.60s: Vulkan %u.%u, and 1.2 is needed", p->props.deviceName,
			 VK_API_VERSION_MAJOR(p->props.apiVersion),
			 VK_API_VERSION_MINOR(p->props.apiVersion));
		return false;
	}
	read_extensions(d, p);
	read_properties(d, p, &sub);
	d->api.GetPhysicalDeviceMemoryProperties(pd, &p->memory);
	name = missing_feature(d, pd);
	if (!p->has.external_host)
		text = "no VK_EXT_external_memory_host: it takes no memory of the host's";
	else if (!find_family(d, p))
		text = "no queue that computes";
	else if ((sub.supportedOperations & need) != need ||
		 !(sub.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT))
		text = "no subgroup arithmetic in compute shaders";
	if (name || text)
		snprintf(why, size, "%.60s: %s%s", p->props.deviceName,
			 name ? "its driver lacks " : "", name ? name : text);
	return !name && !text;
}

static bool load_instance_api(struct vk_driver *d)
{
	PFN_vkGetInstanceProcAddr get =
		(PFN_vkGetInstanceProcAddr)dlsym(d->lib, "vkGetInstanceProcAddr");
	bool ok = get;

	d->get = get;

#define GLOBAL(n)							\
	ok = ok && (d->instance || (d->api.n = (PFN_vk##n)get(NULL, "vk" #n)));
#define INST(n)								\
	ok = ok && (!d->instance || (d->api.n = (PFN_vk##n)get(d->instance, "vk" #n)));
#define DEV(n)
#include "backends/vulkan/vk.def"
#undef GLOBAL
#undef INST
#undef DEV
	return ok;
}

static void list_devices(struct vk_driver *d)
{
	VkPhysicalDevice pd[VK_MOST_DEVICES];
	uint32_t n = VK_MOST_DEVICES, i;
	char why[VK_WHY];

	if (d->api.EnumeratePhysicalDevices(d->instance, &n, pd) < 0)
		n = 0;
	for (i = 0; i < n; i++) {
		if (look_at(d, pd[i], &d->device[d->devices], why, sizeof(why)))
			d->devices++;
		else if (!d->why[0])
			memcpy(d->why, why, sizeof(why));
	}
	if (!n)
		snprintf(d->why, sizeof(d->why), "the loader lists no device: no driver is "
			 "installed (Debian: mesa-vulkan-drivers)");
}

static void make_driver(void)
{
	const VkApplicationInfo app = {
		.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "rlx",
		.pEngineName = "rlx", .apiVersion = VK_API_VERSION_1_3 };
	const VkInstanceCreateInfo how = {
		.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app };
	struct vk_driver *d = &driver;
	VkResult r;

	d->lib = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!d->lib) {
		snprintf(d->why, sizeof(d->why), "no libvulkan.so.1 (Debian: libvulkan1)");
		return;
	}
	if (!load_instance_api(d)) {
		snprintf(d->why, sizeof(d->why), "libvulkan.so.1 is older than Vulkan 1.1");
		return;
	}
	r = d->api.CreateInstance(&how, NULL, &d->instance);
	if (r || !load_instance_api(d)) {
		snprintf(d->why, sizeof(d->why), "vkCreateInstance: %s%s", vk_result_name(r),
			 r == VK_ERROR_INCOMPATIBLE_DRIVER ? ": no driver is installed (Debian: "
			 "mesa-vulkan-drivers)" : "");
		return;
	}
	list_devices(d);
}

const struct vk_driver *vk_driver_get(const char **why)
{
	pthread_once(&once, make_driver);
	if (why)
		*why = driver.why;
	return driver.devices ? &driver : NULL;
}
