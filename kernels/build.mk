# SPDX-License-Identifier: MIT
# CPU kernels: each kernels/cpu/*.c is built once per ISA level, but for those of
# KERNEL_BASE, whose rows in kernels.def have the base level alone. A file named
# *_i8_dot.c uses dot products of bytes and is built at level v4_vnni only, *_bf16_dot.c those
# of bf16: level v4x; *_amx.c uses tiles: level v4_amx, and in portable C for the tests
# (v4_amx_emu).
ARCH	:= $(shell $(CC) -dumpmachine | cut -d- -f1)
KERNEL_SRC := $(filter-out kernels/cpu/avx512.c %_dot.c %_amx.c, \
		$(wildcard kernels/cpu/*.c))
KERNEL_BASE := $(patsubst %,kernels/cpu/%.c,conv_bf16_plan conv_taps_pad conv_wgrad_plan \
		copy_plan det grid lapack nms nonzero pool_i64 pool_u64 random reverse roi unique)
KERNEL_ISA := $(filter-out $(KERNEL_BASE),$(KERNEL_SRC))
KERNEL_VNNI := $(wildcard kernels/cpu/*_i8_dot.c)
KERNEL_DOT := $(wildcard kernels/cpu/*_bf16_dot.c)
KERNEL_AMX := $(wildcard kernels/cpu/*_amx.c)
# What is rounded where is what the code says: products are added unrounded by fma alone.
KERNEL_OPT := -O3 -g1 -fno-math-errno -fno-trapping-math -ffp-contract=off \
	      -fno-asynchronous-unwind-tables
# clang says where it does not unroll what it is asked to; the code is right either way.
KERNEL_OPT += $(if $(findstring clang,$(CC)),-Wno-pass-failed)
# Many short loops over many types, or ends of loops over vectors: unrolled they would be a
# tenth of the library.
KERNEL_OPT_convert := -O2 -ftree-vectorize $(if $(findstring gcc,$(CC)),\
	-fvect-cost-model=dynamic --param=vect-epilogues-nomask=0)
$(foreach k,attention_many conv_reorder copy det ew ew_f32 ew_f64 ew_int gemm_int grouped index \
		nonzero pool pool_f64 pool_i64 pool_u64 quant random resize \
		resize_wide rope sortk,\
	$(eval KERNEL_OPT_$(k) := $(KERNEL_OPT_convert)))
# Tiles and panels in vectors: what -O3 adds is copies of what is around them.
$(foreach k,conv_taps gemm_bf16 gemm_f16 gemm_f32 gemm_f64 linalg linalg_eigh \
		linalg_mat linalg_qr linalg_rotate linalg_svd rnn_f64 selective_scan,\
	$(eval KERNEL_OPT_$(k) := -O2))
# Written in vectors, for many types and kinds: what is around them is small.
$(foreach k,fft_f32 fft_f64 gemm_wq lapack norm_nchw reduce scan softmax_f64,\
	$(eval KERNEL_OPT_$(k) := -Os))
# With vectors of 32 bytes they are as fast small (0.95 to 1.03); of 64 they are not (0.65).
LEVEL_OPT_v3_rnn := -Os
LEVEL_OPT_v3_rnn_f64 := -Os
LEVEL_OPT_v3_conv_taps := -Os
# As fast by -O2, of which -O3 makes copies.
$(foreach k,columns_f64 conv_c conv_dw conv_nd conv_wino,$(eval LEVEL_OPT_v3_$(k) := -O2))
LEVEL_OPT_v3_conv_act := -Os
LEVEL_OPT_v3_conv_wgrad_c := -Os
LEVEL_OPT_v3_conv_i8_dw := -O2
LEVEL_OPT_v3_attention := -Os
LEVEL_OPT_v3_rope := -Os
LEVEL_OPT_v3_lookup := -Os
# Where bits are to be the same those of v3 run, so that levels need not round alike.
$(foreach l,v3 v4,$(foreach k,fft_f32 fft_f64 linalg linalg_eigh linalg_mat linalg_qr \
		linalg_rotate linalg_svd,$(eval LEVEL_OPT_$(l)_$(k) += -ffp-contract=fast)))

# Numbers of two vectors are copied by vectors; by -Os GCC copies bytes (rep movs), for which passes
# wait: lines of some lengths took 1.6 times as long.
$(foreach k,fft_f32 fft_f64,$(eval LEVEL_OPT_v3_$(k) += $(if $(findstring gcc,$(CC)),\
	-mmove-max=256 -mstore-max=256)))

# On x86 the portable level is the last resort: small there, not unrolled. What is written in
# vectors stays as fast; loops that the compiler is to vectorize would take four times as long.
ifeq ($(ARCH),x86_64)
LEVEL_OPT_base := -O2
$(foreach k,attention attention_few attention_many conv_act conv_bf16_plan conv_c conv_dw \
		conv_i8 conv_i8_dw conv_nd conv_plan conv_taps conv_taps_pad conv_tile \
		conv_wgrad_c conv_wgrad_plan conv_wino copy_plan det ew gemm_bf16 gemm_blocks \
		gemm_epi gemm_f16 gemm_f32 gemm_f64 gemm_i8 gemm_wq linalg linalg_eigh \
		linalg_mat linalg_qr linalg_svd lookup norm norm_grad pool_f64 pool_i64 pool_u64 \
		quant rnn rnn_f64 rope softmax sortk,\
	$(eval LEVEL_OPT_base_$(k) := -Os))
endif
ISA_FLAGS_v3   := -march=x86-64-v3
ISA_FLAGS_v4   := -march=x86-64-v4 -mprefer-vector-width=512
ISA_FLAGS_v4_vnni := $(ISA_FLAGS_v4) -mavx512vnni
ISA_FLAGS_v4x  := $(ISA_FLAGS_v4_vnni) -mavx512bf16
ISA_FLAGS_v4_amx := $(ISA_FLAGS_v4x) -mamx-tile -mamx-bf16 -mamx-int8
ISA_FLAGS_v4_amx_emu := -DRLX_TILE_EMU=1

# The folder of their objects, which may be another build's that made them before.
KERNEL_IN ?= $(BUILD)/obj/kernels
KERNEL_OBJ := $(KERNEL_SRC:kernels/cpu/%.c=$(KERNEL_IN)/base/%.o)
# Half of all code, for processors that have AVX-512 alone: a library of its own, which
# librlx.so opens there, and in librlx.a with the rest.
ifeq ($(ARCH),x86_64)
KERNEL_OBJ += $(KERNEL_ISA:kernels/cpu/%.c=$(KERNEL_IN)/v3/%.o)
AVX512_OBJ := $(KERNEL_ISA:kernels/cpu/%.c=$(KERNEL_IN)/v4/%.o) \
	      $(KERNEL_VNNI:kernels/cpu/%.c=$(KERNEL_IN)/v4_vnni/%.o) \
	      $(KERNEL_DOT:kernels/cpu/%.c=$(KERNEL_IN)/v4x/%.o) \
	      $(KERNEL_AMX:kernels/cpu/%.c=$(KERNEL_IN)/v4_amx/%.o) \
	      $(BUILD)/obj/kernels/cpu/avx512.o
endif
KERNEL_EMU := $(KERNEL_AMX:kernels/cpu/%.c=$(BUILD)/obj/kernels/v4_amx_emu/%.o)

define kernel_rule
$(BUILD)/obj/kernels/$(1)/%.o: kernels/cpu/%.c | $$(BUILD)/.liburing
	@mkdir -p $$(@D)
	$$(call say,CC,$$< [$(1)])
	$$(Q)$$(CC) $$(CPPFLAGS) $$(CFLAGS) $$(KERNEL_OPT) $$(LEVEL_OPT_$(1)) \
		$$(KERNEL_OPT_$$*) $$(LEVEL_OPT_$(1)_$$*) \
		$$(ISA_FLAGS_$(1)) \
		-DRLX_ISA=$(1) -DRLX_ISA_$(1)=1 -MMD -MP -c $$< -o $$@
endef
$(foreach l,base v3 v4 v4_vnni v4x v4_amx v4_amx_emu,$(eval $(call kernel_rule,$(l))))
