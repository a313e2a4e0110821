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

// Of each segment from `first_part` up to `last_part`, by eight threads: the largest z and Σ e^(z - max); and Σ e^(z - max)·z where that is
// asked for.
template <bool CUT>
__device__ __forceinline__ void parts_of(const float *logits, int stride, int vocab, const float *inverse_temperatures, const int *masks,
                                         const u64 *bits, int n_words, int first_part, int last_part, int n_parts, float2 *parts,
                                         float *weighted) {
    int row = blockIdx.y, eighth = threadIdx.x & 7, asked = first_part + blockIdx.x * (HEAD_THREADS / 8) + threadIdx.x / 8;
    int part = min(asked, last_part - 1), first = part * SEGMENT + 4 * eighth;
    const u64 *allowed = row_mask(masks, bits, n_words, row);
    float inverse = inverse_temperatures[row], z[SEGMENT / 8], top = NEVER, sum = 0.0f, by_z = 0.0f;
    logits += (i64)row * stride;
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
#pragma unroll
    for (int j = 0; j < SEGMENT / 32; j++) {
        float4 four = first + 32 * j < stride ? *(const float4 *)(logits + first + 32 * j) : make_float4(0, 0, 0, 0);
        z[4 * j] = four.x, z[4 * j + 1] = four.y, z[4 * j + 2] = four.z, z[4 * j + 3] = four.w;
    }
#pragma unroll
    for (int i = 0; i < SEGMENT / 8; i++) {
        int id = first + i / 4 * 32 + i % 4;
        z[i] = id < vocab && is_allowed(allowed, id) ? z[i] * inverse : NEVER;
        top = fmaxf(top, z[i]);
    }
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
    if (eighth != 0 || asked >= last_part) return;
    // A segment without any id has nothing.
    bool some = top != NEVER;
    parts[(i64)row * n_parts + part] = make_float2(top, some ? sum : 0.0f);
    if (weighted) weighted[(i64)row * n_parts + part] = some ? by_z : 0.0f;
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

// Where a running sum over the threads of a block passes u: the first thread at which it does, and the sum before it. Rounding may leave
// all of it just below u: then the last thread that has something, and a sum that passes nowhere.
struct Passed {
    int thread;
    float before;
};

__device__ __forceinline__ Passed pass(float own, float before, float u) {
    __shared__ float of_warp[HEAD_THREADS / 32], sum;
    __shared__ int first_past, last_with;
    if (threadIdx.x == 0) first_past = HEAD_THREADS, last_with = 0, sum = NEVER;
    // Sums of all threads up to each: first inside a warp, then over the warps before it.
    float upto = own;
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        float other = __shfl_up_sync(FULL, upto, step);
        if ((threadIdx.x & 31) >= step) upto += other;
    }
    if ((threadIdx.x & 31) == 31) of_warp[threadIdx.x >> 5] = upto;
    __syncthreads();
    for (int i = 0; i < (int)(threadIdx.x >> 5); i++) before += of_warp[i];
    if (own > 0.0f) {
        atomicMax(&last_with, (int)threadIdx.x);
        if (before + upto > u) atomicMin(&first_past, (int)threadIdx.x);
    }
    __syncthreads();
    if (first_past == threadIdx.x) sum = before + upto - own;
    __syncthreads();
    Passed found = {first_past < HEAD_THREADS ? first_past : last_with, sum};
    __syncthreads();
    return found;
}

// The id at which the cumulative probability passes u, by segments and then inside one. One block per row.
__device__ __forceinline__ int choose(const float *logits, int vocab, const float2 *parts, int n_parts, float inverse, const u64 *allowed,
                                      float log_norm, float u) {
    __shared__ float before;
    __shared__ int segment, chosen;
    // Each thread has a stretch of the segments, then a few ids of one.
    int n_each = (n_parts + HEAD_THREADS - 1) / HEAD_THREADS, first = threadIdx.x * n_each;
    auto mass = [&](int i) { return parts[i].y * expf(parts[i].x - log_norm); };
    float own = 0.0f;
    for (int i = first; i < min(n_parts, first + n_each); i++) own += mass(i);
    Passed at = pass(own, 0.0f, u);
    if (threadIdx.x == at.thread) {
        float passed = at.before;
        segment = first, before = passed;
        for (int i = first; i < min(n_parts, first + n_each); i++) {
            if (!(parts[i].y > 0.0f)) continue;
            segment = i, before = passed;
            passed += mass(i);
            if (passed > u) break;
        }
    }
    __syncthreads();
    first = segment * SEGMENT + threadIdx.x * 4;
    int last = threadIdx.x < SEGMENT / 4 ? min(vocab, first + 4) : first;
    auto p = [&](int id) { return is_allowed(allowed, id) ? expf(logits[id] * inverse - log_norm) : 0.0f; };
    own = 0.0f;
    for (int id = first; id < last; id++) own += p(id);
    at = pass(own, before, u);
    if (threadIdx.x == at.thread) {
        float passed = at.before;
        chosen = first;
        for (int id = first; id < last; id++) {
            if (!is_allowed(allowed, id)) continue;
            chosen = id;
            passed += p(id);
            if (passed > u) break;
        }
    }
    __syncthreads();
    return chosen;
}

// The lowest of the ids with the largest z. One block per row.
__device__ __forceinline__ int largest_of(const float *logits, int vocab, const float2 *parts, int n_parts, float inverse, const u64 *allowed,
                                          float top) {
    __shared__ int segment, chosen;
    if (threadIdx.x == 0) segment = n_parts - 1, chosen = vocab;
    __syncthreads();
    for (int i = threadIdx.x; i < n_parts; i += HEAD_THREADS)
        if (parts[i].x == top) atomicMin(&segment, i);
    __syncthreads();
    for (int id = segment * SEGMENT + threadIdx.x; id < min(vocab, (segment + 1) * SEGMENT); id += HEAD_THREADS)
        if (logits[id] * inverse == top && is_allowed(allowed, id)) atomicMin(&chosen, id);
    __syncthreads();
    return chosen < vocab ? chosen : 0;
}

extern "C" __global__ void head_pick(const float *logits, int vocab, const float2 *parts, int n_parts, float inverse, const u64 *allowed,
                                     float log_norm, float u, u32 *out) {
    int id = choose(logits, vocab, parts, n_parts, inverse, allowed, log_norm, u);
    if (threadIdx.x == 0) out[0] = id;
}

// The token of a row: drawn with u, or the largest.
__device__ __forceinline__ int draw_row(const float *logits, int vocab, const float2 *parts, int n_parts, float inverse, const u64 *allowed,
                                        bool greedy, float u, float *logprob) {
    __shared__ float room[32];
    float top, sum;
    join(parts, n_parts, room, &top, &sum);
    float log_norm = top + logf(sum);
    int id = greedy ? largest_of(logits, vocab, parts, n_parts, inverse, allowed, top)
                    : choose(logits, vocab, parts, n_parts, inverse, allowed, log_norm, u);
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
    i64 row = blockIdx.x;
    u32 position = positions[row] + 1;
    float logprob;
    int id = draw_row(logits + row * stride, vocab, parts + row * n_parts, n_parts, inverse_temperatures[row], allowed, greedy[row],
                      uniform(keys[row], position), &logprob);
    embed_row(table, table_stride, cols, id, stream + row * cols);
    if (threadIdx.x != 0) return;
    drawn[(i64)n_drawn[row] * gridDim.x + row] = make_uint2(id, __float_as_uint(logprob));
    ids[row] = id;
    positions[row] = position;
    n_drawn[row] += 1;
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
