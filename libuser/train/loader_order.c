// SPDX-License-Identifier: MIT
/*
 * Which record is where. A batch is a function of (seed, its number): what was read before,
 * and by how many threads, does not enter.
 */
#include "train/loader.h"

/* What a permutation is of. */
enum { OF_RECORDS = 1, OF_CHUNKS = 2, OF_WINDOW = 3 };

static void order_for(const struct rlx_loader *ld, struct order *o, uint64_t n, uint64_t epoch,
		      uint64_t what)
{
	if (ld->o.shuffle)
		order_init(o, n, ld->o.seed, epoch, what);
	else
		order_init_identity(o, n);
}

void loader_batch_at(const struct rlx_loader *ld, uint64_t n, uint64_t *epoch, uint64_t *first,
		     unsigned int *rows)
{
	uint64_t left;

	*epoch = n / ld->epoch_batches;
	*first = n % ld->epoch_batches * ld->o.batch * ld->o.world +
		 (uint64_t)ld->o.rank * ld->o.batch;
	left = *first < ld->d.records ? ld->d.records - *first : 0;
	*rows = left < ld->o.batch ? (unsigned int)left : ld->o.batch;
}

void loader_plan_epoch(struct rlx_loader *ld, uint64_t epoch)
{
	struct loader_plan *p = &ld->plan[epoch & 1];
	uint64_t w, c, first, n, at = 0;

	if (p->epoch == epoch)
		return;
	p->epoch = epoch;
	order_for(ld, &p->chunks, ld->d.chunks, epoch, OF_CHUNKS);
	for (w = 0; w < ld->windows; w++) {
		p->first[w] = at;
		for (c = w * ld->window_chunks;
		     c < (w + 1) * ld->window_chunks && c < ld->d.chunks; c++) {
			dataset_chunk_records(&ld->d, order_at(&p->chunks, c), &first, &n);
			at += n;
		}
	}
	p->first[w] = at;
}

/* The window that has @place. */
static uint64_t window_of(const struct rlx_loader *ld, const struct loader_plan *p,
			  uint64_t place)
{
	uint64_t lo = 0, hi = ld->windows, mid;

	while (hi - lo > 1) {
		mid = lo + (hi - lo) / 2;
		if (p->first[mid] <= place)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static uint64_t clamp(const struct rlx_loader *ld, uint64_t place)
{
	return place < ld->d.records ? place : ld->d.records - 1;
}

bool loader_windows_of(const struct rlx_loader *ld, uint64_t n, uint64_t *a, uint64_t *b)
{
	uint64_t epoch, first;
	const struct loader_plan *p;
	unsigned int rows;

	loader_batch_at(ld, n, &epoch, &first, &rows);
	p = &ld->plan[epoch & 1];
	*a = *b = epoch * ld->windows;
	if (p->epoch != epoch)
		return false;
	*a += window_of(ld, p, clamp(ld, first));
	*b += window_of(ld, p, clamp(ld, first + ld->o.batch - 1));
	return true;
}

void loader_fill_window(struct rlx_loader *ld, struct loader_window *w, uint64_t number)
{
	uint64_t epoch = number / ld->windows, c = number % ld->windows * ld->window_chunks;
	const struct loader_plan *p = &ld->plan[epoch & 1];
	uint64_t first, n, at = 0;
	unsigned int i;

	w->number = number;
	for (i = 0; i < ld->window_chunks && c + i < ld->d.chunks; i++) {
		w->chunk[i] = order_at(&p->chunks, c + i);
		w->first[i] = at;
		w->bad[i] = false;
		dataset_chunk_records(&ld->d, w->chunk[i], &first, &n);
		at += n;
	}
	w->chunks = i;
	w->first[i] = at;
	order_for(ld, &w->order, at, epoch, OF_WINDOW + number % ld->windows);
}

struct loader_window *loader_window_find(struct rlx_loader *ld, uint64_t number)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		if (ld->window[i].state != WINDOW_FREE && ld->window[i].number == number)
			return &ld->window[i];
	return NULL;
}

void loader_pick_begin(struct rlx_loader *ld, uint64_t n, struct loader_pick *p)
{
	uint64_t a, b;

	p->number = n;
	loader_batch_at(ld, n, &p->epoch, &p->first, &p->rows);
	p->sample = p->epoch * ld->epoch_rows + p->first;
	p->plan = &ld->plan[p->epoch & 1];
	p->window[0] = p->window[1] = NULL;
	if (ld->layout != RLX_LAYOUT_CHUNKS) {
		order_for(ld, &p->records, ld->d.records, p->epoch, OF_RECORDS);
	} else if (loader_windows_of(ld, n, &a, &b)) {
		p->window[0] = loader_window_find(ld, a);
		p->window[1] = loader_window_find(ld, b);
	}
}

uint64_t loader_pick_at(const struct rlx_loader *ld, const struct loader_pick *p,
			unsigned int row, struct loader_window **out_w, unsigned int *out_chunk)
{
	uint64_t place = clamp(ld, p->first + row), w, at, first, n;
	struct loader_window *win;
	unsigned int lo = 0, hi, mid;

	*out_w = NULL;
	*out_chunk = 0;
	if (ld->layout != RLX_LAYOUT_CHUNKS)
		return order_at(&p->records, place);
	w = window_of(ld, p->plan, place);
	win = p->window[p->window[0]->number != p->epoch * ld->windows + w];
	at = order_at(&win->order, place - p->plan->first[w]);
	for (hi = win->chunks; hi - lo > 1;) {
		mid = lo + (hi - lo) / 2;
		if (win->first[mid] <= at)
			lo = mid;
		else
			hi = mid;
	}
	*out_w = win;
	*out_chunk = lo;
	dataset_chunk_records(&ld->d, win->chunk[lo], &first, &n);
	return first + at - win->first[lo];
}
