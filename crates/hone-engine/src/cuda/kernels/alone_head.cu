// The head behind all layers of one sequence's next token (`alone.cu`), and in front of them the norm of their last sums.
//
// Two groups of warps have 64 rows each in their registers, and all of them share rooms for as many on their way; for rows come faster than
// the stream does. Then five warps that take the stream, one that brings rows, and two that nobody needs.
#define TILE 64
#define ROOMS 3
#define HEAD_GROUPS 2
#define TAKER_WARP (4 * HEAD_GROUPS)
#define TAKER_THREADS (32 * 5)
#define ROWS_WARP (TAKER_WARP + 5)
#define HEAD_THREADS (32 * 16)
#define REGISTERS_MULTIPLY 184
#define REGISTERS_TAKE 72
// Tiles that a block can have before the stream is there, and those that it is given for it: to multiply takes time too.
#define AHEAD (ROOMS + HEAD_GROUPS)
#define MORE (AHEAD - 1)
// Cycles from one look to the next while there are layers to come, and for each of them between two requests for rows, which would stand in
// the way of what is handed over.
#define FAR_OFF 1000
#define APART 100

struct Logits {
    Map weights;
    Alone alone;
    const float *gain;
    float *logits;
    int vocab;
};

struct HeadShared {
    alignas(1024) char rows[ROOMS][TILE * DIM * 2];
    alignas(16) float x[DIM];
    alignas(128) u16 normed[DIM + 64];
    u64 full[ROOMS], empty[ROOMS];
};

// A product whose rows are in shared memory.
__device__ __forceinline__ void group_multiply(float *d, u64 left, u64 right, int more) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "l"(left), "l"(right), "r"(more));
}

// Rows of the head by two groups of warps: the first ones of each wait in registers.
__device__ __forceinline__ void multiply_rows(const Logits &head, HeadShared &shared, int first, int n_here, int warp, int lane) {
    constexpr int BOX = DIM * 16;
    int group = warp / 4, row = warp % 4 * 16 + (lane >> 2);
    u64 vector = (u64)((__shfl_sync(FULL, shared_address(shared.normed), 0) & 0x3ffff) >> 4) | 1ull << 16 | 8ull << 32;
    u32 a[STEPS_DIM][4];
    // Every warp meets every turn of a room, or it would take one for another.
    auto leave = [&](int i) {
        __syncwarp();
        if (lane < SAYING) barrier_arrive(shared_address(&shared.empty[i % ROOMS]));
    };
    auto put_logits = [&](int i, float *d) {
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
        int at = (first + i) * TILE + row;
        if (lane & 3) return;
        if (at < head.vocab) head.logits[at] = d[0];
        if (at + 8 < head.vocab) head.logits[at + 8] = d[2];
    };
#pragma unroll 1
    for (int i = 0; i < min(n_here, HEAD_GROUPS); i++) {
        let_wait(shared_address(&shared.full[i % ROOMS]), i / ROOMS & 1);
        if (i == group)
#pragma unroll
            for (int k = 0; k < STEPS_DIM; k++) load_tile(lane, a[k], shared_address(shared.rows[i % ROOMS]) + warp % 4 * 2 * BOX, BOX, k);
        leave(i);
    }
    together<32 * TAKER_WARP + TAKER_THREADS>(NORMED);
    if (group < n_here) {
        float d[4] = {};
#pragma unroll
        for (int k = 0; k < STEPS_DIM; k++)
#pragma unroll
            for (int i = 0; i < 4; i++) asm volatile("" : "+r"(a[k][i])::"memory");
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < STEPS_DIM; k++) group_multiply(d, a[k], vector + 2 * k, k > 0);
        put_logits(group, d);
    }
#pragma unroll 1
    for (int i = HEAD_GROUPS; i < n_here; i++) {
        let_wait(shared_address(&shared.full[i % ROOMS]), i / ROOMS & 1);
        if (i % HEAD_GROUPS == group) {
            float d[4] = {};
            u64 rows = (u64)((__shfl_sync(FULL, shared_address(shared.rows[i % ROOMS]), 0) & 0x3ffff) >> 4) | 1ull << 16 | (u64)(BOX / 16) << 32 | 1ull << 62;
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int k = 0; k < STEPS_DIM; k++) group_multiply(d, rows + k / 4 * 64 + k % 4 * 2, vector + 2 * k, k > 0);
            put_logits(i, d);
        }
        leave(i);
    }
}

// The norm of the stream, by threads of which each has four columns, as soon as the last layer has handed over.
__device__ __forceinline__ void take_stream(const Logits &head, HeadShared &shared, int thread) {
    const Alone &alone = head.alone;
    int column = 4 * min(thread, FOURS - 1);
    u32 n_behind = look_at(&alone.progress->n_behind);
    // Looks, which stand in the way of others, are few until that layer is at work; and what stands in its place before is an earlier one's.
    if (thread < 32)
#pragma unroll 1
        for (int looks = 0; look_at(&alone.progress->n_begun) != n_behind; looks++) {
            pause(FAR_OFF);
            if (looks > LOOKS_MAX) __trap();
        }
    together<TAKER_THREADS>(TAKEN);
    float4 gain = ((const float4 *)head.gain)[column / 4], own = take_last(alone, n_behind - 1, column);
    __syncwarp();
    norm_of<TAKER_THREADS>(shared.x, shared.normed, own, gain, alone.eps, thread);
    before_copies();
    arrive<32 * TAKER_WARP + TAKER_THREADS>(NORMED);
}

// Blocks that are there before the layers are done.
__device__ __forceinline__ int n_ahead(int n_tiles) { return max(0, min((int)gridDim.x - CLUSTER * (KV_HEADS + FEEDERS), n_tiles / MORE)); }

// The first tile of a block. Those that are there before the layers are done have more: those which wait with them then.
__device__ __forceinline__ int first_of(int n_tiles, int block) {
    return min(block, n_ahead(n_tiles)) * MORE + (n_tiles - n_ahead(n_tiles) * MORE) * block / (int)gridDim.x;
}

// The rows of a block, as soon as there is room. Blocks that are there before the layers are done have time.
__device__ __forceinline__ void bring_head(const Logits &head, HeadShared &shared, int first, int n_here, bool has_time) {
    constexpr int BOX = DIM * 16;
    // Not all at once.
    if (has_time) pause(APART * head.alone.n_layers * blockIdx.x / gridDim.x);
#pragma unroll 1
    for (int i = 0; i < n_here; i++) {
        u32 to = shared_address(shared.rows[i % ROOMS]), full = shared_address(&shared.full[i % ROOMS]);
        if (i >= ROOMS) let_wait(shared_address(&shared.empty[i % ROOMS]), i / ROOMS & 1 ^ 1);
        // What comes beside the layers would stand in their way less if it came from the cache, which has room for about that much of a token's
        // weights; all others pass through it.
        bool is_beside = has_time && i < AHEAD;
        u64 policy = is_beside ? staying() : passing();
        barrier_expect(full, TILE / 8 * BOX);
#pragma unroll 1
        for (int eight = 0; eight < TILE / 8; eight++) {
            if (is_beside) pause(APART * head.alone.n_layers);
            bring_rows(to + eight * BOX, &head.weights, (first + i) * TILE + 8 * eight, 0, 0, full, policy);
        }
    }
}

extern "C" __global__ void __launch_bounds__(HEAD_THREADS, 1) alone_head(const __grid_constant__ Logits head) {
    HeadShared &shared = *(HeadShared *)((char *)memory + (-shared_address(memory) & 1023));
    int thread = this_thread(), warp = __shfl_sync(FULL, thread >> 5, 0), lane = thread & 31;
    int n_tiles = (head.vocab + TILE - 1) / TILE, first = first_of(n_tiles, blockIdx.x), n_here = first_of(n_tiles, blockIdx.x + 1) - first;
    let_next_start();
    if (thread < ROOMS) {
        barrier_init(shared_address(&shared.full[thread]), 1), barrier_init(shared_address(&shared.empty[thread]), SAYING * 4 * HEAD_GROUPS);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (warp < TAKER_WARP) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS_MULTIPLY));
        multiply_rows(head, shared, first, n_here, warp, lane);
    } else {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS_TAKE));
        if (warp < ROWS_WARP) take_stream(head, shared, thread - 32 * TAKER_WARP);
        else if (warp == ROWS_WARP && lane == 0) bring_head(head, shared, first, n_here, (int)blockIdx.x < n_ahead(n_tiles));
    }
    __syncwarp();
    // Whoever comes next counts on all that came before.
    await_previous();
}
