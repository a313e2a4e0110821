// From logits to scores, tokens and gradients. A row of the vocabulary is walked in segments of a fixed length, and the
// segments are joined in a fixed order, so the sampler's score of a row is the trainer's.

#define SEGMENT 4096
#define HEAD_THREADS 256

__device__ __forceinline__ float block_max(float x, float *room) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) x = fmaxf(x, __shfl_xor_sync(FULL, x, step));
    if ((threadIdx.x & 31) == 0) room[threadIdx.x >> 5] = x;
    __syncthreads();
    for (int i = 0; i < HEAD_THREADS / 32; i++) x = fmaxf(x, room[i]);
    __syncthreads();
    return x;
}

__device__ __forceinline__ bool is_allowed(const u64 *allowed, int id) { return !allowed || (allowed[id >> 6] >> (id & 63) & 1); }

__device__ __forceinline__ const u64 *row_mask(const int *masks, const u64 *bits, int n_words, int row) {
    return masks && masks[row] >= 0 ? bits + (i64)masks[row] * n_words : nullptr;
}

// Of each segment from `first_part` on: the largest z, Σ e^(z - max), Σ e^(z - max)·z, and the lowest id of the largest.
extern "C" __global__ void head_parts(const float *logits, int stride, int vocab, const float *inverse_temperatures, const int *masks,
                                      const u64 *bits, int n_words, int first_part, int n_parts, float4 *parts) {
    __shared__ float room[32];
    __shared__ int lowest;
    let_next_start();
    await_previous();
    int row = blockIdx.y, part = first_part + blockIdx.x, first = part * SEGMENT;
    const u64 *allowed = row_mask(masks, bits, n_words, row);
    float inverse = inverse_temperatures[row], z[16], top = NEVER;
    logits += (i64)row * stride;
    if (threadIdx.x == 0) lowest = 0x7fffffff;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        int id = first + j * 1024 + threadIdx.x * 4;
        float4 four = id < stride ? *(const float4 *)(logits + id) : make_float4(0, 0, 0, 0);
        float each[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            bool inside = id + i < vocab && is_allowed(allowed, id + i);
            z[4 * j + i] = inside ? each[i] * inverse : NEVER;
            top = fmaxf(top, z[4 * j + i]);
        }
    }
    top = block_max(top, room);
    float sum = 0.0f, weighted = 0.0f;
#pragma unroll
    for (int i = 0; i < 16; i++) {
        if (z[i] == NEVER) continue;
        float e = expf(z[i] - top);
        sum += e;
        weighted = fmaf(e, z[i], weighted);
        if (z[i] == top) atomicMin(&lowest, first + i / 4 * 1024 + (int)threadIdx.x * 4 + i % 4);
    }
    sum = block_sum(sum, room);
    weighted = block_sum(weighted, room);
    if (threadIdx.x == 0) parts[(i64)row * n_parts + part] = make_float4(top, sum, weighted, __int_as_float(lowest));
}

// Joins the segments of a row, one warp: the largest z, the log of the normaliser and the mean of z.
__device__ __forceinline__ void join(const float4 *parts, int n_parts, float *top, float *log_norm, float *mean) {
    int lane = threadIdx.x & 31;
    float largest = NEVER, sum = 0.0f, weighted = 0.0f;
    for (int i = lane; i < n_parts; i += 32) largest = fmaxf(largest, parts[i].x);
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) largest = fmaxf(largest, __shfl_xor_sync(FULL, largest, step));
    for (int i = lane; i < n_parts; i += 32) {
        float factor = expf(parts[i].x - largest);
        sum += parts[i].y * factor;
        weighted += parts[i].z * factor;
    }
    sum = warp_sum(sum);
    weighted = warp_sum(weighted);
    *top = largest;
    *log_norm = largest + logf(sum);
    *mean = weighted / sum;
}

// Log-probability, entropy and log-normaliser of each row's target; one warp per row.
extern "C" __global__ void head_scores(const float *logits, int stride, const float4 *parts, int n_parts, const u32 *targets,
                                       const float *inverse_temperatures, int rows, float *scores) {
    int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (row >= rows) return;
    float top, log_norm, mean;
    join(parts + (i64)row * n_parts, n_parts, &top, &log_norm, &mean);
    if ((threadIdx.x & 31) != 0) return;
    float z = logits[(i64)row * stride + targets[row]] * inverse_temperatures[row];
    scores[3 * row] = z - log_norm;
    scores[3 * row + 1] = log_norm - mean;
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

// The id at which the cumulative probability passes u, by segments and then inside one. One block per row.
__device__ __forceinline__ int choose(const float *logits, int vocab, const float4 *parts, int n_parts, float inverse, const u64 *allowed,
                                      float log_norm, float u) {
    __shared__ float before, sums[HEAD_THREADS], of_warp[HEAD_THREADS / 32], masses[HEAD_THREADS];
    __shared__ int segment, chosen, first_past, last_with;
    // One thread walks the segments, as many at a time as all threads have weighed.
    if (threadIdx.x == 0) segment = 0, chosen = 0, first_past = HEAD_THREADS, last_with = 0, before = 0.0f;
    float passed = 0.0f;
    for (int start = 0; start < n_parts; start += HEAD_THREADS) {
        int i = start + threadIdx.x;
        masses[threadIdx.x] = i < n_parts && parts[i].y > 0.0f ? parts[i].y * expf(parts[i].x - log_norm) : -1.0f;
        __syncthreads();
        if (threadIdx.x == 0 && !(passed > u)) {
            for (int i = start; i < min(n_parts, start + HEAD_THREADS); i++) {
                float mass = masses[i - start];
                if (mass < 0.0f) continue;
                segment = i, before = passed;
                passed += mass;
                if (passed > u) break;
            }
        }
        __syncthreads();
    }
    int first = segment * SEGMENT + threadIdx.x * 16;
    float own = 0.0f, near[16];
    if (first + 16 <= vocab) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float4 four = *(const float4 *)(logits + first + 4 * j);
            near[4 * j] = four.x, near[4 * j + 1] = four.y, near[4 * j + 2] = four.z, near[4 * j + 3] = four.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < 16; i++) near[i] = first + i < vocab ? logits[first + i] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < 16; i++)
        if (first + i < vocab && is_allowed(allowed, first + i)) own += expf(near[i] * inverse - log_norm);
    // Sums of all threads up to each: first inside a warp, then over the warps before it.
    float upto = own;
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        float other = __shfl_up_sync(FULL, upto, step);
        if ((threadIdx.x & 31) >= step) upto += other;
    }
    if ((threadIdx.x & 31) == 31) of_warp[threadIdx.x >> 5] = upto;
    __syncthreads();
    float earlier = before;
    for (int i = 0; i < (int)(threadIdx.x >> 5); i++) earlier += of_warp[i];
    sums[threadIdx.x] = earlier + upto - own;
    if (own > 0.0f) {
        atomicMax(&last_with, (int)threadIdx.x);
        if (earlier + upto > u) atomicMin(&first_past, (int)threadIdx.x);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int at = first_past;
        float passed = at < HEAD_THREADS ? sums[at] : 0.0f;
        // Rounding may leave the sum just below u: then the last of the segment is meant.
        if (at == HEAD_THREADS) at = last_with, passed = -1e30f;
        int first_id = segment * SEGMENT + at * 16, last_id = first_id;
        for (int id = first_id; id < min(vocab, first_id + 16); id++) {
            if (!is_allowed(allowed, id)) continue;
            last_id = id;
            if (passed > -1e29f) {
                passed += expf(logits[id] * inverse - log_norm);
                if (passed > u) break;
            }
        }
        chosen = last_id;
    }
    __syncthreads();
    return chosen;
}

extern "C" __global__ void head_pick(const float *logits, int vocab, const float4 *parts, int n_parts, float inverse, const u64 *allowed,
                                     float log_norm, float u, u32 *out) {
    int id = choose(logits, vocab, parts, n_parts, inverse, allowed, log_norm, u);
    if (threadIdx.x == 0) out[0] = id;
}

// The token of a row: drawn with u, or the largest.
__device__ __forceinline__ int draw_row(const float *logits, int vocab, const float4 *parts, int n_parts, float inverse, bool greedy,
                                        float u, float *logprob) {
    float top, log_norm, mean;
    join(parts, n_parts, &top, &log_norm, &mean);
    int id = 0;
    if (greedy) {
        id = 0x7fffffff;
        for (int i = 0; i < n_parts; i++)
            if (parts[i].x == top) id = min(id, __float_as_int(parts[i].w));
        if (id >= vocab) id = 0;
    } else {
        id = choose(logits, vocab, parts, n_parts, inverse, nullptr, log_norm, u);
    }
    *logprob = logits[id] * inverse - log_norm;
    return id;
}

// One draw per block; asks: (row, greedy, u).
extern "C" __global__ void head_choose(const float *logits, int stride, int vocab, const float4 *parts, int n_parts,
                                       const float *inverse_temperatures, const u32 *asks, u32 *out) {
    const u32 *ask = asks + 3 * blockIdx.x;
    i64 row = ask[0];
    float logprob;
    int id = draw_row(logits + row * stride, vocab, parts + row * n_parts, n_parts, inverse_temperatures[row], ask[1],
                      __uint_as_float(ask[2]), &logprob);
    if (threadIdx.x == 0) out[2 * blockIdx.x] = id, out[2 * blockIdx.x + 1] = __float_as_uint(logprob);
}

// Draws the next token of every sequence and moves the sequence on: its token, its position, its count of drawn tokens.
extern "C" __global__ void head_draw(const float *logits, int stride, int vocab, const float4 *parts, int n_parts,
                                     const float *inverse_temperatures, const u32 *greedy, const u64 *keys, u32 *ids, u32 *positions,
                                     u32 *n_drawn, uint2 *drawn) {
    await_previous();
    i64 row = blockIdx.x;
    u32 position = positions[row] + 1;
    float logprob;
    int id = draw_row(logits + row * stride, vocab, parts + row * n_parts, n_parts, inverse_temperatures[row], greedy[row],
                      uniform(keys[row], position), &logprob);
    __syncthreads();
    if (threadIdx.x != 0) return;
    drawn[(i64)n_drawn[row] * gridDim.x + row] = make_uint2(id, __float_as_uint(logprob));
    ids[row] = id;
    positions[row] = position;
    n_drawn[row] += 1;
}
