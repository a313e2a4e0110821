// The steps of decoding that are only there: what a row's products become before attention, in one pass.

// Bias, norm per head, rotation; queries are kept in bf16, keys and values go to their pages. One warp per (row, head); heads
// of a row are its query heads, its key heads, its value heads. Norm and rotation are those of `norm` and `rope`, bit for bit.
extern "C" __global__ void enter(const float *qkv, const float *q_bias, const float *k_bias, const float *v_bias, const float *q_gain, const float *k_gain, float eps,
                                 const float *angles, const u32 *positions, const u32 *pages, int n_pages_max, int n_heads, int n_kv_heads,
                                 int head_dim, int width, u16 *q, u16 *keys, u16 *values) {
    __shared__ float room[4][256];
    let_next_start();
    await_previous();
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

// ---- products of few rows

// y = x·wᵀ by the tensor cores, sixteen steps of the inner dimension after the other: the sums of the library's algorithms, to
// the bit (which is checked before it is relied on). Tiles are small, so that few rows keep many multiprocessors busy; weights
// are fetched before the kernel that makes x is done; and what follows a product is done while its sums are in registers.

#define DEPTH 64
#define ROW (DEPTH + 8)
#define TILE_COLS 64

// What happens to a sum.
#define SET 0
#define ADD 1
#define GATE 2
#define ROUND 3

// A stretch of the outputs and its adapter: outputs before `end`, the adapter's b, where its low part begins in a row.
struct Stretch {
    const u16 *b;
    int end, from;
};

struct Few {
    const u16 *x, *w, *low;
    float *y;
    u16 *act;
    Stretch stretches[3];
    int rows, n, k, x_stride, w_stride, y_stride, mode, rank, low_stride;
    float scale;
};

// WM by WN warps, each MT tiles of sixteen rows by NT tiles of eight columns.
template <int MT, int WM, int NT, int WN, int STAGES>
__device__ void few_rows(const Few &few) {
    constexpr int ROWS = MT * 16 * WM, SPAN = NT * 8;
    extern __shared__ uint4 memory[];
    u16 *stages = (u16 *)memory;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
    int warp_row = (warp / WN) * MT * 16, warp_col = (warp % WN) * SPAN, row0 = blockIdx.y * ROWS;
    bool gate = few.mode == GATE;
    int half = few.n / 2, col0 = blockIdx.x * (gate ? TILE_COLS / 2 : TILE_COLS), n_steps = (few.k + DEPTH - 1) / DEPTH;

    // The weight's row behind a column of the tile. With a gate, each warp has as many gates as their ups, gates first.
    auto weight_row = [&](int col) {
        if (!gate) return col0 + col < few.n ? col0 + col : -1;
        int at = col0 + col / SPAN * (SPAN / 2) + col % (SPAN / 2);
        return at >= half ? -1 : at + (col % SPAN >= SPAN / 2 ? half : 0);
    };
    auto fetch_weights = [&](int step) {
        u16 *to = stages + (step % STAGES) * (ROWS + TILE_COLS) * ROW + ROWS * ROW;
        for (int i = threadIdx.x; i < TILE_COLS * (DEPTH / 8); i += 128) {
            int col = i / (DEPTH / 8), k = step * DEPTH + i % (DEPTH / 8) * 8, row = weight_row(col);
            bool there = row >= 0 && k < few.w_stride;
            fetch16(to + col * ROW + i % (DEPTH / 8) * 8, few.w + (there ? (i64)row * few.w_stride + k : 0), there);
        }
    };
    auto fetch_rows = [&](int step) {
        u16 *to = stages + (step % STAGES) * (ROWS + TILE_COLS) * ROW;
        for (int i = threadIdx.x; i < ROWS * (DEPTH / 8); i += 128) {
            int row = row0 + i / (DEPTH / 8), k = step * DEPTH + i % (DEPTH / 8) * 8;
            bool there = row < few.rows && k < few.w_stride;
            fetch16(to + i / (DEPTH / 8) * ROW + i % (DEPTH / 8) * 8, few.x + (there ? (i64)row * few.x_stride + k : 0), there);
        }
    };

    let_next_start();
    for (int step = 0; step < STAGES - 1 && step < n_steps; step++) fetch_weights(step);
    await_previous();
    for (int step = 0; step < STAGES - 1; step++) {
        if (step < n_steps) fetch_rows(step);
        fetch_commit();
    }
    float sums[MT][NT][4] = {};
    for (int step = 0; step < n_steps; step++) {
        fetch_wait<STAGES - 2>();
        __syncthreads();
        int next = step + STAGES - 1;
        if (next < n_steps) fetch_weights(next), fetch_rows(next);
        fetch_commit();
        const u16 *left = stages + (step % STAGES) * (ROWS + TILE_COLS) * ROW + warp_row * ROW;
        const u16 *right = stages + (step % STAGES) * (ROWS + TILE_COLS) * ROW + (ROWS + warp_col) * ROW;
#pragma unroll
        for (int k = 0; k < DEPTH / 16; k++) {
            u32 a[MT][4], b[NT / 2][4];
#pragma unroll
            for (int m = 0; m < MT; m++) load4(a[m], left + (m * 16 + (lane & 15)) * ROW + k * 16 + (lane >> 4) * 8);
#pragma unroll
            for (int n = 0; n < NT / 2; n++)
                load4(b[n], right + (n * 16 + (lane & 7) + ((lane >> 4) << 3)) * ROW + k * 16 + ((lane >> 3) & 1) * 8);
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int n = 0; n < NT; n++) multiply(sums[m][n], a[m], b[n / 2] + n % 2 * 2);
        }
    }

    // The low-rank part, as its own product.
#pragma unroll
    for (int m = 0; m < MT; m++) {
        int rows[2] = {row0 + warp_row + m * 16 + group, row0 + warp_row + m * 16 + group + 8};
#pragma unroll
        for (int n = 0; n < NT; n++) {
            // The column in the weight that this thread's group loads, and the two outputs that its quad holds.
            int loaded = weight_row(warp_col + n * 8 + group), out = weight_row(warp_col + n * 8);
            out = out < 0 ? -1 : out + quad * 2;
            float low[4] = {};
            const Stretch *stretch = few.stretches;
            while (few.rank && loaded >= stretch->end) stretch++;
            if (few.rank && __any_sync(FULL, loaded >= 0 && stretch->b)) {
                int start = stretch == few.stretches ? 0 : stretch[-1].end;
                for (int k = 0; k < few.rank; k += 16) {
                    u32 a[4], b[2] = {0, 0};
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        int row = rows[j & 1];
                        const u16 *from = few.low + (i64)row * few.low_stride + stretch->from + k + quad * 2 + (j >> 1) * 8;
                        a[j] = row < few.rows ? *(const u32 *)from : 0;
                    }
                    if (loaded >= 0 && stretch->b) {
                        const u16 *from = stretch->b + (i64)(loaded - start) * few.rank + k + quad * 2;
                        b[0] = *(const u32 *)from, b[1] = *(const u32 *)(from + 8);
                    }
                    multiply(low, a, b);
                }
            }
            bool adapted = few.rank && stretch->b;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if (out < 0 || rows[i] >= few.rows) continue;
                float x = sums[m][n][2 * i], y = sums[m][n][2 * i + 1];
                if (few.mode == ROUND) {
                    *(u32 *)(few.act + (i64)rows[i] * few.y_stride + out) = pack(x * few.scale, y * few.scale);
                    continue;
                }
                float2 *to = (float2 *)(few.y + (i64)rows[i] * few.y_stride + out);
                if (few.mode == ADD) {
                    float2 old = *to;
                    x = __fadd_rn(old.x, x), y = __fadd_rn(old.y, y);
                }
                if (adapted) x = __fadd_rn(x, low[2 * i]), y = __fadd_rn(y, low[2 * i + 1]);
                if (gate)
                    sums[m][n][2 * i] = x, sums[m][n][2 * i + 1] = y;
                else
                    *to = make_float2(x, y);
            }
        }
    }
    if (!gate) return;
#pragma unroll
    for (int m = 0; m < MT; m++) {
#pragma unroll
        for (int n = 0; n < NT / 2; n++) {
            int out = weight_row(warp_col + n * 8);
            out = out < 0 ? -1 : out + quad * 2;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int row = row0 + warp_row + m * 16 + group + 8 * i;
                if (out < 0 || row >= few.rows) continue;
                const float *g = sums[m][n] + 2 * i, *u = sums[m][n + NT / 2] + 2 * i;
                *(u32 *)(few.act + (i64)row * few.y_stride + out) = pack(gated(g[0], u[0]), gated(g[1], u[1]));
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(128) few_small(const Few few) { few_rows<1, 1, 2, 4, 8>(few); }
extern "C" __global__ void __launch_bounds__(128) few_middle(const Few few) { few_rows<1, 2, 4, 2, 6>(few); }
extern "C" __global__ void __launch_bounds__(128) few_large(const Few few) { few_rows<2, 2, 4, 2, 5>(few); }
