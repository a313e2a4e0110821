// One position of each row, from its products to its attended values: bias, norm per head, rotation, the new key and value to their
// page, attention over all of them. What takes time is to bring keys and values here, so a warp of each block does nothing else, and
// begins before the kernel in front is done.

// `fan` query heads share a key head. Row r's pages are `pages[r * n_pages_max..]`. The `behind[r]` rows before r are of the same sequence
// and stand at the positions before its own: a sequence is fed several tokens at once. A block has a key head of every gridDim.x-th
// row, and room for `n_pieces`.
struct One {
    const float *qkv, *q_bias, *k_bias, *v_bias, *q_gain, *k_gain, *angles;
    u16 *keys, *values, *out;
    const u32 *positions, *pages;
    int n_rows, n_pages_max, fan, n_kv_heads, head_dim, stride, n_pieces;
    float eps, scale;
    const u32 *behind;
    // Of attention in two launches (`attend_far.cu`), between them: scores, and the largest of them. And for how many blocks of keys there is room.
    float *scores, *largest;
    int n_blocks_max;
};

// Blocks that a multiprocessor is to hold; who launches them counts on it.
#define BLOCKS (WIDTH <= 64 ? 6 : WIDTH <= 128 ? 4 : 2)
#define Q_PITCH (WIDTH + 8)

// ---- heads on their way

// Half of a head's width is at most this many elements per lane.
#define PAIRS ((WIDTH / 2 + 31) / 32)

// Element i of a head's first half and the one it is turned with, for i = lane, lane + 32, ….
struct Head {
    float first[PAIRS], second[PAIRS];
};

__device__ __forceinline__ Head load_head(const float *x, int half, bool there) {
    Head head;
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        int i = (threadIdx.x & 31) + 32 * j;
        bool both = there && i < half;
        head.first[j] = both ? x[i] : 0.0f, head.second[j] = both ? x[half + i] : 0.0f;
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

__device__ __forceinline__ void store_head(u16 *to, const Head &head, int half, int turned) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        int i = lane + 32 * j;
        if (i < half) to[i ^ turned] = to_bf16(head.first[j]), to[(half + i) ^ turned] = to_bf16(head.second[j]);
    }
    if (2 * half + lane < WIDTH) to[(2 * half + lane) ^ turned] = 0;
}

// The queries that share a key, the key and the value, to shared memory by four warps, and the last two to their page. What the
// kernel in front has no part in is asked for before that one is done, and MOST heads of a warp before one is needed.
template <int MOST>
__device__ __forceinline__ void enter_heads(const One &one, int row, int last, u16 *queries, u16 *fresh) {
    int warp = threadIdx.x >> 5, fan = one.fan, n_kv_heads = one.n_kv_heads, head_dim = one.head_dim, half = head_dim / 2;
    int turned = turn(last, WIDTH), n_here = fan + 2, kv_head = blockIdx.y;
    Head angle = load_head(one.angles + (i64)last * head_dim, half, true), heads[MOST], biases[MOST];
    i64 page = one.pages[(i64)row * one.n_pages_max + last / PAGE];
    i64 new_at = ((page * n_kv_heads + kv_head) * PAGE + last % PAGE) * WIDTH;
#pragma unroll
    for (int j = 0; j < MOST; j++) {
        int head = warp + 4 * j;
        const float *bias = head < fan ? one.q_bias + (kv_head * fan + head) * head_dim
                                       : (head == fan ? one.k_bias : one.v_bias) + kv_head * head_dim;
        biases[j] = load_head(bias, half, one.q_bias && head < n_here);
    }
    await_previous();
    const float *products = one.qkv + (i64)row * (fan + 2) * n_kv_heads * head_dim;
#pragma unroll
    for (int j = 0; j < MOST; j++) {
        int head = warp + 4 * j, at = head < fan ? kv_head * fan + head : head * n_kv_heads + kv_head;
        heads[j] = load_head(products + at * head_dim, half, head < n_here);
    }
#pragma unroll 1
    for (int head = warp; head < n_here; head += 4) {
        Head x = heads[0];
        const float *gain = head < fan ? one.q_gain : head == fan ? one.k_gain : nullptr;
        if (one.q_bias)
#pragma unroll
            for (int i = 0; i < PAIRS; i++) x.first[i] += biases[0].first[i], x.second[i] += biases[0].second[i];
        if (gain) norm_head(x, gain, half, one.eps);
        if (head <= fan)
#pragma unroll
            for (int i = 0; i < PAIRS; i++)
                rotate(x.first[i], x.second[i], angle.first[i], angle.second[i], &x.first[i], &x.second[i]);
        store_head(head < fan ? queries + head * Q_PITCH : fresh + (head - fan) * WIDTH, x, half, head < fan ? 0 : turned);
        if (head >= fan) store_head((head == fan ? one.keys : one.values) + new_at, x, half, turned);
#pragma unroll
        for (int j = 0; j + 1 < MOST; j++) heads[j] = heads[j + 1], biases[j] = biases[j + 1];
    }
}

// The same where the rows before this one are of its sequence: their keys and values come in front of its own, and stay out of its page.
template <int MOST>
__device__ __forceinline__ void enter_several(const One &one, int row, int last, int n_behind, u16 *queries, u16 *fresh) {
    int warp = threadIdx.x >> 5, fan = one.fan, n_kv_heads = one.n_kv_heads, head_dim = one.head_dim, half = head_dim / 2;
    int n_here = fan + 2 * (n_behind + 1), kv_head = blockIdx.y;
    // How far before this row a head's is, and whether it is a value's: behind the queries, keys and values take turns.
    auto before = [&](int head) { return head < fan ? 0 : n_behind - (head - fan) / 2; };
    auto of_value = [&](int head) { return head >= fan && (head - fan) % 2 == 1; };
    Head angles[MOST], heads[MOST], biases[MOST];
    i64 page = one.pages[(i64)row * one.n_pages_max + last / PAGE];
    i64 new_at = ((page * n_kv_heads + kv_head) * PAGE + last % PAGE) * WIDTH;
#pragma unroll
    for (int j = 0; j < MOST; j++) {
        int head = warp + 4 * j;
        const float *bias = head < fan ? one.q_bias + (kv_head * fan + head) * head_dim
                                       : (of_value(head) ? one.v_bias : one.k_bias) + kv_head * head_dim;
        biases[j] = load_head(bias, half, one.q_bias && head < n_here);
        angles[j] = load_head(one.angles + (i64)(last - before(head)) * head_dim, half, head < n_here);
    }
    await_previous();
#pragma unroll
    for (int j = 0; j < MOST; j++) {
        int head = warp + 4 * j, at = head < fan ? kv_head * fan + head : (fan + of_value(head)) * n_kv_heads + kv_head;
        const float *products = one.qkv + (i64)(row - before(head)) * (fan + 2) * n_kv_heads * head_dim;
        heads[j] = load_head(products + at * head_dim, half, head < n_here);
    }
#pragma unroll 1
    for (int head = warp; head < n_here; head += 4) {
        Head x = heads[0];
        const float *gain = head < fan ? one.q_gain : of_value(head) ? nullptr : one.k_gain;
        int turned = turn(last - before(head), WIDTH);
        if (one.q_bias)
#pragma unroll
            for (int i = 0; i < PAIRS; i++) x.first[i] += biases[0].first[i], x.second[i] += biases[0].second[i];
        if (gain) norm_head(x, gain, half, one.eps);
        if (!of_value(head))
#pragma unroll
            for (int i = 0; i < PAIRS; i++)
                rotate(x.first[i], x.second[i], angles[0].first[i], angles[0].second[i], &x.first[i], &x.second[i]);
        store_head(head < fan ? queries + head * Q_PITCH : fresh + (head - fan) * WIDTH, x, half, head < fan ? 0 : turned);
        if (head >= fan && before(head) == 0) store_head((of_value(head) ? one.values : one.keys) + new_at, x, half, turned);
#pragma unroll
        for (int j = 0; j + 1 < MOST; j++) heads[j] = heads[j + 1], biases[j] = biases[j + 1], angles[j] = angles[j + 1];
    }
}

// ---- keys and values on their way

// A block of keys, or one of values, is a piece. A ring of them is in shared memory or on its way there. Of each piece's two
// barriers one knows when all of it is there, the other when it is done with.
#define PIECE (KEYS * WIDTH)
#define PAGE_SIZE (PAGE * WIDTH)
#define PER_BLOCK (KEYS / PAGE)

// A place in the ring, and whether it came round an odd number of times.
struct Slot {
    int at;
    u32 parity;

    __device__ __forceinline__ void advance(int n) {
        at++;
        if (at == n) at = 0, parity ^= 1;
    }
};

// A warp is done with a piece when its lanes have waited for each other, and one of them says so. A checker of races does not follow that:
// for it, all of them do.
#ifndef CHECKED
#define CHECKED 0
#endif

// Lanes of the warp that fetches, all of which arrive for a piece.
#define LANES 32

// A piece of so many keys to shared memory by one warp, without waiting: lane i knows where page i is. Behind values are zeros, since
// their weights are 0 and what lies there may be no number; behind keys is anything, whose scores are never looked at. A step reads a
// piece once, or once for each of the few rows of a sequence, so it is the first to leave the cache, unless there is but little to read.
template <bool STAYS>
__device__ __forceinline__ void fetch_piece(u16 *to, const u16 *page, int n_keys, bool of_values, u32 barrier) {
    int lane = threadIdx.x & 31;
    bool zeros = of_values && n_keys < KEYS;
    if (zeros) {
        for (int i = n_keys * WIDTH + lane * 8; i < PIECE; i += 256) *(uint4 *)(to + i) = make_uint4(0, 0, 0, 0);
        before_copies();
    }
#if __CUDA_ARCH__ >= 900
    u64 policy = STAYS ? clinging() : passing();
    // Each lane arrives for the zeros that it wrote; without them, one does for all the others.
    if (lane == 0) barrier_expect(barrier, n_keys * WIDTH * 2);
    if (zeros ? lane > 0 : lane == 1) barrier_arrive_for(barrier, zeros ? 1 : LANES - 1);
    __syncwarp();
    u32 there = shared_address(to + lane * PAGE_SIZE);
    int n_here = min(PAGE, n_keys - lane * PAGE);
    if (n_here > 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
                     ::"r"(there), "l"(page), "r"(n_here * WIDTH * 2), "r"(barrier), "l"(policy)
                     : "memory");
#else
    for (int i = 0; i * PAGE < n_keys; i++) {
        const u16 *from = (const u16 *)__shfl_sync(FULL, (u64)page, i) + lane * 8;
#pragma unroll
        for (int j = 0; j < PAGE_SIZE; j += 256) {
            int at = i * PAGE_SIZE + j + lane * 8;
            if (at < n_keys * WIDTH) fetch16(to + at, from + j, true);
        }
    }
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
#endif
}

// The pieces of a block's rows in the order of their use, as soon as there is room. All of it is older than this step: the newest
// keys and values are put in by whoever uses them.
template <int FRESH>
__device__ __forceinline__ void fetch_rows(const One &one, u16 *ring, u32 full, u32 empty) {
    int lane = threadIdx.x & 31;
    Slot slot = {0, 1};
#pragma unroll 1
    for (int row = blockIdx.x; row < one.n_rows; row += gridDim.x) {
        const u32 *pages = one.pages + (i64)row * one.n_pages_max;
        int last = one.positions[row], n_old = FRESH == 1 ? last : last - one.behind[row];
        u32 held = lane < one.n_pages_max ? pages[lane] : 0;
#pragma unroll 1
        for (int block = 0; block * KEYS <= last; block++) {
            int first = block * PER_BLOCK;
            if (first % 32 == 0 && first > 0) held = first + lane < one.n_pages_max ? pages[first + lane] : 0;
            i64 page = ((i64)__shfl_sync(FULL, held, (first + lane) % 32) * one.n_kv_heads + blockIdx.y) * PAGE_SIZE;
#pragma unroll 1
            for (int of_values = 0; of_values < 2; of_values++) {
                barrier_wait(empty + 8 * slot.at, slot.parity);
                // Whoever was done with the piece may have put something in.
                if (row != blockIdx.x) before_copies();
                const u16 *from = (of_values ? one.values : one.keys) + page;
                int n_keys = FRESH == 1 ? min(KEYS, last - block * KEYS) : max(0, min(KEYS, n_old - block * KEYS));
                fetch_piece<false>(ring + slot.at * PIECE, from, n_keys, of_values, full + 8 * slot.at);
                slot.advance(one.n_pieces);
            }
        }
    }
}

// ---- attention

// Calls `put(which, position)` for every fresh key and value of a block of keys.
template <typename Put>
__device__ __forceinline__ void for_fresh(int block, int last, int n_behind, Put put) {
#pragma unroll 1
    for (int i = 0; i <= n_behind; i++)
        if ((last - n_behind + i) / KEYS == block) put(i, last - n_behind + i);
    __syncwarp();
}

// The largest over the eight lanes of a column, of eight values each: a lane gets the one that its row says.
__device__ __forceinline__ float largest_of_rows(int group, float *v) {
#pragma unroll
    for (int half = 4; half > 0; half >>= 1) {
        bool high = group & half;
#pragma unroll
        for (int i = 0; i < half; i++) {
            float sent = high ? v[i] : v[i + half], kept = high ? v[i + half] : v[i];
            v[i] = fmaxf(kept, __shfl_xor_sync(FULL, sent, 4 * half));
        }
    }
    return v[0];
}

// Four warps share what a tile of `attend` gives to one: each has sixteen of the 64 keys for the scores, and a part of the width for
// the values. Every sum is the same as there, in the same order. A fifth fetches. BOTH: more than eight query heads share a key
// head, so a thread has two of them and not one.
template <bool BOTH, int FRESH>
__device__ __forceinline__ void attend_rows(const One &one) {
    constexpr int MOST = ((BOTH ? 16 : 8) + 2 * FRESH + 3) / 4;
    constexpr int OWN = (STEPS + 3) / 4, EACH = BOTH ? 2 : 1, W_PITCH = KEYS + 8;
    __shared__ float tops[4][8 * EACH], parts[4][32][EACH];
    __shared__ __align__(16) u16 weights[8 * EACH * W_PITCH], queries[8 * EACH * Q_PITCH], fresh[2 * FRESH * WIDTH];
    let_next_start();
    u16 *ring = (u16 *)memory;
    int n_pieces = one.n_pieces, fan = one.fan;
    u32 full = shared_address(ring + n_pieces * PIECE), empty = full + 8 * n_pieces;
    if (threadIdx.x < n_pieces) barrier_init(full + 8 * threadIdx.x, LANES), barrier_init(empty + 8 * threadIdx.x, CHECKED ? THREADS : 4);
    before_copies();
    __syncthreads();
    if (threadIdx.x >= THREADS) return fetch_rows<FRESH>(one, ring, full, empty);
    int warp = threadIdx.x / 32 % 4, lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
    auto together = [&]() { asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory"); };
    Slot slot = {0, 0};
    float factor = one.scale * LOG2E;
#pragma unroll 1
    for (int row = blockIdx.x; row < one.n_rows; row += gridDim.x) {
        int last = one.positions[row], turned = turn(last, WIDTH);
        int n_behind = FRESH == 1 ? 0 : one.behind[row];
        if (FRESH == 1)
            enter_heads<MOST>(one, row, last, queries, fresh);
        else
            enter_several<MOST>(one, row, last, n_behind, queries, fresh);
        together();
        u32 a[STEPS][4] = {};
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const u16 *from = queries + min(group + 8 * i, fan - 1) * Q_PITCH + quad * 2;
#pragma unroll
            for (int k = 0; k < STEPS; k++) a[k][i] = *(const u32 *)(from + 16 * k), a[k][2 + i] = *(const u32 *)(from + 16 * k + 8);
        }
        float o[2 * OWN][4] = {}, top[EACH], sum[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) top[i] = NEVER, sum[i] = 0.0f;
#pragma unroll 1
        for (int block = 0; block * KEYS <= last; block++) {
            bool has_newest = last / KEYS == block;
            u16 *newest = ring + slot.at * PIECE + last % KEYS * WIDTH;
            float s[2][4] = {};
            barrier_wait(full + 8 * slot.at, slot.parity);
            if (FRESH == 1 && has_newest && last % KEYS / 16 == warp) {
                for (int i = lane * 8; i < WIDTH; i += 256) *(uint4 *)(newest + i) = *(const uint4 *)(fresh + i);
                __syncwarp();
            }
            if (FRESH > 1)
                for_fresh(block, last, n_behind, [&](int which, int at) {
                    if (at % KEYS / 16 != warp) return;
                    u16 *to = ring + slot.at * PIECE + at % KEYS * WIDTH;
                    for (int i = lane * 8; i < WIDTH; i += 256) *(uint4 *)(to + i) = *(const uint4 *)(fresh + 2 * which * WIDTH + i);
                });
            score<1>(s, a, ring + slot.at * PIECE + warp * 16 * WIDTH);
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                float largest = largest_score<1>(s, i, block * KEYS + warp * 16, last, factor, top[i]);
                if (quad == 0) tops[warp][group + 8 * i] = largest;
            }
            __syncwarp();
            if (CHECKED || lane == 0) barrier_arrive(empty + 8 * slot.at);
            slot.advance(n_pieces);
            together();
            float shrinks[EACH];
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                int at = group + 8 * i;
                float largest = fmaxf(fmaxf(tops[0][at], tops[1][at]), fmaxf(tops[2][at], tops[3][at]));
                shrinks[i] = weigh<1>(s, i, largest, top[i], &sum[i]);
#pragma unroll
                for (int n = 0; n < 2; n++)
                    *(u32 *)(weights + at * W_PITCH + warp * 16 + n * 8 + quad * 2) = pack(s[n][2 * i], s[n][2 * i + 1]);
            }
            together();
            u32 p[KEYS / 16][4] = {};
#pragma unroll
            for (int k = 0; k < KEYS / 16; k += BOTH ? 1 : 2) {
                u32 both[4];
                load4(both, weights + (BOTH ? lane & 15 : lane & 7) * W_PITCH + k * 16 + (BOTH ? lane >> 4 : lane >> 3) * 8);
                if (BOTH)
                    p[k][0] = both[0], p[k][1] = both[1], p[k][2] = both[2], p[k][3] = both[3];
                else
                    p[k][0] = both[0], p[k][2] = both[1], p[k + 1][0] = both[2], p[k + 1][2] = both[3];
            }
            newest = ring + slot.at * PIECE + last % KEYS * WIDTH;
            barrier_wait(full + 8 * slot.at, slot.parity);
            if (FRESH == 1 && has_newest) {
                // A warp needs its own part of the width, and puts in that.
                int part = warp * 16 + lane / 2 * 64 + lane % 2 * 8;
                if (lane < 2 * OWN && part < WIDTH)
                    *(uint4 *)(newest + (part ^ turned)) = *(const uint4 *)(fresh + WIDTH + (part ^ turned));
                __syncwarp();
            }
            if (FRESH > 1)
                for_fresh(block, last, n_behind, [&](int which, int at) {
                    int part = warp * 16 + lane / 2 * 64 + lane % 2 * 8, turned = turn(at, WIDTH);
                    u16 *to = ring + slot.at * PIECE + at % KEYS * WIDTH;
                    if (lane < 2 * OWN && part < WIDTH)
                        *(uint4 *)(to + (part ^ turned)) = *(const uint4 *)(fresh + (2 * which + 1) * WIDTH + (part ^ turned));
                });
            add_values<4, EACH>(o, shrinks, p, ring + slot.at * PIECE, warp);
            __syncwarp();
            if (CHECKED || lane == 0) barrier_arrive(empty + 8 * slot.at);
            slot.advance(n_pieces);
        }
#pragma unroll
        for (int i = 0; i < EACH; i++) parts[warp][lane][i] = sum[i];
        together();
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            float all = joined(parts[0][lane][i], parts[1][lane][i], parts[2][lane][i], parts[3][lane][i]);
            if (group + 8 * i >= fan) continue;
            float inverse = 1.0f / all;
            u16 *out = one.out + (i64)row * one.stride + (blockIdx.y * fan + group + 8 * i) * one.head_dim;
#pragma unroll
            for (int n = 0; n < 2 * OWN; n++) {
                int d = (warp + 4 * (n / 2)) * 16 + n % 2 * 8 + quad * 2;
                if (d < one.head_dim) *(u32 *)(out + d) = pack(o[n][2 * i] * inverse, o[n][2 * i + 1] * inverse);
            }
        }
    }
}

// Rows of a sequence at most, where it is fed more than one; who launches them counts on it.
#define FRESH_MAX 8

extern "C" __global__ void __launch_bounds__(THREADS + 32, BLOCKS) attend_one(const One one) { attend_rows<false, 1>(one); }
extern "C" __global__ void __launch_bounds__(THREADS + 32, BLOCKS) attend_one_wide(const One one) { attend_rows<true, 1>(one); }
extern "C" __global__ void __launch_bounds__(THREADS + 32, 1) attend_several(const One one) { attend_rows<false, FRESH_MAX>(one); }
extern "C" __global__ void __launch_bounds__(THREADS + 32, 1) attend_several_wide(const One one) { attend_rows<true, FRESH_MAX>(one); }
