// Flash attention over pages of sixteen keys, on the tensor cores. WIDTH is the width of a head, padded to sixteen.
//
// A row of a tile is one (query position, query head of the group); sixteen of them are one warp's, and a warp's
// arithmetic knows nothing of the other warps. Keys are walked from position 0 in blocks of 64, and keys that a row may
// not see add exact zeros: so a row decoded alone equals the same row in a long prompt to the bit.

#define KEYS 64
#define STEPS (WIDTH / 16)
#define QUERIES 32
#define THREADS 128

extern __shared__ uint4 memory[];

struct Heads {
    int n_heads, n_kv_heads, head_dim;
};

// A block of keys (or values) of one head to shared memory; what lies behind the last key is zero.
__device__ __forceinline__ void fetch_keys(u16 *to, const u16 *from, const u32 *pages, int block, int n_keys, int n_kv_heads, int head) {
#pragma unroll
    for (int page = 0; page < KEYS / PAGE; page++) {
        int index = block * (KEYS / PAGE) + page;
        bool there = index * PAGE < n_keys;
        const u16 *at = from + (there ? ((i64)pages[index] * n_kv_heads + head) * PAGE * WIDTH : 0);
#pragma unroll
        for (int j = 0; j < PAGE * WIDTH; j += THREADS * 8) {
            int i = j + threadIdx.x * 8;
            if (j + THREADS * 8 <= PAGE * WIDTH || i < PAGE * WIDTH) fetch16(to + page * PAGE * WIDTH + i, at + i, there);
        }
    }
}

// The two rows of a thread in a warp's sixteen.
struct Rows {
    i64 head[2];
    int last[2];
    bool live[2];
};

__device__ __forceinline__ Rows rows_of(int first, int row0, int n_rows, int pos0, const Heads &heads) {
    int fan = heads.n_heads / heads.n_kv_heads, n_flat = n_rows * fan, group = (threadIdx.x & 31) >> 2;
    Rows rows;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int flat = first + group + 8 * i;
        rows.live[i] = flat < n_flat;
        flat = min(flat, n_flat - 1);
        rows.head[i] = (i64)(row0 + flat / fan) * heads.n_heads + blockIdx.y * fan + flat % fan;
        rows.last[i] = pos0 + flat / fan;
    }
    return rows;
}

__device__ __forceinline__ void load_rows(u32 (*a)[4], const u16 *x, const Rows &rows) {
    int quad = threadIdx.x & 3;
    const u16 *first = x + rows.head[0] * WIDTH + quad * 2, *second = x + rows.head[1] * WIDTH + quad * 2;
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        a[k][0] = *(const u32 *)(first + 16 * k), a[k][1] = *(const u32 *)(second + 16 * k);
        a[k][2] = *(const u32 *)(first + 16 * k + 8), a[k][3] = *(const u32 *)(second + 16 * k + 8);
    }
}

// Sixteen rows of shared memory, and the k-th sixteen of their width, as the right side of a product over their width, or over the
// rows themselves.
__device__ __forceinline__ const u16 *by_width(int lane, const u16 *rows, int k) {
    int row = (lane & 7) + ((lane >> 4) << 3);
    return rows + row * WIDTH + ((16 * k + (lane & 8)) ^ turn(row, WIDTH));
}

__device__ __forceinline__ const u16 *by_row(int lane, const u16 *rows, int k) {
    int row = lane & 15;
    return rows + row * WIDTH + ((16 * k + (lane & 16) / 2) ^ turn(row, WIDTH));
}

__device__ __forceinline__ const u16 *by_width(const u16 *rows, int k) { return by_width(threadIdx.x & 31, rows, k); }
__device__ __forceinline__ const u16 *by_row(const u16 *rows, int k) { return by_row(threadIdx.x & 31, rows, k); }

// ---- a block of keys and values, as every kernel walks it: sums have one order

// Scores of a warp's rows with PARTS times sixteen keys.
template <int PARTS>
__device__ __forceinline__ void score(float (*s)[4], const u32 (*a)[4], const u16 *keys) {
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
#pragma unroll
        for (int n = 0; n < PARTS; n++) {
            u32 b[4];
            load4(b, by_width(keys + n * 16 * WIDTH, k));
            multiply(s[2 * n], a[k], b);
            multiply(s[2 * n + 1], a[k], b + 2);
        }
    }
}

// Scales the scores of a thread's i-th row, hides those of keys it may not see, and returns the largest of them and of `largest`.
template <int PARTS>
__device__ __forceinline__ float largest_score(float (*s)[4], int i, int first_key, int last, float factor, float largest) {
#pragma unroll
    for (int n = 0; n < 2 * PARTS; n++) {
#pragma unroll
        for (int j = 0; j < 2; j++) {
            int key = first_key + n * 8 + (threadIdx.x & 3) * 2 + j;
            float z = key <= last ? s[n][2 * i + j] * factor : NEVER;
            s[n][2 * i + j] = z;
            largest = fmaxf(largest, z);
        }
    }
    largest = fmaxf(largest, __shfl_xor_sync(FULL, largest, 1));
    return fmaxf(largest, __shfl_xor_sync(FULL, largest, 2));
}

// Weights in place of the i-th row's scores, and its sums, one for each sixteen keys; returns by how much earlier weights shrink.
template <int PARTS>
__device__ __forceinline__ float weigh(float (*s)[4], int i, float largest, float &top, float *sums) {
    float shrink = power2(top - largest);
    top = largest;
#pragma unroll
    for (int n = 0; n < PARTS; n++) {
        sums[n] = __fmul_rn(sums[n], shrink);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float &z = s[2 * n + j / 2][2 * i + j % 2];
            z = power2(z - largest);
            sums[n] += z;
        }
    }
    return shrink;
}

// Adds a block's values by their weights, for every EVERY-th sixteen of the width from the `first` on. A block is summed by itself, so that no
// block waits for the one before it; what is there of a thread's first ROWS rows shrinks first.
template <int EVERY, int ROWS>
__device__ __forceinline__ void add_values(float (*o)[4], const float *shrinks, const u32 (*weights)[4], const u16 *values, int first) {
#pragma unroll
    for (int n = 0; n < (STEPS + EVERY - 1) / EVERY; n++) {
        if (first + EVERY * n >= STEPS) continue;
        float sums[2][4] = {};
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) {
            u32 b[4];
            load4_turned(b, by_row(values + k * 16 * WIDTH, first + EVERY * n));
            multiply(sums[0], weights[k], b);
            multiply(sums[1], weights[k], b + 2);
        }
#pragma unroll
        for (int i = 0; i < 2 * ROWS; i++) {
            o[2 * n][i] = fmaf(o[2 * n][i], shrinks[i / 2], sums[0][i]);
            o[2 * n + 1][i] = fmaf(o[2 * n + 1][i], shrinks[i / 2], sums[1][i]);
        }
    }
}

// The sum of a row from its four parts in each of the four threads that share it.
__device__ __forceinline__ float joined(float a, float b, float c, float d) {
    float sum = (a + b) + (c + d);
    sum += __shfl_xor_sync(FULL, sum, 1);
    return sum + __shfl_xor_sync(FULL, sum, 2);
}

__device__ void attend_tile(const u16 *q, const u16 *keys, const u16 *values, const u32 *pages, int row0, int n_rows, int pos0,
                            int tile_first, Heads heads, float scale, float *out, float *log_norms) {
    u16 *stages = (u16 *)memory;
    int fan = heads.n_heads / heads.n_kv_heads, n_flat = n_rows * fan, quad = threadIdx.x & 3;
    int n_tile = blockDim.x / 2, first = tile_first + (threadIdx.x >> 5) * 16;
    int n_keys = pos0 + (min(n_flat, tile_first + n_tile) - 1) / fan + 1, n_blocks = (n_keys + KEYS - 1) / KEYS;
    Rows rows = rows_of(first, row0, n_rows, pos0, heads);
    int warp_last = pos0 + (min(n_flat, first + 16) - 1) / fan;
    u32 a[STEPS][4];
    load_rows(a, q, rows);
    float o[WIDTH / 8][4] = {}, top[2] = {NEVER, NEVER}, sums[2][KEYS / 16] = {}, factor = scale * LOG2E;

    fetch_keys(stages, keys, pages, 0, n_keys, heads.n_kv_heads, blockIdx.y);
    fetch_keys(stages + KEYS * WIDTH, values, pages, 0, n_keys, heads.n_kv_heads, blockIdx.y);
    fetch_commit();
    for (int block = 0; block < n_blocks; block++) {
        u16 *k_block = stages + (block & 1) * 2 * KEYS * WIDTH, *v_block = k_block + KEYS * WIDTH;
        if (block + 1 < n_blocks) {
            u16 *next = stages + ((block + 1) & 1) * 2 * KEYS * WIDTH;
            fetch_keys(next, keys, pages, block + 1, n_keys, heads.n_kv_heads, blockIdx.y);
            fetch_keys(next + KEYS * WIDTH, values, pages, block + 1, n_keys, heads.n_kv_heads, blockIdx.y);
        }
        fetch_commit();
        fetch_wait<1>();
        __syncthreads();
        if (first < n_flat && block * KEYS <= warp_last) {
            float s[KEYS / 8][4] = {};
            score<KEYS / 16>(s, a, k_block);
            float shrinks[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float largest = largest_score<KEYS / 16>(s, i, block * KEYS, rows.last[i], factor, top[i]);
                shrinks[i] = weigh<KEYS / 16>(s, i, largest, top[i], sums[i]);
            }
            u32 p[KEYS / 16][4];
#pragma unroll
            for (int k = 0; k < KEYS / 16; k++) {
                p[k][0] = pack(s[2 * k][0], s[2 * k][1]), p[k][1] = pack(s[2 * k][2], s[2 * k][3]);
                p[k][2] = pack(s[2 * k + 1][0], s[2 * k + 1][1]), p[k][3] = pack(s[2 * k + 1][2], s[2 * k + 1][3]);
            }
            add_values<1, 2>(o, shrinks, p, v_block, 0);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float sum = joined(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
        if (!rows.live[i]) continue;
        float inverse = 1.0f / sum;
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++) {
            int d = n * 8 + quad * 2;
            if (d >= heads.head_dim) continue;
            float x = o[n][2 * i] * inverse, y = o[n][2 * i + 1] * inverse;
            *(float2 *)(out + rows.head[i] * heads.head_dim + d) = make_float2(x, y);
        }
        if (quad == 0) log_norms[rows.head[i]] = top[i] * LN2 + logf(sum);
    }
}

// runs: (first row, rows, first position, first of its pages); tiles: (run, first flat row).
extern "C" __global__ void __launch_bounds__(128) attend(const u16 *q, const u16 *keys, const u16 *values, const int4 *runs,
                                                         const int2 *tiles, const u32 *pages, int n_heads, int n_kv_heads, int head_dim,
                                                         float scale, float *out, float *log_norms) {
    int2 tile = tiles[blockIdx.x];
    int4 run = runs[tile.x];
    Heads heads = {n_heads, n_kv_heads, head_dim};
    attend_tile(q, keys, values, pages + run.w, run.x, run.y, run.z, tile.y, heads, scale, out, log_norms);
}

// Σ dout·out per (row, head), one warp each.
extern "C" __global__ void attend_dots(const float *dout, const float *out, i64 n_heads, int head_dim, float *dots) {
    i64 head = (i64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (head >= n_heads) return;
    float sum = 0.0f;
    for (int i = threadIdx.x & 31; i < head_dim; i += 32) sum += dout[head * head_dim + i] * out[head * head_dim + i];
    sum = warp_sum(sum);
    if ((threadIdx.x & 31) == 0) dots[head] = sum;
}

// dq = Σ ds·k with ds = p·(dout·v - dout·out)·scale and p from the stored normaliser.
extern "C" __global__ void __launch_bounds__(128) attend_queries_backward(const u16 *q, const u16 *dout, const u16 *keys, const u16 *values,
                                                                          const int4 *runs, const int2 *tiles, const u32 *pages,
                                                                          int n_heads, int n_kv_heads, int head_dim, float scale,
                                                                          const float *log_norms, const float *dots, float *dq) {
    u16 *stages = (u16 *)memory;
    int2 tile = tiles[blockIdx.x];
    int4 run = runs[tile.x];
    Heads heads = {n_heads, n_kv_heads, head_dim};
    int fan = n_heads / n_kv_heads, n_flat = run.y * fan, quad = threadIdx.x & 3;
    int n_tile = blockDim.x / 2, first = tile.y + (threadIdx.x >> 5) * 16;
    int n_keys = run.z + (min(n_flat, tile.y + n_tile) - 1) / fan + 1, n_blocks = (n_keys + KEYS - 1) / KEYS;
    Rows rows = rows_of(first, run.x, run.y, run.z, heads);
    int warp_last = run.z + (min(n_flat, first + 16) - 1) / fan;
    u32 a[STEPS][4], da[STEPS][4];
    load_rows(a, q, rows);
    load_rows(da, dout, rows);
    float d[WIDTH / 8][4] = {}, factor = scale * LOG2E, norm[2], dot[2];
#pragma unroll
    for (int i = 0; i < 2; i++) norm[i] = log_norms[rows.head[i]] * LOG2E, dot[i] = dots[rows.head[i]];
    pages += run.w;
    fetch_keys(stages, keys, pages, 0, n_keys, n_kv_heads, blockIdx.y);
    fetch_keys(stages + KEYS * WIDTH, values, pages, 0, n_keys, n_kv_heads, blockIdx.y);
    fetch_commit();
    for (int block = 0; block < n_blocks; block++) {
        u16 *k_block = stages + (block & 1) * 2 * KEYS * WIDTH, *v_block = k_block + KEYS * WIDTH;
        if (block + 1 < n_blocks) {
            u16 *next = stages + ((block + 1) & 1) * 2 * KEYS * WIDTH;
            fetch_keys(next, keys, pages, block + 1, n_keys, n_kv_heads, blockIdx.y);
            fetch_keys(next + KEYS * WIDTH, values, pages, block + 1, n_keys, n_kv_heads, blockIdx.y);
        }
        fetch_commit();
        fetch_wait<1>();
        __syncthreads();
        for (int part = 0; part < KEYS / 16; part++) {
            int key0 = block * KEYS + part * 16;
            if (first >= n_flat || key0 > warp_last) break;
            float s[2][4] = {}, dp[2][4] = {};
#pragma unroll
            for (int k = 0; k < STEPS; k++) {
                u32 b[4];
                load4(b, by_width(k_block + part * 16 * WIDTH, k));
                multiply(s[0], a[k], b);
                multiply(s[1], a[k], b + 2);
                load4(b, by_width(v_block + part * 16 * WIDTH, k));
                multiply(dp[0], da[k], b);
                multiply(dp[1], da[k], b + 2);
            }
#pragma unroll
            for (int n = 0; n < 2; n++) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    int key = key0 + n * 8 + quad * 2 + (j & 1), i = j >> 1;
                    float p = key <= rows.last[i] ? power2(s[n][j] * factor - norm[i]) : 0.0f;
                    s[n][j] = p * (dp[n][j] - dot[i]) * scale;
                }
            }
            u32 ds[4] = {pack(s[0][0], s[0][1]), pack(s[0][2], s[0][3]), pack(s[1][0], s[1][1]), pack(s[1][2], s[1][3])};
#pragma unroll
            for (int n = 0; n < STEPS; n++) {
                u32 b[4];
                load4_turned(b, by_row(k_block + part * 16 * WIDTH, n));
                multiply(d[2 * n], ds, b);
                multiply(d[2 * n + 1], ds, b + 2);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (!rows.live[i]) continue;
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++) {
            int at = n * 8 + quad * 2;
            if (at < head_dim) *(float2 *)(dq + rows.head[i] * head_dim + at) = make_float2(d[n][2 * i], d[n][2 * i + 1]);
        }
    }
}

// Gradients of up to four pages of keys and values that the same runs see; one warp per page, runs in order.
// blocks: (first of its pages, pages, first user, last user); users: (run, position of the block's first key in it).
extern "C" __global__ void __launch_bounds__(128) attend_keys_backward(const u16 *q, const u16 *dout, const u16 *keys, const u16 *values,
                                                                       const int4 *runs, const int4 *blocks, const u32 *block_pages,
                                                                       const int2 *users, int n_heads, int n_kv_heads, int head_dim,
                                                                       float scale, const float *log_norms, const float *dots, float *dk,
                                                                       float *dv) {
    __shared__ float norms[QUERIES], row_dots[QUERIES];
    __shared__ int lasts[QUERIES];
    u16 *k_block = (u16 *)memory, *v_block = k_block + KEYS * WIDTH, *q_tile = v_block + KEYS * WIDTH, *d_tile = q_tile + QUERIES * WIDTH;
    int4 block = blocks[blockIdx.x];
    int fan = n_heads / n_kv_heads, warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
    fetch_keys(k_block, keys, block_pages + block.x, 0, block.y * PAGE, n_kv_heads, blockIdx.y);
    fetch_keys(v_block, values, block_pages + block.x, 0, block.y * PAGE, n_kv_heads, blockIdx.y);
    fetch_commit();
    float grad_k[WIDTH / 8][4] = {}, grad_v[WIDTH / 8][4] = {}, factor = scale * LOG2E;
    for (int user = block.z; user < block.w; user++) {
        int4 run = runs[users[user].x];
        int key0 = users[user].y, n_flat = run.y * fan;
        for (int flat0 = max(0, key0 - run.z) * fan; flat0 < n_flat; flat0 += QUERIES) {
            __syncthreads();
            for (int i = threadIdx.x; i < QUERIES * WIDTH / 8; i += blockDim.x) {
                int flat = flat0 + i / (WIDTH / 8), part = i % (WIDTH / 8), at = (i * 8) ^ turn(i / (WIDTH / 8), WIDTH);
                bool there = flat < n_flat;
                flat = min(flat, n_flat - 1);
                i64 head = (i64)(run.x + flat / fan) * n_heads + blockIdx.y * fan + flat % fan;
                fetch16(q_tile + at, q + head * WIDTH + part * 8, there);
                fetch16(d_tile + at, dout + head * WIDTH + part * 8, there);
                if (part == 0) {
                    int row = i / (WIDTH / 8);
                    norms[row] = log_norms[head] * LOG2E, row_dots[row] = dots[head];
                    lasts[row] = there ? run.z + flat / fan : -1;
                }
            }
            fetch_commit();
            fetch_wait<0>();
            __syncthreads();
            if (warp >= block.y) continue;
            float s[QUERIES / 8][4] = {}, dp[QUERIES / 8][4] = {};
#pragma unroll
            for (int k = 0; k < STEPS; k++) {
                u32 key[4], value[4], b[4];
                load4(key, by_row(k_block + warp * 16 * WIDTH, k));
                load4(value, by_row(v_block + warp * 16 * WIDTH, k));
#pragma unroll
                for (int n = 0; n < QUERIES / 16; n++) {
                    load4(b, by_width(q_tile + n * 16 * WIDTH, k));
                    multiply(s[2 * n], key, b);
                    multiply(s[2 * n + 1], key, b + 2);
                    load4(b, by_width(d_tile + n * 16 * WIDTH, k));
                    multiply(dp[2 * n], value, b);
                    multiply(dp[2 * n + 1], value, b + 2);
                }
            }
#pragma unroll
            for (int n = 0; n < QUERIES / 8; n++) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    int row = n * 8 + quad * 2 + (j & 1), key = key0 + warp * 16 + group + (j >> 1) * 8;
                    float p = key <= lasts[row] ? power2(s[n][j] * factor - norms[row]) : 0.0f;
                    s[n][j] = p;
                    dp[n][j] = p * (dp[n][j] - row_dots[row]) * scale;
                }
            }
#pragma unroll
            for (int k = 0; k < QUERIES / 16; k++) {
                u32 p[4] = {pack(s[2 * k][0], s[2 * k][1]), pack(s[2 * k][2], s[2 * k][3]), pack(s[2 * k + 1][0], s[2 * k + 1][1]),
                            pack(s[2 * k + 1][2], s[2 * k + 1][3])};
                u32 ds[4] = {pack(dp[2 * k][0], dp[2 * k][1]), pack(dp[2 * k][2], dp[2 * k][3]), pack(dp[2 * k + 1][0], dp[2 * k + 1][1]),
                             pack(dp[2 * k + 1][2], dp[2 * k + 1][3])};
#pragma unroll
                for (int n = 0; n < STEPS; n++) {
                    u32 b[4];
                    load4_turned(b, by_row(d_tile + k * 16 * WIDTH, n));
                    multiply(grad_v[2 * n], p, b);
                    multiply(grad_v[2 * n + 1], p, b + 2);
                    load4_turned(b, by_row(q_tile + k * 16 * WIDTH, n));
                    multiply(grad_k[2 * n], ds, b);
                    multiply(grad_k[2 * n + 1], ds, b + 2);
                }
            }
        }
    }
    fetch_wait<0>();
    if (warp >= block.y) return;
    i64 page = block_pages[block.x + warp];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        i64 to = ((page * n_kv_heads + blockIdx.y) * PAGE + group + 8 * i) * head_dim;
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++) {
            int d = n * 8 + quad * 2;
            if (d >= head_dim) continue;
            *(float2 *)(dk + to + d) = make_float2(grad_k[n][2 * i], grad_k[n][2 * i + 1]);
            *(float2 *)(dv + to + d) = make_float2(grad_v[n][2 * i], grad_v[n][2 * i + 1]);
        }
    }
}
