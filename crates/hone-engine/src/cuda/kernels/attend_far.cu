// Attention of one position each over many keys, by many blocks of threads: two launches where `attend_one` is one. First every block scores
// AT_ONCE blocks of keys. Then each has sixteen columns of the values, which it adds up key after key, while four of its warps make
// weights of the scores. Only that adding up is as long as there are keys.
//
// Every sum is the one of `attend_rows`, in the same order. Keys and queries, and values and weights, change sides, so that the few queries that
// share a key are the narrow side; to a sum that is the same.

// Blocks of keys that are looked at together.
#define AT_ONCE 4
// Queries that share a key, by eights.
#define EIGHTS (BOTH ? 2 : 1)
// Columns of a block of threads, and pieces on their way to it: of AT_ONCE blocks of keys these columns, and the scores.
#define TILE 16
#define TILE_PIECES 4
#define TILE_SIZE (AT_ONCE * KEYS * TILE)
#define SCORES_SIZE (AT_ONCE * 4 * EIGHTS * 32)
#define WEIGHTS_PITCH (KEYS + 8)

// The pages of AT_ONCE blocks of keys, each known to a lane.
__device__ __forceinline__ u32 pages_of(const One &one, int row, int piece) {
    int lane = threadIdx.x & 31, page = piece * AT_ONCE * PER_BLOCK + lane;
    return lane < AT_ONCE * PER_BLOCK && page < one.n_pages_max ? one.pages[(i64)row * one.n_pages_max + page] : 0;
}

// Where scores of a part of a block of keys are: for each lane those of two keys with two queries. And the largest of each query.
template <bool BOTH>
__device__ __forceinline__ float4 *scores_of(const One &one, int row, int kv_head, int block, int part, int eight) {
    i64 at = ((((i64)row * one.n_kv_heads + kv_head) * one.n_blocks_max + block) * 4 + part) * EIGHTS + eight;
    return (float4 *)one.scores + at * 32 + (threadIdx.x & 31);
}

template <bool BOTH>
__device__ __forceinline__ float *largest_of(const One &one, int row, int kv_head, int block, int part) {
    return one.largest + ((((i64)row * one.n_kv_heads + kv_head) * one.n_blocks_max + block) * 4 + part) * EIGHTS * 8;
}

// ---- scores

// A block of threads has AT_ONCE blocks of the keys of one row and one key head.
template <bool BOTH, int FRESH>
__device__ __forceinline__ void score_blocks(const One &one) {
    constexpr int MOST = (8 * EIGHTS + 2 * FRESH + 3) / 4;
    __shared__ __align__(16) u16 queries[8 * EIGHTS * Q_PITCH], fresh[2 * FRESH * WIDTH];
    __shared__ u64 full[AT_ONCE];
    let_next_start();
    u16 *pieces = (u16 *)memory;
    u32 there = shared_address(full);
    int row = blockIdx.x % one.n_rows, first = blockIdx.x / one.n_rows * AT_ONCE, kv_head = blockIdx.y, fan = one.fan;
    int last = one.positions[row], n_behind = FRESH == 1 ? 0 : one.behind[row];
    if (first * KEYS > last) return;
    if (threadIdx.x < AT_ONCE) barrier_init(there + 8 * threadIdx.x, LANES);
    before_copies();
    __syncthreads();
    if (threadIdx.x >= THREADS) {
        int n_old = last - n_behind;
        u32 held = pages_of(one, row, first / AT_ONCE);
#pragma unroll 1
        for (int i = 0; i < AT_ONCE && (first + i) * KEYS <= last; i++) {
            i64 page = __shfl_sync(FULL, held, i * PER_BLOCK + (threadIdx.x & 31) % PER_BLOCK);
            int n_keys = max(0, min(KEYS, n_old - (first + i) * KEYS));
            fetch_piece<false>(pieces + i * PIECE, one.keys + (page * one.n_kv_heads + kv_head) * PAGE_SIZE, n_keys, false, there + 8 * i);
        }
        return;
    }
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
    float factor = one.scale * LOG2E;
    if (FRESH == 1)
        enter_heads<MOST>(one, row, last, queries, fresh);
    else
        enter_several<MOST>(one, row, last, n_behind, queries, fresh);
    asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
    u32 q[STEPS][EIGHTS][2];
#pragma unroll
    for (int n = 0; n < EIGHTS; n++) {
        const u16 *from = queries + min(group + 8 * n, fan - 1) * Q_PITCH + quad * 2;
#pragma unroll
        for (int k = 0; k < STEPS; k++) q[k][n][0] = *(const u32 *)(from + 16 * k), q[k][n][1] = *(const u32 *)(from + 16 * k + 8);
    }
    float largest[EIGHTS][2 * AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
        int block = first + i, key = block * KEYS + warp * 16 + group;
#pragma unroll
        for (int n = 0; n < EIGHTS; n++) largest[n][2 * i] = NEVER, largest[n][2 * i + 1] = NEVER;
        if (block * KEYS > last) continue;
        u16 *keys = pieces + i * PIECE;
        barrier_wait(there + 8 * i, 0);
        for_fresh(block, last, n_behind, [&](int which, int at) {
            if (at % KEYS / 16 != warp) return;
            for (int j = lane * 8; j < WIDTH; j += 256) *(uint4 *)(keys + at % KEYS * WIDTH + j) = *(const uint4 *)(fresh + 2 * which * WIDTH + j);
        });
        float s[EIGHTS][4] = {};
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            u32 a[4];
            load4(a, by_row(keys + warp * 16 * WIDTH, k));
#pragma unroll
            for (int n = 0; n < EIGHTS; n++) multiply(s[n], a, q[k][n]);
        }
#pragma unroll
        for (int n = 0; n < EIGHTS; n++) {
#pragma unroll
            for (int j = 0; j < 4; j++) s[n][j] = key + j / 2 * 8 <= last ? s[n][j] * factor : NEVER;
            largest[n][2 * i] = fmaxf(s[n][0], s[n][2]), largest[n][2 * i + 1] = fmaxf(s[n][1], s[n][3]);
            if (8 * n + 2 * quad < fan) *scores_of<BOTH>(one, row, kv_head, block, warp, n) = make_float4(s[n][0], s[n][1], s[n][2], s[n][3]);
        }
    }
#pragma unroll
    for (int n = 0; n < EIGHTS; n++) {
        float own = largest_of_rows(group, largest[n]);
        if (first + group / 2 < one.n_blocks_max) largest_of<BOTH>(one, row, kv_head, first + group / 2, warp)[8 * n + 2 * quad + group % 2] = own;
    }
}

// ---- values

// The largest scores of all blocks of keys up to each, for every query, by four warps.
template <bool BOTH>
__device__ __forceinline__ void find_tops(const One &one, int row, int kv_head, int n_blocks, float *tops) {
    constexpr int N = 8 * EIGHTS;
    __shared__ float of_warps[4][N];
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    float before[N];
#pragma unroll
    for (int i = 0; i < N; i++) before[i] = NEVER;
#pragma unroll 1
    for (int base = 0; base < n_blocks; base += THREADS) {
        int block = base + threadIdx.x;
        float top[N];
#pragma unroll
        for (int i = 0; i < N; i++) top[i] = NEVER;
        if (block < n_blocks)
#pragma unroll
            for (int part = 0; part < 4; part++)
#pragma unroll
                for (int i = 0; i < N; i += 4) {
                    float4 four = *(const float4 *)(largest_of<BOTH>(one, row, kv_head, block, part) + i);
                    top[i] = fmaxf(top[i], four.x), top[i + 1] = fmaxf(top[i + 1], four.y), top[i + 2] = fmaxf(top[i + 2], four.z), top[i + 3] = fmaxf(top[i + 3], four.w);
                }
#pragma unroll
        for (int i = 0; i < N; i++) {
#pragma unroll
            for (int step = 1; step < 32; step <<= 1) {
                float other = __shfl_up_sync(FULL, top[i], step);
                if (lane >= step) top[i] = fmaxf(top[i], other);
            }
            if (lane == 31) of_warps[warp][i] = top[i];
        }
        asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
#pragma unroll
        for (int i = 0; i < N; i++) {
#pragma unroll
            for (int w = 0; w < 4; w++) {
                if (w < warp) top[i] = fmaxf(top[i], of_warps[w][i]);
            }
            top[i] = fmaxf(top[i], before[i]);
            if (block < n_blocks) tops[block * N + i] = top[i];
#pragma unroll
            for (int w = 0; w < 4; w++) before[i] = fmaxf(before[i], of_warps[w][i]);
        }
        asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
    }
}

// A piece of what a block of threads adds up, and of what that is weighed by.
template <bool BOTH>
struct Tile {
    u16 values[TILE_SIZE];
    float4 scores[SCORES_SIZE];
};

// Sixteen columns of the values of AT_ONCE blocks of keys, sixteen bytes at a time; behind the last key are zeros.
__device__ __forceinline__ void fetch_tile(const One &one, u16 *to, u32 held, int kv_head, int tile, int piece, int last, u32 barrier) {
    int lane = threadIdx.x & 31, in_page = lane / 2, eight = lane % 2 * 8;
    int from = in_page * WIDTH + ((tile * TILE + eight) ^ turn(in_page, WIDTH)), there = in_page * TILE + (eight ^ turn(in_page, TILE));
#pragma unroll
    for (int i = 0; i < AT_ONCE * PER_BLOCK; i++) {
        i64 at = ((i64)__shfl_sync(FULL, held, i) * one.n_kv_heads + kv_head) * PAGE_SIZE;
        bool visible = (piece * AT_ONCE * PER_BLOCK + i) * PAGE + in_page <= last;
        fetch16(to + i * PAGE * TILE + there, one.values + (visible ? at + from : 0), visible);
    }
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

// All scores of AT_ONCE blocks of keys; those of blocks that are not there are anything.
template <bool BOTH>
__device__ __forceinline__ void fetch_scores(const One &one, float4 *to, int row, int kv_head, int piece, u32 barrier) {
    const float4 *from = scores_of<BOTH>(one, row, kv_head, piece * AT_ONCE, 0, 0);
#pragma unroll
    for (int i = 0; i < SCORES_SIZE / 32; i++) fetch16(to + 32 * i + (threadIdx.x & 31), from + 32 * i, true);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

// What one warp makes for another: weights of AT_ONCE blocks of keys, and by how much the sums before each shrink.
template <bool BOTH>
struct Weighed {
    u16 weights[AT_ONCE][8 * EIGHTS * WEIGHTS_PITCH];
    float shrinks[AT_ONCE][8 * EIGHTS];
};

// A block of threads has sixteen columns of the values of one row and one key head: four warps that weigh, one that adds up, one that fetches.
template <bool BOTH>
__device__ __forceinline__ void add_blocks(const One &one) {
    constexpr int N = 8 * EIGHTS;
    __shared__ __align__(16) Weighed<BOTH> weighed[2];
    __shared__ float4 parts[N][4];
    __shared__ u64 full[2], empty[2], fetched[TILE_PIECES], scored[TILE_PIECES], used[TILE_PIECES];
    let_next_start();
    Tile<BOTH> *pieces = (Tile<BOTH> *)memory;
    float *tops = (float *)(pieces + TILE_PIECES);
    int row = blockIdx.x % one.n_rows, tile = blockIdx.x / one.n_rows, kv_head = blockIdx.y, fan = one.fan;
    int last = one.positions[row], n_blocks = last / KEYS + 1, n_pieces = (n_blocks + AT_ONCE - 1) / AT_ONCE;
    if (threadIdx.x < 2) barrier_init(shared_address(full + threadIdx.x), CHECKED ? THREADS : 4), barrier_init(shared_address(empty + threadIdx.x), CHECKED ? 32 : 1);
    if (threadIdx.x < TILE_PIECES) {
        barrier_init(shared_address(fetched + threadIdx.x), LANES), barrier_init(shared_address(scored + threadIdx.x), LANES);
        barrier_init(shared_address(used + threadIdx.x), CHECKED ? 32 : 1);
    }
    before_copies();
    __syncthreads();
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
    if (warp == 5) {
        // What is older than this step is there already; the newest values are put there by the kernel in front.
        int n_old = last - one.behind[row];
        bool waited = false;
        u32 next = pages_of(one, row, 0);
#pragma unroll 1
        for (int piece = 0; piece < n_pieces; piece++) {
            // Where the next piece is takes as long to learn as to fetch this one.
            u32 held = next;
            next = pages_of(one, row, piece + 1);
            int slot = piece % TILE_PIECES;
            if (!waited && (piece + 1) * AT_ONCE * KEYS > n_old) await_previous(), waited = true;
            barrier_wait(shared_address(used + slot), piece / TILE_PIECES & 1 ^ 1);
            fetch_tile(one, pieces[slot].values, held, kv_head, tile, piece, last, shared_address(fetched + slot));
            if (!waited) await_previous(), waited = true;
            fetch_scores<BOTH>(one, pieces[slot].scores, row, kv_head, piece, shared_address(scored + slot));
        }
        return;
    }
    if (warp == 4) {
        float o[EIGHTS][4] = {};
#pragma unroll 1
        for (int piece = 0; piece < n_pieces; piece++) {
            int slot = piece % TILE_PIECES, turn_of = piece & 1, n = min(AT_ONCE, n_blocks - piece * AT_ONCE);
            const u16 *values = pieces[slot].values;
            const Weighed<BOTH> &from = weighed[turn_of];
            barrier_wait(shared_address(fetched + slot), piece / TILE_PIECES & 1);
            barrier_wait(shared_address(full + turn_of), piece / 2 & 1);
            // What a block needs is on its way while the one before it is added.
            u32 v[2][KEYS / 16][4], p[2][EIGHTS][KEYS / 32][4];
            float2 shrinks[2][EIGHTS];
            auto load_block = [&](int b) {
#pragma unroll
                for (int k = 0; k < KEYS / 16; k++) {
                    int key = b * KEYS + k * 16 + (lane & 7) + ((lane >> 4) << 3);
                    load4_turned(v[b % 2][k], values + key * TILE + ((lane & 8) ^ turn(key, TILE)));
                }
#pragma unroll
                for (int e = 0; e < EIGHTS; e++) {
                    shrinks[b % 2][e] = *(const float2 *)(from.shrinks[b] + 8 * e + 2 * quad);
#pragma unroll
                    for (int k = 0; k < KEYS / 32; k++) load4(p[b % 2][e][k], from.weights[b] + (8 * e + (lane & 7)) * WEIGHTS_PITCH + k * 32 + (lane >> 3) * 8);
                }
            };
            load_block(0);
#pragma unroll
            for (int b = 0; b < AT_ONCE; b++) {
                if (b + 1 < AT_ONCE) load_block(b + 1);
                if (b >= n) continue;
                float of_block[EIGHTS][4] = {};
#pragma unroll
                for (int k = 0; k < KEYS / 16; k++)
#pragma unroll
                    for (int e = 0; e < EIGHTS; e++) multiply(of_block[e], v[b % 2][k], p[b % 2][e][k / 2] + k % 2 * 2);
#pragma unroll
                for (int e = 0; e < EIGHTS; e++) {
                    float2 shrink = shrinks[b % 2][e];
                    o[e][0] = fmaf(o[e][0], shrink.x, of_block[e][0]), o[e][1] = fmaf(o[e][1], shrink.y, of_block[e][1]);
                    o[e][2] = fmaf(o[e][2], shrink.x, of_block[e][2]), o[e][3] = fmaf(o[e][3], shrink.y, of_block[e][3]);
                }
            }
            __syncwarp();
            if (CHECKED || lane == 0) barrier_arrive(shared_address(empty + turn_of)), barrier_arrive(shared_address(used + slot));
        }
        asm volatile("bar.sync 2, 160;" ::: "memory");
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) {
            float of_quads[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float4 part = parts[8 * e + group][i];
                of_quads[i] = (part.x + part.y) + (part.z + part.w);
            }
            float inverse = 1.0f / ((of_quads[0] + of_quads[1]) + (of_quads[2] + of_quads[3]));
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int query = 8 * e + 2 * quad + i;
                float own = __shfl_sync(FULL, inverse, (2 * quad + i) * 4);
                u16 *out = one.out + (i64)row * one.stride + (kv_head * fan + query) * one.head_dim;
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    int d = tile * TILE + group + 8 * j;
                    if (query < fan && d < one.head_dim) out[d] = to_bf16(o[e][2 * j + i] * own);
                }
            }
        }
        return;
    }
    await_previous();
    bool odd = group & 1;
    find_tops<BOTH>(one, row, kv_head, n_blocks, tops);
    float sums[EIGHTS] = {}, before[EIGHTS];
#pragma unroll
    for (int e = 0; e < EIGHTS; e++) before[e] = NEVER;
#pragma unroll 1
    for (int piece = 0; piece < n_pieces; piece++) {
        int turn_of = piece & 1, slot = piece % TILE_PIECES;
        Weighed<BOTH> &to = weighed[turn_of];
        barrier_wait(shared_address(scored + slot), piece / TILE_PIECES & 1);
        barrier_wait(shared_address(empty + turn_of), piece / 2 & 1 ^ 1);
        // Blocks behind the last have the tops of the last, and scores of which nothing is left: they change no sum.
#pragma unroll
        for (int b = 0; b < AT_ONCE; b++) {
#pragma unroll
            for (int e = 0; e < EIGHTS; e++) {
                // Of two lanes with neighbouring keys, each gets all four of one query.
                float4 z = pieces[slot].scores[((b * 4 + warp) * EIGHTS + e) * 32 + lane];
                if (piece * AT_ONCE + b >= n_blocks) z = make_float4(NEVER, NEVER, NEVER, NEVER);
                float low = __shfl_xor_sync(FULL, odd ? z.x : z.y, 4), high = __shfl_xor_sync(FULL, odd ? z.z : z.w, 4);
                float each[4] = {odd ? low : z.x, odd ? z.y : low, odd ? high : z.z, odd ? z.w : high};
                int query = 8 * e + 2 * quad + odd;
                float top = tops[min(piece * AT_ONCE + b, n_blocks - 1) * N + query], shrink = power2(before[e] - top);
                before[e] = top;
#pragma unroll
                for (int i = 0; i < 4; i++) each[i] = power2(each[i] - top);
                u16 *weights = to.weights[b] + query * WEIGHTS_PITCH + warp * 16 + (group & ~1);
                *(u32 *)weights = pack(each[0], each[1]), *(u32 *)(weights + 8) = pack(each[2], each[3]);
                if (warp == 0 && group < 2) to.shrinks[b][query] = shrink;
                sums[e] = __fmul_rn(sums[e], shrink);
#pragma unroll
                for (int i = 0; i < 4; i++) sums[e] += each[i];
            }
        }
        __syncwarp();
        if (CHECKED || lane == 0) barrier_arrive(shared_address(full + turn_of));
    }
#pragma unroll
    for (int e = 0; e < EIGHTS; e++) ((float *)&parts[8 * e + 2 * quad + odd][group / 2])[warp] = sums[e];
    asm volatile("bar.sync 2, 160;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS + 32) attend_scores(const One one) { score_blocks<false, 1>(one); }
extern "C" __global__ void __launch_bounds__(THREADS + 32) attend_scores_wide(const One one) { score_blocks<true, 1>(one); }
extern "C" __global__ void __launch_bounds__(THREADS + 32) attend_scores_several(const One one) { score_blocks<false, FRESH_MAX>(one); }
extern "C" __global__ void __launch_bounds__(THREADS + 32) attend_scores_several_wide(const One one) { score_blocks<true, FRESH_MAX>(one); }
extern "C" __global__ void __launch_bounds__(THREADS + 64) attend_values(const One one) { add_blocks<false>(one); }
extern "C" __global__ void __launch_bounds__(THREADS + 64) attend_values_wide(const One one) { add_blocks<true>(one); }
