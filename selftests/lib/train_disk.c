// SPDX-License-Identifier: MIT
/* Data sets on the disk that training benchmarks are fed from. */
#include "selftests/lib/train_disk.h"
#include "selftests/lib/data_set.h"
#include "selftests/lib/train_decoder.h"

/* None comes twice in a measurement of some tens of steps. */
enum { BATCHES = 48 };

static void must(enum rlx_status st, const struct rlx_error *err)
{
	CHECKF(!st, "%s: %s", rlx_status_name(st), err->text);
}

static struct rlx_record_writer *create(const char *path, const struct rlx_field *f,
					unsigned int n, uint32_t flags)
{
	const struct rlx_record_opts o = { .size = sizeof(o), .flags = flags };
	struct rlx_record_writer *w;
	struct rlx_error err = { 0 };

	must(rlx_record_create(path, f, n, &o, &w, &err), &err);
	return w;
}

static const char *write_text(int64_t n)
{
	static const struct rlx_field field = { "tokens", { RLX_U8, 0, { 0 } } };
	const char *path = data_path("text.rlxr");
	struct rlx_record_writer *w = create(path, &field, 1, RLX_RECORD_STREAM);
	uint8_t *text = malloc((size_t)n);
	const void *data[1] = { text };
	struct rlx_error err = { 0 };
	int64_t i;

	CHECK(text);
	for (i = 0; i < n; i++)
		text[i] = (uint8_t)train_decoder_byte(i);
	must(rlx_record_add(w, data, (uint64_t)n, &err), &err);
	must(rlx_record_commit(w, &err), &err);
	free(text);
	return path;
}

static const char *write_images(int64_t n, int64_t size, int64_t classes)
{
	const struct rlx_field field[2] = {
		{ "image", rlx_type(RLX_U8, 3, size, size) }, { "label", { RLX_I32, 0, { 0 } } },
	};
	const size_t words = (size_t)rlx_type_bytes(&field[0].type) / sizeof(uint64_t) + 1;
	const char *path = data_path("images.rlxr");
	struct rlx_record_writer *w = create(path, field, 2, 0);
	uint64_t *image = malloc(words * sizeof(*image)), seed = 5, k;
	struct rlx_error err = { 0 };
	int32_t label;
	const void *data[2] = { image, &label };
	int64_t i;

	CHECK(image);
	for (i = 0; i < n; i++) {
		label = (int32_t)((97 * i + 3) % classes);
		for (k = 0; k < words; k++)
			image[k] = rlx_test_rand(&seed);
		must(rlx_record_add(w, data, 1, &err), &err);
	}
	must(rlx_record_commit(w, &err), &err);
	free(image);
	return path;
}

/* By rows, which are read again in each epoch, however little there is. */
static struct rlx_loader *open_loader(const char *path, int64_t batch, int64_t sample)
{
	const struct rlx_loader_opts o = {
		.size = sizeof(o), .path = path, .batch = (unsigned int)batch, .seed = 1,
		.sample = (unsigned int)sample, .step = sample ? (unsigned int)sample - 1 : 0,
		.layout = RLX_LAYOUT_ROWS, .shuffle = true, .workers = 2,
	};
	struct rlx_loader *ld;
	struct rlx_error err = { 0 };

	must(rlx_loader_open(&o, &ld, &err), &err);
	return ld;
}

struct rlx_loader *train_disk_text(struct rlx_graph *g, int64_t batch, int64_t context,
				   rlx_value out[2])
{
	struct rlx_loader *ld = open_loader(write_text(BATCHES * batch * context + 1), batch,
					    context + 1);
	rlx_value x = rlx_emit(g, cast, .x = rlx_loader_input(ld, g, "tokens"), .to = RLX_I32);

	for (int i = 0; i < 2; i++)
		out[i] = rlx_emit(g, slice, .x = x, .axes = RLX_INTS(1), .starts = RLX_INTS(i),
				  .ends = RLX_INTS(i + context));
	return ld;
}

struct rlx_loader *train_disk_images(struct rlx_graph *g, int64_t batch, int64_t size,
				     int64_t classes, rlx_value out[2])
{
	static const float mean = 127.5f, deviation = 73.9f;	/* of bytes that are all alike */
	struct rlx_loader *ld = open_loader(write_images(BATCHES * batch, size, classes), batch, 0);
	rlx_value x = rlx_emit(g, cast, .x = rlx_loader_input(ld, g, "image"), .to = RLX_F32);

	x = rlx_emit(g, sub, .a = x, .b = rlx_constant(g, rlx_scalar(RLX_F32), &mean));
	out[0] = rlx_emit(g, div, .a = x, .b = rlx_constant(g, rlx_scalar(RLX_F32), &deviation));
	out[1] = rlx_loader_input(ld, g, "label");
	return ld;
}

void train_disk_feed(struct rlx_loader *ld, struct rlx_session *s)
{
	must(rlx_loader_feed(ld, s), rlx_loader_error(ld));
}

void train_disk_prefetch(struct rlx_loader *ld, struct rlx_session *s)
{
	must(rlx_loader_prefetch(ld, s), rlx_loader_error(ld));
}

uint64_t train_disk_print(const struct rlx_loader *ld)
{
	struct rlx_loader_info i;

	rlx_loader_info(ld, &i);
	printf("  from the disk (%s; %s), %llu of %llu batches waited for\n", i.reader, i.direct,
	       (unsigned long long)i.waits, (unsigned long long)i.batches);
	return i.bytes_copied + i.bytes_buffered + i.bytes_decoded;
}

void train_disk_close(struct rlx_loader *ld)
{
	rlx_loader_close(ld);
}
