// SPDX-License-Identifier: MIT
/* Memory of the driver's: single pieces, blocks that are shared out, and constants. */
#include <string.h>
#include <sys/mman.h>

#include "backends/vulkan/vk.h"
#include "base/alloc.h"
#include "ir/graph.h"

enum { BLOCK_BYTES = 16 << 20 };

/* The specification sorts types, so that the first fit is the best. */
static int type_of(const struct vk_device *d, uint32_t bits, VkMemoryPropertyFlags want)
{
	const VkPhysicalDeviceMemoryProperties *m = &d->is->memory;
	uint32_t i;

	for (i = 0; i < m->memoryTypeCount; i++)
		if (bits >> i & 1 && (m->memoryTypes[i].propertyFlags & want) == want)
			return (int)i;
	return -1;
}

static int type_for(const struct vk_device *d, uint32_t bits, enum vk_where where, bool imported)
{
	const VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
					   VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
	const VkMemoryPropertyFlags best[] = {
		[VK_SHARED] = host | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
		[VK_STAGING] = host | VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
		[VK_LOCAL] = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
	};
	int type = type_of(d, bits, best[where]);

	if (type < 0 && where != VK_LOCAL)
		type = type_of(d, bits, host);
	return type < 0 && imported ? type_of(d, bits, 0) : type;
}

static VkResult allocate(struct vk_device *d, struct vk_piece *p, const struct vk_import *in)
{
	const VkMemoryAllocateFlagsInfo flags = {
		VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO, in ? in->how : NULL,
		VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT };
	VkMemoryAllocateInfo how = { VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &flags };
	VkMemoryRequirements need;
	int type;

	d->api.GetBufferMemoryRequirements(d->dev, p->buf, &need);
	type = type_for(d, need.memoryTypeBits & (in ? in->types : UINT32_MAX), p->where, in);
	if (type < 0)
		return in ? VK_ERROR_INVALID_EXTERNAL_HANDLE : VK_ERROR_OUT_OF_DEVICE_MEMORY;
	how.memoryTypeIndex = (uint32_t)type;
	how.allocationSize = in ? p->bytes : need.size;
	return d->api.AllocateMemory(d->dev, &how, NULL, &p->mem);
}

VkResult vk_piece_new(struct vk_device *d, struct vk_piece *p, const struct vk_import *in)
{
	const VkExternalMemoryBufferCreateInfo external = {
		VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
		.handleTypes = in ? in->handle : 0 };
	const VkBufferCreateInfo how = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .pNext = in ? &external : NULL,
		.size = p->bytes, .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
			VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
			VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT };
	VkBufferDeviceAddressInfo where = { VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO };
	VkResult r;
	void *map = NULL;

	p->buf = VK_NULL_HANDLE;
	p->mem = VK_NULL_HANDLE;
	if (p->bytes > d->is->most_buffer)
		return VK_ERROR_OUT_OF_DEVICE_MEMORY;
	r = d->api.CreateBuffer(d->dev, &how, NULL, &p->buf);
	if (!r)
		r = allocate(d, p, in);
	if (!r)
		r = d->api.BindBufferMemory(d->dev, p->buf, p->mem, 0);
	if (!r && !in && p->where != VK_LOCAL)
		r = d->api.MapMemory(d->dev, p->mem, 0, VK_WHOLE_SIZE, 0, &map);
	if (r) {
		vk_piece_free(d, p);
		return r;
	}
	where.buffer = p->buf;
	p->at = d->api.GetBufferDeviceAddress(d->dev, &where);
	p->map = map;
	return VK_SUCCESS;
}

VkResult vk_piece_import(struct vk_device *d, struct vk_piece *p, void *at)
{
	const VkExternalMemoryHandleTypeFlagBits kind =
		VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
	VkMemoryHostPointerPropertiesEXT can = {
		VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT };
	const VkImportMemoryHostPointerInfoEXT how = {
		VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT, .handleType = kind,
		.pHostPointer = at };
	VkResult r = d->api.GetMemoryHostPointerPropertiesEXT(d->dev, kind, at, &can);
	const struct vk_import in = { kind, &how, can.memoryTypeBits };

	return r ? r : vk_piece_new(d, p, &in);
}

/* Mapped memory need not be unmapped. */
void vk_piece_free(struct vk_device *d, struct vk_piece *p)
{
	d->api.DestroyBuffer(d->dev, p->buf, NULL);
	d->api.FreeMemory(d->dev, p->mem, NULL);
	p->buf = VK_NULL_HANDLE;
	p->mem = VK_NULL_HANDLE;
}

/* ---- spans ---- */

struct vk_block {
	struct vk_block	*next;
	struct vk_piece	 piece;
	uint64_t	 used;
	uint32_t	 live;
	void		*guarded;	/* our own mapping, @mapped bytes; NULL: the driver's */
	uint64_t	 mapped;
};

enum vk_guard vk_guard;

/* The lock is held. */
static VkResult block_new(struct vk_device *d, enum vk_where where, uint64_t bytes,
			  struct vk_block **out)
{
	struct vk_block *b = rlx_calloc(1, sizeof(*b));
	VkResult r;

	if (!b)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	b->piece.bytes = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
	b->piece.where = where;
	r = vk_piece_new(d, &b->piece, NULL);
	if (r) {
		rlx_free(b);
		return r;
	}
	b->next = d->blocks;
	d->blocks = b;
	*out = b;
	return VK_SUCCESS;
}

static void block_free(struct vk_device *d, struct vk_block *b)
{
	vk_piece_free(d, &b->piece);
	if (b->guarded)
		munmap(b->guarded, b->mapped);
	rlx_free(b);
}

/* Pages between two that are none; the span touches the one that is looked at. */
static VkResult guarded_new(struct vk_device *d, uint64_t bytes, struct vk_span *out)
{
	const uint64_t page = d->is->host_align, inner = (bytes + page - 1) / page * page;
	struct vk_block *b = rlx_calloc(1, sizeof(*b));
	VkResult r = VK_ERROR_OUT_OF_HOST_MEMORY;

	if (!b)
		return r;
	b->mapped = inner + 2 * page;
	b->guarded = mmap(NULL, b->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->guarded == MAP_FAILED)
		b->guarded = NULL;
	if (b->guarded && !mprotect((char *)b->guarded + page, inner, PROT_READ | PROT_WRITE)) {
		b->piece.bytes = inner;
		r = vk_piece_import(d, &b->piece, (char *)b->guarded + page);
	}
	if (r) {
		block_free(d, b);
		return r;
	}
	b->piece.map = (char *)b->guarded + page;
	b->used = inner;
	b->live = 1;
	b->next = d->blocks;
	d->blocks = b;
	*out = (struct vk_span){ b, b->piece.at, bytes, b->piece.map };
	if (vk_guard == VK_GUARD_END) {
		out->at += inner - bytes;
		out->map += inner - bytes;
	}
	return r;
}

/* Only what the host may see. */
static char *map_of(const struct vk_block *b, enum vk_where where, uint64_t at)
{
	return where == VK_LOCAL ? NULL : b->piece.map + at;
}

enum rlx_status vk_span_new(struct vk_device *d, enum vk_where where, uint64_t bytes,
			    struct vk_span *out, struct rlx_error *err)
{
	uint64_t need = rlx_align64(bytes ? bytes : 1);
	VkResult r = VK_SUCCESS;
	struct vk_block *b;

	*out = (struct vk_span){ .block = NULL };
	if (need < bytes || need > d->is->most_buffer)
		return rlx_fail(err, RLX_ENOMEM, "%s: %llu bytes in one piece are more than this "
				"device's largest buffer, %llu", d->base.name,
				(unsigned long long)bytes, (unsigned long long)d->is->most_buffer);
	if (!d->discrete)	/* there is one memory */
		where = VK_SHARED;
	pthread_mutex_lock(&d->lock);
	if (vk_guard) {
		r = guarded_new(d, bytes ? bytes : 1, out);
		if (!r)
			out->map = map_of(out->block, where, out->at - out->block->piece.at);
		pthread_mutex_unlock(&d->lock);
		return vk_check(d, r, "allocating memory", err);
	}
	for (b = d->blocks; b; b = b->next)
		if (b->piece.where == where && b->piece.bytes - b->used >= need)
			break;
	if (!b)
		r = block_new(d, where, need, &b);
	if (!r) {
		*out = (struct vk_span){ b, b->piece.at + b->used, need,
					 map_of(b, where, b->used) };
		b->used += need;
		b->live++;
	}
	pthread_mutex_unlock(&d->lock);
	return vk_check(d, r, "allocating memory", err);
}

void vk_span_free(struct vk_device *d, struct vk_span *s)
{
	struct vk_block **at, *b = s->block;

	if (!b)
		return;
	pthread_mutex_lock(&d->lock);
	if (!b->guarded && b->piece.at + b->used == s->at + s->bytes)	/* the last one */
		b->used -= s->bytes;
	if (!--b->live) {
		for (at = &d->blocks; *at != b; at = &(*at)->next)
			;
		*at = b->next;
		block_free(d, b);
	}
	pthread_mutex_unlock(&d->lock);
	s->block = NULL;
}

struct vk_region vk_span_region(const struct vk_span *s)
{
	const struct vk_piece *p = &s->block->piece;

	return (struct vk_region){ p->buf, s->at - p->at, s->at };
}

/* ---- weights ---- */

struct vk_weight {
	struct vk_weight *next;
	const void	 *p;
	uint64_t	  bytes;
	struct rlx_blob	 *blob;		/* keeps them alive */
	struct vk_span	  span;
	uint32_t	  refs;
	bool		  here;		/* its bytes are at @span: guarded by the upload's lock */
};

static struct vk_weight *find(struct vk_device *d, const void *p, uint64_t bytes)
{
	struct vk_weight *w;

	for (w = d->weights; w && (w->p != p || w->bytes != bytes); w = w->next)
		;
	return w;
}

static void is_stale(struct vk_device *d, struct vk_weight *w)
{
	pthread_mutex_lock(&d->upload.lock);
	w->here = false;
	pthread_mutex_unlock(&d->upload.lock);
}

/* Another thread may make the same meanwhile: then it is taken. */
enum rlx_status vk_weight_get(struct vk_device *d, const void *p, uint64_t bytes,
			      struct rlx_blob *blob, struct vk_weight **out,
			      struct rlx_error *err)
{
	struct vk_weight *w, *mine = NULL;
	enum rlx_status st;

	pthread_mutex_lock(&d->lock);
	w = find(d, p, bytes);
	if (w)
		w->refs++;
	pthread_mutex_unlock(&d->lock);
	*out = w;
	if (w) {
		if (!blob || !w->blob)		/* what is there may be new */
			is_stale(d, w);
		return RLX_OK;
	}
	mine = rlx_calloc(1, sizeof(*mine));
	if (!mine)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", d->base.name);
	*mine = (struct vk_weight){ .p = p, .bytes = bytes, .refs = 1 };
	st = vk_span_new(d, VK_LOCAL, bytes, &mine->span, err);
	if (st) {
		rlx_free(mine);
		return st;
	}
	mine->blob = blob ? rlx_blob_get(blob) : NULL;
	pthread_mutex_lock(&d->lock);
	w = find(d, p, bytes);
	if (w) {
		w->refs++;
	} else {
		mine->next = d->weights;
		d->weights = w = mine;
	}
	pthread_mutex_unlock(&d->lock);
	if (w != mine) {
		vk_span_free(d, &mine->span);
		rlx_blob_put(mine->blob);
		rlx_free(mine);
	}
	*out = w;
	return RLX_OK;
}

enum rlx_status vk_weights_load(struct vk_device *d, struct vk_weight **w, uint32_t n,
				struct rlx_error *err)
{
	enum rlx_status st = RLX_OK, ended;
	uint32_t i;

	pthread_mutex_lock(&d->upload.lock);
	for (i = 0; i < n && !st; i++)
		if (w[i] && !w[i]->here)
			st = vk_upload_add(d, &w[i]->span, w[i]->p, w[i]->bytes, err);
	ended = vk_upload_end(d, st ? NULL : err);
	st = st ? st : ended;
	for (i = 0; i < n && !st; i++)
		if (w[i])
			w[i]->here = true;
	pthread_mutex_unlock(&d->upload.lock);
	return st;
}

bool vk_weight_is_here(struct vk_device *d, const struct vk_weight *w)
{
	bool here;

	pthread_mutex_lock(&d->upload.lock);
	here = w->here;
	pthread_mutex_unlock(&d->upload.lock);
	return here;
}

uint64_t vk_weight_at(const struct vk_weight *w)
{
	return w->span.at;
}

void vk_weight_put(struct vk_device *d, struct vk_weight *w)
{
	struct vk_weight **at;
	bool last;

	if (!w)
		return;
	pthread_mutex_lock(&d->lock);
	last = !--w->refs;
	if (last) {
		for (at = &d->weights; *at != w; at = &(*at)->next)
			;
		*at = w->next;
	}
	pthread_mutex_unlock(&d->lock);
	if (!last)
		return;
	vk_span_free(d, &w->span);
	rlx_blob_put(w->blob);
	rlx_free(w);
}

/* Nothing should be left by now but what a failed opening has. */
void vk_memory_free(struct vk_device *d)
{
	struct vk_block *b;

	while ((b = d->blocks)) {
		d->blocks = b->next;
		block_free(d, b);
	}
}
