// SPDX-License-Identifier: MIT
/* What Whisper hears: log-mel energies of audio. */
#include "base/alloc.h"
#include "ir/graph.h"
#include "ops/stft.h"

enum { N_FFT = 400, HOP = 160, BINS = N_FFT / 2 + 1, RATE = 16000, MOST_MELS = 1024 };

/*
 * Shapes:	audio[.., n] -> y[.., mels, n / 160]
 * Dtypes:	f64 f32 f16 bf16; y as audio
 * Does:	log_mel of stft of audio at 16 kHz by frames of 400, hop 160, in the middle of
 *		reflected ends, times a Hann window (periodic), without the last frame, over all of
 *		the clip. mels (0: 80; 128 in large-v3) triangular filters, evenly spaced on
 *		Slaney's mel scale from 0 to 8 kHz, each of area 1 (in Hz). n is more than 200. The
 *		spectra are made in f64, so that y of f32 is within 1e-5 of what real numbers give.
 * Gradient:	by those ops: to audio
 * Source:	openai/whisper, log_mel_spectrogram; librosa.filters.mel; Slaney 1998
 */
RLX_OP(whisper_mel, "log-mel spectrogram as Whisper takes it, of audio at 16 kHz",
	IN(audio)
	ATTR_NZ(i32, mels, 80),
	RLX_T_REDUCTION)

static enum rlx_status whisper_mel_infer(struct rlx_infer *q)
{
	const struct rlx_op_whisper_mel *a = q->args;
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = op_need_float(q, 0, false);

	if (!st)
		st = op_need_rank(q, 0, 1, RLX_MAX_RANK - 2);
	if (st)
		return st;
	if (a->mels < 1 || a->mels > MOST_MELS)
		return op_fail(q, RLX_ERANGE, "%d mels; 1 to %d are possible", a->mels, MOST_MELS);
	if (x->dim[x->rank - 1] <= N_FFT / 2)
		return op_fail(q, RLX_ESHAPE, "%lld samples of audio; more than %d are needed",
			       (long long)x->dim[x->rank - 1], N_FFT / 2);
	q->out[0] = *x;
	q->out[0].rank++;
	q->out[0].dim[x->rank - 1] = a->mels;
	q->out[0].dim[x->rank] = x->dim[x->rank - 1] / HOP;
	return RLX_OK;
}

/* Slaney's scale: linear to 1 kHz, then logarithmic. */
static double hz_of(double mel)
{
	return mel < 15 ? mel * 200 / 3 : 1000 * exp((mel - 15) * log(6.4) / 27);
}

static rlx_value filters(struct rlx_graph *g, int32_t mels, enum rlx_dtype dt)
{
	double top = 15 + log(RATE / 2 / 1000.0) * 27 / log(6.4), f[3], hz, up, down;
	double *v = rlx_calloc((size_t)mels * BINS, sizeof(*v));
	rlx_value c;
	int32_t m, k;

	if (!v) {
		rlx_fail(&g->err, RLX_ENOMEM, "whisper_mel: out of memory");
		return RLX_NONE;
	}
	for (m = 0; m < mels; m++) {
		for (k = 0; k < 3; k++)
			f[k] = hz_of(top * (m + k) / (mels + 1));
		for (k = 0; k < BINS; k++) {
			hz = (double)k * RATE / N_FFT;
			up = (hz - f[0]) / (f[1] - f[0]);
			down = (f[2] - hz) / (f[2] - f[1]);
			v[m * BINS + k] = fmax(0, fmin(up, down)) * 2 / (f[2] - f[0]);
		}
	}
	c = op_constant_f64(g, rlx_type(RLX_F64, mels, BINS), v, dt);
	rlx_free(v);
	return c;
}

static enum rlx_status whisper_mel_expand(struct rlx_expand *q)
{
	const struct rlx_op_whisper_mel *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]);
	/* 16 bits would be rounded to at each step */
	const enum rlx_dtype dt = rlx_dtype_promote(x.dtype, RLX_F32);
	/*
	 * A transform rounds all bins to the largest one's digits, and y reaches 1e-8 of that one's
	 * energy: in f32 such bins would be off by 1e-3, and y by 1e-4.
	 */
	const enum rlx_dtype wide = RLX_F64;
	double hann[N_FFT];
	rlx_value y;
	int i;

	for (i = 0; i < N_FFT; i++)
		hann[i] = 0.5 - 0.5 * cos(2 * 3.14159265358979323846 * i / N_FFT);
	y = rlx_emit(q->g, stft, .x = op_cast(q->g, q->in[0], wide), .n_fft = N_FFT, .hop = HOP,
		     .center = true, .mode = RLX_PAD_REFLECT, .window = op_constant_f64(q->g,
		     rlx_type(RLX_F64, N_FFT), hann, wide));
	y = rlx_emit(q->g, slice, .x = y, .axes = RLX_INTS(x.rank - 1), .starts = RLX_INTS(0),
		     .ends = RLX_INTS(q->out_type[0].dim[x.rank]));
	y = rlx_emit(q->g, log_mel, .x = op_cast(q->g, y, dt),
		     .filters = filters(q->g, a->mels, dt));
	q->out[0] = op_cast(q->g, op_swap_last(q->g, y), x.dtype);
	return op_done(q->g);
}

static bool whisper_mel_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_whisper_mel *a = s->args;

	if (i > 1)
		return false;
	s->n_in = 1;
	s->in[0] = i ? rlx_type(RLX_F32, 2, 500) : rlx_type(RLX_F32, 1600);
	a->mels = i ? 5 : 0;
	s->tol = 1e-5;
	s->grad_tol = 1e-3;
	return true;
}

const struct rlx_op_impl rlx_op_whisper_mel_impl = {
	.infer = whisper_mel_infer, .expand = whisper_mel_expand,
};
RLX_SAMPLES(whisper_mel, whisper_mel_sample)
