// From logits to scores, tokens and gradients. A row of the vocabulary is walked in segments of a fixed length, and the
// segments are joined in a fixed order, so the sampler's score of a row is the trainer's.

#define SEGMENT 256
#define HEAD_THREADS 256

__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ u64 larger(u64 a, u64 b) { return max(a, b); }

// The largest of a block; every thread gets it. `room` holds one per warp.
template <int THREADS = HEAD_THREADS, class T>
__device__ __forceinline__ T block_max(T x, T *room) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) x = larger(x, __shfl_xor_sync(FULL, x, step));
    if ((threadIdx.x & 31) == 0) room[threadIdx.x >> 5] = x;
    __syncthreads();
    for (int i = 0; i < THREADS / 32; i++) x = larger(x, room[i]);
    __syncthreads();
    return x;
}

__device__ __forceinline__ bool is_allowed(const u64 *allowed, int id) { return !allowed || (allowed[id >> 6] >> (id & 63) & 1); }

__device__ __forceinline__ const u64 *row_mask(const int *masks, const u64 *bits, int n_words, int row) {
    return masks && masks[row] >= 0 ? bits + (i64)masks[row] * n_words : nullptr;
}

// Of a segment, by eight threads: the largest z and Σ e^(z - max); and Σ e^(z - max)·z.
__device__ __forceinline__ float2 part_of(const float *logits, int stride, int vocab, float inverse, const u64 *allowed, int part, int eighth,
                                          float *weighted) {
    int first = part * SEGMENT + 4 * eighth;
    float z[SEGMENT / 8], tops[4] = {NEVER, NEVER, NEVER, NEVER}, sum = 0.0f, by_z = 0.0f;
#pragma unroll
    for (int j = 0; j < SEGMENT / 32; j++) {
        float4 four = first + 32 * j < stride ? *(const float4 *)(logits + first + 32 * j) : make_float4(0, 0, 0, 0);
        z[4 * j] = four.x, z[4 * j + 1] = four.y, z[4 * j + 2] = four.z, z[4 * j + 3] = four.w;
    }
#pragma unroll
    for (int i = 0; i < SEGMENT / 8; i++) {
        int id = first + i / 4 * 32 + i % 4;
        z[i] = id < vocab && is_allowed(allowed, id) ? z[i] * inverse : NEVER;
        tops[i % 4] = fmaxf(tops[i % 4], z[i]);
    }
    float top = fmaxf(fmaxf(tops[0], tops[1]), fmaxf(tops[2], tops[3]));
#pragma unroll
    for (int step = 1; step < 8; step <<= 1) top = fmaxf(top, __shfl_xor_sync(FULL, top, step));
#pragma unroll
    for (int i = 0; i < SEGMENT / 8; i++) {
        float e = expf(z[i] - top);
        sum += e;
        by_z = fmaf(e, z[i], by_z);
    }
#pragma unroll
    for (int step = 1; step < 8; step <<= 1) {
        sum += __shfl_xor_sync(FULL, sum, step);
        by_z += __shfl_xor_sync(FULL, by_z, step);
    }
    // A segment without any id has nothing.
    bool some = top != NEVER;
    *weighted = some ? by_z : 0.0f;
    return make_float2(top, some ? sum : 0.0f);
}

// The same of each segment from `first_part` up to `last_part`; the last sum where it is asked for.
template <bool CUT>
__device__ __forceinline__ void parts_of(const float *logits, int stride, int vocab, const float *inverse_temperatures, const int *masks,
                                         const u64 *bits, int n_words, int first_part, int last_part, int n_parts, float2 *parts,
                                         float *weighted) {
    int row = blockIdx.y, eighth = threadIdx.x & 7, asked = first_part + blockIdx.x * (HEAD_THREADS / 8) + threadIdx.x / 8;
    int part = min(asked, last_part - 1);
    const u64 *allowed = row_mask(masks, bits, n_words, row);
    // Of a row that is not cut all is known already, and of a segment of which nothing is left, without looking.
    if (CUT) {
        if (!allowed) return;
        bool any = false;
        for (int i = part * (SEGMENT / 64); i < min(n_words, (part + 1) * (SEGMENT / 64)); i++) any |= allowed[i] != 0;
        if (!__any_sync(FULL, any)) {
            if (eighth == 0 && asked < last_part) {
                parts[(i64)row * n_parts + part] = make_float2(NEVER, 0.0f);
                if (weighted) weighted[(i64)row * n_parts + part] = 0.0f;
            }
            return;
        }
    }
    float by_z;
    float2 found = part_of(logits + (i64)row * stride, stride, vocab, inverse_temperatures[row], allowed, part, eighth, &by_z);
    if (eighth != 0 || asked >= last_part) return;
    parts[(i64)row * n_parts + part] = found;
    if (weighted) weighted[(i64)row * n_parts + part] = by_z;
}

extern "C" __global__ void head_parts(const float *logits, int stride, int vocab, const float *inverse_temperatures, const int *masks,
                                      const u64 *bits, int n_words, int first_part, int last_part, int n_parts, float2 *parts,
                                      float *weighted) {
    let_next_start();
    await_previous();
    parts_of<false>(logits, stride, vocab, inverse_temperatures, masks, bits, n_words, first_part, last_part, n_parts, parts, weighted);
}

// The same again, after rows have been cut.
extern "C" __global__ void head_parts_cut(const float *logits, int stride, int vocab, const float *inverse_temperatures, const int *masks,
                                          const u64 *bits, int n_words, int first_part, int last_part, int n_parts, float2 *parts,
                                          float *weighted) {
    let_next_start();
    await_previous();
    parts_of<true>(logits, stride, vocab, inverse_temperatures, masks, bits, n_words, first_part, last_part, n_parts, parts, weighted);
}

// Joins the segments of a row, by a block: the largest z and the sum of all e^(z - largest).
__device__ __forceinline__ void join(const float2 *parts, int n_parts, float *room, float *top, float *sum) {
    float largest = NEVER, all = 0.0f;
    for (int i = threadIdx.x; i < n_parts; i += HEAD_THREADS) largest = fmaxf(largest, parts[i].x);
    largest = block_max(largest, room);
    for (int i = threadIdx.x; i < n_parts; i += HEAD_THREADS) all = fmaf(parts[i].y, expf(parts[i].x - largest), all);
    *top = largest;
    *sum = block_sum(all, room);
}

// Log-probability, entropy and log-normaliser of each row's target; one block per row.
extern "C" __global__ void head_scores(const float *logits, int stride, const float2 *parts, const float *weighted, int n_parts,
                                       const u32 *targets, const float *inverse_temperatures, float *scores) {
    __shared__ float room[32];
    i64 row = blockIdx.x;
    parts += row * n_parts, weighted += row * n_parts;
    float top, sum, all = 0.0f;
    join(parts, n_parts, room, &top, &sum);
    for (int i = threadIdx.x; i < n_parts; i += HEAD_THREADS) all = fmaf(weighted[i], expf(parts[i].x - top), all);
    all = block_sum(all, room);
    if (threadIdx.x != 0) return;
    float log_norm = top + logf(sum), z = __fmul_rn(logits[row * stride + targets[row]], inverse_temperatures[row]);
    scores[3 * row] = __fadd_rn(z, -log_norm);
    scores[3 * row + 1] = log_norm - all / sum;
    scores[3 * row + 2] = log_norm;
}

// dlogit = (g_lp·(1[target] - p) - g_H·p·(z - mean z)) / temperature, rounded for the products that follow.
extern "C" __global__ void head_gradient(const float *logits, int stride, int vocab, const u32 *targets, const float *inverse_temperatures,
                                         const int *masks, const u64 *bits, int n_words, const float *scores, const float *grads,
                                         u16 *out, int out_stride) {
    int row = blockIdx.y, id = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (id >= out_stride) return;
    const u64 *allowed = row_mask(masks, bits, n_words, row);
    float inverse = inverse_temperatures[row], entropy = scores[3 * row + 1], log_norm = scores[3 * row + 2];
    float by_logprob = grads[2 * row], by_entropy = grads[2 * row + 1], mean = log_norm - entropy, d[4];
    float4 four = id < stride ? *(const float4 *)(logits + (i64)row * stride + id) : make_float4(0, 0, 0, 0);
    float each[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        bool inside = id + i < vocab && is_allowed(allowed, id + i);
        float z = each[i] * inverse, p = inside ? expf(z - log_norm) : 0.0f, hit = id + i == targets[row] ? 1.0f : 0.0f;
        d[i] = id + i < vocab ? (by_logprob * (hit - p) - (inside ? by_entropy * p * (z - mean) : 0.0f)) * inverse : 0.0f;
    }
    *(uint2 *)(out + (i64)row * out_stride + id) = make_uint2(pack(d[0], d[1]), pack(d[2], d[3]));
}

// The engine's counter-based random numbers: a hash of (key of the stream, index).
__device__ __forceinline__ u64 finalise(u64 x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

__device__ __forceinline__ float uniform(u64 key, u64 index) {
    return (float)(finalise(key ^ finalise(index * 0x9e3779b97f4a7c15ull + key)) >> 40) / 16777216.0f;
}

__device__ __forceinline__ double uniform64(u64 key, u64 index) {
    return (double)(finalise(key ^ finalise(index * 0x9e3779b97f4a7c15ull + key)) >> 11) / 9007199254740992.0;
}

// Normal numbers of a stream, by Box and Muller.
extern "C" __global__ void normal(u64 key, float deviation, i64 len, float *out) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= len) return;
    double u = 1.0 - uniform64(key, 2 * i), v = uniform64(key, 2 * i + 1);
    out[i] = (float)(sqrt(-2.0 * log(u)) * cospi(2.0 * v)) * deviation;
}

// Where a running sum over threads passes u: the first thread at which it does, and the sum before it. Rounding may leave all of it just below
// u: then the last thread that has something, and a sum that passes nowhere.
struct Passed {
    int thread;
    float before;
};

// The running sum over a warp.
__device__ __forceinline__ float sum_upto(float own) {
    float upto = own;
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        float other = __shfl_up_sync(FULL, upto, step);
        if ((threadIdx.x & 31) >= step) upto += other;
    }
    return upto;
}

// What one of several warps has of it: who passes u, who has something, and the sum before the first who passes.
struct WarpPassed {
    u32 past, with;
    float before;
};

__device__ __forceinline__ WarpPassed pass_warp(float own, float upto, float before, float u) {
    u32 with = __ballot_sync(FULL, own > 0.0f), past = __ballot_sync(FULL, own > 0.0f && before + upto > u);
    return {past, with, __shfl_sync(FULL, before + upto - own, past ? __ffs(past) - 1 : 0)};
}

__device__ __forceinline__ Passed pass(const WarpPassed *warps, int n) {
    Passed found = {0, NEVER};
    for (int w = n - 1; w >= 0; w--)
        if (warps[w].past) found = {32 * w + __ffs(warps[w].past) - 1, warps[w].before};
    if (found.before != NEVER) return found;
    for (int w = 0; w < n; w++)
        if (warps[w].with) found.thread = 32 * w + 31 - __clz(warps[w].with);
    return found;
}

// The id at which the cumulative probability passes u, by segments and then inside one. One block per row, whose first warp learns it.
__device__ __forceinline__ int choose(const float *logits, int vocab, const float2 *parts, int n_parts, float inverse, const u64 *allowed,
                                      float log_norm, float u) {
    constexpr int WARPS = HEAD_THREADS / 32, IN_SEGMENT = SEGMENT / 4 / 32;
    __shared__ float sums[WARPS];
    __shared__ WarpPassed warps[WARPS];
    // Each thread has a stretch of the segments, then a few ids of one.
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, n_each = (n_parts + HEAD_THREADS - 1) / HEAD_THREADS, first = threadIdx.x * n_each;
    auto mass = [&](int i) { return parts[i].y * expf(parts[i].x - log_norm); };
    float own = 0.0f, before = 0.0f;
    for (int i = first; i < min(n_parts, first + n_each); i++) own += mass(i);
    float upto = sum_upto(own);
    if (lane == 31) sums[warp] = upto;
    __syncthreads();
    for (int w = 0; w < warp; w++) before += sums[w];
    WarpPassed of_warp = pass_warp(own, upto, before, u);
    if (lane == 0) warps[warp] = of_warp;
    __syncthreads();
    if (warp > 0) return 0;
    Passed at = pass(warps, WARPS);
    first = at.thread * n_each;
    int segment = first;
    float passed = at.before;
    before = passed;
    for (int i = first; i < min(n_parts, first + n_each); i++) {
        if (!(parts[i].y > 0.0f)) continue;
        segment = i, before = passed;
        passed += mass(i);
        if (passed > u) break;
    }
    // The first warp stands for as many as a segment has.
    float each[IN_SEGMENT][4];
    WarpPassed inside[IN_SEGMENT];
#pragma unroll
    for (int w = 0; w < IN_SEGMENT; w++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int id = segment * SEGMENT + (32 * w + lane) * 4 + i;
            each[w][i] = id < vocab && is_allowed(allowed, id) ? expf(logits[id] * inverse - log_norm) : 0.0f;
        }
#pragma unroll
    for (int w = 0; w < IN_SEGMENT; w++) {
        own = ((each[w][0] + each[w][1]) + each[w][2]) + each[w][3];
        upto = sum_upto(own);
        inside[w] = pass_warp(own, upto, before, u);
        before += __shfl_sync(FULL, upto, 31);
    }
    at = pass(inside, IN_SEGMENT);
    first = segment * SEGMENT + at.thread * 4;
    int chosen = first;
    bool goes_on = true;
    passed = at.before;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float p = 0.0f;
#pragma unroll
        for (int w = 0; w < IN_SEGMENT; w++) {
            float there = __shfl_sync(FULL, each[w][i], at.thread % 32);
            p = at.thread / 32 == w ? there : p;
        }
        if (!goes_on || first + i >= vocab || !is_allowed(allowed, first + i)) continue;
        chosen = first + i;
        passed += p;
        goes_on = !(passed > u);
    }
    return chosen;
}

// The lowest of the ids with the largest z, by one warp.
__device__ __forceinline__ int largest_of(const float *logits, int vocab, const float2 *parts, int n_parts, float inverse, const u64 *allowed,
                                          float top) {
    int lane = threadIdx.x & 31, segment = n_parts - 1, chosen = vocab;
    for (int i = lane; i < n_parts; i += 32)
        if (parts[i].x == top) segment = min(segment, i);
    segment = __reduce_min_sync(FULL, segment);
#pragma unroll
    for (int i = 0; i < SEGMENT; i += 32) {
        int id = segment * SEGMENT + i + lane;
        if (id < vocab && logits[id] * inverse == top && is_allowed(allowed, id)) chosen = min(chosen, id);
    }
    chosen = __reduce_min_sync(FULL, chosen);
    return chosen < vocab ? chosen : 0;
}

extern "C" __global__ void head_pick(const float *logits, int vocab, const float2 *parts, int n_parts, float inverse, const u64 *allowed,
                                     float log_norm, float u, u32 *out) {
    int id = choose(logits, vocab, parts, n_parts, inverse, allowed, log_norm, u);
    if (threadIdx.x == 0) out[0] = id;
}

// The token of a row: drawn with u, or the largest. One block per row, whose first warp learns it.
__device__ __forceinline__ int draw_row(const float *logits, int vocab, const float2 *parts, int n_parts, float inverse, const u64 *allowed,
                                        bool greedy, float u, float *logprob) {
    __shared__ float sums[HEAD_THREADS / 32];
    // As `join`, with as few turns of a block as there can be.
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, id;
    float top = NEVER, all = 0.0f, sum = 0.0f;
    for (int i = lane; i < n_parts; i += 32) top = fmaxf(top, parts[i].x);
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) top = fmaxf(top, __shfl_xor_sync(FULL, top, step));
    for (int i = threadIdx.x; i < n_parts; i += HEAD_THREADS) all = fmaf(parts[i].y, expf(parts[i].x - top), all);
    all = warp_sum(all);
    if (lane == 0) sums[warp] = all;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < HEAD_THREADS / 32; w++) sum += sums[w];
    float log_norm = top + logf(sum);
    if (!greedy) id = choose(logits, vocab, parts, n_parts, inverse, allowed, log_norm, u);
    else if (warp == 0) id = largest_of(logits, vocab, parts, n_parts, inverse, allowed, top);
    if (warp > 0) return 0;
    *logprob = __fadd_rn(__fmul_rn(logits[id], inverse), -log_norm);
    return id;
}

// One draw per block; asks: (row, greedy, u).
extern "C" __global__ void head_choose(const float *logits, int stride, int vocab, const float2 *parts, int n_parts,
                                       const float *inverse_temperatures, const int *masks, const u64 *bits, int n_words, const u32 *asks,
                                       u32 *out) {
    const u32 *ask = asks + 3 * blockIdx.x;
    i64 row = ask[0];
    float logprob;
    int id = draw_row(logits + row * stride, vocab, parts + row * n_parts, n_parts, inverse_temperatures[row],
                      row_mask(masks, bits, n_words, row), ask[1], __uint_as_float(ask[2]), &logprob);
    if (threadIdx.x == 0) out[2 * blockIdx.x] = id, out[2 * blockIdx.x + 1] = __float_as_uint(logprob);
}

// Larger for what is likelier, and of equals for the lower id; never 0.
__device__ __forceinline__ u64 ranked(float z, int id) {
    u32 bits = __float_as_uint(z + 0.0f), order = bits >> 31 ? ~bits : bits | 1u << 31;
    return (u64)order << 32 | (FULL - (u32)id);
}

// The likeliest ids of a row that may be drawn and their log-probabilities, one after the other: each time the segment with the largest z
// that is left, in it the id, and what is left of the segment then. One block per ask: (row, how many).
extern "C" __global__ void head_likeliest(const float *logits, int stride, int vocab, const float2 *parts, int n_parts,
                                          const float *inverse_temperatures, const int *masks, const u64 *bits, int n_words,
                                          const uint2 *asks, int n_max, uint2 *out) {
    extern __shared__ float tops[];
    __shared__ float room[32];
    __shared__ u64 largest[HEAD_THREADS / 32];
    i64 row = asks[blockIdx.x].x;
    const u64 *allowed = row_mask(masks, bits, n_words, row);
    float top, sum, inverse = inverse_temperatures[row];
    logits += row * stride, parts += row * n_parts, out += (i64)blockIdx.x * n_max;
    join(parts, n_parts, room, &top, &sum);
    float log_norm = top + logf(sum);
    for (int i = threadIdx.x; i < n_parts; i += HEAD_THREADS) tops[i] = parts[i].x;
    u64 last = ~0ull;
    for (int k = 0; k < n_max; k++) {
        __syncthreads();
        u64 best = 0;
        for (int i = threadIdx.x; i < n_parts && k < asks[blockIdx.x].y; i += HEAD_THREADS)
            if (tops[i] > NEVER) best = max(best, ranked(tops[i], i));
        best = block_max(best, largest);
        if (best == 0) {
            if (threadIdx.x == 0) out[k] = make_uint2(FULL, 0);
            continue;
        }
        int segment = FULL - (u32)best, id = segment * SEGMENT + threadIdx.x;
        float z = id < vocab && is_allowed(allowed, id) ? __fmul_rn(logits[id], inverse) : NEVER;
        u64 own = z > NEVER ? ranked(z, id) : 0;
        last = block_max(own < last ? own : 0, largest);
        u64 next = block_max(own < last ? own : 0, largest);
        if (own == last) out[k] = make_uint2(id, __float_as_uint(__fadd_rn(z, -log_norm)));
        if (threadIdx.x == 0 && next == 0) tops[segment] = NEVER;
        if (own == next && next != 0) tops[segment] = z;
    }
}

// Draws the next token of every sequence and moves the sequence on: its token, its position, its count of drawn tokens, its row of the
// stream.
__device__ __forceinline__ void draw_next(const float *logits, int stride, int vocab, const float2 *parts, int n_parts,
                                          const float *inverse_temperatures, const u64 *allowed, const u32 *greedy, const u64 *keys,
                                          u32 *ids, u32 *positions, u32 *n_drawn, uint2 *drawn, const u16 *table, int table_stride,
                                          int cols, float *stream) {
    __shared__ int chosen;
    i64 row = blockIdx.x;
    u32 position = positions[row] + 1;
    float logprob;
    int id = draw_row(logits + row * stride, vocab, parts + row * n_parts, n_parts, inverse_temperatures[row], allowed, greedy[row],
                      uniform(keys[row], position), &logprob);
    if (threadIdx.x == 0) {
        chosen = id;
        drawn[(i64)n_drawn[row] * gridDim.x + row] = make_uint2(id, __float_as_uint(logprob));
        ids[row] = id;
        positions[row] = position;
        n_drawn[row] += 1;
    }
    __syncthreads();
    embed_row(table, table_stride, cols, chosen, stream + row * cols);
}

extern "C" __global__ void head_draw(const float *logits, int stride, int vocab, const float2 *parts, int n_parts,
                                     const float *inverse_temperatures, const u32 *greedy, const u64 *keys, u32 *ids, u32 *positions,
                                     u32 *n_drawn, uint2 *drawn, const u16 *table, int table_stride, int cols, float *stream) {
    await_previous();
    draw_next(logits, stride, vocab, parts, n_parts, inverse_temperatures, nullptr, greedy, keys, ids, positions, n_drawn, drawn, table,
              table_stride, cols, stream);
}

// The same, from what may be drawn of each row.
extern "C" __global__ void head_draw_cut(const float *logits, int stride, int vocab, const float2 *parts, int n_parts,
                                         const float *inverse_temperatures, const u32 *greedy, const u64 *keys, u32 *ids, u32 *positions,
                                         u32 *n_drawn, uint2 *drawn, const u16 *table, int table_stride, int cols, float *stream,
                                         const int *masks, const u64 *bits, int n_words) {
    await_previous();
    draw_next(logits, stride, vocab, parts, n_parts, inverse_temperatures, row_mask(masks, bits, n_words, blockIdx.x), greedy, keys, ids,
              positions, n_drawn, drawn, table, table_stride, cols, stream);
}

#if __CUDA_ARCH__ >= 900
// The next token of one sequence from its logits in one launch: eight blocks find the parts of all segments, tell each other, draw the same,
// and the one that has the token's segment moves the sequence on.
#define DRAWERS 8

extern "C" __global__ void __cluster_dims__(DRAWERS) __launch_bounds__(HEAD_THREADS)
    head_draw_one(const float *logits, int stride, int vocab, int n_parts, const float *inverse_temperatures, const u32 *greedy, const u64 *keys,
                  u32 *ids, u32 *positions, u32 *n_drawn, uint2 *drawn, const u16 *table, int table_stride, int cols, float *stream) {
    extern __shared__ float2 all_parts[];
    __shared__ u64 told;
    __shared__ int chosen;
    u32 rank, barrier = shared_address(&told);
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        barrier_init(barrier, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        barrier_expect(barrier, n_parts * 8);
    }
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
    await_previous();
    // The next step's blocks come when all of this one's are gone, so that they are not where there happens to be room.
    let_next_start();
    float inverse = inverse_temperatures[0];
    u32 is_greedy = greedy[0], position = positions[0] + 1, n_before = n_drawn[0];
    float u = uniform(keys[0], position);
    int n_each = (n_parts + DRAWERS - 1) / DRAWERS, first = rank * n_each, end = min(n_parts, first + n_each);
    for (int part = first; part < end; part += HEAD_THREADS / 8) {
        int own = part + threadIdx.x / 8, eighth = threadIdx.x & 7;
        float by_z;
        float2 found = part_of(logits, stride, vocab, inverse, nullptr, min(own, end - 1), eighth, &by_z);
        // Nobody tells before all of its block have read what will be moved on.
        if (part == first) {
            asm volatile("" ::"r"(is_greedy), "r"(n_before), "f"(u) : "memory");
            __syncthreads();
        }
        u32 there, counted;
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(all_parts + own)), "r"(eighth));
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counted) : "r"(barrier), "r"(eighth));
        if (own < end)
            asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];"
                         ::"r"(there), "r"(__float_as_uint(found.x)), "r"(__float_as_uint(found.y)), "r"(counted)
                         : "memory");
    }
    barrier_wait(barrier, 0);
    float logprob;
    int id = draw_row(logits, vocab, all_parts, n_parts, inverse, nullptr, is_greedy, u, &logprob);
    if (threadIdx.x == 0) {
        bool is_own = id / SEGMENT / n_each == rank;
        chosen = is_own ? id : -1;
        if (is_own) {
            drawn[n_before] = make_uint2(id, __float_as_uint(logprob));
            ids[0] = id, positions[0] = position, n_drawn[0] = n_before + 1;
        }
    }
    __syncthreads();
    if (chosen >= 0) embed_row(table, table_stride, cols, chosen, stream);
}
#endif
