// SPDX-License-Identifier: MIT
/* Submissions to a device's queue, each user's on a timeline of its own; command buffers. */
#include "backends/vulkan/vk.h"
#include "base/clock.h"

enum rlx_status vk_line_new(struct vk_device *d, struct vk_line *l, struct rlx_error *err)
{
	const VkSemaphoreTypeCreateInfo type = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
		.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE };
	const VkSemaphoreCreateInfo how = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type };

	l->point = 0;
	return vk_check(d, d->api.CreateSemaphore(d->dev, &how, NULL, &l->timeline),
			"making a semaphore", err);
}

void vk_line_free(struct vk_device *d, struct vk_line *l)
{
	d->api.DestroySemaphore(d->dev, l->timeline, NULL);
	l->timeline = VK_NULL_HANDLE;
}

enum rlx_status vk_line_submit(struct vk_device *d, struct vk_line *l, const VkCommandBuffer *c,
			       uint32_t n, struct rlx_error *err)
{
	const uint64_t point = l->point + 1;
	const VkTimelineSemaphoreSubmitInfo values = {
		.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
		.signalSemaphoreValueCount = 1, .pSignalSemaphoreValues = &point };
	const VkSubmitInfo how = {
		.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &values,
		.commandBufferCount = n, .pCommandBuffers = c,
		.signalSemaphoreCount = 1, .pSignalSemaphores = &l->timeline };
	VkResult r;

	pthread_mutex_lock(&d->queue_lock);
	r = d->api.QueueSubmit(d->queue, 1, &how, VK_NULL_HANDLE);
	pthread_mutex_unlock(&d->queue_lock);
	if (!r)
		l->point = point;
	return vk_check(d, r, "submitting", err);
}

/* A GPU's runs are mostly shorter than what it takes to be woken. */
static void spin(struct vk_device *d, const struct vk_line *l, uint64_t timeout_ns)
{
	enum { SPIN_NS = 100000 };
	const uint64_t from = rlx_now(), most = timeout_ns < SPIN_NS ? timeout_ns : SPIN_NS;
	uint64_t value = 0;

	if (d->is->props.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU)	/* it needs the processor */
		return;
	while (!d->api.GetSemaphoreCounterValue(d->dev, l->timeline, &value) &&
	       value < l->point && rlx_now() - from < most)
		;
}

enum rlx_status vk_line_wait(struct vk_device *d, const struct vk_line *l, uint64_t timeout_ns,
			     struct rlx_error *err)
{
	const VkSemaphoreWaitInfo wait = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1,
		.pSemaphores = &l->timeline, .pValues = &l->point };
	VkResult r;

	spin(d, l, timeout_ns);
	r = d->api.WaitSemaphores(d->dev, &wait, timeout_ns);
	if (r < 0) {	/* it goes on, and who waits is about to take its memory back */
		pthread_mutex_lock(&d->queue_lock);
		(void)!d->api.DeviceWaitIdle(d->dev);
		pthread_mutex_unlock(&d->queue_lock);
	}
	return r == VK_TIMEOUT ? RLX_ETIME : vk_check(d, r, "running", err);
}

VkResult vk_pool_new(struct vk_device *d, VkCommandPool *out)
{
	const VkCommandPoolCreateInfo how = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
		.queueFamilyIndex = d->is->family };
	VkResult r = d->api.CreateCommandPool(d->dev, &how, NULL, out);

	if (r)
		*out = VK_NULL_HANDLE;
	return r;
}

VkResult vk_commands_begin(struct vk_device *d, VkCommandPool pool, VkCommandBuffer *out)
{
	const VkCommandBufferAllocateInfo how = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.commandPool = pool, .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
		.commandBufferCount = 1 };
	const VkCommandBufferBeginInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO };
	VkResult r = d->api.AllocateCommandBuffers(d->dev, &how, out);

	if (!r)
		r = d->api.BeginCommandBuffer(*out, &info);
	if (r)
		*out = NULL;	/* the pool's */
	return r;
}
