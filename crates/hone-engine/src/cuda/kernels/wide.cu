// Products by groups of four warps (wgmma), their operands brought by the copy engine: for GPUs that have both.
//
// y = x·wᵀ, sixteen steps of the inner dimension after the other: the sums of the library's algorithms, to the bit (which is checked
// before it is relied on). One warp asks for stages of both operands, weights before the kernel that makes x is done; groups
// of warps multiply them where they lie. Rows of x are the left operand, or, when they are few, the right one.

// A matrix in global memory, as the copy engine reads it.
struct alignas(64) Map {
    u64 words[16];
};

// An adapter of rank 16 for each stretch of the outputs: where its b is and before which output it ends.
struct Behind {
    const u16 *b[3];
    int ends[3];
    float scale;
};

struct Wide {
    Map x, w, a;
    Behind behind;
    const float *stream, *gain;
    float *y;
    u16 *act;
    int rows, n, k, y_stride, mode, n_stages;
    float eps;
    // Of inputs that are summed in parts: stages of a part and of a run of it.
    int part, run;
};

// Steps of the inner dimension of a stage: a row of it is 128 bytes, whose sixteens are swapped by the row (`SWIZZLE_128B`).
#define STEP 64
#define STAGES_MAX 32

// As `barrier_wait`, by a loop that the compiler does not see: to it, a warp that waits stays together.
__device__ __forceinline__ void stage_wait(u32 barrier, u32 parity) {
    asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" ::"r"(barrier), "r"(parity) : "memory");
}

// A box of a matrix to shared memory: it has five axes, so that whole stages come at once (see `Map` of the host).
__device__ __forceinline__ void bring(u32 to, const Map *map, int row, int piece, int part, int chunk, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(to), "l"(map), "n"(0), "r"(row),
                 "r"(piece), "r"(part), "r"(chunk), "r"(barrier)
                 : "memory");
}

// True in one thread of a warp.
__device__ __forceinline__ bool one_of_warp() {
    u32 is;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.b32 %0, 1, 0, p; }" : "=r"(is));
    return is;
}

// An operand in shared memory: rows of 128 bytes, eight of them after the other.
__device__ __forceinline__ u64 operand(u32 at) { return (u64)((at & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62; }

__device__ __forceinline__ void group_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void group_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void group_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Rows of the stream, normed and rounded as `norm_act` does, as an operand: all of them, for all steps. A warp has a row, AT_ONCE
// of them at a time.
template <int ROWS, int WARPS, int AT_ONCE>
__device__ __forceinline__ void norm_into(char *to, const Wide &wide, int row0, int n_steps) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, fours = wide.k / 4, all = n_steps * STEP / 4;
    float4 g[HELD];
#pragma unroll
    for (int j = 0; j < HELD; j++) g[j] = lane + 32 * j < fours ? ((const float4 *)wide.gain)[lane + 32 * j] : make_float4(0, 0, 0, 0);
    await_previous();
    for (int first = warp; first < ROWS && row0 + first < wide.rows; first += AT_ONCE * WARPS) {
        float4 v[AT_ONCE][HELD];
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++) {
            const float4 *from = (const float4 *)(wide.stream + (i64)min(row0 + first + r * WARPS, wide.rows - 1) * wide.k);
#pragma unroll
            for (int j = 0; j < HELD; j++) v[r][j] = lane + 32 * j < fours ? from[lane + 32 * j] : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++) {
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < HELD; j++) sum = dot4(v[r][j], v[r][j], sum);
            float inverse = rsqrtf(warp_sum(sum) / (float)wide.k + wide.eps);
            int row = first + r * WARPS;
            if (row >= ROWS) continue;
#pragma unroll
            for (int j = 0; j < HELD; j++) {
                int i = lane + 32 * j;
                if (i >= all) continue;
                uint2 packed = make_uint2(pack(v[r][j].x * inverse * g[j].x, v[r][j].y * inverse * g[j].y), pack(v[r][j].z * inverse * g[j].z, v[r][j].w * inverse * g[j].w));
                int step = i / (STEP / 4), sixteen = i % (STEP / 4) / 2;
                *(uint2 *)(to + (step * ROWS + row) * 128 + ((sixteen ^ (row & 7)) * 16) + i % 2 * 8) = packed;
            }
        }
    }
}

__device__ __forceinline__ int stretch_of(const Behind &behind, int w_row) { return w_row < behind.ends[0] ? 0 : w_row < behind.ends[1] ? 1 : 2; }

// A block's part of a product. The left operand has 64 rows for each of GROUPS groups of four warps, of which LEFT_ROWS are there; the right
// one has BN. Turned, the left one are weights. A stage has EACH chunks of 64 steps, of which there are whole stages. NORMED: x is the
// norm of the stream, computed here. LOW columns beside the others are the low-rank part of an adapter, or of the two of gates and ups.
// PARTS: each run of the inner dimension, of whole stages, is summed by itself; the runs of a part are added one after the other, and the parts
// one after the other to what is there.
template <int GROUPS, int LEFT_ROWS, int BN, int EACH, bool TURNED, bool NORMED, int LOW, bool PARTS>
struct Block {
    static constexpr int X_ROWS = TURNED ? BN : LEFT_ROWS, OUTS = TURNED ? LEFT_ROWS : BN, CHUNK_X = X_ROWS * 128, CHUNK_W = OUTS * 128;
    // A stage has its chunks of x, then those of w, then those of the adapter's a.
    static constexpr int ALL_X = NORMED ? 0 : EACH * CHUNK_X, ALL_XW = ALL_X + EACH * CHUNK_W, STAGE = ALL_XW + EACH * LOW * 128;
    // Eights of a thread's sums, and of gates where there are; what sums are added to is loaded before them where it has room.
    static constexpr int EIGHTS = BN / 8, GATES = TURNED ? EIGHTS : EIGHTS / 2, GATE_ROWS = TURNED ? 1 : 2;
    static constexpr bool EARLY = BN <= 64;
    static_assert(!PARTS || (EARLY && !NORMED), "parts are added to what is loaded before them, and have no norm");

    const Wide &wide;
    // With gates, a tile has half as many outputs, and one thread gets a gate and its up.
    bool gate;
    int row0, out0, limit, n_steps, warp, lane, group, quad;
    u32 base, ring, fulls, empties;

    float sums[BN / 2], lows[LOW ? LOW / 2 : 1];
    float2 old[EARLY ? EIGHTS : 1][2];
    u32 behind[LOW ? EIGHTS : 1][2];

    __device__ __forceinline__ Block(const Wide &wide, u64 *full, u64 *empty, uint4 *memory) : wide(wide) {
        gate = wide.mode == GATE;
        row0 = blockIdx.x * X_ROWS, limit = gate ? wide.n / 2 : wide.n, out0 = blockIdx.y * (gate ? OUTS / 2 : OUTS);
        n_steps = wide.k / (STEP * EACH), lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
        // The same in a whole warp, and known to be so: then what follows from them is computed once for it.
        warp = __shfl_sync(FULL, threadIdx.x >> 5, 0);
        base = __shfl_sync(FULL, (shared_address(memory) + 1023) & ~1023u, 0), ring = base + (NORMED ? n_steps * EACH * CHUNK_X : 0);
        fulls = __shfl_sync(FULL, shared_address(full), 0), empties = __shfl_sync(FULL, shared_address(empty), 0);
    }

    // Where pair (j, i) of the sums belongs; turned, its second is a row further. Then the output of the j-th gate.
    __device__ __forceinline__ int left_row() const { return warp * 16 + group; }
    __device__ __forceinline__ int row_of(int j, int i) const { return row0 + (TURNED ? 8 * j + 2 * quad : left_row() + 8 * i); }
    __device__ __forceinline__ int out_of(int j, int i) const { return left_row() >= LEFT_ROWS ? limit : out0 + (TURNED ? left_row() + 8 * i : 8 * j + 2 * quad); }
    __device__ __forceinline__ int gate_of(int j) const { return left_row() >= LEFT_ROWS ? limit : out0 + (TURNED ? warp * 8 + group : 8 * j + 2 * quad); }

    // Brings all stages, by one thread.
    __device__ __forceinline__ void bring_all() const {
        asm volatile("prefetch.tensormap [%0];" ::"l"(&wide.x) : "memory");
        // Turned, gates and their ups are brought by eights.
        const bool by_eights = TURNED && OUTS > 16 && gate;
        const int w_row = by_eights ? 0 : out0, w_part = by_eights ? out0 / 8 : 0;
        const int a_row = gate ? 0 : 16 * stretch_of(wide.behind, out0), n_stages = wide.n_stages, n_first = min(n_stages, n_steps);
        auto bring_w = [&](int step, int slot) {
            u32 to = ring + slot * STAGE, barrier = fulls + 8 * slot;
            barrier_expect(barrier, STAGE);
            bring(to + ALL_X, &wide.w, w_row, 0, w_part, step * EACH, barrier);
            if (LOW) bring(to + ALL_XW, &wide.a, a_row, 0, 0, step * EACH, barrier);
        };
        auto bring_x = [&](int step, int slot) {
            if (!NORMED) bring(ring + slot * STAGE, &wide.x, row0, 0, 0, step * EACH, fulls + 8 * slot);
        };
#pragma unroll 1
        for (int step = 0; step < n_first; step++) bring_w(step, step);
        await_previous();
#pragma unroll 1
        for (int step = 0; step < n_first; step++) bring_x(step, step);
        int slot = 0, phase = 0;
#pragma unroll 1
        for (int step = n_first; step < n_steps; step++) {
            stage_wait(empties + 8 * slot, phase);
            bring_w(step, slot);
            bring_x(step, slot);
            if (++slot == n_stages) slot = 0, phase ^= 1;
        }
    }

    // The adapter's b, one row of it for a column.
    __device__ __forceinline__ void load_behind() {
#pragma unroll
        for (int j = 0; j < EIGHTS; j++) {
            int col = 8 * j + group, out = out0 + (gate ? col % (OUTS / 2) : col), w_row = out + (gate && col >= OUTS / 2 ? limit : 0);
            int which = stretch_of(wide.behind, w_row);
            bool there = out < limit;
            const u16 *b = which == 0 ? wide.behind.b[0] : which == 1 ? wide.behind.b[1] : wide.behind.b[2];
            const u16 *at = b + (i64)(w_row - (which == 0 ? 0 : which == 1 ? wide.behind.ends[0] : wide.behind.ends[1])) * 16 + 2 * quad;
            behind[j][0] = there ? *(const u32 *)at : 0, behind[j][1] = there ? *(const u32 *)(at + 8) : 0;
        }
    }

    // What a pair of sums is added to.
    __device__ __forceinline__ float2 there_at(int j, int i) const {
        int row = row_of(j, i), out = out_of(j, i);
        float2 found = make_float2(0.0f, 0.0f);
        if (out >= limit) return found;
        const float *at = wide.y + (i64)row * wide.y_stride + out;
        if (TURNED) {
            if (row < wide.rows) found.x = *at;
            if (row + 1 < wide.rows) found.y = at[wide.y_stride];
        } else if (row < wide.rows) {
            found = *(const float2 *)at;
        }
        return found;
    }

    __device__ __forceinline__ void multiply_all() {
        // Operands by the sixteens that their descriptions count.
        constexpr int LEFT = (TURNED ? CHUNK_W : CHUNK_X) / 16, RIGHT = (TURNED ? CHUNK_X : CHUNK_W) / 16, OF_X = NORMED ? EACH * CHUNK_X / 16 : STAGE / 16;
        const u64 x_first = operand((NORMED ? base : ring) + (TURNED ? 0 : (warp >> 2) * 64 * 128));
        const u64 w_first = operand(ring + ALL_X + (TURNED ? (warp >> 2) * 64 * 128 : 0)), a_first = operand(ring + ALL_XW);
        u64 x = x_first, w = w_first, a = a_first;
        int slot = 0, phase = 0, n_stages = wide.n_stages;
        for (int step = 0; step < n_steps; step++) {
            stage_wait(fulls + 8 * slot, phase);
            group_begin();
#pragma unroll
            for (int i = 0; i < 4 * EACH; i++) {
                u64 left = (TURNED ? w : x) + i / 4 * LEFT + i % 4 * 2, right = (TURNED ? x : w) + i / 4 * RIGHT + i % 4 * 2;
                group_multiply<BN>(sums, left, right, step + i > 0);
                if constexpr (LOW > 0) group_multiply<LOW>(lows, left, a + i / 4 * (LOW * 128 / 16) + i % 4 * 2, step + i > 0);
            }
            group_commit();
            group_wait<1>();
            // What was multiplied before this is done.
            if (step > 0 && lane == 0) barrier_arrive(empties + 8 * (slot == 0 ? n_stages - 1 : slot - 1));
            x += OF_X, w += STAGE / 16, a += STAGE / 16;
            if (++slot == n_stages) {
                slot = 0, phase ^= 1, w = w_first, a = a_first;
                if (!NORMED) x = x_first;
            }
        }
        group_wait<0>();
    }

    // The same of parts. A loop of its own, so that the compiler makes the one above as if there were no parts. Two sets of sums take turns:
    // those of a run are added while the first stage of the next one is multiplied. The low-rank part has no parts.
    __device__ __forceinline__ void multiply_parts() {
        constexpr int LEFT = (TURNED ? CHUNK_W : CHUNK_X) / 16, RIGHT = (TURNED ? CHUNK_X : CHUNK_W) / 16;
        const u64 x_first = operand(ring + (TURNED ? 0 : (warp >> 2) * 64 * 128));
        const u64 w_first = operand(ring + ALL_X + (TURNED ? (warp >> 2) * 64 * 128 : 0)), a_first = operand(ring + ALL_XW);
        u64 x = x_first, w = w_first, a = a_first;
        int slot = 0, phase = 0, n_stages = wide.n_stages, step = 0;
        // Multiplies the next stage, the one at `from` of its run. All stages before it are done then.
        auto multiply_stage = [&](float *to, int from) {
            stage_wait(fulls + 8 * slot, phase);
            group_begin();
#pragma unroll
            for (int i = 0; i < 4 * EACH; i++) {
                u64 left = (TURNED ? w : x) + i / 4 * LEFT + i % 4 * 2, right = (TURNED ? x : w) + i / 4 * RIGHT + i % 4 * 2;
                group_multiply<BN>(to, left, right, from + i > 0);
                if constexpr (LOW > 0) group_multiply<LOW>(lows, left, a + i / 4 * (LOW * 128 / 16) + i % 4 * 2, step + i > 0);
            }
            group_commit();
            group_wait<1>();
            if (step > 0 && lane == 0) barrier_arrive(empties + 8 * (slot == 0 ? n_stages - 1 : slot - 1));
            x += STAGE / 16, w += STAGE / 16, a += STAGE / 16, step++;
            if (++slot == n_stages) slot = 0, phase ^= 1, x = x_first, w = w_first, a = a_first;
        };
        // The runs of a part that were added, which end at a stage. What begins as -0 becomes the first that is added, to the bit.
        float of_part[BN / 2], others[BN / 2];
#pragma unroll
        for (int i = 0; i < BN / 2; i++) of_part[i] = -0.0f;
        int run_end = 0, part_end = wide.part;
        auto add_run = [&](float *run) {
            await_sums(run);
#pragma unroll
            for (int i = 0; i < BN / 2; i++) of_part[i] = __fadd_rn(of_part[i], run[i]);
            if ((run_end += wide.run) < part_end) return;
            part_end += wide.part;
            add_part(of_part);
        };
        auto multiply_run = [&](float *to, float *before) {
            multiply_stage(to, 0);
            add_run(before);
            for (int from = 1; from < wide.run; from++) multiply_stage(to, from);
        };
        for (int from = 0; from < wide.run; from++) multiply_stage(sums, from);
        while (step < n_steps) {
            multiply_run(others, sums);
            if (step == n_steps) {
                group_wait<0>();
                return end_part(of_part, others);
            }
            multiply_run(sums, others);
        }
        group_wait<0>();
        end_part(of_part, sums);
    }

    // To the compiler, sums are there before they were waited for.
    __device__ __forceinline__ void await_sums(float *of) const {
#pragma unroll
        for (int i = 0; i < BN / 2; i++) asm volatile("" : "+f"(of[i]));
    }

    // Adds a part to what is there, and begins another.
    __device__ __forceinline__ void add_part(float *part) {
#pragma unroll
        for (int j = 0; j < EIGHTS; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float2 &there = old[EARLY ? j : 0][i];
                float *of = part + 4 * j + 2 * i;
                there = make_float2(__fadd_rn(there.x, of[0]), __fadd_rn(there.y, of[1]));
                of[0] = -0.0f, of[1] = -0.0f;
            }
    }

    // The sums of the last part, of which the last run is missing: they are added as all others are.
    __device__ __forceinline__ void end_part(const float *part, float *run) {
        await_sums(run);
#pragma unroll
        for (int i = 0; i < BN / 2; i++) sums[i] = __fadd_rn(part[i], run[i]);
    }

    // Adds what is there, and then the low-rank part, which is a product of its own, as in the general pass.
    __device__ __forceinline__ void add() {
        if (wide.mode == ADD)
#pragma unroll
            for (int j = 0; j < EIGHTS; j++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float2 there = EARLY ? old[EARLY ? j : 0][i] : there_at(j, i);
                    float *sum = sums + 4 * j + 2 * i;
                    sum[0] = __fadd_rn(there.x, sum[0]), sum[1] = __fadd_rn(there.y, sum[1]);
                }
        if constexpr (LOW > 0) {
            u32 low[LOW / 16][4];
#pragma unroll
            for (int i = 0; i < LOW / 4; i++) low[i / 4][i % 4] = pack(lows[2 * i] * wide.behind.scale, lows[2 * i + 1] * wide.behind.scale);
#pragma unroll
            for (int j = 0; j < EIGHTS; j++) {
                float added[4] = {};
                multiply(added, low[LOW > 16 && j >= GATES ? LOW / 16 - 1 : 0], behind[j]);
#pragma unroll
                for (int i = 0; i < 4; i++) sums[4 * j + i] = __fadd_rn(sums[4 * j + i], added[i]);
            }
        }
    }

    __device__ __forceinline__ void write_gated() const {
#pragma unroll
        for (int j = 0; j < GATES; j++)
#pragma unroll
            for (int i = 0; i < GATE_ROWS; i++) {
                int row = row_of(j, i), out = gate_of(j);
                if (out >= limit || row >= wide.rows) continue;
                const float *gates = sums + 4 * j + 2 * i, *ups = TURNED ? gates + 2 : gates + 4 * GATES;
                u16 *at = wide.act + (i64)row * wide.y_stride + out;
                u32 two = pack(gated(gates[0], ups[0]), gated(gates[1], ups[1]));
                if (!TURNED) {
                    *(u32 *)at = two;
                } else {
                    *at = (u16)two;
                    if (row + 1 < wide.rows) at[wide.y_stride] = (u16)(two >> 16);
                }
            }
    }

    __device__ __forceinline__ void write() const {
#pragma unroll
        for (int j = 0; j < EIGHTS; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int row = row_of(j, i), out = out_of(j, i);
                if (out >= limit || row >= wide.rows) continue;
                float *at = wide.y + (i64)row * wide.y_stride + out, first = sums[4 * j + 2 * i], second = sums[4 * j + 2 * i + 1];
                if (!TURNED) {
                    *(float2 *)at = make_float2(first, second);
                } else {
                    *at = first;
                    if (row + 1 < wide.rows) at[wide.y_stride] = second;
                }
            }
    }

    // The part of a group of warps. Whatever does not need the kernel in front is done before that one is waited for.
    __device__ __forceinline__ void compute(char *normed) {
        if (LOW) load_behind();
        if (NORMED) {
            constexpr int WARPS = 4 * GROUPS, OF_WARP = X_ROWS / WARPS;
            norm_into<X_ROWS, WARPS, OF_WARP < 4 ? OF_WARP : 4>(normed, wide, row0, n_steps * EACH);
            before_copies();
            asm volatile("bar.sync 1, %0;" ::"n"(32 * WARPS) : "memory");
        } else {
            await_previous();
        }
        if (EARLY && wide.mode == ADD)
#pragma unroll
            for (int j = 0; j < EIGHTS; j++) old[EARLY ? j : 0][0] = there_at(j, 0), old[EARLY ? j : 0][1] = there_at(j, 1);
        if constexpr (PARTS) multiply_parts();
        else multiply_all();
        add();
        if (gate) write_gated();
        else write();
    }
};

template <int GROUPS, int LEFT_ROWS, int BN, int EACH, bool TURNED, bool NORMED, int LOW, bool PARTS>
__device__ __forceinline__ void wide_product(const Wide &wide) {
    extern __shared__ uint4 memory[];
    __shared__ u64 full[STAGES_MAX], empty[STAGES_MAX];
    Block<GROUPS, LEFT_ROWS, BN, EACH, TURNED, NORMED, LOW, PARTS> block(wide, full, empty, memory);
    let_next_start();
    if (threadIdx.x < wide.n_stages) {
        barrier_init(block.fulls + 8 * threadIdx.x, 1);
        barrier_init(block.empties + 8 * threadIdx.x, 4 * GROUPS);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (block.warp < 4 * GROUPS) block.compute((char *)memory + (block.base - shared_address(memory)));
    else if (one_of_warp()) block.bring_all();
}

#define WIDE(NAME, GROUPS, LEFT_ROWS, BN, EACH, TURNED, NORMED, LOW, PARTS)                                      \
    extern "C" __global__ void __launch_bounds__(128 * GROUPS + 32, 1) NAME(const __grid_constant__ Wide wide) { \
        wide_product<GROUPS, LEFT_ROWS, BN, EACH, TURNED, NORMED, LOW, PARTS>(wide);                             \
    }
