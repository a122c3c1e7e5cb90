// SPDX-License-Identifier: MIT
/* rlx data: convert, info, verify. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "rlx/data.h"
#include "rlx/npy.h"
#include "selftests/cli/cli.h"

static void write_bytes(const char *path, const void *p, size_t n)
{
	FILE *f = fopen(path, "wb");

	CHECK(f && fwrite(p, 1, n, f) == n && !fclose(f));
}

static struct rlx_record *open_record(const char *path, struct rlx_record_info *info)
{
	struct rlx_record *r = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_record_open(path, &r, &err), "%s", err.text);
	rlx_record_info(r, info);
	return r;
}

/* x[20,3] f32 with values i, in numpy's file, and in Fortran order of the other byte order. */
static void write_arrays(void)
{
	static const char head[] = "{'descr': '>f4', 'fortran_order': True, 'shape': (20, 3), }";
	struct rlx_type t = rlx_type(RLX_F32, 20, 3), id = rlx_type(RLX_I32, 20);
	uint8_t buf[10 + sizeof(head) + 240] = "\x93NUMPY\x01";
	struct rlx_error err = { 0 };
	int32_t n[20], i, k;
	float x[60];

	for (i = 0; i < 20; i++)
		n[i] = i;
	for (i = 0; i < 60; i++)
		x[i] = (float)i;
	CHECK(!rlx_npy_write("x.npy", &t, x, &err) && !rlx_npy_write("n.npy", &id, n, &err));
	buf[8] = sizeof(head);
	memcpy(buf + 10, head, sizeof(head) - 1);
	buf[10 + sizeof(head) - 1] = '\n';
	for (k = 0; k < 3; k++)
		for (i = 0; i < 20; i++) {
			uint32_t v;

			memcpy(&v, &x[3 * i + k], 4);
			v = __builtin_bswap32(v);
			memcpy(buf + 10 + sizeof(head) + 4 * (20 * k + i), &v, 4);
		}
	write_bytes("odd.npy", buf, sizeof(buf));
}

TEST(arrays_become_records)
{
	static const char *const input[] = { "n=n.npy,x=x.npy", "n=n.npy,x=odd.npy" };
	struct rlx_record_info info;
	struct rlx_record *r;
	uint8_t buf[256];
	unsigned int k;
	float x[3];
	int32_t n, i;

	cli_begin();
	write_arrays();
	for (k = 0; k < 2; k++) {
		ENDS(RLX("data", "convert", input[k], "--output", "a.rlxr"), 0, out, "20 records");
		ENDS(RLX("data", "verify", "a.rlxr"), 0, out, "a.rlxr: whole");
		r = open_record("a.rlxr", &info);
		CHECK_EQ(info.records, 20);
		for (i = 0; i < 20; i++) {
			CHECK(!rlx_record_read(r, (uint64_t)i, buf, sizeof(buf), NULL, NULL));
			memcpy(&n, buf + info.offset[0], 4);
			memcpy(x, buf + info.offset[1], 12);
			CHECK_EQ(n, i);
			CHECK(x[0] == 3 * i && x[1] == 3 * i + 1 && x[2] == 3 * i + 2);
		}
		rlx_record_close(r);
	}
	ENDS(RLX("data", "convert", "n.npy", "--output", "c.rlxr", "--chunk", "18014398509481984"),
	     2, err, "want 64 to 4096");
	ENDS(RLX("data", "convert", "n.npy", "--output", "c.rlxr", "--chunk", "0"), 2, err,
	     "--chunk is 0");
	ENDS(RLX("data", "convert", "n.npy", "--output", "c.rlxr", "--chunk", "96"), 3, err,
	     "no power of two");
	ENDS(RLX("data", "info", "n.npy", "--chunk", "64"), 2, err, "options of convert");
	CHECK(access("c.rlxr", F_OK));
	ENDS(RLX("data", "info", "a.rlxr"), 0, out, "f32[3]");
	ENDS(RLX("data", "info", "n=n.npy,x=x.npy"), 0, out, "20 records in arrays");
	CHECK(rlx_json_get(cli_json(RLX("data", "info", "--json", "a.rlxr")), 0, "fingerprint"));
	ENDS(RLX("data", "convert", "n.npy", "--stream", "--output", "s.rlxr"), 0, out,
	     "20 tokens");
}

/* How many have a fingerprint, of an array of objects */
static int fingerprints(const struct said *said)
{
	struct rlx_json *j = cli_json(said);
	struct rlx_json_iter it = rlx_json_iter(j, 0);
	int n = 0;

	while (rlx_json_next(&it))
		n += rlx_json_get(j, it.val, "fingerprint") != 0;
	return n;
}

TEST(several_are_one_document)
{
	struct said *s;

	cli_begin();
	write_arrays();
	s = RLX("data", "info", "--json", "n.npy", "x.npy", "n=n.npy,x=x.npy");
	CHECK_EQ(fingerprints(s), 3);
	s = RLX("data", "info", "--json", "n.npy", "none", "x.npy");
	CHECKF(s->status == 3 && strstr(s->err, "none"), "%d: %s", s->status, s->err);
	s->status = 0;
	CHECK_EQ(fingerprints(s), 1);
	ENDS(RLX("data", "verify", "--json", "n.npy"), 2, err, "--json is for info");
}

/* What a terminal of its own reads of rlx data info @name. */
static const char *on_a_terminal(const char *name, int code)
{
	static char out[4096];
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave, status;
	ssize_t n = 0, got;
	pid_t pid;

	CHECK(master >= 0 && !grantpt(master) && !unlockpt(master));
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	CHECK(slave >= 0);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		dup2(slave, STDOUT_FILENO);
		dup2(slave, STDERR_FILENO);
		execl(cli_program(), "rlx", "data", "info", name, NULL);
		_exit(127);
	}
	close(slave);
	while ((got = read(master, out + n, sizeof(out) - 1 - (size_t)n)) > 0)
		n += got;
	out[n] = 0;
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == code, "%s", out);
	close(master);
	return out;
}

/* Names may hold what terminals obey: there they are shown. Who else reads has what they are. */
TEST(control_characters)
{
	static const char name[] = "a\x1b]0;x\ab\r\x7f \xc2\x9b" "31m\x9b" "1m "
				   "\xc3\x9f\xc2\xa9.npy";
	static const char shown[] = "a\\x1b]0;x\\x07b\\x0d\\x7f \\x9b" "31m\\x9b" "1m "
				    "\xc3\x9f\xc2\xa9.npy: ";
	const char *said;

	cli_begin();
	said = on_a_terminal(name, 3);
	CHECKF(strstr(said, shown), "%s", said);
	write_arrays();
	CHECK(!rename("n.npy", name));
	said = on_a_terminal(name, 0);
	CHECKF(strstr(said, shown), "%s", said);
	ENDS(RLX("data", "info", name), 0, out, name);
}

/* Nobody writes to it: each says so at once, instead of waiting. */
TEST(fifos_are_refused)
{
	static const char *const verb[] = { "info", "verify", "convert" };
	unsigned int i;

	cli_begin();
	write_arrays();
	CHECK(!mkfifo("fifo", 0666));
	alarm(30);
	for (i = 0; i < 3; i++) {
		ENDS(RLX("data", verb[i], "fifo", i == 2 ? "--output=a.rlxr" : NULL), 3, err,
		     "fifo: no regular file");
		ENDS(RLX("data", verb[i], "x=x.npy,y=fifo", i == 2 ? "--output=a.rlxr" : NULL), 3,
		     err, i == 1 ? "x=x.npy,y=fifo" : "fifo: no regular file");
	}
	alarm(0);
}

TEST(texts_become_streams)
{
	struct rlx_record_info info;
	struct rlx_record *r;
	uint16_t id;
	uint8_t c;

	cli_begin();
	cli_write("a.txt", "hello world");
	cli_write("b.txt", "world");
	cli_write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\nworld\n");
	ENDS(RLX("data", "convert", "--text", "a.txt", "b.txt", "--end", "10", "--output",
		 "b.rlxr"),
	     0, out, "18 tokens");
	r = open_record("b.rlxr", &info);
	CHECK(!rlx_record_read(r, 11, &c, 1, NULL, NULL) && c == 10);
	rlx_record_close(r);
	ENDS(RLX("data", "convert", "--text", "a.txt", "b.txt", "--tokenizer", "vocab.txt", "--end",
		 "[SEP]", "--output", "t.rlxr"), 0, out, "5 tokens");
	r = open_record("t.rlxr", &info);
	CHECK_EQ(info.field[0].type.dtype, RLX_U16);
	CHECK(!rlx_record_read(r, 1, &id, 2, NULL, NULL) && id == 5);
	CHECK(!rlx_record_read(r, 4, &id, 2, NULL, NULL) && id == 3);
	rlx_record_close(r);
	ENDS(RLX("data", "convert", "--text", "a.txt", "--end", "[NO]", "--tokenizer", "vocab.txt",
		 "--output", "u.rlxr"), 3, err, "no such token");
	CHECK(access("u.rlxr", F_OK));
	cli_write("b.txt", "w\xff");
	ENDS(RLX("data", "convert", "--text", "a.txt", "b.txt", "--tokenizer", "vocab.txt",
		 "--output", "u.rlxr"), 3, err, "b.txt: ");
	CHECK(access("u.rlxr", F_OK));
}

/* 4 x 2 grey: PNM, and a PNG of a stored block with a Sub and an Up row. */
static void write_images(void)
{
	static const uint8_t pnm[] = "P5\n# grey\n4 2\n255\n\x01\x02\x03\x04\x05\x06\x07\x08";
	static const uint8_t png[] =
		"\211PNG\015\012\032\012"
		"\000\000\000\015IHDR\000\000\000\004\000\000\000\002\010\000\000\000"
		"\000Z\303\042\277"
		"\000\000\000\025IDAT\170\001\001\012\000\365\377\001\001\001\001\001"
		"\002\004\004\004\004\000\144\000\030\344\227A\145"
		"\000\000\000\000IEND\256B\140\202";

	CHECK(!mkdir("p", 0777) && !mkdir("p/a", 0777) && !mkdir("p/b", 0777));
	write_bytes("p/a/1.pgm", pnm, sizeof(pnm) - 1);
	write_bytes("p/b/1.png", png, sizeof(png) - 1);
}

static void remove_images(void)
{
	remove("p/a/1.pgm");
	remove("p/b/1.png");
	remove("p/b/2.pgm");
	rmdir("p/a");
	rmdir("p/b");
	rmdir("p");
}

TEST(images_become_records)
{
	struct rlx_record_info info;
	struct rlx_record *r;
	uint8_t buf[256], i, k;

	cli_begin();
	atexit(remove_images);
	write_images();
	ENDS(RLX("data", "convert", "--images", "p", "--output", "p.rlxr"), 0, out, "class 1: b");
	r = open_record("p.rlxr", &info);
	CHECK_EQ(info.records, 2);
	for (k = 0; k < 2; k++) {
		CHECK(!rlx_record_read(r, k, buf, sizeof(buf), NULL, NULL));
		for (i = 0; i < 8; i++)
			CHECK_EQ(buf[i], i + 1);
		CHECK_EQ(buf[info.offset[1]], k);
	}
	rlx_record_close(r);
	cli_write("p/b/2.pgm", "P5 3 2 255\n123456");
	ENDS(RLX("data", "convert", "--images", "p", "--output", "q.rlxr"), 3, err, "3 x 2");
	cli_write("p/b/2.pgm", "P5 4 2 255\n123456");
	ENDS(RLX("data", "convert", "--images", "p", "--output", "q.rlxr"), 3, err, "last pixel");
	CHECK(access("q.rlxr", F_OK));
	ENDS(RLX("data", "convert", "--images", "p/a", "--output", "q.rlxr"), 3, err, "no folders");
}

TEST(damage_and_misuse)
{
	FILE *f;

	cli_begin();
	write_arrays();
	ENDS(RLX("data", "convert", "x.npy", "--output", "a.rlxr"), 0, out, "20 records");
	f = fopen("a.rlxr", "r+b");
	CHECK(f && !fseek(f, 4100, SEEK_SET) && fputc(99, f) == 99 && !fclose(f));
	ENDS(RLX("data", "verify", "a.rlxr"), 1, err, "chunk 0 (records 0 to 19)");
	ENDS(RLX("data", "verify", "x.npy"), 1, err, "x.npy: byte ");
	ENDS(RLX("data", "verify", "none"), 3, err, "none");
	ENDS(RLX("data", "convert", "a.rlxr", "--output", "b.rlxr"), 3, err, "damaged");
	CHECK(access("b.rlxr", F_OK));
	ENDS(RLX("data", "convert", "x.npy"), 2, err, "--output");
	ENDS(RLX("data", "convert", "x.npy", "--chunk", "100", "--output", "b.rlxr"), 3, err,
	     "power");
	ENDS(RLX("data", "convert", "x.npy", "n.npy", "--output", "b.rlxr"), 2, err, "one input");
	ENDS(RLX("data", "info", "--text", "x.npy"), 2, err, "options of convert");
	ENDS(RLX("data", "look", "x.npy"), 2, err, "no verb 'look'");
	ENDS(RLX("data", "info", "vocab"), 3, err, "vocab");
}

TEST_MAIN()
