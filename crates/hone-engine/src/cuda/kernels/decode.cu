// The steps of decoding that are only there: what a row's products become before attention, in one pass.

// Bias, norm per head, rotation; queries are kept in bf16, keys and values go to their pages. One warp per (row, head); heads
// of a row are its query heads, its key heads, its value heads. Norm and rotation are those of `norm` and `rope`, bit for bit.
extern "C" __global__ void enter(const float *qkv, const float *q_bias, const float *k_bias, const float *v_bias, const float *q_gain,
                                 const float *k_gain, float eps, const float *angles, const u32 *positions, const u32 *pages,
                                 int n_pages_max, int n_heads, int n_kv_heads, int head_dim, int width, u16 *q, u16 *keys, u16 *values) {
    __shared__ float room[4][256];
    let_next_start();
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, head = blockIdx.y * 4 + warp, n_all = n_heads + 2 * n_kv_heads;
    if (head >= n_all) return;
    // Positions and pages were there before this step began.
    i64 row = blockIdx.x;
    u32 position = positions[row];
    i64 page = pages[row * n_pages_max + position / PAGE];
    bool is_query = head < n_heads, is_key = !is_query && head < n_heads + n_kv_heads;
    int kv_head = head - n_heads - (is_key ? 0 : n_kv_heads), half = head_dim / 2;
    const float *bias = is_query ? q_bias + head * head_dim : (is_key ? k_bias : v_bias) + kv_head * head_dim;
    const float *angle = angles + (i64)position * head_dim, *from = qkv + (row * n_all + head) * head_dim;
    u16 *to = is_query ? q + (row * n_heads + head) * width
                       : (is_key ? keys : values) + ((page * n_kv_heads + kv_head) * PAGE + position % PAGE) * width;
    float *x = room[warp], cosines[4], sines[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        int i = lane + 32 * j;
        cosines[j] = i < half ? angle[i] : 0.0f, sines[j] = i < half ? angle[half + i] : 0.0f;
    }
    await_previous();
#pragma unroll
    for (int j = 0; j < 8; j++) {
        int i = lane + 32 * j;
        if (i < head_dim) x[i] = q_bias ? from[i] + bias[i] : from[i];
    }
    __syncwarp();
    const float *gain = is_query ? q_gain : is_key ? k_gain : nullptr;
    if (gain) {
        float sum = 0.0f;
        for (int i = lane; i < head_dim; i += 32) sum = fmaf(x[i], x[i], sum);
        float inverse = rsqrtf(warp_sum(sum) / (float)head_dim + eps);
        for (int i = lane; i < head_dim; i += 32) x[i] = x[i] * inverse * gain[i];
        __syncwarp();
    }
    if (is_query || is_key) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int i = lane + 32 * j;
            if (i >= half) continue;
            float first, second;
            rotate(x[i], x[i + half], cosines[j], sines[j], &first, &second);
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
__device__ __forceinline__ void few_rows(const Few &few) {
    constexpr int ROWS = MT * 16 * WM, SPAN = NT * 8, STAGE = (ROWS + TILE_COLS) * ROW * 2;
    constexpr int LINES = WM * WN * 4, X_EACH = ROWS / LINES, W_EACH = TILE_COLS / LINES;
    static_assert(X_EACH * LINES == ROWS, "every thread fetches the same number of rows");
    extern __shared__ uint4 memory[];
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
    int warp_row = (warp / WN) * MT * 16, warp_col = (warp % WN) * SPAN, row0 = blockIdx.y * ROWS;
    const bool gate = few.mode == GATE;
    const int n_rows = few.rows, n = few.n, half = n / 2, stride = few.w_stride, rank = few.rank;
    const int col0 = blockIdx.x * (gate ? TILE_COLS / 2 : TILE_COLS), n_steps = (few.k + DEPTH - 1) / DEPTH;

    // The weight's row behind a column of the tile. With a gate, each warp has as many gates as their ups, gates first.
    auto weight_row = [&](int col) {
        if (!gate) return col0 + col < n ? col0 + col : -1;
        int at = col0 + col / SPAN * (SPAN / 2) + col % (SPAN / 2);
        return at >= half ? -1 : at + (col % SPAN >= SPAN / 2 ? half : 0);
    };
    // Each thread fetches the same eighth of the same rows in every step.
    const int part = threadIdx.x % 8 * 8, line = threadIdx.x / 8;
    const u16 *w_from[W_EACH], *x_from[X_EACH];
    bool w_there[W_EACH], x_there[X_EACH];
#pragma unroll
    for (int j = 0; j < W_EACH; j++) {
        int row = weight_row(line + LINES * j);
        w_there[j] = row >= 0, w_from[j] = few.w + (i64)max(row, 0) * stride + part;
    }
#pragma unroll
    for (int j = 0; j < X_EACH; j++) {
        int row = row0 + line + LINES * j;
        x_there[j] = row < n_rows, x_from[j] = few.x + (i64)min(row, n_rows - 1) * few.x_stride + part;
    }
    const u32 base = shared_address(memory), x_to = base + (line * ROW + part) * 2, w_to = x_to + ROWS * ROW * 2;
    auto fetch_weights = [&](int step, int slot) {
        bool inside = step * DEPTH + part < stride;
#pragma unroll
        for (int j = 0; j < W_EACH; j++) fetch16_at(w_to + slot * STAGE + j * 2 * LINES * ROW, w_from[j] + step * DEPTH, inside && w_there[j]);
    };
    auto fetch_rows = [&](int step, int slot) {
        bool inside = step * DEPTH + part < stride;
#pragma unroll
        for (int j = 0; j < X_EACH; j++) fetch16_at(x_to + slot * STAGE + j * 2 * LINES * ROW, x_from[j] + step * DEPTH, inside && x_there[j]);
    };

    let_next_start();
#pragma unroll
    for (int step = 0; step < STAGES - 1; step++)
        if (step < n_steps) fetch_weights(step, step);
    // Where this thread's results go, and what is there.
    int outs[NT], tile_rows[MT][2];
    float2 old[MT][NT][2];
#pragma unroll
    for (int t = 0; t < NT; t++) {
        int out = weight_row(warp_col + t * 8);
        outs[t] = out < 0 ? -1 : out + quad * 2;
    }
    await_previous();
#pragma unroll
    for (int step = 0; step < STAGES - 1; step++) {
        if (step < n_steps) fetch_rows(step, step);
        fetch_commit();
    }
#pragma unroll
    for (int m = 0; m < MT; m++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int row = row0 + warp_row + m * 16 + group + 8 * i;
            tile_rows[m][i] = row < n_rows ? row : -1;
#pragma unroll
            for (int t = 0; t < NT; t++) {
                bool wanted = few.mode == ADD && row < n_rows && outs[t] >= 0;
                old[m][t][i] = wanted ? *(const float2 *)(few.y + (i64)row * few.y_stride + outs[t]) : make_float2(0.0f, 0.0f);
            }
        }
    }

    float sums[MT][NT][4] = {};
    const u32 left = base + ((warp_row + (lane & 15)) * ROW + (lane >> 4) * 8) * 2;
    const u32 right = base + ((ROWS + warp_col + (lane & 7) + ((lane >> 4) << 3)) * ROW + ((lane >> 3) & 1) * 8) * 2;
    for (int step = 0, slot = 0, next_slot = STAGES - 1; step < n_steps; step++) {
        fetch_wait<STAGES - 2>();
        __syncthreads();
        u32 a[2][MT][4], b[2][NT / 2][4];
        auto load = [&](int k) {
#pragma unroll
            for (int m = 0; m < MT; m++) load4_at(a[k & 1][m], left + slot * STAGE + m * 32 * ROW + k * 32);
#pragma unroll
            for (int t = 0; t < NT / 2; t++) load4_at(b[k & 1][t], right + slot * STAGE + t * 32 * ROW + k * 32);
        };
        load(0);
        if (step + STAGES - 1 < n_steps) fetch_weights(step + STAGES - 1, next_slot), fetch_rows(step + STAGES - 1, next_slot);
        fetch_commit();
#pragma unroll
        for (int k = 0; k < DEPTH / 16; k++) {
            if (k + 1 < DEPTH / 16) load(k + 1);
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int t = 0; t < NT; t++) multiply(sums[m][t], a[k & 1][m], b[k & 1][t / 2] + t % 2 * 2);
        }
        slot = slot + 1 == STAGES ? 0 : slot + 1;
        next_slot = next_slot + 1 == STAGES ? 0 : next_slot + 1;
    }

    // The low-rank part is a product of its own, added last, as the general pass does.
    float low[MT][NT][4] = {};
    if (rank) {
#pragma unroll
        for (int t = 0; t < NT; t++) {
            int loaded = weight_row(warp_col + t * 8 + group);
            int which = loaded < few.stretches[0].end ? 0 : loaded < few.stretches[1].end ? 1 : 2;
            const u16 *b_all = which == 0 ? few.stretches[0].b : which == 1 ? few.stretches[1].b : few.stretches[2].b;
            int from = which == 0 ? few.stretches[0].from : which == 1 ? few.stretches[1].from : few.stretches[2].from;
            int start = which == 0 ? 0 : which == 1 ? few.stretches[0].end : few.stretches[1].end;
            for (int k = 0; k < rank; k += 16) {
                u32 b[2] = {0, 0};
                if (loaded >= 0) {
                    const u16 *at = b_all + (i64)(loaded - start) * rank + k + quad * 2;
                    b[0] = *(const u32 *)at, b[1] = *(const u32 *)(at + 8);
                }
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    u32 a[4];
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        int row = tile_rows[m][j & 1];
                        const u16 *at = few.low + (i64)row * few.low_stride + from + k + quad * 2 + (j >> 1) * 8;
                        a[j] = row >= 0 ? *(const u32 *)at : 0;
                    }
                    multiply(low[m][t], a, b);
                }
            }
        }
    }
#pragma unroll
    for (int m = 0; m < MT; m++) {
#pragma unroll
        for (int t = 0; t < NT; t++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int row = tile_rows[m][i], out = outs[t];
                if (row < 0 || out < 0) continue;
                float x = sums[m][t][2 * i], y = sums[m][t][2 * i + 1];
                if (few.mode == ROUND) {
                    *(u32 *)(few.act + (i64)row * few.y_stride + out) = pack(x * few.scale, y * few.scale);
                    continue;
                }
                if (few.mode == ADD) x = __fadd_rn(old[m][t][i].x, x), y = __fadd_rn(old[m][t][i].y, y);
                if (rank) x = __fadd_rn(x, low[m][t][2 * i]), y = __fadd_rn(y, low[m][t][2 * i + 1]);
                sums[m][t][2 * i] = x, sums[m][t][2 * i + 1] = y;
                if (!gate) *(float2 *)(few.y + (i64)row * few.y_stride + out) = make_float2(x, y);
            }
        }
    }
    if (!gate) return;
#pragma unroll
    for (int m = 0; m < MT; m++) {
#pragma unroll
        for (int t = 0; t < NT / 2; t++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int row = tile_rows[m][i];
                if (row < 0 || outs[t] < 0) continue;
                const float *g = sums[m][t] + 2 * i, *u = sums[m][t + NT / 2] + 2 * i;
                *(u32 *)(few.act + (i64)row * few.y_stride + outs[t]) = pack(gated(g[0], u[0]), gated(g[1], u[1]));
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(128) few_small(const Few few) { few_rows<1, 1, 2, 4, 8>(few); }
extern "C" __global__ void __launch_bounds__(128) few_middle(const Few few) { few_rows<1, 2, 4, 2, 6>(few); }
extern "C" __global__ void __launch_bounds__(128) few_large(const Few few) { few_rows<2, 2, 4, 2, 5>(few); }
