// Products of few rows, as decoding needs them.

// y = x·wᵀ by the tensor cores, sixteen steps of the inner dimension after the other: the sums of the library's algorithms, to
// the bit (which is checked before it is relied on). Tiles are small, so that few rows keep many multiprocessors busy; weights
// are fetched before the kernel that makes x is done; and what is before and behind a product is done with it: the norm of
// its input, the low-rank part of an adapter, the gate, the sum with what is there.

#define DEPTH 64
#define ROW (DEPTH + 8)

// Columns of a tile beyond its own, for the low-rank parts of one rank-16 adapter (two of them with a gate).
#define EXTRA 32
#define LOW_ROW (EXTRA + 8)

// A stretch of the outputs and its adapter: outputs before `end`, the adapter's b, where its low part begins in a row.
struct Stretch {
    const u16 *b;
    int end, from;
};

// The input is `x`, or the norm of `stream`. The low-rank part comes from `low`, or is computed here with `a`. Of inputs that are summed in
// parts, a part and a run of it have so many steps of DEPTH.
struct Few {
    const u16 *x, *w, *low, *a;
    const float *stream, *gain;
    float *y;
    u16 *act;
    Stretch stretches[3];
    int rows, n, k, x_stride, w_stride, y_stride, mode, rank, low_stride, n_each;
    float scale, eps;
    int part, run;
};

// Rows of the stream to shared memory, normed and rounded as `norm_act` does: a warp has a row, two at a time.
template <int WARPS>
__device__ __forceinline__ void norm_rows_into(u16 *to, int pitch, const Few &few, int row0, int n_here) {
    int lane = threadIdx.x & 31, fours = few.k / 4;
    float4 g[HELD];
#pragma unroll
    for (int j = 0; j < HELD; j++) g[j] = lane + 32 * j < fours ? ((const float4 *)few.gain)[lane + 32 * j] : make_float4(0, 0, 0, 0);
    await_previous();
    for (int row = threadIdx.x >> 5; row < n_here; row += 2 * WARPS) {
        float4 v[2][HELD];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float4 *from = (const float4 *)(few.stream + (i64)(row0 + min(row + r * WARPS, n_here - 1)) * few.k);
#pragma unroll
            for (int j = 0; j < HELD; j++) v[r][j] = lane + 32 * j < fours ? from[lane + 32 * j] : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < HELD; j++) sum = dot4(v[r][j], v[r][j], sum);
            float inverse = rsqrtf(warp_sum(sum) / (float)few.k + few.eps);
            if (row + r * WARPS >= n_here) continue;
            u16 *out = to + (row + r * WARPS) * pitch;
#pragma unroll
            for (int j = 0; j < HELD; j++) {
                int i = lane + 32 * j;
                if (4 * i >= pitch) continue;
                float4 w = make_float4(v[r][j].x * inverse * g[j].x, v[r][j].y * inverse * g[j].y, v[r][j].z * inverse * g[j].z,
                                       v[r][j].w * inverse * g[j].w);
                *(uint2 *)(out + 4 * i) = make_uint2(pack(w.x, w.y), pack(w.z, w.w));
            }
        }
    }
    // A row of zeros stands for all rows that are not there.
    for (int i = threadIdx.x; i < pitch / 2; i += WARPS * 32) ((u32 *)(to + n_here * pitch))[i] = 0;
}

// WM by WN warps, each MT tiles of sixteen rows by NT tiles of eight columns. PARTS: each run of the inner dimension is summed by itself; the
// runs of a part are added one after the other, and the parts one after the other to what is there. The low-rank part has no parts.
template <int MT, int WM, int NT, int WN, int STAGES, bool NORMED, bool LOW, bool PARTS>
__device__ __forceinline__ void few_rows(const Few &few) {
    constexpr int ROWS = MT * 16 * WM, SPAN = NT * 8, COLS = SPAN * WN, FETCHED = COLS + (LOW ? EXTRA : 0);
    constexpr int STAGE = ((NORMED ? 0 : ROWS) + FETCHED) * ROW * 2, LINES = WM * WN * 4, LT = LOW ? EXTRA / 8 / WN : 1;
    constexpr int X_EACH = ROWS / LINES, W_EACH = COLS / LINES, L_EACH = LOW ? EXTRA / LINES : 1;
    static_assert(X_EACH * LINES == ROWS && W_EACH * LINES == COLS && (!LOW || L_EACH * LINES == EXTRA), "every thread fetches the same");
    static_assert(!PARTS || !NORMED, "parts have no norm, and no gate");
    extern __shared__ uint4 memory[];
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
    int warp_row = (warp / WN) * MT * 16, warp_part = warp % WN, warp_col = warp_part * SPAN, row0 = blockIdx.y * ROWS;
    const bool gate = !PARTS && few.mode == GATE;
    const int n_rows = few.rows, limit = gate ? few.n / 2 : few.n, stride = few.w_stride, rank = few.rank;
    const int step_cols = gate ? COLS / 2 : COLS, n_steps = (few.k + DEPTH - 1) / DEPTH, first_tile = blockIdx.x * few.n_each;
    const int n_tiles = NORMED ? min(few.n_each, (limit + step_cols - 1) / step_cols - first_tile) : 1;
    int n_extra = LOW ? (gate ? 2 * rank : rank) : 0;

    // The output behind a column of a tile; ups stand `limit` behind their gates. With a gate, each warp has as many gates as their
    // ups, gates first.
    auto place = [&](int col) { return gate ? col / SPAN * (SPAN / 2) + col % (SPAN / 2) : col; };
    auto is_up = [&](int col) { return gate && col % SPAN >= SPAN / 2; };
    auto stretch_of = [&](int out) { return out < few.stretches[0].end ? 0 : out < few.stretches[1].end ? 1 : 2; };
    // Each thread fetches the same eighth of the same rows in every step, by pointers that move on.
    const int part = threadIdx.x % 8 * 8, line = threadIdx.x / 8;
    const u32 base = shared_address(memory);
    const int n_here = min(ROWS, n_rows - row0), pitch = n_steps * DEPTH + 8;
    const u32 low_at = base + (NORMED ? (n_here + 1) * pitch * 2 : 0), ring = low_at + (LOW ? ROWS * LOW_ROW * 2 : 0);
    const u32 x_to = ring + (line * ROW + part) * 2, w_to = x_to + (NORMED ? 0 : ROWS * ROW * 2), l_to = w_to + COLS * ROW * 2;
    const u16 *w_from[W_EACH], *x_from[X_EACH], *l_from[L_EACH];
    bool w_there[W_EACH], x_there[X_EACH], l_there[L_EACH];
    int next_tile = 0, next_step = 0, x_step = 0;
    auto begin_tile = [&]() {
        int first = (first_tile + next_tile) * step_cols;
#pragma unroll
        for (int j = 0; j < W_EACH; j++) {
            int col = line + LINES * j, out = first + place(col);
            w_there[j] = out < limit, w_from[j] = few.w + (w_there[j] ? (i64)(out + (is_up(col) ? limit : 0)) * stride : 0) + part;
        }
        if (!LOW) return;
        int from = gate ? 0 : stretch_of(first) * rank;
#pragma unroll
        for (int j = 0; j < L_EACH; j++) {
            int col = line + LINES * j;
            l_there[j] = col < n_extra && (next_tile == 0 || !gate), l_from[j] = few.a + (l_there[j] ? (i64)(from + col) * stride : 0) + part;
        }
    };
    begin_tile();
#pragma unroll
    for (int j = 0; j < X_EACH; j++) {
        int row = line + LINES * j;
        x_there[j] = row < n_here, x_from[j] = few.x + (x_there[j] ? (i64)(row0 + row) * few.x_stride : 0) + part;
    }
    auto fetch_weights = [&](u32 to) {
        bool inside = next_step * DEPTH + part < stride;
#pragma unroll
        for (int j = 0; j < W_EACH; j++) fetch16_at(w_to + to + j * 2 * LINES * ROW, w_from[j], inside && w_there[j]), w_from[j] += DEPTH;
        if (LOW)
#pragma unroll
            for (int j = 0; j < L_EACH; j++) fetch16_at(l_to + to + j * 2 * LINES * ROW, l_from[j], inside && l_there[j]), l_from[j] += DEPTH;
        if (++next_step < n_steps) return;
        next_step = 0, next_tile++;
        if (NORMED && next_tile < n_tiles) begin_tile();
    };
    auto fetch_rows = [&](u32 to) {
        bool inside = x_step++ * DEPTH + part < stride;
#pragma unroll
        for (int j = 0; j < X_EACH; j++) fetch16_at(x_to + to + j * 2 * LINES * ROW, x_from[j], inside && x_there[j]), x_from[j] += DEPTH;
    };

    let_next_start();
#pragma unroll
    for (int slot = 0; slot < STAGES - 1; slot++) {
        if (next_tile < n_tiles) fetch_weights(slot * STAGE);
        if (NORMED) fetch_commit();
    }
    int tile_rows[MT][2];
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int row = warp_row + m * 16 + group + 8 * i;
            tile_rows[m][i] = row < n_here ? row0 + row : -1;
        }
    u32 left = ring + ((warp_row + (lane & 15)) * ROW + (lane >> 4) * 8) * 2;
    u32 lefts[MT];
    float2 old[MT][NT][2];
    if (NORMED) {
        norm_rows_into<WM * WN>((u16 *)memory, pitch, few, row0, n_here);
#pragma unroll
        for (int m = 0; m < MT; m++) lefts[m] = base + (min(warp_row + m * 16 + (lane & 15), n_here) * pitch + (lane >> 4) * 8) * 2;
    } else {
        await_previous();
#pragma unroll
        for (int step = 0; step < STAGES - 1; step++) {
            if (step < n_steps) fetch_rows(step * STAGE);
            fetch_commit();
        }
#pragma unroll
        for (int m = 0; m < MT; m++) {
            lefts[m] = left + m * 32 * ROW;
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int t = 0; t < NT; t++) {
                    int row = tile_rows[m][i], out = first_tile * step_cols + warp_col + t * 8 + quad * 2;
                    bool wanted = few.mode == ADD && row >= 0 && out < limit;
                    old[m][t][i] = wanted ? *(const float2 *)(few.y + (i64)row * few.y_stride + out) : make_float2(0.0f, 0.0f);
                }
        }
    }
    const int right_row = (NORMED ? 0 : ROWS) + (lane & 7) + ((lane >> 4) << 3);
    const u32 right = ring + ((right_row + warp_col) * ROW + ((lane >> 3) & 1) * 8) * 2;
    // Two tiles of eight columns at a time, or one: then the other half of the lanes give addresses that are not used.
    const u32 right_low = ring + ((right_row + COLS + warp_part * LT * 8 - (LT == 1 ? (lane >> 4) << 3 : 0)) * ROW + ((lane >> 3) & 1) * 8) * 2;

    u32 slot = 0, free_slot = (STAGES - 1) * STAGE, a[2][MT][4], b[2][NT / 2][4], c[2][(LT + 1) / 2][4];
    auto load = [&](int k, int step, bool low) {
#pragma unroll
        for (int m = 0; m < MT; m++) load4_at(a[k & 1][m], lefts[m] + (NORMED ? step * DEPTH * 2 : slot) + k * 32);
#pragma unroll
        for (int t = 0; t < NT / 2; t++) load4_at(b[k & 1][t], right + slot + t * 32 * ROW + k * 32);
        if (LOW && low)
#pragma unroll
            for (int t = 0; t < (LT + 1) / 2; t++) load4_at(c[k & 1][t], right_low + slot + t * 32 * ROW + k * 32);
    };
    fetch_wait<STAGES - 2>();
    __syncthreads();
    load(0, 0, true);
    for (int tile = 0; tile < n_tiles; tile++) {
        const int first = (first_tile + tile) * step_cols;
        const bool with_low = LOW && (tile == 0 || !gate);
        float sums[MT][NT][4] = {}, lows[MT][LT][4] = {};
        // The runs of a part that are done. What begins as -0 becomes the first that is added, to the bit.
        float of_part[MT][NT][4];
        auto each_sum = [&](auto then) {
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int t = 0; t < NT; t++)
#pragma unroll
                    for (int i = 0; i < 4; i++) then(sums[m][t][i], of_part[m][t][i], i % 2 ? old[m][t][i / 2].y : old[m][t][i / 2].x);
        };
        // Adds a run to its part; the next one begins with zero. Then a whole part to what is there.
        auto add_run = [&]() { each_sum([](float &sum, float &part, float &) { part = __fadd_rn(part, sum), sum = 0.0f; }); };
        auto add_part = [&]() { each_sum([](float &, float &part, float &there) { there = __fadd_rn(there, part), part = -0.0f; }); };
        if (PARTS) each_sum([](float &, float &part, float &) { part = -0.0f; });
        // The adapter's b, asked for before it is needed.
        u32 behind[NT][2];
        auto load_behind = [&](int t, int k, u32 *b) {
            int col = warp_col + t * 8 + group, out = first + place(col);
            b[0] = 0, b[1] = 0;
            if (out >= limit) return;
            int which = gate ? is_up(col) : stretch_of(out), start = which == 0 ? 0 : few.stretches[which == 1 ? 0 : 1].end;
            const u16 *b_all = which == 0 ? few.stretches[0].b : which == 1 ? few.stretches[1].b : few.stretches[2].b;
            const u16 *at = b_all + (i64)(out + (is_up(col) ? limit : 0) - start) * rank + k + quad * 2;
            b[0] = *(const u32 *)at, b[1] = *(const u32 *)(at + 8);
        };
        if (rank)
#pragma unroll
            for (int t = 0; t < NT; t++) load_behind(t, 0, behind[t]);
        int run_end = few.run, part_end = few.part;
        for (int step = 0; step < n_steps; step++) {
            // The stage of the step before this one is free, and the next step's first part is loaded during this one's last.
            if (next_tile < n_tiles) {
                fetch_weights(free_slot);
                if (!NORMED) fetch_rows(free_slot);
            }
            fetch_commit();
            if (PARTS && step == run_end) {
                add_run();
                if (step == part_end) add_part(), part_end += few.part;
                run_end += few.run;
            }
#pragma unroll
            for (int k = 0; k < DEPTH / 16; k++) {
                if (k + 1 < DEPTH / 16) {
                    load(k + 1, step, with_low);
                } else {
                    free_slot = slot;
                    slot = slot == (STAGES - 1) * STAGE ? 0 : slot + STAGE;
                    bool ends = step + 1 == n_steps;
                    if (!ends || tile + 1 < n_tiles) {
                        fetch_wait<STAGES - 2>();
                        __syncthreads();
                        load(0, ends ? 0 : step + 1, ends ? !gate : with_low);
                    }
                }
#pragma unroll
                for (int m = 0; m < MT; m++) {
#pragma unroll
                    for (int t = 0; t < NT; t++) multiply(sums[m][t], a[k & 1][m], b[k & 1][t / 2] + t % 2 * 2);
                    if (LOW && with_low)
#pragma unroll
                        for (int t = 0; t < LT; t++) multiply(lows[m][t], a[k & 1][m], c[k & 1][t / 2] + t % 2 * 2);
                }
            }
        }

        // The last part is added to what is there as any sums are.
        if (PARTS) each_sum([](float &sum, float &part, float &) { sum = __fadd_rn(part, sum); });

        // The low-rank part is a product of its own, added last, as the general pass does.
        float added[MT][NT][4] = {};
        if (LOW && with_low) {
            // Of a single step, nobody waited for those who still read what the tile before left here.
            if (tile > 0 && n_steps == 1) __syncthreads();
            u16 *room = (u16 *)((char *)memory + (low_at - base));
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int t = 0; t < LT; t++)
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        u16 *at = room + (warp_row + m * 16 + group + 8 * i) * LOW_ROW + (warp_part * LT + t) * 8 + quad * 2;
                        *(u32 *)at = pack(lows[m][t][2 * i] * few.scale, lows[m][t][2 * i + 1] * few.scale);
                    }
            __syncthreads();
        }
        if (rank) {
#pragma unroll
            for (int t = 0; t < NT; t++) {
                int col = warp_col + t * 8, which = gate ? is_up(col) : stretch_of(first + place(col));
                int from = which == 0 ? few.stretches[0].from : which == 1 ? few.stretches[1].from : few.stretches[2].from;
                for (int k = 0; k < rank; k += 16) {
                    if (k) load_behind(t, k, behind[t]);
#pragma unroll
                    for (int m = 0; m < MT; m++) {
                        u32 a[4];
                        if (LOW) {
                            load4_at(a, low_at + ((warp_row + m * 16 + (lane & 15)) * LOW_ROW + (gate && which ? rank : 0) + k + (lane >> 4) * 8) * 2);
                        } else {
#pragma unroll
                            for (int j = 0; j < 4; j++) {
                                int row = tile_rows[m][j & 1];
                                const u16 *at = few.low + (i64)row * few.low_stride + from + k + quad * 2 + (j >> 1) * 8;
                                a[j] = row >= 0 ? *(const u32 *)at : 0;
                            }
                        }
                        multiply(added[m][t], a, behind[t]);
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
                    int row = tile_rows[m][i], out = first + warp_col + t * 8 + quad * 2;
                    float x = sums[m][t][2 * i], y = sums[m][t][2 * i + 1];
                    if (few.mode == ROUND) {
                        if (row >= 0 && out < limit)
                            *(u32 *)(few.act + (i64)row * few.y_stride + out) = pack(x * few.scale, y * few.scale);
                        continue;
                    }
                    if (!NORMED && few.mode == ADD) x = __fadd_rn(old[m][t][i].x, x), y = __fadd_rn(old[m][t][i].y, y);
                    if (rank) x = __fadd_rn(x, added[m][t][2 * i]), y = __fadd_rn(y, added[m][t][2 * i + 1]);
                    sums[m][t][2 * i] = x, sums[m][t][2 * i + 1] = y;
                    if (!gate && row >= 0 && out < limit) *(float2 *)(few.y + (i64)row * few.y_stride + out) = make_float2(x, y);
                }
            }
        }
        if (!gate) continue;
#pragma unroll
        for (int m = 0; m < MT; m++) {
#pragma unroll
            for (int t = 0; t < NT / 2; t++) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    int row = tile_rows[m][i], out = first + warp_part * (SPAN / 2) + t * 8 + quad * 2;
                    if (row < 0 || out >= limit) continue;
                    const float *g = sums[m][t] + 2 * i, *u = sums[m][t + NT / 2] + 2 * i;
                    *(u32 *)(few.act + (i64)row * few.y_stride + out) = pack(gated(g[0], u[0]), gated(g[1], u[1]));
                }
            }
        }
    }
}

#define FEW_AS(NAME, MT, WM, NT, WN, STAGES, NORMED, LOW, PARTS) \
    extern "C" __global__ void __launch_bounds__(WM *WN * 32) NAME(const Few few) { few_rows<MT, WM, NT, WN, STAGES, NORMED, LOW, PARTS>(few); }

#define FEW(NAME, MT, WM, NT, WN, STAGES)                                   \
    FEW_AS(NAME, MT, WM, NT, WN, STAGES, false, false, false)               \
    FEW_AS(NAME##_low, MT, WM, NT, WN, STAGES, false, true, false)          \
    FEW_AS(NAME##_normed, MT, WM, NT, WN, STAGES, true, false, false)       \
    FEW_AS(NAME##_normed_low, MT, WM, NT, WN, STAGES, true, true, false)    \
    FEW_AS(NAME##_parts, MT, WM, NT, WN, STAGES, false, false, true)        \
    FEW_AS(NAME##_parts_low, MT, WM, NT, WN, STAGES, false, true, true)

FEW(few_small, 1, 1, 2, 2, 10)
FEW(few_narrow, 1, 2, 2, 2, 8)
FEW(few_middle, 1, 2, 2, 4, 5)
FEW(few_large, 2, 2, 2, 4, 5)
