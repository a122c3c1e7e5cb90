/* SPDX-License-Identifier: MIT */
/*
 * What is used of the PJRT C API, declared here: the layout of its structs is its ABI, which
 * grows at the ends. Each begins with its size, up to the last member that its writer knows, and
 * a function is there if the table that a plugin gives is long enough. API 0.90 to 0.117 have
 * all of these; UnsafePointer may be missing.
 */
#ifndef RLX_BACKENDS_PJRT_API_H
#define RLX_BACKENDS_PJRT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The plugin's own objects */
struct pjrt_error;
struct pjrt_event;
struct pjrt_client;
struct pjrt_hw;			/* a device */
struct pjrt_loaded;		/* a compiled program */
struct pjrt_buffer;

struct pjrt_head {
	size_t	size;
	void	*extension;
};

/* How much of @args there is, up to its member @last */
#define PJRT_HEAD(args, last) \
	{ offsetof(__typeof__(args), last) + sizeof((args).last), NULL }

struct pjrt_api_version {
	struct pjrt_head	head;
	int			major, minor;
};

enum { PJRT_OLDEST = 90 };	/* minor version that is taken */

/* Places of functions in the table */
enum pjrt_slot {
	PJRT_ERROR_DESTROY = 0, PJRT_ERROR_MESSAGE = 1, PJRT_ERROR_GET_CODE = 2,
	PJRT_PLUGIN_INITIALIZE = 3,
	PJRT_EVENT_DESTROY = 5, PJRT_EVENT_AWAIT = 8,
	PJRT_CLIENT_CREATE = 10, PJRT_CLIENT_DESTROY = 11, PJRT_CLIENT_PLATFORM_NAME = 12,
	PJRT_CLIENT_ADDRESSABLE_DEVICES = 16,
	PJRT_CLIENT_COMPILE = 20, PJRT_CLIENT_BUFFER_FROM_HOST = 22,
	PJRT_DESCRIPTION_KIND = 26, PJRT_DEVICE_DESCRIPTION = 29,
	PJRT_EXECUTABLE_DESTROY = 40, PJRT_EXECUTABLE_NUM_OUTPUTS = 44,
	PJRT_LOADED_DESTROY = 50, PJRT_LOADED_GET_EXECUTABLE = 51, PJRT_LOADED_EXECUTE = 55,
	PJRT_BUFFER_DESTROY = 58, PJRT_BUFFER_TO_HOST = 70,
	PJRT_NEEDED = 71,	/* so many at least */
	PJRT_BUFFER_UNSAFE_POINTER = 73,
};

typedef struct pjrt_error *pjrt_fn(void *args);

struct pjrt_api {
	struct pjrt_head	head;
	struct pjrt_api_version	version;
	pjrt_fn			*fn[];
};

enum pjrt_error_kind { PJRT_RESOURCE_EXHAUSTED = 8, PJRT_UNIMPLEMENTED = 12 };

/* enum of dtypes: see type_of() in buffer.c */
enum pjrt_host_semantics {
	PJRT_DURING_CALL, PJRT_UNTIL_TRANSFERRED, PJRT_ZERO_COPY,
};

struct pjrt_error_message {
	struct pjrt_head		head;
	const struct pjrt_error		*error;
	const char			*message;
	size_t				 size;
};

struct pjrt_error_code {
	struct pjrt_head		head;
	const struct pjrt_error		*error;
	int				 code;
};

/* What destroys, and waits, takes: the object */
struct pjrt_object {
	struct pjrt_head		head;
	void				*object;
};

struct pjrt_client_create {
	struct pjrt_head		head;
	const void			*options;
	size_t				 n_option;
	void				*get, *get_arg, *put, *put_arg;
	struct pjrt_client		*client;
	void				*try_get, *try_get_arg;
};

struct pjrt_text {		/* of a client's platform, a description's kind */
	struct pjrt_head		head;
	const void			*of;
	const char			*text;
	size_t				 size;
};

struct pjrt_devices {
	struct pjrt_head		head;
	struct pjrt_client		*client;
	struct pjrt_hw *const		*device;
	size_t				 n;
};

struct pjrt_member {		/* a device's description, a loaded program's executable */
	struct pjrt_head		head;
	const void			*of;
	void				*out;
};

struct pjrt_num_outputs {
	struct pjrt_head		head;
	void				*executable;
	size_t				 n;
};

struct pjrt_program {
	struct pjrt_head		head;
	const char			*code;
	size_t				 code_size;
	const char			*format;
	size_t				 format_size;
};

struct pjrt_compile {
	struct pjrt_head		head;
	struct pjrt_client		*client;
	const struct pjrt_program	*program;
	const char			*options;
	size_t				 options_size;
	struct pjrt_loaded		*out;
};

struct pjrt_from_host {
	struct pjrt_head		head;
	struct pjrt_client		*client;
	const void			*data;
	int				 type;
	const int64_t			*dims;
	size_t				 n_dim;
	const int64_t			*strides;
	size_t				 n_stride;
	int				 semantics;
	struct pjrt_hw			*device;
	void				*memory, *layout;
	struct pjrt_event		*done;
	struct pjrt_buffer		*buffer;
};

struct pjrt_tiled {
	struct pjrt_head		head;
	const int64_t			*minor_to_major;
	size_t				 n;
	const int64_t			*tile_dims;
	const size_t			*tile_sizes;
	size_t				 n_tile;
};

struct pjrt_layout {
	struct pjrt_head		head;
	struct pjrt_tiled		tiled;	/* the larger one of a union */
	int				type;	/* 0: tiled */
};

struct pjrt_to_host {
	struct pjrt_head		head;
	struct pjrt_buffer		*buffer;
	const struct pjrt_layout	*layout;
	void				*to;
	size_t				 size;
	struct pjrt_event		*event;
};

struct pjrt_unsafe_pointer {
	struct pjrt_head		head;
	struct pjrt_buffer		*buffer;
	uintptr_t			 out;
};

struct pjrt_execute_options {
	struct pjrt_head		head;
	void				*send, *recv;
	size_t				 n_send, n_recv;
	int				 launch;
	const int64_t			*kept;		/* inputs that are not given away */
	size_t				 n_persistent;
	void				*context;
	const char			*location;
	size_t				 n_task;
	int				*task;
	int64_t				*incarnation;
};

struct pjrt_execute {
	struct pjrt_head		 head;
	struct pjrt_loaded		 *program;
	struct pjrt_execute_options	 *options;
	struct pjrt_buffer *const *const *in;
	size_t				  n_device, n_in;
	struct pjrt_buffer **const	 *out;
	struct pjrt_event		 **done;
	struct pjrt_hw			 *device;
};

#endif
