// All layers of one sequence's next token in one launch.
//
// A step of one row waits for hand-overs and not for bytes, so blocks of threads stay, and what they hand over stays near. Clusters of
// eight blocks have a part of every layer each: one for every key head (its queries, key and value, attention, and a part of O), the
// others for 256 gates each (with their ups and a part of down). Inside a cluster values go through distributed shared memory;
// between clusters go sums alone, twice a layer, by words that are there when they are no longer NOTHING: every block takes all of them,
// for a second hand-over inside its cluster would take longer. Weights stream two layers ahead: to shared memory, and from there to the
// registers of the warps that multiply by them. The head (`alone_head.cu`) is a launch of its own that begins beside the
// layers and takes their last sums.
//
// O and down are summed in parts, of K_O and K_DOWN inputs, because a cluster has no more, and these in runs, so that a chain of sums is
// short; so for such a model they are everywhere. All else is summed as the other kernels do, so the bits are theirs.
//
// Compiled for one shape: DIM, HEADS, KV_HEADS, FFN, and heads of WIDTH 64.

#define CLUSTER 8
#define FOURS (DIM / 4)
#define STEPS_DIM (DIM / 16)
// Query heads that share a key head, and outputs of QKV that belong to one; between heads in shared memory is a gap for its banks.
#define FAN (HEADS / KV_HEADS)
#define ENTRIES ((FAN + 2) * WIDTH)
#define PITCH (WIDTH + 8)
// Tiles of queries and keys of a block, each eight elements and those they are turned with; and eight elements of the value.
#define TURNED_TILES ((FAN + 1) * WIDTH / 16 / CLUSTER)
#define K_O (FAN * WIDTH)
#define GATES 256
#define K_DOWN GATES
#define RUN_O 64
#define RUN_DOWN 128
#define FEEDERS (FFN / GATES)
// Rows of a block: of QKV, of gates (with as many ups), of O and of down, which are as many as the columns that it takes in.
#define ENTRY_ROWS (ENTRIES / CLUSTER)
#define GATE_ROWS (GATES / CLUSTER)
#define OUT_ROWS (DIM / CLUSTER)
#define TAKERS (OUT_ROWS / 4)
// What a block hands over, in whole lines of memory.
#define BLOCK_WORDS ((OUT_ROWS + 31) / 32 * 32)
// A sum that is not there yet. It is no number that a sum could be: those are made another.
#define NOTHING 0x7fffdeadu
// Blocks of keys that are attended at once, and pieces in each of both rings.
#define AT_ONCE 4

// Looks after which a hand-over is given up: something is broken, and an error is better than a machine that hangs. A checker takes its time.
#define LOOKS_MAX (CHECKED ? 1 << 30 : 1 << 20)
// Lanes that say for their warp that it is done with a piece.
#define SAYING (CHECKED ? LANES : 1)

struct alignas(64) Map {
    u64 words[16];
};

struct alignas(64) Layer {
    Map qkv, o, gate_up, down;
    const float *attn_gain, *mlp_gain;
    u16 *keys, *values;
};

// Layers before this step, begun in it, and behind it.
struct Progress {
    u32 n_before, n_begun, n_behind;
};

struct Alone {
    const Layer *layers;
    float *stream;
    const float *angles;
    const u32 *positions, *pages;
    // What is handed over, of O and of down: slots that layers use by turns, of this step and the next.
    u32 *o_sums, *down_sums;
    Progress *progress;
    // Whether the stream behind all layers is asked for: the head takes their sums.
    int n_layers, n_pages_max, gives_stream;
    float eps, scale;
};

// ---- shared memory

struct Shared {
    // Weights on their way: rows of QKV or of gates, rows of O or of down. Then keys and values.
    alignas(1024) char first[(2 * GATE_ROWS > ENTRY_ROWS ? 2 * GATE_ROWS : ENTRY_ROWS) * DIM * 2];
    alignas(1024) char second[OUT_ROWS * (K_DOWN > K_O ? K_DOWN : K_O) * 2];
    alignas(128) u16 keys[AT_ONCE][PIECE], values[AT_ONCE][PIECE];
    // The stream, its norm, and what becomes of it: heads or gated products, attended values.
    alignas(16) float x[DIM];
    alignas(128) u16 normed[DIM + 64];
    alignas(16) u16 entries[(FAN + 2) * PITCH];
    alignas(16) u16 gated[GATES];
    alignas(16) u16 attended[K_O];
    alignas(16) u16 weights[AT_ONCE][8 * (KEYS + 8)];
    float4 tops[4][9], parts[8][4];
    u64 first_full, first_empty, second_full, second_empty, handed, sent;
    u64 block_full[AT_ONCE], block_empty[AT_ONCE];
};

// Four warps that multiply first; four that attend, multiply second and norm; one that does so with the rows that are left; one that brings
// weights, one that brings keys and values, and the keeper.
#define FIRST_WARPS 4
#define ROW_WARP FIRST_WARPS
#define ROW_WARPS 5
#define WEIGHTS_WARP (ROW_WARP + ROW_WARPS)
#define KEYS_WARP (WEIGHTS_WARP + 1)
#define KEEPER_WARP (KEYS_WARP + 1)
#define ALONE_THREADS (32 * (KEEPER_WARP + 1))

// The thread and its lane, read once: to the compiler they are worth a register, and reading them again takes long.
__device__ __forceinline__ int this_thread() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

__device__ __forceinline__ void let_wait(u32 barrier, u32 parity) {
    u32 done = 0;
#pragma unroll 1
    for (int looks = 0; !done; looks++) {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
        if (looks > LOOKS_MAX) __trap();
    }
}

__device__ __forceinline__ u32 in_block(u32 address, u32 block) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
    return there;
}

// Four words to another block's shared memory, whose barrier counts their bytes.
__device__ __forceinline__ void hand(u32 to, const u32 *words, u32 barrier) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ uint4 look(const u32 *at) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at) : "memory");
    return v;
}

__device__ __forceinline__ u32 look_at(const u32 *at) {
    u32 v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    return v;
}

__device__ __forceinline__ void put(u32 *at, u32 v) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory"); }

__device__ __forceinline__ u32 handed_over(float x) {
    u32 bits = __float_as_uint(x);
    return bits == NOTHING ? 0x7fffffffu : bits;
}

// Lets so many cycles pass.
__device__ __forceinline__ void pause(u32 cycles) {
    auto now = []() {
        u32 cycle;
        asm volatile("mov.u32 %0, %%clock;" : "=r"(cycle));
        return cycle;
    };
    u32 begun = now();
    while (now() - begun < cycles) {}
}

template <int N>
__device__ __forceinline__ void together(int barrier) { asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(N) : "memory"); }
template <int N>
__device__ __forceinline__ void arrive(int barrier) { asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(N) : "memory"); }

#define NORMED 2
#define ATTEND 3
#define ATTENDED 4
#define TAKEN 5
#define LAYER_DONE 6
// Who attends, who multiplies by O behind them, and the keeper.
#define ATTENDED_WARPS (FIRST_WARPS + ROW_WARPS + 1)

// A layer is done before its block begins the next one, for that needs what all clusters hand over. A checker does not follow this, so for it
// the warps meet.
__device__ __forceinline__ void end_layer() {
    if (CHECKED) together<32 * (FIRST_WARPS + ROW_WARPS)>(LAYER_DONE);
}

// Rows of weights, and how long the cache keeps them.
__device__ __forceinline__ void bring_rows(u32 to, const Map *map, int row, int half, int chunk, u32 barrier, u64 policy) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;" ::"r"(to), "l"(map), "n"(0), "r"(row), "r"(half), "n"(0), "r"(chunk),
                 "r"(barrier), "l"(policy)
                 : "memory");
}

// The k-th sixteen inputs of sixteen rows, which lie by eights: `box` bytes from one to the next, each 128 bytes of all eight rows after
// the other.
__device__ __forceinline__ void load_tile(int lane, u32 *a, u32 boxes, int box, int k) {
    int row = lane & 7;
    load4_at(a, boxes + (lane & 8 ? box : 0) + k / 4 * 1024 + row * 128 + (((k % 4 * 2 + (lane >> 4)) ^ row) * 16));
}

__device__ __forceinline__ void group_multiply(float *d, const u32 *a, u64 right, int more) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %9, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, 1, 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right), "r"(more));
}

// ---- what other clusters hand over

__device__ __forceinline__ bool all_there(uint4 v) { return v.x != NOTHING && v.y != NOTHING && v.z != NOTHING && v.w != NOTHING; }

// Four columns of the stream: the sum of what clusters have handed over, in their order, as soon as all of it is there.
template <int PARTS>
__device__ __forceinline__ float4 take(const u32 *from) {
    uint4 found[PARTS];
    bool all = false;
#pragma unroll 1
    for (int looks = 0; !all; looks++) {
#pragma unroll
        for (int i = 0; i < PARTS; i++) found[i] = look(from + i * CLUSTER * BLOCK_WORDS);
        all = true;
#pragma unroll
        for (int i = 0; i < PARTS; i++) all &= all_there(found[i]);
        if (looks > LOOKS_MAX) __trap();
    }
    float4 sum = make_float4(__uint_as_float(found[0].x), __uint_as_float(found[0].y), __uint_as_float(found[0].z), __uint_as_float(found[0].w));
#pragma unroll
    for (int i = 1; i < PARTS; i++) {
        sum.x = __fadd_rn(sum.x, __uint_as_float(found[i].x)), sum.y = __fadd_rn(sum.y, __uint_as_float(found[i].y));
        sum.z = __fadd_rn(sum.z, __uint_as_float(found[i].z)), sum.w = __fadd_rn(sum.w, __uint_as_float(found[i].w));
    }
    return sum;
}

// Where the sums of a layer are handed over, by so many clusters. Few slots stay in the cache; and a slot is cleared one layer later, long
// before it is looked at again.
#define SLOTS 8
__device__ __forceinline__ u32 *slot_of(u32 *sums, u32 layer, int n_clusters) { return sums + layer % SLOTS * n_clusters * CLUSTER * BLOCK_WORDS; }

// A thread's four columns of the stream in front of a layer's gates, or behind all of a layer.
__device__ __forceinline__ float4 take_attended(const Alone &alone, u32 layer, int column) {
    return take<KV_HEADS>(slot_of(alone.o_sums, layer, KV_HEADS) + column / OUT_ROWS * BLOCK_WORDS + column % OUT_ROWS);
}

__device__ __forceinline__ float4 take_last(const Alone &alone, u32 layer, int column) {
    return take<FEEDERS>(slot_of(alone.down_sums, layer, FEEDERS) + column / OUT_ROWS * BLOCK_WORDS + column % OUT_ROWS);
}

// Where this block hands over its own.
template <bool ATTENDS>
__device__ __forceinline__ u32 *sums_of(const Alone &alone, u32 layer, u32 cluster, u32 rank) {
    return slot_of(ATTENDS ? alone.o_sums : alone.down_sums, layer, ATTENDS ? KV_HEADS : FEEDERS) + (cluster * CLUSTER + rank) * BLOCK_WORDS;
}

// Behind each hand-over inside of the cluster: lets the next one come, puts the newest key and value to their page, and clears what this block
// handed over in the layer before, which everybody has taken who handed over since.
template <bool ATTENDS>
__device__ __forceinline__ void keep(const Alone &alone, Shared &shared, u32 cluster, u32 rank) {
    int lane = this_thread() & 31, eight = lane % 8 * 8;
    Progress &progress = *alone.progress;
    await_previous();
    int last = ATTENDS ? alone.positions[0] : 0;
    i64 newest = ATTENDS ? (((i64)alone.pages[last / PAGE] * KV_HEADS + cluster) * PAGE + last % PAGE) * WIDTH + (eight ^ turn(last, WIDTH)) : 0;
    u32 before = progress.n_before;
    // The head may begin when it can tell which layer is the last.
    if (blockIdx.x == 0 && lane == 0) {
        progress.n_behind = before + alone.n_layers;
        __threadfence();
        let_next_start();
    }
#pragma unroll 1
    for (int layer = 0; layer < alone.n_layers; layer++) {
        let_wait(shared_address(&shared.handed), layer & 1);
        if (lane == 0) barrier_expect(shared_address(&shared.handed), (ATTENDS ? ENTRIES : GATES) * 2);
        if (ATTENDS) {
            // Who attends goes on when this was read: then others may hand over the next.
            uint4 chunk = *(const uint4 *)(shared.entries + (FAN + lane / 8 % 2) * PITCH + eight);
            arrive<32 * ATTENDED_WARPS>(ATTENDED);
            const Layer &at = alone.layers[layer];
            if (rank == 0 && lane < 16) *(uint4 *)((lane < 8 ? at.keys : at.values) + newest) = chunk;
        }
        if (blockIdx.x == 0 && lane == 0) {
            put(&progress.n_begun, before + layer + 1);
            if (layer + 1 == alone.n_layers) put(&progress.n_before, before + alone.n_layers);
        }
        u32 *left = sums_of<ATTENDS>(alone, before + layer - 1, cluster, rank);
        if (lane < TAKERS) *(uint4 *)(left + 4 * lane) = make_uint4(NOTHING, NOTHING, NOTHING, NOTHING);
        __syncwarp();
    }
}

// ---- rows of O or of down: sixteen of a warp, over a part of their inputs

template <int STEPS_HERE>
__device__ __forceinline__ void load_second(Shared &shared, u32 (*a)[4], int layer, int first_row, int lane) {
    constexpr int BOX = STEPS_HERE / 4 * 1024;
    let_wait(shared_address(&shared.second_full), layer & 1);
    // Of a tile that has but eight rows, the others are the same again; of one that has none, somebody else's.
    int row = min(first_row, (OUT_ROWS - 1) / 16 * 16), box = row + 8 < OUT_ROWS ? BOX : 0;
#pragma unroll
    for (int k = 0; k < STEPS_HERE; k++) load_tile(lane, a[k], shared_address(shared.second) + row / 8 * BOX, box, k);
    __syncwarp();
    if (lane < SAYING) barrier_arrive(shared_address(&shared.second_empty));
}

// The stream is added to where that is asked for.
template <int STEPS_HERE, int RUN>
__device__ __forceinline__ void multiply_second(const Alone &alone, Shared &shared, const u32 (*a)[4], const u16 *vector, u32 *to, bool adds, u32 rank, int layer, int first_row, int lane) {
    constexpr int RUNS = STEPS_HERE * 16 / RUN, EACH = RUN / 16;
    int quad = lane & 3, row = first_row + (lane >> 2) + (quad & 1) * 8;
    float runs[RUNS][4] = {}, there = adds ? shared.x[rank * OUT_ROWS + min(row, OUT_ROWS - 1)] : 0.0f;
    // The same in all eight columns.
    u32 b[STEPS_HERE][2];
#pragma unroll
    for (int k = 0; k < STEPS_HERE; k += 2) load4(b[k], vector + 16 * k + (lane >> 3) * 8);
    // All of it is asked for before the first is used.
    __syncwarp();
#pragma unroll
    for (int k = 0; k < EACH; k++)
#pragma unroll
        for (int run = 0; run < RUNS; run++) multiply(runs[run], a[run * EACH + k], b[run * EACH + k]);
    float sum = quad ? runs[0][2] : runs[0][0];
#pragma unroll
    for (int run = 1; run < RUNS; run++) sum = __fadd_rn(sum, quad ? runs[run][2] : runs[run][0]);
    if (quad < 2 && row < OUT_ROWS) put(to + row, handed_over(adds ? __fadd_rn(there, sum) : sum));
    if (first_row == 0 && lane == 0) barrier_arrive(shared_address(&shared.sent));
}

// ---- the part of the warps that multiply first: rows of QKV, or gates and ups

template <bool ATTENDS>
__device__ __forceinline__ void multiply_first(const Alone &alone, Shared &shared, u32 cluster, u32 rank) {
    int thread = this_thread(), warp = __shfl_sync(FULL, thread >> 5, 0), lane = thread & 31;
    constexpr int ROWS = ATTENDS ? ENTRY_ROWS : 2 * GATE_ROWS;
    u32 full = shared_address(&shared.first_full), empty = shared_address(&shared.first_empty), handed = shared_address(&shared.handed);
    // Of a tile that has but eight rows, the others are the same again; of one that has none, somebody else's.
    int first_row = min(warp * 16, (ROWS - 1) / 16 * 16), n_boxes = min(2, (ROWS - first_row) / 8);
    u32 tile = shared_address(shared.first) + first_row / 8 * (DIM * 16);
    int box = n_boxes == 2 ? DIM * 16 : 0;
    // A lane hands eight elements to one block, of a tile that is turned two lanes: of the first half of a head and of the second.
    int half = lane >> 3 & 1, block = lane & (CLUSTER - 1), tile_at = rank * TURNED_TILES + warp, eight = tile_at % (WIDTH / 16) * 8;
    bool turns = ATTENDS && warp < TURNED_TILES, hands = ATTENDS ? lane < (turns ? 2 * CLUSTER : CLUSTER) && warp <= TURNED_TILES : lane < CLUSTER;
    const u16 *there = !ATTENDS ? shared.gated + rank * GATE_ROWS + warp * 8
                       : turns  ? shared.entries + tile_at / (WIDTH / 16) * PITCH + half * (WIDTH / 2) + eight
                                : shared.entries + (FAN + 1) * PITCH + rank * 8;
    u32 to = in_block(shared_address(there), block), counted = in_block(handed, block);
    float cosine = 1.0f, sine = 0.0f;
    await_previous();
    if (ATTENDS) {
        const float *angles = alone.angles + (i64)alone.positions[0] * WIDTH + eight + (lane >> 2);
        if (turns) cosine = angles[0], sine = angles[WIDTH / 2];
    }
    constexpr int STEPS_SECOND = (ATTENDS ? K_O : K_DOWN) / 16;
    u32 before = alone.progress->n_before, a[STEPS_DIM > STEPS_SECOND ? STEPS_DIM : STEPS_SECOND][4];
#pragma unroll 1
    for (int layer = 0; layer < alone.n_layers; layer++) {
        let_wait(full, layer & 1);
#pragma unroll
        for (int k = 0; k < STEPS_DIM; k++) load_tile(lane, a[k], tile, box, k);
        __syncwarp();
        if (lane < SAYING) barrier_arrive(empty);
        float d[4] = {};
        // Anew for each layer, or all steps of it would be kept in registers. Without swizzle, the eights of a column stand one behind the
        // other, and only the first of eight columns is wanted.
        u64 vector = (u64)((__shfl_sync(FULL, shared_address(shared.normed), 0) & 0x3ffff) >> 4) | 1ull << 16 | 8ull << 32;
#pragma unroll
        for (int k = 0; k < STEPS_DIM; k++)
#pragma unroll
            for (int i = 0; i < 4; i++) asm volatile("" : "+r"(a[k][i])::"memory");
        together<32 * (FIRST_WARPS + ROW_WARPS)>(NORMED);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < STEPS_DIM; k++) group_multiply(d, a[k], vector + 2 * k, k > 0);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
        // Of eight columns only the first is wanted: rows 0 to 7 are with lanes 0, 4, …, and those eight further beside them.
        float first = d[0], second = d[2];
        if (ATTENDS) rotate(d[0], d[2], cosine, sine, &first, &second);
        else first = gated(d[0], d[2]);
        u32 low = pack(first, __shfl_xor_sync(FULL, first, 4)), high = ATTENDS ? pack(second, __shfl_xor_sync(FULL, second, 4)) : 0, words[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            u32 of_first = __shfl_sync(FULL, low, 8 * i), of_second = ATTENDS ? __shfl_sync(FULL, high, 8 * i) : 0;
            words[i] = ATTENDS && half ? of_second : of_first;
        }
        if (hands) hand(to, words, counted);

        load_second<STEPS_SECOND>(shared, a, layer, 16 * warp, lane);
        u32 *sums = sums_of<ATTENDS>(alone, before + layer, cluster, rank);
        if (ATTENDS) together<32 * ATTENDED_WARPS>(ATTENDED);
        else let_wait(handed, layer & 1);
        multiply_second<STEPS_SECOND, ATTENDS ? RUN_O : RUN_DOWN>(alone, shared, a, ATTENDS ? shared.attended : shared.gated, sums, cluster == 0, rank, layer, 16 * warp, lane);
        end_layer();
    }
}

// ---- the part of the warps that have rows of the stream

// x / DIM, rounded once; where that underflows, nothing is left of it beside the eps of a norm.
__device__ __forceinline__ float mean(float x) {
    constexpr float inverse = 1.0f / DIM;
    float q = __fmul_rn(x, inverse);
    return fmaf(fmaf(-(float)DIM, q, x), inverse, q);
}

// The norm of the stream, by so many threads, which have four columns each and wait for each other.
template <int N>
__device__ __forceinline__ void norm_of(float *x, u16 *normed, const float4 &own, const float4 &gain, float eps, int thread) {
    int lane = thread & 31;
    if (thread < FOURS) ((float4 *)x)[thread] = own;
    together<N>(TAKEN);
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < (FOURS + 31) / 32; j++) {
        float4 v = lane + 32 * j < FOURS ? ((const float4 *)x)[lane + 32 * j] : make_float4(0, 0, 0, 0);
        sum = dot4(v, v, sum);
    }
    float inverse = rsqrtf(mean(warp_sum(sum)) + eps);
    if (thread < FOURS)
        ((uint2 *)normed)[thread] = make_uint2(pack(own.x * inverse * gain.x, own.y * inverse * gain.y), pack(own.z * inverse * gain.z, own.w * inverse * gain.w));
}

// ---- attention of a key head

struct Others {
    static constexpr bool ends = false;
};

struct Last {
    static constexpr bool ends = true;
};

// Queries are the right operand, so that a lane has two keys of two of them; each sum is that of the other kernels of attention, in their
// order. Up to AT_ONCE blocks of keys are looked at together, for nothing of that depends on the blocks before.
__device__ __forceinline__ void attend_alone(const Alone &alone, Shared &shared, int last, int layer, u32 used, int thread) {
    int warp = thread >> 5, lane = thread & 31, group = lane >> 2, quad = lane & 3;
    int n_blocks = last / KEYS + 1;
    bool odd = group & 1;
    float factor = alone.scale * LOG2E;
    u32 keys[AT_ONCE][STEPS][4], values[AT_ONCE][KEYS / 16][4];
    // The last block is the last of those that are looked at together, so the first of them may be none: then the first that there is stands in
    // for it, which is faster than to leave it out, and nothing comes of its scores.
    auto slot_of = [&](int block) { return (used + max(block, 0)) % AT_ONCE; };
    auto load_values = [&](int first, int b) {
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) load4_turned(values[b][k], by_width(lane, shared.values[slot_of(first + b)] + k * 16 * WIDTH, warp));
    };
    auto load_keys = [&](int first, int b) {
#pragma unroll
        for (int k = 0; k < STEPS; k++) load4(keys[b][k], by_row(lane, shared.keys[slot_of(first + b)] + warp * 16 * WIDTH, k));
    };
    int begin = n_blocks - (n_blocks + AT_ONCE - 1) / AT_ONCE * AT_ONCE;
    auto await_blocks = [&](int first) {
#pragma unroll 1
        for (int block = max(first, 0); block < first + AT_ONCE; block++) {
            u32 use = used + block;
            let_wait(shared_address(&shared.block_full[use % AT_ONCE]), use / AT_ONCE & 1);
        }
#pragma unroll
        for (int b = 0; b < AT_ONCE; b++) load_keys(first, b);
        // All values but those of the last block, where the newest one may be missing yet.
#pragma unroll
        for (int b = 0; b + 1 < AT_ONCE; b++) load_values(first, b);
    };
    await_blocks(begin);
    let_wait(shared_address(&shared.handed), layer & 1);
    u32 q[STEPS][2];
#pragma unroll
    for (int k = 0; k < STEPS; k += 2) load4(q[k], shared.entries + min(lane & 7, FAN - 1) * PITCH + 16 * k + (lane >> 3) * 8);
    float o[4] = {}, tops[2] = {NEVER, NEVER}, sum = 0.0f, inverse = 0.0f;
    auto attend_blocks = [&](int first, auto which) {
        constexpr bool ends = which.ends;
        u32 use = used + first;
        float s[AT_ONCE + 1][4] = {};
        // The newest value comes after the others were loaded. A warp needs but its own part of the values' width. Where its block stood in for
        // others, a checker does not see that its lanes have read that together.
        if (CHECKED) __syncwarp();
        if (ends && lane < 2) {
            u32 slot = (used + n_blocks - 1) % AT_ONCE;
            int eight = warp * 16 + 8 * lane;
            *(uint4 *)(shared.values[slot] + last % KEYS * WIDTH + (eight ^ turn(last, WIDTH))) = *(const uint4 *)(shared.entries + (FAN + 1) * PITCH + eight);
        }
        // The newest key, as each of sixteen.
        u32 newest[STEPS][4];
        if (ends)
#pragma unroll
            for (int k = 0; k < STEPS; k++) load4(newest[k], shared.entries + FAN * PITCH + 16 * k + (lane >> 4) * 8);
#pragma unroll
        for (int k = 0; k < STEPS; k++)
#pragma unroll
            for (int b = 0; b < AT_ONCE + ends; b++) multiply(s[b], b < AT_ONCE ? keys[b][k] : newest[k], q[k]);
        float largest[2 * AT_ONCE];
#pragma unroll
        for (int b = 0; b < AT_ONCE; b++) {
            int key = (first + b) * KEYS + warp * 16 + group;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if (ends && b + 1 == AT_ONCE) {
                    int here = key + i / 2 * 8;
                    s[b][i] = here > last ? NEVER : (here == last ? s[AT_ONCE][i] : s[b][i]) * factor;
                } else s[b][i] = first + b < 0 ? NEVER : s[b][i] * factor;
            }
            largest[2 * b] = fmaxf(s[b][0], s[b][2]), largest[2 * b + 1] = fmaxf(s[b][1], s[b][3]);
        }
        ((float *)&shared.tops[quad][group])[warp] = largest_of_rows(group, largest);
        if (ends) __syncwarp();
        load_values(first, AT_ONCE - 1);
        together<128>(ATTEND);
        float shrinks[AT_ONCE][2];
#pragma unroll
        for (int b = 0; b < AT_ONCE; b++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float4 of_warps = shared.tops[quad][2 * b + i];
                float now = fmaxf(fmaxf(fmaxf(of_warps.x, of_warps.y), fmaxf(of_warps.z, of_warps.w)), tops[i]);
                shrinks[b][i] = power2(tops[i] - now), tops[i] = now;
                s[b][i] = power2(s[b][i] - now), s[b][i + 2] = power2(s[b][i + 2] - now);
            }
        }
        // Of two lanes with neighbouring keys, each gets all four of one query.
#pragma unroll
        for (int b = 0; b < AT_ONCE; b++) {
            float low = __shfl_xor_sync(FULL, odd ? s[b][0] : s[b][1], 4), high = __shfl_xor_sync(FULL, odd ? s[b][2] : s[b][3], 4);
            float each[4] = {odd ? low : s[b][0], odd ? s[b][1] : low, odd ? high : s[b][2], odd ? s[b][3] : high};
            u16 *weights = shared.weights[b] + (2 * quad + odd) * (KEYS + 8) + warp * 16 + (group & ~1);
            *(u32 *)weights = pack(each[0], each[1]), *(u32 *)(weights + 8) = pack(each[2], each[3]);
            sum = __fmul_rn(sum, odd ? shrinks[b][1] : shrinks[b][0]);
#pragma unroll
            for (int i = 0; i < 4; i++) sum += each[i];
        }
        if constexpr (ends) ((float *)&shared.parts[2 * quad + odd][group / 2])[warp] = sum;
        together<128>(ATTEND);
        // All that a warp needs of these pieces is in its registers.
        auto leave = [&](int b) {
            if (first + b >= 0) barrier_arrive(shared_address(&shared.block_empty[(use + b) % AT_ONCE]));
        };
        if (!CHECKED && lane < AT_ONCE) leave(lane);
        for (int b = 0; CHECKED && b < AT_ONCE; b++) leave(b);
        // Blocks are summed by themselves, by turns.
        float sums[AT_ONCE][4] = {};
        u32 p[AT_ONCE][KEYS / 32][4];
#pragma unroll
        for (int b = 0; b < AT_ONCE; b++)
#pragma unroll
            for (int k = 0; k < KEYS / 32; k++) load4(p[b][k], shared.weights[b] + (lane & 7) * (KEYS + 8) + k * 32 + (lane >> 3) * 8);
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++)
#pragma unroll
            for (int b = 0; b < AT_ONCE; b++) multiply(sums[b], values[b][k], p[b][k / 2] + k % 2 * 2);
        // The normaliser, which is whole when the last blocks are; it waits for nothing here.
        if constexpr (ends) {
            float of_quads[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float4 part = shared.parts[group][i];
                of_quads[i] = (part.x + part.y) + (part.z + part.w);
            }
            inverse = __frcp_rn((of_quads[0] + of_quads[1]) + (of_quads[2] + of_quads[3]));
        }
#pragma unroll
        for (int b = 0; b < AT_ONCE; b++) {
            // What is not there may be no number, and is not even multiplied by nothing.
            if (b + 1 < AT_ONCE && first + b < 0) continue;
#pragma unroll
            for (int i = 0; i < 4; i++) o[i] = fmaf(o[i], shrinks[b][i % 2], sums[b][i]);
        }
    };
#pragma unroll 1
    for (int first = begin; first + AT_ONCE < n_blocks; first += AT_ONCE) {
        attend_blocks(first, Others());
        together<128>(ATTEND);
        await_blocks(first + AT_ONCE);
    }
    attend_blocks(n_blocks - AT_ONCE, Last());
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float own = __shfl_sync(FULL, inverse, (2 * quad + i) % 8 * 4);
        u16 *to = shared.attended + (2 * quad + i) * WIDTH + warp * 16 + group;
        if (2 * quad + i < FAN) to[0] = to_bf16(o[i] * own), to[8] = to_bf16(o[i + 2] * own);
    }
}

// ---- a block's part

// Cycles after a hand-over in which no weights are asked for.
#define PAUSE 150

template <bool ATTENDS, bool HELPS>
__device__ __forceinline__ void rows_of_stream(const Alone &alone, Shared &shared, u32 cluster, u32 rank) {
    int thread = this_thread() - 32 * ROW_WARP, lane = thread & 31;
    constexpr int STEPS_HERE = (ATTENDS ? K_O : K_DOWN) / 16;
    u32 a[HELPS ? STEPS_HERE : 1][4];
    await_previous();
    int last = ATTENDS ? alone.positions[0] : 0;
    u32 before = alone.progress->n_before, n_blocks = last / KEYS + 1;
    int column = 4 * min(thread, FOURS - 1);
#pragma unroll 1
    for (int layer = 0; layer < alone.n_layers; layer++) {
        const Layer &at = alone.layers[layer];
        float4 gain = make_float4(0, 0, 0, 0);
        if (thread < FOURS) gain = ((const float4 *)(ATTENDS ? at.attn_gain : at.mlp_gain))[thread];
        float4 own = !ATTENDS    ? take_attended(alone, before + layer, column)
                     : layer > 0 ? take_last(alone, before + layer - 1, column)
                                 : *(const float4 *)(alone.stream + column);
        __syncwarp();
        norm_of<32 * ROW_WARPS>(shared.x, shared.normed, own, gain, alone.eps, thread);
        before_copies();
        arrive<32 * (FIRST_WARPS + ROW_WARPS)>(NORMED);
        if (HELPS) {
            load_second<STEPS_HERE>(shared, a, layer, 16 * FIRST_WARPS, lane);
            if (ATTENDS) together<32 * ATTENDED_WARPS>(ATTENDED);
            else let_wait(shared_address(&shared.handed), layer & 1);
            multiply_second<STEPS_HERE, ATTENDS ? RUN_O : RUN_DOWN>(alone, shared, a, ATTENDS ? shared.attended : shared.gated, sums_of<ATTENDS>(alone, before + layer, cluster, rank), cluster == 0, rank, layer, 16 * FIRST_WARPS, lane);
        } else if (ATTENDS) {
            attend_alone(alone, shared, last, layer, layer * n_blocks, thread);
            arrive<32 * ATTENDED_WARPS>(ATTENDED);
        }
        end_layer();
    }
    if (ATTENDS && HELPS && cluster == 0 && alone.gives_stream) {
        column = rank * OUT_ROWS + 4 * lane;
        if (lane < TAKERS) *(float4 *)(alone.stream + column) = take_last(alone, before + alone.n_layers - 1, column);
    }
}

// Rows of QKV or of gates and ups, as their warps multiply by them.
template <bool ATTENDS>
__device__ __forceinline__ void bring_first(const Alone &alone, Shared &shared, int layer, u32 cluster, u32 rank) {
    constexpr int BOX = DIM * 16, BOXES = ATTENDS ? ENTRY_ROWS / 8 : GATE_ROWS / 4;
    u32 to = shared_address(shared.first), full = shared_address(&shared.first_full);
    const Layer &at = alone.layers[layer];
    barrier_expect(full, BOXES * BOX);
#pragma unroll 1
    for (int i = 0; i < BOXES; i++) {
        if (ATTENDS) {
            int tile = rank * TURNED_TILES + i / 2, head = tile / (WIDTH / 16), turned_row = tile % (WIDTH / 16) * 8 + i % 2 * (WIDTH / 2);
            int row = i == 2 * TURNED_TILES ? (HEADS + KV_HEADS + cluster) * WIDTH + rank * 8 : (head < FAN ? cluster * FAN + head : HEADS + cluster) * WIDTH + turned_row;
            bring_rows(to + i * BOX, &at.qkv, row, 0, 0, full, passing());
        } else bring_rows(to + i * BOX, &at.gate_up, cluster * GATES + rank * GATE_ROWS + i / 2 * 8, i % 2, 0, full, passing());
    }
}

// Rows of O or of down, of this cluster's part of their inputs.
template <bool ATTENDS>
__device__ __forceinline__ void bring_second(const Alone &alone, Shared &shared, int layer, u32 cluster, u32 rank) {
    constexpr int CHUNKS = (ATTENDS ? K_O : K_DOWN) / 64, BOX = CHUNKS * 1024;
    u32 to = shared_address(shared.second), full = shared_address(&shared.second_full);
    const Layer &at = alone.layers[layer];
    barrier_expect(full, OUT_ROWS / 8 * BOX);
#pragma unroll 1
    for (int i = 0; i < OUT_ROWS / 8; i++) bring_rows(to + i * BOX, ATTENDS ? &at.o : &at.down, rank * OUT_ROWS + 8 * i, 0, cluster * CHUNKS, full, passing());
}

// Requests for weights would stand in the way of what is handed over, so they are made when that is done.
template <bool ATTENDS>
__device__ __forceinline__ void bring_weights(const Alone &alone, Shared &shared, u32 cluster, u32 rank) {
    u32 first_empty = shared_address(&shared.first_empty), second_empty = shared_address(&shared.second_empty), sent = shared_address(&shared.sent);
    bring_first<ATTENDS>(alone, shared, 0, cluster, rank);
    bring_second<ATTENDS>(alone, shared, 0, cluster, rank);
#pragma unroll 1
    for (int layer = 0; layer < alone.n_layers; layer++) {
        if (layer > 0) {
            let_wait(sent, layer & 1 ^ 1);
            pause(PAUSE);
            let_wait(second_empty, layer & 1 ^ 1);
            bring_second<ATTENDS>(alone, shared, layer, cluster, rank);
        }
        if (layer + 1 == alone.n_layers) break;
        let_wait(first_empty, layer & 1);
        bring_first<ATTENDS>(alone, shared, layer + 1, cluster, rank);
    }
}

// Keys and values of the next layer come as soon as there is room, while O is multiplied: behind its hand-over they would share the way with weights.
__device__ __forceinline__ void bring_keys(const Alone &alone, Shared &shared, u32 kv_head) {
    await_previous();
    // What is first needed, asked for at once.
    int lane = threadIdx.x & 31, last = alone.positions[0];
    u32 use = 0, first_held = lane < alone.n_pages_max ? alone.pages[lane] : 0;
#pragma unroll 1
    for (int layer = 0; layer < alone.n_layers; layer++) {
        const Layer &at = alone.layers[layer];
        u32 held = 0;
#pragma unroll 1
        for (int block = 0; block * KEYS <= last; block++, use++) {
            int first = block * PER_BLOCK, n_keys = min(KEYS, last - block * KEYS);
            u32 slot = use % AT_ONCE, parity = use / AT_ONCE & 1 ^ 1;
            if (first % 32 == 0) held = first == 0 ? first_held : first + lane < alone.n_pages_max ? alone.pages[first + lane] : 0;
            i64 page = ((i64)__shfl_sync(FULL, held, (first + lane) % 32) * KV_HEADS + kv_head) * PAGE_SIZE;
            let_wait(shared_address(&shared.block_empty[slot]), parity);
            before_copies();
            fetch_piece<true>(shared.keys[slot], at.keys + page, n_keys, false, shared_address(&shared.block_full[slot]));
            fetch_piece<true>(shared.values[slot], at.values + page, n_keys, true, shared_address(&shared.block_full[slot]));
        }
    }
}

// Who multiplies first has all of a tile in registers, and who attends much of keys and values.
#define REGISTERS_FIRST 184
#define REGISTERS_ATTEND 208
#define REGISTERS_HELP 112

template <bool ATTENDS>
__device__ __forceinline__ void part_of(const Alone &alone, Shared &shared, u32 cluster, u32 rank) {
    int warp = threadIdx.x >> 5;
    if (warp == ROW_WARP + 4) rows_of_stream<ATTENDS, true>(alone, shared, cluster, rank);
    else if (warp == WEIGHTS_WARP) {
        if ((threadIdx.x & 31) == 0) bring_weights<ATTENDS>(alone, shared, cluster, rank);
    } else if (warp == KEEPER_WARP) keep<ATTENDS>(alone, shared, cluster, rank);
    else if (ATTENDS) bring_keys(alone, shared, cluster);
}

extern "C" __global__ void __cluster_dims__(CLUSTER) __launch_bounds__(ALONE_THREADS, 1) alone_step(const __grid_constant__ Alone alone) {
    // The copy engine wants its tiles at a multiple of 1024.
    Shared &shared = *(Shared *)((char *)memory + (-shared_address(memory) & 1023));
    u32 rank, cluster = blockIdx.x / CLUSTER;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (blockIdx.x > 0) let_next_start();
    if (threadIdx.x == 0) {
        barrier_init(shared_address(&shared.first_full), 1), barrier_init(shared_address(&shared.first_empty), SAYING * FIRST_WARPS);
        barrier_init(shared_address(&shared.second_full), 1), barrier_init(shared_address(&shared.second_empty), SAYING * (FIRST_WARPS + 1));
        barrier_init(shared_address(&shared.handed), 1), barrier_init(shared_address(&shared.sent), 1);
        for (int i = 0; i < AT_ONCE; i++) {
            barrier_init(shared_address(&shared.block_full[i]), 2 * LANES), barrier_init(shared_address(&shared.block_empty[i]), SAYING * 4);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        barrier_expect(shared_address(&shared.handed), cluster < KV_HEADS ? ENTRIES * 2 : GATES * 2);
    }
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x < 32 * FIRST_WARPS) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS_FIRST));
        if (cluster < KV_HEADS) multiply_first<true>(alone, shared, cluster, rank);
        else multiply_first<false>(alone, shared, cluster - KV_HEADS, rank);
    } else if (threadIdx.x < 32 * (ROW_WARP + 4)) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS_ATTEND));
        if (cluster < KV_HEADS) rows_of_stream<true, false>(alone, shared, cluster, rank);
        else rows_of_stream<false, false>(alone, shared, cluster - KV_HEADS, rank);
    } else {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS_HELP));
        if (cluster < KV_HEADS) part_of<true>(alone, shared, cluster, rank);
        else part_of<false>(alone, shared, cluster - KV_HEADS, rank);
    }
    // A block goes when it has all that its neighbours hand to it, so nobody hands anything to one that is gone.
}
