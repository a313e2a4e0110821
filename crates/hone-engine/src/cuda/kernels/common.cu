// What all kernels share: bf16 by its bits, sums over a warp and a block, the tensor core's instructions.
// Every result is a function of its own inputs in a fixed order: no sum of floats by atomics, no order that depends on the grid.

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define FULL 0xffffffffu
#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f
#define NEVER (-1e30f)
#define PAGE 16

__device__ __forceinline__ float of_bf16(u16 x) { return __uint_as_float((u32)x << 16); }

__device__ __forceinline__ u32 pack(float low, float high) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ __forceinline__ u16 to_bf16(float x) { return (u16)pack(x, 0.0f); }

__device__ __forceinline__ float power2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) x += __shfl_xor_sync(FULL, x, step);
    return x;
}

// The sum over a block; every thread gets it. `room` holds one float per warp.
__device__ __forceinline__ float block_sum(float x, float *room) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, n_warps = blockDim.x >> 5;
    x = warp_sum(x);
    if (n_warps == 1) return x;
    if (lane == 0) room[warp] = x;
    __syncthreads();
    float sum = 0.0f;
    for (int i = 0; i < n_warps; i++) sum += room[i];
    __syncthreads();
    return sum;
}

// Fours of a row that one lane may hold: rows of up to 1024 for a warp, 8192 for a block.
#define HELD 8

// What happens to a sum of a product.
#define SET 0
#define ADD 1
#define GATE 2
#define ROUND 3

__device__ __forceinline__ float dot4(float4 a, float4 b, float sum) {
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + power2(-LOG2E * x)); }

__device__ __forceinline__ float gated(float gate, float up) { return __fmul_rn(__fmul_rn(gate, sigmoid(gate)), up); }

// A pair of a head, turned.
__device__ __forceinline__ void rotate(float a, float b, float cosine, float sine, float *first, float *second) {
    *first = __fmaf_rn(a, cosine, -__fmul_rn(b, sine));
    *second = __fmaf_rn(b, cosine, __fmul_rn(a, sine));
}

// Element d of a row of keys or values lies at `d ^ turn(row, width)`, in its page and in shared memory alike: eighths of a row are
// exchanged by its number, so that eight rows of a column are in different banks though there are no gaps between rows.
__device__ __forceinline__ int turn(int row, int width) {
    return (width % 64 == 0 ? row & 7 : width % 32 == 0 ? row >> 1 & 3 : row >> 2 & 1) * 8;
}

// The kernel behind this one may start now; what it does before `await` must not need this one's results.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Waits until the kernel before this one is done; without an early start it is done already.
__device__ __forceinline__ void await_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Eight or sixteen bytes at once: behind a branch, the compiler takes a structure's parts one by one.
__device__ __forceinline__ void store2(void *to, u32 x, u32 y) { asm volatile("st.global.v2.u32 [%0], {%1,%2};" ::"l"(to), "r"(x), "r"(y) : "memory"); }

__device__ __forceinline__ void store4(float *to, float4 x) {
    asm volatile("st.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(to), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w) : "memory");
}

// d += a·b for a 16×16 a, a 16×8 b.
__device__ __forceinline__ void multiply(float *d, const u32 *a, const u32 *b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ u32 shared_address(const void *pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// Four 8×8 matrices from shared memory, each lane giving the address of one row.
__device__ __forceinline__ void load4(u32 *r, const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void load4_turned(u32 *r, const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void load4_at(u32 *r, u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void fetch16_at(u32 to, const void *from, bool there) {
    int n = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(n));
}

// Sixteen bytes to shared memory without waiting; zeros where `there` is false.
__device__ __forceinline__ void fetch16(void *to, const void *from, bool there) {
    int n = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(n));
}

__device__ __forceinline__ void fetch_commit() { asm volatile("cp.async.commit_group;"); }

template <int N>
__device__ __forceinline__ void fetch_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N));
}

// ---- barriers in shared memory: so many arrive, and whoever waits goes on; each turn has the other parity

__device__ __forceinline__ void barrier_init(u32 barrier, u32 n) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(n) : "memory");
}

__device__ __forceinline__ void barrier_arrive(u32 barrier) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(barrier) : "memory");
}

// Waits until the turn of this parity is over.
__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
    u32 done = 0;
    while (!done)
#if __CUDA_ARCH__ >= 900
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
#else
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
#endif
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
}

#if __CUDA_ARCH__ >= 900
// Arrives in place of so many.
__device__ __forceinline__ void barrier_arrive_for(u32 barrier, u32 n) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(n) : "memory");
}

// Arrives, and lets so many bytes arrive with it.
__device__ __forceinline__ void barrier_expect(u32 barrier, u32 n_bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(n_bytes) : "memory");
}

// ---- how long the cache keeps what the copy engine brings: what leaves first is not asked for again soon, what clings leaves last

__device__ __forceinline__ u64 passing() {
    u64 policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ __forceinline__ u64 staying() {
    u64 policy;
    asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ __forceinline__ u64 clinging() {
    u64 policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
#endif

// What threads wrote to shared memory comes before what the copy engine writes there, and what groups of warps read.
__device__ __forceinline__ void before_copies() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
    __threadfence_block();
#endif
}
