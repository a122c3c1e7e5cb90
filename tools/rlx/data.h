/* SPDX-License-Identifier: MIT */
/* rlx data: what its verbs share. */
#ifndef RLX_TOOLS_DATA_H
#define RLX_TOOLS_DATA_H

#include "rlx/data.h"
#include "tools/rlx/args.h"

struct data_args {
	const char	*output, *tokenizer, *end;
	uint64_t	 chunk;		/* KiB; UINT64_MAX: not given */
	bool		 text, stream, images, json;
};

/* Write @output of @input; an enum tool_exit. */
int data_convert(const struct data_args *a, const struct arg_list *input);
/* The same for texts, each file to its tokens; and for folders of images. */
enum rlx_status data_convert_text(const struct data_args *a, const char *const *path,
				  unsigned int n, struct rlx_error *err);
enum rlx_status data_convert_images(const struct data_args *a, const char *dir,
				    struct rlx_error *err);
/* The writer that --output and --chunk ask for. */
enum rlx_status data_create(const struct data_args *a, const struct rlx_field *field,
			    unsigned int n, uint32_t flags, struct rlx_record_writer **out,
			    struct rlx_error *err);

#endif
