// SPDX-License-Identifier: MIT
// Modules (an image is a shared object), functions and launches.
#include "emu.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct emu_module {
	void		*so;
	int		fd, device;
	struct emu_kernel **k;
	int		n;
};

/*
 * Images begin with this head, which says how long they are: cuModuleLoadData()
 * gets an address alone.
 */
struct emu_image {
	char		magic[8];	/* "RLXEMU1" */
	uint64_t	bytes;
};

/* The file stays open: the loader knows libraries by name, and this one has its number. */
static int load(struct emu_module *m, const void *image)
{
	const struct emu_image *head = image;
	const char *at = (const char *)(head + 1);
	char path[64];

	if (memcmp(head->magic, "RLXEMU1", 8))
		return EMU_INVALID_IMAGE;
	m->fd = memfd_create("rlx-emu-module", MFD_CLOEXEC);
	if (m->fd < 0)
		return EMU_OUT_OF_MEMORY;
	for (uint64_t done = 0; done < head->bytes;) {
		ssize_t n = write(m->fd, at + done, head->bytes - done);

		if (n <= 0)
			goto out_close;
		done += (uint64_t)n;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", m->fd);
	m->so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (m->so)
		return 0;
	emu_complain("an image does not load: %s", dlerror());

out_close:
	close(m->fd);
	return EMU_INVALID_IMAGE;
}

EMU_API int cuModuleLoadData(struct emu_module **out, const void *image);
EMU_API int cuModuleLoadData(struct emu_module **out, const void *image)
{
	int err = emu_enter("cuModuleLoadData");
	struct emu_module *m;

	if (err)
		return err;
	if (emu_device() < 0)
		return EMU_INVALID_CONTEXT;
	m = calloc(1, sizeof(*m));
	if (!m)
		return EMU_OUT_OF_MEMORY;
	m->device = emu_device();
	err = load(m, image);
	if (err) {
		free(m);
		return err;
	}
	*out = m;
	emu_count(EMU_MODULE, 1);
	return 0;
}

EMU_API int cuModuleLoadDataEx(struct emu_module **out, const void *image,
			       unsigned int n, int *option, void **value);
EMU_API int cuModuleLoadDataEx(struct emu_module **out, const void *image,
			       unsigned int n, int *option, void **value)
{
	return cuModuleLoadData(out, image);
}

EMU_API int cuModuleUnload(struct emu_module *m);
EMU_API int cuModuleUnload(struct emu_module *m)
{
	int err = emu_enter("cuModuleUnload");

	emu_sync_all();
	for (int i = 0; i < m->n; i++) {
		free(m->k[i]->name);
		free(m->k[i]);
	}
	free(m->k);
	dlclose(m->so);
	close(m->fd);
	free(m);
	emu_count(EMU_MODULE, -1);
	return err;
}

struct span {
	const char	*in, *from, *to;
};

static int span_of(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct span *s = arg;
	const char *from = NULL, *to = NULL;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const char *at = (const char *)info->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD)
			continue;
		if (!from || at < from)
			from = at;
		if (at + p->p_memsz > to)
			to = at + p->p_memsz;
	}
	if (s->in < from || s->in >= to)
		return 0;
	s->from = from;
	s->to = to;
	return 1;
}

EMU_API int cuModuleGetFunction(struct emu_kernel **out, struct emu_module *m,
				const char *name);
EMU_API int cuModuleGetFunction(struct emu_kernel **out, struct emu_module *m,
				const char *name)
{
	int err = emu_enter("cuModuleGetFunction");
	char sym[256];
	struct emu_kernel *k, **grown;
	const int *threads;
	struct span s;

	if (err)
		return err;
	k = calloc(1, sizeof(*k));
	grown = realloc(m->k, (size_t)(m->n + 1) * sizeof(*grown));
	if (!k || !grown) {
		free(k);
		return EMU_OUT_OF_MEMORY;
	}
	m->k = grown;
	*(void **)&k->entry = dlsym(m->so, name);
	snprintf(sym, sizeof(sym), "%s_emu_sizes", name);
	k->size = dlsym(m->so, sym);
	snprintf(sym, sizeof(sym), "%s_emu_threads", name);
	threads = dlsym(m->so, sym);
	if (!k->entry || !k->size || !threads) {
		free(k);
		return EMU_NOT_FOUND;
	}
	k->max_threads = *threads;
	k->device = m->device;
	s.in = (const char *)k->size;
	dl_iterate_phdr(span_of, &s);
	k->text = s.from;
	k->text_end = s.to;
	k->name = strdup(name);
	if (!k->name) {
		free(k);
		return EMU_OUT_OF_MEMORY;
	}
	m->k[m->n++] = k;
	*out = k;
	return 0;
}

enum {
	FUNC_MAX_THREADS = 0,
	FUNC_NUM_REGS = 4,
	FUNC_MAX_DYNAMIC_SHARED = 8,
	FUNC_SHARED_CARVEOUT = 9,
};

EMU_API int cuFuncSetAttribute(struct emu_kernel *k, int what, int value);
EMU_API int cuFuncSetAttribute(struct emu_kernel *k, int what, int value)
{
	int err = emu_enter("cuFuncSetAttribute");

	if (err)
		return err;
	if (what == FUNC_SHARED_CARVEOUT)
		return 0;
	if (what != FUNC_MAX_DYNAMIC_SHARED || value < 0 || value > EMU_SHARED_MAX)
		return EMU_INVALID_VALUE;
	k->max_dynamic = (uint32_t)value;
	return 0;
}

EMU_API int cuFuncGetAttribute(int *out, int what, struct emu_kernel *k);
EMU_API int cuFuncGetAttribute(int *out, int what, struct emu_kernel *k)
{
	int err = emu_enter("cuFuncGetAttribute");

	if (err)
		return err;
	*out = what == FUNC_MAX_THREADS ? k->max_threads :
	       what == FUNC_MAX_DYNAMIC_SHARED ? (int)k->max_dynamic :
	       what == FUNC_NUM_REGS ? 32 : 0;
	return 0;
}

EMU_API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, struct emu_kernel *k,
							int threads, size_t shared);
EMU_API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, struct emu_kernel *k,
							int threads, size_t shared)
{
	int err = emu_enter("cuOccupancyMaxActiveBlocksPerMultiprocessor");

	if (err)
		return err;
	if (threads <= 0 || threads > EMU_MAX_THREADS)
		return EMU_INVALID_VALUE;
	*out = 2048 / threads < 32 ? 2048 / threads : 32;
	if (shared && (size_t)(228 << 10) / (shared + 1024) < (size_t)*out)
		*out = (int)((size_t)(228 << 10) / (shared + 1024));
	return 0;
}

/* The driver's own list of parameters, longer than we would write one. */
#define LAUNCH_PARAMS							\
	struct emu_kernel *k, unsigned int gx, unsigned int gy, unsigned int gz, \
	unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, \
	struct emu_stream *s, void **params, void **extra

static int launch(LAUNCH_PARAMS, bool early)
{
	struct emu_task t = { .kind = EMU_TASK_KERNEL, .launch = {
		.kernel = k, .grid = { gx, gy, gz }, .block = { bx, by, bz },
		.shared = shared, .early = early } };
	int err;

	if (!k || extra || (k->size[0] && !params))
		return EMU_INVALID_VALUE;
	if (k->device != emu_stream_device(s))
		return EMU_INVALID_HANDLE;
	for (int i = 0; k->size[i]; i++)
		t.launch.params[i] = params[i];
	err = emu_check_launch(&t.launch);
	return err ? err : emu_submit(s, &t);
}

EMU_API int cuLaunchKernel(LAUNCH_PARAMS);
EMU_API int cuLaunchKernel(LAUNCH_PARAMS)
{
	int err = emu_enter("cuLaunchKernel");

	return err ? err : launch(k, gx, gy, gz, bx, by, bz, shared, s, params, extra, false);
}

/* An attribute of a launch and its value; the only one taken lets it begin early. */
struct launch_attr {
	int	id, pad, value[16];
};
enum { LAUNCH_PDL = 6 };

struct launch_config {
	unsigned int		grid[3], block[3], shared;
	struct emu_stream	*stream;
	const struct launch_attr *attr;
	unsigned int		n_attr;
};

EMU_API int cuLaunchKernelEx(const struct launch_config *c, struct emu_kernel *k,
			     void **params, void **extra);
EMU_API int cuLaunchKernelEx(const struct launch_config *c, struct emu_kernel *k,
			     void **params, void **extra)
{
	int err = emu_enter("cuLaunchKernelEx");
	bool early = false;

	if (err)
		return err;
	for (unsigned int i = 0; i < c->n_attr; i++) {
		if (c->attr[i].id != LAUNCH_PDL)
			return EMU_INVALID_VALUE;
		early = early || c->attr[i].value[0];
	}
	return launch(k, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1],
		      c->block[2], c->shared, c->stream, params, extra, early);
}
