// One position of each sequence, from its row of products to its attended values: bias, norm per head, rotation, the new key and
// value to their page, attention over all of them. In two kernels for which a row is the work of many warps, or in one in
// which it is the work of few: which is faster depends on how many rows there are.

// Row r's pages are `pages[r * n_pages_max..]`. `q` is what the first of the two kernels leaves for the second.
struct One {
    const float *qkv, *q_bias, *k_bias, *v_bias, *q_gain, *k_gain, *angles;
    u16 *keys, *values, *q, *out;
    const u32 *positions, *pages;
    int n_pages_max, n_heads, n_kv_heads, head_dim, stride;
    float eps, scale;
};

#define Q_PITCH (WIDTH + 8)

// Half of a head's width is at most this many elements per lane.
#define PAIRS ((WIDTH / 2 + 31) / 32)

// A head on its way: element i of its first half and the one it is turned with, for i = lane, lane + 32, ….
struct Head {
    float first[PAIRS], second[PAIRS];
};

__device__ __forceinline__ Head load_head(const float *x, const float *bias, int half) {
    Head head;
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        int i = (threadIdx.x & 31) + 32 * j;
        bool there = i < half;
        head.first[j] = there ? x[i] : 0.0f, head.second[j] = there ? x[half + i] : 0.0f;
        if (bias && there) head.first[j] += bias[i], head.second[j] += bias[half + i];
    }
    return head;
}

// Norm and rotation are those of `norm_rows` and `rope`, bit for bit: halves of whole warps give a lane the same elements in order.
__device__ __forceinline__ void norm_head(Head &head, const float *gain, int half, float eps) {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < PAIRS; j++) sum = fmaf(head.first[j], head.first[j], sum);
#pragma unroll
    for (int j = 0; j < PAIRS; j++) sum = fmaf(head.second[j], head.second[j], sum);
    float inverse = rsqrtf(warp_sum(sum) / (float)(2 * half) + eps);
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        int i = (threadIdx.x & 31) + 32 * j;
        if (i < half) head.first[j] = head.first[j] * inverse * gain[i], head.second[j] = head.second[j] * inverse * gain[half + i];
    }
}

__device__ __forceinline__ void store_head(u16 *to, const Head &head, int half) {
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        int i = (threadIdx.x & 31) + 32 * j;
        if (i < half) to[i] = to_bf16(head.first[j]), to[half + i] = to_bf16(head.second[j]);
    }
    for (int i = 2 * half + (threadIdx.x & 31); i < WIDTH; i += 32) to[i] = 0;
}

// ---- in two kernels

// One warp per (row, head); heads of a row are its query heads, its key heads, its value heads.
extern "C" __global__ void __launch_bounds__(128) enter(const One one) {
    let_next_start();
    int lane = threadIdx.x & 31, head = blockIdx.y * 4 + (threadIdx.x >> 5), half = one.head_dim / 2;
    if (head >= one.n_heads + 2 * one.n_kv_heads) return;
    // Positions and pages were there before this step began.
    i64 row = blockIdx.x, position = one.positions[row], page = one.pages[row * one.n_pages_max + position / PAGE];
    bool is_query = head < one.n_heads, is_key = !is_query && head < one.n_heads + one.n_kv_heads;
    int at = is_query ? head : (head - one.n_heads) % one.n_kv_heads;
    const float *bias = is_query ? one.q_bias : is_key ? one.k_bias : one.v_bias, *gain = is_query ? one.q_gain : is_key ? one.k_gain : nullptr;
    const float *angle = one.angles + position * one.head_dim;
    u16 *to = is_query ? one.q + (row * one.n_heads + head) * WIDTH
                       : (is_key ? one.keys : one.values) + ((page * one.n_kv_heads + at) * PAGE + position % PAGE) * WIDTH;
    float cosines[PAIRS], sines[PAIRS];
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        int i = lane + 32 * j;
        cosines[j] = i < half ? angle[i] : 0.0f, sines[j] = i < half ? angle[half + i] : 0.0f;
    }
    await_previous();
    const float *products = one.qkv + (row * (one.n_heads + 2 * one.n_kv_heads) + head) * one.head_dim;
    Head x = load_head(products, bias ? bias + at * one.head_dim : nullptr, half);
    if (gain) norm_head(x, gain, half, one.eps);
    if (is_query || is_key)
#pragma unroll
        for (int j = 0; j < PAIRS; j++) rotate(x.first[j], x.second[j], cosines[j], sines[j], &x.first[j], &x.second[j]);
    store_head(to, x, half);
}

// Four warps share the sixteen rows that a tile of `attend` gives to one: each has sixteen of the 64 keys for the scores, and a
// part of the width for the values. Every sum is the same as there, in the same order. Keys of earlier steps are fetched
// before the kernel in front is done.
extern "C" __global__ void __launch_bounds__(128) attend_entered(const One one) {
    constexpr int OWN = (STEPS + 3) / 4;
    __shared__ float tops[4][16], parts[4][32][2];
    __shared__ __align__(16) u16 weights[16 * (KEYS + 8)];
    let_next_start();
    u16 *stages = (u16 *)memory;
    Heads heads = {one.n_heads, one.n_kv_heads, one.head_dim};
    int n_heads = one.n_heads, n_kv_heads = one.n_kv_heads, head_dim = one.head_dim;
    int row = blockIdx.x, warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
    int last = one.positions[row], n_keys = last + 1, n_blocks = (n_keys + KEYS - 1) / KEYS;
    const u32 *pages = one.pages + (i64)row * one.n_pages_max;
    if (n_blocks == 1) await_previous();
    fetch_keys(stages, one.keys, pages, 0, n_keys, n_kv_heads, blockIdx.y);
    fetch_keys(stages + KEYS * PITCH, one.values, pages, 0, n_keys, n_kv_heads, blockIdx.y);
    fetch_commit();
    if (n_blocks > 1) await_previous();
    Rows rows = rows_of(0, row, 1, last, heads);
    u32 a[STEPS][4];
    load_rows(a, one.q, rows);
    float o[2 * OWN][4] = {}, top[2] = {NEVER, NEVER}, sum[2] = {0.0f, 0.0f}, factor = one.scale * LOG2E;
    for (int block = 0; block < n_blocks; block++) {
        u16 *k_block = stages + (block & 1) * 2 * KEYS * PITCH, *v_block = k_block + KEYS * PITCH;
        if (block + 1 < n_blocks) {
            u16 *next = stages + ((block + 1) & 1) * 2 * KEYS * PITCH;
            fetch_keys(next, one.keys, pages, block + 1, n_keys, n_kv_heads, blockIdx.y);
            fetch_keys(next + KEYS * PITCH, one.values, pages, block + 1, n_keys, n_kv_heads, blockIdx.y);
        }
        fetch_commit();
        fetch_wait<1>();
        __syncthreads();
        float s[2][4] = {};
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            u32 b[4];
            load4(b, by_width(k_block + warp * 16 * PITCH, k));
            multiply(s[0], a[k], b);
            multiply(s[1], a[k], b + 2);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float largest = NEVER;
#pragma unroll
            for (int n = 0; n < 2; n++) {
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    int key = block * KEYS + warp * 16 + n * 8 + quad * 2 + j;
                    float z = key <= last ? s[n][2 * i + j] * factor : NEVER;
                    s[n][2 * i + j] = z;
                    largest = fmaxf(largest, z);
                }
            }
            largest = fmaxf(largest, __shfl_xor_sync(FULL, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(FULL, largest, 2));
            if (quad == 0) tops[warp][group + 8 * i] = largest;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int at = group + 8 * i;
            float largest = fmaxf(fmaxf(fmaxf(tops[0][at], tops[1][at]), fmaxf(tops[2][at], tops[3][at])), top[i]);
            float shrink = power2(top[i] - largest);
            top[i] = largest;
            sum[i] = __fmul_rn(sum[i], shrink);
#pragma unroll
            for (int n = 0; n < 2; n++) {
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    float p = power2(s[n][2 * i + j] - largest);
                    s[n][2 * i + j] = p;
                    sum[i] += p;
                }
                *(u32 *)(weights + at * (KEYS + 8) + warp * 16 + n * 8 + quad * 2) = pack(s[n][2 * i], s[n][2 * i + 1]);
            }
#pragma unroll
            for (int n = 0; n < 2 * OWN; n++) o[n][2 * i] *= shrink, o[n][2 * i + 1] *= shrink;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) {
            u32 p[4];
            load4(p, weights + (lane & 15) * (KEYS + 8) + k * 16 + (lane >> 4) * 8);
#pragma unroll
            for (int n = 0; n < OWN; n++) {
                if (warp + 4 * n >= STEPS) continue;
                u32 b[4];
                load4_turned(b, by_row(v_block + k * 16 * PITCH, (warp + 4 * n)));
                multiply(o[2 * n], p, b);
                multiply(o[2 * n + 1], p, b + 2);
            }
        }
        __syncthreads();
    }
    parts[warp][lane][0] = sum[0], parts[warp][lane][1] = sum[1];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float all = joined(parts[0][lane][i], parts[1][lane][i], parts[2][lane][i], parts[3][lane][i]);
        if (!rows.live[i]) continue;
        float inverse = 1.0f / all;
        int first = (int)(rows.head[i] % n_heads) * head_dim;
#pragma unroll
        for (int n = 0; n < 2 * OWN; n++) {
            int d = (warp + 4 * (n / 2)) * 16 + n % 2 * 8 + quad * 2;
            if (d < head_dim) *(u32 *)(one.out + (i64)row * one.stride + first + d) = pack(o[n][2 * i] * inverse, o[n][2 * i + 1] * inverse);
        }
    }
}

// ---- in one

// A warp has a key head of a row, and does with it what a warp of `attend` does with sixteen rows: every sum is the same, in the
// same order. Older keys are fetched before the kernel in front is done, STAGES blocks of them. BOTH: more than eight
// query heads share a key head, so a thread has two rows and not one.
template <bool BOTH>
__device__ __forceinline__ void attend_whole_row(const One &one) {
    constexpr int STAGES = 2, STAGE = 2 * KEYS * PITCH, CHUNKS = PAGE * WIDTH / 8, AT_ONCE = 6, ROWS_EACH = BOTH ? 2 : 1;
    __shared__ __align__(16) u16 queries[16 * Q_PITCH], fresh[2][WIDTH];
    let_next_start();
    u16 *stages = (u16 *)memory;
    int row = blockIdx.x, kv_head = blockIdx.y, lane = threadIdx.x, group = lane >> 2, quad = lane & 3;
    int fan = one.n_heads / one.n_kv_heads, head_dim = one.head_dim, half = head_dim / 2;
    int last = one.positions[row], n_blocks = last / KEYS + 1;
    const u32 *pages = one.pages + (i64)row * one.n_pages_max;
    const i64 page_size = (i64)one.n_kv_heads * PAGE * WIDTH, own = (i64)kv_head * PAGE * WIDTH;
    // A block of keys and one of values, but for the last of each, which are not in their page yet.
    auto fetch = [&](int block) {
        u16 *to = stages + block % STAGES * STAGE;
        i64 from[KEYS / PAGE];
#pragma unroll
        for (int page = 0; page < KEYS / PAGE; page++) {
            int index = block * (KEYS / PAGE) + page;
            from[page] = index * PAGE <= last ? pages[index] * page_size + own : -1;
        }
#pragma unroll 1
        for (int which = 0; which < 2; which++) {
            const u16 *all = which ? one.values : one.keys;
            u16 *to_all = to + which * KEYS * PITCH;
#pragma unroll
            for (int page = 0; page < KEYS / PAGE; page++) {
                bool there = from[page] >= 0;
                const u16 *from_page = all + (there ? from[page] : 0);
                int newest = last - (block * KEYS + page * PAGE);
#pragma unroll
                for (int j = 0; j < (CHUNKS + 31) / 32; j++) {
                    int i = lane + 32 * j, key = i / (WIDTH / 8), part = i % (WIDTH / 8);
                    if (i >= CHUNKS || key == newest) continue;
                    fetch16(to_all + (page * PAGE + key) * PITCH + (part ^ TURN(key)) * 8, from_page + i * 8, there);
                }
            }
            fetch_commit();
        }
    };
    auto fetch_or_not = [&](int block) {
        if (block < n_blocks) {
            fetch(block);
        } else {
            fetch_commit();
            fetch_commit();
        }
    };
#pragma unroll 1
    for (int block = 0; block < STAGES; block++) fetch_or_not(block);
    const float *angle = one.angles + (i64)last * head_dim;
    float cosines[PAIRS], sines[PAIRS];
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        int i = lane + 32 * j;
        cosines[j] = i < half ? angle[i] : 0.0f, sines[j] = i < half ? angle[half + i] : 0.0f;
    }
    i64 new_at = pages[last / PAGE] * page_size + own + last % PAGE * WIDTH;
    await_previous();
    // The queries that share the key, then the key, then the value; several are asked for before one is needed.
    const float *products = one.qkv + (i64)row * (one.n_heads + 2 * one.n_kv_heads) * head_dim;
#pragma unroll 1
    for (int first = 0; first < fan + 2; first += AT_ONCE) {
        Head heads[AT_ONCE];
#pragma unroll
        for (int h = 0; h < AT_ONCE; h++) {
            int head = first + h;
            if (head >= fan + 2) continue;
            int at = head < fan ? kv_head * fan + head : kv_head;
            const float *bias = head < fan ? one.q_bias : head == fan ? one.k_bias : one.v_bias;
            int skipped = head < fan ? 0 : one.n_heads + (head - fan) * one.n_kv_heads;
            heads[h] = load_head(products + (skipped + at) * head_dim, bias ? bias + at * head_dim : nullptr, half);
        }
#pragma unroll
        for (int h = 0; h < AT_ONCE; h++) {
            int head = first + h;
            if (head >= fan + 2) continue;
            const float *gain = head < fan ? one.q_gain : head == fan ? one.k_gain : nullptr;
            if (gain) norm_head(heads[h], gain, half, one.eps);
            if (head <= fan)
#pragma unroll
                for (int j = 0; j < PAIRS; j++)
                    rotate(heads[h].first[j], heads[h].second[j], cosines[j], sines[j], &heads[h].first[j], &heads[h].second[j]);
            store_head(head < fan ? queries + head * Q_PITCH : fresh[head - fan], heads[h], half);
            if (head >= fan) store_head((head == fan ? one.keys : one.values) + new_at, heads[h], half);
        }
    }
    __syncwarp();
    u32 a[STEPS][4];
    const u16 *first_row = queries + min(group, fan - 1) * Q_PITCH + quad * 2, *second_row = queries + min(group + 8, fan - 1) * Q_PITCH + quad * 2;
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        a[k][0] = *(const u32 *)(first_row + 16 * k), a[k][2] = *(const u32 *)(first_row + 16 * k + 8);
        a[k][1] = BOTH ? *(const u32 *)(second_row + 16 * k) : 0, a[k][3] = BOTH ? *(const u32 *)(second_row + 16 * k + 8) : 0;
    }
    float o[WIDTH / 8][4] = {}, top[2] = {NEVER, NEVER}, sums[2][KEYS / 16] = {}, factor = one.scale * LOG2E;
#pragma unroll 1
    for (int block = 0; block < n_blocks; block++) {
        u16 *k_block = stages + block % STAGES * STAGE, *v_block = k_block + KEYS * PITCH;
        if (block == n_blocks - 1) {
            for (int i = lane; i < 2 * (WIDTH / 8); i += 32) {
                int which = i / (WIDTH / 8), part = i % (WIDTH / 8), key = last % KEYS;
                *(uint4 *)(k_block + which * KEYS * PITCH + key * PITCH + (part ^ TURN(key % PAGE)) * 8) = ((const uint4 *)fresh[which])[part];
            }
        }
        fetch_wait<2 * STAGES - 1>();
        __syncwarp();
        float s[KEYS / 8][4] = {};
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
#pragma unroll
            for (int n = 0; n < KEYS / 16; n++) {
                u32 b[4];
                load4(b, by_width(k_block + n * 16 * PITCH, k));
                multiply(s[2 * n], a[k], b);
                multiply(s[2 * n + 1], a[k], b + 2);
            }
        }
#pragma unroll
        for (int i = 0; i < ROWS_EACH; i++) {
            float largest = top[i];
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    int key = block * KEYS + n * 8 + quad * 2 + j;
                    float z = key <= last ? s[n][2 * i + j] * factor : NEVER;
                    s[n][2 * i + j] = z;
                    largest = fmaxf(largest, z);
                }
            }
            largest = fmaxf(largest, __shfl_xor_sync(FULL, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(FULL, largest, 2));
            float shrink = power2(top[i] - largest);
            top[i] = largest;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
                if (n % 2 == 0) sums[i][n / 2] = __fmul_rn(sums[i][n / 2], shrink);
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    float p = power2(s[n][2 * i + j] - largest);
                    s[n][2 * i + j] = p;
                    sums[i][n / 2] += p;
                }
            }
#pragma unroll
            for (int n = 0; n < WIDTH / 8; n++) o[n][2 * i] *= shrink, o[n][2 * i + 1] *= shrink;
        }
        fetch_wait<2 * STAGES - 2>();
        __syncwarp();
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) {
            u32 p[4] = {pack(s[2 * k][0], s[2 * k][1]), BOTH ? pack(s[2 * k][2], s[2 * k][3]) : 0, pack(s[2 * k + 1][0], s[2 * k + 1][1]),
                        BOTH ? pack(s[2 * k + 1][2], s[2 * k + 1][3]) : 0};
#pragma unroll
            for (int n = 0; n < STEPS; n++) {
                u32 b[4];
                load4_turned(b, by_row(v_block + k * 16 * PITCH, n));
                multiply(o[2 * n], p, b);
                multiply(o[2 * n + 1], p, b + 2);
            }
        }
        __syncwarp();
        fetch_or_not(block + STAGES);
    }
#pragma unroll
    for (int i = 0; i < ROWS_EACH; i++) {
        float sum = joined(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
        if (group + 8 * i >= fan) continue;
        float inverse = 1.0f / sum;
        u16 *out = one.out + (i64)row * one.stride + (kv_head * fan + group + 8 * i) * head_dim;
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++) {
            int d = n * 8 + quad * 2;
            if (d < head_dim) *(u32 *)(out + d) = pack(o[n][2 * i] * inverse, o[n][2 * i + 1] * inverse);
        }
    }
}

extern "C" __global__ void __launch_bounds__(32) attend_whole(const One one) { attend_whole_row<false>(one); }
extern "C" __global__ void __launch_bounds__(32) attend_whole_wide(const One one) { attend_whole_row<true>(one); }
