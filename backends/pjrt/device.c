// SPDX-License-Identifier: MIT
/* The device "pjrt": the first one of the plugin that RLX_PJRT_PLUGIN names. */
#include <stdio.h>

#include "backends/pjrt/pjrt.h"

static unsigned int probe(struct rlx_dev_info *info, unsigned int first, unsigned int max)
{
	const char *why;
	const struct pjrt_plugin *p = pjrt_plugin_get(&why);

	if (!p)
		return 0;
	if (first || !max)
		return 1;
	*info = (struct rlx_dev_info){ .backend = "pjrt", .by_name = true };
	snprintf(info->name, sizeof(info->name), "%.28s, %.31s", p->platform, p->kind);
	snprintf(info->isa, sizeof(info->isa), "%s", p->version);
	return 1;
}

static const char *why_none(void)
{
	const char *why;

	pjrt_plugin_get(&why);
	return why;
}

static enum rlx_status open_device(struct rlx_device *dev, struct rlx_error *err)
{
	struct pjrt_device *d = (struct pjrt_device *)dev;
	const char *why;

	d->plugin = pjrt_plugin_get(&why);
	if (!d->plugin)
		return rlx_fail(err, RLX_ENODEV, "pjrt: %s", why);
	snprintf(dev->name, sizeof(dev->name), "pjrt");
	dev->threads = 0;
	return RLX_OK;
}

/* The plugin keeps what it has: others may open the device again. */
static void close_device(struct rlx_device *dev)
{
	(void)dev;
}

static bool supports(const struct rlx_device *dev, const struct rlx_infer *q,
		     struct rlx_error *why)
{
	(void)dev;
	return hlo_supports(q, why);
}

const struct rlx_backend rlx_backend_pjrt = {
	.abi = RLX_BACKEND_ABI,
	.name = "pjrt",
	.device_size = sizeof(struct pjrt_device),
	.code_size = sizeof(struct pjrt_code),
	.exec_size = sizeof(struct pjrt_exec),
	.own_threads = true,
	.probe = probe, .why = why_none, .open = open_device, .close = close_device,
	.supports = supports,
	.compile = pjrt_compile, .release = pjrt_release,
	.init = pjrt_init, .fini = pjrt_fini, .bind = pjrt_bind, .submit = pjrt_submit,
	.has = pjrt_has,
};
