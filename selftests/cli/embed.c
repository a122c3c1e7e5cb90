// SPDX-License-Identifier: MIT
/* rlx embed on a toy model: what is found, where, and what is left out. */
#include "selftests/cli/cli.h"
#include "selftests/lib/tiny_bert.h"

static const char vocab[] =
	"[PAD]\n[UNK]\n[CLS]\n[SEP]\nocean\nriver\nmountain\nvalley\nforest\ndesert\n"
	"island\nharbour\nwinter\nsummer\nautumn\nspring\nmorning\nevening\nthunder\n"
	"lightning\nmachine\nengine\nbattery\nwindow\ngarden\nkitchen\nwriter\nreader\n"
	"painter\nsinger\nteacher\nstudent\ndoctor\nlawyer\nfarmer\nsailor\nsoldier\n"
	"baker\nhunter\ndriver\n";

static const char first[] =
	"short\n"
	"\n"
	"  ocean river mountain\n"
	"\tvalley forest desert\n"
	"   \n"
	"winter summer autumn spring morning evening\r\n"
	"\r\n"
	"\n"
	"machine engine battery window garden kitchen";	/* no newline at the end */

static const char second[] =
	"writer reader painter singer teacher student\n"
	"\n"
	"ocean river\nmountain valley\nforest desert\n"	/* the same words again */
	"\n"
	"doctor \xff lawyer farmer sailor soldier baker\n";	/* not UTF-8 */

static void begin(void)
{
	uint64_t seed = rlx_test_seed();
	static struct tiny_bert b;

	cli_begin();
	tb_init(&b, &seed);
	tb_write(&b, ".");
	tb_fini(&b);
	cli_write("vocab.txt", vocab);
	cli_write("a.txt", first);
	cli_write("b.txt", second);
}

static uint32_t item(const struct rlx_json *j, uint32_t array, unsigned int i)
{
	struct rlx_json_iter it = rlx_json_iter(j, array);

	do
		CHECK(rlx_json_next(&it));
	while (i--);
	return it.val;
}

static int64_t int_at(const struct rlx_json *j, const char *section, const char *key)
{
	uint32_t i = rlx_json_get(j, rlx_json_get(j, 0, section), key);
	int64_t v = -1;
	double d;

	CHECKF(i && rlx_json_double(j, i, &d), "%s.%s", section, key);
	if (!rlx_json_int(j, i, &v))
		v = (int64_t)d;
	return v;
}

/* The best hit of query @q is line @line of @file, with score @score or less. */
static void check_hit(const struct rlx_json *j, unsigned int q, const char *file,
		      int64_t line)
{
	uint32_t query = item(j, rlx_json_get(j, 0, "queries"), q);
	uint32_t hit = item(j, rlx_json_get(j, query, "hits"), 0);
	double score;
	int64_t at;

	CHECK(rlx_json_double(j, rlx_json_get(j, hit, "score"), &score));
	CHECKF(fabs(score - 1) < 1e-4, "score %g", score);
	CHECKF(rlx_json_str_is(j, rlx_json_get(j, hit, "file"), file), "file %s",
	       rlx_json_text(j, rlx_json_get(j, hit, "file")));
	CHECK(rlx_json_int(j, rlx_json_get(j, hit, "line"), &at));
	CHECK_EQ(at, line);
}

TEST(the_same_words_are_found)
{
	struct rlx_json *j;

	begin();
	j = cli_json(RLX("embed", "--model", ".", "--corpus", "a.txt", "b.txt", "--json",
			 "--query", "Winter summer AUTUMN spring morning evening",
			 "machine engine battery window garden kitchen",
			 "ocean river mountain valley forest desert"));
	check_hit(j, 0, "a.txt", 6);
	check_hit(j, 1, "a.txt", 9);
	check_hit(j, 2, "a.txt", 3);
	CHECK_EQ(int_at(j, "corpus", "files"), 2);
	CHECK_EQ(int_at(j, "corpus", "paragraphs"), 4);
	CHECK_EQ(int_at(j, "corpus", "left_out_short"), 1);
	CHECK_EQ(int_at(j, "corpus", "left_out_same_text"), 1);
	CHECK_EQ(int_at(j, "corpus", "left_out_not_utf8"), 1);
	CHECK_EQ(int_at(j, "corpus", "tokens"), 4 * 8);
	CHECK_EQ(int_at(j, "memory", "copied_after_load"), 0);
	CHECK(int_at(j, "memory", "arena") > 0);
}

TEST(folders_are_walked)
{
	struct rlx_json *j;

	begin();
	j = cli_json(RLX("embed", "--model", ".", "--corpus", ".", "--json", "--top", "1",
			 "--query", "writer reader painter singer teacher student"));
	check_hit(j, 0, "./b.txt", 1);
	CHECK_EQ(int_at(j, "corpus", "left_out_binary_files"), 1);	/* the weights */
}

TEST(for_people)
{
	struct said *s;

	begin();
	s = RLX("embed", "--model", ".", "--corpus", "a.txt", "b.txt", "--query",
		"ocean river mountain valley forest desert");
	ENDS(s, 0, out, "1.000  a.txt:3 (and 1 more place)");
	ENDS(s, 0, out, "copied after load      0 bytes");
	CHECK(!s->n_err);	/* no bar where nobody looks */
}

TEST(long_texts_are_cut)
{
	char text[2048] = "";
	struct rlx_json *j;
	int i;

	begin();
	for (i = 0; i < 100; i++)
		strcat(text, i % 2 ? "hunter " : "driver ");
	cli_write("long.txt", text);
	j = cli_json(RLX("embed", "--model", ".", "--corpus", "long.txt", "--json",
			 "--query", text));
	check_hit(j, 0, "long.txt", 1);
	CHECK_EQ(int_at(j, "corpus", "tokens"), TB_SEQ);	/* all the model has places for */
	j = cli_json(RLX("embed", "--model", ".", "--corpus", "long.txt", "--json",
			 "--query", text, "--max-tokens", "10"));
	CHECK_EQ(int_at(j, "corpus", "tokens"), 10);
}

TEST(refused)
{
	begin();
	ENDS(RLX("embed", "--model", ".", "--corpus", "nowhere", "--query", "x"), 3, err,
	     "nowhere: ");
	ENDS(RLX("embed", "--model", "nowhere", "--corpus", "a.txt", "--query", "x"), 3, err,
	     "nowhere");
	ENDS(RLX("embed", "--model", ".", "--corpus", "model.safetensors", "--query", "x"), 3, err,
	     "no paragraph under");
	ENDS(RLX("embed", "--model", ".", "--corpus", "a.txt", "--query", "a\xff"), 3, err,
	     "UTF-8");
	ENDS(RLX("embed", "--model", ".", "--corpus", "a.txt", "--query", "x", "--top", "0"), 2,
	     err, "--top must be");
	ENDS(RLX("embed", "--model", ".", "--corpus", "a.txt", "--query", "x", "--tokenizer",
		 "a.bin"), 3, err, "a.bin");
	cli_write("config.json", "{}");
	ENDS(RLX("embed", "--model", ".", "--corpus", "a.txt", "--query", "x"), 3, err,
	     "config.json");
}

TEST_MAIN()
