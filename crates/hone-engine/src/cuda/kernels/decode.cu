// The steps of decoding that are only there: what a row's products become before attention, in one pass.

// Bias, norm per head, rotation; queries are kept in bf16, keys and values go to their pages. One warp per (row, head); heads
// of a row are its query heads, its key heads, its value heads. Norm and rotation are those of `norm` and `rope`, bit for bit.
extern "C" __global__ void enter(const float *qkv, const float *q_bias, const float *k_bias, const float *v_bias, const float *q_gain, const float *k_gain, float eps,
                                 const float *angles, const u32 *positions, const u32 *pages, int n_pages_max, int n_heads, int n_kv_heads,
                                 int head_dim, int width, u16 *q, u16 *keys, u16 *values) {
    __shared__ float room[4][256];
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, head = blockIdx.y * 4 + warp, n_all = n_heads + 2 * n_kv_heads;
    if (head >= n_all) return;
    i64 row = blockIdx.x;
    const float *from = qkv + (row * n_all + head) * head_dim;
    float *x = room[warp];
    bool is_query = head < n_heads, is_key = !is_query && head < n_heads + n_kv_heads;
    int kv_head = head - n_heads - (is_key ? 0 : n_kv_heads);
    const float *bias = is_query ? q_bias + head * head_dim : (is_key ? k_bias : v_bias) + kv_head * head_dim;
    for (int i = lane; i < head_dim; i += 32) x[i] = q_bias ? from[i] + bias[i] : from[i];
    __syncwarp();
    const float *gain = is_query ? q_gain : is_key ? k_gain : nullptr;
    if (gain) {
        float sum = 0.0f;
        for (int i = lane; i < head_dim; i += 32) sum = fmaf(x[i], x[i], sum);
        float inverse = rsqrtf(warp_sum(sum) / (float)head_dim + eps);
        for (int i = lane; i < head_dim; i += 32) x[i] = x[i] * inverse * gain[i];
        __syncwarp();
    }
    u32 position = positions[row];
    u16 *to;
    if (is_query) {
        to = q + (row * n_heads + head) * width;
    } else {
        i64 page = pages[row * n_pages_max + position / PAGE];
        to = (is_key ? keys : values) + ((page * n_kv_heads + kv_head) * PAGE + position % PAGE) * width;
    }
    int half = head_dim / 2;
    const float *angle = angles + (i64)position * head_dim;
    if (is_query || is_key) {
        for (int i = lane; i < half; i += 32) {
            float first, second;
            rotate(x[i], x[i + half], angle[i], angle[half + i], &first, &second);
            to[i] = to_bf16(first), to[half + i] = to_bf16(second);
        }
    } else {
        for (int i = lane; i < head_dim; i += 32) to[i] = to_bf16(x[i]);
    }
    for (int i = head_dim + lane; i < width; i += 32) to[i] = 0;
}
