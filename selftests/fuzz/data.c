// SPDX-License-Identifier: MIT
/*
 * libFuzzer entry for what training reads from files, told apart by the first byte: 'R'
 * record files, 'Z' DEFLATE and gzip, 'M' manifests of checkpoints, else any data set. Crcs are
 * made to fit, or no change would get past them; of record files the chunks, all zeros, are
 * left out of the input.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "train/ckpt.h"
#include "train/crc32c.h"
#include "train/dataset.h"
#include "train/inflate.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { DATA_MAX = 256 << 10, OUT_MAX = 64 << 10 };

static void try_record(const uint8_t *p, size_t n)
{
	struct record_disk_head h = { .chunk_bytes = 65536 };
	size_t head = n < sizeof(h) ? n : sizeof(h), rest = n - head, data;
	struct rlx_record *r = NULL;
	struct rlx_error err = { 0 };
	uint64_t i, bytes;
	uint8_t *f, *one;
	uint32_t crc;

	memcpy(&h, p, head);
	data = h.chunks <= DATA_MAX / 65536 && h.chunk_bytes <= DATA_MAX ?
	       (size_t)(h.chunks * h.chunk_bytes) : 0;
	data = data <= DATA_MAX ? data : 0;
	h.crc = crc32c(0, &h, __builtin_offsetof(struct record_disk_head, crc));
	f = calloc(1, RECORD_HEAD + data + rest + 4);
	memcpy(f, &h, sizeof(h));
	memcpy(f + RECORD_HEAD + data, p + head, rest);
	crc = crc32c(0, p + head, rest);
	memcpy(f + RECORD_HEAD + data + rest, &crc, 4);
	if (rlx_record_open_mem(f, RECORD_HEAD + data + rest + 4, &r, &err)) {
		if (!err.text[0] || r)
			abort();
		free(f);
		return;
	}
	one = malloc(RECORD_CHUNK_MAX);
	for (i = 0; i < r->info.records && i < 1000; i++)
		if (rlx_record_read(r, i, one, RECORD_CHUNK_MAX, &bytes, NULL))
			abort();
	if (rlx_record_verify(r, &err) && !err.text[0])
		abort();
	rlx_record_close(r);
	free(one);
	free(f);
}

static void try_inflate(const uint8_t *p, size_t n)
{
	uint8_t *out = malloc(OUT_MAX);
	size_t room = n > 2 ? (p[1] | (size_t)p[2] << 8) : 0;
	bool partial = n && p[0] & 1, gzip = n && p[0] & 2;
	struct inflate_result r;

	p += n < 3 ? n : 3;
	n -= n < 3 ? n : 3;
	r = gzip ? inflate_gzip(p, n, out, room, partial) : inflate_raw(p, n, out, room, partial);
	if (r.in > n || r.out > room || (!r.error && !partial && r.out != room))
		abort();
	free(out);
}

static void try_manifest(const uint8_t *p, size_t n)
{
	static const char tail[] = "\"crc32c\": \"00000000\"\n}\n";
	char *text = malloc(n + sizeof(tail)), digits[9];
	size_t len = n + sizeof(tail) - 1;
	uint8_t blob[8];
	struct rlx_ckpt_blob b = { "seed", blob, sizeof(blob) };
	struct rlx_error err = { 0 };
	struct ckpt_manifest m;

	memcpy(text, p, n);
	memcpy(text + n, tail, sizeof(tail));
	snprintf(digits, sizeof(digits), "%08x", crc32c(0, text, len));
	memcpy(text + len - 12, digits, 8);
	if (ckpt_manifest_parse(&m, text, len, "manifest", &err)) {
		if (!err.text[0])
			abort();
	} else {
		if (ckpt_manifest_blob(&m, &b, true, &err) && !err.text[0])
			abort();
		rlx_json_fini(&m.json);
	}
	free(text);
}

static void try_dataset(const uint8_t *p, size_t n)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct rlx_error err = { 0 };
	struct dataset d;
	uint64_t i, at, bytes;
	unsigned int k;
	uint8_t *out;
	char path[40];

	if (fd < 0 || write(fd, p, n) != (ssize_t)n)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (dataset_open(&d, path, false, &err)) {
		if (!err.text[0])
			abort();
		close(fd);
		return;
	}
	for (k = 0; k < d.parts; k++) {
		for (i = 0; i < d.records && i < 100; i++) {
			dataset_at(&d, k, i, &at, &bytes);
			if (at + bytes > d.part[k].end || (!d.part[k].codec && at + bytes > n))
				abort();
		}
		if (!d.part[k].codec || d.part[k].end > OUT_MAX)
			continue;
		out = malloc(d.part[k].end);
		if (dataset_unpack(&d, k, out, &err) && !err.text[0])
			abort();
		free(out);
	}
	dataset_close(&d);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	if (n && p[0] == 'R')
		try_record(p + 1, n - 1);
	else if (n && p[0] == 'Z')
		try_inflate(p + 1, n - 1);
	else if (n && p[0] == 'M')
		try_manifest(p + 1, n - 1);
	else
		try_dataset(p, n);
	return 0;
}
