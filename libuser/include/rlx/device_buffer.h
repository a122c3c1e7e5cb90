/* SPDX-License-Identifier: MIT */
/*
 * Memory of a device as a handle: inputs and outputs that stay there.
 *
 * A session's inputs and outputs are in host memory (rlx_session_bind()), and a device with memory
 * of its own brings and fetches them around each run. Bound to a device buffer they are where the
 * kernels are, and nothing crosses (rlx_session_transfers()): what one program wrote another one
 * reads,
 *
 *	rlx_device_buffer_new("cuda", bytes, &h, &err);
 *	rlx_session_bind_device(encoder, RLX_IO_OUTPUT, "hidden", h, 0);
 *	rlx_session_bind_device(decoder, RLX_IO_INPUT, "hidden", h, 0);
 *	rlx_session_run(encoder);
 *	rlx_session_run(decoder);
 *
 * and so do other libraries, by DLPack and without a copy. On devices that use the host's memory
 * ("cpu", "ref") a device buffer is some of that, and the same program runs there. "cuda" and
 * "rocm" have such buffers; devices with memory of another kind say RLX_ENOSUP.
 *
 * A run has ended, in whatever stream, when rlx_session_run() or rlx_session_wait() returns, and
 * so has each copy here: what comes next may be in any stream of any library. Likewise whoever
 * else writes to a buffer, or reads it, must be done before a run that uses it begins (with
 * PyTorch: torch.cuda.synchronize(), or the stream's): runs wait for no streams but their own.
 * Buffers of a run that was submitted must not be touched until it is done, by other runs either.
 */
#ifndef RLX_DEVICE_BUFFER_H
#define RLX_DEVICE_BUFFER_H

#include "rlx/dlpack.h"
#include "rlx/run.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rlx_device_buffer;

/**
 * rlx_device_buffer_new - take memory of a device.
 * @device: as in struct rlx_compile_opts
 * @bytes:  how many; they read as zero
 * @out:    the buffer, with one reference; NULL on failure
 *
 * It begins at a multiple of 64 bytes at least. Context: any thread; sleeps, allocates.
 * Ownership: rlx_device_buffer_put() by the caller.
 * Return: RLX_EINVAL (no bytes); RLX_ENODEV; RLX_ENOSUP (a device with memory of its own of which
 * there are no handles: the message names it); RLX_ENOMEM, also of the device; RLX_ELOST; RLX_EIO.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_device_buffer_new(const char *device, uint64_t bytes, struct rlx_device_buffer **out,
		      struct rlx_error *err);

/**
 * rlx_device_buffer_get, rlx_device_buffer_put - one reference more, or less; NULL is fine.
 *
 * Sessions that it is bound in have one each, and so have tensors lent by DLPack. The last one
 * frees the memory, or gives it back to the library that it is of.
 * Context: any thread; the last put sleeps. Return: @b.
 */
RLX_EXPORT struct rlx_device_buffer *rlx_device_buffer_get(struct rlx_device_buffer *b);
RLX_EXPORT void rlx_device_buffer_put(struct rlx_device_buffer *b);

/**
 * struct rlx_device_buffer_info - what a buffer is.
 * @device: whose memory ("cuda:1"); of the buffer, as long as that lives
 * @bytes:  size
 * @at:     address of the first byte, as kernels of that device have it (a CUdeviceptr); on
 *          devices that use the host's memory one that the CPU can follow
 * @rdonly: it must not be written to: a tensor that was read-only
 */
struct rlx_device_buffer_info {
	const char	*device;
	uint64_t	 bytes, at;
	bool		 rdonly;
};

/** rlx_device_buffer_info - tell it; all zero for NULL. Context: any. */
RLX_EXPORT void rlx_device_buffer_info(const struct rlx_device_buffer *b,
				       struct rlx_device_buffer_info *out);

/**
 * rlx_device_buffer_write, rlx_device_buffer_read - copy bytes from or to host memory.
 * @offset, @bytes: the range of the buffer; any, also an empty one
 * @data:           as many bytes of host memory
 *
 * Done on return. Counted as copied (rlx_stats). Context: any thread; sleeps. Memory of an arena
 * that sessions of the device use is copied fastest.
 * Return: RLX_EINVAL (NULL); RLX_ERANGE (not inside the buffer); RLX_EACCES (it is read-only);
 * RLX_ELOST, RLX_EIO.
 */
RLX_EXPORT enum rlx_status
rlx_device_buffer_write(struct rlx_device_buffer *b, uint64_t offset, uint64_t bytes,
			const void *data, struct rlx_error *err);
RLX_EXPORT enum rlx_status
rlx_device_buffer_read(struct rlx_device_buffer *b, uint64_t offset, uint64_t bytes, void *data,
		       struct rlx_error *err);

/**
 * rlx_session_bind_device, rlx_session_bind_device_at - use a part of a device buffer for an input
 * or output from the next run on.
 * @b:      of the program's device; referenced until something else is bound, or the session ends
 * @offset: where the tensor begins: on a GPU a multiple of 64 bytes off an address that is one
 *
 * Kernels read and write there, dense, and nothing beyond the type's bytes; of an output with an
 * active extent (rlx_session_extent()) the rows that carry data. Inputs are read by each run,
 * whoever writes them. What a step of the host's reads or writes, if the program has any,
 * crosses, as do values that are got: rlx_session_get(), rlx_session_rows() and
 * rlx_session_bound() fetch what is there. Whatever else gives an input a value ends it:
 * rlx_session_bind(), rlx_session_set(), rlx_session_buf(), of which the last keeps the value; so
 * does rlx_session_unbind(), after which the input has none. Clones begin without it.
 *
 * An output may be where an input is if both are the same bytes: the step that replaces it
 * works in place (rlx_session_feed()); any other program has a copy of the input on the device.
 * Where a step updates in place (attention over a cache) and the two are bound apart, the device
 * copies once before and once after the run. Outputs overlap no other outputs; an input that
 * overlaps an output in part is refused by the next run (RLX_EINVAL).
 *
 * On devices that use the host's memory this is rlx_session_bind().
 * Context: as there. Return: RLX_ENOENT; RLX_EINVAL (NULL; a param or a state, which a device keeps
 * anyway; what is fed; a buffer of another device: the message names both); RLX_ERANGE (too
 * small, or not aligned); RLX_EACCES (an output in a read-only buffer); RLX_ENOMEM; RLX_EBUSY (a
 * run is under way). Then all is as it was.
 */
RLX_EXPORT enum rlx_status
rlx_session_bind_device(struct rlx_session *s, enum rlx_io io, const char *name,
			struct rlx_device_buffer *b, uint64_t offset);
RLX_EXPORT enum rlx_status
rlx_session_bind_device_at(struct rlx_session *s, enum rlx_io io, unsigned int i,
			   struct rlx_device_buffer *b, uint64_t offset);

/**
 * rlx_dl_import_device, rlx_dl_import_device_versioned - use a tensor of another library, of a
 * device's memory, in place.
 * @dl:       on kDLCUDA or kDLROCM, of the device id that RLX counts by as well ("cuda:1"), or in
 *            memory that the CPU reaches, which is a buffer of "cpu"
 * @out_type: its dtype and dimensions
 * @out:      a buffer of its bytes, with one reference; it begins with the first element
 *
 * What writes the tensor must be done (see above). Context: any thread; allocates, opens the
 * device. Ownership: as rlx_dl_import(): on success @dl is ours, its deleter called by the last
 * rlx_device_buffer_put(); on failure it stays the caller's.
 * Return: as rlx_dl_import() and rlx_dl_import_versioned(), RLX_ENOSUP also for strides that are
 * not dense row-major; RLX_ENODEV if there is no such device.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_dl_import_device(struct rlx_dl_managed *dl, struct rlx_type *out_type,
		     struct rlx_device_buffer **out, struct rlx_error *err);
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_dl_import_device_versioned(struct rlx_dl_versioned *dl, struct rlx_type *out_type,
			       struct rlx_device_buffer **out, struct rlx_error *err);

/**
 * rlx_dl_export_device, rlx_dl_export_device_versioned - lend a part of a buffer to another
 * library, in place.
 * @offset: where the tensor begins
 * @type:   what it holds
 * @out:    a DLManagedTensor or DLManagedTensorVersioned on kDLCUDA or kDLROCM, with the device's
 *          id, or on kDLCPU
 *
 * It may be read from any stream: whatever was run has ended. Context: any thread; allocates.
 * Ownership, errors: as rlx_dl_export() and rlx_dl_export_versioned().
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_dl_export_device(struct rlx_device_buffer *b, uint64_t offset, const struct rlx_type *type,
		     struct rlx_dl_managed **out, struct rlx_error *err);
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_dl_export_device_versioned(struct rlx_device_buffer *b, uint64_t offset,
			       const struct rlx_type *type, struct rlx_dl_versioned **out,
			       struct rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
