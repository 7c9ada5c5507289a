"""Keywords of other libraries (torch, FlashAttention, FlashInfer, transformers, ONNX, cuDNN, ggml),
for error messages. A row has the keyword of this module, the text that follows "use", and the
words of other libraries. Several rows may share a word: the first row whose keyword the call has
is used. tests/python/check_words.py compares the rows with the tables of docs/porting.md."""
import difflib
import functools

_ELSEWHERE = (
    ("scale", "scale, where 0 and None are 1/sqrt(D)",
     "softmax_scale sm_scale scaling attn_scale qk_scale kq_scale scale_factor norm_factor query_pre_attn_scalar softmax_scaling "
     "scale_softmax"),
    ("q", "the shape of q: [B, H, Nq, D]",
     "query queries num_heads_q head_dim head_size embed_dim qk_nope_head_dim head_dim_qk num_qo_heads"),
    ("k", "k, of shape [B, Hkv, Nkv, D]; new rows for it are k_new",
     "key keys k_cache key_cache cache_k k_cached kv qkv kv_cache paged_kv_cache past_present_share_buffer head_dim_v"),
    ("v", "v, of shape [B, Hkv, Nkv, Dv]; new rows for it are v_new", "value values v_cache value_cache cache_v"),
    ("past_k", "past_k and past_v", "past_key past_key_value past_key_values past past_value layer_past"),
    ("k_new", "k_new and v_new, which the call appends to k and v", "new_k new_v key_new cur_k k_cur update present_key present_value"),
    ("mask", "mask, which is bool and True keeps, or bias, which is float and added to the scores",
     "attn_mask attention_mask mask_bias custom_mask src_mask tgt_mask memory_mask kq_mask packed_custom_mask additive_mask"),
    ("bias", "bias, which is added to the scores", "attn_bias position_bias attention_bias relative_position_bias pos_bias qk_bias kq_b"),
    ("kv_lengths", "kv_lengths, the number of keys of each batch item; padding on the left is mask_mod='j >= buffer0(b)'",
     "key_padding_mask padding_mask src_key_padding_mask nonpad_kv_seqlen seqused_k seq_len_kv seq_lens seqlens_k cache_seqlens "
     "context_lens kv_seqlens kv_seq_len kv_seq_lens kv_len seqlen_kv actual_seq_lengths_kv total_sequence_length seq_lens_kv "
     "cache_position n_past cache_lengths"),
    ("q_lengths", "q_lengths, the number of query rows of each batch item",
     "seqused_q seq_len_q q_len qo_len seqlen_q actual_seq_lengths query_lens"),
    ("causal", "causal=True with alignment='top_left', the default, as torch's is_causal counts",
     "is_causal use_causal_mask unidirectional"),
    ("causal", "causal=True with alignment='top_left', or 'bottom_right'", "causal_mask mask_type attn_mask_type sparse_mode"),
    ("alignment", "causal=True with alignment='bottom_right'",
     "causal_mask_bottom_right is_causal_bottom_right causal_lower_right diagonal_alignment"),
    ("window", "window=(left, right), where -1 is unbounded; causal and sliding_window=W is window=(W - 1, 0)",
     "window_size sliding_window local_window_size attention_window local_attention sliding_window_length left_window_size "
     "right_window_size sliding_window_size diagonal_band_left_bound diagonal_band_right_bound swa_window window_size_left "
     "window_size_right"),
    ("mask_mod", "mask_mod='i / C == j / C', an OpenCL C expression", "attention_chunk attention_chunk_size chunk_size"),
    ("mask_mod", "mask_mod='j >= buffer0(b)', with the pads of each batch item in mod_buffers", "cache_leftpad leftpad_k left_padding"),
    ("mask_mod", "mask_mod, an OpenCL C expression such as 'j <= i'", "mask_fn mask_function is_masked"),
    ("score_mod", "score_mod, an OpenCL C expression such as 'score + 0.1f * (j - i)'", "score_fn score_function modifier set_score_mod"),
    ("score_mod_gradient", "score_mod_gradient, an OpenCL C expression", "score_mod_bwd score_mod_bprop score_mod_backward"),
    ("mod_buffers", "mod_buffers, which score_mod and mask_mod read as buffer0(..) to buffer3(..)",
     "aux_tensors aux_scalars captured_buffers"),
    ("block_mask", "block_mask, as block_mask() makes it of mask and mask_mod",
     "block_sparse_tensors block_sparse_tensors_bwd sparse_mask blockmask"),
    ("block_table", "block_table [B, max_blocks] with page_size, or mask", "gather_kv_indices"),
    ("dropout", "dropout, with dropout_seed",
     "dropout_p p_dropout attention_dropout attn_dropout dropout_rate attn_pdrop dropout_prob rng_dump"),
    ("dropout_seed", "dropout_seed", "seed rng rng_state philox_seed generator dropout_mask"),
    ("softcap", "softcap",
     "logits_soft_cap logit_softcap logits_softcap attn_logit_softcapping soft_cap logit_cap softcapping tanh_softcap "
     "attn_logit_softcap softcap_value logit_soft_cap"),
    ("alibi_slopes", "alibi_slopes [H]", "alibi use_alibi alibi_bias alibi_mask max_bias slopes"),
    ("sinks", "sinks [H], or sinks_device for a Buffer",
     "s_aux learnable_sink sink sink_token attn_sink attn_sinks attention_sinks softmax_offset smooth_softmax sinks_logits head_sink"),
    ("dsinks", "dsinks=True", "dsink_token"),
    ("heads", "heads", "num_heads n_heads nhead num_attention_heads q_num_heads n_head num_q_heads head_num"),
    ("q", "the shape of q: axis 1 of [B, H, Nq, D] is the heads",
     "num_heads n_heads nhead num_attention_heads q_num_heads n_head num_q_heads head_num"),
    ("kv_heads", "kv_heads",
     "num_key_value_heads num_kv_heads kv_num_heads n_kv_heads n_head_kv num_query_groups enable_gqa gqa kv_head_num"),
    ("k", "the shape of k: Hkv of [B, Hkv, Nkv, D] divides H, always without a switch (grouped queries)",
     "enable_gqa gqa num_key_value_heads num_kv_heads kv_num_heads n_kv_heads n_head_kv num_key_value_groups num_query_groups n_rep "
     "kv_head_num"),
    ("cu_seqlens_kv", "cu_seqlens_kv [B+1]",
     "cu_seqlens_k cu_seq_lens_k kv_indptr paged_kv_indptr cu_seq_len_kv cu_seqlens_kv_padded kv_cu_seqlens ragged_kv"),
    ("cu_seqlens_q", "cu_seqlens_q [B+1], and cu_seqlens_kv for packed keys",
     "cu_seqlens cu_seq_lens_q qo_indptr q_indptr cu_seq_len_q cu_seqlens_q_padded cu_seqlens_k_new ragged_offset query_start_loc "
     "q_cu_seqlens qo_start_loc"),
    ("max_q", "max_q, which is computed from a cu_seqlens_q in host memory",
     "max_seqlen_q max_length_q max_seqlen max_q_len max_seq_len_q"),
    ("max_kv", "max_kv, which is computed from a cu_seqlens_kv in host memory",
     "max_seqlen_k max_length_k max_seqlen_kv max_kv_len max_seq_len_kv"),
    ("q", "the packed axis of q, which is as long as its shape says", "max_total_seq_len_q"),
    ("k", "the packed axis of k, which is as long as its shape says", "max_total_seq_len_kv"),
    ("block_table", "block_table [B, max_blocks], with page_size",
     "page_table block_tables page_indices paged_kv_indices kv_indices kv_page_indices req_to_token paged_attention_k_table "
     "paged_attention_v_table paged_attention_max_seq_len_kv"),
    ("block_table", "block_table of shape [B, 1], with page_size the rows of the cache", "cache_batch_idx cache_indices"),
    ("page_size", "page_size, with block_table", "block_size paged_kv_last_page_len tokens_per_page"),
    ("base", "base", "theta rope_theta rope_base rotary_base freq_base rotary_emb_base rotary_theta"),
    ("rope", "rope={'layout': 'half', 'base': theta}",
     "theta rope_theta rope_base rotary_base freq_base rotary_emb_base base rotary_theta"),
    ("layout", "layout='interleaved', or 'half'", "interleaved rotary_interleaved traditional is_neox is_neox_style rope_type mode style"),
    ("rope", "rope={'layout': 'interleaved'}, or 'half'",
     "interleaved rotary_interleaved traditional is_neox is_neox_style do_rotary pos_encoding_mode rotary rotary_emb rotary_embedding "
     "use_rope apply_rope"),
    ("cos", "cos and sin", "cos_cache sin_cache rotary_cos rotary_sin freqs_cis freqs cos_sin_cache cos_sin"),
    ("rope", "rope={'layout': 'half', 'base': 10000.0}, which makes cosines and sines; rope() takes tables of them",
     "cos sin rotary_cos rotary_sin freqs_cis cos_cache sin_cache cos_sin_cache inv_freq freqs cos_sin"),
    ("positions", "positions [B or 1, N]", "position_ids input_pos pos pos_ids rotary_seqlens pos_id input_positions"),
    ("rope", "rope={'layout': 'half', 'positions': position_ids}",
     "position_ids input_pos pos_ids rotary_seqlens pos_id positions k_positions input_positions"),
    ("rotary_dim", "rotary_dim", "rotary_embedding_dim rope_dim rot_dim dims dim n_dims partial_rotary_factor rotary_pct n_rot"),
    ("rope", "rope={'layout': 'half', 'rotary_dim': R}",
     "rotary_embedding_dim rope_dim rot_dim partial_rotary_factor rotary_pct n_rot rotary_dim"),
    ("scaling", "scaling, such as 'yarn', with factor", "rope_scaling type ext_factor"),
    ("rope", "rope={'layout': 'half', 'scaling': 'yarn', 'factor': 4.0, 'original_length': 4096}",
     "rope_scaling rope_scale rope_parameters"),
    ("factor", "factor", "rope_scale scale freq_scale scaling_factor interpolation_factor"),
    ("original_length", "original_length", "original_max_position_embeddings max_position_embeddings n_ctx_orig"),
    ("attention_factor", "attention_factor", "mscale attn_factor mscale_all_dim"),
    ("low_factor", "low_factor", "low_freq_factor"),
    ("high_factor", "high_factor", "high_freq_factor"),
    ("sections", "sections", "mrope_section mrope_sections"),
    ("lse", "lse=True",
     "return_lse return_softmax_lse return_logsumexp need_lse output_lse return_softmax logsumexp softmax_lse return_aux "
     "generate_stats stats is_inference lse_out"),
    ("weights", "weights=True",
     "need_weights return_weights output_attentions return_attn_probs return_attention_weights average_attn_weights "
     "return_attention_scores"),
    ("scores", "scores='raw', 'softcap', 'masked' or 'softmax'",
     "qk_matmul_output_mode qk_matmul_output output_qk return_scores scores_tap"),
    ("out", "out, which is an array, a Buffer or a type", "out_dtype output o y o_data_type output_dtype dtype present"),
    ("dout", "dout", "grad_out do grad_output grad grad_outputs"),
    ("splits", "splits, the number of key ranges", "num_splits max_splits kv_splits num_kv_splits split_kv seqlen_k_per_split n_splits"),
    ("kernel", "kernel='flash', 'decode' or 'unfused'",
     "backend implementation impl attn_implementation algo algorithm kernel_options attn_impl"),
    ("k_scale", "k_scale and v_scale, a scale of each row; that of q goes into scale",
     "q_descale k_descale v_descale descale_k descale_v k_scales v_scales kv_scale kv_scales q_scale k_quant_scale v_quant_scale"),
    ("norm", "norm='heads', with q_norm and k_norm", "qk_norm use_qk_norm qk_layernorm q_layernorm k_layernorm"),
    ("norm_epsilon", "norm_epsilon", "eps epsilon rms_norm_eps layer_norm_eps"),
    ("epsilon", "epsilon", "eps rms_norm_eps layer_norm_eps layer_norm_epsilon variance_epsilon"),
    ("weight", "weight", "gamma w scale"),
    ("bias", "bias", "beta b"),
    ("wq", "wq, wk and wv, matrices [out, in]", "q_proj q_proj_weight w_q q_weight in_proj_weight w_qkv qkv_weight c_attn"),
    ("wk", "wk", "k_proj k_proj_weight w_k k_weight"),
    ("wv", "wv", "v_proj v_proj_weight w_v v_weight"),
    ("wo", "wo", "o_proj out_proj out_proj_weight w_o o_weight c_proj"),
    ("bq", "bq, bk and bv", "q_bias in_proj_bias b_q qkv_bias q_proj_bias"),
    ("bk", "bk", "k_bias b_k k_proj_bias"),
    ("bv", "bv", "v_bias b_v v_proj_bias"),
    ("bo", "bo", "o_bias out_proj_bias b_o o_proj_bias"),
    ("w", "w [M, K]", "weight kernel"),
    ("b", "b [M]", "bias"),
    ("w_up", "w_up", "up_proj up_weight w3"),
    ("w_scale", "w_scale", "weight_scale scales scale scale_inv weight_scale_inv absmax"),
    ("w_zero", "w_zero", "zero_points zeros zero_point qzeros weight_zero_point"),
    ("activation", "activation", "act act_fn hidden_act activation_fn act_type"),
    ("table", "table [V, M]", "weight embedding embeddings"),
    ("ids", "ids [B, N]", "input input_ids indices tokens token_ids"),
    ("x", "x", "input hidden_states inputs query a logits"),
    ("y", "y, the states that keys and values are made of",
     "encoder_hidden_states key_value_states memory context_states cross_states kv_states"),
    ("kind", "kind='rms' or 'layer'", "norm_type type"),
    ("temperature", "temperature", "temp"),
    ("top_k", "top_k", "topk k"),
    ("top_p", "top_p", "topp nucleus p"),
    ("start", "start, or starts", "cache_position input_pos start_pos slot_mapping cache_loc kv_offset offset"),
    ("deltas", "deltas, or delta", "shift shifts k_shift offset offsets"),
    ("lengths", "lengths", "seq_lens seqlens context_lens kv_lengths"),
    ("cache_dir", "cache_dir", "cache cache_folder cache_path kernel_cache"),
    ("device", "device", "device_id device_index device_name ordinal gpu_id"),
    ("partition", "partition", "deal shard split parallel mode"),
    ("shares", "shares", "tensor_split split_ratio ratios"),
)
# Words without a keyword: the reason, and the words.
_NOWHERE = (
    ("tensors are [B, H, N, D]: pass x.transpose(0, 2, 1, 3) of an array or a Buffer [B, N, H, D], which is a view without a copy",
     "layout qkv_layout kv_layout qkv_format tensor_layout qkv_memory_layout batch_first input_layout data_layout bshd head_first"),
    ("results are always deterministic", "deterministic deterministic_algorithm"),
    ("the softmax is always float32", "softmax_precision attention_softmax_in_fp32 use_fp16_qk_reduction upcast_attn"),
    ("the planner partitions the work, never the caller",
     "pack_gqa sm_margin scheduler_metadata disable_scheduler_metadata min_seqlen_k gather_bwd_recompute_p gather_bwd_token_chunk "
     "unfuse_fma use_tensor_cores num_warps num_stages"),
    ("there is never another form of lse than the natural logarithm",
     "stats_use_log2 logit_max score_sum_exp lse_base return_lse_base_on_e"),
    ("a Context has the device: clattn.Context('name').attention(...)", "device device_id context"),
    ("gradients are calls of their own, such as attention_backward(); clattn_torch has autograd",
     "requires_grad training inference is_training is_test create_graph retain_graph"),
)


@functools.cache
def _elsewhere():
    """Return the rows for each word of other libraries."""
    found: dict[str, list[tuple[str | None, str]]] = {}
    for keyword, says, words in (*_ELSEWHERE, *((None, *row) for row in _NOWHERE)):
        for word in words.split():
            found.setdefault(word, []).append((keyword, says))
    return found


def _stranger(name, takes):
    """Return the error text for a keyword that a call does not have."""
    word = name.lower().replace("-", "_")
    rows = _elsewhere().get(word) or _elsewhere().get(word.removeprefix("set_").removeprefix("use_"), ())
    says = next((says for keyword, says in rows if keyword in takes), None)
    if says:
        return f"{name} is not an option: use {says}"
    says = next((says for keyword, says in rows if keyword is None), None)
    if says:
        return f"{name} is not an option: {says}"
    if rows:
        return f"{name} is not an option of this call: other calls have {rows[0][1]}"
    near = difflib.get_close_matches(word, takes, 1)
    return f"{name} is not an option of this call" + (f": did you mean {near[0]}?" if near else "")
